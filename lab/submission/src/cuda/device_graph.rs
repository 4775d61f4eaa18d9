//! Small graph that launches the network's graph from the GPU.
//!
//! The network's graph holds the copies, too: graphs that the GPU launches may copy between its own
//! and pinned memory. The small graph ends with what it launched.

use super::driver::{Gpu, Module};
use super::graph::{self, Chain, Exec, Graph};
use super::layer::{Kernel, Layer};
use super::link::Image;
use super::memory::Failure;
use super::session::{Handover, InStream, Session};
use crate::method::Steps;
use crate::network::Network;
use crate::{Error, Run};
use cudarc::driver::sys::{CUdeviceptr, CUgraphExec, CUgraphInstantiate_flags};

const DEVICE_LAUNCH: u64 =
    CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH.0 as u64;
pub(super) const PTX: &str = include_str!("../../kernels/launcher.ptx");

pub(super) fn build<'a>(
    gpu: &'a Gpu,
    network: &Network,
    image: &Image,
    steps: &mut Steps,
) -> Result<Box<dyn Run + 'a>, Error> {
    let (mut layer, module) = steps.step("compile", || {
        Ok::<_, Error>((Layer::new(network.shape)?, Module::from_image(image)?))
    })?;
    let (session, failure) =
        steps.step("allocate", || Ok::<_, Error>((Session::new(network)?, Failure::new()?)))?;
    layer.place(session.memory.at);
    let inner =
        steps.step("record", || graph::whole(gpu, &session.memory, &mut layer, network.shape.l))?;
    let inner_exec = steps.step("instantiate", || inner.instantiate(DEVICE_LAUNCH))?;
    // Without this the GPU does not know the graph.
    steps.step("upload", || inner_exec.upload(&session.stream))?;
    let outer = steps.step("record", || launcher(gpu, &module, &inner_exec, &failure))?;
    let exec = steps.step("instantiate", || outer.instantiate(0))?;
    steps.step("upload", || exec.upload(&session.stream))?;
    let launched = Launched {
        exec,
        failure,
        _inner_exec: inner_exec,
        _graphs: [outer, inner],
        _layer: layer,
        _module: module,
    };
    Ok(InStream::boxed(gpu, session, launched))
}

/// The graph of the one kernel that launches the other graph.
fn launcher(gpu: &Gpu, module: &Module, inner: &Exec, failure: &Failure) -> Result<Graph, Error> {
    let kernel = Kernel::single(module.function("ks_launcher")?);
    let graph = Graph::new()?;
    let mut inner: CUgraphExec = inner.0;
    let mut failure: CUdeviceptr = failure.pointer();
    let mut parameters = [(&raw mut inner).cast(), (&raw mut failure).cast()];
    // SAFETY: what the kernel takes; both outlive the stream in which the graph is launched.
    unsafe { Chain::new(gpu, graph.0).kernel(kernel, &mut parameters)? };
    Ok(graph)
}

struct Launched {
    exec: Exec,
    failure: Failure,
    _inner_exec: Exec,
    _graphs: [Graph; 2],
    _layer: Layer,
    _module: Module,
}

impl Handover for Launched {
    fn submit(&mut self, session: &Session) -> Result<(), Error> {
        self.exec.launch(&session.stream)
    }

    fn check(&self) -> Result<(), Error> {
        self.failure.check("launching the graph from the GPU")
    }
}

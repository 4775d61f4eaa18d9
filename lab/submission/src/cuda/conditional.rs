//! Graph with a loop, whose body is one layer and the kernel that counts.

use super::driver::{Gpu, Module, guarded};
use super::graph::{Chain, Exec, Graph};
use super::layer::{Kernel, Layer};
use super::link::Image;
use super::memory::{DeviceMemory, Memory};
use super::session::{Handover, InStream, Session};
use crate::method::Steps;
use crate::network::Network;
use crate::{Error, Run};
use cudarc::driver::sys;
use std::ptr::null_mut;

pub(super) const PTX: &str = include_str!("../../kernels/loop.ptx");

pub(super) fn build<'a>(
    gpu: &'a Gpu,
    network: &Network,
    image: &Image,
    steps: &mut Steps,
) -> Result<Box<dyn Run + 'a>, Error> {
    let (layer, module) = steps.step("compile", || {
        Ok::<_, Error>((Layer::new(network.shape)?, Module::from_image(image)?))
    })?;
    let (session, count) = steps.step("allocate", || {
        let session = Session::new(network)?;
        let count = DeviceMemory::zeroed(size_of::<u32>(), &session.stream)?;
        Ok::<_, Error>((session, count))
    })?;
    let mut body = Body {
        layer,
        counter: Kernel::single(module.function("ks_count")?),
        count,
        layers: network.shape.l as u32,
        _module: module,
    };
    body.layer.place(session.memory.at);
    let graph = steps.step("record", || whole(gpu, &session.memory, &mut body))?;
    let exec = steps.step("instantiate", || graph.instantiate(0))?;
    steps.step("upload", || exec.upload(&session.stream))?;
    Ok(InStream::boxed(gpu, session, Launched { exec, _graph: graph, _body: body }))
}

/// Body of the loop.
struct Body {
    layer: Layer,
    counter: Kernel,
    /// Rounds so far; zero between submissions.
    count: DeviceMemory,
    layers: u32,
    _module: Module,
}

/// The uploads, the loop, the downloads.
fn whole(gpu: &Gpu, memory: &Memory, body: &mut Body) -> Result<Graph, Error> {
    let graph = Graph::new()?;
    let mut condition: sys::CUgraphConditionalHandle = 0;
    guarded("making the loop's condition", || {
        // SAFETY: the graph lives; it writes the handle. The first round always takes place.
        unsafe {
            let (place, set) = (&raw mut condition, sys::CU_GRAPH_COND_ASSIGN_DEFAULT);
            sys::cuGraphConditionalHandleCreate(place, graph.0, gpu.context, 1, set).result()
        }
    })?;
    let mut chain = Chain::new(gpu, graph.0);
    chain.uploads(memory)?;
    let inside = add_loop(gpu, &mut chain, condition)?;
    chain.downloads(memory)?;
    // The body is the loop's, and goes with it.
    let mut rounds = Chain::new(gpu, inside);
    rounds.layer(&mut body.layer)?;
    let mut parameters = [
        (&raw mut body.count.pointer).cast(),
        (&raw mut body.layers).cast(),
        (&raw mut condition).cast(),
    ];
    // SAFETY: what the kernel takes; the count outlives the stream in which the graph is launched.
    unsafe { rounds.kernel(body.counter, &mut parameters)? };
    Ok(graph)
}

/// Adds a loop, and gives the graph that is its body.
fn add_loop(
    gpu: &Gpu,
    chain: &mut Chain,
    condition: sys::CUgraphConditionalHandle,
) -> Result<sys::CUgraph, Error> {
    let conditional = sys::CUDA_CONDITIONAL_NODE_PARAMS {
        handle: condition,
        type_: sys::CUgraphConditionalNodeType::CU_GRAPH_COND_TYPE_WHILE,
        size: 1,
        phGraph_out: null_mut(),
        ctx: gpu.context,
    };
    // SAFETY: numbers and pointers, of which all may be zero.
    let mut node: sys::CUgraphNodeParams = unsafe { std::mem::zeroed() };
    node.type_ = sys::CUgraphNodeType::CU_GRAPH_NODE_TYPE_CONDITIONAL;
    node.__bindgen_anon_1.conditional = conditional;
    chain.add("adding the loop to the graph", |place, graph, follows, count| {
        // SAFETY: the graph lives, and has the condition; it writes where the bodies are.
        unsafe { sys::cuGraphAddNode(place, graph, follows, count, &raw mut node) }
    })?;
    // SAFETY: the driver has written where the one body is.
    unsafe {
        let bodies = node.__bindgen_anon_1.conditional.phGraph_out;
        if bodies.is_null() {
            return Err(Error::failed("adding the loop to the graph", "it has no body"));
        }
        Ok(*bodies)
    }
}

struct Launched {
    exec: Exec,
    _graph: Graph,
    _body: Body,
}

impl Handover for Launched {
    fn submit(&mut self, session: &Session) -> Result<(), Error> {
        self.exec.launch(&session.stream)
    }
}

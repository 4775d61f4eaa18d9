//! Graph of all copies and kernels; and how graphs are made.

use super::driver::{Gpu, Stream, check, guarded};
use super::layer::{Kernel, Layer};
use super::memory::{Copy, Memory};
use super::session::{Handover, InStream, Session};
use crate::method::Steps;
use crate::network::Network;
use crate::{Error, Run};
use cudarc::driver::sys;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

pub(super) fn build<'a>(
    gpu: &'a Gpu,
    network: &Network,
    steps: &mut Steps,
) -> Result<Box<dyn Run + 'a>, Error> {
    let mut layer = steps.step("compile", || Layer::new(network.shape))?;
    let session = steps.step("allocate", || Session::new(network))?;
    layer.place(session.memory.at);
    let graph =
        steps.step("record", || whole(gpu, &session.memory, &mut layer, network.shape.l))?;
    let exec = steps.step("instantiate", || graph.instantiate(0))?;
    steps.step("upload", || exec.upload(&session.stream))?;
    Ok(InStream::boxed(gpu, session, Launched { exec, _graph: graph, _layer: layer }))
}

/// The graph of a whole network.
pub(super) fn whole(
    gpu: &Gpu,
    memory: &Memory,
    layer: &mut Layer,
    layers: usize,
) -> Result<Graph, Error> {
    let graph = Graph::new()?;
    let mut chain = Chain::new(gpu, graph.0);
    chain.uploads(memory)?;
    for _ in 0..layers {
        chain.layer(layer)?;
    }
    chain.downloads(memory)?;
    Ok(graph)
}

/// Executable graph.
struct Launched {
    exec: Exec,
    _graph: Graph,
    _layer: Layer,
}

impl Handover for Launched {
    fn submit(&mut self, session: &Session) -> Result<(), Error> {
        self.exec.launch(&session.stream)
    }
}

/// A graph.
pub(super) struct Graph(pub sys::CUgraph);

impl Graph {
    pub(super) fn new() -> Result<Graph, Error> {
        let mut graph = null_mut();
        // SAFETY: it writes the handle.
        let create = || unsafe { sys::cuGraphCreate(&raw mut graph, 0).result() };
        guarded("making a graph", create)?;
        Ok(Graph(graph))
    }

    /// Makes it executable; the flags are the driver's.
    pub(super) fn instantiate(&self, flags: u64) -> Result<Exec, Error> {
        let mut exec = null_mut();
        let mut how = sys::CUDA_GRAPH_INSTANTIATE_PARAMS {
            flags,
            hUploadStream: null_mut(),
            hErrNode_out: null_mut(),
            result_out: sys::CUgraphInstantiateResult::CUDA_GRAPH_INSTANTIATE_SUCCESS,
        };
        let made = guarded("instantiating the graph", || {
            // SAFETY: the graph lives; it writes the handle, and what is wrong with the graph.
            unsafe {
                let (place, how) = (&raw mut exec, &raw mut how);
                sys::cuGraphInstantiateWithParams(place, self.0, how).result()
            }
        });
        match made {
            Ok(()) => Ok(Exec(exec)),
            // The added result says why, for one, a graph cannot be launched from the GPU.
            Err(Error::Failed { doing, why }) => {
                Err(Error::Failed { doing, why: format!("{why}, {:?}", how.result_out) })
            }
            Err(error) => Err(error),
        }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: it was made here; executable graphs do not need it.
        let _ = guarded("ending a graph", || unsafe { sys::cuGraphDestroy(self.0).result() });
    }
}

/// An executable graph.
pub(super) struct Exec(pub sys::CUgraphExec);

impl Exec {
    /// Puts it on the GPU, and waits for that.
    pub(super) fn upload(&self, stream: &Stream) -> Result<(), Error> {
        // SAFETY: both live.
        let upload = || unsafe { sys::cuGraphUpload(self.0, stream.0).result() };
        guarded("uploading the graph", upload)?;
        stream.drain()
    }

    /// Puts it into a stream.
    pub(super) fn launch(&self, stream: &Stream) -> Result<(), Error> {
        // SAFETY: both live.
        check("launching the graph", unsafe { sys::cuGraphLaunch(self.0, stream.0) })
    }
}

impl Drop for Exec {
    fn drop(&mut self) {
        // SAFETY: it was made here, and the stream that it was in is drained.
        let _ = guarded("ending a graph", || unsafe { sys::cuGraphExecDestroy(self.0).result() });
    }
}

/// Adds nodes to a graph, each behind the one before it.
pub(super) struct Chain {
    context: sys::CUcontext,
    graph: sys::CUgraph,
    last: Option<sys::CUgraphNode>,
}

impl Chain {
    /// Chain in a graph that lives as long as this.
    pub(super) fn new(gpu: &Gpu, graph: sys::CUgraph) -> Chain {
        Chain { context: gpu.context, graph, last: None }
    }

    /// Adds a node by a function that takes its place, the graph, what it follows, and how many
    /// these are.
    pub(super) fn add(
        &mut self,
        doing: &'static str,
        add: impl FnOnce(
            *mut sys::CUgraphNode,
            sys::CUgraph,
            *const sys::CUgraphNode,
            usize,
        ) -> sys::CUresult,
    ) -> Result<(), Error> {
        let mut node = null_mut();
        let follows = self.last.as_ref().map_or(null(), std::ptr::from_ref);
        let count = usize::from(self.last.is_some());
        guarded(doing, || add(&raw mut node, self.graph, follows, count).result())?;
        self.last = Some(node);
        Ok(())
    }

    /// Adds a kernel.
    ///
    /// # Safety
    /// The parameters are those of the kernel, in order; what they point to lives as long as the
    /// graph is launched.
    pub(super) unsafe fn kernel(
        &mut self,
        kernel: Kernel,
        parameters: &mut [*mut c_void],
    ) -> Result<(), Error> {
        let node = sys::CUDA_KERNEL_NODE_PARAMS {
            func: kernel.function,
            gridDimX: kernel.grid,
            gridDimY: kernel.grid,
            gridDimZ: 1,
            blockDimX: kernel.block,
            blockDimY: kernel.block,
            blockDimZ: 1,
            sharedMemBytes: 0,
            kernelParams: parameters.as_mut_ptr(),
            extra: null_mut(),
            kern: null_mut(),
            ctx: null_mut(),
        };
        self.add("adding a kernel to the graph", |place, graph, follows, count| {
            // SAFETY: the caller's promise; the driver copies the parameters now.
            unsafe { sys::cuGraphAddKernelNode_v2(place, graph, follows, count, &raw const node) }
        })
    }

    /// Adds the kernels of a layer.
    pub(super) fn layer(&mut self, layer: &mut Layer) -> Result<(), Error> {
        let mut parameters = layer.parameters();
        for kernel in layer.kernels {
            // SAFETY: the kernels take these; the network's memory outlives the stream in which
            // the graph is launched.
            unsafe { self.kernel(kernel, &mut parameters)? };
        }
        Ok(())
    }

    /// Adds the four uploads.
    pub(super) fn uploads(&mut self, memory: &Memory) -> Result<(), Error> {
        memory.uploads.iter().try_for_each(|copy| self.copy(copy, true))
    }

    /// Adds the two downloads.
    pub(super) fn downloads(&mut self, memory: &Memory) -> Result<(), Error> {
        memory.downloads.iter().try_for_each(|copy| self.copy(copy, false))
    }

    fn copy(&mut self, copy: &Copy, up: bool) -> Result<(), Error> {
        let node = if up { upload_of(copy) } else { download_of(copy) };
        let context = self.context;
        self.add("adding a copy to the graph", |place, graph, follows, count| {
            // SAFETY: both ends are so long, and outlive the stream in which the graph is launched.
            unsafe {
                sys::cuGraphAddMemcpyNode(place, graph, follows, count, &raw const node, context)
            }
        })
    }
}

/// A line of bytes, from one kind of memory to another; where it begins is still to be said.
fn line(bytes: usize, from: sys::CUmemorytype, to: sys::CUmemorytype) -> sys::CUDA_MEMCPY3D {
    sys::CUDA_MEMCPY3D {
        srcXInBytes: 0,
        srcY: 0,
        srcZ: 0,
        srcLOD: 0,
        srcMemoryType: from,
        srcHost: null(),
        srcDevice: 0,
        srcArray: null_mut(),
        reserved0: null_mut(),
        srcPitch: bytes,
        srcHeight: 1,
        dstXInBytes: 0,
        dstY: 0,
        dstZ: 0,
        dstLOD: 0,
        dstMemoryType: to,
        dstHost: null_mut(),
        dstDevice: 0,
        dstArray: null_mut(),
        reserved1: null_mut(),
        dstPitch: bytes,
        dstHeight: 1,
        WidthInBytes: bytes,
        Height: 1,
        Depth: 1,
    }
}

use sys::CUmemorytype::{CU_MEMORYTYPE_DEVICE as DEVICE, CU_MEMORYTYPE_HOST as HOST};

fn upload_of(copy: &Copy) -> sys::CUDA_MEMCPY3D {
    let line = line(copy.host.bytes, HOST, DEVICE);
    sys::CUDA_MEMCPY3D { srcHost: copy.host.start, dstDevice: copy.device, ..line }
}

fn download_of(copy: &Copy) -> sys::CUDA_MEMCPY3D {
    let line = line(copy.host.bytes, DEVICE, HOST);
    sys::CUDA_MEMCPY3D { srcDevice: copy.device, dstHost: copy.host.start, ..line }
}

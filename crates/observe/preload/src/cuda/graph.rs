//! Graphs: what is in them, and whether calls go into one instead of to the device.

use super::driver::{Other, other};
use super::{Arguments, SUCCESS};
use crate::thread::Thread;
use record::cuda::FUNCTIONS;
use record::{Kind, clock};
use rustix::mm::{MapFlags, ProtFlags};
use std::mem::transmute;
use std::sync::atomic::{AtomicI32, Ordering};

/// Captures that have begun and not ended, in this process.
static CAPTURES: AtomicI32 = AtomicI32::new(0);
/// Deepest nesting of child graphs that is counted.
const DEPTH: u32 = 8;

/// Effect of a function on captures.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Capturing {
    Begins,
    Ends,
    Nothing,
}

impl Capturing {
    /// Returns the effect of the function of this name, without version and variant.
    pub(crate) fn of(base: &str) -> Capturing {
        match base {
            "cuStreamBeginCapture"
            | "cuStreamBeginCaptureToGraph"
            | "cuStreamBeginRecaptureToGraph"
            | "cuStreamBeginCaptureToCig" => Capturing::Begins,
            "cuStreamEndCapture" | "cuStreamEndCaptureToCig" => Capturing::Ends,
            _ => Capturing::Nothing,
        }
    }

    /// Called before the driver: a capture may be under way from here on.
    pub(crate) fn before(self) {
        if self == Capturing::Begins {
            // SeqCst: a thread that asks the driver about a stream either sees this or is seen.
            CAPTURES.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Called after the driver has answered.
    pub(crate) fn after(self, result: u32) {
        // Of a capture that ends with one of these nothing is left either.
        const INVALIDATED: u32 = 901;
        const UNJOINED: u32 = 904;
        let is_over = match self {
            Capturing::Begins => result != SUCCESS,
            Capturing::Ends => matches!(result, SUCCESS | INVALIDATED | UNJOINED),
            Capturing::Nothing => false,
        };
        if is_over {
            CAPTURES.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Returns true if anything is captured just now.
pub(crate) fn captures() -> bool {
    CAPTURES.load(Ordering::SeqCst) > 0
}

/// Returns true if work on this stream is captured just now. Costs nothing while nothing is.
pub(crate) fn is_captured(thread: &Thread, number: usize, stream: u64) -> bool {
    let per_thread = super::is_per_thread(FUNCTIONS[number].symbol);
    let which =
        if per_thread { Other::StreamIsCapturingPerThread } else { Other::StreamIsCapturing };
    captures() && ask(thread, which, stream).unwrap_or(false)
}

/// The same for a stream that the program made; None when the driver does not tell.
pub(crate) fn is_stream_captured(thread: &Thread, stream: u64) -> Option<bool> {
    ask(thread, Other::StreamIsCapturing, stream)
}

fn ask(thread: &Thread, which: Other, stream: u64) -> Option<bool> {
    type IsCapturing = unsafe extern "C-unwind" fn(u64, *mut u32) -> u32;
    let address = other(which)?;
    let mut status = 0;
    // SAFETY: the function has this signature; the stream is one that the program is about to
    // use, or that it has not destroyed. Asking about the legacy stream while another captures is
    // answered with an error.
    let result = thread
        .quietly(|| unsafe { transmute::<usize, IsCapturing>(address)(stream, &raw mut status) });
    (result == SUCCESS).then_some(status != 0)
}

/// Counts the nodes of a graph that has just become executable, and records the counts.
///
/// # Safety
/// The call of function `number` with these arguments must have succeeded.
pub(crate) unsafe fn built(thread: &'static Thread, number: usize, arguments: &Arguments) {
    let [executable, graph, ..] = *arguments;
    if !FUNCTIONS[number].base.starts_with("cuGraphInstantiate") || executable == 0 {
        return;
    }
    let mut nodes = Nodes::default();
    // SAFETY: the graph is the one that was instantiated.
    thread.quietly(|| unsafe { nodes.add(graph, DEPTH) });
    // SAFETY: the driver has just stored the handle there.
    let executable = unsafe { (executable as *const u64).read_unaligned() };
    let detail = u64::from(nodes.copies) << 32 | u64::from(nodes.memsets);
    thread.record(clock::now(), Kind::Graph, executable, detail, nodes.kernels);
}

/// Nodes of a graph by what they do.
#[derive(Default)]
struct Nodes {
    kernels: u32,
    copies: u32,
    memsets: u32,
}

// CUgraphNodeType
const KERNEL: u32 = 0;
const COPY: u32 = 1;
const MEMSET: u32 = 2;
const CHILD: u32 = 4;

impl Nodes {
    /// Adds a graph's nodes and those of its child graphs.
    ///
    /// # Safety
    /// `graph` must be a graph.
    unsafe fn add(&mut self, graph: usize, depth: u32) {
        type GetNodes = unsafe extern "C-unwind" fn(usize, *mut usize, *mut usize) -> u32;
        type GetType = unsafe extern "C-unwind" fn(usize, *mut u32) -> u32;
        type GetGraph = unsafe extern "C-unwind" fn(usize, *mut usize) -> u32;
        let (Some(nodes), Some(kind)) =
            (other(Other::GraphGetNodes), other(Other::GraphNodeGetType))
        else {
            return;
        };
        // SAFETY: the driver's functions of these names have these signatures.
        let (get_nodes, get_type) =
            unsafe { (transmute::<usize, GetNodes>(nodes), transmute::<usize, GetType>(kind)) };
        let get_graph = |node, inner: &mut usize| {
            let Some(child) = other(Other::GraphChildGraphNodeGetGraph) else { return false };
            // SAFETY: as above; the node is a child graph's.
            unsafe { transmute::<usize, GetGraph>(child)(node, inner) == SUCCESS }
        };
        let mut count = 0;
        // SAFETY: asked without an array, the driver stores the number of nodes.
        let counted = unsafe { get_nodes(graph, std::ptr::null_mut(), &raw mut count) };
        if counted != SUCCESS || count == 0 || depth == 0 {
            return;
        }
        let bytes = count * size_of::<usize>();
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: fresh private memory for the handles; a hook does not use the heap.
        let memory = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), bytes, access, MapFlags::PRIVATE)
        };
        let Ok(memory) = memory else { return };
        let handles = memory.cast::<usize>();
        // SAFETY: the array has room for `count` handles; each handle is a node of the graph.
        unsafe {
            if get_nodes(graph, handles, &raw mut count) == SUCCESS {
                for at in 0..count.min(bytes / size_of::<usize>()) {
                    let (node, mut kind, mut inner) = (*handles.add(at), u32::MAX, 0);
                    let _ = get_type(node, &raw mut kind);
                    match kind {
                        KERNEL => self.kernels += 1,
                        COPY => self.copies += 1,
                        MEMSET => self.memsets += 1,
                        CHILD if get_graph(node, &mut inner) => self.add(inner, depth - 1),
                        _ => {}
                    }
                }
            }
            let _ = rustix::mm::munmap(memory, bytes);
        }
    }
}

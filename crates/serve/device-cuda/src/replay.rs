//! Requests that come again are launched as one graph.
//!
//! A client usually sends the same request again and again: the same kernel, arguments and memory.
//! A request that is seen for the second time is captured with its copies and kernels; from then on
//! it is one launch. The second time takes longer for it, by the instantiation of the graph.

use cudarc::driver::{DriverError, sys};
use std::collections::VecDeque;

/// Graphs that a unit keeps; the one that was not used for longest goes first.
const MOST: usize = 64;
/// Requests that a unit remembers to have seen once.
const SEEN: usize = 64;

/// Properties that make two requests the same, on one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Key {
    /// Number of the kernel.
    pub kernel: u32,
    /// Level of the stream.
    pub level: u8,
    /// Its arguments.
    pub arguments: [u64; 4],
    /// The client's memory: the number of its registration, the offset in it, and the length.
    pub input: (u64, usize, usize),
    /// Output, in the form of `input`.
    pub output: (u64, usize, usize),
}

/// The graphs of a unit.
#[derive(Default)]
pub(crate) struct Replays {
    /// The last one was used last.
    graphs: Vec<(Key, Graph)>,
    seen: VecDeque<Key>,
    /// Kernels that cannot be captured.
    refused: Vec<u32>,
}

/// Way to run a request.
pub(crate) enum Advice {
    /// Launch this.
    Launch(sys::CUgraphExec),
    /// Capture it, and keep the graph.
    Capture,
    /// Submit its parts.
    Submit,
}

/// An instantiated graph.
pub(crate) struct Graph(sys::CUgraphExec);

impl Replays {
    /// Returns the way to run a request.
    pub(crate) fn advise(&mut self, key: &Key) -> Advice {
        if let Some(at) = self.graphs.iter().position(|(known, _)| known == key) {
            let found = self.graphs.remove(at);
            let graph = found.1.0;
            self.graphs.push(found);
            return Advice::Launch(graph);
        }
        if self.refused.contains(&key.kernel) {
            return Advice::Submit;
        }
        if let Some(at) = self.seen.iter().position(|known| known == key) {
            self.seen.remove(at);
            return Advice::Capture;
        }
        if self.seen.len() == SEEN {
            self.seen.pop_front();
        }
        self.seen.push_back(*key);
        Advice::Submit
    }

    /// Keeps the graph of a request.
    pub(crate) fn keep(&mut self, key: Key, graph: Graph) {
        if self.graphs.len() == MOST {
            self.graphs.remove(0);
        }
        self.graphs.push((key, graph));
    }

    /// A kernel cannot be captured.
    pub(crate) fn refuse(&mut self, kernel: u32) {
        self.refused.push(kernel);
    }

    /// The context is gone, and the graphs with it.
    pub(crate) fn forget(&mut self) {
        self.graphs.drain(..).for_each(|(_, graph)| std::mem::forget(graph));
        *self = Replays::default();
    }
}

impl Graph {
    /// Captures what `submit` puts into a stream, and makes it ready to be launched there.
    /// Nothing of it runs.
    ///
    /// # Errors
    /// The error of `submit` or of the driver; the stream is as it was before.
    ///
    /// # Safety
    /// The stream lives, and is the calling thread's alone. Memory that is used in it lives for as
    /// long as the graph may be launched.
    pub(crate) unsafe fn capture(
        stream: sys::CUstream,
        submit: impl FnOnce() -> Result<(), DriverError>,
    ) -> Result<Graph, DriverError> {
        use sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL as OWN;
        /// The kernels keep the priority of the stream.
        const PRIORITY: u64 = 8;
        let (mut graph, mut ready) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: the caller's promise; the graph is destroyed once, and what was made of it does
        // not need it any more.
        unsafe {
            sys::cuStreamBeginCapture_v2(stream, OWN).result()?;
            let submitted = submit();
            // Also after a failure: it ends the capture.
            let ended = sys::cuStreamEndCapture(stream, &raw mut graph).result();
            let made = submitted.and(ended).and_then(|()| {
                sys::cuGraphInstantiateWithFlags(&raw mut ready, graph, PRIORITY).result()
            });
            if !graph.is_null() {
                let _ = sys::cuGraphDestroy(graph);
            }
            made?;
            let graph = Graph(ready);
            sys::cuGraphUpload(graph.0, stream).result()?;
            Ok(graph)
        }
    }

    /// Returns the handle that the driver launches.
    pub(crate) fn handle(&self) -> sys::CUgraphExec {
        self.0
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // SAFETY: it was instantiated once, and its unit waits for each launch.
        let _ = unsafe { sys::cuGraphExecDestroy(self.0) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(argument: u64) -> Key {
        let memory = (1, 0, 4);
        Key { kernel: 2, level: 0, arguments: [argument; 4], input: memory, output: memory }
    }

    #[test]
    fn only_what_comes_again_is_captured() {
        let mut replays = Replays::default();
        assert!(matches!(replays.advise(&key(0)), Advice::Submit));
        assert!(matches!(replays.advise(&key(1)), Advice::Submit));
        assert!(matches!(replays.advise(&key(0)), Advice::Capture));
        for other in 2..=SEEN as u64 + 2 {
            assert!(matches!(replays.advise(&key(other)), Advice::Submit));
        }
        assert!(matches!(replays.advise(&key(1)), Advice::Submit), "too long ago");
    }

    #[test]
    fn kernel_that_cannot_be_captured_is_not_tried_again() {
        let mut replays = Replays::default();
        replays.advise(&key(0));
        replays.refuse(2);
        assert!(matches!(replays.advise(&key(0)), Advice::Submit));
    }

    #[test]
    fn graph_that_was_not_used_for_longest_goes() {
        let mut replays = Replays::default();
        for argument in 0..=MOST as u64 {
            replays.advise(&key(0));
            // No driver knows it.
            let graph = Graph(std::ptr::without_provenance_mut(argument as usize + 1));
            if replays.graphs.len() == MOST {
                std::mem::forget(replays.graphs.remove(0));
            }
            replays.keep(key(argument), graph);
        }
        assert!(matches!(replays.advise(&key(0)), Advice::Launch(_)), "it was used each time");
        assert!(!matches!(replays.advise(&key(1)), Advice::Launch(_)));
        replays.forget();
    }
}

//! Estimates of the time that CUDA graphs would save, as plain data.
//!
//! A graph launches in one call what a program else launches call by call. Which sequences repeat
//! is found by `survey/sequence.rs`; what one launch of a graph costs is taken from the trace where
//! the program launches graphs itself ([`Source::Trace`]), and else from measurements of others
//! ([`Source::Measured`]). Nothing is captured, and nothing is said of the device's own time: a
//! graph also closes gaps between kernels, which a trace of calls does not show.
//!
//! Measured on an H200 (driver 580.159, CUDA 13.0): a graph of 60 kernels and 2 copies is launched
//! in 4 us, its kernels one by one take 237 us. Five networks as one graph each (means of
//! `cudaGraphLaunch` under PyTorch's profiler): 150 nodes 6.3 us, 174 nodes 6.4 us, 222 nodes
//! 9.9 us, 397 nodes 16.6 us, 931 nodes 8.9 us, each with 70 to 123 locks. So neither time nor
//! locks are linear in the nodes: an estimate is that of the smallest measured graph with at least
//! as many nodes, and never scaled. "Autonomy Today: Many Delay-Prone Black Boxes" (ECRTS 2024),
//! Table 2, has 71 to 327 locks for five networks, and says the same of their number.

use serde::Serialize;

/// A sequence of fewer calls is not worth a graph of its own.
pub const LEAST_CALLS: u64 = 5;
/// A sequence that came less often may have been chance, or the program's beginning.
pub const LEAST_REPEATS: u64 = 10;

/// Graphs measured on an H200: nodes, and nanoseconds of one launch.
const MEASURED: [(u64, u64); 6] =
    [(62, 4_000), (150, 6_345), (174, 6_432), (222, 9_949), (397, 16_612), (931, 8_864)];
/// The fewest and the most locks of one launch of these graphs.
const MEASURED_LOCKS: (u64, u64) = (70, 123);

/// Findings about CUDA graphs in a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GraphAdvice {
    /// The program's own launches of graphs, if it had enough of them.
    pub own: Option<GraphLaunch>,
    /// Calls that ended sequences, the most frequent first.
    pub cuts: Vec<Cut>,
    /// Sequences of which it is not known whether they repeat, since there was no room for them.
    pub forgotten: u64,
}

/// A call that no graph can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cut {
    /// Kind of the call.
    pub kind: u32,
    /// Reason why no graph can contain it.
    pub reason: Reason,
    /// Number of sequences that it ended.
    pub times: u64,
}

/// Reason why a graph cannot contain a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// The thread waits for the device.
    Wait,
    /// The call copies or sets memory and returns when that is done.
    Blocking,
    /// The call allocates, frees or registers memory, and not in the order of a stream.
    Memory,
    /// The call loads or unloads code.
    Code,
    /// The call makes the device call back in a way that cannot be captured.
    Callback,
}

/// Cost of one launch of a graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GraphLaunch {
    /// Duration from call to return.
    pub duration_ns: u64,
    /// The fewest and the most locks that it takes; none where only contended ones are recorded.
    pub locks: Option<(u64, u64)>,
    /// Kernels, copies and memory sets in the graph that this was measured with; none is unknown.
    pub nodes: Option<u64>,
    /// Source of these numbers.
    pub source: Source,
}

/// Source of the cost of a graph's launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// The median of this number of launches in this trace.
    Trace {
        /// Number of launches.
        launches: u64,
    },
    /// The measurements above.
    Measured,
}

impl GraphLaunch {
    /// Returns the measured cost of a graph of at least `nodes` nodes, or of the slowest one.
    pub fn measured(nodes: u64) -> GraphLaunch {
        let enough = MEASURED.into_iter().find(|(measured, _)| *measured >= nodes);
        let slowest = || MEASURED.into_iter().max_by_key(|(_, ns)| *ns).unwrap_or_default();
        let (nodes, duration_ns) = enough.unwrap_or_else(slowest);
        let (locks, source) = (Some(MEASURED_LOCKS), Source::Measured);
        GraphLaunch { duration_ns, locks, nodes: Some(nodes), source }
    }
}

/// A sequence of launches, copies and memory sets of one thread that it repeated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sequence {
    /// Number of the process image.
    pub process: u32,
    /// The thread that did it first.
    pub thread: u32,
    /// Calls of one repetition.
    pub length: u64,
    /// Number of repetitions.
    pub repeats: u64,
    /// Number of rows of repetitions; a row has `repeats / runs` of them on average.
    pub runs: u64,
    /// Its first calls: kind, and kernel or bytes.
    pub calls: Vec<(u32, u64)>,
    /// Names of the kernels of these calls, where they are known.
    pub kernels: Vec<Option<String>>,
    /// The kernel that it launches first.
    pub first_kernel: Option<Kernel>,
    /// Its most frequent kernels with how often one repetition launches them, of all its calls.
    pub frequent: Vec<(Kernel, u64)>,
    /// Its calls by their effect on the device.
    pub work: WorkCalls,
    /// True if some of it was given to the legacy default stream, which cannot be captured.
    pub default_stream: bool,
    /// Median of the time in these calls, for one repetition.
    pub launching_ns: u64,
    /// The same without copies of pageable memory, which take as long in a graph.
    pub replaced_ns: u64,
    /// Mean of the time in these calls, for one repetition.
    pub mean_ns: u64,
    /// Mean of what one repetition waited for locks: a part of `mean_ns`.
    pub waited_ns: u64,
    /// Mean of the locks taken in one repetition; of the contended ones where no others were
    /// recorded.
    pub locks: f64,
    /// Calls that ended it, the most frequent first; only the last round of its loop is ended.
    pub cuts: Vec<Cut>,
    /// Cost of one launch of it as a graph.
    pub graph: GraphLaunch,
    /// An estimate of what one repetition would save as a graph: `replaced_ns` less that launch.
    pub estimated_saving_ns: u64,
    /// The same for all repetitions, for each second of the trace.
    pub saving_per_second_ns: u64,
}

impl Sequence {
    /// Returns true if it is long and frequent enough for advice, and a graph would save time.
    pub fn is_worth_a_graph(&self) -> bool {
        let enough = self.length >= LEAST_CALLS && self.repeats >= LEAST_REPEATS;
        enough && self.estimated_saving_ns > 0
    }
}

/// A kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// The driver's handle.
    pub handle: u64,
    /// Its name, if it is known.
    pub name: Option<String>,
}

/// Calls of one repetition by what they give to the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WorkCalls {
    /// Kernels.
    pub launches: u64,
    /// Graphs, which another graph can contain.
    pub graphs: u64,
    /// Copies, those of pageable memory included.
    pub copies: u64,
    /// Copies of pageable memory among them.
    pub pageable: u64,
    /// Memory sets.
    pub memsets: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_that_of_the_next_larger_graph_and_never_scaled() {
        let cost = |nodes| {
            let launch = GraphLaunch::measured(nodes);
            (launch.nodes, launch.duration_ns)
        };
        assert_eq!(cost(5), (Some(62), 4_000));
        assert_eq!(cost(62), (Some(62), 4_000));
        assert_eq!(cost(163), (Some(174), 6_432));
        assert_eq!(cost(900), (Some(931), 8_864));
        assert_eq!(cost(5_000), (Some(397), 16_612), "the slowest of all");
    }
}

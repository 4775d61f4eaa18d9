//! A simulated schedule, or the worst schedules that a search found, beside the bounds.
//!
//! [`document`] is for people, [`json`] for machines; [`gantt`] draws a piece of one schedule as SVG.
//!
//! A simulated schedule is possible, not the worst that is possible: a bound below it would be
//! wrong, and one above it is no waste.

mod gantt;
mod shown;
mod simulation_json;

pub use gantt::{Gantt, MAX_DRAWN, gantt};
pub use shown::document;
pub use simulation_json::json;

use crate::analysis::Names;
use analysis::{Analysis, Status, System};

/// Results of a simulation or a search.
#[derive(Debug, Clone, PartialEq)]
pub struct Simulation {
    /// The system file.
    pub file: String,
    /// Names of accelerators, executors and chains.
    pub names: Names,
    /// The simulated system.
    pub system: System,
    /// Its bounds, to compare with.
    pub analysis: Analysis,
    /// Description of the simulation, in words: its length, and the releases that it began with.
    pub what: String,
    /// The command that made this result.
    pub command: String,
    /// True if each chain's numbers come from a schedule of its own, the worst that a search found.
    pub searched: bool,
    /// Notes on the validity of all results.
    pub marks: Vec<String>,
    /// One entry per chain of the system; none where the chain was not asked for.
    pub chains: Vec<Option<Simulated>>,
}

/// Results of one chain.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Simulated {
    /// Response times of the jobs that ended, in order of release.
    pub response_ns: Vec<u64>,
    /// Jobs that ended after their deadline.
    pub misses: u64,
    /// Jobs that had not ended when simulated time ran out.
    pub unfinished: u64,
    /// True if so many jobs waited that the chain was not released any more.
    pub overloaded: bool,
    /// The command that shows the longest response again.
    pub repeat: Option<String>,
}

impl Simulated {
    /// The longest response.
    pub fn worst_ns(&self) -> Option<u64> {
        self.response_ns.iter().copied().max()
    }

    /// The median, nearest rank.
    pub fn median_ns(&self) -> Option<u64> {
        let mut ascending = self.response_ns.clone();
        ascending.sort_unstable();
        ascending.get(ascending.len().div_ceil(2).checked_sub(1)?).copied()
    }
}

impl Simulation {
    /// Returns true if a chain missed a deadline that counts, or responded later than its
    /// guarantee.
    pub fn fails(&self) -> bool {
        (0..self.chains.len()).any(|chain| self.misses_count(chain) || self.exceeds(chain))
    }

    /// Returns true if the chain's deadline counts and was missed; a job without an end misses it,
    /// too.
    fn misses_count(&self, chain: usize) -> bool {
        let late = |found: &Simulated| found.misses > 0 || found.overloaded || found.unfinished > 0;
        !self.system.chains[chain].best_effort && self.chains[chain].as_ref().is_some_and(late)
    }

    /// The bound where it is a guarantee.
    fn guarantee_ns(&self, chain: usize) -> Option<u64> {
        let bound = &self.analysis.chains[chain];
        bound.response_ns.filter(|_| bound.status == Status::Ok)
    }

    fn worst_ns(&self, chain: usize) -> Option<u64> {
        self.chains[chain].as_ref()?.worst_ns()
    }

    /// Returns true if a response was longer than its guarantee, which no schedule may cause.
    fn exceeds(&self, chain: usize) -> bool {
        let pair = self.worst_ns(chain).zip(self.guarantee_ns(chain));
        pair.is_some_and(|(worst_ns, bound_ns)| worst_ns > bound_ns)
    }
}

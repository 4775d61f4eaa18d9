//! Results of a simulation.

/// The responses of every chain.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScheduleOutcome {
    /// One entry per chain, in the order of the system.
    pub chains: Vec<ChainOutcome>,
}

/// The responses of one chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChainOutcome {
    /// Jobs that ended.
    pub jobs: u64,
    /// The longest response, from nominal release to end; none where no job ended.
    pub worst_ns: Option<u64>,
    /// The first job that had it, counted from 0.
    pub worst_job: u64,
    /// The nominal release of that job.
    pub worst_release_ns: u64,
    /// The shortest response.
    pub best_ns: Option<u64>,
    /// Jobs that ended after their deadline.
    pub misses: u64,
    /// True if so many jobs waited that the chain was not released any more.
    pub overloaded: bool,
    /// Jobs that had not ended when simulated time ran out, after 584 years.
    pub unfinished: u64,
}

impl ChainOutcome {
    pub(super) fn ended(&mut self, release_ns: u64, response_ns: u64, deadline_ns: u64) {
        if self.worst_ns.is_none_or(|worst_ns| response_ns > worst_ns) {
            self.worst_ns = Some(response_ns);
            self.worst_job = self.jobs;
            self.worst_release_ns = release_ns;
        }
        self.best_ns = Some(self.best_ns.map_or(response_ns, |best_ns| best_ns.min(response_ns)));
        self.misses += u64::from(response_ns > deadline_ns);
        self.jobs += 1;
    }
}

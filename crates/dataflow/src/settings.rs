//! Settings of an executor: COLA's mechanisms that it uses, and the costs that it assumes.

/// Settings with which an executor runs a graph. [`Settings::base`] is a runtime without COLA's
/// mechanisms, [`Settings::default`] one with all.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// True if modules that allow it are asked for the fast path when the budget is short, extra
    /// workers run, and urgent wires ([`crate::Wire::urgent`]) start runs at once.
    pub fast_path: bool,
    /// Estimate by which the budget is judged.
    pub judge: Judge,
    /// True if work is done ahead of time. If not, every take is a miss.
    pub proactive: bool,
    /// Rules for guests in other groups; `None` if there are no guests.
    pub stealing: Option<Stealing>,
    /// The quantile that stands for what a run takes.
    pub quantile: f64,
    /// Age from which an execution time no longer counts in a quantile, in nanoseconds.
    pub forget_ns: u64,
    /// Time from the publication of a message to its arrival, on the virtual clock.
    pub hop_ns: u64,
    /// Cost of a guest's way to another group's core. Charged on the virtual clock.
    pub switch_ns: u64,
    /// Number of events that each ring of the trace keeps.
    pub trace_events: usize,
    /// True if the wall clock keeps the time of each chunk, without end, for
    /// [`crate::Stopped::chunks`].
    pub keep_chunks: bool,
}

/// Estimate of a module's own time by which its path is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judge {
    /// The quantile of its recent runs on the normal path; if there are none, because it has taken
    /// the fast path for long, the linear predictor's bound for the input at hand.
    Quantile,
    /// The linear predictor's bound for the input at hand, and the quantile as long as the
    /// predictor has seen no such input.
    Predicted,
}

/// Rules for guests in other groups (COLA, section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stealing {
    /// Mechanism by which a guest leaves the core when a host wants it.
    pub mechanism: Mechanism,
    /// Time for which a violation suspends guests in a group.
    pub suspend_ns: u64,
}

/// Mechanism by which a guest leaves the core when a host wants it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The host gets its core at once: each core has a second worker for guests, below the host's
    /// priority.
    Twin,
    /// The host gets its core at the guest's next checkpoint: the guest runs on the host's worker.
    Cooperative,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            fast_path: true,
            judge: Judge::Quantile,
            proactive: true,
            stealing: Some(Stealing { mechanism: Mechanism::Twin, suspend_ns: 1_000_000_000 }),
            quantile: 0.99,
            forget_ns: 5_000_000_000,
            hop_ns: 0,
            switch_ns: 5_000,
            trace_events: 1 << 18,
            keep_chunks: false,
        }
    }
}

impl Settings {
    /// Settings without fast path, work ahead and guests.
    pub fn base() -> Settings {
        Settings { fast_path: false, proactive: false, stealing: None, ..Settings::default() }
    }
}

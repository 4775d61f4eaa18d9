//! Length of a chunk of a run on a core that is slower than the machine's.
//!
//! The processor time of the module's own code, without the executor's, is measured from checkpoint
//! to checkpoint, as the virtual clock does it. Then the thread computes something else until it has
//! used that time as often as the factor says, on the core that it has: a thread that may preempt
//! the run, preempts that, too. What it computed too long, it computes less after the next chunk.

use realtime::clock::thread_cpu_ns;
use realtime::work;

/// Steps of arithmetic between two looks at the clock: less than a microsecond.
const STEPS: u64 = 100;

/// Processor time of the chunk that a run is in.
pub(super) struct Charge {
    /// Factor by which the core is slower than the machine's.
    factor: f64,
    /// True if the processor time of the code is needed; otherwise no clock is read.
    measures: bool,
    /// The thread's processor time when the module's code went on last, ns.
    since_ns: u64,
    /// Processor time of the module's code in this chunk, up to its last pause, ns.
    used_ns: u64,
    /// Processor time that was used too long after the last chunk, ns.
    over_ns: u64,
}

impl Charge {
    /// The module's code begins. `keeps`: what each chunk used is asked for, however slow the core is.
    pub(super) fn begin(factor: f64, keeps: bool) -> Charge {
        let measures = keeps || factor > 1.0;
        let mut charge = Charge { factor, measures, since_ns: 0, used_ns: 0, over_ns: 0 };
        charge.resume();
        charge
    }

    /// The module's code goes on.
    pub(super) fn resume(&mut self) {
        if self.measures {
            self.since_ns = thread_cpu_ns();
        }
    }

    /// The executor's code runs, in the middle of the chunk.
    pub(super) fn pause(&mut self) {
        if self.measures {
            self.used_ns += thread_cpu_ns() - self.since_ns;
        }
    }

    /// The chunk is over: returns when it would be on the slower core, and what its code used, ns.
    pub(super) fn end(&mut self) -> u64 {
        if !self.measures {
            return 0;
        }
        let mut now_ns = thread_cpu_ns();
        let used_ns = self.used_ns + now_ns - self.since_ns;
        let rest_ns = (used_ns as f64 * (self.factor - 1.0)) as u64;
        let end_ns = (now_ns + rest_ns).saturating_sub(self.over_ns);
        while now_ns < end_ns {
            work::run(STEPS);
            now_ns = thread_cpu_ns();
        }
        (self.used_ns, self.over_ns) = (0, now_ns - end_ns);
        used_ns
    }
}

//! Simulation of one schedule of a system, event by event, and the search for bad schedules.
//!
//! A simulation runs the model of [`crate::System`] once, with every freedom that the model leaves
//! settled by a [`Scenario`]: when chains are released, how long things take, where a callback
//! asks for its accelerator, and what happens first of that which happens at one instant. The
//! same scenario always gives the same schedule. A response seen here is a response that the
//! model allows, so no sound bound may be below it.
//!
//! The simulation covers (PAAM, sections II and IV-C to IV-F):
//!
//! - **Chains** are released at least a period apart. A release may come up to the chain's jitter
//!   after its nominal instant; responses count from the nominal one. A job waits for the job
//!   before it. A chain with [`MAX_QUEUED`] waiting jobs is overloaded and not released any more.
//! - **Executors** take, whenever they are free and have their core, the ready callback of the
//!   highest chain priority, and run it to its end. The next callback of the same part is ready
//!   at that instant, that of the next part after `hop`.
//! - **Cores** always run the executor of the highest process priority that wants them. Executors
//!   of priority 0 come last, in an order drawn for each scenario.
//! - **Callbacks** alternate between processor time and requests, and wait for each request,
//!   suspended or spinning. An executor that continues after a request needs the core for it, even
//!   with nothing left to compute. Each request also costs its client `epsilon` of processor time.
//! - **Accelerators** serve the highest bucket that has a request; inside a bucket the request
//!   that was started, or else that of the highest chain. A request takes its time and `sigma`.
//! - **Preemption of a device** costs what [`Kappa`] says.
//!
//! Not simulated: `concurrent_lowest`; the lowest bucket is served one by one like the others.
//! Executors that share a core by time slices are covered only as fixed orders.
//!
//! ```
//! use analysis::simulate::{Scenario, Simulator};
//! # use analysis::{Callback, Chain, Executor, Span, System, Wait};
//! # let chain = |priority, period_ns, cpu_ns| Chain {
//! #     priority, period_ns, deadline_ns: period_ns, jitter_ns: 0, wait: Wait::Suspend,
//! #     best_effort: false, buckets: vec![],
//! #     callbacks: vec![Callback { executor: 0, cpu: Span::exactly(cpu_ns), segments: vec![] }],
//! # };
//! # let system = System {
//! #     executors: vec![Executor { core: 0, priority: 1 }],
//! #     chains: vec![chain(2, 10, 3), chain(1, 20, 4)],
//! #     ..System::default()
//! # };
//! let mut simulator = Simulator::new(&system)?;
//! let outcome = simulator.run(&Scenario::synchronous(&system));
//! assert_eq!(outcome.chains[1].worst_ns, Some(7));
//! # Ok::<(), analysis::Error>(())
//! ```

mod check;
mod device;
mod draw;
mod instant;
mod outcome;
mod plan;
mod processor;
mod release;
mod scenario;
mod search;
mod simulator;
mod trace;

pub use check::Violation;
pub use outcome::{ChainOutcome, ScheduleOutcome};
pub use release::MAX_QUEUED;
pub use scenario::{Behaviour, Execution, Jitter, Kappa, Release, Scenario, Split, Tie};
pub use search::{SearchOptions, Worst, search};
pub use simulator::Simulator;
pub use trace::{CallbackRun, Doing, Interval, Job, Request, Resource, Trace};

use crate::System;

/// Time after which periodic releases repeat: the least common multiple of the periods. None
/// without chains, and where it does not fit 64 bits.
pub fn hyperperiod_ns(system: &System) -> Option<u64> {
    let mut periods = system.chains.iter().map(|chain| chain.period_ns);
    let first = periods.next()?;
    periods.try_fold(first, least_common_multiple)
}

fn least_common_multiple(a: u64, b: u64) -> Option<u64> {
    let (mut divisor, mut rest) = (a, b);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    a.checked_div(divisor)?.checked_mul(b)
}

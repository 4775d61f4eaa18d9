//! `busy`: runs of a small graph, a loop, of a calibrated number of rounds.
//!
//! Each round multiplies a matrix of 16 x 16, which needs the round before. How long a run takes
//! is a fixed part and a part for each round; both are found from the medians of short and long
//! runs, taken in turn.

use crate::Provider;
use crate::model::Loaded;
use device::FailureCode;
use realtime::clock::{monotonic_ns, thread_cpu_ns};

/// Rounds of the runs that are measured.
const SHORT: i64 = 2;
const LONG: i64 = 34;
/// Number of measurements of each; the first few warm caches and clocks up.
const SAMPLES: usize = 600;
const WARM_UP: usize = 100;

/// The graph, and how long it takes.
pub(crate) struct Busy {
    graph: Loaded,
    /// The processor time of the caller where it computes itself, or else the clock on the wall.
    clock: fn() -> u64,
    run_ns: f64,
    round_ns: f64,
}

impl Busy {
    /// The graph, not calibrated yet.
    pub(crate) fn new(graph: Loaded, provider: Provider) -> Busy {
        let clock = match provider {
            Provider::Cpu => thread_cpu_ns,
            Provider::Cuda { .. } => monotonic_ns,
        };
        Busy { graph, clock, run_ns: 0.0, round_ns: 1.0 }
    }

    /// Measures on the calling thread.
    pub(crate) fn calibrate(&mut self) -> Result<(), String> {
        let mut samples = [Vec::new(), Vec::new()];
        for _ in 0..SAMPLES {
            for (rounds, samples) in [SHORT, LONG].into_iter().zip(&mut samples) {
                let start = (self.clock)();
                self.rounds(rounds).map_err(|error| format!("graph busy: {error}"))?;
                samples.push((self.clock)() - start);
            }
        }
        let [short, long] = samples.map(|mut samples| {
            let samples = &mut samples[WARM_UP..];
            samples.sort_unstable();
            samples[samples.len() / 2] as f64
        });
        let round_ns = (long - short) / (LONG - SHORT) as f64;
        if round_ns < 1.0 {
            return Err(format!("graph busy: {SHORT} rounds take {short} ns, {LONG} take {long}"));
        }
        (self.round_ns, self.run_ns) = (round_ns, (short - SHORT as f64 * round_ns).max(0.0));
        Ok(())
    }

    /// Computes for this number of nanoseconds, but for one run at least.
    pub(crate) fn run(&mut self, ns: u64) -> Result<(), FailureCode> {
        // A block is short: no more rounds than fit into 100 us of one nanosecond each.
        let rounds = ((ns as f64 - self.run_ns) / self.round_ns).round().max(0.0) as i64;
        self.rounds(rounds).map_err(|_| FailureCode::Kernel)
    }

    fn rounds(&mut self, rounds: i64) -> ort::Result<()> {
        self.graph.input::<i64>(0)?.fill(rounds);
        self.graph.run(1)
    }
}

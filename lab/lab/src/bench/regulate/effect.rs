//! Delay until a taken lock takes effect, cost of taking it, and cost for the core of a thread that
//! waits for it; beside the floors: a thread of the same core and priority that is woken by a bare
//! futex, and by a bare timer.
//!
//! All ways take turns.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bandwidth::regulator::{Attention, Budget, Regulator, Spread};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread::{Scheduling, pin, set_nice, set_policy};
use serde::Serialize;
use trial::signals;

use super::Bench;
use crate::bench::floor::Bare;
use crate::bench::sample::{Quantiles, Samples};

/// The first taking of a turn finds the thread asleep, in whichever way it waits.
const TURNS: u32 = 5;
/// Time for which the lock is held each time, and time for which it is free, in nanoseconds.
const HELD_NS: u64 = 300_000;
const FREE_NS: u64 = 1_000_000;
/// Time for which the core's work is watched in each turn, while the lock is free, in nanoseconds.
const WATCH_NS: u64 = 50_000_000;
/// A part of the core's work.
const STEPS: u64 = 200;
/// Intervals at which a thread looks that is not woken, in microseconds.
const LOOKS: [u64; 3] = [10, 20, 40];

/// Results of one way.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Effect {
    /// Activity of the core's thread when the lock is taken.
    pub thread: String,
    /// Time from the taking to the beginning of the first period.
    pub effect: Spread,
    /// Cost of taking the lock.
    pub taking: Option<Quantiles>,
    /// Cost of releasing the lock.
    pub release: Option<Quantiles>,
    /// Work of the core while the lock is free and its thread waits like this, as a share of its
    /// work without a regulator.
    pub work: Option<f64>,
}

/// A regulator whose core's thread waits in one way.
struct Way {
    thread: String,
    regulator: Regulator,
    taking: Samples,
    release: Samples,
    /// Work in each turn, of that without a regulator.
    work: Vec<f64>,
}

/// Takes the lock so often in each way, while the core computes.
pub(super) fn measure(bench: &Bench, takings: u32) -> anyhow::Result<Vec<Effect>> {
    let load = Worker::start(bench.core);
    let mut bare = Bare::start(bench.core)?;
    let bell = std::iter::once(("asleep".to_owned(), Attention::Bell, Duration::from_micros(20)));
    let looks = LOOKS.map(|us| (format!("looks, {us} us"), Attention::Look, micros(us)));
    let mut ways = bell
        .chain(looks)
        .enumerate()
        .map(|(number, (thread, attention, look))| {
            signals::check()?;
            Way::start(bench, number, thread, attention, look)
        })
        .collect::<anyhow::Result<Vec<Way>>>()?;
    // The taker of the lock is urgent: other programs must not be taken for the lock's doing. Not
    // before, since threads inherit it.
    set_policy(Scheduling::Fifo(1))?;
    for _ in 0..TURNS {
        let times = takings.div_ceil(TURNS);
        signals::check()?;
        bare.wake(times, FREE_NS)?;
        bare.sleep(bench.core, times)?;
        let usual = load.rate();
        for way in &mut ways {
            way.turn(times, &load, usual)?;
        }
    }
    set_policy(Scheduling::Normal)?;
    let floor = |thread: &str, delays: &Samples, taking: Option<Quantiles>| Effect {
        thread: thread.into(),
        effect: spread(delays),
        taking,
        release: None,
        work: None,
    };
    let mut effects = vec![
        floor("bare futex", &bare.woken, Some(bare.waking.quantiles())),
        floor("bare timer", &bare.timer, None),
    ];
    effects.extend(ways.into_iter().map(Way::end));
    Ok(effects)
}

fn micros(us: u64) -> Duration {
    Duration::from_micros(us)
}

impl Way {
    fn start(
        bench: &Bench,
        number: usize,
        thread: String,
        attention: Attention,
        look: Duration,
    ) -> anyhow::Result<Way> {
        // A budget that is spent before the lock is given back: the thread is in a stop then.
        let mut config = bench.config(Budget::Share(0.1));
        config.holders.socket.set_file_name(format!("effect-{number}.sock"));
        (config.linger, config.attention, config.look) = (Duration::ZERO, attention, look);
        let regulator = Regulator::start(config)?;
        let [taking, release] = [(); 2].map(|()| Samples::new());
        Ok(Way { thread, regulator, taking, release, work: Vec::new() })
    }

    fn turn(&mut self, times: u32, load: &Worker, usual: f64) -> anyhow::Result<()> {
        // Without a hold no thread looks, so that the ways do not meet.
        let hold = self.regulator.hold()?;
        for number in 0..times {
            signals::check()?;
            let begin = monotonic_ns();
            hold.acquire();
            // The first one finds it asleep, whichever way it is.
            if number > 0 {
                self.taking.push(monotonic_ns() - begin);
            }
            sleep_until_ns(begin + HELD_NS);
            let begin = monotonic_ns();
            hold.release();
            self.release.push(monotonic_ns() - begin);
            sleep_until_ns(begin + FREE_NS);
        }
        self.work.push(load.rate() / usual);
        Ok(())
    }

    fn end(mut self) -> Effect {
        self.work.sort_unstable_by(f64::total_cmp);
        Effect {
            thread: self.thread,
            effect: self.regulator.statistics().effect,
            taking: Some(self.taking.quantiles()),
            release: Some(self.release.quantiles()),
            work: Some(self.work[self.work.len() / 2]),
        }
    }
}

/// An ordinary thread that keeps the core busy and counts what it gets done.
struct Worker {
    shared: Arc<(AtomicU64, AtomicBool)>,
}

impl Worker {
    fn start(core: usize) -> Worker {
        let shared = Arc::new((AtomicU64::new(0), AtomicBool::new(false)));
        let of_thread = shared.clone();
        std::thread::spawn(move || {
            // A core that is not to be had was refused before.
            let _ = pin(&[core]);
            // Whatever else wants the core counts for as little as can be.
            let _ = set_nice(-20);
            while !of_thread.1.load(Ordering::Relaxed) {
                realtime::work::run(STEPS);
                of_thread.0.fetch_add(1, Ordering::Relaxed);
            }
        });
        Worker { shared }
    }

    /// Measures its work in a nanosecond.
    fn rate(&self) -> f64 {
        let (begin, before) = (monotonic_ns(), self.shared.0.load(Ordering::Relaxed));
        sleep_until_ns(begin + WATCH_NS);
        let done = self.shared.0.load(Ordering::Relaxed) - before;
        done as f64 / (monotonic_ns() - begin) as f64
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.shared.1.store(true, Ordering::Relaxed);
    }
}

fn spread(delays: &Samples) -> Spread {
    let quantiles = delays.quantiles();
    Spread {
        count: delays.count() as u64,
        p50_ns: quantiles.p50_ns as u64,
        p99_ns: quantiles.p99_ns as u64,
        longest_ns: quantiles.max_ns as u64,
    }
}

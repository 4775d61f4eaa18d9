//! The measured program for parking_lot's locks, of the same shape as `contend.c`.
//!
//! It is this program again, in a process of its own.
//! It keeps to waits: the times of single calls are compared among the C library's locks.

use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use realtime::clock::monotonic_ns;
use realtime::thread::{self, Scheduling};

use super::histogram::{Histogram, Recorder};
use super::reading::Reading;
use super::shape::{Kind, Shape};

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const END: u8 = 2;

// As in `contend.c`.
const LAUNCH_SECTION_NS: u64 = 1000;
const LAUNCH_SLEEP: Duration = Duration::from_micros(500);
const REST_ROUNDS: u64 = 64;
const REST: Duration = Duration::from_micros(50);
const STACK_BYTES: usize = 256 << 10;

/// State that all threads share.
struct Shared {
    shape: Shape,
    mutex: Mutex<()>,
    inner: Mutex<()>,
    rwlock: RwLock<()>,
    phase: AtomicU8,
    line: Barrier,
    turns_per_ns: f64,
}

/// Counts of one thread: `[0]` of writers and mutexes, `[1]` of readers.
struct Counted {
    locked: [Recorder; 2],
    switches: u64,
    has_fifo: bool,
}

/// Runs the program once.
pub(crate) fn measure(shape: &Shape) -> anyhow::Result<Reading> {
    let shared = Shared {
        shape: *shape,
        mutex: Mutex::new(()),
        inner: Mutex::new(()),
        rwlock: RwLock::new(()),
        phase: AtomicU8::new(WARM_UP),
        line: Barrier::new(shape.threads as usize + 1),
        turns_per_ns: turns_per_ns(),
    };
    let (measured_ns, counted) = std::thread::scope(|scope| -> anyhow::Result<_> {
        let shared = &shared;
        let mut threads = Vec::new();
        for number in 0..shape.threads {
            let builder = std::thread::Builder::new().stack_size(STACK_BYTES);
            threads.push(builder.spawn_scoped(scope, move || shared.work(number))?);
        }
        if shape.fifo > 0 {
            // Above all others, or it could not end the run. Where it is refused, theirs is too.
            let _ = thread::set_policy(Scheduling::Fifo(shape.fifo + 1));
        }
        shared.line.wait();
        std::thread::sleep(Duration::from_millis(shape.warm_up_ms));
        let start_ns = monotonic_ns();
        shared.phase.store(MEASURED, Ordering::Relaxed);
        std::thread::sleep(Duration::from_millis(shape.measured_ms));
        shared.phase.store(END, Ordering::Relaxed);
        let measured_ns = monotonic_ns() - start_ns;
        let join = |thread: std::thread::ScopedJoinHandle<'_, Counted>| {
            thread.join().map_err(|_| anyhow::anyhow!("a measured thread panicked"))
        };
        let counted: Vec<Counted> = threads.into_iter().map(join).collect::<Result<_, _>>()?;
        Ok((measured_ns, counted))
    })?;
    let mut histograms = [Histogram::default(), Histogram::default()];
    for thread in &counted {
        for (recorder, histogram) in thread.locked.iter().zip(&mut histograms) {
            recorder.add_to(histogram);
        }
    }
    let names = ["locked", "read_locked"].map(str::to_owned);
    let kinds = if shape.kind == Kind::Rwlock { 2 } else { 1 };
    let mut wants_fifo = counted.iter().take(if shape.launch { 1 } else { counted.len() });
    Ok(Reading {
        fifo: wants_fifo.all(|thread| thread.has_fifo),
        clock_ns: clock_ns(),
        measured_ns: measured_ns as f64,
        switches: counted.iter().map(|thread| thread.switches).sum(),
        histograms: names.into_iter().zip(histograms).take(kinds).collect(),
    })
}

impl Shared {
    /// Runs the part of one thread and returns its counts.
    fn work(&self, number: u32) -> Counted {
        let launches = self.shape.launch && number == 0;
        if self.shape.pin {
            stay_on_core(number);
        }
        let wants_fifo = self.shape.fifo > 0 && (launches || !self.shape.launch);
        let has_fifo = wants_fifo && thread::set_policy(Scheduling::Fifo(self.shape.fifo)).is_ok();
        let mut counted =
            Counted { locked: [Recorder::new(), Recorder::new()], switches: 0, has_fifo };
        let mut random = 2_463_534_242u32.wrapping_add(number.wrapping_mul(7919));
        self.line.wait();
        let (mut at_start, mut before) = (switches(), WARM_UP);
        for round in 0.. {
            let phase = self.phase.load(Ordering::Relaxed);
            if phase == END {
                break;
            }
            if phase != before {
                at_start = switches();
                before = phase;
            }
            let reads = self.next_reads(&mut random);
            self.acquire(&mut counted, reads, round, launches);
            if launches {
                std::thread::sleep(LAUNCH_SLEEP);
                continue;
            }
            self.turn(self.shape.think_ns);
            if wants_fifo && round % REST_ROUNDS == REST_ROUNDS - 1 {
                std::thread::sleep(REST);
            }
        }
        counted.switches = switches().saturating_sub(at_start);
        counted
    }

    /// Returns true if the next section of a read-write lock reads: a xorshift generator, as in the
    /// other program.
    fn next_reads(&self, random: &mut u32) -> bool {
        *random ^= *random << 13;
        *random ^= *random >> 17;
        *random ^= *random << 5;
        self.shape.kind == Kind::Rwlock && *random % 100 < self.shape.reads
    }

    /// Makes one acquisition. A wait counts if any of it was in the measured time; of those for the
    /// inner lock alone, none does.
    fn acquire(&self, to: &mut Counted, reads: bool, round: u64, launches: bool) {
        let nested = self.shape.kind == Kind::Nested;
        let inner_only = nested && !round.is_multiple_of(2);
        let section_ns = if launches { LAUNCH_SECTION_NS } else { self.shape.section_ns };
        let start_ns = monotonic_ns();
        let hold = || {
            let seen = (monotonic_ns() - start_ns, self.phase.load(Ordering::Relaxed));
            self.turn(section_ns);
            seen
        };
        let (wait_ns, phase) = match self.shape.kind {
            Kind::Rwlock if reads => {
                let _held = self.rwlock.read();
                hold()
            }
            Kind::Rwlock => {
                let _held = self.rwlock.write();
                hold()
            }
            _ => {
                let _outer = (!inner_only).then(|| self.mutex.lock());
                let _inner = nested.then(|| self.inner.lock());
                hold()
            }
        };
        if phase == WARM_UP || inner_only {
            return;
        }
        let recorder = &mut to.locked[usize::from(reads)];
        if !self.shape.launch || launches {
            recorder.note(wait_ns);
        }
        if phase == MEASURED {
            recorder.operate();
        }
    }

    fn turn(&self, ns: u64) {
        turn((ns as f64 * self.turns_per_ns) as u64);
    }
}

/// Keeps the calling thread on a core, the last one first.
fn stay_on_core(number: u32) {
    let cores = thread::cores();
    let core = cores[cores.len() - 1 - number as usize % cores.len()];
    // They are cores that this process may use; without, the threads are where the kernel wants.
    let _ = thread::pin(&[core]);
}

#[inline(never)]
fn turn(turns: u64) {
    for i in 0..turns {
        black_box(i);
    }
}

/// Measures the largest number of turns of the loop in a nanosecond.
fn turns_per_ns() -> f64 {
    const TURNS: u64 = 200_000;
    let speed = |_| {
        let start_ns = monotonic_ns();
        turn(TURNS);
        TURNS as f64 / (monotonic_ns() - start_ns + 1) as f64
    };
    (0..20).map(speed).fold(0.0, f64::max)
}

/// Measures the smallest difference of two readings of the clock with nothing between them.
fn clock_ns() -> u64 {
    let difference = |_| {
        let start_ns = monotonic_ns();
        monotonic_ns() - start_ns
    };
    (0..2000).map(difference).min().unwrap_or(0)
}

/// Context switches of the calling thread; 0 where the kernel does not say.
fn switches() -> u64 {
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let lines = status.lines().filter_map(|line| line.split_once("ctxt_switches:"));
    lines.filter_map(|(_, number)| number.trim().parse::<u64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_lock_is_measured() {
        for kind in [Kind::Mutex, Kind::Nested, Kind::Rwlock] {
            let shape = Shape {
                kind,
                threads: 3,
                section_ns: 100,
                think_ns: 100,
                reads: 50,
                warm_up_ms: 1,
                // Long enough that each thread does everything on a machine with other work.
                measured_ms: 300,
                ..Shape::default()
            };
            let reading = measure(&shape).unwrap();
            let kinds = if kind == Kind::Rwlock { 2 } else { 1 };
            assert_eq!(reading.histograms.len(), kinds, "{kind:?}");
            assert!(reading.histograms.values().all(|h| h.count > 0), "{reading:?}");
            assert!(reading.operations() > 0 && !reading.fifo);
            let text = serde_json::to_string(&reading).unwrap();
            assert_eq!(serde_json::from_str::<Reading>(&text).unwrap(), reading);
        }
    }

    #[test]
    fn switches_of_a_thread_that_sleeps_grow() {
        let before = switches();
        std::thread::sleep(Duration::from_millis(1));
        assert!(switches() > before);
    }
}

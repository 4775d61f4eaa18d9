//! Cost of taking and of releasing the lock.
//!
//! `unchanged`: the holder holds already. `awake`: nobody of the regulator sleeps. `asleep`: a
//! thread of the regulator sleeps, on another core, and is woken by each acquisition; the time is
//! that of the holder alone, until its call returns. `bare futex`: the same with a thread that only
//! sleeps and is woken, which is the floor of that on this machine. `ceiling`: as awake, and the calling
//! thread is raised and restored.
//!
//! `cargo bench -p keeptime-bandwidth --bench lock`

#![allow(missing_docs, reason = "criterion generates a public function")]

use bandwidth::holders::Config;
use bandwidth::{Hold, Holders};
use criterion::{Criterion, criterion_group, criterion_main};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn regulator(name: &str, ceiling: Option<u32>) -> (Holders, Hold) {
    let file = format!("keeptime-bandwidth-bench-{}-{name}.sock", std::process::id());
    let socket = std::env::temp_dir().join(file);
    let config = Config { socket: socket.clone(), ceiling, ..Config::default() };
    let holders = Holders::start(config).expect("a regulator");
    let hold = Hold::attach(&socket).expect("a hold");
    (holders, hold)
}

fn lock(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("lock");
    let (_holders, hold) = regulator("awake", None);
    group.bench_function("acquire and release, unchanged", |bencher| {
        hold.acquire();
        bencher.iter(|| hold.acquire() && hold.release());
        hold.release();
    });
    group.bench_function("acquire and release, awake", |bencher| {
        bencher.iter(|| hold.acquire() && hold.release());
    });
    let (holders, hold) = regulator("asleep", None);
    group.bench_function("acquire, asleep", |bencher| {
        bencher.iter_custom(|count| waking(&holders, &hold, count));
    });
    group.bench_function("wake a bare futex, asleep", |bencher| bencher.iter_custom(waking_bare));
    let (_holders, hold) = regulator("ceiling", Some(50));
    group.bench_function("acquire and release with a ceiling, awake", |bencher| {
        bencher.iter(|| drop(hold.hold()));
    });
    let (holders, _hold) = regulator("read", None);
    let _more: Vec<Hold> = (0..7).map(|_| holders.local_hold().expect("a hold")).collect();
    group.bench_function("is held, of 8 holders", |bencher| bencher.iter(|| holders.is_held()));
    group.finish();
}

/// The time of this number of acquisitions, each of which finds a sleeping thread of the regulator.
fn waking(holders: &Holders, hold: &Hold, count: u64) -> Duration {
    let (asleep, awake) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            for _ in 0..count {
                while holders.is_held() {
                    std::thread::yield_now();
                }
                asleep.fetch_add(1, Ordering::Release);
                holders.wait_until_held(None);
                awake.fetch_add(1, Ordering::Release);
            }
        });
        pin(0);
        let mut spent = Duration::ZERO;
        for number in 1..=count {
            reach(&asleep, number);
            // About to sleep; the kernel has put it to sleep well before this is over.
            std::thread::sleep(Duration::from_micros(50));
            let begun = Instant::now();
            hold.acquire();
            spent += begun.elapsed();
            reach(&awake, number);
            hold.release();
        }
        spent
    })
}

/// The time of so many wake-ups of a thread that sleeps on a futex.
fn waking_bare(count: u64) -> Duration {
    let (word, asleep) = (AtomicU32::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            for number in 0..count as u32 {
                asleep.fetch_add(1, Ordering::Release);
                while word.load(Ordering::Acquire) == number {
                    shm::futex::wait(&word, number, None);
                }
            }
        });
        pin(0);
        let mut spent = Duration::ZERO;
        for number in 1..=count {
            reach(&asleep, number);
            std::thread::sleep(Duration::from_micros(50));
            let begun = Instant::now();
            word.fetch_add(1, Ordering::Release);
            shm::futex::wake(&word);
            spent += begun.elapsed();
        }
        spent
    })
}

/// Two cores, as the holder's and a best-effort one are; the same where there is only one.
fn pin(number: usize) {
    let cores = realtime::thread::cores();
    realtime::thread::pin(&[cores[number.min(cores.len() - 1)]]).expect("a core of this process");
}

fn reach(counter: &AtomicU64, number: u64) {
    while counter.load(Ordering::Acquire) < number {
        std::thread::yield_now();
    }
}

criterion_group!(benches, lock);
criterion_main!(benches);

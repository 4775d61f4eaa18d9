//! Drives on several threads.
//!
//! A thread takes the next scenario and stack, and drives it under all policies that are not kept
//! yet, one after the other; each drive is kept before the next begins.

use crate::measure;
use crate::study::Unit;
use crate::{Clock, Error, Folder, Key, Row, Study};
use driving::Policy;
use driving::wall::Places;
use realtime::thread::pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Progress of a study.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Drives that are over, with those of earlier runs.
    pub done: usize,
    /// Drives that there are to be.
    pub all: usize,
    /// Time that the rest will take, by the drives of this run.
    pub left: Option<Duration>,
}

/// Number of drives at the same time, with their places.
#[derive(Clone, Debug, PartialEq)]
pub enum Jobs {
    /// Fixed number, wherever the kernel puts their threads. None is driven on the wall clock.
    Threads(usize),
    /// A drive at each place. First everything is driven on the virtual clock, each thread on a
    /// core of its place's stack; then on the wall clock, with nothing beside it, and each of these
    /// drives once more on the virtual one, where the stack sees the same, and takes as long.
    Places(Vec<Places>),
}

impl Jobs {
    /// Returns that number.
    pub fn count(&self) -> usize {
        match self {
            Jobs::Threads(count) => (*count).max(1),
            Jobs::Places(places) => places.len(),
        }
    }
}

/// Drives what is not in the folder yet. `tell` is called after each drive. After a signal
/// ([`trial::signals`]) drives that have begun are given up, and no other begins.
///
/// # Errors
/// A drive or the folder failed, or the folder does not know how slow the cores are; drives that
/// were over are kept.
pub fn drive_all(
    folder: &mut Folder,
    jobs: &Jobs,
    tell: &(dyn Fn(Progress) + Sync),
) -> Result<(), Error> {
    if folder.is_done() {
        return Ok(());
    }
    let work = Work {
        study: folder.study().clone(),
        factor: folder.factor().ok_or_else(|| Error::Option {
            option: "--factor",
            found: folder.study().factor.to_string(),
            expected: "a number, or what was found for this machine".to_owned(),
        })?,
        units: folder.units().to_vec(),
        begun: (Instant::now(), folder.done().0),
        folder: Mutex::new(folder),
        next: AtomicUsize::new(0),
        failed: AtomicBool::new(false),
        tell,
    };
    match jobs {
        Jobs::Threads(_) => work.on_threads(&vec![None; jobs.count()], Clock::Virtual),
        Jobs::Places(places) => {
            let places: Vec<Option<&Places>> = places.iter().map(Some).collect();
            work.on_threads(&places, Clock::Virtual)?;
            work.on_threads(&places, Clock::Wall)
        }
    }
}

/// State that the threads share.
struct Work<'a> {
    study: Study,
    factor: f64,
    units: Vec<Unit>,
    /// Time at which it began, and number of drives that were over then.
    begun: (Instant, usize),
    folder: Mutex<&'a mut Folder>,
    next: AtomicUsize,
    failed: AtomicBool,
    tell: &'a (dyn Fn(Progress) + Sync),
}

impl Work<'_> {
    /// Drives everything on a clock, with a thread for each place.
    fn on_threads(&self, places: &[Option<&Places>], clock: Clock) -> Result<(), Error> {
        self.next.store(0, Ordering::Relaxed);
        let run = |place: Option<&Places>| {
            let ran = self.run(place, clock);
            ran.inspect_err(|_| self.failed.store(true, Ordering::Relaxed))
        };
        side_by_side(places, run)
    }

    /// Runs a thread.
    fn run(&self, place: Option<&Places>, clock: Clock) -> Result<(), Error> {
        if clock == Clock::Virtual {
            pin(place.map_or(&[], |place| &place.stack[..1]))?;
        }
        // The counter only has to give each unit once; rows are handed over by the lock.
        while let Some(unit) = self.units.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            for (policy, key) in unit.on(clock) {
                if measure::unless_stopped().is_break() || self.failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if self.has(&key) {
                    continue;
                }
                match self.drive(unit, policy, key, place.filter(|_| clock == Clock::Wall)) {
                    Err(error) if error.is_stopped() => return Ok(()),
                    driven => driven?,
                }
            }
        }
        Ok(())
    }

    /// Drives a unit under a policy, on the wall clock at a place, and keeps the drive.
    fn drive(
        &self,
        unit: &Unit,
        policy: Policy,
        key: Key,
        place: Option<&Places>,
    ) -> Result<(), Error> {
        let (study, factor) = (&self.study, self.factor);
        match place {
            None => self.keep([measure::drive(study, factor, unit, policy, key)?]),
            Some(place) => {
                let again = Key { clock: Clock::Again, ..key.clone() };
                let keys = [key, again];
                self.keep(measure::on_both_clocks(study, factor, unit, policy, keys, place)?)
            }
        }
    }

    fn has(&self, key: &Key) -> bool {
        locked(&self.folder).has(key)
    }

    fn keep<const N: usize>(&self, rows: [Row; N]) -> Result<(), Error> {
        let mut folder = locked(&self.folder);
        folder.append(rows)?;
        let (done, all) = folder.done();
        drop(folder);
        let (began, before) = self.begun;
        let each = began.elapsed() / (done - before).max(1) as u32;
        (self.tell)(Progress { done, all, left: Some(each * (all - done) as u32) });
        Ok(())
    }
}

/// Runs it with each of these at the same time, on threads of their own. The first error counts.
pub(crate) fn side_by_side<T: Copy + Send>(
    each: &[T],
    run: impl Fn(T) -> Result<(), Error> + Sync,
) -> Result<(), Error> {
    std::thread::scope(|scope| {
        let run = &run;
        let threads: Vec<_> = each.iter().map(|&one| scope.spawn(move || run(one))).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<()>, Error>>()
            .map(|_| ())
    })
}

fn locked<'a, 'f>(folder: &'a Mutex<&'f mut Folder>) -> std::sync::MutexGuard<'a, &'f mut Folder> {
    folder.lock().unwrap_or_else(|poison| poison.into_inner())
}

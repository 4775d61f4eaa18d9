//! Drives on several threads.
//!
//! A thread takes the next scenario and stack, and drives it under all policies that are not kept
//! yet, one after the other; each drive is kept before the next begins.

use crate::measure;
use crate::{Error, Folder};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How far a study is.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Drives that are over, with those of earlier runs.
    pub done: usize,
    /// Drives that there are to be.
    pub all: usize,
    /// How long the rest will take, by the drives of this run.
    pub left: Option<Duration>,
}

/// Drives what is not in the folder yet, on `threads` threads. `tell` is called after each drive.
/// If `interrupted` becomes true, drives that have begun are ended and kept, and no other begins.
///
/// # Errors
/// A drive or the folder failed; drives that were over are kept.
pub fn drive_all(
    folder: &mut Folder,
    threads: usize,
    interrupted: &AtomicBool,
    tell: &(dyn Fn(Progress) + Sync),
) -> Result<(), Error> {
    let study = folder.study().clone();
    let units = folder.units().to_vec();
    let (before, all) = folder.done();
    let begun = Instant::now();
    let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let folder = Mutex::new(folder);
    let work = || -> Result<(), Error> {
        // The counter only has to give each unit once; rows are handed over by the lock.
        while let Some(unit) = units.get(next.fetch_add(1, Ordering::Relaxed)) {
            for (policy, key) in unit.keys() {
                if interrupted.load(Ordering::Relaxed) || failed.load(Ordering::Relaxed) {
                    return Ok(());
                }
                if locked(&folder).has(&key) {
                    continue;
                }
                let row = measure::drive(&study, unit, policy, key)?;
                let mut folder = locked(&folder);
                folder.append(row)?;
                let done = folder.done().0;
                drop(folder);
                let each = begun.elapsed() / (done - before).max(1) as u32;
                tell(Progress { done, all, left: Some(each * (all - done) as u32) });
            }
        }
        Ok(())
    };
    let run = || work().inspect_err(|_| failed.store(true, Ordering::Relaxed));
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(run)).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<()>, Error>>()
            .map(|_| ())
    })
}

fn locked<'a, 'f>(folder: &'a Mutex<&'f mut Folder>) -> std::sync::MutexGuard<'a, &'f mut Folder> {
    folder.lock().unwrap_or_else(|poison| poison.into_inner())
}

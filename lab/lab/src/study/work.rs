//! Work on all sets of a run, on all cores.
//!
//! Threads take blocks of sets from a counter until there are none, keep their rows to themselves,
//! and the rows are put in order at the end: the result does not depend on who did what.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use terminal::progress::Progress;
use trial::signals;

use super::Plan;
use super::judge::{Judge, is_wanted};
use super::row::Row;
use crate::shown::End;

/// Sets of one block.
const BLOCK: u64 = 32;
/// Name of the units of a study.
const SETS: &str = "sets";

/// The rows of all sets of the shard, in order, and the number of sets; after a signal those of the
/// sets that were judged by then.
///
/// # Errors
/// The first that a thread met.
pub(super) fn all(plan: &Plan, threads: usize) -> anyhow::Result<(Vec<Row>, End)> {
    let points = largest_first(plan);
    let sets = plan.shard.count(plan.study.sets);
    let all = sets * points.len() as u64;
    let progress = Progress::start("keeptime-lab study", None);
    progress.at(0, all, SETS);
    let work = Work {
        plan,
        points,
        sets,
        next: AtomicU64::new(0),
        judged: AtomicU64::new(0),
        all,
        failure: Mutex::new(None),
        progress: &progress,
    };
    let mut rows = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(|| work.run())).collect();
        let rows = threads.into_iter().map(|thread| thread.join());
        rows.map(|rows| rows.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Vec<Vec<Row>>>()
            .concat()
    });
    if let Some(error) = work.failure.into_inner().unwrap_or_else(|poison| poison.into_inner()) {
        return Err(error);
    }
    rows.sort_unstable_by_key(Row::key);
    // Relaxed: the threads have been joined.
    let judged = work.judged.load(Ordering::Relaxed);
    let interrupted = signals::interrupted().filter(|_| judged < all);
    let units = [judged, all].map(|sets| usize::try_from(sets).unwrap_or(usize::MAX));
    Ok((rows, End { interrupted, units: units.into(), name: SETS }))
}

/// The points. The largest sets take longest and come first, so that no thread is left alone with
/// them.
fn largest_first(plan: &Plan) -> Vec<usize> {
    let mut points: Vec<usize> = (0..plan.study.points.len()).collect();
    points.sort_by_key(|&point| std::cmp::Reverse(plan.study.points[point].chains));
    points
}

struct Work<'w> {
    plan: &'w Plan,
    points: Vec<usize>,
    /// Sets of each point.
    sets: u64,
    /// The next block.
    next: AtomicU64,
    /// Sets that have been judged, of all.
    judged: AtomicU64,
    all: u64,
    failure: Mutex<Option<anyhow::Error>>,
    progress: &'w Progress,
}

impl Work<'_> {
    /// The point of a block and its sets, unless there are no more.
    fn block(&self, index: u64) -> Option<(usize, impl Iterator<Item = u64>)> {
        let blocks = self.sets.div_ceil(BLOCK).max(1);
        let point = self.points.get(usize::try_from(index / blocks).ok()?)?;
        let first = index % blocks * BLOCK;
        let set = |place| self.plan.shard.unit(place);
        Some((*point, (first..self.sets.min(first + BLOCK)).map(set)))
    }

    /// Takes blocks until there are none, or another thread failed.
    fn run(&self) -> Vec<Row> {
        let mut judge = Judge::new(self.plan);
        let mut rows = Vec::new();
        // The counter only has to give each block once; results are handed over by the join.
        while let Some((point, sets)) = self.block(self.next.fetch_add(1, Ordering::Relaxed)) {
            for set in sets {
                let before = rows.len();
                let judged = judge.judge(point, set, &mut rows);
                if !is_wanted() {
                    rows.truncate(before);
                    return rows;
                }
                if let Err(error) = judged {
                    self.fail(error);
                    return rows;
                }
                self.judged.fetch_add(1, Ordering::Relaxed);
            }
            self.progress.at(self.judged.load(Ordering::Relaxed), self.all, SETS);
        }
        rows
    }

    /// Keeps the first failure, and leaves the others no more blocks.
    fn fail(&self, error: anyhow::Error) {
        self.next.store(u64::MAX / 2, Ordering::Relaxed);
        let mut failure = self.failure.lock().unwrap_or_else(|poison| poison.into_inner());
        failure.get_or_insert(error);
    }
}

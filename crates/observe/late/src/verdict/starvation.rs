//! Starvation at a read-write lock: readers wait while writers get it one after the other, or a
//! writer waits while readers come and get it.

use super::case::Case;
use super::{Evidence, Remedy, Verdict};

pub(super) fn judge(case: &Case<'_>, place: u32) -> impl Iterator<Item = Verdict> {
    [readers(case, place), writers(case, place)].into_iter().flatten()
}

fn readers(case: &Case<'_>, place: u32) -> Option<Verdict> {
    let lock = case.lock(place);
    let (most, longest) = (lock.starved_readers.worst.as_ref()?, &lock.starved_readers.longest);
    let evidence = Evidence::ReaderStarvation {
        times: lock.starved_readers.count,
        most_writers: most.others,
        waits: lock.readers.wait.count,
        wait_max_ns: longest.as_ref()?.duration_ns,
    };
    Some(case.of_lock(place, longest.as_ref(), evidence, vec![Remedy::PhaseFairRwLock]))
}

fn writers(case: &Case<'_>, place: u32) -> Option<Verdict> {
    let lock = case.lock(place);
    let (most, longest) = (lock.starved_writers.worst.as_ref()?, &lock.starved_writers.longest);
    let evidence = Evidence::WriterStarvation {
        times: lock.starved_writers.count,
        most_readers: most.others,
        waits: lock.others.wait.count,
        wait_max_ns: longest.as_ref()?.duration_ns,
    };
    Some(case.of_lock(place, longest.as_ref(), evidence, vec![Remedy::PhaseFairRwLock]))
}

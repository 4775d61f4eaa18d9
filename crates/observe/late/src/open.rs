//! Waits that did not end: what threads still waited for when their records ended, and who had it.
//!
//! A thread's records end with the recording, or with the thread. A wait that is open then, where no
//! records are missing, did not end. Who had the lock is told by the holds that are open, too; where
//! they are not recorded, by the owner that the waiter found. Threads that wait for one another in a
//! circle will wait for ever: the circles are found by following each wait to its holders.
//!
//! A trace is an allegation: each wait is followed once, to at most [`MOST_HOLDERS`] holders.

use super::identity::Family;
use super::snapshot::{LockHold, Wait};
use serde::Serialize;

/// Holders that are kept for a wait: of a lock that is read by more, these.
const MOST_HOLDERS: usize = 16;

/// A wait that had not ended when its thread's records did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenWait {
    /// The waiting thread, as its place in the survey's threads.
    pub thread: u32,
    /// The lock, as its place in the survey's locks.
    pub lock: u32,
    /// Family of that lock.
    pub family: Family,
    /// True if a read-write lock is wanted for reading.
    pub read: bool,
    /// The kind of call in which it waits; none is outside of every call.
    pub kind: Option<u32>,
    /// Begin of the wait.
    pub at_ns: u64,
    /// Time from its begin to the end of the trace.
    pub until_end_ns: u64,
    /// Known holders of the lock; empty for objects that no thread holds, such as conditions.
    pub holders: Vec<OpenHolder>,
    /// The circle that it is part of: a place in the survey's circles.
    pub circle: Option<u32>,
}

/// Holder of a lock that another thread waited for to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenHolder {
    /// Its thread id.
    pub tid: u32,
    /// Its place in the survey's threads, if it was recorded.
    pub thread: Option<u32>,
    /// Time since which it had the lock, if that was recorded.
    pub since_ns: Option<u64>,
    /// The wait of the holder itself, as its place in the survey's open waits.
    pub waits: Option<u32>,
}

/// Waits and holds that were open when the records of each thread ended.
#[derive(Debug, Default)]
pub(super) struct Left {
    /// Stream, the wait, and the kind of call.
    pub waits: Vec<(u32, Wait, u32)>,
    /// Stream, and the hold.
    pub held: Vec<(u32, LockHold)>,
}

/// A holder, in terms of the first pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Holding {
    pub tid: u32,
    pub stream: Option<u32>,
    pub since: Option<u64>,
}

impl Left {
    /// Returns the holders of the lock of each wait. `tid` is a stream's thread id; `living` finds
    /// the stream of a thread id in the process of another stream, at a time.
    pub(crate) fn holders(
        &self,
        tid: impl Fn(u32) -> u32,
        living: impl Fn(u32, u32, u64) -> Option<u32>,
    ) -> Vec<Vec<Holding>> {
        let mut held: Vec<&(u32, LockHold)> = self.held.iter().collect();
        held.sort_unstable_by_key(|(stream, held)| (held.lock, held.since, *stream));
        let of_lock = |lock: u32| {
            let from = held.partition_point(|(_, held)| held.lock < lock);
            let to = held.partition_point(|(_, held)| held.lock <= lock);
            &held[from..to]
        };
        let one = |(waiter, wait, _): &(u32, Wait, u32)| {
            if !Family::of(wait.class).held() {
                return Vec::new();
            }
            let open = of_lock(wait.lock);
            // The thread that took it for itself last has it; what others had before that, they had
            // let go in a way that is not recorded.
            let last = open.iter().rposition(|(_, held)| !held.read);
            let open = &open[last.unwrap_or(0)..];
            let holding = |(stream, held): &&(u32, LockHold)| Holding {
                tid: tid(*stream),
                stream: Some(*stream),
                since: Some(held.since),
            };
            let mut holders: Vec<Holding> = open.iter().take(MOST_HOLDERS).map(holding).collect();
            // The owner's id stood in the lock when the wait began.
            let is_told = |holder: &Holding| {
                holder.tid == wait.owner || holder.since.is_some_and(|since| since > wait.since)
            };
            if wait.owner != 0 && !holders.iter().any(is_told) {
                let stream = living(*waiter, wait.owner, wait.since);
                holders = vec![Holding { tid: wait.owner, stream, since: None }];
            }
            holders
        };
        self.waits.iter().map(one).collect()
    }
}

/// Circles among waits, each in the order of waiting thread and holder. `next` are the waits of the
/// holders of what each waits for. Each wait is in at most one circle.
pub(super) fn circles(next: &[Vec<u32>]) -> Vec<Vec<u32>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Seen {
        Not,
        OnPath,
        Done,
    }
    let mut seen = vec![Seen::Not; next.len()];
    let mut in_circle = vec![false; next.len()];
    let mut circles = Vec::new();
    // The path, with which of the next ones is looked at next.
    let mut path: Vec<(u32, usize)> = Vec::new();
    for start in 0..next.len() as u32 {
        if seen[start as usize] != Seen::Not {
            continue;
        }
        seen[start as usize] = Seen::OnPath;
        path.push((start, 0));
        while let Some((at, which)) = path.last_mut() {
            let Some(to) = next[*at as usize].get(*which).copied() else {
                seen[*at as usize] = Seen::Done;
                path.pop();
                continue;
            };
            *which += 1;
            match seen[to as usize] {
                Seen::Not => {
                    seen[to as usize] = Seen::OnPath;
                    path.push((to, 0));
                }
                Seen::OnPath => {
                    let from = path.iter().position(|(at, _)| *at == to).unwrap_or(0);
                    let circle: Vec<u32> = path[from..].iter().map(|(at, _)| *at).collect();
                    if !circle.iter().any(|wait| in_circle[*wait as usize]) {
                        circle.iter().for_each(|wait| in_circle[*wait as usize] = true);
                        circles.push(circle);
                    }
                }
                Seen::Done => {}
            }
        }
    }
    circles
}

#[cfg(test)]
mod tests {
    use super::circles;

    #[test]
    fn circles_are_found_in_their_order() {
        // 0 waits for 1, that for 2, that for 1; 3 waits for itself; 4 for none.
        let next = [vec![1], vec![2], vec![1], vec![3], vec![]];
        assert_eq!(circles(&next), [vec![1, 2], vec![3]]);
        assert!(circles(&[vec![1], vec![2], vec![]]).is_empty());
        // A writer that waits for two readers, of which one waits for the writer's other lock.
        assert_eq!(circles(&[vec![1, 2], vec![], vec![0]]), [vec![0, 2]]);
    }

    #[test]
    fn long_chain_is_followed_without_deep_calls() {
        let chain: Vec<Vec<u32>> = (1..=200_000).map(|next| vec![next % 200_000]).collect();
        assert_eq!(circles(&chain).len(), 1);
    }
}

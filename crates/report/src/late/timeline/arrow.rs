//! Arrows from a thread to the one that it let in, and the threads that a late call depended on.

use super::window::{Span, Window};
use crate::late::spans::spans_lock::Key;
use crate::late::spans::{End, Hold, Wait};
use record::Class;
use std::collections::HashMap;

/// Threads that are said to be involved in a call, at most.
const MOST_INVOLVED: usize = 12;

/// An arrow from a release or a signal to the thread that it let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrow {
    /// Time in ticks, and the stream of the thread.
    pub from: (u64, u32),
    pub to: (u64, u32),
    pub lock: Key,
}

/// The arrows to the ends of the waits that are kept.
pub(super) fn arrows(window: &Window) -> Vec<Arrow> {
    let mut released: HashMap<Key, Vec<(u64, u32)>> = HashMap::new();
    for hold in window.holds.iter().filter(|hold| hold.end == Some(End::Got)) {
        released.entry(hold.what.lock).or_default().push((hold.to, hold.stream));
    }
    let mut signalled: HashMap<Key, Vec<(u64, u32)>> = HashMap::new();
    for (at, stream, key) in window.signals.iter() {
        signalled.entry(*key).or_default().push((*at, *stream));
    }
    released.values_mut().chain(signalled.values_mut()).for_each(|of| of.sort_unstable());
    let last = |of: &HashMap<Key, Vec<(u64, u32)>>, lock: Key, wait: &Span<Wait>, since: u64| {
        let of = of.get(&lock)?;
        let before = of.partition_point(|(at, _)| *at <= wait.to);
        let found = of[..before].iter().rev().find(|(_, stream)| *stream != wait.stream)?;
        (found.0 >= since).then_some(*found)
    };
    let mut arrows = Vec::new();
    for wait in window.waits.iter() {
        let (got, key) = ((wait.to, wait.stream), wait.what.lock);
        if wait.what.class == Class::Condition {
            let Some(signal) = last(&signalled, key, wait, wait.from) else { continue };
            arrows.push(Arrow { from: signal, to: (signal.0, wait.stream), lock: key });
            let retaken = wait
                .what
                .mutex
                .and_then(|mutex| Some((last(&released, mutex, wait, signal.0)?, mutex)));
            arrows.extend(retaken.map(|(from, lock)| Arrow { from, to: got, lock }));
        } else if wait.end == Some(End::Got) {
            let from = last(&released, key, wait, wait.from);
            arrows.extend(from.map(|from| Arrow { from, to: got, lock: key }));
        }
    }
    arrows.sort_by_key(|arrow| arrow.from);
    arrows
}

/// The thread that the window is about, then those whose locks it waited for, those for whose
/// locks they waited meanwhile, and so on. `owner` gives the stream of a thread id at a time.
pub(super) fn involved(window: &Window, owner: impl Fn(u32, u64) -> Option<u32>) -> Vec<u32> {
    let mut streams = vec![window.stream];
    let mut at = 0;
    while at < streams.len() && streams.len() < MOST_INVOLVED {
        let waits = window.waits.iter().filter(|wait| wait.stream == streams[at]);
        let mut waits: Vec<&Span<Wait>> = waits.collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(window.inside(wait.from, wait.to)));
        for wait in waits {
            let mut blocking: Vec<&Span<Hold>> =
                window.holds.iter().filter(|hold| blocks(hold, wait)).collect();
            blocking.sort_by_key(|hold| hold.from);
            let named = owner(wait.what.owner, wait.from).filter(|_| wait.what.owner != 0);
            let signals = window.signals.iter().filter(|(at, _, key)| {
                *key == wait.what.lock && (wait.from..=wait.to).contains(at)
            });
            let found = blocking.into_iter().map(|hold| hold.stream).chain(named);
            for stream in found.chain(signals.map(|(_, stream, _)| *stream)) {
                if !streams.contains(&stream) && streams.len() < MOST_INVOLVED {
                    streams.push(stream);
                }
            }
        }
        at += 1;
    }
    streams
}

/// Returns true if a thread waits for a lock because of a hold.
fn blocks(hold: &Span<Hold>, wait: &Span<Wait>) -> bool {
    let wanted = wait.what.lock == hold.what.lock || wait.what.mutex == Some(hold.what.lock);
    let readers = hold.what.read && wait.what.class == Class::Read;
    let meanwhile = hold.from < wait.to && hold.to > wait.from;
    wanted && !readers && meanwhile && hold.stream != wait.stream
}

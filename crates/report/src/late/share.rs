//! One late call as a short list: its parts, put together where they are the same thing.
//!
//! A call that waited for a mutex that thirteen threads had one after the other has at least
//! thirteen parts. They are one [`Share`] here, `waiting for mutex M4`, with one [`Detail`] for
//! each kind of holder: `held by 13 threads in turn inside cuMemcpyHtoDAsync`. The details of a
//! share add up to it, and the shares of a call to its duration, exactly.

mod cause;

use super::name::task;
use super::{Findings, What};
use crate::number::{percent, time};
use cause::Phrase;
pub(super) use cause::Sentence;
use late::{Explained, Task};

/// Names that are told one by one.
const NAMED: usize = 2;
/// A holder that is kept off is worth a word in a summary from so many percent on.
const WORTH_PERCENT: u64 = 10;

/// Task, and its time in nanoseconds.
pub(super) type Who = (Task, u64);

/// A part of a call that is one thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) what: What,
    /// Description of the share, in one sentence.
    pub(super) words: String,
    /// Common part of its details; the sentence if there is one detail only.
    pub(super) head: String,
    pub(super) ns: u64,
    /// Number of its parts.
    pub(super) times: u64,
    /// The lock that was waited for, as its place in the survey.
    pub(super) lock: Option<u32>,
    /// The longest first; never none.
    pub(super) details: Vec<Detail>,
}

/// A part of a share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Detail {
    pub(super) what: What,
    pub(super) words: String,
    pub(super) ns: u64,
    pub(super) times: u64,
    /// Tasks that had the lock or the processor; the longest first.
    pub(super) who: Vec<Who>,
    /// True if something kept the lock's holder from going on.
    pub(super) kept_off: bool,
}

/// A detail while it is summed up.
struct Sum {
    what: What,
    base: Phrase,
    state: Phrase,
    /// Threads and their times for each gap of both phrases.
    who: Vec<Vec<(Option<Task>, u64)>>,
    ns: u64,
    times: u64,
}

/// A share while it is summed up.
struct Group {
    head: Option<String>,
    lock: Option<u32>,
    sums: Vec<Sum>,
}

/// The shares of a call, the longest first.
pub(super) fn shares(findings: &Findings<'_>, call: &Explained) -> Vec<Share> {
    let mut groups: Vec<Group> = Vec::new();
    for part in &call.parts {
        let sentence = cause::sentence(findings, &part.cause);
        let at = groups.iter().position(|group| group.is_of(&sentence)).unwrap_or_else(|| {
            let (head, lock) = (sentence.head.clone(), sentence.lock);
            groups.push(Group { head, lock, sums: Vec::new() });
            groups.len() - 1
        });
        groups[at].add(sentence, part.duration_ns, part.times);
    }
    let mut shares: Vec<Share> = groups.into_iter().map(Group::share).collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
    shares
}

impl Group {
    fn is_of(&self, sentence: &Sentence) -> bool {
        match (&self.head, &sentence.head) {
            (Some(head), Some(other)) => head == other,
            (None, None) => self.sums.iter().any(|sum| sum.is_of(sentence)),
            _ => false,
        }
    }

    fn add(&mut self, sentence: Sentence, ns: u64, times: u64) {
        let at = self.sums.iter().position(|sum| sum.is_of(&sentence));
        let Sentence { what, base, state, .. } = sentence;
        let gaps: Vec<Option<Task>> = base.gaps.iter().chain(&state.gaps).cloned().collect();
        let at = at.unwrap_or_else(|| {
            let who = vec![Vec::new(); gaps.len()];
            self.sums.push(Sum { what, base, state, who, ns: 0, times: 0 });
            self.sums.len() - 1
        });
        let sum = &mut self.sums[at];
        sum.ns += ns;
        sum.times += times;
        for (known, who) in sum.who.iter_mut().zip(gaps) {
            match known.iter_mut().find(|(other, _)| *other == who) {
                Some((_, sum)) => *sum += ns,
                None => known.push((who, ns)),
            }
        }
    }

    fn share(mut self) -> Share {
        for sum in &mut self.sums {
            sum.who.iter_mut().for_each(|who| who.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns)));
        }
        self.sums.sort_by_key(|sum| std::cmp::Reverse(sum.ns));
        let (words, what) = (self.summary(), self.sums[0].what);
        let head = self.head.filter(|_| self.sums.len() > 1).unwrap_or_else(|| words.clone());
        Share {
            what,
            words,
            head,
            ns: self.sums.iter().map(|sum| sum.ns).sum(),
            times: self.sums.iter().map(|sum| sum.times).sum(),
            lock: self.lock,
            details: self.sums.iter().map(Sum::detail).collect(),
        }
    }

    /// The longest detail with all holders of its kind, and how long these were kept off.
    fn summary(&self) -> String {
        let (first, mut who) = (&self.sums[0], Vec::new());
        let alike = || self.sums.iter().filter(|sum| sum.base.words == first.base.words);
        who.resize(first.base.gaps.len(), Vec::new());
        for sum in alike() {
            for (all, own) in who.iter_mut().zip(&sum.who) {
                merge(all, own);
            }
        }
        let whole = self.sums.iter().map(|sum| sum.ns).sum::<u64>();
        if let (Some(head), true) = (&self.head, 2 * first.ns < whole && who.is_empty()) {
            // Many kinds of work, none of which is most of it.
            return head.clone();
        }
        let mut words = self.head.as_ref().map_or(String::new(), |head| format!("{head}, "));
        words += &first.base.filled(&who);
        if let [only] = &self.sums[..] {
            return words + &only.state.filled(&only.who[who.len()..]);
        }
        let off = alike().filter(|sum| !sum.state.is_empty());
        let off = off.filter(|sum| sum.ns * 100 >= whole * WORTH_PERCENT);
        for sum in off {
            let state = sum.state.filled(&sum.who[who.len()..]);
            words += &format!("{state} for {} of that", percent(sum.ns, whole));
        }
        words
    }
}

impl Sum {
    fn is_of(&self, sentence: &Sentence) -> bool {
        let same = |one: &Phrase, other: &Phrase| one.words == other.words;
        same(&self.base, &sentence.base) && same(&self.state, &sentence.state)
    }

    fn detail(&self) -> Detail {
        let (base, state) = self.who.split_at(self.base.gaps.len());
        let first = self.who.first().map_or(&[][..], Vec::as_slice);
        Detail {
            what: self.what,
            words: self.base.filled(base) + &self.state.filled(state),
            ns: self.ns,
            times: self.times,
            who: first.iter().filter_map(|(who, ns)| Some((who.clone()?, *ns))).collect(),
            kept_off: !self.state.is_empty(),
        }
    }
}

/// Adds who has what in one detail to what all of them have, the longest first.
fn merge(all: &mut Vec<(Option<Task>, u64)>, own: &[(Option<Task>, u64)]) {
    for (task, ns) in own {
        match all.iter_mut().find(|(known, _)| known == task) {
            Some((_, sum)) => *sum += ns,
            None => all.push((task.clone(), *ns)),
        }
    }
    all.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
}

impl Phrase {
    /// The words with the gaps filled in.
    fn filled(&self, who: &[Vec<(Option<Task>, u64)>]) -> String {
        let names = who.iter().map(|who| in_turn(who)).chain(std::iter::repeat(String::new()));
        self.words.iter().zip(names).map(|(words, name)| format!("{words}{name}")).collect()
    }
}

/// `copy-3 (4711)`, `a (1) and b (2)`, `13 threads in turn, longest copy-3 (4711) for 1.2 ms,`.
fn in_turn(who: &[(Option<Task>, u64)]) -> String {
    let name = |who: &Option<Task>| who.as_ref().map_or("an unknown thread".to_owned(), task);
    match who {
        [] => String::new(),
        few if few.len() <= NAMED => {
            few.iter().map(|(who, _)| name(who)).collect::<Vec<_>>().join(" and ")
        }
        [(longest, ns), ..] => {
            format!("{} threads in turn (longest {} for {})", who.len(), name(longest), time(*ns))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(tid: u32) -> Option<Task> {
        Some(Task { tid, name: format!("t{tid}"), ..Task::default() })
    }

    fn held(by: u32, off: Option<u32>) -> Sentence {
        let mut base = Phrase::new("held by ");
        base.gap(thread(by).as_ref());
        let mut state = Phrase::default();
        if off.is_some() {
            state = Phrase::new(", who was preempted by ");
            state.gap(off.and_then(thread).as_ref());
        }
        let head = Some("waiting for mutex M1".to_owned());
        Sentence { what: What::Lock, head, base, state, lock: Some(0) }
    }

    fn share(parts: &[(u32, Option<u32>, u64)]) -> Share {
        let mut group =
            Group { head: Some("waiting for mutex M1".into()), lock: Some(0), sums: Vec::new() };
        for (by, off, ns) in parts {
            group.add(held(*by, *off), *ns, 1);
        }
        group.share()
    }

    #[test]
    fn holders_of_one_kind_are_one_detail() {
        let one = share(&[(1, None, 50)]);
        assert_eq!(one.words, "waiting for mutex M1, held by t1 (1)");
        assert_eq!(one.head, one.words);
        let many = share(&[(1, None, 500), (2, None, 700), (1, None, 100), (3, None, 100)]);
        let words = "waiting for mutex M1, held by 3 threads in turn (longest t2 (2) for 700 ns)";
        assert_eq!((many.words.as_str(), many.details.len(), many.ns), (words, 1, 1400));
        assert_eq!(
            many.details[0].who.iter().map(|(_, ns)| *ns).collect::<Vec<_>>(),
            [700, 600, 100]
        );
    }

    #[test]
    fn holders_that_were_kept_off_are_a_detail_of_their_own() {
        let share = share(&[(1, None, 60), (2, Some(9), 30), (1, Some(8), 5)]);
        assert_eq!(share.head, "waiting for mutex M1");
        let details: Vec<(&str, u64)> =
            share.details.iter().map(|detail| (detail.words.as_str(), detail.ns)).collect();
        let preempted = "held by t2 (2) and t1 (1), who was preempted by t9 (9) and t8 (8)";
        assert_eq!(details, [("held by t1 (1)", 60), (preempted, 35)]);
        let words = "waiting for mutex M1, held by t1 (1) and t2 (2), who was preempted by t9 (9) \
            and t8 (8) for 37 % of that";
        assert_eq!(share.words, words);
    }
}

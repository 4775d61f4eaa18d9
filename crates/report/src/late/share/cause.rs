//! A cause in words, with gaps for the threads that may differ between parts of one kind.

use crate::late::{Findings, What, late_gpu};
use late::{Cause, Holder, HolderState, Reason, Task};

/// Words with gaps.
#[derive(Debug, Clone, Default)]
pub(super) struct Phrase {
    /// One more than there are gaps, or none.
    pub(super) words: Vec<String>,
    pub(super) gaps: Vec<Option<Task>>,
}

impl Phrase {
    pub(super) fn new(words: impl Into<String>) -> Phrase {
        Phrase { words: vec![words.into()], gaps: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(super) fn text(&mut self, text: &str) {
        match self.words.last_mut() {
            Some(last) => *last += text,
            None => self.words.push(text.to_owned()),
        }
    }

    pub(super) fn gap(&mut self, who: Option<&Task>) {
        if self.words.is_empty() {
            self.words.push(String::new());
        }
        self.gaps.push(who.cloned());
        self.words.push(String::new());
    }
}

/// Description of a part.
#[derive(Debug, Clone)]
pub(in crate::late) struct Sentence {
    pub(super) what: What,
    /// `waiting for mutex M4`, for parts that are put together by that; else none.
    pub(super) head: Option<String>,
    /// `held by copy-3 (4711) inside cuMemcpyHtoDAsync`.
    pub(super) base: Phrase,
    /// `, who was preempted by ...`.
    pub(super) state: Phrase,
    pub(super) lock: Option<u32>,
}

impl Sentence {
    pub(in crate::late) fn new(what: What, words: impl Into<String>) -> Sentence {
        let (base, state) = (Phrase::new(words), Phrase::default());
        Sentence { what, head: None, base, state, lock: None }
    }

    /// Parts with the same head are put together.
    pub(in crate::late) fn of(
        what: What,
        head: impl Into<String>,
        words: impl Into<String>,
    ) -> Sentence {
        Sentence { head: Some(head.into()), ..Sentence::new(what, words) }
    }

    fn about(self, lock: u32) -> Sentence {
        Sentence { lock: Some(lock), ..self }
    }
}

/// A cause in words.
pub(super) fn sentence(findings: &Findings<'_>, cause: &Cause) -> Sentence {
    match cause {
        Cause::Executing => Sentence::new(What::Executing, "executing"),
        Cause::Lock { lock, after_signal, holders, readers } => {
            let head = waiting_for(findings, *lock, *after_signal);
            Sentence { head: Some(head), ..held(findings, holders, *readers).about(*lock) }
        }
        Cause::HandOver { lock, after_signal, to, certain } => {
            let head = waiting_for(findings, *lock, *after_signal);
            Sentence { head: Some(head), ..free(to.as_ref(), *certain).about(*lock) }
        }
        Cause::WokenLate { lock, behind } => woken(findings, *lock, behind.as_ref()),
        Cause::Preempted { by } => {
            let mut sentence = Sentence::new(What::Preempted, "preempted by ");
            sentence.base.gap(by.as_ref());
            sentence
        }
        Cause::Signal { lock, .. } => {
            let words = format!("waiting for the signal of {}", findings.lock(*lock));
            Sentence::new(What::Signal, words).about(*lock)
        }
        Cause::Blocked => {
            Sentence::new(What::Blocked, "off the processor: a page fault or another system call")
        }
        Cause::QueueFull { outstanding } => Sentence::new(
            What::QueueFull,
            format!("device queue probably full ({outstanding} launches outstanding)"),
        ),
        Cause::Gpu { state, work } => late_gpu::sentence(findings, *state, *work),
        Cause::Unexplained { reason } => Sentence::new(What::Unexplained, unexplained(*reason)),
    }
}

fn waiting_for(findings: &Findings<'_>, lock: u32, after_signal: bool) -> String {
    let again = if after_signal { " again after a signal" } else { "" };
    format!("waiting for {}{again}", findings.lock(lock))
}

fn unexplained(reason: Reason) -> &'static str {
    match reason {
        Reason::NoScheduler => {
            "unexplained: executing or suspended, the scheduler was not recorded"
        }
        Reason::QueueMayBeFull => {
            "unexplained: the scheduler was not recorded; the device queue may have been full"
        }
        Reason::Lost => "unexplained: records are missing",
    }
}

fn woken(findings: &Findings<'_>, lock: Option<u32>, behind: Option<&Task>) -> Sentence {
    let what_for = lock.map_or(String::new(), |lock| format!(" to take {}", findings.lock(lock)));
    let words = format!("woken{what_for}, but waiting for a processor");
    let mut sentence = Sentence { lock, ..Sentence::new(What::WokenLate, words) };
    behind_whom(&mut sentence.base, behind);
    sentence
}

/// Names the thread behind which a woken thread waited; an idle processor has to wake up first.
fn behind_whom(phrase: &mut Phrase, behind: Option<&Task>) {
    match behind {
        Some(behind) if behind.tid == 0 => phrase.text(", which was idle, to wake up"),
        Some(behind) => {
            phrase.text(" behind ");
            phrase.gap(Some(behind));
        }
        None => {}
    }
}

/// Names the holder of the lock, and if it waited for another lock, the holder of that, and so on.
fn held(findings: &Findings<'_>, holders: &[Holder], readers: u32) -> Sentence {
    let mut sentence = Sentence::new(What::Lock, "");
    let base = &mut sentence.base;
    for (at, holder) in holders.iter().enumerate() {
        if at > 0 {
            base.text(&format!(", who waited for {}, ", findings.lock(holder.lock)));
        }
        base.text(if holder.assumed { "probably held by " } else { "held by " });
        base.gap(Some(&holder.task));
        match (holder.read, at == 0 && readers > 1) {
            (true, true) => base.text(" and other readers"),
            (true, false) => base.text(" for reading"),
            (false, _) => {}
        }
        if let Some(call) = holder.call {
            base.text(&format!(" inside {}", findings.call(call)));
        }
    }
    match holders.last() {
        Some(last) => sentence.state = state(findings, &last.state),
        None => base.text("held by an unknown thread"),
    }
    sentence
}

/// Reason why the last holder did not go on.
fn state(findings: &Findings<'_>, state: &HolderState) -> Phrase {
    let mut phrase = Phrase::default();
    match state {
        HolderState::Executing | HolderState::NotKnown | HolderState::WaitsForLock => {}
        HolderState::Preempted { by } => {
            phrase.text(", who was preempted by ");
            phrase.gap(by.as_ref());
        }
        HolderState::WokenLate { behind } => {
            phrase.text(", who was woken but waited for a processor");
            behind_whom(&mut phrase, behind.as_ref());
        }
        HolderState::HandOver { lock } => {
            phrase.text(&format!(", who was about to get {}", findings.lock(*lock)));
        }
        HolderState::Signal { lock } => {
            phrase.text(&format!(", who waited for the signal of {}", findings.lock(*lock)));
        }
        HolderState::Blocked => phrase.text(", who was in a page fault or a system call"),
        HolderState::NotFollowed => phrase.text(", who waited for another of these locks"),
        HolderState::Lost => phrase.text(", whose records are missing"),
    }
    phrase
}

/// The lock was free.
fn free(to: Option<&Task>, certain: bool) -> Sentence {
    let mut sentence = Sentence::new(
        What::HandOver,
        match certain {
            true => "which was free",
            false => "which had no known holder",
        },
    );
    if let Some(to) = to {
        sentence.base.text(" and went to ");
        sentence.base.gap(Some(to));
    }
    sentence
}

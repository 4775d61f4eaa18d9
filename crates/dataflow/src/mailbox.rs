//! Mailbox in which messages wait for a module: the newest one only, or a bounded queue.

use std::collections::VecDeque;

use crate::message::Envelope;

/// Messages that a mailbox keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// The newest message. It stays readable after it was read.
    Latest,
    /// A number of messages, each of which is read once; when it is full the oldest goes.
    Fifo(usize),
}

/// One mailbox of one module.
#[derive(Clone)]
pub(crate) struct Mailbox {
    keep: Keep,
    waiting: VecDeque<Envelope>,
    /// The newest message that was read, of a mailbox that keeps the latest.
    read: Option<Envelope>,
    /// Messages that were gathered for the present input.
    pub(crate) taken: Vec<Envelope>,
    pub(crate) counts: MailboxCounts,
}

/// Counts of the messages of one mailbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MailboxCounts {
    /// Messages that arrived.
    pub arrived: u64,
    /// Messages that a newer one replaced, or that a full queue let go, before they were read.
    pub dropped: u64,
    /// Messages that were older than one which had arrived before, and were not kept.
    pub stale: u64,
}

impl Mailbox {
    pub(crate) fn new(keep: Keep) -> Self {
        Mailbox {
            keep,
            waiting: VecDeque::new(),
            read: None,
            taken: Vec::new(),
            counts: MailboxCounts::default(),
        }
    }

    /// One that holds what was taken out of another, to be taken out again.
    pub(crate) fn of(taken: &[Envelope]) -> Self {
        let waiting = taken.iter().cloned().collect();
        Mailbox { waiting, ..Mailbox::new(Keep::Fifo(taken.len())) }
    }

    /// Puts a message in; false if it was stale.
    pub(crate) fn put(&mut self, envelope: Envelope) -> bool {
        self.counts.arrived += 1;
        let depth = match self.keep {
            Keep::Latest => {
                let newest = self.waiting.back().or(self.read.as_ref());
                let captured_ns = envelope.header.captured_ns;
                if newest.is_some_and(|newest| newest.header.captured_ns > captured_ns) {
                    self.counts.stale += 1;
                    return false;
                }
                1
            }
            Keep::Fifo(depth) => depth,
        };
        if self.waiting.len() == depth {
            self.waiting.pop_front();
            self.counts.dropped += 1;
        }
        self.waiting.push_back(envelope);
        true
    }

    /// Returns true if [`Mailbox::take`] would give a message.
    pub(crate) fn holds(&self) -> bool {
        !self.waiting.is_empty() || self.read.is_some()
    }

    /// The newest message that was not read.
    pub(crate) fn newest_fresh(&self) -> Option<&Envelope> {
        self.waiting.back()
    }

    /// The next message; the newest one again, if the mailbox keeps the latest.
    pub(crate) fn take(&mut self) -> Option<Envelope> {
        let next = self.waiting.pop_front();
        if self.keep == Keep::Latest && next.is_some() {
            self.read.clone_from(&next);
        }
        let next = next.or_else(|| self.read.clone())?;
        self.taken.push(next.clone());
        Some(next)
    }

    /// All messages that were not read.
    pub(crate) fn drain(&mut self) -> Vec<Envelope> {
        let all: Vec<Envelope> = self.waiting.drain(..).collect();
        if self.keep == Keep::Latest && !all.is_empty() {
            self.read = all.last().cloned();
        }
        self.taken.extend(all.iter().cloned());
        all
    }
}

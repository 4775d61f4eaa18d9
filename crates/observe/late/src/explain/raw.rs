//! Present cause of a thread's time, in ids, with the things that the cause depends on.
//!
//! A thread that waits for a lock waits for its holder. If that thread waits for a lock
//! itself, its holder is looked at, and so on, until a holder waits for no lock: what that one
//! does is what everybody in the chain waits for.

use super::scene::{Has, LockNow, Scene};
use crate::function::NO_KIND;
use crate::identity::{Family, NO_LOCK};
use crate::processors::{Stand, UNKNOWN_PRIORITY, UNKNOWN_TID, Who};
use crate::snapshot::Wait;
use crate::survey::locks::NOBODY;
use record::Class;

/// Most holders of a chain.
pub(crate) const MOST_LINKS: usize = 4;

/// A cause, in ids. Equal ones that follow each other are one part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Raw {
    Executing,
    /// The thread executes or is suspended: there are no records of the scheduler.
    NotRecorded,
    Lost,
    Lock {
        lock: u32,
        relock: bool,
        chain: Chain,
    },
    HandOver {
        lock: u32,
        relock: bool,
        /// The thread that got the lock, if not the waiting thread itself.
        to: Option<Who>,
    },
    /// The lock that it waits for, if it does, and who is on its processor.
    WokenLate {
        lock: u32,
        by: Who,
    },
    Preempted {
        by: Who,
    },
    Signal {
        lock: u32,
    },
    Blocked,
    QueueFull,
    QueueMayBeFull,
    /// The thread waits for the GPU.
    Gpu(Gpu),
}

/// State of the GPU while a thread waits for it; work by its place among [`crate::gpu::Works`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gpu {
    /// Own work runs.
    Own(u32),
    /// Own work runs for longer than it usually does.
    Longer(u32),
    /// No own work runs for a moment, between two pieces of it.
    Between,
    /// No own work runs, although there is some.
    NotGiven,
    /// All own work is over.
    Over,
    /// All own work is over, but the call returns only long after.
    ToldLate,
    /// The recording has no eye on the GPU.
    NotRecorded,
}

/// Holders, each of which waits for the lock that the next one has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Chain {
    links: [Link; MOST_LINKS],
    length: u8,
    /// State of the last holder.
    pub last: Holding,
}

/// One holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Link {
    pub lock: u32,
    pub who: Who,
    pub stream: u32,
    pub kind: u32,
    pub read: bool,
    pub assumed: bool,
}

/// State of a holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holding {
    Stands(Stand),
    HandOver(u32),
    Signal(u32),
    NotFollowed,
    Lost,
}

const NO_LINK: Link = Link {
    lock: NO_LOCK,
    who: Who { tid: UNKNOWN_TID, priority: UNKNOWN_PRIORITY },
    stream: NOBODY,
    kind: NO_KIND,
    read: false,
    assumed: false,
};

impl Chain {
    fn new() -> Chain {
        Chain { links: [NO_LINK; MOST_LINKS], length: 0, last: Holding::NotFollowed }
    }

    /// The holders, that of the lock that is waited for first.
    pub(crate) fn links(&self) -> &[Link] {
        &self.links[..usize::from(self.length)]
    }

    /// Adds a holder, unless there are too many.
    fn push(&mut self, link: Link) -> bool {
        let room = usize::from(self.length) < MOST_LINKS;
        if room {
            self.links[usize::from(self.length)] = link;
            self.length += 1;
        }
        room
    }
}

/// Something that a cause depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Thing {
    None,
    Stream(u32),
    Lock(u32),
    Task(u32),
    Processor(u32),
}

/// Things that a cause depends on: only a record that touches one of these can change it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest {
    things: [Thing; 2 + 4 * (MOST_LINKS + 1)],
    length: usize,
}

impl Interest {
    fn new() -> Interest {
        Interest { things: [Thing::None; 2 + 4 * (MOST_LINKS + 1)], length: 0 }
    }

    fn add(&mut self, thing: Thing) {
        if self.length < self.things.len() && !self.has(thing) {
            self.things[self.length] = thing;
            self.length += 1;
        }
    }

    /// Returns true if a thing is one of these.
    #[inline]
    pub(crate) fn has(&self, thing: Thing) -> bool {
        self.things[..self.length].contains(&thing)
    }
}

/// Present cause of a thread's time, the things that it depends on, and the number of readers that
/// have the lock that the thread waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Present {
    pub raw: Raw,
    pub interest: Interest,
    pub readers: u32,
}

/// A lock that a thread waits for to get.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    lock: u32,
    class: Class,
    relock: bool,
}

enum Waits {
    For(Wanted),
    Signal(u32),
}

impl Scene<'_> {
    /// Returns the present cause of the time of a stream's thread.
    pub(crate) fn present(&self, stream: u32, now: u64) -> Present {
        let mut interest = Interest::new();
        interest.add(Thing::Stream(stream));
        let mut readers = 0;
        let seen = &self.threads[stream as usize];
        let raw = match seen.wait.as_ref() {
            _ if seen.lost => Raw::Lost,
            None => self.outside(stream, &mut interest),
            Some(wait) => match waits(wait, seen.signalled) {
                Waits::Signal(lock) => {
                    interest.add(Thing::Lock(lock));
                    Raw::Signal { lock }
                }
                Waits::For(wanted) => {
                    let held = self.lock(wanted.lock).map_or(&[][..], |lock| &lock.holders);
                    readers = held.iter().filter(|has| has.read).count() as u32;
                    self.inside(stream, wanted, wait, now, &mut interest)
                }
            },
        };
        Present { raw, interest, readers }
    }

    /// A thread that waits for no lock.
    fn outside(&self, stream: u32, interest: &mut Interest) -> Raw {
        match self.stand(self.tid(stream), interest) {
            Stand::Running => Raw::Executing,
            Stand::Preempted(by) => Raw::Preempted { by },
            Stand::Woken(by) => Raw::WokenLate { lock: NO_LOCK, by },
            // A thread in a once control either runs it or sleeps until another thread has run it.
            Stand::Blocked => match self.threads[stream as usize].once.last() {
                Some(lock) => Raw::Signal { lock: *lock },
                None => Raw::Blocked,
            },
            Stand::NotRecorded => Raw::NotRecorded,
            Stand::Lost => Raw::Lost,
        }
    }

    /// A thread that waits for a lock.
    fn inside(
        &self,
        stream: u32,
        wanted: Wanted,
        wait: &Wait,
        now: u64,
        interest: &mut Interest,
    ) -> Raw {
        let Wanted { lock, relock, .. } = wanted;
        interest.add(Thing::Lock(lock));
        let Some(link) = self.holder(stream, wanted, wait, now, interest) else {
            if self.lock(lock).is_some_and(|lock| lock.lost) {
                return Raw::Lost;
            }
            let to = None;
            return match self.stand(self.tid(stream), interest) {
                Stand::Woken(by) | Stand::Preempted(by) => Raw::WokenLate { lock, by },
                _ => Raw::HandOver { lock, relock, to },
            };
        };
        Raw::Lock { lock, relock, chain: self.chain(link, now, interest) }
    }

    /// Follows a holder, and who it waits for.
    fn chain(&self, first: Link, now: u64, interest: &mut Interest) -> Chain {
        let mut chain = Chain::new();
        let mut link = first;
        loop {
            let again = chain.links().iter().any(|before| before.who.tid == link.who.tid);
            if again || !chain.push(link) {
                chain.last = Holding::NotFollowed;
                return chain;
            }
            let (tid, stream) = (link.who.tid, link.stream);
            if stream == NOBODY {
                chain.last = Holding::Stands(self.stand(tid, interest));
                return chain;
            }
            interest.add(Thing::Stream(stream));
            let seen = &self.threads[stream as usize];
            chain.last = match seen.wait.as_ref().map(|wait| (wait, waits(wait, seen.signalled))) {
                _ if seen.lost => Holding::Lost,
                None => Holding::Stands(self.stand(tid, interest)),
                Some((_, Waits::Signal(lock))) => Holding::Signal(lock),
                Some((wait, Waits::For(wanted))) => {
                    interest.add(Thing::Lock(wanted.lock));
                    match self.holder(stream, wanted, wait, now, interest) {
                        Some(next) => {
                            link = next;
                            continue;
                        }
                        None => match self.stand(tid, interest) {
                            off @ (Stand::Woken(_) | Stand::Preempted(_)) => Holding::Stands(off),
                            _ => Holding::HandOver(wanted.lock),
                        },
                    }
                }
            };
            return chain;
        }
    }

    fn stand(&self, tid: u32, interest: &mut Interest) -> Stand {
        interest.add(Thing::Task(tid));
        let stand = self.processors.stand(tid);
        if let (Stand::Preempted(_) | Stand::Woken(_), Some(processor)) =
            (stand, self.processors.processor(tid))
        {
            interest.add(Thing::Processor(processor));
        }
        stand
    }

    /// Returns the holder of a lock that keeps a thread from getting it.
    fn holder(
        &self,
        stream: u32,
        wanted: Wanted,
        wait: &Wait,
        now: u64,
        interest: &mut Interest,
    ) -> Option<Link> {
        let nothing = LockNow::default();
        let lock = self.lock(wanted.lock).unwrap_or(&nothing);
        let others = || lock.holders.iter().filter(|has| has.stream != stream);
        let writer = others().filter(|has| !has.read).max_by_key(|has| has.since);
        let reader = || others().filter(|has| has.read).min_by_key(|has| (has.since, has.stream));
        let in_the_way = match wanted.class {
            // Readers do not mind each other, but may be behind a writer that waits for them.
            Class::Read if lock.waiting_writers == 0 => writer,
            _ => writer.or_else(reader),
        };
        match in_the_way {
            // A reader that was woken while others read has been let in.
            Some(has) if has.read && wanted.class == Class::Read => {
                let own = self.stand(self.tid(stream), interest);
                let let_in = matches!(own, Stand::Woken(_));
                (!let_in).then(|| self.link(wanted.lock, has))
            }
            Some(has) => Some(self.link(wanted.lock, has)),
            None => self.assumed(stream, wanted, wait, lock, now),
        }
    }

    fn link(&self, lock: u32, has: &Has) -> Link {
        let who = self.processors.who(self.tid(has.stream));
        let (stream, kind, read) = (has.stream, self.kind(has.stream), has.read);
        Link { lock, who, stream, kind, read, assumed: false }
    }

    fn kind(&self, stream: u32) -> u32 {
        self.threads[stream as usize].calls.last().map_or(NO_KIND, |(kind, _)| *kind)
    }

    /// The owner that the lock's own word named when the wait began, if nothing is known to have
    /// happened to the lock since. The word is written a little later than a release is recorded,
    /// so where all releases are, a word that names who released it last is out of date.
    fn assumed(
        &self,
        stream: u32,
        wanted: Wanted,
        wait: &Wait,
        lock: &LockNow,
        now: u64,
    ) -> Option<Link> {
        let Wait { owner, since, .. } = *wait;
        let known = owner != 0 && owner != self.tid(stream) && !wanted.relock;
        let outdated = !self.contended_only && lock.released_by == Some(owner);
        if !known || outdated || !lock.holders.is_empty() || lock.changed > since {
            return None;
        }
        let holder = self.stream(owner, now);
        let kind = if holder == NOBODY { NO_KIND } else { self.kind(holder) };
        let (lock, who) = (wanted.lock, self.processors.who(owner));
        Some(Link { lock, who, stream: holder, kind, read: false, assumed: true })
    }
}

/// Present object of a wait: a condition's wait is for its signal first, and then for its mutex.
fn waits(wait: &Wait, signalled: Option<u64>) -> Waits {
    match wait.class {
        Class::Condition if signalled.is_some() => {
            Waits::For(Wanted { lock: wait.mutex, class: Class::Mutex, relock: true })
        }
        class if Family::of(class).held() => {
            Waits::For(Wanted { lock: wait.lock, class, relock: false })
        }
        _ => Waits::Signal(wait.lock),
    }
}

//! A thread's records become slices: calls, in them waits for locks, and beside them, if that is
//! wanted, what it holds.
//!
//! The slices of a track must nest strictly. Calls and waits do. Holds do not: each of several
//! has a track of its own, all with the same name, which are shown as one.

use super::Export;
use super::message::{COUNTER, INSTANT, SLICE_BEGIN, SLICE_END};
use super::packets::{Event, Note, Notes};
use super::track::About;
use crate::Error;
use crate::late::spans::function::Detail;
use crate::late::spans::spans_lock::Key;
use crate::late::spans::{Call, Change, End, Follower, Gap, Hold, Wait};
use late::Family;
use record::layout::{BYTES_MASK, PAGEABLE, PINNED};
use record::{Class, Record};
use trace::Block;

/// A thread at one moment.
pub(super) struct Thread {
    tid: u32,
    follower: Follower,
    /// The time of its latest record.
    time: u64,
}

const MISSING: &Notes<'static> = &[("end not recorded", Note::Bool(true))];

impl<'s> Export<'s, '_> {
    /// A block of a thread begins.
    pub(super) fn thread_begins(&mut self, stream: u32, block: &Block) -> Result<(), Error> {
        let of = &self.trace.streams()[stream as usize];
        let (tid, time, contended_only) = (of.id, self.trace.start(), self.contended_only);
        self.tracks.thread(&mut self.to, stream)?;
        let follower = || Follower::new(of.process, contended_only);
        let new = || Thread { tid, follower: follower(), time };
        let from = self.threads.entry(stream).or_insert_with(new).time;
        match Gap::before(block, from) {
            Some(gap) => self.missing(stream, gap),
            None if block.torn > 0 => self.forget(stream, block.first.max(from)),
            None => Ok(()),
        }
    }

    /// A block of a thread is over; `next` is when the following one begins.
    pub(super) fn thread_ends(
        &mut self,
        stream: u32,
        block: &Block,
        next: Option<u64>,
    ) -> Result<(), Error> {
        let Some(thread) = self.threads.get(&stream) else { return Ok(()) };
        let last = thread.time.max(block.last);
        if block.torn > 0 {
            self.forget(stream, last)?;
            let track = About::Thread(stream).track();
            let notes = &[("records", Note::Number(block.torn.into()))];
            self.instant(last, track, "records torn", notes)?;
        }
        if let Some(gap) = Gap::after(block, last, next) {
            self.missing(stream, gap)?;
        }
        if next.is_none() {
            // Everything that is open stays open: it had not ended when the records did.
            self.threads.remove(&stream);
        }
        Ok(())
    }

    /// Records of a thread are missing here.
    fn missing(&mut self, stream: u32, gap: Gap) -> Result<(), Error> {
        let Gap { from, to, count } = gap;
        self.forget(stream, from)?;
        if let Some(thread) = self.threads.get_mut(&stream) {
            thread.time = to;
        }
        self.summary.lost_ranges += 1;
        let track = About::Thread(stream).track();
        let notes = &[("records", Note::Number(count))];
        self.slice((from, to), track, "records lost", "lost", notes)
    }

    fn forget(&mut self, stream: u32, ticks: u64) -> Result<(), Error> {
        let Some(thread) = self.threads.get_mut(&stream) else { return Ok(()) };
        let mut changes = Vec::new();
        thread.follower.forget(&mut changes);
        changes.into_iter().try_for_each(|change| self.change(stream, ticks, change))
    }

    /// A thread's record.
    pub(super) fn thread_record(&mut self, stream: u32, record: &Record) -> Result<(), Error> {
        let Some(thread) = self.threads.get_mut(&stream) else { return Ok(()) };
        thread.time = record.time;
        let mut changes = std::mem::take(&mut self.changes);
        thread.follower.apply(record, &mut changes);
        let done =
            changes.drain(..).try_for_each(|change| self.change(stream, record.time, change));
        self.changes = changes;
        done
    }

    fn change(&mut self, stream: u32, now: u64, change: Change) -> Result<(), Error> {
        match change {
            Change::CallBegins(call) => self.call_begins(stream, &call),
            Change::CallEnds(_, _, end) => self.call_ends(stream, now, end),
            Change::WaitBegins(wait) => self.wait_begins(stream, &wait),
            Change::WaitEnds(wait, _, end) => self.wait_ends(stream, now, &wait, end),
            Change::HoldBegins(hold) => self.hold_begins(stream, &hold),
            Change::HoldEnds(hold, end) => self.hold_ends(stream, now, &hold, end),
            Change::Released(key) => {
                self.now(key, now).release = Some((now, stream));
                Ok(())
            }
            Change::Signalled(key) => {
                self.now(key, now).signal = Some((now, stream));
                Ok(())
            }
            Change::Renamed(key) => {
                self.locks.ends(key);
                Ok(())
            }
            Change::Unmatched => {
                self.summary.unmatched += 1;
                Ok(())
            }
        }
    }

    fn now(&mut self, key: Key, ticks: u64) -> &mut super::perfetto_lock::LockNow {
        let at_ns = self.at_ns(ticks);
        self.locks.now(key, at_ns)
    }

    fn lock_name(&mut self, key: Key, ticks: u64) -> &'s str {
        let at_ns = self.at_ns(ticks);
        self.locks.name(key, at_ns)
    }

    /// A slice begins on the track of a thread.
    fn begin(
        &mut self,
        (stream, ticks): (u32, u64),
        name: &str,
        category: &'static str,
        notes: &Notes<'_>,
    ) -> Result<(), Error> {
        let (track, name) = (About::Thread(stream).track(), Some(name));
        let category = Some(category);
        let event = Event { kind: SLICE_BEGIN, track, name, category, notes, ..Event::default() };
        self.to.event(ticks, event)
    }

    /// The innermost slice of a thread ends.
    fn end(&mut self, stream: u32, ticks: u64, notes: &Notes<'_>) -> Result<(), Error> {
        let track = About::Thread(stream).track();
        self.to.event(ticks, Event { kind: SLICE_END, track, notes, ..Event::default() })
    }

    fn call_begins(&mut self, stream: u32, call: &Call) -> Result<(), Error> {
        let process = self.trace.streams()[stream as usize].process;
        let function = self.functions.of(call.function);
        let mut notes = vec![("stream", Note::Pointer(call.subject))];
        match function.detail {
            Detail::Kernel => notes.push(match self.kernels.get(&(process, call.detail)) {
                Some(kernel) => ("kernel", Note::Text(kernel)),
                None => ("kernel", Note::Pointer(call.detail)),
            }),
            Detail::Graph => notes.push(("graph", Note::Pointer(call.detail))),
            Detail::Bytes => {
                notes.push(("bytes", Note::Number(call.detail & BYTES_MASK)));
                match call.detail & (PINNED | PAGEABLE) {
                    0 => {}
                    PINNED => notes.push(("host memory", Note::Text("pinned"))),
                    _ => notes.push(("host memory", Note::Text("pageable"))),
                }
            }
            Detail::Nothing => {}
        }
        self.summary.calls += 1;
        self.begin((stream, call.since), function.name, function.category, &notes)
    }

    fn call_ends(&mut self, stream: u32, now: u64, end: End) -> Result<(), Error> {
        let End::Returned { result, captured } = end else {
            return self.end(stream, now, MISSING);
        };
        let mut notes = vec![("result", Note::Number(result.into()))];
        notes.extend(captured.then_some(("captured", Note::Bool(true))));
        self.end(stream, now, &notes)
    }

    fn wait_begins(&mut self, stream: u32, wait: &Wait) -> Result<(), Error> {
        let now = wait.since;
        let way = match wait.class {
            Class::Read => " to read",
            Class::Write => " to write",
            _ => "",
        };
        let name = format!("wait {}{way}", self.lock_name(wait.lock, now));
        let owner = match (wait.owner, self.now(wait.lock, now).holder) {
            (0, Some(holder)) => self.threads.get(&holder).map_or(0, |thread| thread.tid),
            (tid, _) => tid,
        };
        let mut notes = vec![("lock", Note::Pointer(wait.lock.2))];
        if owner != 0 {
            let thread = self.tracks.stream(owner, now).and_then(|of| self.threads.get(&of));
            let call = thread.and_then(|thread| thread.follower.call());
            let call = call.map_or("none", |call| self.functions.of(call.function).name);
            notes.push(("owner tid", Note::Number(owner.into())));
            notes.push(("owner's call", Note::Text(call)));
        }
        self.summary.waits += 1;
        self.begin((stream, now), &name, "wait", &notes)?;
        self.count_waiting(wait.lock, now, 1)
    }

    /// One more or one less thread waits for a lock.
    fn count_waiting(&mut self, key: Key, ticks: u64, change: i32) -> Result<(), Error> {
        if !key.1.held() {
            return Ok(());
        }
        let name = self.lock_name(key, ticks);
        let number = match self.now(key, ticks).counter {
            Some(number) => number,
            None => self.locks.counter(),
        };
        let lock = self.now(key, ticks);
        lock.counter = Some(number);
        // A lock that was destroyed while a thread waited for it is another one by now.
        lock.waiting = lock.waiting.saturating_add_signed(change);
        let value = Some(i64::from(lock.waiting));
        let track = self.tracks.waiting(&mut self.to, (key.0, number), name)?;
        self.to.event(ticks, Event { kind: COUNTER, track, value, ..Event::default() })
    }

    fn wait_ends(&mut self, stream: u32, now: u64, wait: &Wait, end: End) -> Result<(), Error> {
        let signal = match wait.class {
            Class::Condition => self.retakes(stream, now, wait, end)?,
            _ => None,
        };
        match end {
            End::Failed(error) => {
                self.end(stream, now, &[("failed", Note::Number(error.into()))])?;
            }
            End::Missing => self.end(stream, now, MISSING)?,
            _ => self.end(stream, now, &[])?,
        }
        self.count_waiting(wait.lock, now, -1)?;
        match (wait.class, end, wait.mutex) {
            (Class::Condition, _, Some(mutex)) => match signal {
                Some(since) => self.let_in(stream, mutex, since, now),
                None => Ok(()),
            },
            (_, End::Got, _) => self.let_in(stream, wait.lock, wait.since, now),
            _ => Ok(()),
        }
    }

    /// A wait for a condition ends. If a thread has signalled, the rest of it was for its mutex;
    /// returns when that began.
    fn retakes(
        &mut self,
        stream: u32,
        now: u64,
        wait: &Wait,
        end: End,
    ) -> Result<Option<u64>, Error> {
        let signal = self.now(wait.lock, now).signal;
        let signal = signal.filter(|(ticks, _)| *ticks >= wait.since && end != End::Missing);
        let (Some((ticks, from)), Some(mutex)) = (signal, wait.mutex) else { return Ok(None) };
        let track = About::Thread(stream).track();
        let name = format!("retake {}", self.lock_name(mutex, now));
        self.slice((ticks, now), track, &name, "wait", &[])?;
        let name = self.lock_name(wait.lock, now);
        let (signals, signalled) = (format!("signal {name}"), format!("signalled {name}"));
        self.arrow((ticks, from, &signals), (ticks, stream, &signalled))?;
        Ok(Some(ticks))
    }

    /// An arrow from who let a thread in to where it got in.
    fn let_in(&mut self, stream: u32, key: Key, since: u64, now: u64) -> Result<(), Error> {
        let Some((ticks, from)) = self.now(key, now).release else { return Ok(()) };
        // A release is stamped before it happens, so that it may seem to come before a wait that
        // it ended. Where not all releases are recorded, such a one may be of any age.
        let recent = ticks >= since || !self.contended_only;
        if from == stream || !recent {
            return Ok(());
        }
        let name = self.lock_name(key, now);
        let done = if key.1 == Family::Semaphore { "post" } else { "release" };
        let (released, got) = (format!("{done} {name}"), format!("got {name}"));
        self.arrow((ticks, from, &released), (now, stream, &got))
    }

    fn arrow(&mut self, from: (u64, u32, &str), to: (u64, u32, &str)) -> Result<(), Error> {
        self.summary.flows += 1;
        let flow = Some(self.summary.flows);
        let (from_track, to_track) = (About::Thread(from.1).track(), About::Thread(to.1).track());
        let event = Event { kind: INSTANT, category: Some("lock"), ..Event::default() };
        let out = Event { track: from_track, name: Some(from.2), flow, ..event };
        let into = Event { track: to_track, name: Some(to.2), ends_flow: flow, ..event };
        self.to.event(from.0, out)?;
        self.to.event(to.0, into)
    }

    fn hold_begins(&mut self, stream: u32, hold: &Hold) -> Result<(), Error> {
        self.now(hold.lock, hold.since).holder = Some(stream);
        if !self.options.locks {
            return Ok(());
        }
        let way = if hold.read { " (read)" } else { "" };
        let name = format!("{}{way}", self.lock_name(hold.lock, hold.since));
        let parent = Some(About::Thread(stream).track());
        let about = About::Held(stream, hold.lane);
        let track = self.tracks.child(&mut self.to, about, "locks held", parent)?;
        self.summary.holds += 1;
        let event = Event {
            kind: SLICE_BEGIN,
            track,
            name: Some(&name),
            category: Some("hold"),
            notes: &[("lock", Note::Pointer(hold.lock.2))],
            ..Event::default()
        };
        self.to.event(hold.since, event)
    }

    fn hold_ends(&mut self, stream: u32, now: u64, hold: &Hold, end: End) -> Result<(), Error> {
        let lock = self.now(hold.lock, now);
        lock.holder = lock.holder.filter(|holder| *holder != stream);
        if !self.options.locks {
            return Ok(());
        }
        let notes = if end == End::Missing { MISSING } else { &[] };
        let track = About::Held(stream, hold.lane).track();
        self.to.event(now, Event { kind: SLICE_END, track, notes, ..Event::default() })
    }
}

//! Takes the bandwidth lock around the driver's work, without the program's knowing.
//!
//! ```text
//!   cuda/call -> around: before -> the driver -> after       calls: what each function does
//!                          |                       |
//!                          '----> Activity, Events <'        which streams have work
//!                                    ^
//!   poller: asks streams whose end no call has seen          driver: what is asked of the driver
//! ```
//!
//! A process attaches to the regulator when it has initialised the driver, once for each image.
//! Streams are told apart by their handles; default streams by their context, and threads' own
//! ones also by the thread. What a call adds costs a few atomic operations; the driver is asked
//! only for the current context of calls to default streams, and for more when a stream is met for
//! the first time, when one is destroyed, and while something is captured. A thread's own default
//! stream cannot be named by another thread: after each submission there the thread records an
//! event of this library's, which can be asked.
//!
//! A forked child holds nothing: the driver does not work there, and all this lies in pages that
//! the kernel wipes. A child that initialises the driver itself attaches itself.
//!
//! As everywhere in this library, on trouble the program's call goes on as it is, and is counted.

mod calls;
mod poller;
mod requests;
mod streams;

use crate::attachment;
use crate::cuda::{Arguments, SUCCESS, pinned};
use crate::thread::{Thread, this};
use bandwidth::Hold;
use bandwidth::activity::events::{Events, Recording, Seen};
use bandwidth::activity::{Activity, Holding, Key, Moment, StreamPlace};
use calls::{ACTS, Act, At};
use realtime::clock::monotonic_ns;
use record::Side;
use record::bandwidth::BandwidthCount;
use record::cuda::FUNCTIONS;
use requests::Handle;
use rustix::mm::Advice;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// The handles that stand for the default streams, beside 0, which is one of them.
const LEGACY: Handle = 1;
const PER_THREAD: Handle = 2;

/// Contexts that can be told apart at the same time, and devices.
const CONTEXTS: usize = 64;

/// True if the lock is wanted, and the program has not restricted its system calls.
static WANTED: AtomicBool = AtomicBool::new(false);

/// True if this process, or one that it was forked from, has tried to attach.
static TRIED: AtomicBool = AtomicBool::new(false);

/// Pages of their own, so that the kernel can wipe them in a forked child: what is held there is
/// the parent's.
#[repr(C, align(4096))]
struct Wiped {
    stage: AtomicU32,
    /// 1 while the poller asks about a default stream, else 0.
    asks_default: AtomicU32,
    poller: poller::Poller,
    hold: UnsafeCell<MaybeUninit<Hold>>,
    /// Handles of contexts; their places are their numbers.
    contexts: [AtomicU64; CONTEXTS],
    /// Primary contexts by device.
    primaries: [AtomicU64; CONTEXTS],
    activity: Activity,
    events: Events,
}

// SAFETY: the hold is written once, before the stage is ATTACHED, and only read afterwards.
unsafe impl Sync for Wiped {}

/// State before the first attempt to attach.
const UNTRIED: u32 = 0;
const TRYING: u32 = 1;
const ATTACHED: u32 = 2;
const REFUSED: u32 = 3;

static STATE: Wiped = Wiped {
    stage: AtomicU32::new(UNTRIED),
    asks_default: AtomicU32::new(0),
    poller: poller::Poller::new(),
    hold: UnsafeCell::new(MaybeUninit::uninit()),
    contexts: [const { AtomicU64::new(0) }; CONTEXTS],
    primaries: [const { AtomicU64::new(0) }; CONTEXTS],
    activity: Activity::new(),
    events: Events::new(),
};

/// Returns true if the lock is taken around the driver's work.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    // Acquire: pairs with the release in `begin`; the recording's memory is in place.
    WANTED.load(Ordering::Acquire)
}

/// Takes over whether the lock is wanted, when the process attaches to the recording's memory.
pub(crate) fn begin(side: &Side) {
    if side.bandwidth().is_none() {
        return;
    }
    // SAFETY: the pages are this library's own, whole ones, and hold nothing that a child needs.
    let wiped = unsafe {
        let pages = std::ptr::from_ref(&STATE).cast_mut().cast();
        rustix::mm::madvise(pages, size_of::<Wiped>(), Advice::LinuxWipeOnFork)
    };
    if wiped.is_err() {
        side.count_bandwidth(BandwidthCount::NotAttached);
        return;
    }
    WANTED.store(true, Ordering::Release);
}

/// The program is about to restrict its system calls: whether the lock was wanted until now.
pub(crate) fn suspend() -> bool {
    let was_wanted = WANTED.swap(false, Ordering::AcqRel);
    if let Some(state) = State::get() {
        state.poller.stop();
    }
    was_wanted
}

/// The program has not restricted its system calls: the lock is wanted again.
pub(crate) fn resume() {
    WANTED.store(true, Ordering::Release);
    if let Some(state) = State::get() {
        state.poller.resume();
    }
}

/// The program has restricted its system calls: all holds end. Makes no system call.
pub(crate) fn end() {
    if let Some(state) = State::get() {
        state.activity.each_place(|place| state.complete(place, Moment::END));
    }
}

fn count(what: BandwidthCount) {
    if let Some(side) = attachment::side() {
        side.count_bandwidth(what);
    }
}

/// The hold, with what is told of it when the program has ended.
struct Counted(&'static Hold);

impl Holding for Counted {
    // A hold that takes nothing, in a forked child, gives nothing back either.
    #[inline]
    fn acquire(&self) {
        if self.0.acquire_after() == Some(0) {
            if let Some(side) = attachment::side() {
                side.count_bandwidth(BandwidthCount::Taken);
                side.add_bandwidth(BandwidthCount::HeldNs, monotonic_ns().wrapping_neg());
            }
        }
    }

    #[inline]
    fn release(&self) {
        if self.0.release_to() == Some(0) {
            if let Some(side) = attachment::side() {
                side.count_bandwidth(BandwidthCount::GivenBack);
                side.add_bandwidth(BandwidthCount::HeldNs, monotonic_ns());
            }
        }
    }
}

/// The state of a process that is attached.
#[derive(Clone, Copy)]
struct State(&'static Wiped);

impl std::ops::Deref for State {
    type Target = Wiped;

    fn deref(&self) -> &Wiped {
        self.0
    }
}

/// Work that remains to be done after a call.
enum Around {
    Nothing,
    Initialised,
    /// Work was begun in a place; at most this much of it has ended if the call succeeds.
    Submitted {
        place: StreamPlace,
        ends: Ends,
    },
    SubmittedMany(usize),
    /// A wait for all that came before.
    Waited(StreamPlace, Moment),
    WaitedForEvent(Seen),
    WaitedForContext(Handle, Moment),
    Recorded(Option<Recording>, Option<StreamPlace>),
    OpenedEvent,
    Captured(StreamPlace),
    RetainedPrimary,
    DestroyedContext(Handle),
    EndedPrimary(Handle),
}

/// Work that has ended when a submission has returned.
#[derive(Clone, Copy)]
enum Ends {
    Nothing,
    /// All work that came before it.
    Earlier(Moment),
    /// All earlier work, and the work itself.
    All(Moment),
    /// Nothing; the thread's own event tells when.
    Own(Handle),
}

/// Makes a call of the program's with the lock around the work that it begins.
///
/// # Safety
/// The arguments must be what the program passed to function `number`, which `call` calls.
#[inline]
pub(crate) unsafe fn around(
    number: usize,
    arguments: &Arguments,
    thread: &'static Thread,
    call: impl FnOnce() -> usize,
) -> usize {
    let act = ACTS[number];
    if act == Act::Nothing {
        return call();
    }
    // SAFETY: the caller's promise.
    unsafe {
        let around = match State::get_or_attach(act) {
            Some(state) => state.before(act, number, arguments, thread),
            None if act == Act::Initialise => Around::Initialised,
            None => Around::Nothing,
        };
        let result = call();
        if !matches!(around, Around::Nothing) {
            after(around, result as u32, arguments, thread);
        }
        result
    }
}

/// # Safety
/// As for `around`.
#[inline]
unsafe fn after(around: Around, result: u32, arguments: &Arguments, thread: &'static Thread) {
    if matches!(around, Around::Initialised) {
        if result == SUCCESS && State::get().is_none() {
            attach();
        }
        return;
    }
    if let Some(state) = State::get() {
        // SAFETY: the caller's promise.
        unsafe { state.after(around, result == SUCCESS, arguments, thread) };
    }
}

/// Attaches to the regulator, once in each process image; the program waits for as long as `Hold`
/// has patience.
#[cold]
fn attach() {
    let (yes, no) = (Ordering::Acquire, Ordering::Relaxed);
    if STATE.stage.compare_exchange(UNTRIED, TRYING, yes, no).is_err() {
        return;
    }
    TRIED.store(true, Ordering::Relaxed);
    requests::unseen(this(), attach_now);
}

fn attach_now() {
    let Some(taking) = attachment::side().and_then(|side| side.bandwidth()) else { return };
    attachment::enter();
    let Ok(hold) = Hold::attach(taking.socket()) else {
        STATE.stage.store(REFUSED, Ordering::Relaxed);
        return count(BandwidthCount::NotAttached);
    };
    // SAFETY: only the thread that moved the stage from UNTRIED comes here, and no thread reads
    // before it is ATTACHED.
    unsafe { (*STATE.hold.get()).write(hold) };
    // Release: pairs with the acquire in `get`.
    STATE.stage.store(ATTACHED, Ordering::Release);
    count(BandwidthCount::Attached);
    if !poller::start(&taking) {
        count(BandwidthCount::NoPoller);
    }
}

impl State {
    /// The state, if the process is attached.
    #[inline]
    fn get() -> Option<State> {
        (STATE.stage.load(Ordering::Acquire) == ATTACHED).then_some(State(&STATE))
    }

    /// The same. A process that came to the driver without its initialisation having been seen
    /// attaches with its first work; not one that has the driver of its parent.
    #[inline]
    fn get_or_attach(act: Act) -> Option<State> {
        let state = State::get();
        if state.is_none()
            && matches!(act, Act::Submit(_))
            && STATE.stage.load(Ordering::Relaxed) == UNTRIED
            && !TRIED.load(Ordering::Relaxed)
        {
            attach();
            return State::get();
        }
        state
    }

    #[inline]
    fn hold(&self) -> Counted {
        // SAFETY: written before the stage was ATTACHED, which every owner of a state has seen.
        Counted(unsafe { (*self.0.hold.get()).assume_init_ref() })
    }

    fn complete(&self, place: StreamPlace, before: Moment) {
        self.activity.complete(place, before, &self.hold());
    }

    /// The number of a context; None when there are too many.
    fn number(&self, context: Handle) -> Option<u8> {
        let relaxed = Ordering::Relaxed;
        let at = self.contexts.iter().position(|known| {
            let found = known.load(relaxed);
            found == context
                || (found == 0 && {
                    let taken = known.compare_exchange(0, context, relaxed, relaxed);
                    taken.is_ok() || taken == Err(context)
                })
        });
        at.map(|at| at as u8)
    }

    /// The key of a stream by its handle, as function `number` understands it.
    fn key(&self, number: usize, handle: Handle, thread: &Thread) -> Option<Key> {
        let is_own = match handle {
            LEGACY => false,
            PER_THREAD => true,
            0 => IS_PER_THREAD[number],
            made => return Some(Key::made(made)),
        };
        let context = self.number(requests::current_context(thread)?)?;
        Some(if is_own {
            Key::thread_of(context, thread.number())
        } else {
            Key::default_of(context)
        })
    }

    /// # Safety
    /// As for `around`.
    #[inline]
    unsafe fn before(
        self,
        act: Act,
        number: usize,
        a: &Arguments,
        thread: &'static Thread,
    ) -> Around {
        let [first, second, ..] = a.map(|argument| argument as u64);
        match act {
            Act::Submit(at) => {
                // SAFETY: the caller's promise.
                let stream = unsafe { stream(at, a) };
                if matches!(at, At::Configuration) {
                    // SAFETY: as above.
                    unsafe { self.share_events_of_launch(a[0]) };
                }
                self.submit(number, stream, thread, None)
            }
            Act::CopyBack => {
                let before = self.activity.now();
                self.submit(number, 0, thread, Some(Ends::All(before)))
            }
            Act::CopyIn(host) => {
                let before = self.activity.now();
                let is_pinned = pinned::contains(a[usize::from(host)] as u64);
                let ends = if is_pinned { Ends::All(before) } else { Ends::Earlier(before) };
                self.submit(number, 0, thread, Some(ends))
            }
            // SAFETY: the caller's promise.
            Act::SubmitMany => unsafe { self.submit_many(a, thread) },
            Act::WaitStream => self
                .key(number, first, thread)
                .and_then(|key| self.activity.find_at(key))
                .map_or(Around::Nothing, |(place, before)| Around::Waited(place, before)),
            Act::WaitEvent => {
                self.events.see(first).map_or(Around::Nothing, Around::WaitedForEvent)
            }
            Act::Record | Act::RecordWithFlags => {
                let is_external = act == Act::RecordWithFlags && a[2] & 1 != 0;
                self.record(number, first, second, is_external, thread)
            }
            Act::WaitCurrent => self.wait_for_context(0, thread),
            Act::WaitContext => self.wait_for_context(first, thread),
            // SAFETY: the caller's promise.
            _ => unsafe { self.before_rare(act, a, thread) },
        }
    }

    /// # Safety
    /// As for `around`.
    #[cold]
    unsafe fn before_rare(self, act: Act, a: &Arguments, thread: &'static Thread) -> Around {
        let [first, ..] = a.map(|argument| argument as u64);
        match act {
            Act::Initialise => Around::Nothing,
            Act::ShareEvent(at) => {
                self.events.share(a[usize::from(at)] as u64);
                Around::Nothing
            }
            Act::AddNode(at) => {
                // SAFETY: the caller's promise.
                unsafe { self.share_event_of_node(a[usize::from(at)]) };
                Around::Nothing
            }
            Act::DestroyEvent => {
                self.events.forget(first);
                Around::Nothing
            }
            Act::OpenEvent => Around::OpenedEvent,
            Act::DestroyStream => self.destroy_stream(first, thread),
            Act::Capture => self.capture(first),
            Act::RetainPrimary => Around::RetainedPrimary,
            Act::DestroyContext => {
                self.forbid_context(first);
                Around::DestroyedContext(first)
            }
            Act::EndPrimary => {
                let primary = self.primaries.get(a[0] & u32::MAX as usize);
                let context = primary.map_or(0, |primary| primary.load(Ordering::Relaxed));
                self.forbid_context(context);
                Around::EndedPrimary(context)
            }
            _ => Around::Nothing,
        }
    }

    /// # Safety
    /// As for `around`, after the call.
    #[inline]
    unsafe fn after(self, around: Around, succeeded: bool, a: &Arguments, thread: &'static Thread) {
        match around {
            Around::Submitted { place, ends } => {
                self.submitted(place, ends, succeeded, thread);
            }
            Around::Waited(place, before) if succeeded => self.complete(place, before),
            Around::WaitedForEvent(seen) if succeeded && self.events.is_same(&seen) => {
                let (place, before) = seen.tells();
                self.complete(place, before);
            }
            Around::WaitedForContext(context, before) if succeeded => {
                self.activity.each_place(|place| {
                    if self.activity.context(place) == context {
                        self.complete(place, before);
                    }
                });
            }
            Around::Recorded(Some(recording), place) => {
                self.events.end(recording, place.filter(|_| succeeded));
            }
            // SAFETY: the caller's promise.
            rare => unsafe { self.after_rare(rare, succeeded, a, thread) },
        }
    }

    /// # Safety
    /// As for `after`.
    #[cold]
    unsafe fn after_rare(
        self,
        around: Around,
        succeeded: bool,
        a: &Arguments,
        thread: &'static Thread,
    ) {
        // SAFETY: the driver has just stored a handle where argument 0 points to.
        let made = || unsafe { (a[0] as *const Handle).read_unaligned() };
        match around {
            Around::SubmittedMany(begun) => {
                // SAFETY: the caller's promise.
                unsafe { self.submitted_many(a, begun, succeeded, thread) };
            }
            Around::OpenedEvent if succeeded => self.events.share(made()),
            Around::RetainedPrimary if succeeded => {
                if let Some(primary) = self.primaries.get(a[1] & u32::MAX as usize) {
                    primary.store(made(), Ordering::Relaxed);
                }
            }
            Around::Captured(place) => self.activity.allow(place),
            Around::DestroyedContext(context) => self.ended_context(context, succeeded),
            Around::EndedPrimary(context) => {
                let ended = succeeded && !requests::has_primary(a[0] as u32, thread);
                self.ended_context(context, ended);
            }
            _ => {}
        }
    }
}

/// True for a function for which stream 0 is the thread's own default stream.
static IS_PER_THREAD: [bool; crate::cuda::COUNT] = {
    let mut all = [false; crate::cuda::COUNT];
    let mut number = 0;
    while number < all.len() {
        all[number] = crate::cuda::is_per_thread(FUNCTIONS[number].symbol);
        number += 1;
    }
    all
};

/// The stream of a call.
///
/// # Safety
/// As for `around`.
unsafe fn stream(at: At, a: &Arguments) -> Handle {
    match at {
        At::Argument(place) => a[usize::from(place) & 15] as Handle,
        At::Default => 0,
        At::Configuration if a[0] == 0 => 0,
        // SAFETY: the configuration of a launch, which the driver will read.
        At::Configuration => unsafe {
            ((a[0] + crate::cuda::CONFIGURATION_STREAM) as *const Handle).read_unaligned()
        },
    }
}

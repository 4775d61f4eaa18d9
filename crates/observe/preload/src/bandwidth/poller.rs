//! The thread that finds out when work has ended that no call of the program waits for.
//!
//! While streams have work it asks the driver about each of them once in a period. A period in
//! which nothing was found to do is followed by others, so that a program that launches and waits
//! in turn does not wake the thread each time; after [`IDLE_ROUNDS`] of them it sleeps until work
//! begins.
//!
//! It never asks about a stream that is being captured, which would end the capture, and about a
//! default stream only while nothing is captured in the process. It has all signals blocked and
//! never takes a core from a thread of the program's that wants it.

use super::requests::{self, Handle, NOT_READY};
use super::{ATTACHED, LEGACY, STATE, State, count};
use crate::cuda::{SUCCESS, graph};
use crate::thread::{Thread, this};
use bandwidth::activity::{Moment, Stream, StreamPlace};
use record::bandwidth::{BandwidthCount, Taking};
use rustix::thread::futex;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Rounds without any work before the thread sleeps for good.
const IDLE_ROUNDS: u32 = 128;
/// Enough for the driver's functions, which are called on it.
const STACK_BYTES: usize = 256 << 10;
/// Longest time for which the end of the process waits for a question that is being asked.
const PATIENCE: Duration = Duration::from_millis(50);

const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;
const STOPPED: u32 = 2;

/// State of the poller that the program's threads know.
pub(super) struct Poller {
    period_ns: AtomicU64,
    /// The word that it sleeps on when there is nothing to do.
    state: AtomicU32,
    in_driver: AtomicBool,
}

impl Poller {
    pub(super) const fn new() -> Poller {
        Poller {
            period_ns: AtomicU64::new(0),
            state: AtomicU32::new(AWAKE),
            in_driver: AtomicBool::new(false),
        }
    }

    /// A stream has its first work. Costs a load if the thread is awake.
    #[inline]
    pub(super) fn wake(&self) {
        // SeqCst: the work is there; either it is seen, or the sleep is seen here.
        if self.state.load(Ordering::SeqCst) == ASLEEP {
            self.wake_now();
        }
    }

    #[cold]
    fn wake_now(&self) {
        let (yes, no) = (Ordering::SeqCst, Ordering::Relaxed);
        if self.state.compare_exchange(ASLEEP, AWAKE, yes, no).is_ok() {
            let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
        }
    }

    /// Stops all questions to the driver; no question is in progress when this returns.
    pub(super) fn stop(&self) {
        self.state.store(STOPPED, Ordering::SeqCst);
        let until = Instant::now() + PATIENCE;
        while self.in_driver.load(Ordering::SeqCst) && Instant::now() < until {
            rustix::thread::sched_yield();
        }
    }

    /// Allows questions to the driver again.
    pub(super) fn resume(&self) {
        self.state.store(AWAKE, Ordering::SeqCst);
        let _ = futex::wake(&self.state, futex::Flags::PRIVATE, 1);
    }

    fn is_stopped(&self) -> bool {
        self.state.load(Ordering::SeqCst) == STOPPED
    }
}

/// Makes the thread; false when there can be none.
pub(super) fn start(taking: &Taking) -> bool {
    STATE.poller.period_ns.store(taking.period_ns, Ordering::Relaxed);
    // SAFETY: plain calls; the attributes and sets live on this stack until they are done with,
    // and the thread takes no argument.
    let started = unsafe {
        let mut attributes = std::mem::zeroed();
        if libc::pthread_attr_init(&raw mut attributes) != 0 {
            return false;
        }
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstacksize(&raw mut attributes, STACK_BYTES);
        libc::pthread_attr_setinheritsched(&raw mut attributes, libc::PTHREAD_EXPLICIT_SCHED);
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let mut thread = 0;
        let null = std::ptr::null_mut();
        let result = libc::pthread_create(&raw mut thread, &raw const attributes, run, null);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        result == 0
    };
    if started {
        // SAFETY: the function stays, since this library is never unloaded. The driver is told to
        // end after this, as far as it has asked for it by now.
        unsafe { libc::atexit(at_exit) };
    }
    started
}

/// A driver that comes to its end must not be asked any more.
extern "C" fn at_exit() {
    if STATE.stage.load(Ordering::Acquire) == ATTACHED {
        STATE.poller.stop();
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    // SAFETY: names the calling thread.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"kt-bandwidth".as_ptr()) };
    let ordinary = libc::sched_param { sched_priority: 0 };
    // SAFETY: the calling thread's policy. One of this policy does not take the core from the
    // thread that wakes it, which is about to launch.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const ordinary) };
    let Some(state) = State::get() else { return std::ptr::null_mut() };
    let thread = this();
    thread.quietly(|| {
        requests::relax(thread);
        work(state, thread);
    });
    std::ptr::null_mut()
}

fn work(state: State, thread: &'static Thread) {
    let period = Duration::from_nanos(state.poller.period_ns.load(Ordering::Relaxed));
    let (mut idle, mut next) = (0, Instant::now());
    loop {
        if state.poller.is_stopped() {
            sleep_while_stopped(&state.poller);
        }
        count(BandwidthCount::RoundsBegun);
        idle = if round(state, thread) > 0 { 0 } else { idle + 1 };
        count(BandwidthCount::RoundsEnded);
        if idle > IDLE_ROUNDS {
            sleep_until_work(state);
            idle = 0;
            next = Instant::now();
        }
        next = (next + period).max(Instant::now());
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Sleeps until a stream has its first work.
fn sleep_until_work(state: State) {
    let word = &state.poller.state;
    let (yes, no) = (Ordering::SeqCst, Ordering::Relaxed);
    if word.compare_exchange(AWAKE, ASLEEP, yes, no).is_err() {
        return;
    }
    // A thread that begins work after this look sees the sleep.
    if state.activity.each_active(|_| ()) > 0 {
        let _ = word.compare_exchange(ASLEEP, AWAKE, yes, no);
        return;
    }
    while word.load(Ordering::SeqCst) == ASLEEP {
        let _ = futex::wait(word, futex::Flags::PRIVATE, ASLEEP, None);
    }
}

/// The process ends, or restricts its system calls. This one is what the C library's own locks
/// need, so that filters allow it; a thread that ended would need more.
fn sleep_while_stopped(poller: &Poller) {
    while poller.is_stopped() {
        let _ = futex::wait(&poller.state, futex::Flags::PRIVATE, STOPPED, None);
    }
}

/// Asks about all streams that have work; returns how many there were.
fn round(state: State, thread: &'static Thread) -> usize {
    state.poller.in_driver.store(true, Ordering::SeqCst);
    let mut current = 0;
    let active = state.activity.each_active(|place| {
        if !state.poller.is_stopped() && state.activity.is_submitted(place) {
            look(state, place, &mut current, thread);
        }
    });
    if current != 0 && !state.poller.is_stopped() {
        requests::set_context(thread, 0);
    }
    state.poller.in_driver.store(false, Ordering::SeqCst);
    active
}

/// Result of a question.
enum Found {
    Working,
    /// Work up to this moment has ended.
    Ended(Moment),
    Failed,
}

/// Asks about one stream. `current` is this thread's current context.
fn look(state: State, place: StreamPlace, current: &mut Handle, thread: &'static Thread) {
    if !state.activity.ask(place) {
        return;
    }
    let before = state.activity.now();
    let found = ask(state, place, before, current, thread);
    state.activity.answered(place);
    match found {
        Found::Working => {}
        Found::Ended(moment) => state.complete(place, moment),
        Found::Failed => {
            count(BandwidthCount::Failed);
            state.complete(place, before);
        }
    }
}

fn ask(
    state: State,
    place: StreamPlace,
    before: Moment,
    current: &mut Handle,
    thread: &'static Thread,
) -> Found {
    let Some(key) = state.activity.key(place) else { return Found::Working };
    let pending = state.activity.pending(place);
    let context = state.activity.context(place);
    let ask_stream =
        |current: &mut Handle, stream, is_default: bool| match enter(context, current, thread) {
            // A thread that captures it has waited for this, or is seen here.
            SUCCESS if !is_default && requests::may_be_captured(thread, stream) => {
                (NOT_READY, before)
            }
            SUCCESS => (requests::query_stream(thread, stream), before),
            error => (error, before),
        };
    let (result, ended) = match (key.stream(), pending) {
        (Stream::Made(stream), _) => ask_stream(current, stream, false),
        (Stream::Default, _) => {
            state.asks_default.store(1, Ordering::SeqCst);
            let answer = match graph::captures() {
                true => (NOT_READY, before),
                false => ask_stream(current, LEGACY, true),
            };
            state.asks_default.store(0, Ordering::SeqCst);
            answer
        }
        (_, Some((event, after))) => match enter(context, current, thread) {
            SUCCESS => (requests::query_event(thread, event), after),
            error => (error, after),
        },
        (Stream::Thread, None) => return Found::Working,
        // Its context has ended.
        (Stream::Destroyed, None) => return Found::Ended(before),
    };
    match result {
        // All its submissions had returned before it was destroyed.
        SUCCESS if key.stream() == Stream::Destroyed => Found::Ended(before),
        SUCCESS => Found::Ended(ended),
        error if is_transient(error) => Found::Working,
        _ => Found::Failed,
    }
}

/// Makes a context current.
fn enter(context: Handle, current: &mut Handle, thread: &'static Thread) -> u32 {
    if context == *current || context == 0 {
        return SUCCESS;
    }
    let result = requests::set_context(thread, context);
    if result == SUCCESS {
        *current = context;
    }
    result
}

/// Returns true if the same question may have another answer later.
fn is_transient(error: u32) -> bool {
    /// `CUDA_ERROR_OUT_OF_MEMORY`
    const NO_MEMORY: u32 = 2;
    /// `CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED` and those that follow.
    const CAPTURE: std::ops::RangeInclusive<u32> = 900..=908;
    matches!(error, NOT_READY | NO_MEMORY) || CAPTURE.contains(&error)
}

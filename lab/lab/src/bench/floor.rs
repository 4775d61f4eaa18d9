//! Floors: what the machine takes for what cannot be done without.
//!
//! - [`Floor`]: under any request to another process: one shared page, a futex wake there and a
//!   futex wake back. The peer is a process of its own.
//! - [`Bare`]: under the bandwidth lock: a thread of another core that is woken by a futex, or by a
//!   timer, and does nothing else.

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread::{self, Scheduling};
use serde::{Deserialize, Serialize};
use shm::{Mapping, Segment, futex};
use trial::{Child, Parent, signals};

use super::sample::Samples;
use crate::child::Order;

/// Words of the page, in different cache lines.
const PING: usize = 0;
const PONG: usize = 16;
const PAGE_BYTES: usize = 4096;

/// The other side: a process that answers each ping.
#[derive(Serialize, Deserialize)]
pub(crate) struct Peer {
    /// The memory file of the page.
    page: PathBuf,
    core: usize,
    priority: u8,
}

impl Peer {
    /// Answers until it is killed.
    pub(crate) fn run(&self, parent: &Parent) -> anyhow::Result<()> {
        let file = std::fs::OpenOptions::new().read(true).write(true).open(&self.page)?;
        let page = Segment::accept(file.into(), PAGE_BYTES as u64)?.map()?;
        let (ping, pong) = (page.word(PING)?, page.word(PONG)?);
        thread::pin(&[self.core])?;
        prioritise(self.priority)?;
        parent.tell(&())?;
        let mut last = 0;
        loop {
            while ping.load(Ordering::Acquire) == last {
                futex::wait(ping, last, None);
            }
            last = ping.load(Ordering::Acquire);
            pong.store(last, Ordering::Release);
            futex::wake(pong);
        }
    }
}

/// Gives the calling thread a SCHED_FIFO priority, 0 for normal.
pub(crate) fn prioritise(priority: u8) -> anyhow::Result<()> {
    Ok(thread::set_policy(if priority == 0 {
        Scheduling::Normal
    } else {
        Scheduling::Fifo(priority)
    })?)
}

/// Returns true if this process may have a SCHED_FIFO priority, and says if not.
pub(crate) fn is_granted(priority: u8) -> bool {
    let granted = prioritise(priority).and_then(|()| prioritise(0)).is_ok();
    if !granted {
        tell!(
            "keeptime-lab bench: SCHED_FIFO is refused, all at normal priority (see keeptime doctor)"
        );
    }
    granted
}

/// The side that measures.
pub(crate) struct Floor {
    page: Arc<Mapping>,
    peer: Child,
    _segment: Segment,
    round: u32,
}

impl Floor {
    /// Starts the peer on a core.
    pub(crate) fn start(core: usize, priority: u8) -> anyhow::Result<Floor> {
        let segment = Segment::create("keeptime-floor", PAGE_BYTES)?;
        let mapping = segment.map()?;
        let page = format!("/proc/{}/fd/{}", std::process::id(), segment.as_fd().as_raw_fd());
        let order = Order::Floor(Peer { page: page.into(), core, priority });
        let mut peer = Child::order("the peer of the bare ping-pong", &order)?;
        peer.hear::<()>()?;
        Ok(Floor { page: mapping, peer, _segment: segment, round: 0 })
    }

    /// Measures a round trip in nanoseconds. The measuring side spins or sleeps; the peer sleeps.
    ///
    /// # Errors
    /// The peer has ended; a signal came.
    pub(crate) fn round_trip(&mut self, spin: bool) -> anyhow::Result<u64> {
        self.round = self.round.wrapping_add(1);
        let (ping, pong) = (self.page.word(PING)?, self.page.word(PONG)?);
        let start = monotonic_ns();
        ping.store(self.round, Ordering::Release);
        futex::wake(ping);
        let mut spins: u32 = 0;
        loop {
            let seen = pong.load(Ordering::Acquire);
            if seen == self.round {
                return Ok(monotonic_ns() - start);
            }
            let is_late = if spin {
                std::hint::spin_loop();
                spins = spins.wrapping_add(1);
                spins.is_multiple_of(SPINS)
            } else {
                !futex::wait(pong, seen, Some(LOOK))
            };
            if is_late {
                signals::check()?;
                if !self.peer.is_running() {
                    return Err(self.peer.failure());
                }
            }
        }
    }
}

/// Looks for an answer until one is late: some milliseconds.
const SPINS: u32 = 1 << 20;
/// Longest wait for an answer until one is late.
const LOOK: Duration = Duration::from_millis(100);

/// Between two wake-ups by the timer.
const TIMER_NS: u64 = 1_000_000;
/// Limit of a wake-up: beyond it the machine is not fit to measure anything.
const PATIENCE_NS: u64 = 1_000_000_000;

/// A thread on a core, with the priority of those that stop cores, that only says when it was
/// woken.
pub(crate) struct Bare {
    shared: Arc<BareShared>,
    thread: Option<JoinHandle<anyhow::Result<()>>>,
    /// Cost of a wake-up for the thread that wakes another.
    pub waking: Samples,
    /// Times from the wake-up to the thread.
    pub woken: Samples,
    /// Delay of a thread of that core that a timer wakes.
    pub timer: Samples,
}

#[derive(Default)]
struct BareShared {
    /// Time of the last wake-up, 0 once the thread has noticed it; and the delay until the thread
    /// had the core.
    asked_ns: AtomicU64,
    after_ns: AtomicU64,
    is_over: AtomicBool,
}

impl Bare {
    /// Starts the thread.
    pub(crate) fn start(core: usize) -> anyhow::Result<Bare> {
        let shared = Arc::new(BareShared::default());
        let (ready, is_ready) = std::sync::mpsc::channel();
        let thread = {
            let shared = shared.clone();
            std::thread::spawn(move || {
                thread::pin(&[core])?;
                prioritise(1)?;
                let _ = ready.send(());
                shared.run();
                Ok(())
            })
        };
        let [waking, woken, timer] = [(); 3].map(|()| Samples::new());
        let mut bare = Bare { shared, thread: Some(thread), waking, woken, timer };
        if is_ready.recv().is_err() {
            bare.join()?;
        }
        Ok(bare)
    }

    /// Wakes it so often, at most once in `pause_ns`.
    ///
    /// # Errors
    /// It is not woken within a second; a signal came.
    pub(crate) fn wake(&mut self, times: u32, pause_ns: u64) -> anyhow::Result<()> {
        for _ in 0..times {
            signals::check()?;
            sleep_until_ns(monotonic_ns() + pause_ns);
            self.shared.after_ns.store(0, Ordering::Relaxed);
            let begin = monotonic_ns();
            self.shared.asked_ns.store(begin, Ordering::Release);
            self.thread.iter().for_each(|thread| thread.thread().unpark());
            self.waking.push(monotonic_ns() - begin);
            loop {
                sleep_until_ns(monotonic_ns() + pause_ns);
                match self.shared.after_ns.load(Ordering::Acquire) {
                    0 => anyhow::ensure!(
                        monotonic_ns() < begin + PATIENCE_NS,
                        "a real-time thread was not woken within a second"
                    ),
                    after_ns => break self.woken.push(after_ns),
                }
            }
        }
        Ok(())
    }

    /// Wakes a thread of the core by a timer so often.
    ///
    /// # Errors
    /// A signal came.
    pub(crate) fn sleep(&mut self, core: usize, times: u32) -> anyhow::Result<()> {
        let sleep = || -> anyhow::Result<Vec<u64>> {
            thread::pin(&[core])?;
            prioritise(1)?;
            let late = |_| {
                signals::check()?;
                let due_ns = monotonic_ns() + TIMER_NS;
                sleep_until_ns(due_ns);
                Ok(monotonic_ns() - due_ns)
            };
            (0..times).map(late).collect()
        };
        let late = std::thread::scope(|scope| scope.spawn(sleep).join());
        let late = late.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        late.into_iter().for_each(|ns| self.timer.push(ns));
        Ok(())
    }

    fn join(&mut self) -> anyhow::Result<()> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }
}

impl BareShared {
    fn run(&self) {
        while !self.is_over.load(Ordering::Acquire) {
            std::thread::park();
            // A wake-up for no reason has nothing to say.
            match self.asked_ns.swap(0, Ordering::Acquire) {
                0 => {}
                asked_ns => {
                    let after_ns = (monotonic_ns() - asked_ns).max(1);
                    self.after_ns.store(after_ns, Ordering::Release);
                }
            }
        }
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        self.thread.iter().for_each(|thread| thread.thread().unpark());
        // The thread reported its error, if any, at its start.
        let _ = self.join();
    }
}

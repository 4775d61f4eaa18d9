//! An executor: threads that run callbacks in the order of a policy.
//!
//! Each thread does the same again and again: choose, run, give back. Choosing is for one thread
//! at a time, as in ROS 2: who has the *turn* looks for a ready callback and, where there is none,
//! sleeps until the bell rings or a timer is due. The others queue for the turn, most urgent first.
//! A short lock keeps the state; neither it nor the turn is held while a callback runs, and
//! nothing on the way allocates.
//!
//! A group that excludes others is busy from the choice of one of its callbacks to its end. Who
//! ends a callback rings, for the thread that has the turn may be waiting for that group.

use crate::callback::{Entry, Job, Messages, Serve, Settings, Signal, Tick};
use crate::continuation::{self, Continuation, Ended};
use crate::input::{Input, Queue};
use crate::mail;
use crate::order::{ExecutorPolicy, Kind, Order};
use crate::stats::{CallbackReport, Report};
use crate::timer::{Period, Release, Timer};
use crate::{Bell, Context, Error};
use accel::{CallbackId, Client, Registration, Wait};
use realtime::clock::monotonic_ns;
use realtime::mutex::PiMutex;
use realtime::thread as rt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Scheduling of one thread of an executor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// The cores it is kept on; empty leaves it where it is.
    pub cores: Vec<usize>,
    /// `SCHED_FIFO` priority, 1 to 99; 0 is normal scheduling.
    pub priority: u8,
}

/// Set of callbacks with one rule for running beside each other. The default is the executor's own
/// group, whose callbacks exclude each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group(usize);

/// Number of callbacks of a group that may run at the same time, on several threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// One at a time.
    Mutual,
    /// Any number.
    Reentrant,
}

/// Ends an executor, from a callback or from any other thread.
#[derive(Clone)]
pub struct Stop {
    set: Arc<AtomicBool>,
    bell: Arc<Bell>,
}

impl Stop {
    /// Callbacks that run are brought to their end; no other one begins.
    pub fn stop(&self) {
        // Release: pairs with the acquire of who looks; the ring makes it look.
        self.set.store(true, Ordering::Release);
        self.bell.ring();
    }

    pub(crate) fn is_set(&self) -> bool {
        self.set.load(Ordering::Acquire)
    }
}

/// A thread that brings messages: it waits where the executor's own threads cannot, and has the cores
/// and the priority of the first of them.
pub(crate) struct Helper {
    /// Its work until the executor stops.
    pub work: Box<dyn FnOnce(&Stop) + Send>,
    /// Ends its wait, so that it sees that the executor stops.
    pub wake: Box<dyn Fn() + Send>,
}

/// Callbacks, and the threads that run them.
pub struct Executor {
    policy: ExecutorPolicy,
    threads: Vec<Thread>,
    groups: Vec<Exclusion>,
    entries: Vec<Entry>,
    /// One for each thread, once connected.
    clients: Vec<Client>,
    socket: Option<PathBuf>,
    helpers: Vec<Helper>,
    start_ns: Arc<AtomicU64>,
    bell: Arc<Bell>,
    stop: Stop,
}

impl Executor {
    /// An executor without callbacks.
    ///
    /// # Errors
    /// [`Error::NoThreads`].
    pub fn new(policy: ExecutorPolicy, threads: Vec<Thread>) -> Result<Executor, Error> {
        if threads.is_empty() {
            return Err(Error::NoThreads);
        }
        let bell = Arc::new(Bell::default());
        let stop = Stop { set: Arc::default(), bell: bell.clone() };
        Ok(Executor {
            policy,
            threads,
            groups: vec![Exclusion::Mutual],
            entries: Vec::new(),
            clients: Vec::new(),
            socket: None,
            helpers: Vec::new(),
            start_ns: Arc::default(),
            bell,
            stop,
        })
    }

    /// A new group.
    pub fn group(&mut self, exclusion: Exclusion) -> Group {
        self.groups.push(exclusion);
        Group(self.groups.len() - 1)
    }

    /// Returns a handle that ends it.
    pub fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Adds a callback that the clock releases.
    pub fn timer(
        &mut self,
        settings: Settings,
        period: Period,
        call: impl FnMut(&mut Context, Release) + Send + 'static,
    ) {
        let timer = Arc::new(Timer::new(period, self.start_ns.clone()));
        let job = Tick::new(timer.clone(), call);
        self.add(settings, Kind::Timer, timer, vec![Box::new(job)]);
    }

    /// Adds a callback for messages. It never runs beside itself.
    pub fn subscription<I: Input>(
        &mut self,
        settings: Settings,
        input: I,
        call: impl FnMut(&mut Context, I::Message) + Send + 'static,
    ) {
        self.serve(settings, Kind::Subscription, input, call);
    }

    /// Adds a callback for messages that, in a reentrant group, may run beside itself, with as many
    /// messages at once as there are threads.
    pub fn parallel_subscription<I: Input>(
        &mut self,
        settings: Settings,
        input: I,
        call: impl Fn(&mut Context, I::Message) + Send + Sync + 'static,
    ) {
        let (input, call) = (Arc::new(input), Arc::new(call));
        input.connect(self.bell.clone());
        let job = || -> Box<dyn Job> {
            let call = call.clone();
            Box::new(Serve::new(input.clone(), move |context: &mut Context, message| {
                call(context, message);
            }))
        };
        let jobs = self.threads.iter().map(|_| job()).collect();
        let signal = Arc::new(Messages(input.clone()));
        self.add(settings, Kind::Subscription, signal, jobs);
    }

    /// Adds a callback for requests of others.
    pub fn service<I: Input>(
        &mut self,
        settings: Settings,
        requests: I,
        call: impl FnMut(&mut Context, I::Message) + Send + 'static,
    ) {
        self.serve(settings, Kind::Service, requests, call);
    }

    /// Opens a mailbox for messages that other processes send by a [`Sender`](crate::Sender) to the
    /// same path. All of them are kept, in the order in which they came.
    ///
    /// # Errors
    /// [`Error::Mailbox`].
    pub fn mailbox<M>(&mut self, path: &Path) -> Result<Arc<Queue<M>>, Error>
    where
        M: FromBytes + IntoBytes + Immutable + Send + 'static,
    {
        let (messages, helper) = mail::open(path)?;
        self.helpers.push(helper);
        Ok(messages)
    }

    /// Connects every thread to an accelerator server; callbacks wait for it in this way.
    ///
    /// # Errors
    /// [`Error::Accelerator`].
    pub fn connect(&mut self, socket: &Path, wait: Wait) -> Result<(), Error> {
        let connect = |_: &Thread| -> Result<Client, Error> {
            let mut client = Client::connect(socket)?;
            client.set_wait(wait);
            Ok(client)
        };
        self.clients = self.threads.iter().map(connect).collect::<Result<_, _>>()?;
        self.socket = Some(socket.to_path_buf());
        Ok(())
    }

    /// Registers an accelerator service for callbacks, with every thread; what it gives is good
    /// on each of them.
    ///
    /// # Errors
    /// [`Error::NotConnected`], [`Error::Accelerator`].
    pub fn register(&mut self, registration: &Registration) -> Result<CallbackId, Error> {
        let mut id = None;
        for client in &mut self.clients {
            let own = client.register(registration)?;
            // Every client has registered the same in the same order.
            debug_assert!(id.is_none_or(|id| id == own));
            id = Some(own);
        }
        id.ok_or(Error::NotConnected)
    }

    /// Adds a callback that runs when a request of its own service has ended; see
    /// [`Continuation::submit`].
    ///
    /// # Errors
    /// [`Error::NotConnected`], [`Error::Accelerator`].
    pub fn continuation(
        &mut self,
        settings: Settings,
        registration: &Registration,
        call: impl FnMut(&mut Context, Ended) + Send + 'static,
    ) -> Result<Continuation, Error> {
        let socket = self.socket.as_ref().ok_or(Error::NotConnected)?;
        let (continuation, outcomes, helper) = continuation::open(socket, registration)?;
        self.helpers.push(helper);
        self.serve(settings, Kind::Client, outcomes, call);
        Ok(continuation)
    }

    /// The connections to the accelerator server, one for each thread; none before
    /// [`Executor::connect`].
    pub fn clients(&mut self) -> &mut [Client] {
        &mut self.clients
    }

    /// Sets the start, by the monotonic clock, from which the releases of its timers count.
    pub fn start_at(&mut self, start_ns: u64) {
        // Relaxed: its threads begin later.
        self.start_ns.store(start_ns, Ordering::Relaxed);
    }

    /// Runs callbacks until it is stopped, at the latest until `until_ns` of the monotonic clock.
    /// The calling thread is the first one; it takes on that one's core and priority and keeps
    /// them.
    ///
    /// # Errors
    /// [`Error::Thread`] and [`Error::Start`], before any callback ran. That a priority is not
    /// granted is no error, but said in the report.
    pub fn run(mut self, until_ns: u64) -> Result<Report, Error> {
        let kinds: Vec<(Kind, u32)> =
            self.entries.iter().map(|entry| (entry.kind, entry.settings.priority)).collect();
        let slots = self.entries.drain(..).map(Slot::new).collect();
        let busy = vec![false; self.groups.len()];
        let order = Order::new(self.policy, &kinds);
        let shared = Shared {
            turn: PiMutex::new(()),
            state: PiMutex::new(State { order, busy, slots }),
            groups: std::mem::take(&mut self.groups),
            bell: self.bell.clone(),
            stop: self.stop.clone(),
            until_ns,
            crew: self.threads.len(),
            refused: PiMutex::new(None),
        };
        let ran = shared.run(&self.threads, self.clients, self.helpers);
        let Shared { mut state, mut refused, .. } = shared;
        ran?;
        let callbacks = state.get_mut().slots.drain(..).map(Slot::into_report).collect();
        Ok(Report { callbacks, refused: refused.get_mut().take() })
    }

    fn serve<I: Input>(
        &mut self,
        settings: Settings,
        kind: Kind,
        input: I,
        call: impl FnMut(&mut Context, I::Message) + Send + 'static,
    ) {
        let input = Arc::new(input);
        input.connect(self.bell.clone());
        let job = Serve::new(input.clone(), call);
        self.add(settings, kind, Arc::new(Messages(input)), vec![Box::new(job)]);
    }

    fn add(
        &mut self,
        settings: Settings,
        kind: Kind,
        signal: Arc<dyn Signal>,
        jobs: Vec<Box<dyn Job>>,
    ) {
        self.entries.push(Entry { settings, kind, signal, jobs });
    }
}

/// A callback with its statistics.
struct Slot {
    entry: Entry,
    report: CallbackReport,
}

impl Slot {
    fn new(entry: Entry) -> Slot {
        let Settings { name, priority, .. } = &entry.settings;
        Slot { report: CallbackReport::new(name, entry.kind, *priority), entry }
    }

    fn into_report(self) -> CallbackReport {
        CallbackReport { dropped: self.entry.signal.dropped(), ..self.report }
    }
}

/// State that the threads share.
struct Shared {
    /// Held by the one thread that chooses or sleeps.
    turn: PiMutex<()>,
    state: PiMutex<State>,
    groups: Vec<Exclusion>,
    bell: Arc<Bell>,
    stop: Stop,
    until_ns: u64,
    /// Number of threads.
    crew: usize,
    refused: PiMutex<Option<String>>,
}

struct State {
    order: Order,
    /// Groups in which a callback runs that excludes the others.
    busy: Vec<bool>,
    slots: Vec<Slot>,
}

/// A callback that is about to run.
struct Chosen {
    slot: usize,
    job: Box<dyn Job>,
    ready_ns: u64,
}

impl Shared {
    fn run(
        &self,
        threads: &[Thread],
        clients: Vec<Client>,
        helpers: Vec<Helper>,
    ) -> Result<(), Error> {
        let (works, wakes): (Vec<_>, Vec<_>) =
            helpers.into_iter().map(|helper| (helper.work, helper.wake)).unzip();
        let mut clients = clients.into_iter();
        let mut context = || Context {
            client: clients.next(),
            stop: self.stop.clone(),
            ready_ns: 0,
            until_ns: self.until_ns,
        };
        let (mut own, first) = (context(), &threads[0]);
        std::thread::scope(|scope| {
            let work = || -> Result<(), Error> {
                let mut others = Vec::new();
                for work in works {
                    let work = move || {
                        self.settle(first)?;
                        work(&self.stop);
                        Ok(())
                    };
                    let builder = std::thread::Builder::new().name("kt-helper".into());
                    others.push(builder.spawn_scoped(scope, work).map_err(Error::Start)?);
                }
                for thread in &threads[1..] {
                    let mut own = context();
                    let work = move || {
                        self.settle(thread)?;
                        self.spin(&mut own);
                        Ok(())
                    };
                    let builder = std::thread::Builder::new().name("kt-executor".into());
                    others.push(builder.spawn_scoped(scope, work).map_err(Error::Start)?);
                }
                self.settle(first)?;
                self.spin(&mut own);
                wakes.iter().for_each(|wake| wake());
                others.into_iter().try_for_each(|other| {
                    other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
            };
            let ended = work();
            // The threads that run end as well if another one could not be had.
            self.stop.stop();
            wakes.iter().for_each(|wake| wake());
            ended
        })
    }

    /// Gives the calling thread its core and priority.
    fn settle(&self, thread: &Thread) -> Result<(), Error> {
        let settled = rt::pin(&thread.cores).and_then(|()| match thread.priority {
            0 => Ok(()),
            priority => rt::set_policy(rt::Scheduling::Fifo(priority)),
        });
        match settled {
            Err(error @ realtime::Error::Privilege { .. }) => {
                *self.refused.lock() = Some(error.to_string());
                Ok(())
            }
            Err(error) => {
                self.stop.stop();
                Err(error.into())
            }
            Ok(()) => Ok(()),
        }
    }

    /// Runs callbacks until the executor ends; the work of each thread.
    fn spin(&self, context: &mut Context) {
        while let Some(Chosen { slot, mut job, ready_ns }) = self.next() {
            context.ready_ns = ready_ns;
            let start_ns = monotonic_ns();
            job.run(context);
            let end_ns = monotonic_ns();
            let mut state = self.state.lock();
            let State { busy, slots, .. } = &mut *state;
            let Slot { entry, report } = &mut slots[slot];
            busy[entry.settings.group.0] = false;
            entry.jobs.push(job);
            report.add(ready_ns, start_ns, end_ns);
            drop(state);
            if self.crew > 1 {
                self.bell.ring();
            }
            // Threads of the same priority run now that would not before this one sleeps: those of
            // DDS, so that what came during the callback is there for the next choice.
            std::thread::yield_now();
        }
        // The next thread in the queue for the turn may sleep.
        self.stop.stop();
    }

    /// Waits for a callback to run; none when the executor ends.
    fn next(&self) -> Option<Chosen> {
        let _turn = self.turn.lock();
        loop {
            let seen = self.bell.rings();
            let now_ns = monotonic_ns();
            if self.stop.is_set() || now_ns >= self.until_ns {
                return None;
            }
            let mut state = self.state.lock();
            if let Some(chosen) = state.choose(&self.groups, now_ns) {
                return Some(chosen);
            }
            let due_ns = state.due_ns();
            drop(state);
            self.bell.wait(seen, due_ns.min(self.until_ns));
        }
    }
}

impl State {
    fn choose(&mut self, groups: &[Exclusion], now_ns: u64) -> Option<Chosen> {
        let State { order, busy, slots } = self;
        loop {
            let free = |slot: usize| {
                let entry = &slots[slot].entry;
                !busy[entry.settings.group.0] && !entry.jobs.is_empty()
            };
            let slot = order.choose(free, |slot| slots[slot].entry.signal.ready(now_ns))?;
            let entry = &mut slots[slot].entry;
            let Some(mut job) = entry.jobs.pop() else { continue };
            let Some(ready_ns) = job.take(now_ns) else {
                // Another thread took it back; under `Ros2` the sample has lost the callback.
                entry.jobs.push(job);
                continue;
            };
            let group = entry.settings.group.0;
            busy[group] = groups[group] == Exclusion::Mutual;
            return Some(Chosen { slot, job, ready_ns });
        }
    }

    /// Returns the time at which the next timer is due whose callback could run then.
    fn due_ns(&self) -> u64 {
        let entries = self.slots.iter().map(|slot| &slot.entry);
        let free = entries.filter(|e| !self.busy[e.settings.group.0] && !e.jobs.is_empty());
        free.map(|entry| entry.signal.due_ns()).min().unwrap_or(u64::MAX)
    }
}

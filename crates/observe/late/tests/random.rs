//! Random programs: threads that make calls and take locks are simulated on few processors, which
//! also says what each call waits for at each moment. The analysis must find the same from the
//! records alone, tick by tick.
//!
//! Time goes on in turns of four ticks, so that what comes after something else comes later: first
//! sleepers wake, then processors change threads, then each thread that runs does one thing, and
//! then those leave that have gone to sleep, and free locks are given to who waits for them.

mod tape;

use late::result::CallKind;
use late::{Cause, Explained, HolderState, Options, explain, survey, verdicts};
use proptest::prelude::*;
use record::{Action, Class, Kind};
use std::collections::{BTreeMap, VecDeque};
use tape::{Tape, check, check_verdicts};
use trace::metadata::Tier;

const LAUNCH: &str = "cuLaunchKernel";

/// Next step of a thread of the simulated program.
#[derive(Clone, Copy, Debug)]
enum Step {
    Compute(u64),
    /// Takes a lock for so long, perhaps takes another one inside.
    Lock {
        lock: usize,
        read: bool,
        hold: u64,
        inner: Option<usize>,
    },
    Sleep(u64),
    /// Waits for the condition of a mutex, but not for longer than this.
    Wait {
        lock: usize,
        most: u64,
    },
    /// Signals that condition.
    Signal {
        lock: usize,
    },
    /// Returns from the call and begins the next one.
    Call,
}

/// Action that a step is made of.
#[derive(Clone, Copy, Debug)]
enum Act {
    Enter,
    Exit,
    Compute(u64),
    Sleep(u64),
    Acquire(usize, bool),
    Release(usize),
    Wait(usize, u64),
    Signal(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Ready,
    Running,
    Waiting {
        lock: usize,
        read: bool,
    },
    Sleeping(u64),
    /// Waits for a condition until it is signalled, or until then.
    Asleep {
        lock: usize,
        until: u64,
    },
    Done,
}

struct Thread {
    acts: VecDeque<Act>,
    state: State,
    /// Time at which it last became ready.
    ready: u64,
    /// It was woken after it had been off, and has not run since.
    woken: bool,
    begin: Option<u64>,
    /// A lock that it was given, and takes when it runs.
    given: Option<(usize, bool)>,
    wait: Option<ConditionWait>,
}

/// A wait for a condition, of which it is known only at its end what it was.
struct ConditionWait {
    lock: usize,
    timed_out: bool,
    last_signal: u64,
    /// For each moment what keeps the thread from having the mutex.
    moments: Vec<(u64, String)>,
}

#[derive(Clone, Default)]
struct Lock {
    writer: Option<usize>,
    /// Time at which its condition was last signalled, or a wait for it began or ended.
    condition: u64,
    /// It was given to a thread that has not taken it yet.
    given: bool,
    /// Since when, and who.
    readers: Vec<(u64, usize)>,
    /// The waiting thread, true for reading, and the begin of the wait.
    queue: VecDeque<(usize, bool, u64)>,
}

/// Causes of a call's time according to the simulation, with their ticks.
type Truth = BTreeMap<String, u64>;

struct Machine {
    tape: Tape,
    streams: Vec<usize>,
    processors: Vec<usize>,
    threads: Vec<Thread>,
    locks: Vec<Lock>,
    running: Vec<Option<usize>>,
    /// A processor, the thread that leaves it at the end of this turn, and the thread's state then.
    leaving: Vec<(usize, usize, State)>,
    scheduler: bool,
    fair: bool,
    now: u64,
    truth: BTreeMap<(u32, u64), Truth>,
}

const LOCKS: usize = 4;
const FIRST_TID: usize = 100;
const QUANTUM: u64 = 7;

impl Machine {
    fn new(programs: &[Vec<Step>], processors: usize, scheduler: bool, fair: bool) -> Machine {
        let mut tape = Tape::new(if scheduler { Tier::Scheduler } else { Tier::Preload });
        let count = programs.len();
        let streams = (0..count).map(|at| tape.thread(1, (FIRST_TID + at) as u32)).collect();
        let processors: Vec<usize> = (0..processors).map(|n| tape.processor(n as u32)).collect();
        let threads = programs.iter().map(|program| Thread {
            acts: acts(program),
            state: State::Ready,
            ready: 0,
            woken: true,
            begin: None,
            given: None,
            wait: None,
        });
        Machine {
            tape,
            streams,
            threads: threads.collect(),
            locks: vec![Lock::default(); LOCKS],
            running: vec![None; processors.len()],
            leaving: Vec::new(),
            processors,
            scheduler,
            fair,
            now: 12,
            truth: BTreeMap::new(),
        }
    }

    fn tid(&self, thread: usize) -> u32 {
        (FIRST_TID + thread) as u32
    }

    fn address(lock: usize) -> u64 {
        0x1000 + 64 * lock as u64
    }

    fn lock_record(&mut self, thread: usize, read: bool, action: Action, lock: usize, number: u32) {
        let class = match (lock % 2 == 0, action, read) {
            (true, ..) => Class::Mutex,
            (_, Action::Released, _) => Class::ReadWrite,
            (_, _, true) => Class::Read,
            _ => Class::Write,
        };
        let stream = self.streams[thread];
        self.tape.put(
            stream,
            self.now,
            Kind::Lock(class, action),
            Machine::address(lock),
            0,
            number,
        );
    }

    fn switch(&mut self, processor: usize, to: Option<usize>, preempted: bool) {
        let from = self.running[processor];
        let task = |thread: Option<usize>| match thread {
            Some(thread) => ((FIRST_TID + thread) as u32, 120),
            None => (0, 120),
        };
        if self.scheduler && from != to {
            let state = u32::from(!preempted);
            self.tape.switch(self.processors[processor], self.now, task(from), task(to), state);
        }
        self.running[processor] = to;
        if let Some(thread) = to {
            self.threads[thread].state = State::Running;
            self.threads[thread].woken = false;
        }
    }

    fn wake(&mut self, thread: usize) {
        self.threads[thread].state = State::Ready;
        self.threads[thread].woken = true;
        self.threads[thread].ready = self.now;
        if self.scheduler {
            let tid = self.tid(thread);
            self.tape.wakeup(self.processors[0], self.now, 0, (tid, 120));
        }
    }

    fn run(mut self, mut choose: impl FnMut(usize) -> usize) -> Machine {
        while self.threads.iter().any(|thread| thread.state != State::Done) {
            assert!(self.now < 1 << 20, "everybody comes to an end");
            self.wake_sleepers();
            self.pass();
            self.schedule(&mut choose);
            self.pass();
            for processor in 0..self.running.len() {
                if let Some(thread) = self.running[processor] {
                    self.act(thread, processor);
                }
            }
            self.pass();
            for (processor, thread, state) in std::mem::take(&mut self.leaving) {
                self.threads[thread].state = state;
                self.switch(processor, None, false);
            }
            self.hand_over(&mut choose);
            self.pass();
        }
        self
    }

    /// One tick passes.
    fn pass(&mut self) {
        self.account();
        self.now += 1;
    }

    fn turn(&self) -> u64 {
        self.now / 4
    }

    fn wake_sleepers(&mut self) {
        for thread in 0..self.threads.len() {
            match self.threads[thread].state {
                State::Sleeping(until) if until <= self.now => self.wake(thread),
                State::Asleep { lock, until } if until <= self.now => {
                    self.threads[thread].wait.as_mut().unwrap().timed_out = true;
                    self.relock(thread, lock);
                }
                _ => {}
            }
        }
    }

    /// Gives free processors to ready threads, and at the end of a quantum busy ones too.
    fn schedule(&mut self, choose: &mut impl FnMut(usize) -> usize) {
        for processor in 0..self.running.len() {
            let ready: Vec<usize> = (0..self.threads.len())
                .filter(|thread| self.threads[*thread].state == State::Ready)
                // In one moment nobody leaves a processor and comes to another one.
                .filter(|thread| self.threads[*thread].ready < self.now)
                .collect();
            if ready.is_empty() {
                continue;
            }
            match self.running[processor] {
                None => {
                    let next = ready[choose(ready.len())];
                    self.switch(processor, Some(next), false);
                }
                Some(thread) if self.turn() % QUANTUM == processor as u64 => {
                    let next = ready[choose(ready.len())];
                    self.switch(processor, Some(next), true);
                    self.threads[thread].state = State::Ready;
                    self.threads[thread].ready = self.now;
                }
                Some(_) => {}
            }
        }
    }

    /// The thread on a processor does what it does in one tick.
    fn act(&mut self, thread: usize, processor: usize) {
        if let Some((lock, read)) = self.threads[thread].given {
            return self.take(thread, lock, read);
        }
        let Some(act) = self.threads[thread].acts.pop_front() else {
            self.leaving.push((processor, thread, State::Done));
            return;
        };
        let stream = self.streams[thread];
        if let Act::Wait(lock, _) | Act::Signal(lock) = act {
            // In one moment a condition is not signalled and waited for.
            if self.locks[lock].condition == self.turn() {
                self.threads[thread].acts.push_front(act);
                return;
            }
            self.locks[lock].condition = self.turn();
        }
        match act {
            Act::Enter => {
                self.tape.enter(stream, self.now, LAUNCH, 7, 1);
                self.threads[thread].begin = Some(self.now);
            }
            Act::Exit => {
                self.tape.exit(stream, self.now);
                self.threads[thread].begin = None;
            }
            Act::Compute(ticks) => {
                if ticks > 1 {
                    self.threads[thread].acts.push_front(Act::Compute(ticks - 1));
                }
            }
            Act::Sleep(ticks) => {
                let until = State::Sleeping(self.now + 4 * ticks);
                self.leaving.push((processor, thread, until));
            }
            Act::Release(lock) => {
                let state = &mut self.locks[lock];
                state.writer = state.writer.filter(|writer| *writer != thread);
                state.readers.retain(|(_, reader)| *reader != thread);
                self.lock_record(thread, false, Action::Released, lock, 0);
            }
            Act::Acquire(lock, read) => self.acquire(thread, processor, lock, read),
            Act::Wait(lock, most) => {
                self.condition_record(thread, Action::Waiting, lock, 0);
                self.locks[lock].writer = None;
                let moments = Vec::new();
                let wait = ConditionWait { lock, timed_out: false, last_signal: 0, moments };
                self.threads[thread].wait = Some(wait);
                let asleep = State::Asleep { lock, until: self.now + 4 * most };
                self.threads[thread].state = asleep;
                self.leaving.push((processor, thread, asleep));
            }
            Act::Signal(lock) => self.signal(thread, lock),
        }
    }

    fn condition_record(&mut self, thread: usize, action: Action, lock: usize, result: u32) {
        let (stream, mutex) = (self.streams[thread], Machine::address(lock));
        self.tape.condition(stream, self.now, action, mutex + 0x8000, mutex, result);
    }

    /// Wakes one of those who wait for the condition of a mutex.
    fn signal(&mut self, by: usize, lock: usize) {
        self.condition_record(by, Action::Signalled, lock, 1);
        let now = self.now;
        let waits = self.threads.iter_mut().filter_map(|thread| thread.wait.as_mut());
        waits.filter(|wait| wait.lock == lock).for_each(|wait| wait.last_signal = now);
        let asleep = |thread: &Thread| match thread.state {
            State::Asleep { lock: other, .. } => other == lock,
            _ => false,
        };
        if let Some(thread) = self.threads.iter().position(asleep) {
            self.relock(thread, lock);
        }
    }

    /// A thread that waited for a condition waits for the mutex.
    fn relock(&mut self, thread: usize, lock: usize) {
        self.threads[thread].state = State::Waiting { lock, read: false };
        self.locks[lock].queue.push_back((thread, false, self.now));
    }

    /// It has the mutex again: now it is known what it waited for.
    fn condition_returns(&mut self, thread: usize, wait: ConditionWait) {
        let Some(begin) = self.threads[thread].begin else { return };
        let truth = self.truth.entry((self.tid(thread), begin)).or_default();
        for (moment, cause) in wait.moments {
            let signal = wait.timed_out || moment < wait.last_signal;
            let cause = if signal { "signal".into() } else { cause };
            *truth.entry(cause).or_default() += 1;
        }
    }

    fn free(&self, lock: usize, read: bool) -> bool {
        let state = &self.locks[lock];
        state.writer.is_none() && !state.given && (read || state.readers.is_empty())
    }

    fn acquire(&mut self, thread: usize, processor: usize, lock: usize, read: bool) {
        let behind = self.locks[lock].queue.iter().any(|(_, reads, _)| !(read && *reads));
        if self.free(lock, read) && !(self.fair && behind) {
            self.give(thread, lock, read);
            return;
        }
        let owner = self.locks[lock].writer.map_or(0, |writer| self.tid(writer));
        self.lock_record(thread, read, Action::Waiting, lock, owner);
        self.locks[lock].queue.push_back((thread, read, self.now));
        let waiting = State::Waiting { lock, read };
        self.threads[thread].state = waiting;
        self.leaving.push((processor, thread, waiting));
    }

    fn give(&mut self, thread: usize, lock: usize, read: bool) {
        let state = &mut self.locks[lock];
        if read {
            state.readers.push((self.now, thread));
        } else {
            state.writer = Some(thread);
        }
        if let Some(wait) = self.threads[thread].wait.take() {
            let result = if wait.timed_out { 110 } else { 0 };
            self.condition_record(thread, Action::Acquired, lock, result);
            self.condition_returns(thread, wait);
            return;
        }
        self.lock_record(thread, read, Action::Acquired, lock, 0);
    }

    /// The thread runs again and takes the lock that it was given.
    fn take(&mut self, thread: usize, lock: usize, read: bool) {
        let state = &mut self.locks[lock];
        if self.threads[thread].wait.is_some() {
            // In one moment a condition is not signalled and returned from.
            if state.condition == self.now / 4 {
                return;
            }
            state.condition = self.now / 4;
        }
        state.given = false;
        state.queue.retain(|(waiting, ..)| *waiting != thread);
        self.threads[thread].given = None;
        self.give(thread, lock, read);
    }

    /// Some free locks are given to who waits for them; they come to run later.
    fn hand_over(&mut self, choose: &mut impl FnMut(usize) -> usize) {
        for lock in 0..self.locks.len() {
            if self.locks[lock].queue.is_empty() || choose(3) == 0 {
                continue;
            }
            let at = if self.fair { 0 } else { choose(self.locks[lock].queue.len()) };
            let (thread, read, since) = self.locks[lock].queue[at];
            // In one turn nobody goes to sleep and is woken.
            if self.free(lock, read) && since / 4 < self.turn() {
                self.locks[lock].given = true;
                self.threads[thread].given = Some((lock, read));
                self.wake(thread);
            }
        }
    }

    /// Adds this tick to the cause of each open call.
    fn account(&mut self) {
        for thread in 0..self.threads.len() {
            let Some(begin) = self.threads[thread].begin else { continue };
            if let Some(wait) = &self.threads[thread].wait {
                let moment = (self.now, self.wanting(thread, wait.lock, false));
                self.threads[thread].wait.as_mut().unwrap().moments.push(moment);
                continue;
            }
            let cause = self.cause(thread);
            let truth = self.truth.entry((self.tid(thread), begin)).or_default();
            *truth.entry(cause).or_default() += 1;
        }
    }

    /// Returns the cause that keeps a thread from having a lock that it wants.
    fn wanting(&self, thread: usize, lock: usize, read: bool) -> String {
        let woken = self.scheduler && self.threads[thread].state == State::Ready;
        if woken {
            return format!("woken late for {:x}", Machine::address(lock));
        }
        self.waiting(thread, lock, read)
    }

    fn cause(&self, thread: usize) -> String {
        if let Some((lock, read)) = self.threads[thread].given {
            return self.wanting(thread, lock, read);
        }
        match self.threads[thread].state {
            State::Waiting { lock, read } => self.waiting(thread, lock, read),
            _ if !self.scheduler => "unknown".into(),
            State::Running => "executing".into(),
            State::Sleeping(_) => "blocked".into(),
            State::Ready if self.threads[thread].woken => "woken late".into(),
            State::Ready => "preempted".into(),
            State::Done | State::Asleep { .. } => unreachable!("a call is open, and awake"),
        }
    }

    fn in_the_way(&self, thread: usize, lock: usize, read: bool) -> Option<usize> {
        let state = &self.locks[lock];
        let writers_wait = state.queue.iter().any(|(_, reads, _)| !reads);
        let reader =
            state.readers.iter().min().map(|(_, reader)| *reader).filter(|_| !read || writers_wait);
        state.writer.or(reader).filter(|holder| *holder != thread)
    }

    fn waiting(&self, thread: usize, lock: usize, read: bool) -> String {
        let mut chain = format!("lock {:x}", Machine::address(lock));
        let Some(mut holder) = self.in_the_way(thread, lock, read) else {
            return format!("hand-over {:x}", Machine::address(lock));
        };
        loop {
            chain += &format!(" held by {}", self.tid(holder));
            let state = match self.threads[holder].state {
                State::Waiting { lock, read } => match self.in_the_way(holder, lock, read) {
                    Some(next) => {
                        holder = next;
                        continue;
                    }
                    None => "hand-over",
                },
                State::Ready if self.scheduler && self.threads[holder].woken => "woken late",
                _ if self.threads[holder].given.is_some() => "hand-over",
                _ if !self.scheduler => "not known",
                State::Running => "executing",
                State::Sleeping(_) => "blocked",
                State::Ready => "preempted",
                State::Done | State::Asleep { .. } => unreachable!("it holds a lock"),
            };
            return format!("{chain} {state}");
        }
    }
}

/// A program in single acts, with a call around all of it.
fn acts(program: &[Step]) -> VecDeque<Act> {
    let mut acts = VecDeque::from([Act::Compute(1), Act::Enter]);
    for step in program {
        match *step {
            Step::Compute(ticks) => acts.push_back(Act::Compute(ticks)),
            Step::Sleep(ticks) => acts.push_back(Act::Sleep(ticks)),
            Step::Wait { lock, most } => {
                acts.extend([Act::Acquire(lock, false), Act::Compute(1), Act::Wait(lock, most)]);
                acts.extend([Act::Compute(2), Act::Release(lock)]);
            }
            Step::Signal { lock } => acts.push_back(Act::Signal(lock)),
            Step::Call => acts.extend([Act::Exit, Act::Compute(2), Act::Enter]),
            Step::Lock { lock, read, hold, inner } => {
                acts.extend([Act::Acquire(lock, read), Act::Compute(hold)]);
                // Locks are taken in order, so that nobody waits for ever.
                if let Some(inner) = inner.filter(|inner| *inner > lock) {
                    let inside = [Act::Acquire(inner, false), Act::Sleep(3), Act::Compute(hold)];
                    acts.extend(inside);
                    acts.push_back(Act::Release(inner));
                }
                acts.push_back(Act::Release(lock));
            }
        }
    }
    acts.push_back(Act::Exit);
    acts
}

/// Returns the result of the analysis, in the same words.
fn told(call: &Explained, address: &dyn Fn(u32) -> u64) -> Truth {
    let mut told = Truth::new();
    for part in &call.parts {
        let cause = match &part.cause {
            Cause::Executing => "executing".into(),
            Cause::Blocked => "blocked".into(),
            Cause::Signal { .. } => "signal".into(),
            Cause::Preempted { .. } => "preempted".into(),
            Cause::WokenLate { lock: None, .. } => "woken late".into(),
            Cause::WokenLate { lock: Some(lock), .. } => {
                format!("woken late for {:x}", address(*lock))
            }
            Cause::HandOver { lock, .. } => format!("hand-over {:x}", address(*lock)),
            Cause::Lock { lock, holders, .. } => {
                let mut chain = format!("lock {:x}", address(*lock));
                for holder in holders {
                    chain += &format!(" held by {}", holder.task.tid);
                }
                let state = match holders.last().unwrap().state {
                    HolderState::Executing => "executing",
                    HolderState::Blocked => "blocked",
                    HolderState::Preempted { .. } => "preempted",
                    HolderState::WokenLate { .. } => "woken late",
                    HolderState::HandOver { .. } => "hand-over",
                    HolderState::NotKnown => "not known",
                    ref other => panic!("{other:?}"),
                };
                format!("{chain} {state}")
            }
            Cause::Unexplained { .. } => "unknown".into(),
            other => panic!("{other:?}"),
        };
        *told.entry(cause).or_default() += part.ticks;
    }
    told
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let lock = (0..LOCKS, any::<bool>(), 1..20u64, proptest::option::of(0..LOCKS));
    let step = prop_oneof![
        2 => (1..15u64).prop_map(Step::Compute),
        4 => lock.prop_map(|(lock, read, hold, inner)| Step::Lock {
            lock,
            // Even ones are mutexes.
            read: read && lock % 2 == 1,
            hold,
            inner,
        }),
        1 => (1..25u64).prop_map(Step::Sleep),
        1 => (0..LOCKS / 2, 1..60u64).prop_map(|(lock, most)| Step::Wait { lock: 2 * lock, most }),
        2 => (0..LOCKS / 2).prop_map(|lock| Step::Signal { lock: 2 * lock }),
        1 => Just(Step::Call),
    ];
    proptest::collection::vec(step, 1..12)
}

/// Without a scheduler's records, executing is known up to the usual only: the rest is unknown.
fn without_usual(truth: &Truth) -> Truth {
    let mut merged = Truth::new();
    for (cause, ticks) in truth {
        let cause = if cause == "executing" { "unknown" } else { cause };
        *merged.entry(cause.to_owned()).or_default() += ticks;
    }
    merged
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
     })]

    #[test]
    fn explained_time_is_the_simulated_time_cause_by_cause(
        programs in proptest::collection::vec(steps(), 1..7),
        processors in 1..4usize,
        scheduler in any::<bool>(),
        fair in any::<bool>(),
        choices in proptest::collection::vec(any::<u16>(), 64),
        cuts in proptest::collection::vec(1..30usize, 4),
        snapshots in prop_oneof![Just(1usize), Just(4), Just(1 << 16)],
        worst in prop_oneof![Just(1usize), Just(2), Just(1000)],
    ) {
        let mut at = 0;
        let machine = Machine::new(&programs, processors, scheduler, fair);
        let machine = machine.run(|most| {
            at += 1;
            (usize::from(choices[at % choices.len()]) + at * 7) % most
        });
        let mut tape = machine.tape;
        tape.cut_every(&cuts);
        let trace = tape.trace();
        let options = Options { worst, snapshots, ..Options::default() };
        let survey = survey(&trace, &options, &mut |_, _| true).unwrap();
        let explained = explain(&trace, &survey, &options).unwrap();
        let address = |lock: u32| survey.locks[lock as usize].address;
        for call in &explained {
            check(&survey, call);
            let worst = &survey.worst[call.worst as usize];
            let key = (survey.threads[worst.thread as usize].tid, worst.at_ns);
            let (truth, told) = (&machine.truth[&key], told(call, &address));
            if scheduler {
                prop_assert_eq!(truth, &told, "{:?}", key);
            } else {
                prop_assert_eq!(without_usual(truth), without_usual(&told), "{:?}", key);
            }
        }
        let asked = |kind: &CallKind| (choices[0] >> (kind.function.len() % 16)) % 2 == 0;
        check_verdicts(&survey, &verdicts(&survey, &explained, &options, asked), asked);
        let returned: u64 = survey.kinds.iter().map(|kind| kind.count).sum();
        if worst == 1000 {
            prop_assert_eq!(explained.len() as u64, returned);
        }
    }
}

//! Random programs: threads that make calls and take locks are simulated on few processors, which
//! also says what each call waits for at each moment. The analysis must find the same from the
//! records alone, tick by tick.

mod late_tape;

use late_tape::{Tape, check};
use proptest::prelude::*;
use record::{Action, Class, Kind};
use std::collections::{BTreeMap, VecDeque};
use trace::late::{Cause, Explained, HolderState, Options, explain, survey};
use trace::metadata::Tier;

const LAUNCH: &str = "cuLaunchKernel";

/// What a thread of the simulated program does next.
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
    /// Returns from the call and begins the next one.
    Call,
}

/// What a step is made of.
#[derive(Clone, Copy, Debug)]
enum Act {
    Enter,
    Exit,
    Compute(u64),
    Sleep(u64),
    Acquire(usize, bool),
    Release(usize),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    Ready,
    Running,
    Waiting { lock: usize, read: bool },
    Sleeping(u64),
    Done,
}

struct Thread {
    acts: VecDeque<Act>,
    state: State,
    /// When it last became ready.
    ready: u64,
    /// It was woken after it had been off, and has not run since.
    woken: bool,
    begin: Option<u64>,
}

#[derive(Clone, Default)]
struct Lock {
    writer: Option<usize>,
    /// Since when, and who.
    readers: Vec<(u64, usize)>,
    /// Who, whether for reading, and since when.
    queue: VecDeque<(usize, bool, u64)>,
}

/// What the simulation says of a call: ticks by cause.
type Truth = BTreeMap<String, u64>;

struct Machine {
    tape: Tape,
    streams: Vec<usize>,
    processors: Vec<usize>,
    threads: Vec<Thread>,
    locks: Vec<Lock>,
    running: Vec<Option<usize>>,
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
        });
        Machine {
            tape,
            streams,
            threads: threads.collect(),
            locks: vec![Lock::default(); LOCKS],
            running: vec![None; processors.len()],
            processors,
            scheduler,
            fair,
            now: 10,
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
        while self.threads.iter().any(|thread| thread.state != State::Done) && self.now < 50_000 {
            for thread in 0..self.threads.len() {
                if let State::Sleeping(until) = self.threads[thread].state
                    && until <= self.now
                {
                    self.wake(thread);
                }
            }
            self.schedule(&mut choose);
            for processor in 0..self.running.len() {
                if let Some(thread) = self.running[processor] {
                    self.act(thread, processor);
                }
            }
            self.hand_over(&mut choose);
            self.account();
            self.now += 1;
        }
        self
    }

    /// Gives free processors to ready threads, and at the end of a quantum busy ones too.
    fn schedule(&mut self, choose: &mut impl FnMut(usize) -> usize) {
        for processor in 0..self.running.len() {
            let ready: Vec<usize> = (0..self.threads.len())
                .filter(|thread| self.threads[*thread].state == State::Ready)
                // In one moment nobody gets ready and runs: the order would not be recorded.
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
                Some(thread) if self.now % QUANTUM == processor as u64 => {
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
        let Some(act) = self.threads[thread].acts.pop_front() else {
            self.threads[thread].state = State::Done;
            self.switch(processor, None, false);
            return;
        };
        let stream = self.streams[thread];
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
                self.threads[thread].state = State::Sleeping(self.now + ticks);
                self.switch(processor, None, false);
            }
            Act::Release(lock) => {
                let state = &mut self.locks[lock];
                state.writer = state.writer.filter(|writer| *writer != thread);
                state.readers.retain(|(_, reader)| *reader != thread);
                self.lock_record(thread, false, Action::Released, lock, 0);
            }
            Act::Acquire(lock, read) => self.acquire(thread, processor, lock, read),
        }
    }

    fn free(&self, lock: usize, read: bool) -> bool {
        let state = &self.locks[lock];
        state.writer.is_none() && (read || state.readers.is_empty())
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
        self.threads[thread].state = State::Waiting { lock, read };
        self.switch(processor, None, false);
    }

    fn give(&mut self, thread: usize, lock: usize, read: bool) {
        let state = &mut self.locks[lock];
        if read {
            state.readers.push((self.now, thread))
        } else {
            state.writer = Some(thread)
        }
        self.lock_record(thread, read, Action::Acquired, lock, 0);
    }

    /// Some free locks are given to who waits for them; they come to run later.
    fn hand_over(&mut self, choose: &mut impl FnMut(usize) -> usize) {
        for lock in 0..self.locks.len() {
            if self.locks[lock].queue.is_empty() || choose(3) == 0 {
                continue;
            }
            let at = if self.fair { 0 } else { choose(self.locks[lock].queue.len()) };
            let (thread, read, since) = self.locks[lock].queue[at];
            // In one moment nobody goes to sleep and is woken.
            if self.free(lock, read) && since < self.now {
                self.locks[lock].queue.remove(at);
                self.give(thread, lock, read);
                self.wake(thread);
            }
        }
    }

    /// What every open call spends this tick with.
    fn account(&mut self) {
        for thread in 0..self.threads.len() {
            let Some(begin) = self.threads[thread].begin else { continue };
            let cause = self.cause(thread);
            let truth = self.truth.entry((self.tid(thread), begin)).or_default();
            *truth.entry(cause).or_default() += 1;
        }
    }

    fn cause(&self, thread: usize) -> String {
        match self.threads[thread].state {
            _ if !self.scheduler => match self.threads[thread].state {
                State::Waiting { lock, read } => self.waiting(thread, lock, read),
                _ => "unknown".into(),
            },
            State::Running => "executing".into(),
            State::Sleeping(_) => "blocked".into(),
            State::Ready if self.threads[thread].woken => "woken late".into(),
            State::Ready => "preempted".into(),
            State::Waiting { lock, read } => self.waiting(thread, lock, read),
            State::Done => unreachable!("a call is open"),
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
                _ if !self.scheduler => "not known",
                State::Running => "executing",
                State::Sleeping(_) => "blocked",
                State::Ready if self.threads[holder].woken => "woken late",
                State::Ready => "preempted",
                State::Done => "blocked",
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

/// What the analysis says, in the same words.
fn told(call: &Explained, address: &dyn Fn(u32) -> u64) -> Truth {
    let mut told = Truth::new();
    for part in &call.parts {
        let cause = match &part.cause {
            Cause::Executing => "executing".into(),
            Cause::Blocked => "blocked".into(),
            Cause::Preempted { .. } => "preempted".into(),
            Cause::WokenLate { lock: None, .. } => "woken late".into(),
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
    #![proptest_config(ProptestConfig { cases: 300,
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
        snapshots in prop_oneof![Just(1usize), Just(1 << 16)],
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
        let options = Options { worst: 1000, snapshots, ..Options::default() };
        let survey = survey(&trace, &options, &mut |_, _| {}).unwrap();
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
        let returned: u64 = survey.kinds.iter().map(|kind| kind.count).sum();
        prop_assert_eq!(explained.len() as u64, returned);
    }
}

//! The second pass: reads the time around the worst calls again, and takes each of them apart.
//!
//! Windows of calls that overlap are read together. A window is read from where the first pass
//! left a snapshot of each thread ([`crate::snapshot`]) and a copy of the scheduler's state
//! ([`crate::survey::load`]), so that all is known when the window begins. All records then go
//! into a [`scene::Scene`] in the order of time; each open call has an [`account::Account`], whose
//! cause is asked for again whenever a record touches something that it depends on. Nothing but
//! the scene and the accounts is kept, however long a window is.

pub(crate) mod account;
mod device;
mod name;
pub(crate) mod part;
pub(crate) mod raw;
pub(crate) mod scene;

use crate::Options;
use crate::gap::{gap_after, is_missing_after, missing_after};
use crate::identity::NO_LOCK;
use crate::merge::{Merge, Range, Run};
use crate::result::Survey;
use crate::snapshot::Snapshot;
use account::Account;
use device::Device;
use name::Names;
use part::Explained;
use raw::Thing;
use record::{Kind, Record};
use scene::{Changed, Scene, What};
use trace::{Block, Error, Stream, StreamKind, Trace};

/// Takes the worst calls of a survey apart. The result is in the order of
/// [`Survey::worst`].
///
/// # Errors
/// As [`Trace::read`].
pub fn explain(trace: &Trace, survey: &Survey, options: &Options) -> Result<Vec<Explained>, Error> {
    let mut windows = windows(survey);
    let mut explained: Vec<Option<Explained>> = vec![None; survey.worst.len()];
    for window in &mut windows {
        for (worst, result) in Replay::new(trace, survey, options, window)?.run()? {
            explained[worst] = Some(result);
        }
    }
    let missing = |worst: usize| name::not_found(survey, worst);
    let results = explained.into_iter().enumerate();
    Ok(results.map(|(worst, found)| found.unwrap_or_else(|| missing(worst))).collect())
}

/// Calls that are read together.
#[derive(Debug)]
struct Window {
    from: u64,
    to: u64,
    /// Places among the worst calls, by begin.
    calls: Vec<usize>,
}

fn windows(survey: &Survey) -> Vec<Window> {
    let targets = &survey.inner.targets;
    let mut order: Vec<usize> = (0..targets.len()).collect();
    order.sort_by_key(|at| (targets[*at].enter, *at));
    let mut windows: Vec<Window> = Vec::new();
    for call in order {
        let (from, to) = (targets[call].enter, targets[call].enter + targets[call].ticks);
        match windows.last_mut() {
            Some(window) if from <= window.to => {
                window.to = window.to.max(to);
                window.calls.push(call);
            }
            _ => windows.push(Window { from, to, calls: vec![call] }),
        }
    }
    windows
}

/// One window being read.
struct Replay<'r> {
    /// Time from which on the scheduler's records are followed.
    known_since: u64,
    trace: &'r Trace,
    survey: &'r Survey,
    options: &'r Options,
    window: &'r Window,
    scene: Scene<'r>,
    device: Device,
    merge: Merge<'r>,
    /// Calls of the window that have not begun.
    to_come: Vec<usize>,
    open: Vec<Account>,
    done: Vec<(usize, Explained)>,
}

impl<'r> Replay<'r> {
    fn new(
        trace: &'r Trace,
        survey: &'r Survey,
        options: &'r Options,
        window: &'r Window,
    ) -> Result<Replay<'r>, Error> {
        let inner = &survey.inner;
        let checkpoint = &inner.checkpoints[inner
            .checkpoints
            .partition_point(|checkpoint| checkpoint.time <= window.from)
            .saturating_sub(1)];
        let processors = checkpoint.processors.clone();
        let mut scene = Scene::new(trace, &inner.identities, &inner.functions, processors);
        let mut ranges = Vec::new();
        for (stream, of) in (0u32..).zip(trace.streams()) {
            match of.kind {
                StreamKind::Thread => {
                    let (range, snapshot, lost) = thread_range(survey, stream, of, window);
                    scene.restore(stream, snapshot, lost);
                    ranges.extend(range);
                }
                StreamKind::Processor => {
                    ranges.extend(processor_range(stream, of, checkpoint.time, window));
                }
                StreamKind::Gpu | StreamKind::Flow => {}
            }
        }
        let merge = Merge::new(trace, &ranges);
        let device = Device::read(trace, inner, window.from, window.to)?;
        let to_come = window.calls.clone();
        let (open, done) = (Vec::new(), Vec::new());
        let known_since = checkpoint.time;
        Ok(Replay {
            known_since,
            trace,
            survey,
            options,
            window,
            scene,
            device,
            merge,
            to_come,
            open,
            done,
        })
    }

    fn run(mut self) -> Result<Vec<(usize, Explained)>, Error> {
        let Replay { trace, survey, options, window, ref mut merge, .. } = self;
        let mut stage = Stage {
            known_since: self.known_since,
            survey,
            options,
            names: Names::new(trace, survey),
            scene: &mut self.scene,
            device: &self.device,
            trace,
            to_come: &mut self.to_come,
            open: &mut self.open,
            done: &mut self.done,
        };
        while let Some(run) = merge.next_run()? {
            let of = &trace.streams()[run.stream as usize];
            let past = run.records.first().is_some_and(|record| record.time > window.to);
            if past || (stage.open.is_empty() && stage.to_come.is_empty()) {
                break;
            }
            stage.take(&run, of);
        }
        Ok(self.done)
    }
}

/// State for the processing of one window's records.
struct Stage<'s, 'r> {
    known_since: u64,
    survey: &'r Survey,
    options: &'r Options,
    names: Names<'r>,
    scene: &'s mut Scene<'r>,
    device: &'s Device,
    trace: &'r Trace,
    to_come: &'s mut Vec<usize>,
    open: &'s mut Vec<Account>,
    done: &'s mut Vec<(usize, Explained)>,
}

impl Stage<'_, '_> {
    fn take(&mut self, run: &Run<'_>, of: &Stream) {
        let block = &of.blocks[run.block];
        let begins = run.records.first().map_or(block.first, |record| record.time);
        match of.kind {
            StreamKind::Thread => {
                if run.begins {
                    if block.torn > 0 {
                        self.scene.gap_begins(run.stream);
                    }
                    self.scene.threads[run.stream as usize].lost = block.torn > 0;
                    self.refresh(&[Thing::Stream(run.stream)], begins);
                }
                for record in run.records {
                    self.thread_record(run.stream, record);
                }
                if run.ends && gap_after(of, run.block) {
                    self.scene.gap_begins(run.stream);
                    self.refresh_all(block.last.max(begins));
                }
            }
            StreamKind::Processor => {
                if run.begins {
                    self.scene.processors.gap_ends(of.id);
                }
                for record in run.records {
                    self.kernel_record(record);
                }
                if run.ends && gap_after(of, run.block) {
                    self.scene.processors.gap_begins(of.id, missing_after(of, run.block));
                    if !is_missing_after(of, run.block) {
                        self.scene.processors.gap_ends(of.id);
                    }
                    self.refresh_all(block.last.max(begins));
                }
            }
            StreamKind::Gpu | StreamKind::Flow => {}
        }
    }

    fn thread_record(&mut self, stream: u32, record: &Record) {
        let now = record.time;
        let tid = self.scene.tid(stream);
        let came_to_be_known = now >= self.known_since && self.scene.processors.acts(tid, now);
        if let Kind::OffCpu | Kind::OnCpu = record.kind {
            return self.kernel_record(record);
        }
        let Changed { locks, what } = self.scene.apply(stream, record);
        self.look_back(stream, locks, what, now);
        let task = if came_to_be_known { Thing::Task(tid) } else { Thing::None };
        let lock = |lock: u32| if lock == NO_LOCK { Thing::None } else { Thing::Lock(lock) };
        self.refresh(&[Thing::Stream(stream), lock(locks[0]), lock(locks[1]), task], now);
        match what {
            What::Enter => self.enter(stream, now),
            What::Exit(begin) => self.exit(stream, begin, now),
            What::Waits => {
                self.own(stream).for_each(|account| account.wait_begins(locks[0], now));
            }
            What::Got(..) => {
                let waited = self.own(stream).filter(|account| account.awaited() == locks[0]);
                waited.for_each(|account| account.wait_ends(now));
            }
            _ => {}
        }
    }

    fn own(&mut self, stream: u32) -> impl Iterator<Item = &mut Account> {
        self.open.iter_mut().filter(move |account| account.target.stream == stream)
    }

    /// Writes anew what is known better now. A thread that waits for a condition that is signalled
    /// now has waited for the signal up to here, and so has who waited in vain; and a thread
    /// that waits for a lock that another one has got now was not given it.
    fn look_back(&mut self, stream: u32, locks: [u32; 2], what: What, now: u64) {
        let tid = self.scene.tid(stream);
        for account in self.open.iter_mut() {
            let own = account.target.stream == stream;
            match what {
                What::Signal(lock) if account.awaited() == lock => {
                    account.was_waiting_for_signal(lock, now);
                }
                What::Got(lock, false)
                    if own && account.awaited() == lock && self.scene.is_signal(lock) =>
                {
                    account.was_waiting_for_signal(lock, now);
                }
                What::Got(..) if !own => {
                    let who = self.scene.processors.who(tid);
                    for lock in locks {
                        if lock != NO_LOCK && account.minds(Thing::Lock(lock)) {
                            account.given_to(lock, who, now);
                        }
                    }
                }
                _ => {}
            }
        }
    }

    fn kernel_record(&mut self, record: &Record) {
        let now = record.time;
        if now < self.known_since {
            return;
        }
        let came = self.scene.processors.apply(record);
        let (first, second) = ((record.subject >> 32) as u32, record.subject as u32);
        let mut lock = NO_LOCK;
        if record.kind == Kind::Wakeup {
            lock = self.scene.woken(first, second, now);
        }
        if let Some(came) = came {
            let scene = &self.scene;
            let own = self.open.iter_mut().filter(|a| scene.tid(a.target.stream) == came.tid);
            own.for_each(|account| account.came(&came, now));
        }
        let processor = match record.kind {
            Kind::Switch | Kind::OffCpu | Kind::OnCpu => Thing::Processor(record.number),
            _ => Thing::None,
        };
        let lock = if lock == NO_LOCK { Thing::None } else { Thing::Lock(lock) };
        self.refresh(&[Thing::Task(first), Thing::Task(second), processor, lock], now);
    }

    fn refresh(&mut self, things: &[Thing], now: u64) {
        for account in self.open.iter_mut() {
            if things.iter().any(|thing| account.minds(*thing)) {
                account.change(self.scene.present(account.target.stream, now), now);
            }
        }
    }

    fn refresh_all(&mut self, now: u64) {
        for account in self.open.iter_mut() {
            account.change(self.scene.present(account.target.stream, now), now);
        }
    }

    fn enter(&mut self, stream: u32, now: u64) {
        let targets = &self.survey.inner.targets;
        let depth = self.scene.threads[stream as usize].calls.len() as u32 - 1;
        let is = |worst: &usize| {
            let target = &targets[*worst];
            (target.stream, target.enter, target.depth) == (stream, now, depth)
        };
        let Some(at) = self.to_come.iter().position(is) else { return };
        let worst = self.to_come.swap_remove(at);
        let present = self.scene.present(stream, now);
        self.open.push(Account::open(worst, targets[worst], present, self.options.parts));
    }

    fn exit(&mut self, stream: u32, begin: u64, now: u64) {
        let depth = self.scene.threads[stream as usize].calls.len() as u32;
        let is = |account: &Account| {
            let target = &account.target;
            (target.stream, target.enter, target.depth) == (stream, begin, depth)
        };
        let Some(at) = self.open.iter().position(is) else { return };
        let mut account = self.open.swap_remove(at);
        let inner = &self.survey.inner;
        let usual = inner.usual[account.target.kind as usize];
        let base = inner.functions.of(account.target.kind).0;
        let queues = base.role.queues();
        if base.waits() {
            let process = self.trace.streams()[stream as usize].process;
            account.waited_for_gpu(&self.device.states(process, begin, now), now);
        }
        account.close(now, usual, queues, self.options.queue_depth);
        let explained = self.names.explained(&account);
        self.done.push((account.worst, explained));
    }
}

/// Returns the blocks of a thread that cover a window, the state of the thread before them, and
/// whether its records are missing at the begin of the window.
fn thread_range(
    survey: &Survey,
    stream: u32,
    of: &Stream,
    window: &Window,
) -> (Option<Range>, Snapshot, bool) {
    let snapshots = &survey.inner.snapshots;
    let in_window = |block: &Block| block.count > 0 && block.last >= window.from;
    let Some(first) = of.blocks.iter().position(in_window) else {
        let end = of.blocks.len() - 1;
        return (None, snapshots.end(stream).clone(), gap_after(of, end));
    };
    let (from, snapshot) = snapshots.before(stream, first);
    let to = end_of(of, first, window);
    let lost = from > 0 && gap_after(of, from - 1) || of.blocks[from].missing_before > 0;
    ((from < to).then_some(Range { stream, from, to }), snapshot, lost)
}

/// Returns the blocks of a processor that cover the time from a checkpoint to the end of a window.
fn processor_range(stream: u32, of: &Stream, since: u64, window: &Window) -> Option<Range> {
    let in_time = |block: &Block| block.count > 0 && block.last >= since;
    let from = of.blocks.iter().position(in_time)?;
    let to = end_of(of, from, window);
    (from < to).then_some(Range { stream, from, to })
}

/// The first block after a window.
fn end_of(of: &Stream, first: usize, window: &Window) -> usize {
    let after = |block: &Block| block.count > 0 && block.first > window.to;
    of.blocks[first..].iter().position(after).map_or(of.blocks.len(), |at| first + at)
}

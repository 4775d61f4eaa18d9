//! A stack drives a scenario on the wall clock: the same graph of the same modules on real
//! threads, the world in real time.
//!
//! Each core of the stack's groups is a core of the machine ([`Places`]). The world has one more,
//! on which it is one step ahead: when a step's moment comes, what the sensors see then has been
//! computed. The newest command is taken, the frames come in, and the world goes on by 10 ms, until
//! whose end it has time to cast the lidar's rays. If it is not ready in time, that is counted
//! ([`Kept`]).

use crate::drive::{Course, DriveOutcome, Error, Kept, Left, Seen, Until, shown};
use crate::stack::{self, Features, Stack};
use dataflow::trace::{Ring, merge};
use dataflow::{Observed, Settings, Wall};
use realtime::awake;
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread::{Scheduling, pin, set_name, set_policy};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use world::{Scenario, World};

/// `SCHED_FIFO` priority of the stack's threads.
pub const PRIORITY: u8 = 50;
/// The world's: less than that of the thread that fires the stack's timers on the same core.
const WORLD_PRIORITY: u8 = 40;
/// Time from when all threads are there to the beginning, ns: the first frames are computed
/// meanwhile.
const START_NS: u64 = 50_000_000;
/// Delay from which on a frame is late, ns.
const LATE_NS: u64 = 1_000_000;
/// Events that each thread keeps.
const EVENTS: usize = 1 << 17;

/// The machine's cores that a drive has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// Cores of this machine for the stack's, in the order of its groups. In a folded drive some
    /// are there more than once, and no thread has a real-time priority: one that does not end
    /// would keep others from a core that is theirs as well.
    pub stack: Vec<usize>,
    /// The world's.
    pub world: usize,
    /// True if cores of the stack, or the world, share one.
    pub folded: bool,
}

impl Places {
    /// Number of cores that a drive with these features takes.
    pub fn needed(features: &Features) -> usize {
        stack::cores(features) + 1
    }

    /// Disjoint places for as many drives as `cores` are enough for, each with `needed` of them.
    pub fn side_by_side(cores: &[usize], needed: usize) -> Vec<Places> {
        let place = |cores: &[usize]| {
            let (world, stack) = cores.split_last()?;
            Some(Places { stack: stack.to_vec(), world: *world, folded: false })
        };
        cores.chunks_exact(needed.max(2)).filter_map(place).collect()
    }

    /// A place for one drive on fewer cores than it needs: the world has the last, the stack's
    /// share the others. None without any core.
    pub fn folded(cores: &[usize], needed: usize) -> Option<Places> {
        let (world, others) = cores.split_last()?;
        let others = if others.is_empty() { cores } else { others };
        let stack = others.iter().copied().cycle().take(needed - 1).collect();
        Some(Places { stack, world: *world, folded: true })
    }
}

/// Drives `scenario` with `stack` at `places`, on cores that are `factor` times slower than the
/// machine's ([`Wall::prepare`]), not further than `until`; shows the world before each of its
/// steps, and at the end, in its own thread.
///
/// # Errors
///
/// The scenario makes no world, the factor is less than 1, or a core is not there;
/// [`Error::Stopped`] where `show` breaks.
///
/// # Panics
///
/// If a module does, or there are fewer places than the stack has cores.
pub fn watch(
    scenario: &Scenario,
    stack: Stack,
    features: &Features,
    (places, factor): (&Places, f64),
    until: Until,
    show: &mut (dyn FnMut(&World) -> ControlFlow<()> + Send),
) -> Result<DriveOutcome, Error> {
    let settings = features.settings();
    let drive = || drive(scenario, stack, (features, settings), (places, factor), until, show);
    alone(drive).map(|(outcome, _)| outcome)
}

/// As [`watch`]; what it takes to drive the same on the virtual clock
/// ([`crate::drive::watch_again`]) comes with it.
///
/// # Errors
///
/// As [`watch`].
///
/// # Panics
///
/// As [`watch`].
pub fn keep(
    scenario: &Scenario,
    stack: Stack,
    features: &Features,
    (places, factor): (&Places, f64),
    until: Until,
    show: &mut (dyn FnMut(&World) -> ControlFlow<()> + Send),
) -> Result<(DriveOutcome, Seen), Error> {
    let settings = Settings { keep_chunks: true, ..features.settings() };
    alone(|| drive(scenario, stack, (features, settings), (places, factor), until, show))
}

/// Runs `drive` in a thread of its own: the caller keeps its core and its policy.
fn alone<T: Send>(drive: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(drive).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn drive(
    scenario: &Scenario,
    stack: Stack,
    (features, settings): (&Features, Settings),
    (places, factor): (&Places, f64),
    until: Until,
    show: &mut dyn FnMut(&World) -> ControlFlow<()>,
) -> Result<(DriveOutcome, Seen), Error> {
    let mut course = Course::start(scenario, until)?;
    let mut kept = Kept::default();
    // The thread that fires the timers inherits the core.
    set_up(places, &mut kept)?;
    let (mut graph, doors) = stack::build(stack, features, &course.mission);
    let mut cores = places.stack.iter().copied();
    for group in graph.groups_mut() {
        group.pin = cores.by_ref().take(group.cores).collect();
        assert_eq!(group.pin.len(), group.cores, "a place for each core");
        group.priority = (!places.folded).then_some(PRIORITY);
    }
    let settings = Settings { trace_events: EVENTS, ..settings };
    let clock = Wall::prepare(graph, settings, factor)?;
    let _awake = Awake::keep(places)?;
    let began_ns = monotonic_ns() + START_NS;
    clock.begin(began_ns);
    while !course.over() {
        shown(show(&course.world))?;
        let (now_ns, frames) = course.sense();
        sleep_until_ns(began_ns + now_ns);
        // Commands of this moment, before the frames of this moment make others.
        course.obey(clock.take(&doors.commands));
        clock.inject(&doors.localisation, now_ns, frames.localisation)?;
        kept.came(clock.now_ns() - now_ns);
        if let Some(scan) = frames.scan {
            clock.inject(&doors.scans, now_ns, scan)?;
            kept.came(clock.now_ns() - now_ns);
        }
        course.step()?;
    }
    shown(show(&course.world))?;
    let stopped = clock.stop();
    kept.refused(stopped.refused);
    let left = Left {
        events: merge(&stopped.rings),
        lost: stopped.rings.iter().map(Ring::lost).sum(),
        statistics: stopped.statistics,
        names: stopped.names,
        kept: Some(kept),
        observed: (0, 0),
    };
    let obeyed = std::mem::take(&mut course.obeyed);
    let seen = Seen { obeyed, observed: Observed::new(&stopped.chunks, factor) };
    Ok((course.outcome(&doors, stack::cores(features), left), seen))
}

/// Keeps the cores of a drive from idling, until it is dropped. A module runs for a few milliseconds
/// ten times a second: on a core that slept in between, that takes longer than on the virtual clock,
/// where one core computes everything. In a folded drive they are not idle for long.
struct Awake {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Awake {
    fn keep(places: &Places) -> Result<Awake, Error> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut cores = places.stack.clone();
        cores.push(places.world);
        let cores = if places.folded { Vec::new() } else { cores };
        let threads = awake::keep(cores, &stop).map_err(dataflow::Error::from)?;
        Ok(Awake { stop, threads })
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // It does nothing that panics.
            let _ = thread.join();
        }
    }
}

fn set_up(places: &Places, kept: &mut Kept) -> Result<(), Error> {
    set_name("world");
    pin(&[places.world])?;
    if !places.folded
        && let Err(error) = set_policy(Scheduling::Fifo(WORLD_PRIORITY))
    {
        kept.refused(vec![format!("the world: {error}")]);
    }
    Ok(())
}

impl Kept {
    /// A frame came in so long after its moment.
    fn came(&mut self, after_ns: u64) {
        self.late += usize::from(after_ns > LATE_NS);
        self.latest = self.latest.max(after_ns as f64 / 1e9);
    }

    /// Adds refused requests; the same one of several threads of a group is listed once.
    fn refused(&mut self, refused: Vec<String>) {
        self.refused.extend(refused);
        self.refused.sort();
        self.refused.dedup();
    }
}

//! `--clock`: the virtual one, or the wall clock, and on which cores of this machine.

use anyhow::{Context, ensure};
use clap::ValueEnum;
use driving::Policy;
use driving::drive::DriveOutcome;
use driving::wall::{PRIORITY, Places};
use realtime::machine::siblings;
use realtime::thread::{self, set_policy};

/// The clock of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Clock {
    Virtual,
    Wall,
}

impl Clock {
    /// Description in words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Clock::Virtual => "on the virtual clock",
            Clock::Wall => "on the wall clock",
        }
    }
}

/// Returns the cores for a drive under any of these policies, with so many more cores; none on the
/// virtual clock.
///
/// # Errors
/// These options do not go together, or there are too few cores.
pub(super) fn places(
    clock: Clock,
    policies: &[Policy],
    factor: f64,
    fold: bool,
    more: usize,
) -> anyhow::Result<Option<Places>> {
    if clock == Clock::Virtual {
        ensure!(!fold, "--fold: found it with --clock virtual, expected --clock wall");
        return Ok(None);
    }
    ensure!(
        !policies.contains(&Policy::Oracle),
        "--policy: found oracle, which takes no time, expected others with --clock wall"
    );
    ensure!(factor >= 1.0, "--factor: found {factor}, expected 1 to 1000 with --clock wall");
    let (cores, needed) = (apart().0, needed(policies) + more);
    if let Some(places) = Places::side_by_side(&cores, needed).into_iter().next() {
        return Ok(Some(places));
    }
    ensure!(fold, "{}; --fold lets several share one", too_few(&cores, needed));
    Ok(Some(Places::folded(&cores, needed).context("--clock wall: found no core")?))
}

/// Places for drives at the same time; by default no two share a physical core.
///
/// # Errors
/// There are too few cores.
pub(super) fn side_by_side(
    policies: &[Policy],
    wanted: Option<usize>,
    fold: bool,
) -> anyhow::Result<Vec<Places>> {
    let ((cores, physical), needed) = (apart(), needed(policies));
    let mut places = Places::side_by_side(&cores, needed);
    if places.is_empty() {
        ensure!(fold, "{}; --fold lets several share one", too_few(&cores, needed));
        places.extend(Places::folded(&cores, needed));
    }
    let wanted = wanted.unwrap_or((physical / needed).max(1));
    ensure!(
        wanted <= places.len(),
        "--jobs: found {wanted}, expected at most {} on {} cores: a drive on the wall clock \
         takes {needed}",
        places.len(),
        cores.len()
    );
    places.truncate(wanted);
    Ok(places)
}

fn needed(policies: &[Policy]) -> usize {
    policies.iter().map(|policy| Places::needed(&policy.features())).max().unwrap_or(1)
}

fn too_few(cores: &[usize], needed: usize) -> String {
    format!(
        "--clock wall: found {} cores, expected {needed}: {} for the stack, one for the world",
        cores.len(),
        needed - 1
    )
}

/// The cores that this process may use, those first that share no physical core with one before
/// them; and how many these are.
fn apart() -> (Vec<usize>, usize) {
    let all = thread::cores();
    let is_first = |core: &usize| {
        siblings(*core).into_iter().filter(|sibling| all.contains(sibling)).min() == Some(*core)
    };
    let (mut cores, others): (Vec<usize>, Vec<usize>) = all.iter().partition(|core| is_first(core));
    let physical = cores.len();
    cores.extend(others);
    (cores, physical)
}

/// Returns facts about the clock and the cores.
pub(super) fn facts(places: Option<&Places>, factor: f64) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    match places {
        None => vec![
            fact("Clock", "virtual: the modules execute one after the other".to_owned()),
            fact("Cores", format!("simulated, {factor} times slower than this machine's")),
        ],
        Some(places) => vec![
            fact("Clock", on_the_wall(places)),
            fact("Cores", format!("kept busy {factor} times as long as modules compute")),
            fact("Real-time priority", if places.folded { "none".to_owned() } else { priority() }),
        ],
    }
}

/// The wall clock, and where.
pub(super) fn on_the_wall(places: &Places) -> String {
    let cores: Vec<String> = places.stack.iter().map(usize::to_string).collect();
    format!(
        "wall: the modules run at the same time on cores {}, the world on {}",
        cores.join(", "),
        places.world
    )
}

/// The priority that threads of a stack get, or why they do not.
pub(super) fn priority() -> String {
    // A thread of its own, so that the setting is not kept.
    let tried = std::thread::spawn(|| set_policy(thread::Scheduling::Fifo(PRIORITY))).join();
    match tried {
        Ok(Err(error)) => format!("{error}"),
        _ => format!("SCHED_FIFO {PRIORITY}"),
    }
}

/// Returns the mark that qualifies drives at these places, if they are folded.
pub(super) fn mark(places: Option<&Places>) -> Vec<String> {
    let Some(places) = places.filter(|places| places.folded) else { return Vec::new() };
    let mut cores = places.stack.clone();
    cores.sort_unstable();
    cores.dedup();
    vec![format!(
        "Folded: {} cores of the stack share {} of this machine's, without real-time priority. The \
         times are not those of the stack.",
        places.stack.len(),
        cores.len()
    )]
}

/// Returns the marks that qualify a drive.
pub(super) fn marks(policy: Policy, outcome: &DriveOutcome) -> Vec<String> {
    let Some(kept) = &outcome.kept else { return Vec::new() };
    let mut marks = Vec::new();
    if kept.late > 0 {
        marks.push(format!(
            "{policy}: {} frames came in late, by at most {:.1} ms: the world was not ready.",
            kept.late,
            kept.latest * 1e3
        ));
    }
    marks.extend(kept.refused.iter().map(|refused| format!("{policy}: {refused}.")));
    marks
}

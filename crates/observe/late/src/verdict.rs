//! Verdicts: the causes of late calls that are known by name, with the numbers that show them, and
//! their remedies.
//!
//! The catalogue has one file for each cause. A cause reads the survey's tables and the parts of
//! the explained calls, and says how much time each of these calls lost by it. What it says of a
//! lock's whole life (convoys, starvation, unfairness, long holds) comes from the first pass, so
//! its counts are of the whole trace; what needs the chain of causes (priority inversion, preempted
//! holders, a full queue) comes from the explained calls, so its counts are of those.
//!
//! A verdict is about the calls that were asked for if any of them lost time by its cause; its
//! worst occasion, its severity and its counts of calls are then of these calls alone.

mod blocked;
mod case;
mod convoy;
mod evidence;
mod full_queue;
mod held_up;
mod long_hold;
mod oversubscription;
mod remedy;
mod shared_gpu;
mod small_launches;
mod starvation;
mod unfair;

use super::Options;
use super::explain::part::Explained;
use super::result::{CallKind, Survey};
use case::Case;
use serde::Serialize;

pub use evidence::Evidence;
pub use remedy::Remedy;

/// A cause is the reason of a call if it explains 1 in so many of the time by which it was late.
const REASON: u64 = 3;
/// Of several reasons, those are as good as the greatest that explain 1 in so many of what it does.
const AS_GOOD: u64 = 2;

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// Kind of the problem, and the numbers that show it.
    pub evidence: Evidence,
    /// The lock that it is about, as its place in [`Survey::locks`].
    pub lock: Option<u32>,
    /// True if calls that were asked for lost time by it.
    pub asked: bool,
    /// The longest time that one call or wait lost by it.
    pub severity_ns: u64,
    /// The worst occasion, which lost that time.
    pub worst: Option<Occasion>,
    /// The explained calls that lost time by it, and how much each: of the asked ones if it is
    /// about these.
    pub lost: Lost,
    /// Remedies, the most promising first.
    pub remedies: Vec<Remedy>,
}

/// The explained calls that lost time by one cause.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Calls that were looked at.
    pub looked_at: u64,
    /// Those that lost time, as their places in [`Survey::worst`], and the time.
    pub calls: Vec<(u32, u64)>,
}

impl Lost {
    /// Time that they lost together.
    pub fn total_ns(&self) -> u64 {
        self.calls.iter().map(|(_, ns)| ns).sum()
    }

    /// Time that one of them lost.
    pub fn by(&self, call: u32) -> u64 {
        self.calls.iter().find(|(worst, _)| *worst == call).map_or(0, |(_, ns)| *ns)
    }
}

/// One occasion on which something went wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Occasion {
    /// Begin of the wait, hold or call.
    pub at_ns: u64,
    /// Duration of the wait, hold or call.
    pub duration_ns: u64,
    /// The part of it that was lost by this cause.
    pub lost_ns: u64,
    /// The thread, as its place in [`Survey::threads`].
    pub thread: u32,
    /// Kind of call in which it was; none is outside of every call.
    pub kind: Option<u32>,
    /// The explained call that it is, if it is one, as its place in [`Survey::worst`].
    pub explained: Option<u32>,
}

/// Returns the verdicts. Those on kinds of calls that were `asked` for come first: the reason of
/// the latest of these calls, then the others, the worst first.
pub fn verdicts(
    survey: &Survey,
    explained: &[Explained],
    options: &Options,
    asked: impl Fn(&CallKind) -> bool,
) -> Vec<Verdict> {
    let case = Case::new(survey, explained, options, &asked);
    let mut verdicts = Vec::new();
    for place in 0..survey.locks.len() as u32 {
        verdicts.extend(convoy::judge(&case, place));
        verdicts.extend(starvation::judge(&case, place));
        verdicts.extend(unfair::judge(&case, place));
        verdicts.extend(long_hold::judge(&case, place));
    }
    verdicts.extend(held_up::judge(&case));
    verdicts.extend(oversubscription::judge(&case));
    verdicts.extend(full_queue::judge(&case));
    verdicts.extend(blocked::judge(&case));
    verdicts.extend(shared_gpu::judge(&case));
    verdicts.extend(small_launches::judge(&case));
    verdicts.sort_by_key(|verdict| {
        (!verdict.asked, std::cmp::Reverse(verdict.severity_ns), verdict.lock)
    });
    let latest = case.latest().map(|call| call.worst);
    let first = latest.and_then(|call| reason(survey, &verdicts, call));
    let is_first = |verdict: &Verdict| first.is_some_and(|first| std::ptr::eq(first, verdict));
    if let Some(at) = verdicts.iter().position(is_first) {
        verdicts[..=at].rotate_right(1);
    }
    verdicts
}

/// Returns the verdict that says most of why a call was late: of those that explain about as much
/// as any, the one that is nearest to the root.
pub fn reason<'v>(survey: &Survey, verdicts: &'v [Verdict], call: u32) -> Option<&'v Verdict> {
    let late_ns = survey.worst[call as usize].lateness_ns;
    let most = verdicts.iter().map(|verdict| verdict.lost.by(call)).max()?;
    if most == 0 || most * REASON < late_ns {
        return None;
    }
    let explains = verdicts.iter().filter(|verdict| verdict.lost.by(call) * AS_GOOD >= most);
    explains
        .min_by_key(|verdict| (verdict.evidence.rank(), std::cmp::Reverse(verdict.lost.by(call))))
}

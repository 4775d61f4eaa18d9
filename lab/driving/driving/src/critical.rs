//! The critical reaction time of a scenario: how late the stack may react.
//!
//! The ideal stack has the modules of stack A, on cores that take no time. It drives undisturbed
//! until the hazard, which has begun, can first be seen (T0). From then on it knows nothing of what
//! the sensor sees at T0 or later, and goes on with its last plan, which control keeps following by
//! localisation. At T0 + r all turns of the lidar that were withheld come in, in their order; from
//! then on each comes in when it is captured. This is how COLA found the requirement of an
//! encounter (section 2.2): commands were delayed more and more until there was a crash.
//!
//! The critical reaction time is the longest r that ends well, if longer ones do not. The world
//! takes a command every [`STEP`], so r is a whole number of steps, and what is found is exact.
//!
//! The lidar turns every 100 ms. If r ends before the first turn after T0 is captured, nothing was
//! withheld: such an r is the same drive as one that waits for that turn. The reaction of the ideal
//! stack, as a trace measures it, is r or what it needs on cores that take no time, whichever is
//! longer: the wait for the first turn, and for further ones where the first does not show enough.

use crate::drive::{Course, DriveOutcome, Error, Left, TURN, Until, ns};
use crate::policy::Policy;
use crate::stack::{self, Scan, Stack};
use dataflow::Virtual;
use std::collections::BTreeMap;
use world::suite::{Frozen, Set};
use world::{Limit, STEP, Scenario};

/// The longest reaction that is tried, steps of the world: 1 s.
pub const LONGEST: u32 = 100;
/// Distance from one tried reaction to the next, before the search halves, steps: 50 ms.
pub const SCAN: u32 = 5;
/// Number of later attempts that have to end in a collision, too, after the first one.
pub const AFTER: u32 = 3;

/// Most draws of a case; if none is in its band, the nearest one is kept.
pub const ATTEMPTS: u32 = 40;
/// Number of draws with a critical time of which the nearest is kept if none is in the band.
const NEAR: usize = 3;

/// The critical reaction time of a scenario.
///
/// # Errors
/// As [`react`].
pub fn critical(scenario: &Scenario) -> Result<Limit, Error> {
    Trial::new(scenario.clone()).limit()
}

/// The first of so many draws of a case whose critical reaction time is in its band. If none is:
/// the nearest of a few that have one; if none has, the first. Of those to confirm with, which are
/// all of one band, it is the first in any case, without a time: the time of another one is not
/// needed.
///
/// Only the ideal stack has a part in it: which policy does how well in a draw is not looked at.
///
/// # Errors
/// As [`react`].
pub fn select(set: Set, index: usize, attempts: u32) -> Result<Frozen, Error> {
    let band = set.band(index);
    let inside = |seconds: f64| band.contains(&((1e3 * seconds).round() as u32));
    let mut trials = Vec::new();
    for attempt in 0..attempts.max(1) {
        let mut trial = Trial::new(set.draw(index, attempt));
        // A look at the two ends is no search, but most draws end here.
        if trial.crashes(steps(*band.end()) + SCAN)? && !trial.crashes(steps(*band.start()))? {
            let limit = trial.limit()?;
            if matches!(limit, Limit::After(seconds) if inside(seconds)) {
                return Ok(Frozen::new(set, index, attempt, Some(limit)));
            }
        }
        trials.push(trial);
    }
    if set == Set::Confirm {
        return Ok(Frozen::new(set, index, 0, None));
    }
    let mut timed = Vec::new();
    for (attempt, trial) in (0..).zip(&mut trials) {
        if timed.len() < NEAR && !trial.crashes(0)? && trial.crashes(LONGEST)? {
            let limit = trial.limit()?;
            if let Limit::After(_) = limit {
                timed.push(Frozen::new(set, index, attempt, Some(limit)));
            }
        }
    }
    let off = |case: &Frozen| {
        let ms = 1e3 * case.critical_s().unwrap_or(f64::INFINITY);
        (f64::from(*band.start()) - ms).max(ms - f64::from(*band.end()))
    };
    match timed.iter().min_by(|one, other| off(one).total_cmp(&off(other))) {
        Some(nearest) => Ok(*nearest),
        None => Ok(Frozen::new(set, index, 0, Some(trials[0].limit()?))),
    }
}

fn steps(ms: u32) -> u32 {
    ms / STEP_MS
}

/// Duration of a step of the world, ms.
const STEP_MS: u32 = (1e3 * STEP) as u32;

/// A scenario with what is known of its reactions.
struct Trial {
    scenario: Scenario,
    /// Steps from T0 to the first turn of the lidar, once something was driven. Without T0 nothing
    /// is ever withheld: all reactions are the same drive.
    wait: Option<u32>,
    /// Reactions that were driven, in steps, and whether they end in a collision.
    known: BTreeMap<u32, bool>,
}

impl Trial {
    fn new(scenario: Scenario) -> Trial {
        Trial { scenario, wait: None, known: BTreeMap::new() }
    }

    fn limit(&mut self) -> Result<Limit, Error> {
        search(&mut |steps| self.crashes(steps))
    }

    fn crashes(&mut self, steps: u32) -> Result<bool, Error> {
        let same = |wait: Option<u32>| steps.max(wait.unwrap_or(0));
        if let Some(known) = self.known.get(&same(self.wait)) {
            return Ok(*known);
        }
        let outcome = react(&self.scenario, steps)?;
        let crashes = !outcome.collisions.is_empty();
        self.wait = Some(wait(&outcome));
        self.known.insert(same(self.wait), crashes);
        Ok(crashes)
    }
}

/// Steps from T0 until the lidar turns.
fn wait(outcome: &DriveOutcome) -> u32 {
    outcome.seen.map_or(u32::MAX, |seen| {
        let seen = (seen / STEP).round() as u64;
        (seen.next_multiple_of(TURN) - seen) as u32
    })
}

/// The smallest reaction that ends in a collision, of those up to [`LONGEST`], where `crashes` says
/// whether one of this number of steps of the world does.
///
/// A later reaction need not be worse (one may be past before it comes). So reactions are tried
/// from 0 on, every [`SCAN`]; the first that ends in a collision counts if the next [`AFTER`] do,
/// too, and otherwise the scenario is [`Limit::Erratic`]. Between it and the one before, the
/// interval is halved.
///
/// # Errors
/// Those of `crashes`.
pub fn search<E>(crashes: &mut dyn FnMut(u32) -> Result<bool, E>) -> Result<Limit, E> {
    let mut badly = 0;
    while !crashes(badly)? {
        if badly == LONGEST {
            return Ok(Limit::Never);
        }
        badly += SCAN;
    }
    for later in 1..=AFTER {
        if !crashes(badly + later * SCAN)? {
            return Ok(Limit::Erratic);
        }
    }
    if badly == 0 {
        return Ok(Limit::Unavoidable);
    }
    let mut well = badly - SCAN;
    while badly - well > 1 {
        let middle = (well + badly) / 2;
        if crashes(middle)? {
            badly = middle;
        } else {
            well = middle;
        }
    }
    Ok(Limit::After(f64::from(well * STEP_MS) / 1e3))
}

/// Drives a scenario with the ideal stack, which learns of the hazard so many steps of the world
/// after T0.
///
/// # Errors
/// The scenario makes no world.
pub fn react(scenario: &Scenario, steps: u32) -> Result<DriveOutcome, Error> {
    let mut course = Course::start(scenario, Until::Over)?;
    let features = Policy::Oracle.features();
    let (graph, doors) = stack::build(Stack::A, &features, &course.mission);
    let mut clock = Virtual::new(graph, features.settings(), Policy::Oracle.costs(1.0))?;
    let mut withheld: Vec<Scan> = Vec::new();
    while !course.over() {
        let (now_ns, frames) = course.sense();
        clock.inject(&doors.localisation, now_ns, now_ns, frames.localisation)?;
        withheld.extend(frames.scan);
        if course.seen_for().is_none_or(|since| since >= (f64::from(steps) - 0.5) * STEP) {
            for scan in withheld.drain(..) {
                clock.inject(&doors.scans, now_ns, ns(scan.at), scan)?;
                // Each is worked through before the next comes: none takes another's place.
                clock.advance_to(now_ns)?;
            }
        }
        clock.advance_to(now_ns)?;
        course.obey(clock.take(&doors.commands));
        course.step()?;
    }
    Ok(course.outcome(&doors, stack::cores(&features), Left::of(&clock)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Result of the search for a made-up outcome, and the reactions that it tried.
    fn found(crashes: impl Fn(u32) -> bool) -> (Limit, Vec<u32>) {
        let mut tried = Vec::new();
        let limit = search::<()>(&mut |steps| {
            tried.push(steps);
            Ok(crashes(steps))
        });
        (limit.unwrap(), tried)
    }

    #[test]
    fn longest_reaction_that_ends_well_is_found_to_the_step() {
        for limit in 0..=LONGEST - 1 {
            let (found, tried) = found(|steps| steps > limit);
            assert_eq!(found, Limit::After(f64::from(10 * limit) / 1e3));
            // In their order from 0 on, three after the first that is too late; then in between.
            let badly = (limit + 1).next_multiple_of(SCAN);
            let scanned: Vec<u32> = (0..=badly + AFTER * SCAN).step_by(SCAN as usize).collect();
            let (first, rest) = tried.split_at(scanned.len());
            assert_eq!(first, scanned);
            assert!(rest.iter().all(|steps| (badly - SCAN + 1..badly).contains(steps)), "{rest:?}");
        }
    }

    #[test]
    fn reaction_that_comes_too_late_and_later_ones_that_do_not_are_erratic() {
        // Of the three after the first that is too late, one is not.
        for well in 1..=AFTER {
            let flips = 20 + well * SCAN;
            assert_eq!(found(|steps| steps >= 20 && steps != flips).0, Limit::Erratic, "{well}");
        }
        let after = 20 + (AFTER + 1) * SCAN;
        assert_eq!(found(|steps| steps >= 20 && steps != after).0, Limit::After(0.19));
        // The same from the first on.
        assert_eq!(found(|steps| steps == 0).0, Limit::Erratic);
    }

    #[test]
    fn what_no_reaction_changes_has_no_critical_time() {
        assert_eq!(found(|_| true).0, Limit::Unavoidable);
        let (limit, tried) = found(|_| false);
        assert_eq!((limit, tried.last()), (Limit::Never, Some(&LONGEST)));
    }

    #[test]
    fn search_ends_with_the_first_error() {
        let mut tried = 0;
        let limit = search(&mut |steps| {
            tried += 1;
            if steps == 2 * SCAN { Err("no world") } else { Ok(false) }
        });
        assert_eq!((limit, tried), (Err("no world"), 3));
    }
}

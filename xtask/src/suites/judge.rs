//! Which cases differ from bare: runs are repeated until a difference is one or is none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Program;
use super::attempt::{Attempt, Outcome, Runner, TIME_LIMIT};
use super::mode::Mode;
use super::pool;

/// How often a program runs in a mode in which a case differed.
const TRIES: usize = 3;
/// So many programs run at once when what differed is tried again.
const JOBS_AGAIN: usize = 2;
/// What a case that is in no report came to.
const ABSENT: &str = "absent";
/// A run in a mode may take so many times as long as bare, and so much longer.
const LONGER: (u32, Duration) = (5, Duration::from_secs(20));

/// All runs of a program.
pub struct Judged {
    pub name: String,
    pub bare: Vec<Attempt>,
    pub modes: BTreeMap<Mode, Vec<Attempt>>,
    /// It did not end in time bare, and ran in no mode.
    pub endless: bool,
}

/// What a case came to in a mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// What it came to bare, each time.
    Equal,
    /// Something else, but not most of the times.
    Once(String),
    /// Something else than it ever came to bare, most of the times.
    Different(String),
}

/// A case, and what it came to in each mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    pub name: String,
    /// Of all runs. More than one: it is not the same each time.
    pub bare: BTreeSet<String>,
    pub modes: BTreeMap<Mode, Verdict>,
}

/// Runs all programs, in each mode.
pub fn judge(
    runner: &Runner,
    suite: &str,
    programs: &[Program],
    modes: &[Mode],
    jobs: usize,
) -> Vec<Judged> {
    eprintln!("==> {suite}: {} programs, bare twice and in {} modes", programs.len(), modes.len());
    let mut judged = pool::map(programs, jobs, |index, program| {
        if index % 100 == 99 {
            eprintln!("==> {suite}: {} of {}", index + 1, programs.len());
        }
        first(runner, program, modes)
    });
    let again: Vec<usize> = (0..judged.len()).filter(|index| judged[*index].is_open()).collect();
    eprintln!("==> {suite}: {} programs once more", again.len());
    let more = pool::map(&again, JOBS_AGAIN, |_, index| {
        repeat(runner, &programs[*index], &judged[*index])
    });
    for (index, (bare, modes)) in again.into_iter().zip(more) {
        judged[index].bare.push(bare);
        for (mode, attempts) in modes {
            judged[index].modes.entry(mode).or_default().extend(attempts);
        }
    }
    judged
}

/// Bare twice, and once in each mode.
fn first(runner: &Runner, program: &Program, modes: &[Mode]) -> Judged {
    let name = program.name.clone();
    let mut bare = vec![runner.run(program, None, program.limit)];
    if bare[0].outcome.get(&name).is_some_and(|end| end == TIME_LIMIT) {
        return Judged { name, bare, modes: BTreeMap::new(), endless: true };
    }
    let limit = limit(program, &bare);
    let run = |mode: &Mode| (*mode, vec![runner.run(program, Some(*mode), limit)]);
    let modes = modes.iter().map(run).collect();
    bare.push(runner.run(program, None, program.limit));
    Judged { name, bare, modes, endless: false }
}

/// Once more bare, and in each mode in which a case differed as often as [`TRIES`] says.
fn repeat(
    runner: &Runner,
    program: &Program,
    judged: &Judged,
) -> (Attempt, BTreeMap<Mode, Vec<Attempt>>) {
    let limit = limit(program, &judged.bare);
    let open = judged.modes.keys().filter(|mode| judged.is_open_in(**mode));
    let runs = |mode: &Mode| (1..TRIES).map(|_| runner.run(program, Some(*mode), limit)).collect();
    let modes = open.map(|mode| (*mode, runs(mode))).collect();
    (runner.run(program, None, program.limit), modes)
}

fn limit(program: &Program, bare: &[Attempt]) -> Duration {
    let longest = bare.iter().map(|attempt| attempt.took).max().unwrap_or_default();
    let (times, more) = LONGER;
    // `timeout` takes whole seconds here.
    Duration::from_secs((longest * times + more).as_secs()).min(program.limit + more)
}

impl Judged {
    fn is_open(&self) -> bool {
        self.modes.keys().any(|mode| self.is_open_in(*mode))
    }

    fn is_open_in(&self, mode: Mode) -> bool {
        self.cases().iter().any(|case| case.modes[&mode] != Verdict::Equal)
    }

    /// Each case with its verdicts.
    pub fn cases(&self) -> Vec<Case> {
        let attempts = self.bare.iter().chain(self.modes.values().flatten());
        let names: BTreeSet<&String> =
            attempts.flat_map(|attempt| attempt.outcome.keys()).collect();
        let of = |name: &str, attempts: &[Attempt]| {
            let outcomes = attempts.iter().map(|attempt| came_to(&attempt.outcome, name));
            outcomes.collect::<Vec<String>>()
        };
        let case = |name: &&String| {
            let bare: BTreeSet<String> = of(name, &self.bare).into_iter().collect();
            let verdict = |(mode, attempts): (&Mode, &Vec<Attempt>)| {
                (*mode, verdict(&bare, &of(name, attempts)))
            };
            let modes = self.modes.iter().map(verdict).collect();
            Case { name: (*name).clone(), bare, modes }
        };
        names.iter().map(case).collect()
    }
}

fn came_to(outcome: &Outcome, name: &str) -> String {
    outcome.get(name).map_or(ABSENT, String::as_str).to_owned()
}

/// What a mode's runs of a case are beside all of its bare ones.
fn verdict(bare: &BTreeSet<String>, here: &[String]) -> Verdict {
    let others: Vec<&String> = here.iter().filter(|end| !bare.contains(*end)).collect();
    let seen: BTreeSet<&str> = others.iter().map(|end| end.as_str()).collect();
    let seen = seen.into_iter().collect::<Vec<_>>().join(" or ");
    match others.len() {
        0 => Verdict::Equal,
        count if count * 2 > here.len() => Verdict::Different(seen),
        _ => Verdict::Once(seen),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn attempt(outcome: &[(&str, &str)]) -> Attempt {
        let outcome = outcome.iter().map(|(name, end)| ((*name).into(), (*end).into())).collect();
        Attempt { outcome, said: Vec::new(), output: String::new(), took: Duration::ZERO }
    }

    fn verdict_of(bare: &[&str], here: &[&str]) -> Verdict {
        let here: Vec<String> = here.iter().map(|end| (*end).into()).collect();
        verdict(&bare.iter().map(|end| (*end).into()).collect(), &here)
    }

    #[test]
    fn difference_is_what_most_runs_come_to_and_no_bare_one() {
        assert_eq!(verdict_of(&["exit 0"], &["exit 0"]), Verdict::Equal);
        let different = Verdict::Different("signal 6".into());
        assert_eq!(verdict_of(&["exit 0"], &["signal 6"]), different);
        assert_eq!(verdict_of(&["exit 0"], &["signal 6", "exit 0", "signal 6"]), different);
        let once = Verdict::Once("signal 6".into());
        assert_eq!(verdict_of(&["exit 0"], &["signal 6", "exit 0", "exit 0"]), once);
        let both = Verdict::Different("exit 1 or time limit".into());
        assert_eq!(verdict_of(&["exit 0"], &["time limit", "exit 1", "exit 0"]), both);
    }

    #[test]
    fn case_that_is_unsteady_bare_differs_only_where_bare_never_was() {
        assert_eq!(verdict_of(&["exit 0", "exit 1"], &["exit 1", "exit 0"]), Verdict::Equal);
        let different = Verdict::Different("time limit".into());
        assert_eq!(
            verdict_of(&["exit 0", "exit 1"], &["time limit", "exit 1", "time limit"]),
            different
        );
    }

    #[test]
    fn case_that_no_report_has_is_absent() {
        let judged = Judged {
            name: "p".into(),
            bare: vec![attempt(&[("p", "exit 0"), ("a", "ok")])],
            modes: [(Mode::Record, vec![attempt(&[("p", "exit 0"), ("b", "ok")])])].into(),
            endless: false,
        };
        let cases = judged.cases();
        let verdicts = cases.iter().map(|case| (&*case.name, &case.modes[&Mode::Record]));
        let a = Verdict::Different("absent".into());
        let b = Verdict::Different("ok".into());
        assert_eq!(verdicts.collect::<Vec<_>>(), [("a", &a), ("b", &b), ("p", &Verdict::Equal)]);
        assert!(judged.is_open());
    }
}

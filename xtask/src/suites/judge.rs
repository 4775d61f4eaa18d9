//! Cases that differ from bare: runs are repeated until a difference is one or is none.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::Program;
use super::attempt::{Attempt, Outcome, Runner, SAID, TIME_LIMIT};
use super::mode::Mode;
use crate::pool;

/// Number of runs of a program in a mode in which a case differed.
const TRIES: usize = 3;
/// Number of programs that run at once when what differed is tried again.
const JOBS_AGAIN: usize = 2;
/// Result of a case that is in no report.
const ABSENT: &str = "absent";
/// A run in a mode may take so many times as long as bare, and so much longer.
const LONGER: (u32, Duration) = (5, Duration::from_secs(20));

/// All runs of a program.
pub(super) struct Judged {
    pub name: String,
    pub bare: Vec<Attempt>,
    pub modes: BTreeMap<Mode, Vec<Attempt>>,
    /// Reason for which it ran in no mode.
    pub left_out: Option<&'static str>,
}

/// Result of a case in a mode, against bare.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// A result that it had bare, each time.
    Equal,
    /// Something else, but not most of the times.
    Once(String),
    /// Something else than it ever came to bare, most of the times.
    Different(String),
}

/// A case, and what it came to in each mode.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Case {
    pub name: String,
    /// Outcomes of all bare runs. More than one: it is not the same each time.
    pub bare: BTreeSet<String>,
    pub modes: BTreeMap<Mode, Verdict>,
}

/// Plan by which a suite is run.
pub(super) struct Plan<'a> {
    pub modes: &'a [Mode],
    /// Programs that run at once.
    pub jobs: usize,
    /// No further program is begun after that.
    pub until: Option<Instant>,
}

/// Runs all programs, in each mode.
pub(super) fn judge(
    runner: &Runner,
    suite: &str,
    programs: &[Program],
    plan: &Plan,
) -> Vec<Judged> {
    let Plan { modes, jobs, until } = *plan;
    eprintln!("==> {suite}: {} programs, bare twice and in {} modes", programs.len(), modes.len());
    let mut judged = pool::map(programs, jobs, |index, program| {
        if index % 100 == 99 {
            eprintln!("==> {suite}: {} of {}", index + 1, programs.len());
        }
        if until.is_some_and(|until| Instant::now() > until) {
            return Judged::left_out(program, "the time limit of the suite was reached");
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
        return Judged::left_out(program, "does not end within its time limit bare");
    }
    let limit = limit(program, &bare);
    let run = |mode: &Mode| (*mode, vec![runner.run(program, Some(*mode), limit)]);
    let modes = modes.iter().map(run).collect();
    bare.push(runner.run(program, None, program.limit));
    Judged { name, bare, modes, left_out: None }
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
    fn left_out(program: &Program, why: &'static str) -> Self {
        let (bare, modes) = (Vec::new(), BTreeMap::new());
        Self { name: program.name.clone(), bare, modes, left_out: Some(why) }
    }

    fn is_open(&self) -> bool {
        self.modes.keys().any(|mode| self.is_open_in(*mode))
    }

    fn is_open_in(&self, mode: Mode) -> bool {
        self.cases().iter().any(|case| case.modes[&mode] != Verdict::Equal)
            || self.other_output(mode).is_some()
    }

    /// A line that only the runs in a mode wrote, or only the bare ones, where those agree in all
    /// that they wrote but numbers and the order of lines, and no run in the mode wrote the same.
    pub(super) fn other_output(&self, mode: Mode) -> Option<String> {
        let shown = |attempts: &[Attempt]| {
            attempts.iter().map(|attempt| shown(&attempt.output)).collect::<BTreeSet<_>>()
        };
        let bare = shown(&self.bare);
        let [bare] = &*bare.into_iter().collect::<Vec<_>>() else { return None };
        let here = shown(self.modes.get(&mode)?);
        if here.contains(bare) {
            return None;
        }
        let others: BTreeSet<&String> = here.iter().flatten().collect();
        let more = others.iter().find(|line| !bare.contains(line));
        let fewer = || bare.iter().find(|line| !others.contains(line));
        let line = more.map(|line| format!("+{line}"));
        Some(line.or_else(|| fewer().map(|line| format!("-{line}"))).unwrap_or_else(|| "…".into()))
    }

    /// Each case with its verdicts.
    pub(super) fn cases(&self) -> Vec<Case> {
        let attempts = self.bare.iter().chain(self.modes.values().flatten());
        let names: BTreeSet<&String> =
            attempts.flat_map(|attempt| attempt.outcome.keys()).collect();
        let outcomes_of = |name: &str, attempts: &[Attempt]| {
            let outcomes = attempts.iter().map(|attempt| came_to(&attempt.outcome, name));
            outcomes.collect::<Vec<String>>()
        };
        let case = |name: &&String| {
            let bare: BTreeSet<String> = outcomes_of(name, &self.bare).into_iter().collect();
            let verdict = |(mode, attempts): (&Mode, &Vec<Attempt>)| {
                (*mode, verdict(&bare, &outcomes_of(name, attempts)))
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

/// The lines of an output in order of the alphabet, without `keeptime`'s and without numbers: of
/// threads, the order of their output is not determined, and addresses and process ids are not the
/// same.
fn shown(output: &str) -> Vec<String> {
    let lines = output.lines().map(|line| line.split(SAID).next().unwrap_or_default());
    let lines = lines.filter(|line| !line.is_empty());
    let mut lines: Vec<String> = lines.map(without_numbers).collect();
    lines.sort();
    lines
}

/// A line with `#` for each number, hexadecimal ones too.
fn without_numbers(line: &str) -> String {
    let mut left = String::new();
    let mut rest = line;
    while let Some(letter) = rest.chars().next() {
        let end = |number: fn(&char) -> bool, from: &str| {
            from.chars().take_while(number).map(char::len_utf8).sum::<usize>()
        };
        let hexadecimal = rest.strip_prefix("0x").map(|rest| end(char::is_ascii_hexdigit, rest));
        let length = match hexadecimal {
            Some(digits @ 1..) => digits + 2,
            _ => end(char::is_ascii_digit, rest),
        };
        if length > 0 {
            left.push('#');
            rest = &rest[length..];
        } else {
            left.push(letter);
            rest = &rest[letter.len_utf8()..];
        }
    }
    left
}

/// Returns the verdict on a mode's runs of a case, beside all of its bare ones.
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
pub(super) mod tests {
    use super::*;

    pub(crate) fn attempt(outcome: &[(&str, &str)]) -> Attempt {
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
    fn output_is_other_where_bare_runs_agree_and_no_run_in_the_mode_does() {
        let wrote = |output: &str| Attempt { output: output.into(), ..attempt(&[("p", "exit 0")]) };
        let other = |bare: [&str; 2], here: &[&str]| {
            let judged = Judged {
                name: "p".into(),
                bare: bare.map(wrote).into(),
                modes: [(Mode::Both, here.iter().map(|output| wrote(output)).collect())].into(),
                left_out: None,
            };
            judged.other_output(Mode::Both)
        };
        assert_eq!(other(["at 0x7fa1\npid 12", "pid 3\nat 0x1"], &["pid 4\nat 0xf"]), None);
        let said = "pid 9\nkeeptime run: guard fair: nothing was to be done";
        assert_eq!(other(["pid 12", "pid 12"], &[said]), None);
        assert_eq!(other(["a", "b"], &["c"]), None);
        assert_eq!(other(["a", "a"], &["b", "a"]), None);
        assert_eq!(other(["a", "a"], &["a\nERROR 5", "a\nERROR 6"]).as_deref(), Some("+ERROR #"));
        assert_eq!(other(["a\nb", "a\nb"], &["b"]).as_deref(), Some("-a"));
    }

    #[test]
    fn case_that_no_report_has_is_absent() {
        let judged = Judged {
            name: "p".into(),
            bare: vec![attempt(&[("p", "exit 0"), ("a", "ok")])],
            modes: [(Mode::Record, vec![attempt(&[("p", "exit 0"), ("b", "ok")])])].into(),
            left_out: None,
        };
        let cases = judged.cases();
        let verdicts = cases.iter().map(|case| (&*case.name, &case.modes[&Mode::Record]));
        let a = Verdict::Different("absent".into());
        let b = Verdict::Different("ok".into());
        assert_eq!(verdicts.collect::<Vec<_>>(), [("a", &a), ("b", &b), ("p", &Verdict::Equal)]);
        assert!(judged.is_open());
    }
}

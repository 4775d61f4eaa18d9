//! Lists of a suite: a table with what differs, and a list of all programs.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use anyhow::Context;

use super::judge::{Case, Judged, Verdict};
use super::mode::Mode;

/// A suite whose programs have run.
pub(super) struct List<'a> {
    pub suite: &'a str,
    pub version: &'a str,
    pub keeptime: &'a str,
    pub modes: &'a [Mode],
    pub programs: &'a [Judged],
    pub left_out: &'a [String],
    pub seconds: u64,
}

/// Numbers of cases in a mode, by verdict.
#[derive(Default)]
struct Count {
    equal: usize,
    once: usize,
    different: usize,
}

impl List<'_> {
    /// Writes `suites-SUITE.txt`, the table, and `suites-SUITE.csv`, a line for each program and
    /// for each case that was not equal.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for (end, text) in [("txt", self.table()), ("csv", self.csv())] {
            let file = folder.join(format!("suites-{}.{end}", self.suite));
            std::fs::write(&file, text).with_context(|| file.display().to_string())?;
        }
        Ok(())
    }

    /// Writes the output of each run in which a case or the output was not equal, a file for each
    /// program and mode.
    ///
    /// # Errors
    /// If a file cannot be written.
    pub(super) fn write_outputs(&self, folder: &Path) -> anyhow::Result<()> {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        for program in self.ran() {
            let cases = program.cases();
            for (mode, attempts) in &program.modes {
                let equal = cases.iter().all(|case| case.modes[mode] == Verdict::Equal);
                if equal && program.other_output(*mode).is_none() {
                    continue;
                }
                let name = format!("{}.{}", program.name.replace('/', "-"), mode.text());
                let outputs = attempts.iter().map(|attempt| {
                    let end = attempt.outcome.get(&program.name).map_or("", String::as_str);
                    format!(
                        "==== {end} after {:.1} s\n{}",
                        attempt.took.as_secs_f64(),
                        attempt.output
                    )
                });
                let file = folder.join(name);
                let text: String = outputs.collect();
                std::fs::write(&file, text).with_context(|| file.display().to_string())?;
            }
        }
        Ok(())
    }

    /// Returns the number of verdicts that say that a case differs.
    pub(super) fn different(&self) -> usize {
        self.counts().values().map(|count| count.different).sum()
    }

    fn ran(&self) -> impl Iterator<Item = &Judged> {
        self.programs.iter().filter(|program| program.left_out.is_none())
    }

    fn counts(&self) -> BTreeMap<Mode, Count> {
        let mut counts: BTreeMap<Mode, Count> =
            self.modes.iter().map(|mode| (*mode, Count::default())).collect();
        for case in self.ran().flat_map(Judged::cases) {
            for (mode, verdict) in case.modes {
                let count = counts.entry(mode).or_default();
                match verdict {
                    Verdict::Equal => count.equal += 1,
                    Verdict::Once(_) => count.once += 1,
                    Verdict::Different(_) => count.different += 1,
                }
            }
        }
        counts
    }

    /// The table, and below it all that was not equal.
    pub(super) fn table(&self) -> String {
        let mut text = format!("suite     {} ({})\n", self.suite, self.version);
        let cases: usize = self.ran().map(|program| program.cases().len()).sum();
        let unsteady =
            self.ran().flat_map(Judged::cases).filter(|case| case.bare.len() > 1).count();
        let mut ends: BTreeMap<String, usize> = BTreeMap::new();
        for program in self.ran() {
            let case = program.cases().into_iter().find(|case| case.name == program.name);
            *ends.entry(case.as_ref().map(bare).unwrap_or_default()).or_default() += 1;
        }
        let ends = ends.iter().map(|(end, number)| format!("{end}: {number}"));
        let lines = [
            ("keeptime", self.keeptime.to_owned()),
            ("ran", format!("{} programs, {cases} cases, {} s", self.ran().count(), self.seconds)),
            ("bare", ends.collect::<Vec<_>>().join(", ")),
            ("unsteady", format!("{unsteady} cases whose bare outcome differs from run to run")),
        ];
        for (word, what) in lines {
            let _ = writeln!(text, "{word:<9} {what}");
        }
        let _ = writeln!(text, "\nmode            equal  different  differed once");
        for (mode, Count { equal, once, different }) in self.counts() {
            let _ = writeln!(text, "{:<14} {equal:>6} {different:>10} {once:>14}", mode.text());
        }
        text += &self.differences();
        text += &self.guard();
        text += &self.rest();
        text
    }

    /// Cases that differ, and what the guard said of their programs.
    fn differences(&self) -> String {
        let mut text = String::new();
        for program in self.ran() {
            for case in program.cases() {
                for (mode, verdict) in &case.modes {
                    let (word, here) = match verdict {
                        Verdict::Equal => continue,
                        Verdict::Once(here) => ("once", here),
                        Verdict::Different(here) => ("different", here),
                    };
                    let bare = bare(&case);
                    let name = full_name(program, &case);
                    let _ =
                        write!(text, "{word:<9} {:<12} {name}: {here}; bare {bare}", mode.text());
                    let last = program.modes[mode].last();
                    let said = last.and_then(|attempt| attempt.said.last());
                    let _ = match said.filter(|said| said.starts_with("guard")) {
                        Some(said) => writeln!(text, "; {said}"),
                        None => writeln!(text),
                    };
                }
            }
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    /// Returns the numbers of what was recorded, guarded and left alone, over the first run of each
    /// program.
    fn guard(&self) -> String {
        let mut text = String::new();
        for mode in self.modes {
            let first = |program: &'_ Judged| program.modes.get(mode)?.first().cloned();
            let said: Vec<Vec<String>> =
                self.ran().filter_map(first).map(|attempt| attempt.said).collect();
            let sums = sums(&said);
            if sums.is_empty() {
                continue;
            }
            let _ = writeln!(text, "\n{}, in all programs:", mode.text());
            for (what, Sum { number, programs }) in sums {
                let _ = writeln!(text, "  {number:>12} {what} (in {programs} programs)");
            }
        }
        text
    }

    /// Other outputs, unsteady ones, and what did not become a program.
    fn rest(&self) -> String {
        let mut text = String::new();
        for program in self.ran() {
            for (mode, line) in self.other_outputs(program) {
                let _ = writeln!(text, "output    {:<12} {}: {line}", mode.text(), program.name);
            }
            for case in program.cases().iter().filter(|case| case.bare.len() > 1) {
                let _ = writeln!(text, "unsteady  {}: {}", full_name(program, case), bare(case));
            }
        }
        for program in self.programs {
            if let Some(why) = program.left_out {
                let _ = writeln!(text, "left out  {}: {why}", program.name);
            }
        }
        for left in self.left_out {
            let _ = writeln!(text, "left out  {left}");
        }
        if text.is_empty() { text } else { format!("\n{text}") }
    }

    /// Returns the other outputs of a program in the modes in which all its cases are equal.
    fn other_outputs(&self, program: &Judged) -> Vec<(Mode, String)> {
        let cases = program.cases();
        let equal = |mode: &Mode| cases.iter().all(|case| case.modes[mode] == Verdict::Equal);
        let modes = self.modes.iter().filter(|mode| equal(mode));
        modes.filter_map(|mode| Some((*mode, program.other_output(*mode)?))).collect()
    }

    /// A line for each program, with how many of its cases are equal in each mode, and for each
    /// case that was not equal in some mode.
    pub(super) fn csv(&self) -> String {
        let modes: Vec<&str> = self.modes.iter().map(|mode| mode.text()).collect();
        let mut text = format!("program,case,bare,{}\n", modes.join(","));
        for program in self.ran() {
            let cases = program.cases();
            let equal = |mode: &Mode| {
                let equal = cases.iter().filter(|case| case.modes[mode] == Verdict::Equal).count();
                format!("{equal} of {} equal", cases.len())
            };
            let end = cases.iter().find(|case| case.name == program.name).map(bare);
            let row = [program.name.clone(), String::new(), end.unwrap_or_default()];
            line(&mut text, row.into_iter().chain(self.modes.iter().map(equal)));
            for case in cases.iter().filter(|case| !is_equal(case)) {
                let here = |mode: &Mode| match &case.modes[mode] {
                    Verdict::Equal => "equal".to_owned(),
                    Verdict::Once(here) => format!("once {here}"),
                    Verdict::Different(here) => format!("different {here}"),
                };
                let row = [program.name.clone(), case.name.clone(), bare(case)];
                line(&mut text, row.into_iter().chain(self.modes.iter().map(here)));
            }
        }
        text
    }
}

fn is_equal(case: &Case) -> bool {
    case.modes.values().all(|verdict| *verdict == Verdict::Equal)
}

fn bare(case: &Case) -> String {
    case.bare.iter().cloned().collect::<Vec<_>>().join(" or ")
}

fn full_name(program: &Judged, case: &Case) -> String {
    if case.name == program.name {
        return program.name.clone();
    }
    format!("{} {}", program.name, case.name)
}

fn line(text: &mut String, fields: impl Iterator<Item = String>) {
    let quoted = |field: String| match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field,
    };
    let fields: Vec<String> = fields.map(quoted).collect();
    *text += &fields.join(",");
    text.push('\n');
}

/// A number that `keeptime run` says of each program.
#[derive(Default, PartialEq, Eq, Debug)]
struct Sum {
    number: u64,
    programs: usize,
}

/// The numbers in what `keeptime run` said of each program, by what they count: `2 robust mutexes`
/// and the like, behind `left alone: ` where it says so. And programs that did not load the library,
/// or of which nothing was said.
fn sums(said: &[Vec<String>]) -> BTreeMap<String, Sum> {
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    let mut add = |what: String, number| {
        let sum = sums.entry(what).or_default();
        *sum = Sum { number: sum.number + number, programs: sum.programs + 1 };
    };
    for lines in said {
        if lines.is_empty() {
            add("programs without a message of keeptime at their end".into(), 1);
        }
        if lines.iter().any(|line| line.contains("did not load the library")) {
            add("programs did not load the library".into(), 1);
            continue;
        }
        for (what, number) in lines.iter().flat_map(|line| numbers(line)) {
            add(what, number);
        }
    }
    sums
}

/// Returns the counts in a line of `keeptime run`, with their names.
fn numbers(line: &str) -> Vec<(String, u64)> {
    let mut numbers = Vec::new();
    for (part, prefix) in line.split("; left alone, by uses: ").zip(["", "left alone: "]) {
        // A file or the guard's mode stands before the numbers.
        let counts = part.split_once(": ").filter(|_| prefix.is_empty());
        for count in counts.map_or(part, |(_, counts)| counts).split([',', ';']) {
            let Some((number, what)) = count.trim().split_once(' ') else { continue };
            if let Ok(number @ 1..) = number.parse() {
                numbers.push((format!("{prefix}{what}"), number));
            }
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::super::judge::tests::attempt;
    use super::*;

    #[test]
    fn numbers_are_added_up_by_what_they_count() {
        let said = [
            "/tmp/t.kt: 12 records, 0 lost, tier switches; no wake-ups: run as root",
            "/tmp/t.kt: 30 records, 2 lost, tier switches",
            "guard fair: 3 hand-overs; left alone, by uses: 2 robust mutexes, 1 mutexes in use",
            "guard fair: nothing was to be done; left alone, by uses: 5 robust mutexes",
        ]
        .map(|line| vec![line.to_owned()]);
        let unloaded = [
            "/tmp/t.kt: 0 records, 0 lost; the program did not load the library",
            "guard fair: the program did not load the library, so nothing was guarded",
        ];
        let unloaded = unloaded.map(str::to_owned).to_vec();
        let sums = sums(&[&said[..], &[unloaded, Vec::new()]].concat());
        let sums: Vec<_> = sums.iter().map(|(what, s)| (&**what, s.number, s.programs)).collect();
        let expected = [
            ("hand-overs", 3, 1),
            ("left alone: mutexes in use", 1, 1),
            ("left alone: robust mutexes", 7, 2),
            ("lost", 2, 1),
            ("programs did not load the library", 1, 1),
            ("programs without a message of keeptime at their end", 1, 1),
            ("records", 42, 2),
        ];
        assert_eq!(sums, expected);
    }

    #[test]
    fn table_and_list_name_what_differs_and_what_is_unsteady() {
        let mut hung = attempt(&[("hangs, sometimes", "time limit")]);
        hung.said.push("guard inherit: nothing was to be done".into());
        let programs = [
            Judged {
                name: "hangs, sometimes".into(),
                bare: vec![attempt(&[("hangs, sometimes", "exit 0")]); 3],
                modes: [(Mode::Inherit, vec![hung; 3])].into(),
                left_out: None,
            },
            Judged {
                name: "wavers".into(),
                bare: vec![attempt(&[("wavers", "exit 0")]), attempt(&[("wavers", "exit 1")])],
                modes: [(Mode::Inherit, vec![attempt(&[("wavers", "exit 1")])])].into(),
                left_out: None,
            },
        ];
        let list = List {
            suite: "s",
            version: "1",
            keeptime: "keeptime 0",
            modes: &[Mode::Inherit],
            programs: &programs,
            left_out: &["x: does not compile".into()],
            seconds: 7,
        };
        assert_eq!(list.different(), 1);
        let table = list.table();
        let expected = [
            "ran       2 programs, 2 cases, 7 s",
            "bare      exit 0: 1, exit 0 or exit 1: 1",
            "inherit             1          1              0",
            "different inherit      hangs, sometimes: time limit; bare exit 0; \
             guard inherit: nothing was to be done",
            "unsteady  wavers: exit 0 or exit 1",
            "left out  x: does not compile",
        ];
        for line in expected {
            assert!(table.lines().any(|other| other == line), "{line}\nin\n{table}");
        }
        let csv = "program,case,bare,inherit\n\
                   \"hangs, sometimes\",,exit 0,0 of 1 equal\n\
                   \"hangs, sometimes\",\"hangs, sometimes\",exit 0,different time limit\n\
                   wavers,,exit 0 or exit 1,1 of 1 equal\n";
        assert_eq!(list.csv(), csv);
    }
}

//! Tests that fail once: a target that fails is run once more by itself, and what passed then is
//! said at the very end.
//!
//! Cargo ends with the list of the targets that failed, and libtest says which tests they were.
//! Both are read from the output, which anybody's test may have written into: what is not exactly
//! cargo's list fails as if there were no second run.

use std::fmt;

use anyhow::{Context, bail};

use crate::step::Step;

/// So many targets may fail the first time. More are no coincidence.
const MOST_TARGETS: usize = 3;
/// So much of what a test said is repeated.
const MOST_CHARACTERS: usize = 400;
/// Cargo's exit status where tests failed, and also where something did not compile.
const CARGO_FAILED: i32 = 101;

/// Failures of the first time that passed by themselves.
#[derive(Default)]
pub struct Notes(Vec<Failed>);

/// A target that failed.
#[derive(Debug, PartialEq)]
struct Failed {
    /// Arguments that have it run alone, as cargo says them.
    target: String,
    tests: Vec<Test>,
    /// End of the program, if it did not end by itself.
    end: Option<String>,
}

/// A test that failed, and the first that it said.
#[derive(Debug, PartialEq)]
struct Test {
    name: String,
    message: String,
}

impl Notes {
    /// Runs `cargo test --no-fail-fast` with the arguments that say which packages, then each
    /// target that failed.
    ///
    /// # Errors
    /// If something did not compile, more than [`MOST_TARGETS`] targets failed, or one of them
    /// failed again.
    pub fn cargo(&mut self, packages: &str, step: impl Fn(&str) -> Step) -> anyhow::Result<()> {
        let step = |targets: &str| step(targets).env("CARGO_TERM_COLOR", "never");
        let first = step(&format!("{packages} --no-fail-fast")).watch()?;
        let Err(error) = first.succeeded() else { return Ok(()) };
        if first.status.code() != Some(CARGO_FAILED) {
            return Err(error);
        }
        let Some(failed) = failed_targets(&first.output) else { return Err(error) };
        if failed.len() > MOST_TARGETS {
            return Err(error.context(format!("{} targets failed", failed.len())));
        }
        let mut broken = Vec::new();
        for failed in failed {
            match step(&failed.target).run() {
                Ok(()) => self.0.push(failed),
                Err(_) => broken.push(format!("\n{failed}")),
            }
        }
        if broken.is_empty() {
            Ok(())
        } else {
            bail!("failed again by itself; the first time:{}", broken.concat())
        }
    }

    /// Runs the late launches' checks, a second time if the first one failed.
    ///
    /// # Errors
    /// If the second one failed, too.
    pub fn checks(&mut self, step: impl Fn() -> Step) -> anyhow::Result<()> {
        let first = step().watch()?;
        let Err(error) = first.succeeded() else { return Ok(()) };
        step().run().context("failed again")?;
        let tests = failed_checks(&first.output);
        self.0.push(Failed { target: "make check".into(), tests, end: Some(error.to_string()) });
        Ok(())
    }
}

impl fmt::Display for Notes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.0.is_empty() {
            return Ok(());
        }
        writeln!(f, "==> FAILED the first time and passed by itself; each needs a look:")?;
        self.0.iter().try_for_each(|failed| writeln!(f, "{failed}"))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "  {}", self.target)?;
        for Test { name, message } in &self.tests {
            write!(f, "\n    {name}: {message}")?;
        }
        match &self.end {
            Some(end) => write!(f, "\n    {end}"),
            None if self.tests.is_empty() => write!(f, "\n    no test said that it failed"),
            None => Ok(()),
        }
    }
}

/// The targets that failed, from the list that ends cargo's output. None if it does not end with
/// one, or if the list is not in all of its parts what cargo writes.
fn failed_targets(output: &str) -> Option<Vec<Failed>> {
    let lines: Vec<&str> = output.trim_end().lines().collect();
    let listed = |line: &&&str| line.strip_prefix("    `").is_some_and(|line| line.ends_with('`'));
    let count = lines.iter().rev().take_while(listed).count();
    let (before, list) = lines.split_at(lines.len() - count);
    let (head, before) = before.split_last()?;
    let plural = if count == 1 { "" } else { "s" };
    if count == 0 || !head.ends_with(&format!("error: {count} target{plural} failed:")) {
        return None;
    }
    list.iter()
        .map(|line| {
            let target = line.trim().trim_matches('`');
            if is_target(target) { failed_target(target, before) } else { None }
        })
        .collect()
}

/// Returns true if these are arguments that select one target of one package.
fn is_target(arguments: &str) -> bool {
    let plain = |word: &str| !word.is_empty() && !word.starts_with('-');
    match arguments.split(' ').collect::<Vec<_>>()[..] {
        ["-p", package, "--lib" | "--doc"] => plain(package),
        ["-p", package, "--test" | "--bin" | "--bench" | "--example", name] => {
            plain(package) && plain(name)
        }
        _ => false,
    }
}

/// Returns the failure of a target by the output. None if cargo did not say there that it failed.
fn failed_target(target: &str, lines: &[&str]) -> Option<Failed> {
    let ends = [
        format!("error: test failed, to rerun pass `{target}`"),
        format!("error: doctest failed, to rerun pass `{target}`"),
    ];
    // Something may have written to the same line before.
    let end = lines.iter().rposition(|line| ends.iter().any(|end| line.ends_with(end)))?;
    let starts =
        |line: &&str| line.starts_with("     Running ") || line.starts_with("   Doc-tests ");
    let start = lines[..end].iter().rposition(starts).map_or(0, |start| start + 1);
    let caused = lines[end + 1..].starts_with(&["", "Caused by:"]);
    let cause = lines.get(end + 3).filter(|_| caused);
    let tests = failed_tests(&lines[start..end]);
    Some(Failed { target: target.into(), tests, end: cause.map(|line| line.trim().into()) })
}

/// The tests that libtest says have failed. What they wrote stands after the first `failures:`,
/// and their names once more after the last one.
fn failed_tests(lines: &[&str]) -> Vec<Test> {
    let heads = |line: &&str| *line == "failures:";
    let first = lines.iter().position(heads).unwrap_or(lines.len());
    let last = lines.iter().rposition(heads).unwrap_or(lines.len());
    let said = lines[..first].iter().filter_map(|line| {
        let name = line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?;
        Some(name.strip_suffix(" - should panic").unwrap_or(name))
    });
    let listed = lines[last..].iter().skip(1).map_while(|line| line.strip_prefix("    "));
    let mut names: Vec<&str> = Vec::new();
    for name in said.chain(listed) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let wrote = &lines[first..last];
    names
        .into_iter()
        .map(|name| Test { name: name.into(), message: message(name, wrote) })
        .collect()
}

/// The first panic of a test, or else the first line that it wrote.
fn message(name: &str, wrote: &[&str]) -> String {
    let head = format!("---- {name} stdout ----");
    let Some(start) = wrote.iter().position(|line| *line == head) else { return String::new() };
    let is_head = |line: &&&str| line.starts_with("---- ") && line.ends_with(" stdout ----");
    let own: Vec<&str> =
        wrote[start + 1..].iter().take_while(|line| !is_head(line)).copied().collect();
    let panic = own.iter().position(|line| line.contains(" panicked at "));
    let shown = match panic {
        Some(at) => &own[at..own.len().min(at + 2)],
        None => own.iter().position(|line| !line.is_empty()).map_or(&[][..], |at| &own[at..=at]),
    };
    shown.join(" ").chars().take(MOST_CHARACTERS).collect()
}

/// The checks that `tests/check.sh` says have failed, with the first line that each wrote.
fn failed_checks(output: &str) -> Vec<Test> {
    let lines: Vec<&str> = output.lines().collect();
    let failed = |at: usize| {
        let name = lines[at].strip_prefix("FAILED ")?.into();
        let wrote = lines.get(at + 1).and_then(|line| line.strip_prefix("       "));
        Some(Test { name, message: wrote.unwrap_or_default().into() })
    };
    (0..lines.len()).filter_map(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo 1.95's output, shortened: a test that wrote what libtest and cargo write, a program
    /// that aborted, one that took too long, and a failed example in a documentation.
    const OUTPUT: &str = "   Compiling a v0.1.0 (/src/a)
     Running unittests src/lib.rs (target/debug/deps/a-3110576fc3c3c96d)

running 5 tests
test t::fine ... ok
test t::r ... FAILED
test t::p - should panic ... FAILED
test t::print ... FAILED

failures:

---- t::r stdout ----
Error: \"no\"

---- t::p stdout ----

thread 't::p' (28249) panicked at a/src/lib.rs:5:129:
o
note: panic did not contain expected string
---- t::print stdout ----
test t::x ... FAILED
failures:
    t::y
error: test failed, to rerun pass `-p z --lib`
error: 1 target failed:
    `-p z --lib`

thread 't::print' (28250) panicked at a/src/lib.rs:6:112:
printed
stack backtrace:
   0: __rustc::rust_begin_unwind

failures:
    t::p
    t::print
    t::r

test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.16s

error: test failed, to rerun pass `-p a --lib`
     Running tests/ab.rs (target/debug/deps/ab-5e30f236c3d5b473)

running 2 tests
error: test failed, to rerun pass `-p a --test ab`

Caused by:
  process didn't exit successfully: `timeout 3 ab-5e30f236c3d5b473` (signal: 6, SIGABRT)
     Running tests/slow.rs (target/debug/deps/slow-38f8a2cdb23c2041)

running 2 tests
test fine ... test bad ... written by another process, without an end of line\
error: test failed, to rerun pass `-p a --test slow`

Caused by:
  process didn't exit successfully: `timeout 3 slow-38f8a2cdb23c2041` (exit status: 124)
note: test exited abnormally; to see the full output pass --no-capture to the harness.
   Doc-tests a

running 1 test
test a/src/lib.rs - x (line 1) ... FAILED

failures:

---- a/src/lib.rs - x (line 1) stdout ----

thread 'a/src/lib.rs - x (line 1)' (28500) panicked at doctest_bundle_2024.rs:6:1:
assertion failed: false


failures:
    a/src/lib.rs - x (line 1)

test result: FAILED. 0 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.09s

error: doctest failed, to rerun pass `-p a --doc`
error: 4 targets failed:
    `-p a --lib`
    `-p a --test ab`
    `-p a --test slow`
    `-p a --doc`
";

    fn failed(target: &str, tests: &[(&str, &str)], end: Option<&str>) -> Failed {
        let test = |(name, message): &(&str, &str)| Test {
            name: (*name).into(),
            message: (*message).into(),
        };
        let tests = tests.iter().map(test).collect();
        Failed { target: target.into(), tests, end: end.map(Into::into) }
    }

    #[test]
    fn each_failed_target_is_found_with_its_tests_and_what_they_said() {
        let slow = "process didn't exit successfully: `timeout 3 slow-38f8a2cdb23c2041` \
                    (exit status: 124)";
        let aborted = "process didn't exit successfully: `timeout 3 ab-5e30f236c3d5b473` \
                       (signal: 6, SIGABRT)";
        let library = [
            ("t::r", "Error: \"no\""),
            ("t::p", "thread 't::p' (28249) panicked at a/src/lib.rs:5:129: o"),
            ("t::print", "thread 't::print' (28250) panicked at a/src/lib.rs:6:112: printed"),
        ];
        let example = [(
            "a/src/lib.rs - x (line 1)",
            "thread 'a/src/lib.rs - x (line 1)' (28500) panicked at doctest_bundle_2024.rs:6:1: \
             assertion failed: false",
        )];
        assert_eq!(
            failed_targets(OUTPUT),
            Some(vec![
                failed("-p a --lib", &library, None),
                failed("-p a --test ab", &[], Some(aborted)),
                failed("-p a --test slow", &[], Some(slow)),
                failed("-p a --doc", &example, None),
            ])
        );
    }

    #[test]
    fn a_name_that_was_torn_by_other_output_is_taken_from_the_list_at_the_end() {
        let output = "running 1 test
test torn ... a process wrote this
FAILED

failures:

---- torn stdout ----
it wrote this

failures:
    torn

test result: FAILED. 0 passed; 1 failed

error: test failed, to rerun pass `-p a --bin b`
error: 1 target failed:
    `-p a --bin b`
";
        assert_eq!(
            failed_targets(output),
            Some(vec![failed("-p a --bin b", &[("torn", "it wrote this")], None)])
        );
    }

    #[test]
    fn what_is_not_exactly_cargos_list_is_no_list() {
        let said = "error: test failed, to rerun pass `-p a --lib`\n";
        let list = "error: 1 target failed:\n    `-p a --lib`\n";
        assert!(failed_targets(&format!("{said}{list}")).is_some());
        for output in [
            // Nothing failed in a test: this did not compile.
            "error: could not compile `a` (lib test) due to 1 previous error\n".into(),
            String::new(),
            "\n\n".into(),
            "error: 0 targets failed:\n".into(),
            // A test wrote a list; cargo did not come to its own.
            format!("{said}{list}error: could not compile `a`\n"),
            format!("{said}{list}test b ... ok\n"),
            // Cargo did not say before that it failed.
            list.into(),
            format!("{said}error: 1 target failed:\n    `-p b --lib`\n"),
            // The count is another one.
            format!("{said}error: 2 targets failed:\n    `-p a --lib`\n"),
            format!("{said}    `-p a --lib`\n{list}    `-p a --lib`\n"),
        ] {
            assert_eq!(failed_targets(&output), None, "{output}");
        }
    }

    #[test]
    fn only_arguments_that_select_one_target_are_passed_to_cargo() {
        for target in ["-p a --lib", "-p a --doc", "-p a --test t", "-p a@0.1.0 --bin b"] {
            assert!(is_target(target), "{target}");
        }
        for target in [
            "",
            "--lib",
            "-p a",
            "-p a --test",
            "-p  --lib",
            "-p a --test --no-run",
            "-p a --lib --no-run",
            "-p --workspace --lib",
            "-p a --lib; true",
        ] {
            assert!(!is_target(target), "{target}");
            let output = format!(
                "error: test failed, to rerun pass `{target}`\nerror: 1 target failed:\n    \
                 `{target}`\n"
            );
            assert_eq!(failed_targets(&output), None, "{output}");
        }
    }

    #[test]
    fn failed_checks_are_named_with_the_first_line_that_they_wrote() {
        let output = "ok     one
FAILED algorithm2 counts agree
       launches: 3, expected 4
       more
FAILED nothing to say
ok     FAILED is only a word here
2 passed, 2 failed
make: *** [Makefile:85: check] Error 1
";
        let tests =
            [("algorithm2 counts agree", "launches: 3, expected 4"), ("nothing to say", "")];
        assert_eq!(failed_checks(output), failed("", &tests, None).tests);
    }

    #[test]
    fn checks_that_pass_the_second_time_are_said_and_others_fail() {
        let run = |second: &str| {
            let runs = std::cell::Cell::new(0);
            let mut notes = Notes::default();
            let answer = notes.checks(|| {
                runs.set(runs.get() + 1);
                shell(if runs.get() == 1 { "echo FAILED once; exit 2" } else { second }, "")
            });
            (answer.is_ok(), runs.get(), notes.to_string())
        };
        let (passed, runs, said) = run("exit 0");
        assert!(passed && runs == 2 && said.contains("make check\n    once"), "{said}");
        assert_eq!(run("exit 2"), (false, 2, String::new()));
    }

    /// A shell that runs `script`, in place of cargo or make.
    fn shell(script: &str, argument: &str) -> Step {
        Step::program("sh").args(["-c", script, argument])
    }

    /// Cargo's part: fails the first time, and with `--lib` if `again` says so.
    fn cargo(again: &str) -> anyhow::Result<Notes> {
        let script = format!(
            "case $0 in *--lib) {again};; esac; echo 'error: test failed, to rerun pass `-p a \
             --lib`'; echo 'error: 1 target failed:' >&2; echo '    `-p a --lib`'; exit 101"
        );
        let mut notes = Notes::default();
        notes.cargo("--workspace", |targets| shell(&script, targets)).map(|()| notes)
    }

    #[test]
    fn a_target_that_passes_by_itself_is_said_and_one_that_does_not_fails() {
        let notes = cargo("exit 0").expect("it passed by itself");
        let said = notes.to_string();
        assert!(said.contains("FAILED the first time") && said.contains("-p a --lib"), "{said}");
        let error = cargo("exit 101").map(|_| ()).expect_err("it failed twice").to_string();
        assert!(error.contains("failed again") && error.contains("-p a --lib"), "{error}");
        assert!(Notes::default().to_string().is_empty());
    }

    #[test]
    fn more_than_three_targets_and_other_ends_are_not_run_again() {
        let run = |targets: usize, status: i32| {
            let names: Vec<_> = (0..targets).map(|at| format!("-p a --test t{at}")).collect();
            let said = names
                .iter()
                .map(|name| format!("error: test failed, to rerun pass `{name}`\n"))
                .collect::<String>();
            let list = names.iter().map(|name| format!("    `{name}`\n")).collect::<String>();
            let plural = if targets == 1 { "" } else { "s" };
            let script = format!(
                "case $0 in -p*) exit 0;; esac; cat <<'END'\n{said}error: {targets} \
                 target{plural} failed:\n{list}END\nexit {status}"
            );
            let mut notes = Notes::default();
            notes.cargo("--workspace", |targets| shell(&script, targets)).map(|()| notes.0.len())
        };
        assert_eq!(run(1, 101).ok(), Some(1));
        assert_eq!(run(MOST_TARGETS, 101).ok(), Some(MOST_TARGETS));
        assert!(run(MOST_TARGETS + 1, 101).is_err());
        assert!(run(1, 137).is_err());
    }
}

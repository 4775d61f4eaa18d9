//! Test programs, several at a time: many of them wait more than they compute.
//!
//! Cargo runs one program after the other. That leaves two cores idle for more than half of the
//! time, and a program that waits for a child or a deadline delays all others. Here as many programs
//! run at once as there are processors; those of the laboratory, which time chains and graphs, run
//! alone. Each runs once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Instant;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::pool;
use crate::step::Step;

/// A test that waits for ever fails by itself, with its name in the output, before a CI service gives
/// up the whole run. No program of tests needs half of this on two slow cores.
const TIME_LIMIT: [&str; 3] = ["timeout", "--kill-after=10", "1200"];

/// Programs that take longest. They begin first, so that none of them runs alone at the end.
const LONGEST: [&str; 6] = ["pages", "rwlock_loom", "loom", "graph", "ros_hosts", "mutex_loom"];

/// A program made of tests.
pub(crate) struct Program {
    path: PathBuf,
    /// Folder of its package, in which it runs.
    folder: PathBuf,
    /// Name of the target, such as a file of tests/.
    target: String,
}

/// Builds test programs by a `cargo test --no-run`, and returns them in cargo's order.
///
/// # Errors
/// If the build fails.
pub(crate) fn build(step: Step) -> anyhow::Result<Vec<Program>> {
    let messages = step.args(["--no-run", "--message-format", "json-render-diagnostics"]).said()?;
    let messages = messages.lines().filter_map(|line| serde_json::from_str(line).ok());
    Ok(messages.filter_map(|message: Value| program(&message)).collect())
}

/// The program that a message of cargo tells of, if it tells of one made of tests.
fn program(message: &Value) -> Option<Program> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if message["profile"]["test"] != true {
        return None;
    }
    Some(Program {
        path: text(&message["executable"])?.into(),
        folder: Path::new(message["manifest_path"].as_str()?).parent()?.to_owned(),
        target: text(&message["target"]["name"])?,
    })
}

/// Runs all programs although some fail, and prints the output of each when it has ended.
///
/// # Errors
/// If one failed; the error names all that did.
pub(crate) fn run(mut programs: Vec<Program>, variables: &[(&str, PathBuf)]) -> anyhow::Result<()> {
    programs.sort_by_key(|program| {
        LONGEST.iter().position(|name| *name == program.target).unwrap_or(LONGEST.len())
    });
    let (alone, together): (Vec<Program>, Vec<Program>) =
        programs.into_iter().partition(Program::is_timed);
    let at_once = std::thread::available_parallelism().map_or(2, usize::from);
    eprintln!("==> {} test programs, {at_once} at once, {} alone", together.len(), alone.len());
    let folder = crate::target().join("tests");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let run = |name: &str, programs: &[Program], at_once| {
        pool::map(programs, at_once, |number, program| {
            program.run(&folder.join(format!("{name}-{number}.txt")), variables).err()
        })
    };
    let mut failures = run("together", &together, at_once);
    failures.extend(run("alone", &alone, 1));
    let failures: Vec<String> =
        failures.into_iter().flatten().map(|error| format!("{error:#}")).collect();
    if !failures.is_empty() {
        bail!("{} test programs failed:\n{}", failures.len(), failures.join("\n"));
    }
    Ok(())
}

impl Program {
    /// Returns true if it times what other programs would delay.
    fn is_timed(&self) -> bool {
        self.folder.ends_with("lab/lab") && self.target != "pages"
    }

    /// Runs the program with its output in a file, which is printed in one piece.
    fn run(&self, output: &Path, variables: &[(&str, PathBuf)]) -> anyhow::Result<()> {
        let start = Instant::now();
        let status = self.status(output, variables).with_context(|| self.shown())?;
        let seconds = start.elapsed().as_secs_f64();
        let text = String::from_utf8_lossy(&fs::read(output)?).into_owned();
        eprintln!("==> {} ({seconds:.1} s)\n{}", self.shown(), text.trim_end());
        if status.success() { Ok(()) } else { bail!("{} ended with {status}", self.shown()) }
    }

    fn status(&self, output: &Path, variables: &[(&str, PathBuf)]) -> anyhow::Result<ExitStatus> {
        let output = File::create(output)?;
        let [program, arguments @ ..] = TIME_LIMIT;
        let mut command = Command::new(program);
        command.args(arguments).arg(&self.path).current_dir(&self.folder);
        command.envs(variables.iter().map(|(name, value)| (name, value)));
        command.stdout(output.try_clone()?).stderr(output);
        Ok(command.status()?)
    }

    /// Its name, and the command that runs it by hand.
    fn shown(&self) -> String {
        let folder = self.folder.strip_prefix(crate::root()).unwrap_or(&self.folder);
        format!("{} of {}: {}", self.target, folder.display(), self.path.display())
    }
}

//! Run of a test program, and its outcome.
//!
//! As root, each run is the only one in its process ids, mounts, network, message queues and
//! shared memory, so that tests that use the same names or ports do not meet, nothing that a run
//! leaves outlives it, and a signal to all processes reaches no other run. Nor can it set the
//! clock.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::mode::Mode;
use super::{Cases, Program};
use crate::debian;

/// The argument that becomes the file for a report.
pub(super) const REPORT: &str = "{report}";
/// Result of a case that did not end in time.
pub(super) const TIME_LIMIT: &str = "time limit";
/// Status with which `timeout` says that it killed.
const KILLED: i32 = 128 + 9;
/// Number of bytes of the end of an output that are looked at.
const KEPT_BYTES: u64 = 64 << 10;

/// Start of each line of `keeptime run`.
pub(super) const SAID: &str = "keeptime run: ";

/// Script before the program of a run: it makes the run's folder for temporary files and its shared
/// memory, and keeps there what lies in the ordinary `/tmp` of the trees that the run needs. No
/// other run sees what this one writes into the folder that it runs in.
const ISOLATE: &str = r#"set -e
private=$1 kept=$2
shift 2
mount -t tmpfs none "$private"
IFS=:
for each in $kept; do
    case $each in /tmp/*)
        mkdir -p "$private/${each#/tmp/}"
        mount --bind "$each" "$private/${each#/tmp/}";;
    esac
done
unset IFS
mount --rbind "$private" /tmp
mount -t tmpfs none /dev/shm
ip link set lo up
mkdir /tmp/.changes /tmp/.work
mount -t overlay overlay -o "lowerdir=$PWD,upperdir=/tmp/.changes,workdir=/tmp/.work" "$PWD"
cd "$PWD"
exec "$@""#;

/// Results of a program's cases, by name.
pub(super) type Outcome = BTreeMap<String, String>;

/// A run that is over.
#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub outcome: Outcome,
    /// Lines of `keeptime run` about the guard and the recording.
    pub said: Vec<String>,
    /// The last of what the program wrote.
    pub output: String,
    pub took: Duration,
}

/// Runs programs.
pub(super) struct Runner {
    keeptime: PathBuf,
    version: String,
    suites: PathBuf,
    folder: PathBuf,
    isolated: bool,
    runs: AtomicU64,
}

impl Runner {
    /// Runs with this command; what runs write lies in a folder below the suites'.
    ///
    /// # Errors
    /// If there is no such command, or what isolates runs is not there.
    pub(super) fn new(keeptime: PathBuf, suites: &Path) -> anyhow::Result<Self> {
        let answer = Command::new(&keeptime).arg("--version").output();
        let answer = answer.with_context(|| keeptime.display().to_string())?;
        let version = String::from_utf8_lossy(&answer.stdout).trim().to_owned();
        let isolated = is_root();
        if isolated {
            let there = || debian::runs(Command::new("tini").arg("--version"));
            super::need(&["tini", "iproute2", "util-linux"], there)?;
        } else {
            eprintln!(
                "==> not root: tests share process ids, network and files with all other programs"
            );
        }
        // Another one may run beside this one.
        let folder = suites.join("run").join(std::process::id().to_string());
        std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let suites = suites.to_owned();
        let runner = Self { keeptime, version, suites, folder, isolated, runs: AtomicU64::new(0) };
        runner.probe()?;
        Ok(runner)
    }

    /// Checks that a program's own status comes through: if nothing ran, everything would be equal.
    fn probe(&self) -> anyhow::Result<()> {
        let words = ["sh", "-c", "exit 7"].map(str::to_owned).to_vec();
        let limit = Duration::from_secs(60);
        let program = Program::one("probe".into(), words, &self.suites, limit);
        for mode in [None, Some(Mode::Both)] {
            let attempt = self.run(&program, mode, limit);
            if attempt.outcome["probe"] != "exit 7" {
                let outcome = &attempt.outcome["probe"];
                bail!("a shell that exits with 7 came to {outcome}: {}", attempt.output.trim());
            }
        }
        Ok(())
    }

    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Runs a program, bare if there is no mode.
    pub(super) fn run(&self, program: &Program, mode: Option<Mode>, limit: Duration) -> Attempt {
        self.try_run(program, mode, limit).unwrap_or_else(|error| Attempt {
            outcome: [(program.name.clone(), format!("not run: {error:#}"))].into(),
            said: Vec::new(),
            output: String::new(),
            took: Duration::ZERO,
        })
    }

    fn try_run(
        &self,
        program: &Program,
        mode: Option<Mode>,
        limit: Duration,
    ) -> anyhow::Result<Attempt> {
        let number = self.runs.fetch_add(1, Ordering::Relaxed);
        let own = self.folder.join(number.to_string());
        std::fs::create_dir_all(own.join("private"))?;
        let report = own.join("report.xml");
        let mut output = File::options()
            .create(true)
            .truncate(true)
            .read(true)
            .write(true)
            .open(own.join("output"))?;
        let mut command = self.command(program, mode, limit, &own);
        let start = Instant::now();
        let status = command
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output.try_clone()?)
            .status()
            .with_context(|| format!("cannot start {command:?}"))?;
        let took = start.elapsed();
        let end = end_of(status, took, limit);
        let text = tail(&mut output)?;
        let mut outcome = match program.cases {
            Cases::One => Outcome::new(),
            Cases::Junit => {
                super::cpython::cases(&std::fs::read_to_string(&report).unwrap_or_default())
            }
        };
        outcome.insert(program.name.clone(), end);
        let said = said(&text);
        std::fs::remove_dir_all(&own)?;
        Ok(Attempt { outcome, said, output: text, took })
    }

    fn command(
        &self,
        program: &Program,
        mode: Option<Mode>,
        limit: Duration,
        own: &Path,
    ) -> Command {
        let scratch =
            if self.isolated { Path::new("/tmp").to_owned() } else { own.join("private") };
        let mut words: Vec<String> = Vec::new();
        if self.isolated {
            let names = ["--mount", "--pid", "--ipc", "--net", "--fork", "--kill-child"];
            words.extend(["unshare"].iter().chain(&names).map(|word| (*word).to_owned()));
            words.extend(["--mount-proc", "--", "sh", "-c", ISOLATE, "sh"].map(str::to_owned));
            let library = self.keeptime.parent().unwrap_or(Path::new("/"));
            // The suites' folder holds what the programs are made of.
            let kept = [&self.suites, library].map(|path| path.to_string_lossy()).join(":");
            words.extend([own.join("private").to_string_lossy().into_owned(), kept]);
            let never = "--bounding-set=-sys_time,-sys_boot,-sys_module";
            words.extend(["setpriv", never, "tini", "-s", "--"].map(str::to_owned));
        }
        let seconds = limit.as_secs().to_string();
        words.extend(["timeout", "--signal=KILL", &seconds].map(str::to_owned));
        words.extend(mode.iter().flat_map(|mode| mode.prefix(&self.keeptime, &scratch)));
        let report = own.join("report.xml").to_string_lossy().into_owned();
        let argument = |word: &String| if word == REPORT { report.clone() } else { word.clone() };
        words.extend(program.command.iter().map(argument));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(&program.folder).env_clear();
        for (name, value) in self.variables(&scratch) {
            command.env(name, value);
        }
        command.envs(program.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Variables without those of the caller: cargo's variables would be seen by some tests.
    fn variables(&self, scratch: &Path) -> [(&'static str, PathBuf); 4] {
        let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
        let home = std::env::var_os("HOME").unwrap_or_else(|| "/".into());
        [
            ("PATH", path.into()),
            ("HOME", home.into()),
            ("LANG", "C.UTF-8".into()),
            ("TMPDIR", scratch.to_owned()),
        ]
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        // Each run has removed its own.
        let _ = std::fs::remove_dir(&self.folder);
    }
}

fn is_root() -> bool {
    let answer = Command::new("id").arg("-u").output();
    answer.is_ok_and(|answer| answer.stdout.trim_ascii() == b"0")
}

/// Returns the result of a run as a whole.
fn end_of(status: ExitStatus, took: Duration, limit: Duration) -> String {
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
    match code {
        KILLED if took >= limit => TIME_LIMIT.to_owned(),
        // As shells say it: a run in its own process ids does not tell one from the other.
        129..=192 => format!("signal {}", code - 128),
        _ => format!("exit {code}"),
    }
}

fn tail(file: &mut File) -> anyhow::Result<String> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(KEPT_BYTES)))?;
    let mut bytes = Vec::new();
    // The writers are gone as far as we ended them; another one may still write.
    file.take(KEPT_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the lines of `keeptime run` in an output; one may stand behind a last line of the
/// program that has no end.
fn said(output: &str) -> Vec<String> {
    let lines = output.lines().filter_map(|line| line.split_once(SAID));
    lines.map(|(_, said)| said.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_told_apart() {
        let limit = Duration::from_secs(10);
        let end =
            |raw, seconds| end_of(ExitStatus::from_raw(raw), Duration::from_secs(seconds), limit);
        assert_eq!(end(0, 1), "exit 0");
        assert_eq!(end(3 << 8, 1), "exit 3");
        assert_eq!(end(127 << 8, 1), "exit 127");
        assert_eq!(end(139 << 8, 1), "signal 11");
        assert_eq!(end(201 << 8, 1), "exit 201");
        assert_eq!(end(11, 1), "signal 11");
        assert_eq!(end(137 << 8, 1), "signal 9");
        assert_eq!(end(137 << 8, 10), TIME_LIMIT);
        assert_eq!(end(9, 11), TIME_LIMIT);
    }

    #[test]
    fn lines_of_keeptime_are_found_among_the_programs() {
        let output = "ok\nno endkeeptime run: t.kt: 12 records, 0 lost\nkeeptime runs\n\
                      keeptime run: guard fair: nothing was to be done\n";
        let lines = ["t.kt: 12 records, 0 lost", "guard fair: nothing was to be done"];
        assert_eq!(said(output), lines);
    }
}

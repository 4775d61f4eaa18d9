//! `cargo xtask suites`: other people's test suites, bare and under `keeptime run` in each mode.
//!
//! A program under the preload library has to come to what it comes to without. So each test
//! program runs twice bare, then once in each mode, and every case that differs is tried again,
//! beside little else: it differs only if it does so most of the times. What is not the same bare
//! each time is listed, and counted as a difference only if no bare run came to the like.
//!
//! The sources come from Debian, unpacked and built below `target/suites` and nowhere else, except
//! the Linux Test Project's, which Debian does not have: `--ltp` names a checkout. As root, each
//! test has process ids, mounts, a network and shared memory of its own, and cannot set the clock.

mod attempt;
mod boost;
mod cpython;
mod debian_source;
mod glibc;
mod judge;
mod libuv;
mod list;
mod ltp;
mod mode;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::debian;
use crate::step::Step;
use attempt::Runner;
use mode::Mode;

/// Other people's test suites under `keeptime run`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run only this suite; may be repeated
    #[arg(long, value_enum, value_name = "SUITE")]
    suite: Vec<Name>,
    /// Run only this mode, besides bare; may be repeated
    #[arg(long, value_enum, value_name = "MODE")]
    mode: Vec<Mode>,
    /// Run only programs with this text in their names; may be repeated
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Checkout of the Linux Test Project, whose sources Debian does not have
    #[arg(long, value_name = "FOLDER")]
    ltp: Option<PathBuf>,
    /// The `keeptime` to run, with its library beside it; otherwise a debug build of this tree
    #[arg(long, value_name = "FILE")]
    keeptime: Option<PathBuf>,
    /// Folder in which the suites are unpacked, built and run
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// Folder into which the lists are written
    #[arg(long, value_name = "FOLDER")]
    lists: Option<PathBuf>,
    /// Programs that run at once
    #[arg(long, value_name = "NUMBER", default_value = "8",
        value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: u16,
    /// Time limit of a program, run bare, in seconds (CPython's: ten times that)
    #[arg(long, value_name = "SECONDS", default_value = "60",
        value_parser = clap::value_parser!(u64).range(1..=3600))]
    limit: u64,
    /// Minutes after which a suite begins no further program; those left out are listed
    #[arg(long, value_name = "MINUTES", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    minutes: Option<u64>,
    /// Obtain and build the suites, and run nothing
    #[arg(long)]
    build: bool,
}

/// The suites.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Name {
    /// The open POSIX tests of the Linux Test Project: conformance
    LtpConformance,
    /// The Linux Test Project's open POSIX tests: functions and stress
    LtpStress,
    /// The Linux Test Project's tests of futexes and of other system calls for threads
    LtpSyscalls,
    /// The C library's own tests of threads and of its real-time functions
    Glibc,
    /// CPython's tests of threads, processes and signals
    Cpython,
    /// libuv's tests
    Libuv,
    /// Boost.Thread's tests
    BoostThread,
}

const SUITES: [Name; 7] = [
    Name::LtpConformance,
    Name::LtpStress,
    Name::LtpSyscalls,
    Name::Glibc,
    Name::Cpython,
    Name::Libuv,
    Name::BoostThread,
];

impl Name {
    fn text(self) -> &'static str {
        match self {
            Name::LtpConformance => "ltp-conformance",
            Name::LtpStress => "ltp-stress",
            Name::LtpSyscalls => "ltp-syscalls",
            Name::Glibc => "glibc",
            Name::Cpython => "cpython",
            Name::Libuv => "libuv",
            Name::BoostThread => "boost-thread",
        }
    }
}

/// A suite that is built.
struct Suite {
    programs: Vec<Program>,
    /// Version of the sources that it was built of.
    version: String,
    /// Tests that did not become a program, and the reasons.
    left_out: Vec<String>,
}

/// A test program.
#[derive(Clone, Debug)]
struct Program {
    name: String,
    command: Vec<String>,
    variables: Vec<(String, String)>,
    folder: PathBuf,
    limit: Duration,
    cases: Cases,
}

/// Source of the results of a program's cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cases {
    /// The program is one case, and its status is the result.
    One,
    /// The program writes a report in JUnit's form to the file that the argument
    /// [`attempt::REPORT`] names.
    Junit,
}

impl Program {
    /// A program that is one case.
    fn one(name: String, command: Vec<String>, folder: &Path, limit: Duration) -> Self {
        let folder = folder.to_owned();
        Self { name, command, variables: Vec::new(), folder, limit, cases: Cases::One }
    }
}

/// Obtains, builds and runs the suites, and writes the lists.
///
/// # Errors
/// If a suite cannot be had or built, the lists cannot be written, or a case differs.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let folder =
        std::path::absolute(args.folder.clone().unwrap_or_else(|| crate::target().join("suites")))?;
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let folder = folder.canonicalize()?;
    let names = if args.suite.is_empty() { SUITES.to_vec() } else { args.suite.clone() };
    let modes = if args.mode.is_empty() { mode::ALL.to_vec() } else { args.mode.clone() };
    let mut suites = Vec::new();
    for name in names {
        match prepare(name, args, &folder)? {
            Some(suite) => suites.push((name, suite)),
            None => eprintln!("==> SKIP: {}: {}", name.text(), ltp::MISSING),
        }
    }
    if args.build {
        return Ok(());
    }
    let runner = Runner::new(keeptime(args)?, &folder)?;
    let lists = args.lists.clone().unwrap_or_else(|| folder.join("lists"));
    let mut differ = 0;
    for (name, mut suite) in suites {
        if !args.only.is_empty() {
            let wanted =
                |program: &Program| args.only.iter().any(|text| program.name.contains(text));
            suite.programs.retain(wanted);
        }
        let start = Instant::now();
        let plan = judge::Plan {
            modes: &modes,
            jobs: args.jobs.into(),
            until: args.minutes.map(|minutes| start + Duration::from_secs(minutes * 60)),
        };
        let judged = judge::judge(&runner, name.text(), &suite.programs, &plan);
        let list = list::List {
            suite: name.text(),
            version: &suite.version,
            keeptime: runner.version(),
            modes: &modes,
            programs: &judged,
            left_out: &suite.left_out,
            seconds: start.elapsed().as_secs(),
        };
        differ += list.different();
        list.write(&lists)?;
        list.write_outputs(&folder.join("outputs").join(name.text()))?;
        print!("{}", list.table());
    }
    eprintln!("==> lists in {}", lists.display());
    if differ > 0 {
        bail!("{differ} cases differ from bare in some mode");
    }
    Ok(())
}

/// `None` where a suite needs sources that are not given.
fn prepare(name: Name, args: &Args, folder: &Path) -> anyhow::Result<Option<Suite>> {
    let limit = Duration::from_secs(args.limit);
    let ltp = args.ltp.as_deref();
    Ok(Some(match name {
        Name::LtpConformance | Name::LtpStress | Name::LtpSyscalls => {
            let Some(tree) = ltp::tree(ltp, folder)? else { return Ok(None) };
            match name {
                Name::LtpConformance => ltp::open_posix(&tree, &["conformance"], limit)?,
                Name::LtpStress => ltp::open_posix(&tree, &["functional", "stress"], limit)?,
                _ => ltp::system_calls(&tree, limit)?,
            }
        }
        Name::Glibc => glibc::suite(folder, limit)?,
        Name::Cpython => cpython::suite(folder, limit * 10)?,
        Name::Libuv => libuv::suite(folder, limit)?,
        Name::BoostThread => boost::suite(folder, limit)?,
    }))
}

/// The command that is tried, built if none is given.
fn keeptime(args: &Args) -> anyhow::Result<PathBuf> {
    let program = match &args.keeptime {
        Some(program) => program.clone(),
        None => {
            Step::cargo("build -p keeptime -p keeptime-preload").run()?;
            crate::target().join("debug/keeptime")
        }
    };
    program.canonicalize().with_context(|| program.display().to_string())
}

/// Makes a stamp after `make` has succeeded, so that it is made once.
fn once(stamp: &Path, make: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    if stamp.exists() {
        return Ok(());
    }
    make()?;
    std::fs::write(stamp, "").with_context(|| stamp.display().to_string())
}

/// Installs packages that a suite is built with.
fn need(packages: &[&str], is_there: impl Fn() -> bool) -> anyhow::Result<()> {
    if debian::have(packages, is_there) {
        return Ok(());
    }
    bail!("needs the packages {}", packages.join(" "))
}

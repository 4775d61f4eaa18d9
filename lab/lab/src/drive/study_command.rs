//! `keeptime-lab drive study`: whole suites under all policies, in pairs (COLA, section 5).
//!
//! The crate `drive-study` drives, keeps and judges; here are the options, the progress and the
//! files.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::ensure;
use drive_study::judge::{Origin, judge};
use drive_study::{
    Experiment, Factor, Folder, Jobs, Progress as Step, Scenarios, Shard, Study, columns,
    drive_all, merge, published,
};
use driving::Policy;
use driving::stack::Middleware;

use super::{USUAL_FACTOR, Wiring, clock};
use crate::shown::{End, Shown};
use terminal::output;
use terminal::progress::Progress;
use trial::signals;

/// Scenarios of each experiment with --quick.
const QUICK: &str = "1";
/// Name of the units of a study.
const DRIVES: &str = "drives";
/// Options that say what is driven.
const STUDIED: [&str; 13] = [
    "experiment",
    "stack",
    "policy",
    "quick",
    "scenarios",
    "factor",
    "confirm",
    "middleware",
    "repeat",
    "jobs",
    "fold",
    "shard",
    "resume",
];

/// Options of `keeptime-lab drive study`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Results to show: corner (crashes in corner cases), normal (collisions and safe distances in
    /// normal traffic), latency, deadlines, commute, table1, characterise (causes of base's
    /// latency); confirm (crashes in more of those cases that latency can decide); or clocks
    /// (reaction times on the wall clock and on the virtual one) or modules (each by itself,
    /// and beside others that take its cache), which are driven alone
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "corner,normal,latency,deadlines,commute,table1,characterise"
    )]
    experiment: Vec<Experiment>,
    /// The stacks: a, b or both
    #[arg(long, value_enum, value_delimiter = ',', default_value = "a,b")]
    stack: Vec<Wiring>,
    /// The policies, of all experiments: base, fast, proactive, stealing, all, all-MS, all-none,
    /// static-deadline, speed-deadline, anytime, brake, oracle [default: those that the experiment
    /// is about]
    #[arg(long, value_delimiter = ',')]
    policy: Option<Vec<Policy>>,
    /// The scenarios, of all experiments: the first so many (40), a range (0-99, 0-7999/100), or
    /// corner cases by their critical reaction times in ms (band:150-300) [default: whole suites]
    #[arg(long)]
    scenarios: Option<Scenarios>,
    /// Factor by which the stack's cores are slower than this machine's: a number, or published,
    /// with which base of stack A is as late in the mean as COLA's Apollo (found in a minute)
    #[arg(long, default_value_t = Factor::Published)]
    factor: Factor,
    /// Frames in which an object must be seen before it is confirmed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    confirm: u32,
    /// Form of messages from module to module: pointer or serialised
    #[arg(long, default_value_t = Middleware::Pointer)]
    middleware: Middleware,
    /// Drive the first scenario of each experiment with stack a, on cores ten times slower than this
    /// machine's
    #[arg(long, conflicts_with_all = ["scenarios", "factor", "stack"])]
    quick: bool,
    /// Number of drives of each scenario on each clock, for corner, confirm, commute and clocks.
    /// Costs differ from drive to drive, and one drive of a scenario tells little of what is rare
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Drives at the same time [default: one for each core; clocks: one for each set of physical
    /// cores that holds a stack and its world]
    #[arg(long)]
    jobs: Option<std::num::NonZeroU16>,
    /// With too few cores for clocks, let cores of a stack share those of this machine; the
    /// times are not those of the stack then
    #[arg(long)]
    fold: bool,
    /// Drive only part I of N of the scenarios, for --merge
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    shard: Shard,
    /// The folder in which each drive is kept as soon as it is over, and all results
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Continue the study in the folder, if there is one
    #[arg(long)]
    resume: bool,
    /// Drive nothing: put the folders of all shards of a study together
    #[arg(long, value_name = "DIR", num_args = 1.., conflicts_with_all = STUDIED)]
    merge: Vec<PathBuf>,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Also write the page to this file, and print the summary only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs `keeptime-lab drive study`.
///
/// # Errors
/// The options ask for no study, a file is not one that a study leaves or cannot be written, or the
/// study was interrupted; drives that were over by then are kept.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.merge.is_empty() {
        let folder = merge(&args.merge, &args.out)?;
        finish(args, &folder, &End::default())?;
        return Ok(ExitCode::SUCCESS);
    }
    output::check("--html", args.html.as_deref())?;
    let stacks = if args.quick { &[Wiring::A][..] } else { &args.stack[..] };
    let stacks: Vec<_> = stacks.iter().map(|wiring| wiring.stack()).collect();
    let policies = args.policy.as_deref();
    let (scenarios, factor) = match args.quick {
        true => (Some(QUICK.parse().map_err(anyhow::Error::msg)?), Factor::Times(USUAL_FACTOR)),
        false => (args.scenarios, args.factor),
    };
    let with = (factor, args.confirm);
    let mut study = Study::new(&args.experiment, scenarios, policies, &stacks, with)?;
    study = study.with_repeats(args.repeat)?.with_middleware(args.middleware)?;
    let jobs = jobs(args, &study)?;
    study.folded = match &jobs {
        Jobs::Threads(_) => false,
        Jobs::Places(places) => places.iter().any(|places| places.folded),
    };
    let machine = machine(&jobs, &study);
    let mut folder = Folder::open(&args.out, &study, args.shard, machine, args.resume)?;
    let progress = Progress::start("keeptime-lab drive study", None);
    if !folder.is_done() && folder.factor().is_none() {
        progress.stage("finding the factor of the cores, a minute");
        let tell = |found| progress.tell(format_args!("cores {found}"));
        match published(&jobs, &tell)? {
            Some(found) => folder.slow_down(found)?,
            None => signals::check()?,
        }
    }
    let report = |Step { done, all, .. }: Step| progress.at(done as u64, all as u64, DRIVES);
    let (done, all) = folder.done();
    progress.at(done as u64, all as u64, DRIVES);
    drive_all(&mut folder, &jobs, &report)?;
    drop(progress);
    let units = folder.done();
    let interrupted = signals::interrupted().filter(|_| units.0 < units.1);
    let end = End { interrupted, units, name: DRIVES };
    finish(args, &folder, &end)?;
    let (done, all) = units;
    ensure!(done == all || interrupted.is_some(), "{done} of {all} drives were driven");
    if interrupted.is_some() {
        tell!("keeptime-lab drive study: {done} of {all} drives are kept; --resume continues");
    }
    end.answer(ExitCode::SUCCESS)
}

fn jobs(args: &Args, study: &Study) -> anyhow::Result<Jobs> {
    let wanted = args.jobs.map(|jobs| jobs.get().into());
    let policies = study.on_wall();
    if !policies.is_empty() {
        return Ok(Jobs::Places(clock::side_by_side(&policies, wanted, args.fold)?));
    }
    ensure!(!args.fold, "--fold: found it without --experiment clocks, expected it with that");
    if study.is_one_by_one() {
        let found = wanted.unwrap_or(1);
        ensure!(found == 1, "--jobs: found {found}, expected 1: modules are timed alone");
        return Ok(Jobs::Threads(1));
    }
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Jobs::Threads(wanted.unwrap_or_else(cores)))
}

fn machine(jobs: &Jobs, study: &Study) -> Vec<(String, String)> {
    let fact = |name: &str, value: String| (name.to_owned(), value);
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let mut machine = vec![
        fact("Machine", crate::chains::machine_in_words()),
        fact("Build", build.to_owned()),
        fact("Clock", "virtual: the modules execute one after the other".to_owned()),
    ];
    let count = match jobs {
        Jobs::Threads(count) => *count,
        Jobs::Places(places) => {
            machine.extend(places.iter().map(|places| fact("Clock", clock::on_the_wall(places))));
            machine.push(fact("Real-time priority", clock::priority()));
            places.len()
        }
    };
    machine.push(fact("Drives at the same time", count.to_string()));
    if study.is_one_by_one() {
        machine.extend(drive_study::beside().map(|words| fact("Beside modules", words)));
    }
    machine
}

/// Judges what there is, and writes and prints it.
fn finish(args: &Args, folder: &Folder, end: &End) -> anyhow::Result<()> {
    let origin = Origin {
        command: terminal::command_line::this_command(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    };
    let run = judge(folder, origin);
    let (schema, html) = (("keeptime.drive-study", 1), args.html.as_deref());
    let shown = Shown { schema, json: args.json, html, end };
    let result = serde_json::to_value(&run)?;
    let mut document = run.document();
    document.marks.extend(end.partial());
    let page = document.html()?;
    let rows = folder.rows();
    folder.put("drives.parquet", &columns::drives(&rows)?)?;
    folder.put("times.parquet", &columns::buckets(&rows)?)?;
    if rows.iter().any(|row| !row.frames.is_empty()) {
        folder.put("frames.parquet", &columns::frames(&rows)?)?;
    }
    if rows.iter().any(|row| !row.calls.is_empty()) {
        folder.put("modules.parquet", &columns::calls(&rows)?)?;
    }
    let text = serde_json::to_string_pretty(&shown.framed(result.clone()))?;
    folder.put("results.json", format!("{text}\n").as_bytes())?;
    folder.put("study.html", page.as_bytes())?;
    tell!("wrote {}", args.out.display());
    shown.document(|| result, document)
}

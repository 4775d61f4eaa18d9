//! `keeptime-lab drive study`: whole suites under all policies, in pairs (COLA, section 5).
//!
//! The crate `drive-study` drives, keeps and judges; here are the options, the progress and the
//! files.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use drive_study::judge::{Origin, judge};
use drive_study::{
    Experiment, Factor, Folder, Jobs, Progress, Scenarios, Shard, Study, columns, drive_all, merge,
    published,
};
use driving::Policy;
use driving::stack::Middleware;
use report::document::WIDTH;

use super::{Wiring, clock};
use terminal::output;
use terminal::progress::Steps;

/// Options that say what is driven.
const STUDIED: [&str; 12] = [
    "experiment",
    "stack",
    "policies",
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
    policies: Option<Vec<Policy>>,
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
    /// Also write the page to this file
    #[arg(long)]
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
        finish(args, &folder)?;
        return Ok(ExitCode::SUCCESS);
    }
    let stacks: Vec<_> = args.stack.iter().map(|wiring| wiring.stack()).collect();
    let policies = args.policies.as_deref();
    let with = (args.factor, args.confirm);
    let mut study = Study::new(&args.experiment, args.scenarios, policies, &stacks, with)?;
    study = study.with_repeats(args.repeat)?.with_middleware(args.middleware)?;
    let jobs = jobs(args, &study)?;
    study.folded = match &jobs {
        Jobs::Threads(_) => false,
        Jobs::Places(places) => places.iter().any(|places| places.folded),
    };
    let machine = machine(&jobs, &study);
    let mut folder = Folder::open(&args.out, &study, args.shard, machine, args.resume)?;
    let interrupted = trial::signals()?;
    if !folder.is_done() && folder.factor().is_none() {
        let tell = |found| tell!("keeptime-lab drive study: cores {found}");
        let found = published(&jobs, &interrupted, &tell)?;
        folder.slow_down(found.context("interrupted: nothing was driven")?)?;
    }
    let template = "keeptime-lab drive study [{wide_bar}] {pos}/{len} drives, {msg}";
    let steps = Steps::new("keeptime-lab drive study: drives", template);
    drive_all(&mut folder, &jobs, &interrupted, &|progress| report_steps(&steps, progress))?;
    drop(steps);
    finish(args, &folder)?;
    let (done, all) = folder.done();
    if done < all {
        ensure!(interrupted.load(Ordering::Relaxed), "{done} of {all} drives were driven");
        bail!("interrupted: {done} of {all} drives are kept; --resume goes on");
    }
    Ok(ExitCode::SUCCESS)
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

/// Says how far it is.
fn report_steps(steps: &Steps, Progress { done, all, left }: Progress) {
    let left = left.map_or(String::new(), |left| {
        format!("{} left", humantime::format_duration(Duration::from_secs(left.as_secs())))
    });
    steps.at(done as u64, all as u64, &left);
}

/// Judges what there is, and writes and prints it.
fn finish(args: &Args, folder: &Folder) -> anyhow::Result<()> {
    let origin = Origin {
        command: terminal::command_line::this_command(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
    };
    let run = judge(folder, origin);
    let (document, result) = (run.document(), serde_json::to_value(&run)?);
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
    let text = serde_json::to_string_pretty(&result)?;
    folder.put("results.json", format!("{text}\n").as_bytes())?;
    folder.put("study.html", page.as_bytes())?;
    output::write("--html", args.html.as_deref(), || Ok(page))?;
    output::print(args.json, || result, || document.text(WIDTH, true))
}

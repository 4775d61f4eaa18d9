//! `keeptime-lab bench submission`: what it costs to hand work to an accelerator, by method.
//!
//! The measurement is the `submission` crate's; here it is decided what takes part, and where the
//! measuring thread sits: on a core of its own where there are several, so that it does not keep
//! the threads of software accelerators and drivers from running.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use realtime::thread::{self, Scheduling};
use submission::measure::{Protocol, Seat, Wait};
use submission::network::{MOST_K, MOST_L};
use submission::output::{self, Machine};
use submission::study::{self, Plan, Study};
use submission::{Accelerator, Method, Select};
use terminal::progress::Progress;
use trial::signals;

use crate::shown::{End, Shown};

/// The published study's sizes.
const K: [usize; 4] = [1, 2, 4, 8];
const L: [usize; 11] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000];
/// Smaller ones.
const QUICK_K: [usize; 2] = [1, 2];
const QUICK_L: [usize; 3] = [1, 5, 20];
/// The published study's priority.
const PRIORITY: u8 = 99;

/// Options of `keeptime-lab bench submission`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Accelerators: cpu, onnx, cuda:N, vulkan:N; by default all that are found
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    devices: Vec<Select>,
    /// Methods: by default all that an accelerator has
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_method)]
    methods: Vec<Method>,
    /// Widths: matrices have sides of 16 k; by default 1,2,4,8
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_k)]
    k: Vec<usize>,
    /// Depths: layers of three kernels each; by default 1,2,5,10,20,50,100,200,500,1000,2000
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = parse_l)]
    l: Vec<usize>,
    /// Repetitions that count, of each case [default: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repetitions: Option<u32>,
    /// Repetitions before those that count [default: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=100_000))]
    warm_up: Option<u32>,
    /// Time after which a case begins no further repetition [default: 20s]
    #[arg(long, value_name = "TIME", value_parser = terminal::time)]
    case_limit: Option<Duration>,
    /// Way to wait for the end of a repetition: poll keeps asking, block sleeps
    #[arg(long, value_enum, default_value_t = WaitArgument::Poll)]
    wait: WaitArgument,
    /// The core of the measuring thread: by default the last one
    #[arg(long, value_name = "N")]
    core: Option<usize>,
    /// Its SCHED_FIFO priority, 0 for the ordinary policy: by default 99 where it is allowed
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(0..=99))]
    priority: Option<u8>,
    /// Measure less: smaller sizes, 20 repetitions
    #[arg(long)]
    quick: bool,
    /// Write samples (Parquet), tables, plots (SVG), a page (HTML) and a report (PDF) there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum WaitArgument {
    Poll,
    Block,
}

fn parse_method(text: &str) -> Result<Method, String> {
    let found = Method::ALL.into_iter().find(|method| method.name() == text);
    let names = || Method::ALL.map(Method::name).join(", ");
    found.ok_or_else(|| format!("expected one of {}", names()))
}

fn parse_size(text: &str, most: usize) -> Result<usize, String> {
    let size: Option<usize> = text.parse().ok();
    let size = size.filter(|size| (1..=most).contains(size));
    size.ok_or_else(|| format!("expected a number from 1 to {most}"))
}

fn parse_k(text: &str) -> Result<usize, String> {
    parse_size(text, MOST_K)
}

fn parse_l(text: &str) -> Result<usize, String> {
    parse_size(text, MOST_L)
}

/// Runs the command: 1 if a method computed something wrong.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let seat = seat(args)?;
    let home = seat.home.clone();
    // Threads that the drivers start from now on stay away from the measuring thread's core.
    thread::pin(&home)
        .context("cannot keep the drivers' threads off the measuring thread's core")?;
    let mut accelerators = open(args, &home)?;
    let plan = plan(args, seat);
    let all = cases(&plan, &accelerators);
    let progress = Progress::start("keeptime-lab bench submission", None);
    progress.at(0, all as u64, "cases");
    let measured = study::run(&plan, &mut accelerators, |study, case| {
        let done = study.cases.len() as u64 + 1;
        progress.at(done, all as u64, &study.contender(case.accelerator, case.method));
        match signals::interrupted() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    });
    drop(progress);
    let study = measured?;
    let units = (study.cases.len(), all);
    let interrupted = signals::interrupted().filter(|_| units.0 < units.1);
    let end = End { interrupted, units, name: "cases" };
    end.check()?;
    tell(args, &study, &Machine::this(&plan.seat), &end)?;
    ensure!(!study.cases.is_empty(), "nothing could be measured");
    end.answer(if study.is_right() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(args: &Args, study: &Study, machine: &Machine, end: &End) -> anyhow::Result<()> {
    let shown = Shown { schema: output::SCHEMA, json: args.json, html: None, end };
    shown.document(|| output::json(study, machine), output::document(study, machine))?;
    if let Some(folder) = &args.out {
        let files = output::write(study, machine, folder)?;
        tell!("wrote {}, {} files", folder.display(), files.len());
        if !output::PDF {
            tell!("keeptime-lab bench: no PDF: built without the feature pdf");
        }
    }
    Ok(())
}

/// Returns the core and the priority of the measuring thread, and the cores that it leaves to the
/// others.
fn seat(args: &Args) -> anyhow::Result<Seat> {
    let cores = thread::cores();
    let Some(core) = args.core.or(cores.last().copied()) else { bail!("no core may be used") };
    ensure!(cores.contains(&core), "--core {core}: this process may use {cores:?}");
    let others: Vec<usize> = cores.iter().copied().filter(|other| *other != core).collect();
    if others.is_empty() {
        // A real-time thread that polls would keep all other threads from running.
        return Ok(Seat { core: Some(core), priority: None, home: cores });
    }
    let priority = match args.priority {
        Some(0) => None,
        Some(priority) => Some(priority),
        None => fifo(PRIORITY),
    };
    Ok(Seat { core: Some(core), priority, home: others })
}

/// The priority, if this process may use it; says so if not.
fn fifo(priority: u8) -> Option<u8> {
    let allowed = thread::set_policy(Scheduling::Fifo(priority));
    // Less than the thread has.
    let _ = thread::set_policy(Scheduling::Normal);
    let refused = |error| tell!("keeptime-lab bench: measured at the ordinary priority: {error}");
    allowed.map_err(refused).ok().map(|()| priority)
}

/// Accelerators that were named; else those that are found, as far as they start.
fn open(args: &Args, cores: &[usize]) -> anyhow::Result<Vec<Box<dyn Accelerator>>> {
    let seated = |select: &Select| match select {
        // One unit, and one thread for ONNX Runtime: what two cores have room for.
        Select::Software(_) => Select::Software(cores[..1].to_vec()),
        Select::Onnx(_) => Select::Onnx(cores.first().copied()),
        other => other.clone(),
    };
    let mut opened = Vec::new();
    let all = if args.devices.is_empty() { submission::found() } else { args.devices.clone() };
    for select in &all {
        match submission::open(&seated(select)) {
            Ok(accelerator) => opened.push(accelerator),
            Err(error) if args.devices.is_empty() => {
                tell!("keeptime-lab bench: without {select}: {error}");
            }
            Err(error) => bail!("--devices {select}: {error}"),
        }
    }
    Ok(opened)
}

fn plan(args: &Args, seat: Seat) -> Plan {
    let or = |given: &[usize], quick: &[usize], full: &[usize]| match (given, args.quick) {
        ([], true) => quick.to_vec(),
        ([], false) => full.to_vec(),
        (given, _) => given.to_vec(),
    };
    let (warm_up, repetitions) = if args.quick { (5, 20) } else { (50, 500) };
    let usual = Duration::from_secs(if args.quick { 2 } else { 20 });
    let limit = args.case_limit.unwrap_or(usual);
    let wait = match args.wait {
        WaitArgument::Poll => Wait::Poll,
        WaitArgument::Block => Wait::Block,
    };
    Plan {
        k: or(&args.k, &QUICK_K, &K),
        l: or(&args.l, &QUICK_L, &L),
        methods: args.methods.clone(),
        protocol: Protocol {
            warm_up: args.warm_up.unwrap_or(warm_up),
            repetitions: args.repetitions.unwrap_or(repetitions),
            limit_ns: limit.as_nanos() as u64,
            wait,
        },
        seat,
    }
}

/// Number of all cases.
fn cases(plan: &Plan, accelerators: &[Box<dyn Accelerator>]) -> usize {
    let wanted = |method: &Method| plan.methods.is_empty() || plan.methods.contains(method);
    let methods = accelerators.iter().flat_map(|accelerator| accelerator.methods());
    let contenders = methods.filter(|(method, works)| works.is_ok() && wanted(method)).count();
    plan.k.len() * plan.l.len() * contenders
}

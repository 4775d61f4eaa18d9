//! `keeptime-lab graph`: runs a graph of nodes for real, under one method after another.
//!
//! [`plan`] says which executor runs which [`node`]s, [`wire`] carries [`message`]s between them,
//! `bound` says how long key paths can take, and a [`trial`] per method runs the accelerator
//! server, if the method has one, and the executors as [`process`]es. They [`record`] the latencies of the key paths and the periods of cyclic nodes;
//! the report crate prints them.

mod message;
mod node;
mod plan;
mod primes;
pub(crate) mod process;
mod record;
mod rehearsal;
mod trial;
mod wire;

use std::collections::HashSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::Context;
use realtime::thread;
use realtime::work::Calibration;
use report::graph::{CycleInfo, GraphRun, PathInfo, Reported};
use system::{Graph, System, Work};

use crate::chains::bound::shared_cores;
use crate::chains::chains_trial::Placement;
use crate::chains::fold::Cores;
use crate::chains::{
    CALIBRATION, QUICK, STARTING, calibrate, fold, machine_in_words, parse_duration, parse_pair,
    spread_mark,
};
use crate::shown::{End, Shown};
use analysis::Watch;
use graph_bounds::{MarginSource, TimeMargin};
use plan::Threads;
use terminal::output;
use terminal::progress::Progress;
use trial::{Method, Trial};
use wire::Transport;

use ::trial::signals;

/// Options of `keeptime-lab graph`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The system file, with a graph
    system: PathBuf,
    /// The policies to run, in this order
    #[arg(long, value_delimiter = ',', value_enum, default_value = "ros2,picas,keeptime")]
    policy: Vec<Method>,
    /// Time for which timers release under each method, as in 60s, 10m or 500ms
    #[arg(long, default_value = "60s", value_parser = parse_duration)]
    duration: Duration,
    /// Run for 5 s under each policy
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
    /// The executors of the file with one thread each, or one executor with a thread on each of
    /// their cores
    #[arg(long, value_enum, default_value = "single")]
    threads: Threads,
    /// Transport that carries messages
    #[arg(long, value_enum, default_value = "dds")]
    transport: Transport,
    /// The domain of DDS
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=232))]
    domain: u16,
    /// Cores of this machine for cores of the file, as in 2=0,3=1 [default: fold where needed]
    #[arg(long, value_delimiter = ',', value_parser = parse_pair, value_name = "FILE_CORE=CORE")]
    map: Vec<(u32, usize)>,
    /// Bound processor and accelerator times that are so many times as long as the file declares;
    /// `measured`: a tenth more than the longest of a rehearsal
    #[arg(long, default_value = "1", value_parser = MarginSource::parse, value_name = "FACTOR")]
    margin: MarginSource,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write a page with tables and plots to this file, and print the summary only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write everything that was measured, each latency included, to this file as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl Args {
    fn duration(&self) -> Duration {
        if self.quick { QUICK } else { self.duration }
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let mut seen = HashSet::new();
    for method in &args.policy {
        let name = method.name();
        anyhow::ensure!(seen.insert(*method), "--policy: found {name} twice, expected it once");
    }
    let system = System::read(&args.system)?;
    let graph = system.require_graph()?;
    let cores = fold::place(&system, &thread::cores(), &args.map)?;
    let executors = plan::executors(&system, graph, &cores, args.threads)?;
    output::check("--html", args.html.as_deref())?;
    output::check("--out", args.out.as_deref())?;
    let progress = Progress::start("keeptime-lab graph", Some(planned(args)));
    let calibration = match graph.nodes.iter().any(|node| matches!(node.work, Work::Cpu(_))) {
        true => {
            progress.stage("calibrating");
            Some(calibrate(&cores)?)
        }
        false => None,
    };
    let placement = Placement { system: &system, file: &args.system, cores: &cores };
    let trial = Trial {
        placement,
        graph,
        executors: &executors,
        transport: args.transport,
        domain: args.domain,
        calibration,
        duration_ns: args.duration().as_nanos() as u64,
    };
    let margin = match &args.margin {
        MarginSource::Given(margin) => margin.clone(),
        MarginSource::Measured => rehearsal::margin(&trial, rehearsed(args, graph)?, &progress)?,
    };
    let mut run = describe(args, &system, graph, cores.marks.clone(), calibration);
    run.margin = margin.words();
    guarantee(&mut run, (args.threads, &margin), &system, graph, &cores);
    let ran = args.policy.iter().try_for_each(|&method| {
        run.methods.push(trial.run(method, &progress)?);
        progress.tell(format_args!("{}: finished", method.name()));
        Ok(())
    });
    let interrupted = signals::finished(ran)?;
    drop(progress);
    let units = (run.methods.len(), args.policy.len());
    let end = End { interrupted, units, name: "policies" };
    print(args, &run, &end)?;
    end.answer(if run.keeps_bounds() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Time that the command takes.
fn planned(args: &Args) -> Duration {
    let rehearsal = u32::from(matches!(args.margin, MarginSource::Measured));
    CALIBRATION + (args.duration() + STARTING) * (args.policy.len() as u32 + rehearsal)
}

/// The method of which the margin is measured: one that has bounds.
fn rehearsed(args: &Args, graph: &Graph) -> anyhow::Result<Method> {
    let has_bounds = |method: &Method| match method {
        Method::Keeptime => true,
        Method::Picas => !has_segments(graph),
        Method::Ros2 => false,
    };
    args.policy.iter().copied().find(has_bounds).context(
        "--margin measured: no policy of --policy has bounds, expected keeptime, or picas for a \
         graph without accelerators",
    )
}

/// Says what the paths can take at most, as they are placed on this machine.
fn guarantee(
    run: &mut GraphRun,
    (threads, margin): (Threads, &TimeMargin),
    system: &System,
    graph: &Graph,
    cores: &Cores,
) {
    let bounds = match (threads, shared_cores(system, cores)) {
        (Threads::Multi, _) => Err("an executor of several threads has no analysis".to_owned()),
        (_, Some(reason)) => Err(reason),
        (Threads::Single, None) => {
            let cores = cores.executors.iter().map(|core| u32::try_from(*core).unwrap_or(u32::MAX));
            let cores: Vec<u32> = cores.collect();
            let watch = Watch::new(|_| !signals::is_overdue());
            graph_bounds::bounds(system, &margin.lengthen(graph), &cores, &watch)
        }
    };
    let bounds = match bounds {
        Ok(bounds) => bounds,
        Err(reason) => return run.marks.push(format!("no bounds: {reason}")),
    };
    for (path, bound) in run.paths.iter_mut().zip(bounds.paths) {
        (path.bound_ns, path.no_bound) = (bound.bound_ns, bound.reason);
    }
    run.bounded.push(Method::Keeptime.name().into());
    // Without accelerators it is the same but for the server, which then has nothing to do.
    if !has_segments(graph) {
        run.bounded.push(Method::Picas.name().into());
    }
}

fn has_segments(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| node.segments().next().is_some())
}

fn describe(
    args: &Args,
    system: &System,
    graph: &Graph,
    mut marks: Vec<String>,
    calibration: Option<Calibration>,
) -> GraphRun {
    marks.extend(calibration.as_ref().and_then(spread_mark));
    let path = |path: &system::KeyPath| {
        let roots = path.roots.iter().filter_map(|root| graph.node(root)?.timer.as_ref());
        let period_ns = roots.map(|timer| timer.period_ns).min().unwrap_or(0);
        // Times that others report of executors of one thread say nothing of other ones.
        let single = args.threads == Threads::Single;
        let reported = path
            .reported_ns
            .iter()
            .filter(|_| single)
            .map(|(method, ns)| Reported { method: method.clone(), max_ns: *ns });
        let released = args.duration().as_nanos() as u64;
        PathInfo {
            id: path.id.clone(),
            roots: path.roots.clone(),
            sink: path.sink.clone(),
            nodes: graph.on_path(path).iter().map(|node| node.id.clone()).collect(),
            period_ns,
            releases: released.div_ceil(period_ns.max(1)),
            reported: reported.collect(),
            bound_ns: None,
            no_bound: None,
        }
    };
    let cyclic = graph.nodes.iter().filter(|node| node.kind == system::NodeKind::Cyclic);
    let cycle = |node: &system::Node| {
        let period_ns = node.timer.as_ref()?.period_ns;
        Some(CycleInfo { id: node.id.clone(), period_ns })
    };
    GraphRun {
        system_name: system.name.clone(),
        machine: machine_in_words(),
        command: terminal::command_line::this_command(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        duration_ns: args.duration().as_nanos() as u64,
        threads: match args.threads {
            Threads::Single => "executors of one thread".into(),
            Threads::Multi => "one executor of several threads".into(),
        },
        transport: match args.transport {
            Transport::Dds => "messages over DDS".into(),
            Transport::Shared => "messages by queues of one process".into(),
        },
        margin: None,
        marks,
        paths: graph.paths.iter().map(path).collect(),
        cycles: cyclic.filter_map(cycle).collect(),
        bounded: Vec::new(),
        methods: Vec::new(),
    }
}

fn print(args: &Args, run: &GraphRun, end: &End) -> anyhow::Result<()> {
    end.check()?;
    let schema = ("keeptime.graph-run", 1);
    let shown = Shown { schema, json: args.json, html: args.html.as_deref(), end };
    let all = || Ok(serde_json::to_string(&shown.framed(serde_json::to_value(run)?))?);
    output::write("--out", args.out.as_deref(), all)?;
    shown.document(|| report::graph::json(run), report::graph::document(run))
}

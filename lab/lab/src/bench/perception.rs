//! `keeptime-lab bench perception`: how long the driving stack's network takes where others use its
//! accelerator, too (COLA, section 3.4 and figure 11c).
//!
//! One client asks about a scan every period, as a stack does, with real-time priority like a stack's
//! modules: an ordinary thread that is woken on the core where the accelerator's real-time thread
//! computes waits until that pauses. The others are ordinary threads, and ask the same service as soon
//! as they have had their answer. Settings take turns, so that all of them see the same machine.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, bail};
use driving::Lidar;
use driving::drive::{TURN, ego};
use driving::network::{Network, Perception, grid};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use serde_json::json;
use world::{Command, World, suite};

use super::floor::{is_granted, prioritise};
use super::sample::Samples;
use crate::shown::{End, Shown};
use terminal::progress::Progress;
use terminal::table::Table;
use trial::signals;

/// Each setting has so many turns.
const TURNS: usize = 4;
/// Scans in each setting with --quick.
const QUICK: u64 = 20;
/// The scenario of normal traffic that the scans are of, and how many.
const SCENARIO: usize = 7310;
const SCANS: usize = 20;
/// Turns of the lidar between two scans.
const APART: u64 = 10;
/// SCHED_FIFO priority of the client that is measured, that of a stack's modules.
const PRIORITY: u8 = 50;
/// Pause of a client that got no answer.
const PAUSE: Duration = Duration::from_millis(5);

/// Options of `keeptime-lab bench perception`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// The socket of a keeptime serve whose service `perception` is the network, such as that of
    /// examples/perception/server.yaml
    socket: PathBuf,
    /// Numbers of other clients that send requests at the same time
    #[arg(long, value_delimiter = ',', default_value = "0,1,2,4", value_parser = clap::value_parser!(u64).range(0..=32))]
    others: Vec<u64>,
    /// The priority of the chain that is measured
    #[arg(long, default_value_t = 50)]
    priority: u32,
    /// The priority of the other clients' chains
    #[arg(long, value_delimiter = ',', default_value = "10,50")]
    others_priority: Vec<u32>,
    /// Number of scans in each setting
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u64).range(4..=1_000_000))]
    frames: u64,
    /// Measure less: 20 scans in each setting
    #[arg(long, conflicts_with = "frames")]
    quick: bool,
    /// Time from one scan to the next, 1ms to 10s
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = parse_period)]
    period: Duration,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    /// Scans of a setting in one turn.
    fn frames_of_turn(&self) -> u64 {
        let frames = if self.quick { QUICK } else { self.frames };
        frames.div_ceil(TURNS as u64)
    }
}

fn parse_period(text: &str) -> Result<Duration, String> {
    let period = terminal::time(text)?;
    let fits = (Duration::from_millis(1)..=Duration::from_secs(10)).contains(&period);
    if fits { Ok(period) } else { Err("expected a time from 1ms to 10s, as in 100ms".into()) }
}

/// Number of other clients, and the results with them.
struct Setting {
    others: u64,
    others_priority: u32,
    latency: Samples,
    busy: Samples,
    waited: Samples,
    unanswered: u64,
    others_answered: u64,
    seconds: f64,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    service(args, args.priority).check().context("SOCKET")?;
    let realtime = is_granted(PRIORITY);
    let grids = grids()?;
    let mut settings = settings(args);
    let all = TURNS * settings.len();
    let planned = args.period.mul_f64(args.frames_of_turn() as f64 * all as f64);
    let progress = Progress::start("keeptime-lab bench perception", Some(planned));
    let mut done = 0;
    let measured = (0..TURNS).try_for_each(|_| {
        settings.iter_mut().try_for_each(|setting| {
            let stage = format!("turns, {} others", setting.others);
            progress.at(done as u64, all as u64, &stage);
            measure(args, &grids, setting, realtime)?;
            done += 1;
            Ok(())
        })
    });
    let interrupted = signals::finished(measured)?;
    drop(progress);
    let end = End { interrupted, units: (done, all), name: "turns" };
    end.check()?;
    settings.retain(|setting| setting.latency.count() > 0);
    let schema = ("keeptime.bench-perception", 1);
    let shown = Shown { schema, json: args.json, html: None, end: &end };
    shown.text(|| to_json(args, &settings, realtime), || render(args, &settings))?;
    end.answer(ExitCode::SUCCESS)
}

/// Settings: no other client once, and every number of others with every priority.
fn settings(args: &Args) -> Vec<Setting> {
    let alone = args.others.contains(&0).then_some((0, args.others_priority[0]));
    let beside = args.others_priority.iter().flat_map(|priority| {
        let others = args.others.iter().filter(|others| **others > 0);
        others.map(|others| (*others, *priority))
    });
    let setting = |(others, others_priority)| Setting {
        others,
        others_priority,
        latency: Samples::new(),
        busy: Samples::new(),
        waited: Samples::new(),
        unanswered: 0,
        others_answered: 0,
        seconds: 0.0,
    };
    alone.into_iter().chain(beside).map(setting).collect()
}

fn service(args: &Args, priority: u32) -> Perception {
    Perception::new(args.socket.clone(), "perception".to_owned(), priority, 1.0)
}

/// Returns the lidar's view of a street, as the network takes it.
fn grids() -> anyhow::Result<Vec<Vec<f32>>> {
    let mut world = World::new(&suite::normal(SCENARIO))?;
    let seen = |turn: usize| {
        (0..APART * TURN).for_each(|_| world.step(&Command::default()));
        grid(&Lidar::default().scan(ego(&world).pose, world.bodies(), turn as u64))
    };
    Ok((0..SCANS).map(seen).collect())
}

/// Measures a turn of a setting.
fn measure(
    args: &Args,
    grids: &[Vec<f32>],
    setting: &mut Setting,
    realtime: bool,
) -> anyhow::Result<()> {
    let (over, answered, begun) = (AtomicBool::new(false), AtomicU64::new(0), AtomicUsize::new(0));
    let ask = |other: usize| {
        let mut network = Network::new(service(args, setting.others_priority));
        let mut first = true;
        // Relaxed: the counts are read when all threads have been joined, or only wait for others.
        for grid in grids.iter().cycle().skip(other) {
            if over.load(Ordering::Relaxed) {
                break;
            }
            match network.ask(grid) {
                Ok(_) => drop(answered.fetch_add(1, Ordering::Relaxed)),
                Err(_) => std::thread::sleep(PAUSE),
            }
            if std::mem::take(&mut first) {
                begun.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    let mut network = Network::new(service(args, args.priority));
    std::thread::scope(|scope| {
        let others = usize::try_from(setting.others).unwrap_or(0);
        for other in 0..others {
            scope.spawn(move || ask(other));
        }
        while begun.load(Ordering::Relaxed) < others {
            std::thread::yield_now();
        }
        // Not before: threads inherit it.
        let _ = prioritise(if realtime { PRIORITY } else { 0 });
        let before = answered.load(Ordering::Relaxed);
        let began_ns = monotonic_ns();
        // The first answer is about a connection and memory, too.
        let first = network.ask(&grids[0]);
        let period_ns = args.period.as_nanos() as u64;
        let frames = args.frames_of_turn();
        let mut next_ns = monotonic_ns();
        for grid in grids.iter().cycle().take(frames as usize) {
            if signals::interrupted().is_some() {
                break;
            }
            next_ns += period_ns;
            sleep_until_ns(next_ns);
            let asked_ns = monotonic_ns();
            let answer = network.ask(grid);
            let took_ns = monotonic_ns() - asked_ns;
            match answer {
                Ok((_, busy_ns)) => {
                    setting.latency.push(took_ns);
                    setting.busy.push(busy_ns);
                    setting.waited.push(took_ns.saturating_sub(busy_ns));
                }
                Err(_) => setting.unanswered += 1,
            }
            // A late answer does not make the next requests come at once.
            next_ns = next_ns.max(monotonic_ns().saturating_sub(period_ns));
        }
        setting.seconds += (monotonic_ns() - began_ns) as f64 / 1e9;
        setting.others_answered += answered.load(Ordering::Relaxed) - before;
        over.store(true, Ordering::Relaxed);
        let _ = prioritise(0);
        first
    })?;
    signals::check()?;
    if setting.latency.count() == 0 {
        bail!("{} others: no scan was answered", setting.others);
    }
    Ok(())
}

fn render(args: &Args, settings: &[Setting]) -> String {
    let heading = [
        "others",
        "priority",
        "p50",
        "p99",
        "max",
        "busy p50",
        "busy p99",
        "rest p50",
        "rest p99",
        "unanswered",
        "others' /s",
    ];
    let mut table = Table::new(&heading, &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    for setting in settings {
        let priority = setting.others_priority().map_or("-".into(), |number| number.to_string());
        let [latency, busy, rest] = [&setting.latency, &setting.busy, &setting.waited]
            .map(|samples| samples.quantiles().cells(1e6, 2));
        let [p50, p99, _, max] = latency;
        let [busy_p50, busy_p99, ..] = busy;
        let [rest_p50, rest_p99, ..] = rest;
        let unanswered = setting.unanswered.to_string();
        let times = [p50, p99, max, busy_p50, busy_p99, rest_p50, rest_p99, unanswered];
        let others = [setting.others.to_string(), priority];
        let rate = format!("{:.1}", setting.others_per_s());
        table.row(others.into_iter().chain(times).chain([rate]));
    }
    let (priority, period) = (args.priority, humantime::format_duration(args.period));
    let frames = args.frames_of_turn() * TURNS as u64;
    format!(
        "Response times of a network at priority {priority}, {frames} scans, one every {period}, \
         milliseconds\n\n{}\nrest: response time less the accelerator's work: waiting for \
         others, and transfer in both directions.\n",
        table.render()
    )
}

impl Setting {
    /// The priority of the others, if there are any.
    fn others_priority(&self) -> Option<u32> {
        (self.others > 0).then_some(self.others_priority)
    }

    /// Answers to the others in a second.
    fn others_per_s(&self) -> f64 {
        self.others_answered as f64 / self.seconds
    }
}

fn to_json(args: &Args, settings: &[Setting], realtime: bool) -> serde_json::Value {
    let setting = |setting: &Setting| {
        json!({
            "others": setting.others,
            "others_priority": setting.others_priority(),
            "answered": setting.latency.count(),
            "unanswered": setting.unanswered,
            "latency": setting.latency,
            "busy": setting.busy,
            "rest": setting.waited,
            "others_per_s": setting.others_per_s(),
        })
    };
    json!({
        "priority": args.priority,
        "period_ns": args.period.as_nanos() as u64,
        "realtime": realtime,
        "settings": settings.iter().map(setting).collect::<Vec<_>>(),
        "machine": realtime::machine::core_model(),
        "kernel": realtime::machine::kernel_release(),
    })
}

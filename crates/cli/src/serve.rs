//! `keeptime serve`: runs the accelerator server until a signal ends it. SIGHUP has it read its
//! configuration again.

mod gateway;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use accel_server::{GpuHost, Level, Options, Server};
use anyhow::Context;
use gateway::Gateway;
use sd_notify::NotifyState;
use serde_json::Value;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use system::{Admission, ArbitrationPolicy, Bound, System};

use crate::log::{Lines, Log, LogArgs, unlocked};

/// Options of `keeptime serve`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The system file: accelerators, services, chains, and the `server` section
    config: PathBuf,
    /// Arbitration policy, instead of the configured one
    #[arg(long, value_parser = ArbitrationPolicy::from_str)]
    policy: Option<ArbitrationPolicy>,
    /// Admission mode, instead of the configured one: enforce (refuse a chain that would break a
    /// guarantee), report (admit it, and list the chains without a guarantee) or off
    #[arg(long, value_name = "MODE", value_parser = parse_admission)]
    admission: Option<Admission>,
    /// Execution times of requests that declare none: a file that keeptime calibrate wrote
    #[arg(long, value_name = "FILE")]
    calibration: Option<PathBuf>,
    /// Listen here instead of at the configured socket
    #[arg(long)]
    socket: Option<PathBuf>,
    /// Cores of the server's own threads, as in 0,2
    #[arg(long, value_delimiter = ',')]
    cores: Option<Vec<usize>>,
    /// Cores of an accelerator's compute threads, as in gpu0=1,2; may be repeated
    #[arg(long, value_parser = parse_accelerator_cores)]
    accelerator_cores: Vec<(String, Vec<usize>)>,
    /// Write counters and device statistics to this file at the end, as JSON
    #[arg(long)]
    summary: Option<PathBuf>,
    #[command(flatten)]
    log: LogArgs,
    /// Process id of the starting process; the server is killed when that ends
    #[arg(long, hide = true)]
    parent: Option<i32>,
}

fn parse_admission(name: &str) -> Result<Admission, String> {
    match name {
        "enforce" => Ok(Admission::Enforce),
        "report" => Ok(Admission::Report),
        "off" => Ok(Admission::Off),
        _ => Err("expected enforce, report or off".into()),
    }
}

fn parse_accelerator_cores(text: &str) -> Result<(String, Vec<usize>), String> {
    let (id, cores) = text.split_once('=').ok_or("expected ACCELERATOR=CORE,CORE")?;
    let core = |core: &str| core.parse().map_err(|_| format!("{core:?} is not a core's number"));
    Ok((id.into(), cores.split(',').map(core).collect::<Result<_, _>>()?))
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if let Some(parent) = args.parent {
        realtime::process::die_with(parent)?;
    }
    let system = System::read(&args.config)?;
    crate::ros_gateway::check(&system).with_context(|| args.config.display().to_string())?;
    // Before the server has threads, so that none of them takes the signal.
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])
        .context("signals cannot be caught")?;
    // Before the server, so that it ends after it.
    let log = Log::start("keeptime serve", &args.log)?;
    let lines = log.lines();
    if let Err(error) = realtime::thread::lock_memory() {
        lines.say(Level::Warn, &unlocked(&error));
    }
    let to_log = lines.clone();
    let options = Options {
        policy: args.policy,
        admission: args.admission,
        calibration: args.calibration.clone(),
        socket: args.socket.clone(),
        cores: args.cores.clone(),
        accelerator_cores: accelerator_cores(args, &system)?,
        gpu_host: Some(gpu_host()?),
        log: Arc::new(move |level, line| to_log.say(level, line)),
        ..Options::default()
    };
    let file = args.config.display();
    let server = Server::start(&system, options).with_context(|| file.to_string())?;
    announce(&server, args.policy.unwrap_or(system.server.policy), &lines);
    let start = |_| Gateway::start(&args.config, server.socket(), lines.clone());
    let gateway = system.ros.as_ref().map(start);
    let gateway = gateway.transpose()?;
    notify(&[NotifyState::Ready]);
    let mut system = system;
    for signal in signals.forever() {
        if signal != SIGHUP {
            break;
        }
        notify(&[NotifyState::Reloading]);
        let (level, line) = match reload(&server, &args.config, &mut system) {
            Ok(line) => (Level::Info, line),
            Err(error) => (Level::Error, format!("not reloaded: {error:#}")),
        };
        lines.say(level, &line);
        notify(&[NotifyState::Ready]);
    }
    notify(&[NotifyState::Stopping]);
    drop(gateway);
    if let Some(path) = &args.summary {
        write_summary(&server, path)?;
    }
    server.stop();
    Ok(ExitCode::SUCCESS)
}

/// Tells the service manager, if one asked for it (`NOTIFY_SOCKET`).
fn notify(state: &[NotifyState<'_>]) {
    // Without a service manager the message has no receiver.
    let _ = sd_notify::notify(false, state);
}

/// Keys that may change while the server runs.
const CHANGEABLE: [&str; 4] = [
    "server.access",
    "server.limits.sessions",
    "server.limits.registrations",
    "server.limits.memory",
];

/// Reads the configuration again and takes what may change; returns what did. A file with an error,
/// or with another change, changes nothing.
fn reload(server: &Server, path: &Path, current: &mut System) -> anyhow::Result<String> {
    let new = System::read(path)?;
    let (live, fixed): (Vec<String>, Vec<String>) = changed_keys(current, &new)?
        .into_iter()
        .partition(|key| CHANGEABLE.contains(&key.as_str()));
    if !fixed.is_empty() {
        let keys = fixed.join(", ");
        anyhow::bail!("{keys}: changed, which takes a restart of the server");
    }
    if live.is_empty() {
        return Ok("reloaded: nothing has changed".into());
    }
    server.reload(&new.server)?;
    *current = new;
    Ok(format!("reloaded: {}", live.join(", ")))
}

/// Keys of the file whose values differ: those of the sections `server` and `server.limits` by
/// themselves.
fn changed_keys(old: &System, new: &System) -> serde_json::Result<Vec<String>> {
    fn compare(at: &str, old: &Value, new: &Value, changed: &mut Vec<String>) {
        let (Value::Object(old), Value::Object(new)) = (old, new) else { return };
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let name = format!("{at}{key}");
            match (old.get(key), new.get(key)) {
                (Some(old), Some(new)) if ["server", "server.limits"].contains(&name.as_str()) => {
                    compare(&format!("{name}."), old, new, changed);
                }
                (old, new) if old != new => changed.push(name),
                _ => {}
            }
        }
    }
    let mut changed = Vec::new();
    compare("", &serde_json::to_value(old)?, &serde_json::to_value(new)?, &mut changed);
    Ok(changed)
}

/// This program, as the process that has a GPU for a server.
pub(crate) fn gpu_host() -> anyhow::Result<GpuHost> {
    let path = std::env::current_exe().context("this program's own file")?;
    Ok(GpuHost { path, arguments: vec!["gpu-host".into()] })
}

fn accelerator_cores(args: &Args, system: &System) -> anyhow::Result<BTreeMap<String, Vec<usize>>> {
    let cores: BTreeMap<_, _> = args.accelerator_cores.iter().cloned().collect();
    for id in cores.keys() {
        anyhow::ensure!(
            system.accelerator(id).is_some(),
            "--accelerator-cores: found {id:?}, expected one of the accelerators of {}: {}",
            args.config.display(),
            system.accelerators.iter().map(|a| a.id.as_str()).collect::<Vec<_>>().join(", ")
        );
    }
    Ok(cores)
}

fn announce(server: &Server, policy: ArbitrationPolicy, lines: &Lines) {
    let say = |line: String| lines.say(Level::Info, &line);
    for (id, device) in server.devices() {
        let properties = device.properties();
        let priority = if device.statistics().realtime { "real-time" } else { "normal priority" };
        say(format!(
            "{id}: {}, {} levels, {} compute units, {priority}",
            properties.name, properties.levels, properties.units
        ));
    }
    say(promises(server));
    if let Some(calibration) = server.calibration() {
        say(format!(
            "execution times of {} services, measured {}, maxima times {}",
            calibration.services.len(),
            calibration.date,
            calibration.margin
        ));
    }
    let realtime = if server.is_realtime() { "" } else { ", at normal priority" };
    let socket = server.socket().display();
    say(format!("policy {policy:?}, listening at {socket}{realtime}"));
}

/// Describes the promises to clients.
fn promises(server: &Server) -> String {
    let note = server.admission_note();
    let (mode, bound) = server.admission();
    let bound = match bound {
        Bound::Tight => "tight",
        Bound::Sound => "sound",
    };
    match mode {
        Admission::Enforce => format!("admission control by the {bound} analysis"),
        Admission::Report => format!("the {bound} analysis reports, every client is admitted"),
        Admission::Off if note.is_empty() => "no admission control".into(),
        Admission::Off => format!("no admission control: {note}"),
    }
}

fn write_summary(server: &Server, path: &Path) -> anyhow::Result<()> {
    let accelerators: serde_json::Map<String, serde_json::Value> =
        server.devices().into_iter().map(|(id, device)| (id, device_summary(&*device))).collect();
    let c = server.counters();
    let summary = serde_json::json!({
        "schema": "keeptime.serve-summary",
        "version": 1,
        "realtime": server.is_realtime(),
        "accelerators": accelerators,
        "counters": {
            "done": c.done, "cancelled": c.cancelled, "failed": c.failed,
            "overruns": c.overruns, "demotions": c.demotions, "opened": c.opened,
            "refusals": c.refusals, "evictions": c.evictions, "mutings": c.mutings,
        },
    });
    let text = serde_json::to_string_pretty(&summary)? + "\n";
    terminal::output::whole(path, text.as_bytes())
        .with_context(|| format!("--summary {}", path.display()))
}

fn device_summary(device: &dyn device::Device) -> serde_json::Value {
    let statistics = device.statistics();
    let delays =
        statistics.compute_threads.iter().filter_map(|&tid| realtime::machine::run_delay_ns(tid));
    serde_json::json!({
        "realtime": statistics.realtime,
        "launches": statistics.launches,
        "blocks": statistics.blocks,
        "preemptions": statistics.preemptions,
        "busy_ns": statistics.busy_ns,
        "longest_block_ns": statistics.longest_block_ns,
        "run_delay_ns": delays.sum::<u64>(),
    })
}

//! `keeptime-lab bench transport`: what a request to an accelerator service costs by the way it takes,
//! and by step; PAAM's Fig. 12.
//!
//! Each way has a client in a process of its own ([`client`]), which sends when it is told to.
//! Ways and sizes are measured in turns, so that all see the same machine. Shared memory and
//! loopback have one server in common; the two hosts are network namespaces with a server of their
//! own ([`hosts`]).

mod client;
mod hosts;
mod peer;

use std::cell::Cell;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, bail, ensure};
use bandwidth::workload::Size;
use clap::ValueEnum;
use realtime::thread;
use report::transport::TransportRun;

use super::floor::prioritise;
use hosts::{Hosts, Link};
use peer::{Batch, Peer, Place};

use crate::shown::{End, Shown};
use terminal::output;
use terminal::progress::Progress;
use trial::signals;

pub(crate) use client::Client;

/// Requests of one way and size before it is the next one's turn.
const TURN: usize = 10;
/// Requests before those that count.
const WARM_UP: usize = 5;
/// The largest payload, input and output together, is what a gateway may be told to take.
const LARGEST: u64 = 16 << 20;

/// Options of `keeptime-lab bench transport`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The accelerator: cpu, cuda:N or vulkan:N
    #[arg(long, default_value = "cpu", value_parser = super::parse_device)]
    device: String,
    /// Ways to measure: shared memory, DDS on one machine, DDS between two hosts
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        value_enum,
        default_value = "shared,loopback,hosts"
    )]
    ways: Vec<Way>,
    /// Sizes of the input, as in 64B,4KiB: multiples of 8 bytes, at most 16 MiB
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "64B,4KiB,64KiB,1MiB",
        value_parser = parse_size)]
    sizes: Vec<u64>,
    /// Requests of each way and size: by default 200, with --quick 20
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    samples: Option<u32>,
    /// Measure less
    #[arg(long)]
    quick: bool,
    /// Delay of each frame between the two hosts
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = parse_delay)]
    delay: Duration,
    /// Share of the frames between the two hosts that get lost, from 0 to 0.5
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, value_parser = parse_loss)]
    loss: f64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write the result as a page to this file, and print the summary only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A way from a client to the accelerator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// The client is on the server's machine.
    Shared,
    /// DDS by the gateway, on the server's machine.
    Loopback,
    /// DDS by the gateway, from another host.
    Hosts,
}

impl Way {
    fn name(self) -> &'static str {
        match self {
            Way::Shared => "shared",
            Way::Loopback => "loopback",
            Way::Hosts => "hosts",
        }
    }
}

fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || "expected a multiple of 8 bytes, from 8B to 16MiB, as in 4KiB".to_owned();
    let size: Size = text.parse().map_err(|_| wrong())?;
    let Size::Bytes(bytes) = size else { return Err(wrong()) };
    let bytes = bytes as u64;
    let fits = (8..=LARGEST).contains(&bytes) && bytes.is_multiple_of(8);
    if fits { Ok(bytes) } else { Err(wrong()) }
}

fn parse_delay(text: &str) -> Result<Duration, String> {
    let delay = terminal::time(text)?;
    let fits = delay <= Duration::from_secs(1);
    if fits { Ok(delay) } else { Err("expected a time of at most 1 s, as in 500us".into()) }
}

fn parse_loss(text: &str) -> Result<f64, String> {
    let loss: Option<f64> = text.parse().ok();
    let loss = loss.filter(|loss| (0.0..=0.5).contains(loss));
    loss.ok_or_else(|| "expected a share from 0 to 0.5, as in 0.01".to_owned())
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    output::check("--html", args.html.as_deref())?;
    let mut run = describe(args);
    let (done, all) = (Cell::new(0), Cell::new(0));
    let interrupted = signals::finished(measure(args, &mut run, (&done, &all)))?;
    let end = End { interrupted, units: (done.get(), all.get()), name: "turns" };
    end.check()?;
    run.cells.retain(|cell| !cell.samples.is_empty());
    let (schema, html) = (("keeptime.bench-transport", 1), args.html.as_deref());
    let shown = Shown { schema, json: args.json, html, end: &end };
    shown.document(|| report::transport::json(&run), report::transport::document(&run))?;
    end.answer(ExitCode::SUCCESS)
}

fn measure(
    args: &Args,
    run: &mut TransportRun,
    count: (&Cell<usize>, &Cell<usize>),
) -> anyhow::Result<()> {
    let progress = Progress::start("keeptime-lab bench transport", None);
    let is_wanted = |way: &Way| args.ways.contains(way);
    let mut ways: Vec<Way> = Way::value_variants().iter().copied().filter(is_wanted).collect();
    let realtime = prioritise(50).is_ok();
    prioritise(0)?;
    if !realtime {
        run.marks
            .push("SCHED_FIFO is refused, all at normal priority (see keeptime doctor)".into());
    }
    let place = Place::new(&args.device, realtime, args.sizes.iter().max().copied().unwrap_or(8));
    let link = Link { delay: args.delay, loss: args.loss };
    let hosts = match ways.contains(&Way::Hosts).then(|| Hosts::new(link)) {
        Some(Err(reason)) => {
            signals::check()?;
            let mark = format!("hosts is left out: {reason:#}");
            tell!("keeptime-lab bench: {mark}");
            run.marks.push(mark);
            ways.retain(|way| *way != Way::Hosts);
            None
        }
        made => made.transpose()?,
    };
    ensure!(!ways.is_empty(), "--ways: none of them can be measured on this machine");
    progress.stage("starting servers and clients");
    let is_near = ways.iter().any(|way| *way != Way::Hosts);
    let near = is_near.then(|| place.serve(None)).transpose()?;
    let far = hosts.as_ref().map(|hosts| place.serve(Some(hosts))).transpose()?;
    let mut peers = Vec::new();
    for way in &ways {
        let server = if *way == Way::Hosts { &far } else { &near };
        let server = server.as_ref().context("no server")?;
        let peer = Peer::start(*way, &place, server, hosts.as_ref());
        peers.push((*way, peer.with_context(|| format!("way {}", way.name()))?));
    }
    turns(args, run, &mut peers, (&progress, count))
}

/// Measures all ways and sizes in turns, beginning with another way each time.
fn turns(
    args: &Args,
    run: &mut TransportRun,
    peers: &mut [(Way, Peer)],
    (progress, (done, all)): (&Progress, (&Cell<usize>, &Cell<usize>)),
) -> anyhow::Result<()> {
    let samples = args.samples.unwrap_or(if args.quick { 20 } else { 200 }) as usize;
    let ways = peers.len();
    for &bytes in &args.sizes {
        for (way, _) in peers.iter() {
            let way = way.name().into();
            run.cells.push(report::transport::Cell { way, bytes, ..Default::default() });
        }
    }
    let rounds = samples.div_ceil(TURN);
    all.set((rounds + 1) * args.sizes.len() * ways);
    for round in 0..=rounds {
        let count = match round {
            0 => WARM_UP,
            round => TURN.min(samples - (round - 1) * TURN),
        };
        for (number, &bytes) in args.sizes.iter().enumerate() {
            for turn in 0..ways {
                signals::check()?;
                let which = (turn + round) % ways;
                let (way, peer) = &mut peers[which];
                let what = format!("way {}, input of {bytes} bytes", way.name());
                progress.at(done.get() as u64, all.get() as u64, &what);
                let batch = peer.ask(bytes, count).context(what)?;
                keep(&mut run.cells[number * ways + which], batch, round == 0);
                done.set(done.get() + 1);
            }
        }
    }
    if run.cells.iter().all(|cell| cell.samples.is_empty()) {
        bail!("no request was answered");
    }
    Ok(())
}

fn keep(cell: &mut report::transport::Cell, batch: Batch, warm_up: bool) {
    if warm_up {
        cell.warm_up_ns = batch.samples.iter().map(|sample| sample.whole_ns).collect();
        return;
    }
    cell.samples.extend(batch.samples);
    cell.repeated += batch.repeated;
    cell.unanswered += batch.unanswered;
}

fn describe(args: &Args) -> TransportRun {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load: Vec<&str> = load.split(' ').take(3).collect();
    TransportRun {
        command: terminal::command_line::this_command(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        device: args.device.clone(),
        delay_ns: args.delay.as_nanos() as u64,
        loss: args.loss,
        machine: super::machine_facts(&thread::cores())
            .into_iter()
            .chain([("load at the beginning".to_owned(), load.join(" "))])
            .collect(),
        ..TransportRun::default()
    }
}

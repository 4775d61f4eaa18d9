//! `keeptime-lab bench requests`: what a request costs, from the client through the server, the
//! device and back, with a kernel that does nothing or keeps the device busy for a given time.
//!
//! The device reports when it was given the kernel and when it had its end: the rest of the round
//! trip is the server's share, with the client's and the wakes between them.
//!
//! Requests and floor are measured in turns, a few hundred of one and then of the other, so that
//! both see the same machine. Before each round trip the client pauses, so that the other side is
//! asleep and must be woken, as between the requests of a real chain; without the pause a peer
//! that is addressed by a spinning client never gets to sleep, and the floor is no wake at all.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use accel::{Client, Registration, Request, Wait};
use anyhow::{Context, bail};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread;
use serde_json::{Value, json};
use terminal::progress::Progress;
use terminal::table::Table;
use trial::signals;

use super::floor::{Floor, is_granted, prioritise};
use super::sample::{Quantiles, Samples};
use super::service::{Place, Service};
use crate::shown::{End, Shown};

/// Round trips of one kind before it is the other's turn.
const TURN: usize = 250;
/// Round trips with --quick.
const QUICK: usize = 500;
/// Ways in which a client waits.
const WAITS: [(&str, Wait); 2] = [("suspend", Wait::Suspend), ("spin", Wait::Spin)];
/// Overhead per request that PAAM (section V-C) reports.
const PAAM_NS: [f64; 2] = [198_000.0, 391_000.0];

/// Options of `keeptime-lab bench requests`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Round trips of each kind
    #[arg(long, default_value_t = 50_000)]
    samples: usize,
    /// Measure less: 500 round trips
    #[arg(long, conflicts_with = "samples")]
    quick: bool,
    /// Time between round trips, in which the other side goes to sleep
    #[arg(long, value_name = "TIME", default_value = "30us", value_parser = terminal::time)]
    pause: Duration,
    /// The accelerator: cpu, cuda:N or vulkan:N
    #[arg(long, default_value = "cpu", value_parser = super::parse_device)]
    device: String,
    /// Time for which the kernel keeps the device busy, at most 1s; 0s for a kernel that does nothing
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_busy)]
    busy: Duration,
    /// The device's threads poll for the end of a kernel without sleeping
    #[arg(long)]
    spin: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn samples(&self) -> usize {
        if self.quick { QUICK } else { self.samples }
    }

    /// Turns of each way to wait; the first one warms up.
    fn turns(&self) -> usize {
        1 + self.samples().div_ceil(TURN)
    }
}

fn parse_busy(text: &str) -> Result<Duration, String> {
    let busy = terminal::time(text)?;
    let fits = busy <= Duration::from_secs(1);
    if fits { Ok(busy) } else { Err("expected a time of at most 1s, as in 500us".into()) }
}

struct Placement {
    name: &'static str,
    client: usize,
    service: Place,
}

#[derive(serde::Serialize)]
struct Mode {
    #[serde(skip)]
    name: &'static str,
    request: Quantiles,
    device: Quantiles,
    server: Quantiles,
    floor: Quantiles,
}

impl Mode {
    /// Returns the rows of the output, in this order.
    fn rows(&self) -> [(&'static str, Quantiles); 4] {
        let Mode { request, device, server, floor, .. } = *self;
        [("request", request), ("device", device), ("server", server), ("floor", floor)]
    }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cores = thread::cores();
    let (first, last) = (cores[0], cores[cores.len() - 1]);
    let placement = |name, client| {
        let service = Place::new(&args.device, first, client, args.spin);
        Placement { name, client, service }
    };
    let mut placements = Vec::new();
    if first != last {
        placements.push(placement("two_cores", last));
    }
    if args.device == "cpu" {
        placements.push(placement("one_core", first));
    }
    if placements.is_empty() {
        bail!("{} needs a core beside the client's, and there is one core", args.device);
    }
    let priorities = if is_granted(50) { [50, 90] } else { [0, 0] };
    if let Err(error) = thread::lock_memory() {
        tell!("keeptime-lab bench: memory is not locked: {error}");
    }
    let mut results: Vec<(Placement, Vec<Mode>)> =
        placements.into_iter().map(|placement| (placement, Vec::new())).collect();
    let all = results.len() * WAITS.len();
    let progress = Progress::start("keeptime-lab bench requests", None);
    let turns = Turns { progress: &progress, done: Cell::new(0), all: all * args.turns() };
    let measured = results.iter_mut().try_for_each(|(placement, modes)| {
        let context = || format!("placement {}", placement.name);
        measure(placement, priorities, args, (modes, &turns)).with_context(context)
    });
    let interrupted = signals::finished(measured)?;
    drop(progress);
    let done = results.iter().map(|(_, modes)| modes.len()).sum();
    let end = End { interrupted, units: (done, all), name: "ways to wait" };
    end.check()?;
    results.retain(|(_, modes)| !modes.is_empty());
    let schema = ("keeptime.bench-requests", 1);
    let shown = Shown { schema, json: args.json, html: None, end: &end };
    shown.text(|| to_json(&results, args, priorities), || render(&results, args))?;
    end.answer(ExitCode::SUCCESS)
}

/// Turns of a measurement, for its progress.
struct Turns<'a> {
    progress: &'a Progress,
    done: Cell<usize>,
    all: usize,
}

impl Turns<'_> {
    /// Another turn is over.
    fn step(&self, what: &str) {
        self.done.set(self.done.get() + 1);
        self.progress.at(self.done.get() as u64, self.all as u64, what);
    }
}

fn measure(
    place: &Placement,
    priorities: [u8; 2],
    args: &Args,
    (modes, turns): (&mut Vec<Mode>, &Turns<'_>),
) -> anyhow::Result<()> {
    let [own, server] = priorities;
    // The children first: they inherit the affinity of this thread.
    let service = Service::start(&place.service, server)?;
    let mut floor = Floor::start(place.service.server, server)?;
    thread::pin(&[place.client])?;
    prioritise(own)?;
    let mut client = Client::connect(&service.socket)?;
    let kernel = if args.busy.is_zero() { "empty" } else { "busy" };
    let callback = client.register(&Registration::service(kernel).chain("bench", 1))?;
    let request = Request::new().arguments(&[args.busy.as_nanos() as u64]);
    for (name, wait) in WAITS {
        client.set_wait(wait);
        let [mut requests, mut devices, mut shares, mut floors] = [const { Samples::new() }; 4];
        for turn in 0..args.turns() {
            turns.step(name);
            for _ in 0..TURN {
                signals::check()?;
                pause(args.pause);
                let ns = floor.round_trip(wait == Wait::Spin)?;
                if turn > 0 {
                    floors.push(ns);
                }
            }
            for _ in 0..TURN {
                signals::check()?;
                pause(args.pause);
                let start = monotonic_ns();
                let outcome = client.run(callback, &request)?;
                let ns = monotonic_ns() - start;
                if turn > 0 {
                    let on_device = outcome.finished_ns.saturating_sub(outcome.started_ns);
                    requests.push(ns);
                    devices.push(on_device);
                    shares.push(ns.saturating_sub(on_device));
                }
            }
        }
        let [request, device, server, floor] =
            [requests, devices, shares, floors].map(|samples| samples.quantiles());
        modes.push(Mode { name, request, device, server, floor });
    }
    Ok(thread::pin(&thread::cores())?)
}

/// Sleeps: a real-time client that kept its core busy all the time would be stopped by the
/// kernel's throttling, 50 ms of each second.
fn pause(pause: Duration) {
    if !pause.is_zero() {
        sleep_until_ns(monotonic_ns() + pause.as_nanos() as u64);
    }
}

fn render(results: &[(Placement, Vec<Mode>)], args: &Args) -> String {
    let [p50, p99, p999, max] = Quantiles::HEADINGS;
    let heading = ["placement", "waiting", "what", p50, p99, p999, max];
    let mut table = Table::new(&heading, &[3, 4, 5, 6]);
    for (place, modes) in results {
        for mode in modes {
            for (what, quantiles) in mode.rows() {
                let names = [place.name, mode.name, what].map(str::to_owned);
                table.row(names.into_iter().chain(quantiles.cells(1e3, 2)));
            }
            let pairs = mode.server.numbers().into_iter().zip(mode.floor.numbers());
            let ratios = pairs.map(|(server, floor)| format!("{:.2}x", server / floor));
            table.row(["", "", "ratio"].map(str::to_owned).into_iter().chain(ratios));
        }
    }
    let mut text = format!(
        "Round trip of a request of {} on {}, {} of each, {} apart, microseconds\n\n{}",
        humantime::format_duration(args.busy),
        args.device,
        args.samples(),
        humantime::format_duration(args.pause),
        table.render()
    );
    if let Some(mode) = results.first().and_then(|(_, modes)| modes.first()) {
        // PAAM's numbers do not contain the kernel either.
        let [most, least] = PAAM_NS.map(|paam_ns| mode.server.p50_ns / paam_ns * 100.0);
        text += &format!(
            "\nThe server's median share for a suspending client is {least:.1} to {most:.1} % of \
             the 198 to 391 us that PAAM reports.\n"
        );
    }
    text
}

fn by_name(modes: &[Mode]) -> BTreeMap<&'static str, &Mode> {
    modes.iter().map(|mode| (mode.name, mode)).collect()
}

fn to_json(results: &[(Placement, Vec<Mode>)], args: &Args, priorities: [u8; 2]) -> Value {
    let placements = results.iter().map(|(place, modes)| (place.name, by_name(modes)));
    json!({
        "modes": results.first().map(|(_, modes)| by_name(modes)),
        "placements": placements.collect::<BTreeMap<_, _>>(),
        "device": args.device,
        "busy_ns": args.busy.as_nanos() as u64,
        "samples": args.samples(),
        "pause_ns": args.pause.as_nanos() as u64,
        "priorities": {"client": priorities[0], "server": priorities[1]},
        "machine": realtime::machine::core_model(),
        "kernel": realtime::machine::kernel_release(),
    })
}

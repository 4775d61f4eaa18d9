//! `keeptime-lab bench kills`: clients are killed at random instants under load, while others go on.
//!
//! Shown: no request of another client fails, the most critical one is hardly delayed, what a
//! dead client had is reclaimed at once, and the server does not grow.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use accel::{Client, Registration, Request};
use realtime::clock::{monotonic_ns, sleep_until_ns};
use realtime::thread;
use rustix::process::Signal;
use serde_json::json;
use terminal::progress::Progress;
use terminal::table::Table;
use trial::signals::{self, Interrupted};

use super::floor::{is_granted, prioritise};
use super::sample::{Quantiles, Samples};
use super::service::{Footprint, Place, Service};
use super::victim::Victim;
use crate::shown::{End, Shown};

/// Clients to kill with --quick.
const QUICK: usize = 20;
/// Victims alive at the same time.
const VICTIMS: usize = 4;
/// Sessions that stay: those of the two chains and of the one that watches.
const SESSIONS: u32 = 3;
/// Memory of the chain that checks its results.
const CHECKING_BYTES: usize = 12 * 4096;
/// Work of one request of the most critical chain.
const CRITICAL_WORK_NS: u64 = 1_000_000;
/// Longest time that a delay or a clean-up may take, in nanoseconds.
const LIMIT_NS: f64 = 10_000_000.0;

/// Options of `keeptime-lab bench kills`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Clients to kill
    #[arg(long, default_value_t = 1000)]
    count: usize,
    /// Kill 20 clients
    #[arg(long, conflicts_with = "count")]
    quick: bool,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The accelerator: cpu, cuda:N or vulkan:N
    #[arg(long, default_value = "cpu", value_parser = super::parse_device)]
    device: String,
    /// The device's threads poll for the end of a kernel without sleeping
    #[arg(long)]
    spin: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn count(&self) -> usize {
        if self.quick { QUICK } else { self.count }
    }
}

struct Survivor {
    delays: Samples,
    requests: u64,
    failures: Vec<String>,
}

struct Findings {
    critical: Survivor,
    checking: Survivor,
    killed: Killed,
    /// Time that the hypervisor kept the processors, over all cores.
    stolen_ns: u64,
}

/// Clients that were killed, and what the server had then.
#[derive(Default)]
struct Killed {
    /// Clients that were killed under load.
    count: usize,
    /// Times of clean-ups.
    reclaim: Samples,
    before: Option<Footprint>,
    after: Option<Footprint>,
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cores = thread::cores();
    let (server_core, own_core) = (cores[0], cores[cores.len() - 1]);
    fastrand::seed(args.seed);
    let realtime = is_granted(1);
    let place = Place::new(&args.device, server_core, own_core, args.spin);
    let service = Service::start(&place, if realtime { 90 } else { 0 })?;
    let steal = |core: &usize| realtime::machine::steal_ns(*core).unwrap_or(0);
    let stolen: u64 = cores.iter().map(steal).sum();
    let progress = Progress::start("keeptime-lab bench kills", None);
    let (mut result, interrupted) =
        measure(&service, (own_core, realtime), args.count(), &progress)?;
    drop(progress);
    result.stolen_ns = cores.iter().map(steal).sum::<u64>().saturating_sub(stolen);
    let end = End { interrupted, units: (result.killed.count, args.count()), name: "kills" };
    end.check()?;
    let schema = ("keeptime.bench-kills", 1);
    let shown = Shown { schema, json: args.json, html: None, end: &end };
    shown.text(|| to_json(args, &result), || render(args, &result))?;
    end.answer(if result.complaints().is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn measure(
    service: &Service,
    (core, realtime): (usize, bool),
    count: usize,
    progress: &Progress,
) -> anyhow::Result<(Findings, Option<Interrupted>)> {
    let socket = &service.socket;
    let stop = Arc::new(AtomicBool::new(false));
    let start = |work: fn(&Path, &AtomicBool) -> Survivor, priority: u8| {
        let (socket, stop) = (socket.clone(), stop.clone());
        std::thread::spawn(move || {
            let _ = thread::pin(&[core]);
            let _ = prioritise(if realtime { priority } else { 0 });
            work(&socket, &stop)
        })
    };
    let critical = start(critical, 60);
    let checking = start(checking, 55);
    let mut killed = Killed::default();
    let ended = signals::finished(killed.all(service, count, progress));
    // Relaxed: the threads need nothing but the flag.
    stop.store(true, Ordering::Relaxed);
    let join = |handle: std::thread::JoinHandle<Survivor>| {
        handle.join().map_err(|_| anyhow::anyhow!("a surviving client panicked"))
    };
    let (critical, checking) = (join(critical)?, join(checking)?);
    Ok((Findings { critical, checking, killed, stolen_ns: 0 }, ended?))
}

impl Killed {
    /// Kills clients under load, and then others one by one.
    fn all(&mut self, service: &Service, count: usize, progress: &Progress) -> anyhow::Result<()> {
        let socket = &service.socket;
        let mut watcher = Client::connect(socket)?;
        progress.stage("warming up");
        // Some kills first, so that whatever grows once has grown.
        kill_under_load(socket, count.div_ceil(20), |_| ())?;
        self.before = Some(service.settle(&mut watcher, SESSIONS)?);
        kill_under_load(socket, count, |killed| {
            self.count = killed;
            progress.at(killed as u64, count as u64, "clients killed");
        })?;
        self.after = Some(service.settle(&mut watcher, SESSIONS)?);
        progress.stage("clean-ups");
        reclaim(&mut watcher, socket, count.div_ceil(10), &mut self.reclaim)
    }
}

/// The most critical chain: 1 ms of work every 5 ms, in the highest bucket.
fn critical(socket: &Path, stop: &AtomicBool) -> Survivor {
    survive(stop, || {
        let mut client = Client::connect(socket)?;
        let busy = client.register(&Registration::service("busy").chain("critical", 1000))?;
        let mut next_ns = monotonic_ns();
        Ok(move || {
            next_ns += 5_000_000;
            sleep_until_ns(next_ns);
            let start = monotonic_ns();
            let outcome = client.run(busy, &Request::new().arguments(&[CRITICAL_WORK_NS]))?;
            Ok((monotonic_ns() - start).saturating_sub(outcome.busy_ns))
        })
    })
}

/// A chain below it that checks each result.
fn checking(socket: &Path, stop: &AtomicBool) -> Survivor {
    survive(stop, || {
        const N: usize = CHECKING_BYTES / 12;
        let mut client = Client::connect(socket)?;
        let add = Registration::service("vecadd").chain("checking", 900).memory(CHECKING_BYTES);
        let add = client.register(&add)?;
        let request = Request::new().arguments(&[N as u64]).input(0, 8 * N).output(8 * N, 4 * N);
        let (mut round, mut sums) = (0.0f32, vec![0.0; N]);
        let mut next_ns = monotonic_ns();
        Ok(move || {
            next_ns += 3_000_000;
            sleep_until_ns(next_ns);
            round += 1.0;
            let memory = client.memory(add)?;
            memory.write_f32(0, &vec![round; N])?;
            memory.write_f32(N, &vec![0.5; N])?;
            let start = monotonic_ns();
            let outcome = client.run(add, &request)?;
            let delay_ns = (monotonic_ns() - start).saturating_sub(outcome.busy_ns);
            client.memory(add)?.read_f32(2 * N, &mut sums)?;
            anyhow::ensure!(sums.iter().all(|&sum| sum == round + 0.5), "wrong sums");
            Ok(delay_ns)
        })
    })
}

/// Runs requests until told to stop; each returns its delay beyond the device's work.
fn survive<R: FnMut() -> anyhow::Result<u64>>(
    stop: &AtomicBool,
    set_up: impl FnOnce() -> anyhow::Result<R>,
) -> Survivor {
    let mut survivor = Survivor { delays: Samples::new(), requests: 0, failures: Vec::new() };
    let mut request = match set_up() {
        Ok(request) => request,
        Err(error) => {
            survivor.failures.push(format!("{error:#}"));
            return survivor;
        }
    };
    while !stop.load(Ordering::Relaxed) {
        survivor.requests += 1;
        match request() {
            Ok(delay_ns) => survivor.delays.push(delay_ns),
            // The server ends with the command.
            Err(_) if signals::interrupted().is_some() => break,
            Err(error) => survivor.failures.push(format!("{error:#}")),
        }
    }
    survivor
}

/// Kills `count` of a changing crowd of clients, each at a random instant of its life.
fn kill_under_load(socket: &Path, count: usize, mut tell: impl FnMut(usize)) -> anyhow::Result<()> {
    let mut victims = Vec::new();
    for killed in 0..count {
        while victims.len() < VICTIMS {
            victims.push(Victim::start(socket, false)?);
        }
        signals::sleep(Duration::from_micros(fastrand::u64(1000..40_000)))?;
        drop(victims.swap_remove(fastrand::usize(..victims.len())));
        tell(killed + 1);
    }
    Ok(())
}

/// Measures the time from the kill of a client until the server has reclaimed all that it had.
fn reclaim(
    watcher: &mut Client,
    socket: &Path,
    count: usize,
    times: &mut Samples,
) -> anyhow::Result<()> {
    for _ in 0..count {
        signals::check()?;
        let before = watcher.status()?;
        let mut victim = Victim::start(socket, true)?;
        let end = monotonic_ns() + 10_000_000_000;
        while watcher.status()?.queued < 16 {
            signals::check()?;
            anyhow::ensure!(
                monotonic_ns() < end,
                "the queue never reached 16 requests within 10 s"
            );
        }
        let start = monotonic_ns();
        victim.signal(Signal::KILL);
        loop {
            let now = watcher.status()?;
            let same = (now.sessions, now.memory_bytes) == (before.sessions, before.memory_bytes);
            // The survivors may have a request each on its way.
            if same && now.queued + now.running <= 2 {
                break;
            }
            anyhow::ensure!(monotonic_ns() < end, "the server reclaimed nothing: {now:?}");
        }
        times.push(monotonic_ns() - start);
    }
    Ok(())
}

impl Findings {
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (name, survivor) in [("critical", &self.critical), ("checking", &self.checking)] {
            if let Some(first) = survivor.failures.first() {
                let count = survivor.failures.len();
                complaints.push(format!("{count} requests of the {name} chain failed: {first}"));
            }
        }
        if self.critical.delays.quantiles().max_ns > LIMIT_NS {
            complaints.push("the critical chain was delayed by more than 10 ms".into());
        }
        // The policy itself lets the critical chain's request go first.
        if self.checking.delays.quantiles().max_ns > LIMIT_NS + CRITICAL_WORK_NS as f64 {
            complaints
                .push("the chain of the next lower priority was delayed by more than 11 ms".into());
        }
        if self.killed.reclaim.quantiles().max_ns > LIMIT_NS {
            complaints.push("a clean-up took more than 10 ms".into());
        }
        let kept = |server: Footprint| (server.mapped_bytes, server.descriptors, server.threads);
        let Killed { before, after, .. } = &self.killed;
        if after.is_some() && before.map(kept) != after.map(kept) {
            complaints
                .push("the server kept memory, descriptors or threads of killed clients".into());
        }
        complaints
    }
}

fn render(args: &Args, result: &Findings) -> String {
    let [p50, p99, p999, max] = Quantiles::HEADINGS;
    let mut table = Table::new(&["", "count", p50, p99, p999, max], &[1, 2, 3, 4, 5]);
    let mut row = |name: &str, count: u64, quantiles: Quantiles| {
        let name = [name.to_owned(), count.to_string()];
        table.row(name.into_iter().chain(quantiles.cells(1e6, 3)));
    };
    let Findings { critical, checking, killed, .. } = result;
    row("delay of the critical chain", critical.requests, critical.delays.quantiles());
    row(
        "delay of the chain of the next lower priority",
        checking.requests,
        checking.delays.quantiles(),
    );
    let reclaim = &killed.reclaim;
    row("clean-up after a kill", reclaim.count() as u64, reclaim.quantiles());
    let server = killed.before.zip(killed.after);
    let mut text = format!(
        "{} of {} clients killed at random, milliseconds\n\n{}\n{}stolen by the hypervisor \
         meanwhile: {:.0} ms\n",
        killed.count,
        args.count(),
        table.render(),
        server.map_or(String::new(), |(before, after)| Footprint::change(&before, &after)),
        result.stolen_ns as f64 * 1e-6
    );
    match result.complaints() {
        none if none.is_empty() => text += "No request of another client failed.\n",
        complaints => complaints.iter().for_each(|complaint| text += &format!("NO: {complaint}\n")),
    }
    text
}

fn to_json(args: &Args, result: &Findings) -> serde_json::Value {
    let survivor = |survivor: &Survivor| {
        let Survivor { delays, requests, failures } = survivor;
        json!({"requests": requests, "failures": failures.len(), "delay": delays})
    };
    json!({
        "kills": result.killed.count,
        "seed": args.seed,
        "critical": survivor(&result.critical),
        "checking": survivor(&result.checking),
        "reclaim": result.killed.reclaim,
        "server": {"before": result.killed.before, "after": result.killed.after},
        "stolen_ns": result.stolen_ns,
        "complaints": result.complaints(),
        "machine": realtime::machine::core_model(),
    })
}

//! `keeptime calibrate`: how long requests of each service take, alone on its accelerator.
//!
//! The accelerators of the system file are started in this process, behind a server with a private
//! socket and without admission control. A client sends the requests of one service after the
//! other, each when the one before has ended, so that nothing is measured but the service itself.
//! The first requests warm up and do not count.
//!
//! The longest time that was seen is called the maximum of the samples, which is what it is; the
//! longest possible time cannot be known from measurements alone. A margin can be put on it.

mod memory;

use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use accel::{CallbackId, Client, Registration, Request, RequestOutcome};
use accel_server::{
    Calibration, Distribution, MAX_MARGIN, Occupancy, Options, Overheads, Server, ServiceTimes,
    short_time,
};
use anyhow::Context;
use realtime::clock::monotonic_ns;
use realtime::thread;
use system::{Admission, ArbitrationPolicy, Limits, Overrun, Service, System};

use memory::Needs;
use terminal::progress::Progress;
use terminal::signals::{self, Interrupted};
use terminal::{output, table::Table};

/// Requests before the first one that counts: a tenth of the samples, within these bounds.
const WARM_UP: std::ops::RangeInclusive<usize> = 5..=1000;
/// Requests of each service with `--quick`.
const QUICK: usize = 100;
/// Longest time between two looks for a signal.
const LOOK: Duration = Duration::from_millis(100);
/// Priority of the measuring client, below the server's threads.
const PRIORITY: u8 = 50;

/// Options of `keeptime calibrate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The system file with the accelerators and services
    config: PathBuf,
    /// Measure this service only; may be repeated
    #[arg(long, value_name = "NAME")]
    service: Vec<String>,
    /// Arguments of a service's requests that the file does not fix, as in add=1024; those that
    /// are not given are 0; may be repeated
    #[arg(long, value_name = "SERVICE=N,N", value_parser = parse_arguments)]
    arguments: Vec<(String, Vec<u64>)>,
    /// Requests of each service
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(10..=10_000_000))]
    samples: u32,
    /// Measure 100 requests of each service
    #[arg(long, conflicts_with = "samples")]
    quick: bool,
    /// Factor on the longest measured time, where it is used in place of a declared one
    #[arg(long, default_value_t = 1.0, value_parser = parse_margin)]
    margin: f64,
    /// Write the calibration to this file, for keeptime serve --calibration
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Print JSON instead of text; times are in nanoseconds
    #[arg(long)]
    json: bool,
}

fn parse_margin(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(margin) if (1.0..=MAX_MARGIN).contains(&margin) => Ok(margin),
        _ => Err(format!("expected 1 to {MAX_MARGIN}")),
    }
}

fn parse_arguments(text: &str) -> Result<(String, Vec<u64>), String> {
    let (service, numbers) = text.split_once('=').ok_or("expected SERVICE=N,N")?;
    let number = |text: &str| text.parse().map_err(|_| format!("{text:?} is not a whole number"));
    Ok((service.into(), numbers.split(',').map(number).collect::<Result<_, _>>()?))
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let system = System::read(&args.config)?;
    let file = args.config.display().to_string();
    let services = chosen(args, &system)?;
    let arguments = arguments(args, &system)?;
    output::check("--out", args.out.as_deref())?;
    // Before there are threads with real-time priority, of which this is none.
    signals::catch()?;
    let samples = args.samples();
    let progress = Progress::start("keeptime calibrate", planned(&services, samples));
    let folder = tempfile::tempdir().context("a folder for the socket")?;
    let socket = folder.path().join("calibrate.sock");
    let gpu_host = Some(crate::serve::gpu_host()?);
    let options = Options { socket: Some(socket.clone()), gpu_host, ..Options::default() };
    let server = Server::start(&quiet(&system), options).context(file)?;
    prepare();
    let mut measurement = Measurement { server, socket, overheads: BTreeMap::new() };
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut calibration = Calibration::new(date, args.margin);
    let all = services.len() as u64 * samples as u64;
    for (number, service) in (0..).zip(&services) {
        progress.tell(format_args!("{}, {samples} requests", service.name));
        let open = arguments.get(service.name.as_str()).copied().unwrap_or_default();
        let done =
            |request: u64| progress.at(number * samples as u64 + request, all, &service.name);
        let measured = measurement.measure(service, open, samples, &done);
        match measured.with_context(|| format!("service {:?}", service.name)) {
            Ok(times) => calibration.services.push(times),
            Err(error) => {
                error.downcast::<Interrupted>()?;
                calibration.unmeasured =
                    services[number as usize..].iter().map(|s| s.name.clone()).collect();
                break;
            }
        }
    }
    drop(progress);
    calibration.overheads = measurement.finish()?;
    calibration.realtime = measurement.is_realtime();
    if calibration.services.is_empty() {
        signals::check().context("no service was measured to its end")?;
    }
    report(args, &calibration)?;
    Ok(crate::status_after_signals(ExitCode::SUCCESS))
}

impl Args {
    fn samples(&self) -> usize {
        if self.quick { QUICK } else { self.samples as usize }
    }
}

/// Requests before the first one that counts.
fn warm_up(samples: usize) -> usize {
    (samples / 10).clamp(*WARM_UP.start(), *WARM_UP.end())
}

/// Time that the requests take, if the file declares the time of each service.
fn planned(services: &[&Service], samples: usize) -> Option<Duration> {
    let requests = (samples + warm_up(samples)) as u64;
    let mut ns = services.iter().map(|service| service.exec_ns?.checked_mul(requests));
    let ns = ns.try_fold(0_u64, |sum, ns| sum.checked_add(ns?));
    ns.map(Duration::from_nanos)
}

/// The services to measure, in the order of the file.
fn chosen<'s>(args: &Args, system: &'s System) -> anyhow::Result<Vec<&'s Service>> {
    let names: Vec<&str> = system.services.iter().map(|service| service.name.as_str()).collect();
    anyhow::ensure!(
        !names.is_empty(),
        "{}: services: found none, expected at least one service to measure",
        args.config.display()
    );
    let named = args.service.iter().map(|name| ("--service", name));
    let with_arguments = args.arguments.iter().map(|(name, _)| ("--arguments", name));
    for (option, name) in named.chain(with_arguments) {
        anyhow::ensure!(
            names.contains(&name.as_str()),
            "{option} {name}: expected one of the services {}",
            names.join(", ")
        );
    }
    let wanted =
        |service: &&Service| args.service.is_empty() || args.service.contains(&service.name);
    Ok(system.services.iter().filter(wanted).collect())
}

/// The arguments of requests that the command line gives.
fn arguments<'a>(args: &'a Args, system: &System) -> anyhow::Result<BTreeMap<&'a str, &'a [u64]>> {
    let mut given = BTreeMap::new();
    for (name, numbers) in &args.arguments {
        let fixed = system.service(name).map_or(0, |service| service.arguments.len());
        anyhow::ensure!(
            fixed + numbers.len() <= system::MAX_ARGUMENTS,
            "--arguments {name}: found {} numbers, expected at most {} beside the {fixed} that the \
             file fixes",
            numbers.len(),
            system::MAX_ARGUMENTS - fixed
        );
        given.insert(name.as_str(), numbers.as_slice());
    }
    Ok(given)
}

/// The system without other clients: no chains, no rules, no promises.
fn quiet(system: &System) -> System {
    let mut quiet = system.clone();
    quiet.chains.clear();
    let server = &mut quiet.server;
    (server.policy, server.overrun) = (ArbitrationPolicy::Priority, Overrun::Count);
    (server.admission, server.calibration) = (Admission::Off, None);
    server.access.clear();
    server.limits = Limits { memory_bytes: memory::MAX_BYTES, ..Limits::default() };
    quiet
}

/// Sets up the measuring thread as well as the machine permits.
fn prepare() {
    if let Err(error) = thread::lock_memory() {
        tell!("keeptime calibrate: {}", crate::log::unlocked(&error));
    }
    if let Err(error) = thread::set_policy(thread::Scheduling::Fifo(PRIORITY)) {
        tell!("keeptime calibrate: {error}; times may be longer than under a real-time client");
    }
}

/// Samples of requests on one accelerator, in nanoseconds.
type Samples = Vec<u64>;

/// A server, and what its accelerators were measured to cost so far.
struct Measurement {
    server: Server,
    socket: PathBuf,
    overheads: BTreeMap<String, Samples>,
}

impl Measurement {
    /// Runs one service alone.
    fn measure(
        &mut self,
        service: &Service,
        open: &[u64],
        samples: usize,
        done: &dyn Fn(u64),
    ) -> anyhow::Result<ServiceTimes> {
        let devices = self.server.devices();
        let device = devices.iter().find(|(id, _)| *id == service.accelerator);
        let (_, device) = device.context("its accelerator is not served")?;
        let mut arguments = [0; system::MAX_ARGUMENTS];
        let given = service.arguments.iter().chain(open);
        arguments.iter_mut().zip(given).for_each(|(argument, given)| *argument = *given);
        let needs = Needs::of(&**device, &service.kernel, arguments)?;
        let mut client = Client::connect(&self.socket)?;
        let registration = Registration::service(&service.name)
            .chain("calibrate", 1)
            .accelerator(&service.accelerator)
            .memory(needs.bytes());
        let callback = client.register(&registration)?;
        let request = Request::new()
            .arguments(&arguments)
            .input(0, needs.input)
            .output(needs.output_offset(), needs.output);
        done(0);
        for _ in 0..warm_up(samples) {
            run_one(&mut client, callback, &request)?;
        }
        let overheads = self.overheads.entry(service.accelerator.clone()).or_default();
        let (mut times, mut busy_max_ns) = (Samples::with_capacity(samples), 0);
        for number in 1..=samples as u64 {
            let outcome = run_one(&mut client, callback, &request)?;
            let total_ns = monotonic_ns().saturating_sub(outcome.submitted_ns);
            let exec_ns = outcome.finished_ns.saturating_sub(outcome.started_ns);
            times.push(exec_ns);
            overheads.push(total_ns.saturating_sub(exec_ns));
            busy_max_ns = busy_max_ns.max(outcome.busy_ns);
            done(number);
        }
        Ok(ServiceTimes {
            name: service.name.clone(),
            accelerator: service.accelerator.clone(),
            device: device.properties().name.clone(),
            kernel: service.kernel.clone(),
            fixed_arguments: service.arguments.clone(),
            arguments,
            input_bytes: needs.input as u64,
            output_bytes: needs.output as u64,
            count: samples as u64,
            exec: Distribution::of(&times).context("no samples")?,
            busy_max_ns,
        })
    }

    /// Returns the overheads of requests, by accelerator.
    fn finish(&self) -> anyhow::Result<Vec<Overheads>> {
        let snapshot = Client::connect(&self.socket)?.snapshot()?;
        let measured = snapshot.accelerators.iter().filter_map(|accelerator| {
            let overhead = Distribution::of(self.overheads.get(&accelerator.id)?)?;
            let sigma = accelerator.sigma;
            Some(Overheads {
                accelerator: accelerator.id.clone(),
                sigma: Occupancy {
                    count: sigma.count,
                    p50_ns: sigma.p50_ns,
                    p99_ns: sigma.p99_ns,
                    max_ns: sigma.max_ns,
                },
                overhead,
            })
        });
        Ok(measured.collect())
    }

    fn is_realtime(&self) -> bool {
        let devices = self.server.devices();
        self.server.is_realtime() && devices.iter().all(|(_, d)| d.statistics().realtime)
    }
}

/// Sends a request and waits until it is done; a signal ends the wait, too.
fn run_one(
    client: &mut Client,
    callback: CallbackId,
    request: &Request,
) -> anyhow::Result<RequestOutcome> {
    let mut ticket = client.submit(callback, request)?;
    loop {
        signals::check()?;
        match client.wait(&mut ticket, Some(LOOK)) {
            Err(accel::Error::TimedOut { .. }) => {}
            outcome => return Ok(outcome?.ok()?),
        }
    }
}

fn report(args: &Args, calibration: &Calibration) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(calibration)? + "\n";
    output::write("--out", args.out.as_deref(), || Ok(json.clone()))?;
    let text = if args.json { json } else { render(calibration) };
    write!(std::io::stdout().lock(), "{text}")?;
    Ok(())
}

fn render(calibration: &Calibration) -> String {
    let heading = ["service", "arguments", "samples", "min", "p50", "p99", "p99.9", "max"];
    let mut table = Table::new(&heading, &[2, 3, 4, 5, 6, 7]);
    let row =
        |d: &Distribution| [d.min_ns, d.p50_ns, d.p99_ns, d.p999_ns, d.max_ns].map(short_time);
    for times in &calibration.services {
        let arguments = times.arguments.map(|argument| argument.to_string()).join(" ");
        let first = [times.name.clone(), arguments, times.count.to_string()];
        table.row(first.into_iter().chain(row(&times.exec)));
    }
    let heading = ["accelerator", "overhead", "samples", "p50", "p99", "max"];
    let mut overheads = Table::new(&heading, &[2, 3, 4, 5]);
    let samples = calibration.services.iter().map(|times| times.count).sum::<u64>();
    for Overheads { accelerator, sigma, overhead } in &calibration.overheads {
        let shown = [sigma.p50_ns, sigma.p99_ns, sigma.max_ns].map(short_time);
        let first = [accelerator.clone(), "sigma".into(), sigma.count.to_string()];
        overheads.row(first.into_iter().chain(shown));
        let shown = [overhead.p50_ns, overhead.p99_ns, overhead.max_ns].map(short_time);
        let first = [accelerator.clone(), "sigma + epsilon".into(), samples.to_string()];
        overheads.row(first.into_iter().chain(shown));
    }
    let partial = match calibration.unmeasured.is_empty() {
        true => String::new(),
        false => {
            format!("PARTIAL: interrupted; not measured: {}\n", calibration.unmeasured.join(", "))
        }
    };
    let priority = if calibration.realtime { "real-time" } else { "normal priority" };
    format!(
        "{partial}{}\n{}\n{}, {priority}, {}. max is the largest of the samples, not a bound. Admission \
         control multiplies it by {} for services without a declared execution time.\n",
        table.render(),
        overheads.render(),
        calibration.machine,
        calibration.date,
        calibration.margin
    )
}

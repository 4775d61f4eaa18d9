//! `keeptime remote`: uses the accelerators of another machine over the ROS 2 graph, by hand.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use ros::message::keeptime::ChainStatus;
use ros::remote::{Client, Registration, Request};
use ros::{Distribution, Mapping, Options};
use terminal::output;

/// Options of `keeptime remote`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The domain, as in ROS_DOMAIN_ID
    #[arg(long, env = "ROS_DOMAIN_ID", default_value_t = 0)]
    domain: u16,
    /// Use only the interface with this address; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    interface: Vec<IpAddr>,
    /// The server's machine, where multicast does not reach it; may be repeated
    #[arg(long, value_name = "ADDRESS")]
    peer: Vec<Ipv4Addr>,
    /// The folder of the enclave that secures this client, instead of what ROS_SECURITY_KEYSTORE,
    /// ROS_SECURITY_ENABLE, ROS_SECURITY_STRATEGY and ROS_SECURITY_ENCLAVE_OVERRIDE say
    #[arg(long, value_name = "FOLDER")]
    security: Option<PathBuf>,
    /// The server's node
    #[arg(long, default_value = "/keeptime")]
    server: String,
    /// Way to call the server's services, as its system file says: cyclonedds or fastrtps
    #[arg(long, default_value = "cyclonedds", value_parser = parse_middleware)]
    middleware: Mapping,
    /// Longest time to look for the server, and to wait for each answer
    #[arg(long, default_value = "5s", value_parser = terminal::time)]
    timeout: Duration,
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    /// List the server's chains
    List,
    /// Register a chain, and send requests one after the other
    Run(RunArgs),
}

#[derive(clap::Args)]
struct RunArgs {
    /// The service: a kernel of the device, or what the system file names
    #[arg(long)]
    service: String,
    /// The chain
    #[arg(long, default_value = "by-hand")]
    chain: String,
    /// The chain's priority; larger is more critical
    #[arg(long, default_value_t = 0)]
    priority: u32,
    /// Arguments of the kernel, as in 1024,7
    #[arg(long, value_delimiter = ',')]
    arguments: Vec<u64>,
    /// The input of each request
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// The size of the output in bytes
    #[arg(long, default_value_t = 0)]
    output_bytes: u64,
    /// Write the last output to this file
    #[arg(long, alias = "output", value_name = "FILE")]
    out: Option<PathBuf>,
    /// Number of requests to send
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// The pause between requests
    #[arg(long, default_value = "0s", value_parser = terminal::time)]
    pause: Duration,
}

fn parse_middleware(name: &str) -> Result<Mapping, String> {
    match name {
        "cyclonedds" => Ok(Mapping::Cyclone),
        "fastrtps" => Ok(Mapping::Enhanced),
        _ => Err("expected cyclonedds or fastrtps".into()),
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let options = Options {
        domain: args.domain,
        interfaces: args.interface.clone(),
        peers: args.peer.clone(),
        distribution: Distribution::default(),
        security: crate::ros_security::enclave(args.security.clone())?,
    };
    let client = Client::connect(&options, &args.server, args.middleware, args.timeout)?;
    match &args.what {
        What::List => list(&client.chains(args.timeout)?)?,
        What::Run(run) => send(&client, run, args.timeout)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn list(chains: &[ChainStatus]) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(
        out,
        "{:<40} {:>8} {:>10} {:>14} {:>8}",
        "chain", "priority", "requests", "longest", "remote"
    )?;
    for chain in chains {
        let longest = format!("{:.3} ms", chain.longest_ns as f64 / 1e6);
        let remote = if chain.remote { "yes" } else { "no" };
        // It comes from the network.
        let name = name::clean(&chain.name);
        let (priority, requests) = (chain.priority, chain.requests);
        writeln!(out, "{name:<40} {priority:>8} {requests:>10} {longest:>14} {remote:>8}")?;
    }
    Ok(())
}

fn send(client: &Client, args: &RunArgs, timeout: Duration) -> anyhow::Result<()> {
    let input = match &args.input {
        Some(path) => std::fs::read(path).with_context(|| path.display().to_string())?,
        None => Vec::new(),
    };
    let memory = (input.len() as u64).next_multiple_of(64).checked_add(args.output_bytes);
    let memory = memory.context("--output-bytes: expected a size that memory has")?;
    let registration =
        Registration::service(&args.service).chain(&args.chain, args.priority).memory(memory);
    let mut callback = client.register(&registration, timeout)?;
    tell!("keeptime remote: chain {} in bucket {}", callback.chain(), callback.bucket());
    let (mut took, mut queued, mut executed) = (Vec::new(), Vec::new(), Vec::new());
    let mut worst = (Duration::ZERO, [0; 3]);
    let mut last = Vec::new();
    for i in 0..args.count {
        if i > 0 {
            std::thread::sleep(args.pause);
        }
        let request =
            Request::new(input.clone()).arguments(&args.arguments).output(args.output_bytes);
        let start = Instant::now();
        let answer =
            callback.run(request, timeout).with_context(|| format!("request {}", i + 1))?;
        took.push(start.elapsed());
        let parts = [answer.waited_ns, answer.queued_ns, answer.executed_ns];
        worst = worst.max((start.elapsed(), parts));
        queued.push(Duration::from_nanos(answer.queued_ns));
        executed.push(Duration::from_nanos(answer.executed_ns));
        last = answer.output;
    }
    let repeated = callback.repetitions();
    let mut text = format!("{} requests, {repeated} sent again\n", args.count);
    text += &spread("request", &mut took);
    text += &spread("queued", &mut queued);
    text += &spread("device", &mut executed);
    let (worst, parts) = worst;
    let [waited, queued, ran] = parts.map(|ns| ns as f64 / 1e3);
    let way = worst.as_secs_f64() * 1e6 - waited - queued - ran;
    text += &format!(
        "   worst: {waited:.1} us in the gateway, {queued:.1} us in the server, {ran:.1} us on the \
         device, {way:.1} us in transit\n"
    );
    std::io::stdout().write_all(text.as_bytes())?;
    if let Some(file) = &args.out {
        ensure!(last.len() as u64 == args.output_bytes, "the answer has {} bytes", last.len());
        output::whole(file, &last).with_context(|| format!("--out {}", file.display()))?;
        tell!("wrote {}", file.display());
    }
    Ok(())
}

fn spread(what: &str, times: &mut [Duration]) -> String {
    times.sort();
    // The nearest rank: the p99 of a hundred is the second largest.
    let rank = |share: f64| (times.len() as f64 * share).ceil() as usize;
    let at = |share: f64| times[rank(share).max(1) - 1].as_secs_f64() * 1e6;
    let mut text = format!("{what:>8}: median {:.1} us", at(0.5));
    if times.len() >= 100 {
        text += &format!(", p99 {:.1} us", at(0.99));
    }
    text + &format!(", max {:.1} us\n", at(1.0))
}

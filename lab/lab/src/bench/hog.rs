//! `keeptime-lab bench hog`: burns memory bandwidth on some cores, and says how much it got. What
//! co-runs with a program whose slowdown is looked for.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use bandwidth::workload::{Access, Hog, Size};
use realtime::thread;
use serde_json::json;
use trial::signals;

/// Options of `keeptime-lab bench hog`.
#[derive(clap::Args)]
pub(super) struct Args {
    /// Cores, a hog on each of them; by default all but the first one
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Access of a hog to each line of its array: read, write, read-write, or fresh, which writes
    /// to pages that are new each time
    #[arg(long, default_value = "write", value_parser = parse_access)]
    access: Access,
    /// Size of the array of each: half-l1d, half-l2, llc, twice-llc, or as in 64MiB
    #[arg(long, default_value = "twice-llc")]
    size: Size,
    /// Time after which the hogs end; without it they run until a signal
    #[arg(long, value_name = "TIME", value_parser = terminal::time)]
    duration: Option<Duration>,
    /// Time between two reports of the hogs' rates
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_interval)]
    interval: Duration,
    /// Print a line of JSON for each interval
    #[arg(long)]
    json: bool,
}

/// Parses the name of a hog's access.
pub(super) fn parse_access(text: &str) -> Result<Access, String> {
    match text {
        "read" => Ok(Access::Read),
        "write" => Ok(Access::Write),
        "read-write" => Ok(Access::ReadWrite),
        "fresh" => Ok(Access::Fresh),
        _ => Err("expected read, write, read-write or fresh".into()),
    }
}

/// The name of what a hog does.
pub(super) fn access_name(access: Access) -> &'static str {
    match access {
        Access::Read => "read",
        Access::Write => "write",
        Access::ReadWrite => "read-write",
        Access::Fresh => "fresh",
    }
}

fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = terminal::time(text)?;
    let least = Duration::from_millis(1);
    if interval >= least { Ok(interval) } else { Err("expected at least 1ms".into()) }
}

/// Runs the command.
pub(super) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let cores = match args.cores.as_slice() {
        [] => {
            let all = thread::cores();
            let others = all.get(1..).filter(|others| !others.is_empty());
            others.unwrap_or(&all).to_vec()
        }
        cores => cores.to_vec(),
    };
    let start = |core: &usize| {
        Hog::start(*core, args.access, args.size)
            .with_context(|| format!("cannot start a hog on core {core}"))
    };
    let hogs = cores.iter().map(start).collect::<anyhow::Result<Vec<Hog>>>()?;
    hogs.iter().for_each(Hog::resume);
    let begin = Instant::now();
    let mut out = std::io::stdout().lock();
    let mut last = (begin, hogs.iter().map(Hog::bytes).collect::<Vec<u64>>());
    let over = |now: Instant| args.duration.is_some_and(|whole| now - begin >= whole);
    while signals::interrupted().is_none() && !over(last.0) {
        let left = args.duration.map(|whole| whole.saturating_sub(begin.elapsed()));
        // After a signal the last interval is shorter.
        let _ = signals::sleep(args.interval.min(left.unwrap_or(args.interval)));
        let now = (Instant::now(), hogs.iter().map(Hog::bytes).collect::<Vec<u64>>());
        let seconds = (now.0 - last.0).as_secs_f64();
        let got = now.1.iter().zip(&last.1).map(|(now, last)| (now - last) as f64 / seconds / 1e6);
        let got: Vec<f64> = got.collect();
        tell(args, &mut out, now.0 - begin, &cores, &got)?;
        last = now;
    }
    // Without a duration a signal is the usual end.
    let interrupted = signals::interrupted().filter(|_| args.duration.is_some());
    interrupted.map_or(Ok(ExitCode::SUCCESS), |interrupted| Err(interrupted.into()))
}

fn tell(
    args: &Args,
    out: &mut impl Write,
    at: Duration,
    cores: &[usize],
    got: &[f64],
) -> std::io::Result<()> {
    let total: f64 = got.iter().sum();
    if args.json {
        let hogs = cores.iter().zip(got).map(|(core, got)| json!({"core": core, "mb_per_s": got}));
        let hogs: Vec<_> = hogs.collect();
        let access = access_name(args.access);
        let line = json!({
            "schema": "keeptime.bench-hog", "version": 1, "at_ns": at.as_nanos() as u64,
            "access": access, "hogs": hogs, "mb_per_s": total,
        });
        writeln!(out, "{line}")
    } else {
        let each = cores.iter().zip(got).map(|(core, got)| format!("core {core}: {got:.0}"));
        let each: Vec<String> = each.collect();
        writeln!(out, "{:8.2} s  {total:8.0} MB/s  ({})", at.as_secs_f64(), each.join(", "))
    }
}

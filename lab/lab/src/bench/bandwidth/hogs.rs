//! Hogs in a process of their own, so that a regulator can manage their threads and nobody
//! else's.
//!
//! The process first says the kernel's numbers of its hogs' threads. Then it is told over its
//! standard input which of its hogs may run (`run 0 2`), and answers
//! `ok` when no other one runs any more; or it is asked (`bytes`) what each has touched so far.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitCode, Stdio};

use anyhow::{Context, ensure};
use bandwidth::regulator::Managed;
use bandwidth::workload::{Access, Hog, Size};
use realtime::clock::monotonic_ns;
use realtime::thread;

use super::super::hog::{access_name, parse_access};

/// Bytes that a hog must touch before it counts as running.
const SETTLED_BYTES: u64 = 1 << 20;
/// It is stopped by a regulator, or there is no core for it.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Core, access and array of a hog.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Its core.
    pub core: usize,
    /// Its access to each line of the array.
    pub access: Access,
    /// Its array.
    pub size: Size,
}

/// The process with the hogs.
pub struct Hogs {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
    /// Its hogs.
    pub places: Vec<Place>,
    /// The kernel's numbers of their threads.
    pub threads: Vec<i32>,
}

/// Beginning of a count: the time, and the bytes that each hog had touched by then.
pub struct Meter {
    since_ns: u64,
    bytes: Vec<u64>,
}

impl Hogs {
    /// Starts them, paused; what is not a hog in their process stays on `home`.
    pub fn start(places: &[Place], home: &[usize]) -> anyhow::Result<Hogs> {
        let mut command = Command::new(std::env::current_exe()?);
        let list = home.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        command.args(["bench-hogs", "--home", &list]);
        for Place { core, access, size } in places {
            let bytes = size.bytes(*core)?;
            command.arg(format!("{core}:{}:{bytes}", access_name(*access)));
        }
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("the process of the hogs cannot be started")?;
        let (to, from) = (child.stdin.take(), child.stdout.take());
        let (Some(to), Some(from)) = (to, from) else { unreachable!("both are pipes") };
        let from = BufReader::new(from);
        let mut hogs = Hogs { child, to, from, places: places.to_vec(), threads: Vec::new() };
        let line = hogs.line()?;
        let threads = line.split_whitespace().map(str::parse).collect::<Result<Vec<i32>, _>>();
        hogs.threads = threads.with_context(|| format!("the process of the hogs says {line:?}"))?;
        Ok(hogs)
    }

    /// Its threads, as a regulator is told of them.
    pub fn managed(&self) -> anyhow::Result<Managed> {
        Ok(Managed::Process(i32::try_from(self.child.id())?))
    }

    /// Lets these run, and no others; returns when that is so.
    pub fn run(&mut self, running: &[usize]) -> anyhow::Result<()> {
        self.tell(running)?;
        let (before, until) = (self.bytes()?, monotonic_ns() + PATIENCE_NS);
        loop {
            let now = self.bytes()?;
            if running.iter().all(|hog| now[*hog] >= before[*hog] + SETTLED_BYTES) {
                return Ok(());
            }
            ensure!(monotonic_ns() < until, "a hog does not get on");
            std::thread::yield_now();
        }
    }

    /// Stops all.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.tell(&[])
    }

    /// Begins to count.
    pub fn meter(&mut self) -> anyhow::Result<Meter> {
        let bytes = self.bytes()?;
        Ok(Meter { since_ns: monotonic_ns(), bytes })
    }

    /// Returns the rate of each hog since then, in megabytes (10^6) a second.
    pub fn since(&mut self, meter: &Meter) -> anyhow::Result<Vec<f64>> {
        let bytes = self.bytes()?;
        let us = (monotonic_ns() - meter.since_ns) as f64 / 1e3;
        Ok(bytes.iter().zip(&meter.bytes).map(|(now, then)| (now - then) as f64 / us).collect())
    }

    fn tell(&mut self, running: &[usize]) -> anyhow::Result<()> {
        let words: Vec<String> = running.iter().map(usize::to_string).collect();
        writeln!(self.to, "run {}", words.join(" "))?;
        let line = self.line()?;
        ensure!(line == "ok", "the process of the hogs says {line:?} instead of ok");
        Ok(())
    }

    fn bytes(&mut self) -> anyhow::Result<Vec<u64>> {
        writeln!(self.to, "bytes")?;
        let line = self.line()?;
        let numbers = line.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        let numbers = numbers.with_context(|| format!("the process of the hogs says {line:?}"))?;
        ensure!(numbers.len() == self.places.len(), "the process of the hogs says {line:?}");
        Ok(numbers)
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        ensure!(!line.is_empty(), "the process of the hogs has ended");
        Ok(line.trim().to_owned())
    }
}

impl Drop for Hogs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Options of the hidden command that is the process.
#[derive(clap::Args)]
pub struct ProcessArgs {
    /// Cores of what is not a hog
    #[arg(long, value_delimiter = ',')]
    home: Vec<usize>,
    /// Hogs, as in 1:write:67108864
    #[arg(value_parser = parse_place)]
    places: Vec<Place>,
}

fn parse_place(text: &str) -> Result<Place, String> {
    let mut parts = text.split(':');
    let mut part = || parts.next().ok_or_else(|| "expected core:access:bytes".to_owned());
    let core = part()?.parse().map_err(|error| format!("core: {error}"))?;
    Ok(Place { core, access: parse_access(part()?)?, size: part()?.parse()? })
}

/// The process: does what it is told until nobody tells it any more.
pub fn process(args: &ProcessArgs) -> anyhow::Result<ExitCode> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let start = |place: &Place| Hog::start(place.core, place.access, place.size);
    let hogs = args.places.iter().map(start).collect::<Result<Vec<Hog>, _>>()?;
    thread::pin(&args.home)?;
    let mut out = std::io::stdout().lock();
    let mut say = |text: &str| writeln!(out, "{text}").and_then(|()| out.flush());
    let threads: Vec<String> = hogs.iter().map(|hog| hog.thread_id().to_string()).collect();
    say(&threads.join(" "))?;
    for line in std::io::stdin().lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        if words.next() == Some("bytes") {
            let bytes: Vec<String> = hogs.iter().map(|hog| hog.bytes().to_string()).collect();
            say(&bytes.join(" "))?;
            continue;
        }
        let running = words.map(str::parse).collect::<Result<Vec<usize>, _>>()?;
        for (number, hog) in hogs.iter().enumerate() {
            if running.contains(&number) { hog.resume() } else { hog.pause() }
        }
        say("ok")?;
    }
    Ok(ExitCode::SUCCESS)
}

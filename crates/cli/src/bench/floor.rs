//! The floor under any request to another process: one shared page, a futex wake there and a
//! futex wake back. The peer is a process of its own.

use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use anyhow::Context;
use realtime::clock::monotonic_ns;
use realtime::thread::{self, Policy};
use shm::{Mapping, Segment, futex};

/// Words of the page, in different cache lines.
const PING: usize = 0;
const PONG: usize = 16;
const PAGE_BYTES: usize = 4096;
/// The ping that ends the peer.
const END: u32 = u32::MAX;

/// Options of the hidden command that is the peer.
#[derive(clap::Args)]
pub struct PeerArgs {
    /// The memory file of the page
    page: std::path::PathBuf,
    core: usize,
    priority: u8,
}

/// The peer: answers each ping, until it is told to end or its parent is gone.
pub fn peer(args: &PeerArgs) -> anyhow::Result<ExitCode> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(&args.page)?;
    let page = Segment::accept(file.into(), PAGE_BYTES as u64)?.map()?;
    let (ping, pong) = (page.word(PING)?, page.word(PONG)?);
    thread::pin(&[args.core])?;
    prioritise(args.priority)?;
    println!("ready");
    std::io::stdout().flush()?;
    let mut last = 0;
    while last != END {
        while ping.load(Ordering::Acquire) == last {
            futex::wait(ping, last, None);
        }
        last = ping.load(Ordering::Acquire);
        pong.store(last, Ordering::Release);
        futex::wake(pong);
    }
    Ok(ExitCode::SUCCESS)
}

/// Gives the calling thread a SCHED_FIFO priority, 0 for normal.
pub fn prioritise(priority: u8) -> anyhow::Result<()> {
    Ok(thread::set_policy(if priority == 0 { Policy::Normal } else { Policy::Fifo(priority) })?)
}

/// The side that measures.
pub struct Floor {
    page: Arc<Mapping>,
    peer: std::process::Child,
    _segment: Segment,
    round: u32,
}

impl Floor {
    /// Starts the peer on a core.
    pub fn start(core: usize, priority: u8) -> anyhow::Result<Floor> {
        use std::os::fd::{AsFd, AsRawFd};
        let segment = Segment::create("keeptime-floor", PAGE_BYTES)?;
        let page = segment.map()?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), segment.as_fd().as_raw_fd());
        let mut peer = std::process::Command::new(std::env::current_exe()?)
            .args(["bench-floor-peer", &path, &core.to_string(), &priority.to_string()])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .context("the peer of the floor cannot be started")?;
        let mut line = String::new();
        let stdout = peer.stdout.take().context("the peer has no output")?;
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        anyhow::ensure!(line.trim() == "ready", "the peer of the floor did not start");
        Ok(Floor { page, peer, _segment: segment, round: 0 })
    }

    /// One round trip in nanoseconds. The measuring side spins or sleeps; the peer sleeps.
    pub fn round_trip(&mut self, spin: bool) -> anyhow::Result<u64> {
        self.round = self.round.wrapping_add(1) % END;
        let start = monotonic_ns();
        self.send(self.round)?;
        let pong = self.page.word(PONG)?;
        loop {
            let seen = pong.load(Ordering::Acquire);
            if seen == self.round {
                return Ok(monotonic_ns() - start);
            }
            if spin {
                std::hint::spin_loop();
            } else if !futex::wait(pong, seen, Some(Duration::from_secs(1))) {
                let gone = self.peer.try_wait()?.is_some();
                anyhow::ensure!(!gone, "the peer of the floor ended");
            }
        }
    }

    fn send(&self, value: u32) -> anyhow::Result<()> {
        let ping = self.page.word(PING)?;
        ping.store(value, Ordering::Release);
        futex::wake(ping);
        Ok(())
    }
}

impl Drop for Floor {
    fn drop(&mut self) {
        let _ = self.send(END);
        let _ = self.peer.wait();
    }
}

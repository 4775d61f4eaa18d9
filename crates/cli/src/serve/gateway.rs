//! The gateway to the ROS 2 graph, as a child process of `keeptime serve`.
//!
//! It is an ordinary client of the server: whatever it dies of, the server goes on and frees what
//! it held. It is started anew after a pause, and told how often that was.

use ::log::Level;
use anyhow::Context;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::log::Lines;

/// The pause before a gateway that ended is started anew. It doubles with each one that ends soon,
/// so that one which cannot live costs little and says little.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(64);
/// A gateway that ends sooner than this after its start ends soon.
const SOON: Duration = Duration::from_secs(10);

/// Interval at which the server looks if the gateway lives.
const LOOK: Duration = Duration::from_millis(100);

/// The gateway, kept alive until this is dropped.
pub(super) struct Gateway {
    end: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Gateway {
    /// Starts the gateway that a system file describes, for the server at a socket.
    pub(super) fn start(config: &Path, socket: &Path, log: Lines) -> anyhow::Result<Gateway> {
        let program = std::env::current_exe().context("this program's own file")?;
        let (end, ended) = channel();
        let (config, socket) = (config.to_path_buf(), socket.to_path_buf());
        let mut starts = Starts {
            program,
            config,
            socket,
            restarts: 0,
            pause: PAUSE,
            started: Instant::now(),
            log,
        };
        let mut child = starts.start().context("the gateway to the ROS 2 graph")?;
        let keeper =
            std::thread::Builder::new().name("gateway-keeper".into()).spawn(move || {
                while ended.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                    if let Some(next) = starts.revive(&mut child, &ended) {
                        child = next;
                    }
                }
                // It has no state to save, and the server frees what it holds.
                let _ = child.kill();
                let _ = child.wait();
            })?;
        Ok(Gateway { end: Some(end), keeper: Some(keeper) })
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        self.end.take();
        if let Some(keeper) = self.keeper.take() {
            // A keeper that panicked has nothing left to keep.
            let _ = keeper.join();
        }
    }
}

struct Starts {
    program: PathBuf,
    config: PathBuf,
    socket: PathBuf,
    restarts: u32,
    pause: Duration,
    started: Instant,
    log: Lines,
}

impl Starts {
    fn start(&self) -> std::io::Result<Child> {
        Command::new(&self.program)
            .arg("ros-gateway")
            .arg(&self.config)
            .arg("--socket")
            .arg(&self.socket)
            .args(["--restarts", &self.restarts.to_string()])
            .args(["--parent", &std::process::id().to_string()])
            .stdin(Stdio::null())
            .spawn()
    }

    /// A new gateway, if the old one has ended.
    fn revive(&mut self, child: &mut Child, ended: &Receiver<()>) -> Option<Child> {
        let status = match child.try_wait() {
            Ok(None) => return None,
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        self.restarts += 1;
        let next = self.restarts + 1;
        self.log.say(Level::Warn, &format!("the gateway ended ({status}), start {next}"));
        let ended_soon = self.started.elapsed() < SOON;
        let pause = if ended_soon { self.pause } else { PAUSE };
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        if ended.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
            return None;
        }
        self.started = Instant::now();
        match self.start() {
            Ok(next) => Some(next),
            Err(error) => {
                self.log.say(Level::Error, &format!("the gateway does not start: {error}"));
                None
            }
        }
    }
}

//! One life of the process that has the GPU: started, watched, ended.

use super::board::{self, Answer, Mailbox, Order};
use super::memory::Memories;
use super::{Endless, HostProgram};
use crate::host::{Hello, Setup, ToHost};
use crate::patience::{Patience, Running};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use shm::socket::{Received, Socket};
use shm::{Mapping, Segment};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Variable with the number of queues that the driver has for the streams of a context, eight
/// unless it is told. Streams that share one wait for each other, whatever their priorities.
const CONNECTIONS: &str = "CUDA_DEVICE_MAX_CONNECTIONS";
/// The most that the driver takes.
const MOST_CONNECTIONS: &str = "32";
/// Longest time until it is ready: services are compiled and opened.
const START: Duration = Duration::from_secs(300);
/// Longest time until it ends once nothing is left for it to do.
const END: Duration = Duration::from_secs(2);
/// Longest time until the kernel has ended it: what runs on the GPU is stopped meanwhile.
const KILL: Duration = Duration::from_secs(5);
/// Longest time for which it may leave a message unread.
const SEND: Duration = Duration::from_secs(1);
/// Room for what it says when it has started.
const HELLO_BYTES: usize = 1 << 16;

/// A process that has the GPU.
pub(super) struct Process {
    /// Number of its life, from 1.
    pub life: u64,
    /// Start times of its slices.
    pub running: Running,
    mailboxes: Vec<Mailbox>,
    memories: Memories,
    shared: Arc<Shared>,
    watcher: Option<JoinHandle<()>>,
}

/// State for the thread that watches it.
struct Shared {
    socket: Socket,
    pid: OwnedFd,
    /// Nothing is to be expected of it any more.
    gone: AtomicBool,
    board: Arc<Mapping>,
    units: usize,
}

impl Process {
    /// Starts it, and waits until it is ready or says why it is not.
    ///
    /// # Errors
    /// The reason why it is not.
    pub(super) fn start(
        program: &HostProgram,
        setup: &Setup,
        life: u64,
    ) -> Result<(Process, Hello), String> {
        let failed = |what: &str, why: &dyn std::fmt::Display| format!("{what}: {why}");
        let units = setup.cores.len();
        let segment = Segment::create("keeptime-gpu-board", board::bytes(units))
            .map_err(|error| failed("memory for the GPU process", &error))?;
        let board = segment.map().map_err(|error| failed("that memory", &error))?;
        let [socket, other] =
            Socket::pair().map_err(|errno| failed("a socket for the GPU process", &errno))?;
        let mut command = Command::new(&program.path);
        if std::env::var_os(CONNECTIONS).is_none() {
            command.env(CONNECTIONS, MOST_CONNECTIONS);
        }
        let child = command
            .args(&program.arguments)
            .stdin(Stdio::from(OwnedFd::from(other)))
            .stdout(Stdio::null())
            // A signal that ends the server from a terminal ends this through the server.
            .process_group(0)
            .spawn()
            .map_err(|error| format!("{}: {error}", program.path.display()))?;
        let pid = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())
            .map_err(|errno| failed("pidfd of the GPU process", &errno))?;
        let gone = AtomicBool::new(false);
        let shared = Arc::new(Shared { socket, pid, gone, board, units });
        let watcher = watch(child, &shared)?;
        let mailboxes = (0..units).map(|unit| Mailbox::new(&shared.board, unit));
        let process = Process {
            life,
            running: Running::default(),
            mailboxes: mailboxes
                .collect::<Result<_, _>>()
                .map_err(|error| failed("mailboxes", &error))?,
            memories: Memories::default(),
            shared,
            watcher: Some(watcher),
        };
        let hello = process.greet(setup, &segment)?;
        Ok((process, hello))
    }

    fn greet(&self, setup: &Setup, board: &Segment) -> Result<Hello, String> {
        let text = serde_json::to_vec(setup).map_err(|error| error.to_string())?;
        let segment = Segment::create("keeptime-gpu-setup", text.len());
        let segment = segment.map_err(|error| format!("setup of the GPU process: {error}"))?;
        let mapping =
            segment.map().map_err(|error| format!("setup of the GPU process: {error}"))?;
        let written = shm::PeerSlice::whole(mapping).write(0, &text);
        written.map_err(|error| format!("setup of the GPU process: {error}"))?;
        let packet = ToHost::Setup { bytes: text.len() as u64, units: self.mailboxes.len() as u64 };
        let sent = self.shared.socket.send(&packet.encode(), &[segment.as_fd(), board.as_fd()]);
        sent.map_err(|errno| format!("sending to the GPU process: {errno}"))?;
        let mut buffer = vec![0; HELLO_BYTES];
        let end = Instant::now() + START;
        loop {
            let heard = self.shared.socket.receive(&mut buffer);
            match heard.map_err(|errno| format!("receiving from the GPU process: {errno}"))? {
                Received::Packet(bytes, _) => {
                    return serde_json::from_slice(&buffer[..bytes])
                        .map_err(|error| format!("malformed answer of the GPU process: {error}"));
                }
                Received::Closed => return Err("the GPU process ended during its start".into()),
                Received::Nothing if Instant::now() > end => {
                    return Err(format!("not ready within {} s", START.as_secs()));
                }
                Received::Nothing => {
                    let _ = self.shared.socket.wait_readable(100);
                }
            }
        }
    }

    /// Returns true if nothing is to be expected of it any more.
    pub(super) fn is_gone(&self) -> bool {
        self.shared.gone.load(Ordering::Acquire)
    }

    /// Makes it known that a part of memory will be used.
    ///
    /// # Errors
    /// It is gone, or cannot be told.
    pub(super) fn part(&self, memory: &shm::PeerSlice) -> Result<board::Part, ()> {
        let Some((mapping, offset)) = memory.mapping().filter(|_| !memory.is_empty()) else {
            return Ok(board::Part::default());
        };
        let number = self.memories.number(mapping, |number| {
            let bytes = mapping.size() as u64;
            self.tell(&ToHost::Memory { number, bytes }, Some(mapping))
        })?;
        Ok(board::Part { memory: number, offset: offset as u64, bytes: memory.len() as u64 })
    }

    /// Releases memory that has no other holder.
    pub(super) fn sweep(&self) {
        for number in self.memories.unused() {
            let _ = self.tell(&ToHost::Forget { number }, None);
        }
    }

    /// Lets go of memory that only the caller has, too.
    pub(super) fn let_go(&self, memory: &Arc<Mapping>) {
        if let Some(number) = self.memories.take(memory) {
            let _ = self.tell(&ToHost::Forget { number }, None);
        }
    }

    /// A launch is over.
    pub(super) fn over(&self, launch: u64) {
        let _ = self.tell(&ToHost::Over { launch }, None);
    }

    fn tell(&self, what: &ToHost, memory: Option<&Arc<Mapping>>) -> Result<(), ()> {
        let files: Vec<_> = memory.iter().map(|mapping| mapping.file()).collect();
        let end = Instant::now() + SEND;
        loop {
            match self.shared.socket.send(&what.encode(), &files) {
                Ok(()) => return Ok(()),
                Err(Errno::AGAIN) if Instant::now() < end && !self.is_gone() => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(_) => {
                    self.kill();
                    return Err(());
                }
            }
        }
    }

    /// Orders a unit to do something, whose last order had this number, and waits for its end.
    ///
    /// # Errors
    /// [`Endless`], and the process is ended by that.
    pub(super) fn ask(
        &self,
        unit: usize,
        last: &mut u32,
        order: &Order,
        patience: &mut Patience<'_>,
    ) -> Result<Answer, Endless> {
        let mailbox = &self.mailboxes[unit];
        *last = mailbox.order(order, *last);
        loop {
            match mailbox.await_answer(*last, patience.step()) {
                Some(Answer::Broken) => {
                    self.kill();
                    return Ok(Answer::Broken);
                }
                Some(answer) => return Ok(answer),
                None if self.is_gone() => return Ok(Answer::Broken),
                None if patience.is_over() => {
                    self.kill();
                    return Err(Endless);
                }
                None => {}
            }
        }
    }

    /// Ends it, whatever it does; returns at once.
    pub(super) fn kill(&self) {
        self.shared.leave();
        let _ = pidfd_send_signal(&self.shared.pid, Signal::KILL);
    }

    /// Waits until the kernel has ended it and what it had on the GPU.
    ///
    /// # Errors
    /// It does not end.
    pub(super) fn buried(&self) -> Result<(), String> {
        self.kill();
        if self.ends_within(KILL) {
            return Ok(());
        }
        Err(format!("the GPU process has not ended in {} s", KILL.as_secs()))
    }

    fn ends_within(&self, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout =
                Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            let mut ended = [PollFd::new(&self.shared.pid, PollFlags::IN)];
            match poll(&mut ended, Some(&timeout)) {
                Ok(0) => return false,
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
    }
}

impl Shared {
    /// Marks the process as gone: no thread is to wait for it any more.
    fn leave(&self) {
        self.gone.store(true, Ordering::Release);
        let mailboxes = (0..self.units).filter_map(|unit| Mailbox::new(&self.board, unit).ok());
        mailboxes.for_each(|mailbox| mailbox.rouse());
    }
}

/// Waits for its end on a thread of its own.
fn watch(mut child: Child, shared: &Arc<Shared>) -> Result<JoinHandle<()>, String> {
    let shared = shared.clone();
    let watch = move || {
        // Without a policy or a core that it was given by the thread that started it: its end is
        // told at once all the same, for nothing else has to be done then.
        let _ = child.wait();
        shared.leave();
    };
    let thread = std::thread::Builder::new().name("gpu-watch".into()).spawn(watch);
    thread.map_err(|error| format!("thread gpu-watch: {error}"))
}

impl Drop for Process {
    fn drop(&mut self) {
        if !self.is_gone() {
            self.mailboxes.iter().for_each(|mailbox| mailbox.end());
            let _ = self.shared.socket.send(&ToHost::End.encode(), &[]);
            self.ends_within(END);
        }
        if self.buried().is_ok() {
            if let Some(watcher) = self.watcher.take() {
                let _ = watcher.join();
            }
        }
    }
}

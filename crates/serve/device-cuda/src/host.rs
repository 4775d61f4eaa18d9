//! The process that has a GPU for a server: [`serve`] is its main function.
//!
//! It reads a socket on its standard input: the setup first, then which memory it is given, what
//! it can forget, and that it is to end. Orders come through the mailboxes. If the server goes, or
//! something here breaks, it ends, and the kernel and the driver with it end what runs on the GPU.

use crate::Config;
use crate::local::{Local, UnitState};
use crate::remote::board::{Answer, Mailbox, Order, Part};
use crate::service::Service;
use device::hosted::{Backend, Task};
use device::{KernelId, Launch, Level};
use realtime::thread::{self, Scheduling};
use serde::{Deserialize, Serialize};
use shm::socket::{Received, Socket};
use shm::{Doorbell, Mapping, PeerSlice, Segment};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time for which a unit waits for memory that it was told of.
const MEMORY: Duration = Duration::from_secs(5);
/// Longest time for which units may go on when they are told to end.
const END: Duration = Duration::from_secs(1);
/// The longest reason that is told.
const REASON_BYTES: usize = 1 << 15;

/// Configuration of the process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Setup {
    pub(crate) ordinal: usize,
    pub(crate) levels: u8,
    pub(crate) spins: bool,
    pub(crate) blocks_per_slice: u32,
    pub(crate) slices_at_once: u32,
    pub(crate) lowest: usize,
    pub(crate) in_place: bool,
    pub(crate) whole: bool,
    pub(crate) services: Vec<Service>,
    pub(crate) policy: Scheduling,
    /// Core of each unit.
    pub(crate) cores: Vec<Option<usize>>,
    /// Cores of the driver's own threads.
    pub(crate) home: Vec<usize>,
}

/// Its first words.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum Hello {
    /// The GPU's name, how many blocks of `busy` fill it, and how many slices it takes at once.
    Ready { name: String, fill: u64, burst: u32 },
    /// Reason why it cannot serve.
    Failed(String),
}

/// Message of the server to the process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ToHost {
    /// The first packet, with the setup and the mailboxes.
    Setup {
        bytes: u64,
        units: u64,
    },
    /// A packet with memory of a client.
    Memory {
        number: u64,
        bytes: u64,
    },
    Forget {
        number: u64,
    },
    /// A launch that shared something on the GPU.
    Over {
        launch: u64,
    },
    End,
}

impl ToHost {
    const BYTES: usize = 24;

    /// Encodes the packet.
    pub(crate) fn encode(self) -> [u8; Self::BYTES] {
        let words = match self {
            ToHost::Setup { bytes, units } => [0, bytes, units],
            ToHost::Memory { number, bytes } => [1, number, bytes],
            ToHost::Forget { number } => [2, number, 0],
            ToHost::Over { launch } => [3, launch, 0],
            ToHost::End => [4, 0, 0],
        };
        let mut packet = [0; Self::BYTES];
        for (bytes, word) in packet.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&u64::to_le_bytes(word));
        }
        packet
    }

    fn decode(packet: &[u8]) -> Option<ToHost> {
        let packet: &[u8; Self::BYTES] = packet.try_into().ok()?;
        let word = |at: usize| std::array::from_fn(|byte| packet[8 * at + byte]);
        let [kind, a, b] = [0, 1, 2].map(word).map(u64::from_le_bytes);
        Some(match kind {
            0 => ToHost::Setup { bytes: a, units: b },
            1 => ToHost::Memory { number: a, bytes: b },
            2 => ToHost::Forget { number: a },
            3 => ToHost::Over { launch: a },
            4 => ToHost::End,
            _ => return None,
        })
    }
}

/// Runs a GPU for the process at the other end of the standard input, until that ends or says so.
pub fn serve() -> ExitCode {
    match (std::io::stdin().as_fd().try_clone_to_owned(), Doorbell::new()) {
        (Ok(input), Ok(bell)) => {
            let (socket, bell) = (Socket::from(input), Arc::new(bell));
            HostSocket { socket, buffer: [0; ToHost::BYTES], bell }.serve()
        }
        _ => ExitCode::from(2),
    }
}

struct HostSocket {
    socket: Socket,
    buffer: [u8; ToHost::BYTES],
    /// Rings when a page of a client's memory is lost. It needs no listener: the server maps the
    /// same memory, and ends clients that lose theirs.
    bell: Arc<Doorbell>,
}

impl HostSocket {
    fn serve(mut self) -> ExitCode {
        let started = match self.setup() {
            Ok((setup, board)) => start(&setup, &board),
            Err(why) => Err(why),
        };
        let hello = match &started {
            Ok((shared, _)) => {
                let gpu = &shared.gpu;
                Hello::Ready { name: gpu.name().to_owned(), fill: gpu.fill(), burst: gpu.burst() }
            }
            Err(why) => Hello::Failed(why.chars().take(REASON_BYTES / 4).collect()),
        };
        let text = serde_json::to_vec(&hello).unwrap_or_default();
        let told = self.socket.send(&text, &[]);
        let (Ok((shared, units)), Ok(())) = (started, told) else { return ExitCode::from(2) };
        self.listen(&shared);
        end(shared, units)
    }

    /// The next packet; none if there will be no more.
    fn next(&mut self) -> Option<(ToHost, Vec<rustix::fd::OwnedFd>)> {
        loop {
            match self.socket.receive(&mut self.buffer) {
                Ok(Received::Packet(bytes, files)) => {
                    let packet = self.buffer.get(..bytes).and_then(ToHost::decode)?;
                    return Some((packet, files));
                }
                Ok(Received::Nothing) => drop(self.socket.wait_readable(60_000)),
                Ok(Received::Closed) | Err(_) => return None,
            }
        }
    }

    fn setup(&mut self) -> Result<(Setup, Arc<Mapping>), String> {
        let nonsense = || "malformed setup from the server".to_owned();
        let (packet, files) = self.next().ok_or_else(nonsense)?;
        let (ToHost::Setup { bytes, units }, Ok([setup, board])) =
            (packet, <[_; 2]>::try_from(files))
        else {
            return Err(nonsense());
        };
        let map = |file, bytes| Segment::accept(file, bytes).and_then(|segment| segment.map());
        let read = map(setup, bytes).and_then(|mapping| {
            let mut text = vec![0; mapping.size()];
            PeerSlice::whole(mapping).read(0, &mut text)?;
            Ok(text)
        });
        let text = read.map_err(|error| error.to_string())?;
        let setup: Setup = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
        let board_bytes = crate::remote::board::bytes(setup.cores.len()) as u64;
        let board = map(board, board_bytes).map_err(|error| error.to_string())?;
        if units != setup.cores.len() as u64 { Err(nonsense()) } else { Ok((setup, board)) }
    }

    /// Maps a client's memory, so that the loss of a page does not end this process.
    fn map(&self, file: rustix::fd::OwnedFd, bytes: u64) -> Option<Arc<Mapping>> {
        let mapping = Segment::accept(file, bytes).and_then(|s| s.map_guarded(&self.bell)).ok()?;
        mapping.populate(0, mapping.size()).ok()?;
        Some(Arc::new(mapping))
    }

    fn listen(&mut self, shared: &Shared) {
        while let Some((packet, files)) = self.next() {
            match packet {
                ToHost::Memory { number, bytes } => {
                    // Without it the launches that need it fail.
                    if let Some(mapping) = files.into_iter().next().and_then(|f| self.map(f, bytes))
                    {
                        shared.lock().memory.insert(number, mapping);
                        shared.came.notify_all();
                    }
                }
                ToHost::Forget { number } => {
                    let gone = shared.lock().memory.remove(&number);
                    drop(gone);
                    shared.gpu.context_gone();
                }
                ToHost::Over { launch } => {
                    let word = shared.lock().launches.remove(&launch);
                    word.inspect(|word| shared.gpu.over(std::slice::from_ref(word)));
                }
                ToHost::End | ToHost::Setup { .. } => return,
            }
        }
    }
}

/// State that the threads of this process share.
struct Shared {
    gpu: Local,
    known: Mutex<Known>,
    /// Memory came.
    came: Condvar,
}

#[derive(Default)]
struct Known {
    memory: HashMap<u64, Arc<Mapping>>,
    /// The workspaces of launches that share something on the GPU.
    launches: HashMap<u64, Arc<AtomicU64>>,
}

type Units = Vec<JoinHandle<()>>;

/// Opens the GPU and starts the units.
fn start(setup: &Setup, board: &Arc<Mapping>) -> Result<(Arc<Shared>, Units), String> {
    // It was started by a thread of a server, which may be a real-time one on a core of its own.
    let _ = thread::set_policy(Scheduling::Normal);
    let _ = thread::pin(&setup.home);
    let config = Config {
        ordinal: setup.ordinal,
        levels: setup.levels,
        spins: setup.spins,
        blocks_per_slice: setup.blocks_per_slice,
        slices_at_once: setup.slices_at_once,
        lowest: setup.lowest,
        in_place: setup.in_place,
        whole: setup.whole,
        services: setup.services.clone(),
        ..Config::default()
    };
    let gpu = Local::open(&config)?;
    let shared = Arc::new(Shared { gpu, known: Mutex::default(), came: Condvar::new() });
    let (told, ready) = mpsc::channel();
    let mut units = Vec::new();
    for (unit, core) in setup.cores.iter().copied().enumerate() {
        let mailbox = Mailbox::new(board, unit).map_err(|error| error.to_string())?;
        let (shared, told, policy) = (shared.clone(), told.clone(), setup.policy);
        let run = move || {
            thread::set_name(&format!("gpu-unit-{unit}"));
            let pinned = core.map_or(Ok(()), |core| thread::pin(&[core]));
            // The device tells when it is refused.
            let _ = thread::set_policy(policy);
            let equipped = match pinned {
                Ok(()) => shared.gpu.worker(unit),
                Err(error) => Err(error.to_string()),
            };
            let (held, answer) = match equipped {
                Ok(held) => (Some(held), Ok(())),
                Err(why) => (None, Err(why)),
            };
            let _ = told.send(answer);
            drop(told);
            if let Some(mut held) = held {
                shared.work(&mailbox, &mut held);
            }
        };
        let thread = std::thread::Builder::new().name(format!("gpu-unit-{unit}")).spawn(run);
        units.push(thread.map_err(|error| error.to_string())?);
    }
    drop(told);
    ready.iter().collect::<Result<(), String>>()?;
    // As the server's own. Without it a page may have to come back from a disk.
    let _ = thread::lock_memory_on_use();
    Ok((shared, units))
}

/// Gives the GPU back, if the units have ended.
fn end(shared: Arc<Shared>, units: Units) -> ExitCode {
    let end = Instant::now() + END;
    while units.iter().any(|unit| !unit.is_finished()) {
        if Instant::now() > end {
            // One is in the driver, which would not let this process end in order.
            let _ = rustix::process::kill_process(
                rustix::process::getpid(),
                rustix::process::Signal::KILL,
            );
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    for unit in units {
        let _ = unit.join();
    }
    drop(shared);
    ExitCode::SUCCESS
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The life of a unit.
    fn work(&self, mailbox: &Mailbox, held: &mut UnitState) {
        let mut last = 0;
        while let Some((order, number)) = mailbox.await_order(last) {
            last = number;
            let ended = self.execute(held, &order);
            let broken = self.gpu.fault().is_some();
            mailbox.answer(if broken { Answer::Broken } else { Answer::Ended(ended) }, number);
        }
    }

    fn execute(&self, held: &mut UnitState, order: &Order) -> Result<(), device::FailureCode> {
        let memory = device::FailureCode::Memory;
        let launch = Launch {
            input: self.slice(order.input).ok_or(memory)?,
            output: self.slice(order.output).ok_or(memory)?,
            ..Launch::new(KernelId(order.kernel), order.arguments)
        };
        let word = (order.launch != 0)
            .then(|| self.lock().launches.entry(order.launch).or_default().clone());
        let workspace = word.as_deref().map_or(&[][..], std::slice::from_ref);
        let task = Task { launch: &launch, level: Level(order.level), workspace };
        match order.blocks() {
            Some(blocks) => self.gpu.blocks(held, &task, blocks),
            None => self.gpu.finish(held, &task),
        }
    }

    fn slice(&self, part: Part) -> Option<PeerSlice> {
        if part.memory == 0 {
            return Some(PeerSlice::empty());
        }
        let known = self.lock();
        let missing = |known: &mut Known| !known.memory.contains_key(&part.memory);
        let (known, _) = self
            .came
            .wait_timeout_while(known, MEMORY, missing)
            .unwrap_or_else(PoisonError::into_inner);
        let memory = PeerSlice::whole(known.memory.get(&part.memory)?.clone());
        drop(known);
        let [offset, bytes] = [part.offset, part.bytes].map(|n| usize::try_from(n).ok());
        memory.slice(offset?, bytes?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_arrive_as_they_were_sent_and_nonsense_is_none() {
        let all = [
            ToHost::Setup { bytes: 1, units: u64::MAX },
            ToHost::Memory { number: 2, bytes: 1 << 40 },
            ToHost::Forget { number: 3 },
            ToHost::Over { launch: u64::MAX },
            ToHost::End,
        ];
        for packet in all {
            assert_eq!(ToHost::decode(&packet.encode()), Some(packet));
        }
        let mut unknown = ToHost::End.encode();
        unknown[0] = 9;
        for nonsense in [&unknown[..], &unknown[..23], &[]] {
            assert_eq!(ToHost::decode(nonsense), None);
        }
    }
}

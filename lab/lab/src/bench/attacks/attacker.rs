//! An attacking client: a process of another user, below the client library.
//!
//! It does one thing as fast as the server lets it, until it is killed or its parent is gone, and
//! tells its parent how much of it was done, every now and then.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use accel::Request;
use accel::control::{self, Name, Packet};
use accel::request::Order;
use accel::session::SessionMemory;
use accel::socket::{Received, Socket};
use anyhow::{Context, bail};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};
use shm::{Doorbell, Mapping, PeerSlice, Producer, Segment};
use trial::Parent;
use zerocopy::{FromZeros, IntoBytes};

use crate::bench::victim::Victim;

/// Done actions between two messages, after the first one.
const REPORT_EVERY: u64 = 16;
/// Longest time, in ms, for which an attacker waits for an answer before it gives the connection
/// up.
const ANSWER_MS: i64 = 2000;
/// Longest time for which an attacker waits for a place in the server's queue.
const CONNECT: Duration = Duration::from_secs(1);
/// The most memory that one registration asks for.
const MOST_BYTES: u64 = 64 << 20;

/// Order to the process.
#[derive(Serialize, Deserialize)]
pub(crate) struct Attacker {
    pub socket: PathBuf,
    pub attack: Attack,
    pub seed: u64,
}

/// One way to attack a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, clap::ValueEnum)]
pub(crate) enum Attack {
    /// Control packets: random bytes, and valid ones with random changes
    Packets,
    /// Sessions whose segments are overwritten with noise, with orders that cannot be carried out
    Sessions,
    /// Connections that are closed at once
    Knocks,
    /// Registrations with much memory, closed at once
    Memory,
    /// Memory files that break the rules: with holes, without seals, of huge pages
    Files,
    /// Clients that obey the library, stopped and killed at random instants
    Kills,
}

impl Attack {
    /// Every attack.
    pub(crate) const ALL: [Attack; 6] = [
        Attack::Packets,
        Attack::Sessions,
        Attack::Knocks,
        Attack::Memory,
        Attack::Files,
        Attack::Kills,
    ];

    /// Its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Attack::Packets => "packets",
            Attack::Sessions => "sessions",
            Attack::Knocks => "knocks",
            Attack::Memory => "memory",
            Attack::Files => "files",
            Attack::Kills => "kills",
        }
    }
}

impl Attacker {
    /// Attacks until it is killed or its parent is gone.
    pub(crate) fn run(&self, parent: &Parent) -> anyhow::Result<()> {
        fastrand::seed(self.seed);
        let (socket, mut tally) = (&*self.socket, Tally { done: 0, said: 0, parent });
        loop {
            // A refused connection is the server's right; the parent sees a server that is gone.
            let attacked = match self.attack {
                Attack::Packets => packets(socket, &mut tally),
                Attack::Sessions => session(socket, &mut tally),
                Attack::Knocks => knock(socket, &mut tally),
                Attack::Memory => memory(socket, &mut tally),
                Attack::Files => files(socket, &mut tally),
                Attack::Kills => kill(socket, &mut tally),
            };
            if attacked.is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
            tally.say()?;
        }
    }
}

/// Counts what was done.
struct Tally<'a> {
    done: u64,
    said: u64,
    parent: &'a Parent,
}

impl Tally<'_> {
    fn add(&mut self) {
        self.done += 1;
    }

    /// Tells the count, if it is the first or there is much new.
    fn say(&mut self) -> anyhow::Result<()> {
        let first = self.said == 0 && self.done > 0;
        if first || self.done - self.said >= REPORT_EVERY {
            self.said = self.done;
            self.parent.tell(&self.done)?;
        }
        Ok(())
    }
}

/// Up to 200 packets on one connection, opened with a hello or without.
fn packets(path: &Path, tally: &mut Tally<'_>) -> anyhow::Result<()> {
    let raw = Raw::connect(path)?;
    // The session's memory may go at once: packets need the socket alone.
    let raw = if fastrand::u32(..4) > 0 { raw.hello()?.raw } else { raw };
    for _ in 0..200 {
        // Noise ends the session: most packets are such that it goes on.
        let packet = if fastrand::u32(..32) == 0 { noise() } else { changed(valid_packet()) };
        let file = (fastrand::u32(..8) == 0).then(|| memory_file(4096, SealFlags::SHRINK));
        let file = file.transpose()?;
        let fds: Vec<BorrowedFd<'_>> = file.iter().map(AsFd::as_fd).collect();
        raw.socket.send(&packet, &fds)?;
        tally.add();
        if raw.answer()?.is_none() {
            break;
        }
        tally.say()?;
    }
    Ok(())
}

/// Attacks by a session: its segment is overwritten, its doorbell rung, orders name what is not
/// there.
fn session(path: &Path, tally: &mut Tally<'_>) -> anyhow::Result<()> {
    let mut session = Raw::connect(path)?.hello()?;
    let registration = session.register("busy", 4096, Some(memory_file(4096, SealFlags::SHRINK)?));
    for round in 0..fastrand::u32(1..30) {
        match fastrand::u32(..4) {
            0 => session.scribble(round)?,
            1 => (0..fastrand::u32(..2000)).for_each(|_| session.doorbell.ring()),
            2 => session.order(&random_order(registration.as_ref().ok().copied()))?,
            _ => session.order_words([(); 8].map(|()| fastrand::u64(..)))?,
        }
    }
    tally.add();
    Ok(())
}

fn knock(path: &Path, tally: &mut Tally<'_>) -> anyhow::Result<()> {
    let socket = Socket::connect(path, CONNECT)?;
    drop(socket);
    tally.add();
    Ok(())
}

/// Registers as much as a session may have, in files that are filled or not, again and again.
fn memory(path: &Path, tally: &mut Tally<'_>) -> anyhow::Result<()> {
    let session = Raw::connect(path)?.hello()?;
    for _ in 0..20 {
        let bytes = MOST_BYTES - accel::session::SEGMENT_BYTES as u64;
        let bytes = if fastrand::bool() { bytes } else { fastrand::u64(1..bytes) };
        let file = memory_file(bytes, SealFlags::SHRINK)?;
        let registered = session.register("vecadd", bytes, Some(file));
        tally.add();
        if let Ok(registration) = registered {
            let kind = control::Deregister::KIND;
            session.ask(control::Deregister { kind, registration }.as_bytes(), &[])?;
        }
        tally.say()?;
    }
    Ok(())
}

/// Registers a file that breaks a rule, and uses it if it is accepted.
fn files(path: &Path, tally: &mut Tally<'_>) -> anyhow::Result<()> {
    let mut session = Raw::connect(path)?.hello()?;
    let bytes = 1u64 << fastrand::u32(12..22);
    let file = match fastrand::u32(..4) {
        0 => memory_file(bytes, SealFlags::empty())?,
        1 => huge_file(bytes).or_else(|_| memory_file(bytes, SealFlags::SHRINK))?,
        2 => std::fs::File::open("/dev/zero")?.into(),
        _ => memory_file(bytes, SealFlags::SHRINK)?,
    };
    let kept = file.try_clone()?;
    if let Ok(registration) = session.register("vecadd", bytes, Some(file)) {
        // The attacker takes away the memory that it registered, before and while the server uses
        // it.
        let _ = rustix::fs::fallocate(
            &kept,
            FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
            0,
            bytes,
        );
        let _ = rustix::fs::ftruncate(&kept, 0);
        let n = bytes as usize / 12;
        let request = Request::new().arguments(&[n as u64]).input(0, 8 * n).output(8 * n, 4 * n);
        session.order(&Order::Launch { launch_id: 1, registration, slot: 0, request })?;
        // Answered, or the session is ended: both are right.
        let _ = session.raw.socket.wait_readable(5);
    }
    tally.add();
    Ok(())
}

/// Runs a client that lives for a while, and may be stopped for a while before it is killed.
fn kill(path: &Path, tally: &mut Tally<'_>) -> anyhow::Result<()> {
    let mut client = Victim::start(path, false)?;
    let pause = || std::thread::sleep(Duration::from_micros(fastrand::u64(1000..40_000)));
    pause();
    if fastrand::bool() {
        client.signal(Signal::STOP);
        pause();
    }
    drop(client);
    tally.add();
    Ok(())
}

/// The control plane by hand.
struct Raw {
    socket: Socket,
}

/// An open session by hand.
struct RawSession {
    raw: Raw,
    mapping: Arc<Mapping>,
    memory: SessionMemory,
    doorbell: Doorbell,
    producer: Producer,
}

impl Raw {
    fn connect(path: &Path) -> anyhow::Result<Raw> {
        Ok(Raw { socket: Socket::connect(path, CONNECT)? })
    }

    /// The next packet; None when the server closed or says nothing.
    fn answer(&self) -> anyhow::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
        let mut buffer = [0; control::MAX_PACKET];
        for _ in 0..2 {
            match self.socket.receive(&mut buffer)? {
                Received::Packet(length, fds) => return Ok(Some((buffer[..length].into(), fds))),
                Received::Closed => return Ok(None),
                Received::Nothing => {
                    self.socket.wait_readable(ANSWER_MS)?;
                }
            }
        }
        Ok(None)
    }

    fn hello(self) -> anyhow::Result<RawSession> {
        let version = control::VERSION;
        let hello = control::Hello { kind: control::Hello::KIND, version, magic: control::MAGIC };
        self.socket.send(hello.as_bytes(), &[])?;
        let (bytes, fds) = self.answer()?.context("no welcome")?;
        let welcome = control::Welcome::parse(&bytes).context("refused")?;
        let Ok([segment, doorbell]) = <[OwnedFd; 2]>::try_from(fds) else {
            bail!(
                "found a welcome without descriptors, expected those of the segment and the \
                 doorbell"
            )
        };
        let mapping = Segment::accept(segment, welcome.segment_bytes)?.map()?;
        Ok(RawSession {
            memory: SessionMemory::attach(mapping.clone())?,
            raw: self,
            mapping,
            doorbell: Doorbell::from_fd(doorbell),
            producer: Producer::default(),
        })
    }
}

impl RawSession {
    fn ask(&self, packet: &[u8], fds: &[BorrowedFd<'_>]) -> anyhow::Result<Vec<u8>> {
        self.raw.socket.send(packet, fds)?;
        let (bytes, _) = self.raw.answer()?.context("the server ended the session")?;
        Ok(bytes)
    }

    fn register(&self, service: &str, bytes: u64, file: Option<OwnedFd>) -> anyhow::Result<u32> {
        let register = control::Register {
            chain_priority: fastrand::u32(..50),
            memory_bytes: bytes,
            service: Name::new("service", service)?,
            ..valid_register()?
        };
        let fds: Vec<BorrowedFd<'_>> = file.iter().map(AsFd::as_fd).collect();
        let answer = self.ask(register.as_bytes(), &fds)?;
        let registered = control::Registered::parse(&answer).context("refused")?;
        Ok(registered.registration)
    }

    fn order(&mut self, order: &Order) -> anyhow::Result<()> {
        self.order_words(order.encode())
    }

    fn order_words(&mut self, words: [u64; 8]) -> anyhow::Result<()> {
        // A ring that was overwritten may look full.
        if self.producer.push(self.memory.ring(), &words).unwrap_or(false) {
            self.doorbell.ring();
        }
        Ok(())
    }

    fn scribble(&self, round: u32) -> anyhow::Result<()> {
        let all = PeerSlice::whole(self.mapping.clone());
        let mut bytes = vec![0; if round.is_multiple_of(2) { all.len() } else { 64 }];
        fastrand::fill(&mut bytes);
        all.write(fastrand::usize(..=all.len() - bytes.len()), &bytes)?;
        self.doorbell.ring();
        Ok(())
    }
}

fn random_order(registration: Option<u32>) -> Order {
    let slot = fastrand::u16(..80);
    let registration = registration.filter(|_| fastrand::bool()).unwrap_or(fastrand::u32(..));
    let any = || fastrand::usize(..1 << fastrand::u32(1..32));
    let request = Request::new()
        .arguments(&[fastrand::u64(..2_000_000)])
        .input(any(), any())
        .output(any(), any());
    let launch_id = fastrand::u64(..);
    match fastrand::u32(..4) {
        0 => Order::Cancel { launch_id, slot, target_slot: fastrand::u16(..), target_launch_id: 1 },
        _ => Order::Launch { launch_id, registration, slot, request },
    }
}

fn valid_register() -> anyhow::Result<control::Register> {
    Ok(control::Register {
        kind: control::Register::KIND,
        chain_priority: 1,
        requests: 1,
        chain: Name::new("chain", &format!("attack{}", fastrand::u32(..20)))?,
        service: Name::new("service", "empty")?,
        ..control::Register::new_zeroed()
    })
}

/// A packet of any kind as a client would send it.
fn valid_packet() -> Vec<u8> {
    let register = valid_register().unwrap_or_else(|_| control::Register::new_zeroed());
    let declared = control::Register {
        exec_ns: 1 + fastrand::u64(..2_000_000),
        period_ns: 10_000_000,
        cpu_ns: 1000,
        process_priority: fastrand::u32(..100),
        flags: fastrand::u32(..8),
        ..register
    };
    let index = fastrand::u32(..4);
    match fastrand::u32(..10) {
        0 => {
            let kind = control::Hello::KIND;
            let version = control::VERSION;
            control::Hello { kind, version, magic: control::MAGIC }.as_bytes().to_vec()
        }
        1 | 2 => register.as_bytes().to_vec(),
        3 => declared.as_bytes().to_vec(),
        4 => {
            let kind = control::Deregister::KIND;
            control::Deregister { kind, registration: index }.as_bytes().to_vec()
        }
        5 => {
            let (kind, chain_priority) = (control::Reprioritise::KIND, fastrand::u32(..100));
            control::Reprioritise { kind, registration: index, chain_priority }.as_bytes().to_vec()
        }
        6 => control::QueryStatus { kind: control::QueryStatus::KIND }.as_bytes().to_vec(),
        7 => control::QueryServer { kind: control::QueryServer::KIND }.as_bytes().to_vec(),
        8 => {
            let kind = control::QuerySession::KIND;
            control::QuerySession { kind, index }.as_bytes().to_vec()
        }
        _ => control::QueryChain { kind: control::QueryChain::KIND, index }.as_bytes().to_vec(),
    }
}

/// The packet with some of its bytes, its kind or its length changed, or as it is.
fn changed(mut packet: Vec<u8>) -> Vec<u8> {
    // The first word is the kind: without it the packet is noise.
    for _ in 0..fastrand::usize(..6) {
        let at = fastrand::usize(..packet.len());
        if at >= 4 || fastrand::u32(..16) == 0 {
            packet[at] = fastrand::u8(..);
        }
    }
    if fastrand::u32(..32) == 0 {
        packet.truncate(fastrand::usize(1..=packet.len()));
    }
    packet
}

fn noise() -> Vec<u8> {
    let mut bytes = vec![0; fastrand::usize(1..=control::MAX_PACKET + 1)];
    fastrand::fill(&mut bytes);
    bytes
}

fn memory_file(bytes: u64, seals: SealFlags) -> anyhow::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("attack", flags)?;
    rustix::fs::ftruncate(&file, bytes)?;
    if !seals.is_empty() {
        rustix::fs::fcntl_add_seals(&file, seals)?;
    }
    Ok(file)
}

/// A file of huge pages, where the machine has some.
fn huge_file(bytes: u64) -> anyhow::Result<OwnedFd> {
    const HUGE_BYTES: u64 = 2 << 20;
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let file = rustix::fs::memfd_create("attack", flags)?;
    rustix::fs::ftruncate(&file, bytes.next_multiple_of(HUGE_BYTES))?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK)?;
    Ok(file)
}

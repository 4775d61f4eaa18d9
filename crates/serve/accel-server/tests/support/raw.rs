//! A client by hand, one layer below the client library, which may break the rules.

use super::{Fixture, PATIENCE};
use accel::control::{self, Name, Packet, Refused};
use accel::request::{Order, Status};
use accel::session::SessionMemory;
use accel::socket::{Received, Socket};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use shm::{Doorbell, Producer, Segment};
use std::time::Instant;
use zerocopy::{FromZeros, IntoBytes};

/// The control plane by hand.
pub(crate) struct Raw {
    pub socket: Socket,
}

/// An open session by hand.
pub(crate) struct RawSession {
    pub raw: Raw,
    pub memory: SessionMemory,
    pub mapping: std::sync::Arc<shm::Mapping>,
    pub doorbell: Doorbell,
    pub producer: Producer,
}

impl Raw {
    pub(crate) fn connect(fixture: &Fixture) -> Raw {
        Raw { socket: Socket::connect(&fixture.socket, PATIENCE).unwrap() }
    }

    pub(crate) fn send(&self, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
        // A server that has closed already is one of the outcomes under test.
        let _ = self.socket.send(bytes, fds);
    }

    /// The next packet; None when the server has closed.
    pub(crate) fn receive(&self) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
        let start = Instant::now();
        loop {
            let mut buffer = [0; control::MAX_PACKET];
            match self.socket.receive(&mut buffer) {
                Ok(Received::Packet(length, fds)) => return Some((buffer[..length].to_vec(), fds)),
                Ok(Received::Nothing) => {
                    assert!(start.elapsed() < PATIENCE, "the server says nothing");
                    self.socket.wait_readable(100).unwrap();
                }
                Ok(Received::Closed) | Err(_) => return None,
            }
        }
    }

    /// Waits until the server closes, and returns the text of its last refusal.
    pub(crate) fn farewell(&self) -> String {
        let mut last = String::new();
        while let Some((bytes, _)) = self.receive() {
            last = Refused::parse(&bytes).map_or(last, |refused| refused.unpack().text);
        }
        last
    }

    pub(crate) fn hello(self) -> RawSession {
        let version = control::VERSION;
        let hello = control::Hello { kind: control::Hello::KIND, version, magic: control::MAGIC };
        self.send(hello.as_bytes(), &[]);
        let (bytes, fds) = self.receive().unwrap();
        let welcome = control::Welcome::parse(&bytes).unwrap();
        let [segment, doorbell]: [OwnedFd; 2] = fds.try_into().unwrap();
        let mapping = Segment::accept(segment, welcome.segment_bytes).unwrap().map().unwrap();
        RawSession {
            raw: self,
            memory: SessionMemory::attach(mapping.clone()).unwrap(),
            mapping,
            doorbell: Doorbell::from_fd(doorbell),
            producer: Producer::default(),
        }
    }
}

impl RawSession {
    pub(crate) fn open(fixture: &Fixture) -> RawSession {
        Raw::connect(fixture).hello()
    }

    pub(crate) fn register(
        &self,
        service: &str,
        bytes: u64,
        fds: &[BorrowedFd<'_>],
    ) -> Result<u32, String> {
        let register = control::Register {
            kind: control::Register::KIND,
            chain_priority: 3,
            memory_bytes: bytes,
            requests: 1,
            chain: Name::new("chain", "raw").unwrap(),
            service: Name::new("service", service).unwrap(),
            ..control::Register::new_zeroed()
        };
        self.raw.send(register.as_bytes(), fds);
        let (bytes, _) = self.raw.receive().unwrap();
        match control::Registered::parse(&bytes) {
            Some(registered) => Ok(registered.registration),
            None => Err(Refused::parse(&bytes).unwrap().unpack().text),
        }
    }

    pub(crate) fn push(&mut self, message: &shm::Message) {
        assert!(self.producer.push(self.memory.ring(), message).unwrap());
        self.doorbell.ring();
    }

    pub(crate) fn launch(&mut self, registration: u32, slot: u16) {
        if let Some(cell) = self.memory.completion(usize::from(slot)) {
            cell.arm();
        }
        let request = accel::Request::new();
        let order = Order::Launch { launch_id: 7, registration, slot, request };
        self.push(&order.encode());
    }

    /// Adds the two halves of the input into the output, each a place and a length in bytes.
    pub(crate) fn add(
        &mut self,
        registration: u32,
        slot: u16,
        [input, output]: [(usize, usize); 2],
    ) {
        self.memory.completion(usize::from(slot)).unwrap().arm();
        let [(from, input), (to, output)] = [input, output];
        let count = (output / 4) as u64;
        let request =
            accel::Request::new().arguments(&[count]).input(from, input).output(to, output);
        self.push(&Order::Launch { launch_id: 7, registration, slot, request }.encode());
    }

    pub(crate) fn status(&self, slot: usize) -> Option<Status> {
        let done = self.memory.completion(slot).unwrap().wait(Some(PATIENCE)).unwrap();
        assert_eq!(done.launch_id, 7);
        Status::from_word(done.status)
    }
}

/// A memory file.
pub(crate) fn memfd(size: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let fd = rustix::fs::memfd_create("hostile", flags).unwrap();
    rustix::fs::ftruncate(&fd, size).unwrap();
    rustix::fs::fcntl_add_seals(&fd, seals).unwrap();
    fd
}

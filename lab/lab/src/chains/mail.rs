//! Datagrams between executors: a job goes on in another process.
//!
//! Each executor has one datagram socket in the run's private folder and one connection to every
//! executor it sends to. Nothing here blocks: a kernel holds only a few datagrams for a receiver
//! that is busy with a callback, and two executors that waited for each other would never end.
//! A message for which a receiver has no room waits in an outbox.
//!
//! ```text
//!  byte 0      4       8          12         16       24        32                         72
//!       +------+-------+----------+----------+--------+---------+--------------------------+
//!       | kind | chain | position | reserved | number | time_ns | where its time went, ns  |
//!       +------+-------+----------+----------+--------+---------+--------------------------+
//! ```

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};

use super::ready::{Job, Spent};

/// Length of a message in bytes.
const BYTES: usize = 72;
/// Messages for one receiver for which room is made beforehand.
const ROOM: usize = 1024;

/// Message of one executor to another about a part of a chain, given by the part's first position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Number of the chain in the file.
    pub chain: u32,
    /// Position of a callback in the chain.
    pub position: u32,
    /// Content of the message.
    pub news: News,
}

/// Content of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// This job is to run there.
    Start(Job),
    /// No further job will come there.
    End,
    /// The running job of a best-effort chain ended at this time.
    Over(u64),
}

impl Message {
    fn encode(&self) -> [u8; BYTES] {
        let (kind, number, time_ns, spent) = match self.news {
            News::Start(job) => (1_u32, job.number, job.release_ns, job.spent),
            News::End => (2, 0, 0, Spent::default()),
            News::Over(at_ns) => (3, 0, at_ns, Spent::default()),
        };
        let Spent { computing_ns, sending_ns, queued_ns, working_ns, answering_ns } = spent;
        let longs =
            [number, time_ns, computing_ns, sending_ns, queued_ns, working_ns, answering_ns];
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&kind.to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.chain.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.position.to_ne_bytes());
        for (place, long) in bytes[16..].chunks_exact_mut(8).zip(longs) {
            place.copy_from_slice(&long.to_ne_bytes());
        }
        bytes
    }

    /// The message in exactly these bytes.
    fn decode(bytes: &[u8]) -> Option<Message> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        let word = |at: usize| bytes[at..].first_chunk().map(|word| u32::from_ne_bytes(*word));
        let long = |at: usize| bytes[at..].first_chunk().map(|long| u64::from_ne_bytes(*long));
        let news = match word(0)? {
            1 => {
                let spent = Spent {
                    computing_ns: long(32)?,
                    sending_ns: long(40)?,
                    queued_ns: long(48)?,
                    working_ns: long(56)?,
                    answering_ns: long(64)?,
                };
                News::Start(Job { number: long(16)?, release_ns: long(24)?, spent })
            }
            2 => News::End,
            3 => News::Over(long(24)?),
            _ => return None,
        };
        Some(Message { chain: word(4)?, position: word(8)?, news })
    }
}

/// The socket of an executor in the run's folder.
pub fn address(folder: &Path, executor: usize) -> PathBuf {
    folder.join(format!("executor-{executor}"))
}

/// The sockets of one executor.
pub struct Mail {
    inbox: UnixDatagram,
    peers: Vec<Peer>,
}

struct Peer {
    executor: usize,
    socket: UnixDatagram,
    outbox: VecDeque<[u8; BYTES]>,
}

impl Mail {
    /// Opens this executor's inbox.
    pub fn open(folder: &Path, executor: usize) -> io::Result<Mail> {
        let inbox = UnixDatagram::bind(address(folder, executor))?;
        inbox.set_nonblocking(true)?;
        Ok(Mail { inbox, peers: Vec::new() })
    }

    /// Connects to the executors that this one sends to; their inboxes are open by now.
    pub fn connect(&mut self, folder: &Path, executors: &[usize]) -> io::Result<()> {
        for &executor in executors {
            let socket = UnixDatagram::unbound()?;
            socket.connect(address(folder, executor))?;
            socket.set_nonblocking(true)?;
            self.peers.push(Peer { executor, socket, outbox: VecDeque::with_capacity(ROOM) });
        }
        Ok(())
    }

    /// Sends a message to an executor, at once or as soon as it has room.
    pub fn send(&mut self, executor: usize, message: &Message) {
        if let Some(peer) = self.peers.iter_mut().find(|peer| peer.executor == executor) {
            peer.outbox.push_back(message.encode());
            peer.flush();
        }
    }

    /// Sends what had no room before; true if nothing is left.
    pub fn flush(&mut self) -> bool {
        self.peers.iter_mut().for_each(Peer::flush);
        self.full().is_none()
    }

    /// The next message; datagrams that are none are dropped.
    pub fn receive(&self) -> Option<Message> {
        // One byte more than a message has shows what is too long.
        let mut bytes = [0; BYTES + 1];
        while let Ok(length) = self.inbox.recv(&mut bytes) {
            if let Some(message) = Message::decode(&bytes[..length]) {
                return Some(message);
            }
        }
        None
    }

    /// The socket to wait on for messages.
    pub fn inbox(&self) -> &UnixDatagram {
        &self.inbox
    }

    /// A socket to wait on until it can be written to, where a message could not be sent.
    pub fn full(&self) -> Option<&UnixDatagram> {
        self.peers.iter().find(|peer| !peer.outbox.is_empty()).map(|peer| &peer.socket)
    }
}

impl Peer {
    fn flush(&mut self) {
        while let Some(message) = self.outbox.front() {
            match self.socket.send(message) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // A receiver that has ended needs no message.
                Ok(_) | Err(_) => self.outbox.pop_front(),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPENT: Spent = Spent {
        computing_ns: 1,
        sending_ns: 2,
        queued_ns: 3,
        working_ns: 1 << 40,
        answering_ns: u64::MAX,
    };
    const JOB: Job = Job { number: 7, release_ns: 1 << 40, spent: SPENT };

    fn start(number: u64) -> Message {
        let job = Job { number, release_ns: number, ..JOB };
        Message { chain: 3, position: 1, news: News::Start(job) }
    }

    #[test]
    fn messages_survive_the_socket_and_garbage_does_not() {
        for news in [News::Start(JOB), News::End, News::Over(9)] {
            let message = Message { chain: 1, position: u32::MAX, news };
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        let good = start(1).encode();
        assert_eq!(Message::decode(&good[..BYTES - 1]), None);
        assert_eq!(Message::decode(&[&good[..], &[0]].concat()), None);
        assert_eq!(Message::decode(&[0; BYTES]), None);
    }

    #[test]
    fn messages_beyond_the_receivers_room_arrive_later_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let receiver = Mail::open(folder.path(), 0).unwrap();
        let mut sender = Mail::open(folder.path(), 1).unwrap();
        sender.connect(folder.path(), &[0]).unwrap();
        (0..5000).for_each(|number| sender.send(0, &start(number)));
        assert!(sender.full().is_some(), "the kernel held 5000 datagrams");
        let mut numbers = Vec::new();
        while numbers.len() < 5000 {
            while let Some(Message { news: News::Start(job), .. }) = receiver.receive() {
                numbers.push(job.number);
            }
            sender.flush();
        }
        assert!(numbers.into_iter().eq(0..5000));
        assert!(sender.full().is_none());
    }

    #[test]
    fn message_to_an_executor_that_ended_is_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let receiver = Mail::open(folder.path(), 0).unwrap();
        let mut sender = Mail::open(folder.path(), 1).unwrap();
        sender.connect(folder.path(), &[0]).unwrap();
        drop(receiver);
        sender.send(0, &start(0));
        assert!(sender.flush());
    }
}

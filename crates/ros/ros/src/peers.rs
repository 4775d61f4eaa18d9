//! Discovery where multicast does not reach: the announcements of this participant, sent to
//! addresses that were given.
//!
//! RustDDS 0.15 announces a participant by multicast, and to the ports of this machine's own
//! participants on 127.0.0.1. A relay takes one of these ports, and forwards what it gets from its
//! own participant, byte by byte, to the same ports of each peer. Who gets an announcement answers
//! to the addresses in it, so that one of two sides with peers is enough.
//!
//! This machine may be among the peers, or go by another of their addresses: what a relay itself
//! sent, by the port that it came from, is not forwarded again.
//!
//! Of this machine's own participants RustDDS reaches the first twelve only. Where there are more, a
//! relay forwards what a participant announces to those behind them.

use crate::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Number of a peer's participants that are found. RustDDS looks for as many on its own machine.
const PARTICIPANTS: u16 = 12;

/// Participants that a machine has at most in a domain (RTPS 2.3, section 9.6.1.1).
const MOST: u16 = 120;

/// Place of the sender's prefix in a message of RTPS, in bytes.
const PREFIX: std::ops::Range<usize> = 8..20;

/// A port of its own, on which announcements arrive.
pub(crate) struct AnnouncementPort {
    socket: UdpSocket,
    domain: u16,
}

/// The thread that forwards. It ends with this value.
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    address: SocketAddrV4,
    thread: Option<JoinHandle<()>>,
}

/// Makes all participants of this machine known to one another, also without multicast: RustDDS by
/// itself sees to the first twelve of a domain. As long as it is there.
pub struct Neighbours {
    _relay: Relay,
}

impl Neighbours {
    /// Number of participants of a machine that find each other without the relay.
    pub const NOT_NEEDED: usize = PARTICIPANTS as usize;

    /// Relay of a domain, whose first twelve participants are not all there yet: it takes the port
    /// of one of them.
    ///
    /// # Errors
    /// [`Error::Create`] when the sockets cannot be had.
    pub fn new(domain: u16) -> Result<Neighbours, Error> {
        let failed = |error: io::Error| Error::create("the relay to the neighbours", error);
        let place = AnnouncementPort::take(domain).map_err(failed)?;
        let behind =
            |participant| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port(domain, participant));
        let relay = place.forward(None, (PARTICIPANTS..MOST).map(behind).collect());
        Ok(Neighbours { _relay: relay.map_err(failed)? })
    }
}

impl AnnouncementPort {
    /// The highest port that is free: participants take the lowest.
    pub(crate) fn take(domain: u16) -> io::Result<AnnouncementPort> {
        let mut last = io::ErrorKind::AddrInUse.into();
        for participant in (0..PARTICIPANTS).rev() {
            match UdpSocket::bind((Ipv4Addr::LOCALHOST, port(domain, participant))) {
                Ok(socket) => return Ok(AnnouncementPort { socket, domain }),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Forwards what the participant with this prefix announces to the participants of each peer,
    /// from now on.
    pub(crate) fn tell(self, prefix: [u8; 12], peers: &[Ipv4Addr]) -> io::Result<Relay> {
        let domain = self.domain;
        let addresses =
            |&peer| (0..PARTICIPANTS).map(move |n| SocketAddrV4::new(peer, port(domain, n)));
        self.forward(Some(prefix), peers.iter().flat_map(addresses).collect())
    }

    /// Forwards what comes, or what comes from one participant.
    fn forward(self, from: Option<[u8; 12]>, to: Vec<SocketAddrV4>) -> io::Result<Relay> {
        let out = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        // Only this machine reaches the relay, so that no other machine sends from this port.
        let own_port = out.local_addr()?.port();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, self.socket.local_addr()?.port());
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::Builder::new().name("dds-peers".into());
        let thread = thread.spawn(move || {
            let mut message = vec![0; 65536];
            // Acquire: pairs with the end of the relay.
            while !stopped.load(Ordering::Acquire) {
                let Ok((bytes, source)) = self.socket.recv_from(&mut message) else { continue };
                if source.port() == own_port {
                    continue;
                }
                let Some(prefix) = message[..bytes].get(PREFIX) else { continue };
                if from.is_some_and(|from| prefix != from) {
                    continue;
                }
                for address in &to {
                    // A peer that is not reached may be reached by the next announcement.
                    let _ = out.send_to(&message[..bytes], address);
                }
            }
        })?;
        Ok(Relay { stop, address, thread: Some(thread) })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        let wake = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let is_sent = wake.and_then(|socket| socket.send_to(&[], self.address)).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| is_sent) {
            // If it panicked, nothing is forwarded any more.
            let _ = thread.join();
        }
    }
}

/// Port at which a participant of a domain gets announcements (RTPS 2.3, section 9.6.1.1).
fn port(domain: u16, participant: u16) -> u16 {
    7410 + 250 * domain + 2 * participant
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A datagram of the participant with this prefix.
    fn announcement(prefix: [u8; 12], number: u8) -> Vec<u8> {
        [b"RTPS\x02\x04\x01\x12".as_slice(), &prefix, &[number]].concat()
    }

    /// A relay to this machine sent each datagram to itself, forwarded that, and so on for ever.
    #[test]
    fn relay_to_its_own_machine_forwards_each_datagram_once() {
        let domain = 101 + (std::process::id() % 100) as u16;
        // A neighbour below the relay's port: the relay sends to it before it sends to itself.
        let neighbour = (0..PARTICIPANTS)
            .find_map(|n| UdpSocket::bind((Ipv4Addr::LOCALHOST, port(domain, n))).ok())
            .expect("a port of the domain");
        // The limit only ends a test that has failed.
        neighbour.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        let place = AnnouncementPort::take(domain).unwrap();
        let own = [7; 12];
        let relay = place.tell(own, &[Ipv4Addr::LOCALHOST]).unwrap();
        let participant = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let next = || {
            let mut message = [0; 64];
            let bytes = neighbour.recv(&mut message).expect("a forwarded datagram");
            message[PREFIX.end..bytes].to_vec()
        };
        // The arrival of the second shows that the relay has sent the first everywhere, also to
        // itself: a copy made from that would come before the third.
        for number in 1..=20 {
            participant.send_to(&announcement([9; 12], 0), relay.address).unwrap();
            participant.send_to(&announcement(own, number), relay.address).unwrap();
            assert_eq!(next(), [number], "each of them once, and nothing else");
        }
    }
}

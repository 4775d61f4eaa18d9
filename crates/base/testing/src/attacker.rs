//! A participant of the wire alone: it announces itself, is matched by the others' built-in
//! endpoints, and sends them what it likes. On loopback.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration;

use crate::random::Random;
use crate::rtps;

/// Packets between two looks whether the victim still answers: fewer than its socket keeps.
const BURST: usize = 50;

/// Its socket, at which it is answered, and how often it asked for an answer.
pub struct Attacker {
    socket: UdpSocket,
    prefix: [u8; 12],
    victim: SocketAddrV4,
    asked: i32,
}

impl Attacker {
    /// Creates an attacker that the only participant of a domain has matched with its built-in
    /// endpoints.
    pub fn new(domain: u16, number: u8) -> Attacker {
        let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = |participant: u16| 7410 + 250 * domain + 2 * participant;
        let victim = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port(0));
        let prefix = [b"hostile fox", &[number][..]].concat().try_into().unwrap();
        let mut attacker = Attacker { socket, prefix, victim, asked: 0 };
        // A matched participant gets an answer; before that, it gets none. The victim was not
        // always alone, and has the port that was free when it came.
        attacker.socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        // The limits only end a test that has failed.
        let answered = (0..1200).any(|attempt| {
            attacker.victim.set_port(port(attempt % 4));
            attacker.announce(prefix);
            attacker.ask()
        });
        assert!(answered, "the victim does not answer a participant that announced itself");
        attacker.socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        attacker
    }

    /// Announces a participant of this prefix at this one's address.
    pub fn announce(&self, prefix: [u8; 12]) {
        let port = self.socket.local_addr().unwrap().port();
        let mut locator = [1u32.to_le_bytes(), u32::from(port).to_le_bytes()].concat();
        locator.extend([[0; 12].as_slice(), &[127, 0, 0, 1]].concat());
        let guid = [&prefix[..], &[0, 0, 1, 0xc1]].concat();
        let lease = [100i32.to_le_bytes(), [0; 4]].concat();
        let parameters: [(u16, &[u8]); 7] = [
            (0x15, &[2, 4, 0, 0]),
            (0x16, &[1, 0x0f, 0, 0]),
            (0x50, &guid),
            (0x58, &0xc3fu32.to_le_bytes()),
            (0x02, &lease),
            (0x32, &locator),
            (0x31, &locator),
        ];
        let mut payload = vec![0, 3, 0, 0];
        for (id, value) in parameters {
            payload.extend([id.to_le_bytes(), (value.len() as u16).to_le_bytes()].concat());
            payload.extend(value);
        }
        payload.extend([1, 0, 0, 0]);
        let mut body = vec![0, 0, 16, 0];
        body.extend([[0, 1, 0, 0xc7], [0, 1, 0, 0xc2]].concat());
        body.extend(rtps::number(1));
        body.extend(payload);
        self.send(&[rtps::header(prefix), rtps::submessage(0x15, 4, &body)].concat());
    }

    /// Sends a packet to the victim.
    pub fn send(&self, packet: &[u8]) {
        self.socket.send_to(packet, self.victim).unwrap();
    }

    /// Ids with which this participant and the victim write to and read from each other:
    /// publications, subscriptions or messages of participants.
    pub fn ids(&self, prefix: [u8; 12], which: usize) -> rtps::Ids {
        let [a, b, c] = [[0, 0, 3], [0, 0, 4], [0, 2, 0]][which % 3];
        let (writes, reads) = ([a, b, c, 0xc2], [a, b, c, 0xc7]);
        rtps::Ids {
            remote: prefix,
            reader: reads,
            remote_writer: writes,
            writer: writes,
            remote_reader: reads,
        }
    }

    /// Requests an answer and waits for it: everything that was sent before has been handled then.
    fn ask(&mut self) -> bool {
        self.asked += 1;
        let ids = self.ids(self.prefix, 0);
        let heartbeat = rtps::heartbeat(&ids, 1, 0, self.asked);
        self.send(&[rtps::header(self.prefix), heartbeat].concat());
        let mut packet = vec![0; 1 << 16];
        // ACKNACK from the reader of publications is what it answers to that.
        let answers =
            |packet: &[u8]| packet.windows(8).any(|ids| ids == [0, 0, 3, 0xc7, 0, 0, 3, 0xc2]);
        loop {
            match self.socket.recv(&mut packet) {
                Ok(bytes) if answers(&packet[..bytes]) => return true,
                Ok(_) => {}
                Err(_) => return false,
            }
        }
    }

    /// Sends packets of another participant, which is at this one's address and matched, too.
    pub fn attack(&mut self, random: &mut Random, packets: usize) {
        let prefix = [b"hostile cub", &[self.prefix[11]][..]].concat().try_into().unwrap();
        self.announce(prefix);
        for sent in 0..packets {
            let mut ids = self.ids(prefix, random.below(3));
            if random.below(4) == 0 {
                // An unknown participant; what is kept of it is kept for ever.
                ids.remote[..8].copy_from_slice(&random.next().to_le_bytes());
            }
            match random.below(20) {
                0 => self.announce(ids.remote),
                _ => self.send(&rtps::packet(random, &ids)),
            }
            if sent % BURST == 0 {
                assert!(self.ask(), "the victim does not answer after {sent} packets");
            }
        }
        assert!(self.ask(), "the victim does not answer after {packets} packets");
    }

    /// Announces participants that do not exist.
    pub fn crowd(&mut self, random: &mut Random, participants: usize) {
        for announced in 0..participants {
            let mut prefix = *b"hostile herd";
            prefix[..8].copy_from_slice(&random.next().to_le_bytes());
            self.announce(prefix);
            if announced % BURST == 0 {
                assert!(self.ask(), "the victim does not answer after {announced} participants");
            }
        }
    }
}

/// Memory of a process that is in RAM, in KiB.
pub fn resident_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

//! Reads all packets of a DDS domain that this machine gets, as anybody on the network can.
#![allow(dead_code, reason = "every test file uses its own part")]

use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size, set_socket_timeout};
use rustix::net::{AddressFamily, RecvFlags, SocketType, ipproto, recv, socket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// A raw socket and the thread that reads it.
pub(crate) struct Sniffer {
    stop: Arc<AtomicBool>,
    packets: JoinHandle<Vec<Vec<u8>>>,
}

impl Sniffer {
    /// Begins; without the right to, says so.
    pub(crate) fn start(domain: u16) -> Option<Sniffer> {
        let socket = socket(AddressFamily::INET, SocketType::RAW, Some(ipproto::UDP));
        let Ok(socket) = socket.inspect_err(|error| {
            eprintln!("SKIP: no raw socket to read the wire with ({error}): takes CAP_NET_RAW");
        }) else {
            return None;
        };
        set_socket_recv_buffer_size(&socket, 8 << 20).unwrap();
        let patience = Some(Duration::from_millis(50));
        set_socket_timeout(&socket, Timeout::Recv, patience).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let first = 7400 + 250 * domain;
        let packets = std::thread::spawn(move || {
            let (mut packets, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
            while !stopped.load(Ordering::Relaxed) {
                // It times out, too, to look whether it is to stop.
                let Ok((bytes, _)) = recv(&socket, &mut buffer[..], RecvFlags::empty()) else {
                    continue;
                };
                let packet = &buffer[..bytes];
                let head = 4 * usize::from(packet[0] & 0xf);
                let port = u16::from_be_bytes([packet[head + 2], packet[head + 3]]);
                if (first..first + 250).contains(&port) {
                    packets.push(packet[head + 8..].to_vec());
                }
            }
            packets
        });
        Some(Sniffer { stop, packets })
    }

    /// The packets that there were: what is in the datagrams.
    pub(crate) fn end(self) -> Vec<Vec<u8>> {
        self.stop.store(true, Ordering::Relaxed);
        self.packets.join().unwrap()
    }

    /// Ends the capture; returns the number of packets, and of those that have this text in clear.
    pub(crate) fn count(self, text: &str) -> (usize, usize) {
        let packets = self.end();
        let has =
            |packet: &&Vec<u8>| packet.windows(text.len()).any(|window| window == text.as_bytes());
        (packets.len(), packets.iter().filter(has).count())
    }
}

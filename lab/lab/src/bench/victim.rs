//! A client that lives to be killed: it does everything a client can do, at random.

use std::path::{Path, PathBuf};
use std::time::Duration;

use accel::{CallbackId, Client, Registration, Request, Ticket};
use serde::{Deserialize, Serialize};
use trial::Child;

use crate::child::Order;

/// Order to the client.
#[derive(Serialize, Deserialize)]
pub(crate) struct Victim {
    socket: PathBuf,
    /// True if it fills the ring with long requests, and does nothing at random.
    floods: bool,
    seed: u64,
}

impl Victim {
    /// Starts one.
    pub(crate) fn start(socket: &Path, floods: bool) -> anyhow::Result<Child> {
        let victim = Victim { socket: socket.to_owned(), floods, seed: fastrand::u64(..) };
        Child::order("a client", &Order::Victim(victim))
    }

    /// Lives until it is killed.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        fastrand::seed(self.seed);
        let mut client = Client::connect(&self.socket)?;
        if self.floods {
            return flood(&mut client);
        }
        loop {
            let chain = format!("victim{}", fastrand::u32(..40));
            let priority = fastrand::u32(1..100);
            let memory = 4096 << fastrand::u32(..10);
            let mut services = Vec::new();
            for service in ["busy", "vecadd", "empty"] {
                let registration = Registration::service(service).chain(&chain, priority);
                services.push(client.register(&registration.memory(memory))?);
            }
            for _ in 0..fastrand::usize(1..20) {
                burst(&mut client, &services, memory)?;
            }
            client.reprioritise(services[0], fastrand::u32(1..100))?;
            for service in services {
                client.deregister(service)?;
            }
        }
    }
}

/// Up to eight requests at once, some of them wrong, some of them taken back.
fn burst(client: &mut Client, services: &[CallbackId], memory: usize) -> anyhow::Result<()> {
    let mut tickets: Vec<Ticket> = Vec::new();
    for _ in 0..fastrand::usize(1..8) {
        let n = fastrand::usize(..memory / 8);
        let request = match fastrand::u32(..3) {
            0 => Request::new().arguments(&[fastrand::u64(..3_000_000)]),
            _ => Request::new().arguments(&[n as u64]).input(0, 8 * n).output(8 * n, 4 * n),
        };
        tickets.push(client.submit(services[fastrand::usize(..services.len())], &request)?);
    }
    for mut ticket in tickets {
        match fastrand::u32(..8) {
            0 => drop(ticket),
            1 => {
                client.cancel(&mut ticket)?;
            }
            _ => {
                let _ = client.wait(&mut ticket, Some(Duration::from_millis(fastrand::u64(..50))));
            }
        }
    }
    Ok(())
}

fn flood(client: &mut Client) -> anyhow::Result<()> {
    let busy = client.register(&Registration::service("busy").chain("flood", 1).memory(4 << 20))?;
    let long = Request::new().arguments(&[60_000_000_000]);
    let mut tickets = Vec::new();
    for _ in 0..32 {
        tickets.push(client.submit(busy, &long)?);
    }
    client.wait(&mut tickets[0], None)?;
    Ok(())
}

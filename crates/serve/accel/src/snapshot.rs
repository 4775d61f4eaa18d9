//! State that a server reports about itself: its settings, accelerators, sessions and chains, its
//! use of the bandwidth lock, and the cost of its clients' memory.
//!
//! The lists are read entry by entry. Every answer carries the revision of the server's state;
//! when it is another one at the end than at the beginning, everything is read again, so that a
//! [`Snapshot`] is one state and not a mixture of two. Counts of requests go on meanwhile.

use crate::control::{
    self, AcceleratorStatus, BandwidthStatus, ChainStatus, Code, Counters, Measured, MemoryStatus,
    NO_BUCKET, Name, Packet, ServerStatus, SessionStatus, unpack_text,
};
use crate::{Client, Error};
use zerocopy::IntoBytes;

/// Number of attempts to read a snapshot before it is given up.
const TRIES: usize = 100;

/// One state of a server.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Settings and decisions.
    pub server: Server,
    /// Counts of requests and sessions.
    pub counters: Counters,
    /// The accelerators, in the order of the configuration.
    pub accelerators: Vec<Accelerator>,
    /// The sessions, the oldest first. The one that asks is among them.
    pub sessions: Vec<Session>,
    /// The chains, the most critical first.
    pub chains: Vec<Chain>,
    /// The bandwidth lock, if a service asks for it.
    pub bandwidth: Option<Bandwidth>,
    /// Cost of the clients' memory.
    pub memory: Memory,
}

/// Cost of the clients' memory: session segments and registered memory, in whole pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// All of it.
    pub used_bytes: u64,
    /// Limit of all of it.
    pub limit_bytes: u64,
    /// Users that it is charged to, by number.
    pub users: Vec<User>,
}

/// Memory cost of the sessions of one user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its number.
    pub uid: u32,
    /// Its sessions.
    pub sessions: u32,
    /// Their memory.
    pub used_bytes: u64,
    /// Limit of that memory.
    pub limit_bytes: u64,
}

/// Settings and decisions of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// True if its threads run at their priority and on their cores.
    pub realtime: bool,
    /// The policy of arbitration.
    pub policy: String,
    /// `enforce`, `report` or `off`.
    pub admission: String,
    /// The analysis that decides; empty when none does.
    pub analysis: String,
    /// Reason for which admission control is off although it is asked for; or empty.
    pub note: String,
    /// Preemption cost of a device, as configured.
    pub kappa_ns: u64,
    /// Overhead of a request on the client's side, as configured.
    pub epsilon_ns: u64,
    /// Overhead of a request that occupies its bucket, as configured.
    pub sigma_ns: u64,
    /// Cost of a change of executors, as configured.
    pub hop_ns: u64,
    /// Decisions and re-checks since the start.
    pub decisions: u64,
    /// Number of those that were refusals.
    pub refused: u64,
    /// Duration of the last one.
    pub last_decision_ns: u64,
    /// Duration of the longest one.
    pub longest_decision_ns: u64,
}

/// One accelerator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accelerator {
    /// Its id.
    pub id: String,
    /// Name that the device gives itself.
    pub device: String,
    /// Its buckets.
    pub buckets: u32,
    /// Requests in buckets.
    pub queued: u32,
    /// Requests on the device.
    pub running: u32,
    /// Registrations for it.
    pub registrations: u32,
    /// Time that a request occupies its bucket without running, as measured.
    pub sigma: Measured,
    /// Time that the server spends on a request which only its client waits for, as measured. The
    /// client's own part of `epsilon` is not in it.
    pub epsilon: Measured,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// Its number.
    pub number: u64,
    /// The client's process.
    pub pid: u32,
    /// The client's user.
    pub uid: u32,
    /// Its registrations.
    pub registrations: u32,
    /// The core and the process priority that it declares.
    pub executor: Option<(u32, u32)>,
    /// Contradiction between the kernel and the declaration; or empty.
    pub note: String,
}

/// One chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: String,
    /// Larger is more critical.
    pub priority: u32,
    /// Promise to the chain; None if a newer server says something unknown.
    pub standing: Option<Standing>,
    /// Source of the declaration; None if a newer server says something unknown.
    pub origin: Option<Origin>,
    /// Callbacks that are known.
    pub callbacks: u32,
    /// Callbacks that there must be: the last position that is known, plus one.
    pub positions: u32,
    /// Registrations.
    pub registrations: u32,
    /// None when not declared.
    pub period_ns: Option<u64>,
    /// None when not declared.
    pub deadline_ns: Option<u64>,
    /// The bound of its response time, a guarantee only where the standing says so.
    pub bound_ns: Option<u64>,
    /// Requests that ended, since the chain came.
    pub requests: u64,
    /// The longest of them, from its arrival to the device's event.
    pub longest_ns: Option<u64>,
    /// Number of those that ran longer than declared.
    pub overruns: u64,
    /// Requests that came more often than declared.
    pub excess: u64,
    /// Its buckets, by index of the accelerator.
    pub buckets: Vec<(usize, u32)>,
    /// Reason for which there is no guarantee; or empty.
    pub note: String,
}

/// Use of the bandwidth lock by a server, since its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Socket at which the server looks for the regulator.
    pub socket: String,
    /// Reason for which the lock cannot be held; empty while it can.
    pub note: String,
    /// Services that ask for it.
    pub services: u32,
    /// Requests on the devices that it is to be held for.
    pub running: u64,
    /// Requests that were given to a device while the server could hold the lock.
    pub locked: u64,
    /// Requests that were given to a device without.
    pub unlocked: u64,
    /// Requests that were on a device when the regulator went away.
    pub interrupted: u64,
    /// Number of times that the lock was taken.
    pub acquisitions: u64,
    /// Total time for which it was held, up to its last release.
    pub held_ns: u64,
}

/// Promise to a chain, or the lack of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Standing {
    /// Its deadline holds.
    Guaranteed = 1,
    /// The chain is declared, but its deadline is not guaranteed.
    Unguaranteed = 2,
    /// The chain asked for no guarantee.
    BestEffort = 3,
    /// The chain declared nothing.
    Undeclared = 4,
    /// Nothing is analysed.
    Unanalysed = 5,
}

impl Standing {
    fn from_number(number: u32) -> Option<Standing> {
        use Standing::*;
        let all = [Guaranteed, Unguaranteed, BestEffort, Undeclared, Unanalysed];
        all.into_iter().find(|standing| *standing as u32 == number)
    }
}

/// Source of the declaration of a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Origin {
    /// The server's configuration.
    File = 1,
    /// Its clients.
    Clients = 2,
    /// No declaration.
    Nobody = 3,
}

impl Origin {
    fn from_number(number: u32) -> Option<Origin> {
        [Origin::File, Origin::Clients, Origin::Nobody].into_iter().find(|o| *o as u32 == number)
    }
}

impl Client {
    /// Reads the state that the server reports about itself.
    ///
    /// # Errors
    /// [`Error::Unsettled`] when the server's state does not stay the same for long enough;
    /// [`Error::ServerLost`], [`Error::NoServer`].
    pub fn snapshot(&mut self) -> Result<Snapshot, Error> {
        for _ in 0..TRIES {
            if let Some(snapshot) = self.read_snapshot()? {
                return Ok(snapshot);
            }
        }
        Err(Error::Unsettled { tries: TRIES })
    }

    /// None when the state changed meanwhile.
    fn read_snapshot(&mut self) -> Result<Option<Snapshot>, Error> {
        let ask = control::QueryServer { kind: control::QueryServer::KIND };
        let server: ServerStatus = self.ask(ask.as_bytes())?;
        let counters = self.status()?;
        let revision = server.revision;
        let accelerators = self.read_list(revision, |client, index| {
            let kind = control::QueryAccelerator::KIND;
            let ask = control::QueryAccelerator { kind, index };
            let entry: AcceleratorStatus = client.ask(ask.as_bytes())?;
            Ok((entry.revision, entry.count, entry))
        })?;
        let sessions = self.read_list(revision, |client, index| {
            let ask = control::QuerySession { kind: control::QuerySession::KIND, index };
            let entry: SessionStatus = client.ask(ask.as_bytes())?;
            Ok((entry.revision, entry.count, entry))
        })?;
        let chains = self.read_list(revision, |client, index| {
            let ask = control::QueryChain { kind: control::QueryChain::KIND, index };
            let entry: ChainStatus = client.ask(ask.as_bytes())?;
            Ok((entry.revision, entry.count, entry))
        })?;
        let memory = self.read_list(revision, |client, index| {
            let ask = control::QueryMemory { kind: control::QueryMemory::KIND, index };
            let entry: MemoryStatus = client.ask(ask.as_bytes())?;
            Ok((entry.revision, entry.count, entry))
        })?;
        let (Some(accelerators), Some(sessions), Some(chains), Some(memory)) =
            (accelerators, sessions, chains, memory)
        else {
            return Ok(None);
        };
        let ask_bandwidth = control::QueryBandwidth { kind: control::QueryBandwidth::KIND };
        let bandwidth: BandwidthStatus = self.ask(ask_bandwidth.as_bytes())?;
        let after: ServerStatus = self.ask(ask.as_bytes())?;
        if after.revision != revision {
            return Ok(None);
        }
        Ok(Some(Snapshot {
            server: Server::unpack(&server),
            counters,
            accelerators: accelerators.iter().map(Accelerator::unpack).collect(),
            sessions: sessions.iter().map(Session::unpack).collect(),
            chains: chains.iter().map(Chain::unpack).collect(),
            bandwidth: (bandwidth.services > 0).then(|| Bandwidth::unpack(&bandwidth)),
            memory: Memory::unpack(&memory),
        }))
    }

    /// Reads a list to its end; None when the revision is not this one.
    fn read_list<T>(
        &mut self,
        revision: u64,
        mut read: impl FnMut(&mut Client, u32) -> Result<(u64, u32, T), Error>,
    ) -> Result<Option<Vec<T>>, Error> {
        let mut entries = Vec::new();
        loop {
            let (now, count, entry) = match read(self, entries.len() as u32) {
                Ok(answer) => answer,
                // It is empty, or has become shorter.
                Err(Error::Refused(refusal)) if refusal.code == Some(Code::Unknown) => {
                    return Ok(entries.is_empty().then_some(entries));
                }
                Err(error) => return Err(error),
            };
            if now != revision {
                return Ok(None);
            }
            entries.push(entry);
            if entries.len() >= count as usize {
                return Ok(Some(entries));
            }
        }
    }
}

/// The name as far as it can be shown.
fn shown(name: &Name) -> String {
    name.get().unwrap_or("?").to_owned()
}

fn some(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

impl Server {
    fn unpack(from: &ServerStatus) -> Server {
        Server {
            realtime: from.realtime == 1,
            policy: shown(&from.policy),
            admission: shown(&from.admission),
            analysis: shown(&from.analysis),
            note: unpack_text(&from.note),
            kappa_ns: from.kappa_ns,
            epsilon_ns: from.epsilon_ns,
            sigma_ns: from.sigma_ns,
            hop_ns: from.hop_ns,
            decisions: from.decisions,
            refused: from.refused,
            last_decision_ns: from.last_decision_ns,
            longest_decision_ns: from.longest_decision_ns,
        }
    }
}

impl Memory {
    fn unpack(entries: &[MemoryStatus]) -> Memory {
        let user = |entry: &MemoryStatus| User {
            uid: entry.uid,
            sessions: entry.sessions,
            used_bytes: entry.used_bytes,
            limit_bytes: entry.limit_bytes,
        };
        // The one that asks has a session, so there is an entry.
        let last = entries.last();
        Memory {
            used_bytes: last.map_or(0, |entry| entry.total_bytes),
            limit_bytes: last.map_or(0, |entry| entry.total_limit_bytes),
            users: entries.iter().map(user).collect(),
        }
    }
}

impl Bandwidth {
    fn unpack(from: &BandwidthStatus) -> Bandwidth {
        Bandwidth {
            socket: unpack_text(&from.socket),
            note: unpack_text(&from.note),
            services: from.services,
            running: from.running,
            locked: from.locked,
            unlocked: from.unlocked,
            interrupted: from.interrupted,
            acquisitions: from.acquisitions,
            held_ns: from.held_ns,
        }
    }
}

impl Accelerator {
    fn unpack(from: &AcceleratorStatus) -> Accelerator {
        Accelerator {
            id: shown(&from.id),
            device: shown(&from.device),
            buckets: from.buckets,
            queued: from.queued,
            running: from.running,
            registrations: from.registrations,
            sigma: from.sigma,
            epsilon: from.epsilon,
        }
    }
}

impl Session {
    fn unpack(from: &SessionStatus) -> Session {
        Session {
            number: from.session,
            pid: from.pid,
            uid: from.uid,
            registrations: from.registrations,
            executor: (from.declared == 1).then_some((from.core, from.process_priority)),
            note: unpack_text(&from.note),
        }
    }
}

impl Chain {
    fn unpack(from: &ChainStatus) -> Chain {
        let buckets = from.buckets.iter().enumerate();
        Chain {
            name: shown(&from.name),
            priority: from.priority,
            standing: Standing::from_number(from.standing),
            origin: Origin::from_number(from.origin),
            callbacks: from.callbacks,
            positions: from.positions,
            registrations: from.registrations,
            period_ns: some(from.period_ns),
            deadline_ns: some(from.deadline_ns),
            bound_ns: some(from.bound_ns),
            requests: from.requests,
            longest_ns: some(from.longest_ns),
            overruns: from.overruns,
            excess: from.excess,
            buckets: buckets
                .filter(|(_, bucket)| **bucket != NO_BUCKET)
                .map(|(accelerator, &bucket)| (accelerator, u32::from(bucket)))
                .collect(),
            note: unpack_text(&from.note),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::FromZeros;

    #[test]
    fn chain_is_unpacked_as_the_server_packed_it() {
        let mut packet = ChainStatus {
            kind: ChainStatus::KIND,
            standing: Standing::Guaranteed as u32,
            origin: Origin::Clients as u32,
            period_ns: 5,
            buckets: [NO_BUCKET; control::SHOWN_ACCELERATORS],
            name: Name::cut("brake"),
            note: control::pack_text("why"),
            ..ChainStatus::new_zeroed()
        };
        packet.buckets[1] = 3;
        let chain = Chain::unpack(&ChainStatus::parse(packet.as_bytes()).unwrap());
        assert_eq!(
            (chain.standing, chain.origin),
            (Some(Standing::Guaranteed), Some(Origin::Clients))
        );
        assert_eq!((chain.period_ns, chain.deadline_ns, chain.longest_ns), (Some(5), None, None));
        assert_eq!(chain.buckets, [(1, 3)]);
        assert_eq!((chain.name.as_str(), chain.note.as_str()), ("brake", "why"));
        packet.standing = 77;
        assert_eq!(Chain::unpack(&packet).standing, None, "a number of a newer server");
    }
}

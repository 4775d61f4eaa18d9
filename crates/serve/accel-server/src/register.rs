//! Registration: what a client asks for, checked against what the server offers and what this
//! user may have.

use crate::access::Grant;
use crate::admission::{self, Exec, Source};
use crate::calibration::{Calibration, Measured};
use crate::meter::{Pace, Tally};
use crate::placement::{self, Crowd};
use crate::refusal::Refusal;
use crate::session::Registration;
use accel::control::{Code, Register};
use device::{Device, KernelId};
use rustix::fd::OwnedFd;
use shm::{Doorbell, Mapping, PeerSlice, Segment};
use std::sync::Arc;
use system::{Overrun, System};

/// Services that a client can register: the configured ones, and every kernel of every accelerator.
pub(crate) struct Services {
    system: System,
    devices: Vec<(String, Arc<dyn Device>)>,
    calibration: Option<Calibration>,
}

struct Offer {
    accelerator: usize,
    kernel: KernelId,
    fixed_arguments: Vec<u64>,
    exec_ns: Option<u64>,
    measured: Option<Measured>,
    locks: bool,
}

/// A registration packet, checked and turned into what the parts of the server need.
pub(crate) struct Prepared {
    pub chain: String,
    pub priority: u32,
    pub source: Source,
    pub executor: Option<(u32, u32)>,
    pub mapping: Option<Arc<Mapping>>,
    accelerator: usize,
    kernel: KernelId,
    fixed_arguments: Vec<u64>,
    budget_ns: Option<u64>,
    locks: bool,
}

impl Prepared {
    pub(crate) fn accelerator(&self) -> usize {
        self.accelerator
    }

    /// The registration as the dispatcher sees it.
    pub(crate) fn registration(self, tally: Arc<Tally>, now_ns: u64) -> Registration {
        let pace = match &self.source {
            Source::Declared(declaration) => {
                let period_ns = declaration.terms.period_ns;
                Some(Pace::new(period_ns, declaration.requests, now_ns))
            }
            _ => None,
        };
        Registration {
            accelerator: self.accelerator,
            kernel: self.kernel,
            fixed_arguments: self.fixed_arguments,
            chain: self.chain.into(),
            chain_priority: self.priority,
            budget_ns: self.budget_ns,
            locks: self.locks,
            pace,
            told_excess: false,
            tally,
            memory: self.mapping.map_or_else(PeerSlice::empty, PeerSlice::whole),
        }
    }
}

impl Services {
    pub(crate) fn new(
        system: &System,
        devices: Vec<(String, Arc<dyn Device>)>,
        calibration: Option<Calibration>,
    ) -> Services {
        Services { system: system.clone(), devices, calibration }
    }

    /// Finds a service on an accelerator; an empty accelerator leaves the choice to the server.
    fn find(&self, service: &str, accelerator: &str, crowds: &[Crowd]) -> Result<Offer, Refusal> {
        if let Some(named) = self.system.service(service) {
            if !accelerator.is_empty() && accelerator != named.accelerator {
                let text = format!(
                    "service {service:?} runs on accelerator {:?}, not on {accelerator:?}",
                    named.accelerator
                );
                return Err((Code::Unknown, text));
            }
            let (index, kernel) = self.kernel(&named.kernel, &named.accelerator, crowds)?;
            let calibration = self.calibration.as_ref();
            return Ok(Offer {
                accelerator: index,
                kernel,
                fixed_arguments: named.arguments.clone(),
                exec_ns: named.exec_ns,
                measured: calibration.and_then(|calibration| calibration.measured(service)),
                locks: named.bandwidth_lock,
            });
        }
        let (accelerator, kernel) = self.kernel(service, accelerator, crowds)?;
        Ok(Offer {
            accelerator,
            kernel,
            fixed_arguments: Vec::new(),
            exec_ns: None,
            measured: None,
            locks: false,
        })
    }

    /// Returns the time of one request of this registration, as far as it is known.
    ///
    /// If overruns are demoted, a request holds its bucket for no longer than its budget, however
    /// long it really takes. If they are only counted, the others have to expect the longest time
    /// that anybody knows.
    fn exec(&self, offer: &Offer, packet: &Register) -> Exec {
        let declared_ns = (packet.exec_ns > 0).then_some(packet.exec_ns);
        let known = [declared_ns, offer.exec_ns].into_iter().flatten();
        let measured = offer.measured;
        let budget_ns = known.clone().min().or(measured.map(|measured| measured.busy_ns));
        let most_ns = match self.system.server.overrun {
            Overrun::Demote => known.min().or(measured.map(|measured| measured.most_ns)),
            Overrun::Count => known.chain(measured.map(|measured| measured.most_ns)).max(),
        };
        let undeclared = declared_ns.is_none() && offer.exec_ns.is_none();
        let least_ns = match packet.exec_min_ns {
            0 if undeclared => measured.map_or(0, |measured| measured.least_ns),
            declared_ns => declared_ns,
        };
        Exec { most_ns, least_ns, budget_ns }
    }

    /// Finds the source of the chain's parameters: the configuration, the client, or none.
    fn source(&self, chain: &str, packet: &Register, exec: &Exec) -> Result<Source, Refusal> {
        let named = self.system.chains.iter().position(|configured| configured.id == chain);
        if let Some(index) = named {
            admission::agrees_with_file(packet, &self.system.chains[index])?;
            return Ok(Source::File(index));
        }
        let declaration = admission::declaration(packet, exec).map_err(|(code, text)| {
            let text = format!("chain {chain:?}: {text}");
            (code, text)
        })?;
        Ok(declaration.map_or(Source::Nobody, Source::Declared))
    }

    fn kernel(
        &self,
        kernel: &str,
        accelerator: &str,
        crowds: &[Crowd],
    ) -> Result<(usize, KernelId), Refusal> {
        let devices = self.devices.iter().enumerate();
        let mut candidates =
            devices.filter(|(_, (id, _))| accelerator.is_empty() || id == accelerator).peekable();
        if candidates.peek().is_none() {
            let ids: Vec<&str> = self.devices.iter().map(|(id, _)| id.as_str()).collect();
            let text = format!("accelerator {accelerator:?}: expected one of {ids:?}");
            return Err((Code::Unknown, text));
        }
        let offered: Vec<(usize, KernelId)> = candidates
            .filter_map(|(index, (_, device))| device.kernel(kernel).map(|kernel| (index, kernel)))
            .collect();
        let offering: Vec<usize> = offered.iter().map(|(index, _)| *index).collect();
        let kinds: Vec<_> = self.system.accelerators.iter().map(|one| one.device).collect();
        let chosen = placement::choose(&offering, &kinds, crowds);
        offered.into_iter().find(|(index, _)| Some(*index) == chosen).ok_or_else(|| {
            (Code::Unknown, format!("service {kernel:?}: this server offers {}", self.names()))
        })
    }

    fn names(&self) -> String {
        let services = self.system.services.iter().map(|service| service.name.clone());
        let kernels = self.devices.iter().flat_map(|(_, device)| device.kernels());
        let mut names: Vec<String> =
            services.chain(kernels.map(|kernel| kernel.name.to_string())).collect();
        names.sort();
        names.dedup();
        names.join(", ")
    }

    /// A chain that the configuration names has the priority given there.
    pub(crate) fn check_chain(&self, chain: &str, chain_priority: u32) -> Result<(), Refusal> {
        let Some(configured) = self.system.chain(chain) else { return Ok(()) };
        if configured.priority != chain_priority {
            let text = format!(
                "chain {chain:?} asks for priority {chain_priority}, the configuration gives it {}",
                configured.priority
            );
            return Err((Code::Priority, text));
        }
        Ok(())
    }

    /// The longest segment of a configured chain on an accelerator, with what the analysis adds
    /// to it: what its requests are held to where they declare nothing themselves.
    fn promised_ns(&self, source: &Source, accelerator: usize) -> Option<u64> {
        let Source::File(index) = source else { return None };
        let System { chains, kappa_ns, sigma_ns, .. } = &self.system;
        let segments = chains[*index].segments();
        let here = segments.filter(|segment| segment.accel == self.devices[accelerator].0);
        here.map(|segment| segment.exec_ns + 2 * kappa_ns + sigma_ns).max()
    }
}

/// Checks a priority against what this user may ask for.
pub(crate) fn check_priority(grant: &Grant, priority: u32) -> Result<(), Refusal> {
    if (grant.priority_min..=grant.priority_max).contains(&priority) {
        return Ok(());
    }
    let text = format!(
        "chain priority {priority}: this user may ask for {} to {}",
        grant.priority_min, grant.priority_max
    );
    Err((Code::Priority, text))
}

/// Checks a client's registration packet, and maps its memory. `crowds` tells what is on each
/// accelerator, in the eyes of a chain. The memory's pages are not there yet.
pub(crate) fn prepare(
    services: &Services,
    crowds: impl FnOnce(&str) -> Vec<Crowd>,
    grant: &Grant,
    memory: &Memory<'_>,
    packet: &Register,
    fds: Vec<OwnedFd>,
) -> Result<Prepared, Refusal> {
    let name = |what: &str, name: Option<&str>| {
        let bad = || (Code::Malformed, format!("the {what} is not a name"));
        name.map(str::to_string).ok_or_else(bad)
    };
    let chain = name("chain", packet.chain.get().filter(|chain| !chain.is_empty()))?;
    let service = name("service", packet.service.get())?;
    let accelerator = name("accelerator", packet.accelerator.get())?;
    check_priority(grant, packet.chain_priority)?;
    let offer = services.find(&service, &accelerator, &crowds(&chain))?;
    services.check_chain(&chain, packet.chain_priority)?;
    let exec = services.exec(&offer, packet);
    let source = services.source(&chain, packet, &exec)?;
    let executor = admission::executor(packet)?;
    let mapping = map(packet.memory_bytes, memory, fds)?;
    Ok(Prepared {
        chain,
        priority: packet.chain_priority,
        executor,
        mapping,
        accelerator: offer.accelerator,
        kernel: offer.kernel,
        fixed_arguments: offer.fixed_arguments,
        locks: offer.locks,
        budget_ns: exec.budget_ns.or(services.promised_ns(&source, offer.accelerator)),
        source,
    })
}

/// Check of the room for a registration's memory, and the bell of that memory.
pub(crate) struct Memory<'a> {
    /// Checks that there is room for more memory.
    pub fits: &'a dyn Fn(u64) -> Result<(), Refusal>,
    /// Rings when a page of it is lost.
    pub bell: &'a Arc<Doorbell>,
}

/// Maps the client's memory: exactly one descriptor where some is announced, none otherwise.
fn map(
    bytes: u64,
    memory: &Memory<'_>,
    fds: Vec<OwnedFd>,
) -> Result<Option<Arc<Mapping>>, Refusal> {
    (memory.fits)(bytes)?;
    let count = fds.len();
    match (bytes, fds.into_iter().next()) {
        (0, None) => Ok(None),
        (1.., Some(fd)) if count == 1 => {
            let refused = |error: shm::Error| (Code::Memory, error.to_string());
            let segment = Segment::accept(fd, bytes).map_err(refused)?;
            (memory.fits)(segment.cost_bytes().map_err(refused)?)?;
            let mapping = segment.map_guarded(memory.bell).map_err(refused)?;
            Ok(Some(Arc::new(mapping)))
        }
        _ => {
            let text = format!("{bytes} bytes of memory announced with {count} descriptors");
            Err((Code::Memory, text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use accel::control::Packet;
    use zerocopy::FromZeros;

    fn exec(overrun: &str, declared_ns: u64, service_ns: Option<u64>, measured: bool) -> Exec {
        let text = format!("server: {{overrun: {overrun}}}");
        let system = System::parse(&text, "test.yaml").unwrap();
        let services = Services::new(&system, Vec::new(), None);
        let measured = measured.then_some(Measured { least_ns: 20, most_ns: 30, busy_ns: 35 });
        let offer = Offer {
            accelerator: 0,
            kernel: KernelId(0),
            fixed_arguments: Vec::new(),
            exec_ns: service_ns,
            measured,
            locks: false,
        };
        let kind = Register::KIND;
        let packet = Register { kind, exec_ns: declared_ns, ..Register::new_zeroed() };
        services.exec(&offer, &packet)
    }

    #[test]
    fn longest_known_time_counts_unless_the_budget_is_enforced() {
        let expected = |most_ns, budget_ns| Exec { most_ns, least_ns: 0, budget_ns };
        assert_eq!(exec("count", 10, Some(25), true), expected(Some(30), Some(10)));
        assert_eq!(exec("demote", 10, Some(25), true), expected(Some(10), Some(10)));
        assert_eq!(exec("count", 10, Some(25), false), expected(Some(25), Some(10)));
        assert_eq!(exec("demote", 40, Some(25), false), expected(Some(25), Some(25)));
        assert_eq!(exec("count", 0, None, false), expected(None, None));
    }

    #[test]
    fn measured_times_stand_in_for_what_nobody_declares() {
        for overrun in ["count", "demote"] {
            let measured = exec(overrun, 0, None, true);
            let expected = Exec { most_ns: Some(30), least_ns: 20, budget_ns: Some(35) };
            assert_eq!(measured, expected, "{overrun}");
        }
        assert_eq!(exec("count", 0, Some(25), true).least_ns, 0, "the service has an exec");
    }
}

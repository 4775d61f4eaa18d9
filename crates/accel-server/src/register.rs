//! Registration: what a client asks for, checked against what the server offers and what this
//! user may have.

use crate::access::Grant;
use crate::session::Registration;
use accel::control::{Code, Register};
use device::{Device, KernelId};
use rustix::fd::OwnedFd;
use shm::{Mapping, PeerSlice, Segment};
use std::sync::Arc;
use system::System;

/// A refusal: what kind, and what was found and expected.
pub(crate) type Refusal = (Code, String);

/// What can be registered: the configured services, and every kernel of every accelerator.
pub(crate) struct Services {
    system: System,
    devices: Vec<(String, Arc<dyn Device>)>,
}

struct Offer {
    accelerator: usize,
    kernel: KernelId,
    fixed_arguments: Vec<u64>,
    exec_ns: Option<u64>,
}

impl Services {
    pub(crate) fn new(system: &System, devices: Vec<(String, Arc<dyn Device>)>) -> Services {
        Services { system: system.clone(), devices }
    }

    /// Finds a service on an accelerator; an empty accelerator leaves the choice to the server.
    fn find(&self, service: &str, accelerator: &str) -> Result<Offer, Refusal> {
        if let Some(named) = self.system.service(service) {
            if !accelerator.is_empty() && accelerator != named.accelerator {
                let text = format!(
                    "service {service:?} runs on accelerator {:?}, not on {accelerator:?}",
                    named.accelerator
                );
                return Err((Code::Unknown, text));
            }
            let (index, kernel) = self.kernel(&named.kernel, &named.accelerator)?;
            let fixed_arguments = named.arguments.clone();
            return Ok(Offer {
                accelerator: index,
                kernel,
                fixed_arguments,
                exec_ns: named.exec_ns,
            });
        }
        let (accelerator, kernel) = self.kernel(service, accelerator)?;
        Ok(Offer { accelerator, kernel, fixed_arguments: Vec::new(), exec_ns: None })
    }

    fn kernel(&self, kernel: &str, accelerator: &str) -> Result<(usize, KernelId), Refusal> {
        let devices = self.devices.iter().enumerate();
        let mut candidates =
            devices.filter(|(_, (id, _))| accelerator.is_empty() || id == accelerator).peekable();
        if candidates.peek().is_none() {
            let ids: Vec<&str> = self.devices.iter().map(|(id, _)| id.as_str()).collect();
            let text = format!("accelerator {accelerator:?}: expected one of {ids:?}");
            return Err((Code::Unknown, text));
        }
        let mut offered = candidates
            .filter_map(|(index, (_, device))| device.kernel(kernel).map(|kernel| (index, kernel)));
        offered.next().ok_or_else(|| {
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

    /// The bucket that the configuration gives a registration's chain, for a new priority.
    pub(crate) fn explicit_bucket(
        &self,
        registration: &Registration,
        chain_priority: u32,
    ) -> Result<Option<u32>, Refusal> {
        self.bucket_of_chain(&registration.chain, chain_priority, registration.accelerator)
    }

    /// A chain that the configuration names has the priority and the bucket given there.
    fn bucket_of_chain(
        &self,
        chain: &str,
        chain_priority: u32,
        accelerator: usize,
    ) -> Result<Option<u32>, Refusal> {
        let Some(configured) = self.system.chain(chain) else { return Ok(None) };
        if configured.priority != chain_priority {
            let text = format!(
                "chain {chain:?} asks for priority {chain_priority}, the configuration gives it {}",
                configured.priority
            );
            return Err((Code::Priority, text));
        }
        Ok(configured.bucket.get(&self.devices[accelerator].0).copied())
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

/// Turns a client's registration packet into a registration, with its memory mapped.
pub(crate) fn prepare(
    services: &Services,
    grant: &Grant,
    memory_left: u64,
    packet: &Register,
    fds: Vec<OwnedFd>,
) -> Result<(Registration, Option<Arc<Mapping>>), Refusal> {
    let name = |what: &str, name: Option<&str>| {
        let bad = || (Code::Malformed, format!("the {what} is not a name"));
        name.map(str::to_string).ok_or_else(bad)
    };
    let chain = name("chain", packet.chain.get())?;
    let service = name("service", packet.service.get())?;
    let accelerator = name("accelerator", packet.accelerator.get())?;
    check_priority(grant, packet.chain_priority)?;
    let offer = services.find(&service, &accelerator)?;
    let explicit_bucket =
        services.bucket_of_chain(&chain, packet.chain_priority, offer.accelerator)?;
    let mapping = map(packet.memory_bytes, memory_left, fds)?;
    let declared_ns = (packet.exec_ns > 0).then_some(packet.exec_ns);
    let registration = Registration {
        accelerator: offer.accelerator,
        kernel: offer.kernel,
        fixed_arguments: offer.fixed_arguments,
        chain,
        chain_priority: packet.chain_priority,
        explicit_bucket,
        budget_ns: [declared_ns, offer.exec_ns].into_iter().flatten().min(),
        memory: mapping.clone().map_or_else(PeerSlice::empty, PeerSlice::whole),
    };
    Ok((registration, mapping))
}

/// Maps the client's memory: exactly one descriptor where some is announced, none otherwise.
fn map(bytes: u64, left: u64, fds: Vec<OwnedFd>) -> Result<Option<Arc<Mapping>>, Refusal> {
    if bytes > left {
        let text = format!("{bytes} bytes of memory, {left} bytes are left to this session");
        return Err((Code::Limit, text));
    }
    let count = fds.len();
    match (bytes, fds.into_iter().next()) {
        (0, None) => Ok(None),
        (1.., Some(fd)) if count == 1 => {
            let refused = |error: shm::Error| (Code::Memory, error.to_string());
            let segment = Segment::accept(fd, bytes).map_err(refused)?;
            segment.map().map(Some).map_err(refused)
        }
        _ => {
            let text = format!("{bytes} bytes of memory announced with {count} descriptors");
            Err((Code::Memory, text))
        }
    }
}

//! How an executor gets at accelerators: through the server, or directly, with devices of its own
//! as programs have that know nothing of each other.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use accel::{CallbackId, Client, Registration, Request, Wait};
use accel_server::Options;
use anyhow::Context;
use device::{Device, Event, KernelId, Launch, Level, Status, StreamId};
use realtime::clock::monotonic_ns;
use serde::{Deserialize, Serialize};
use system::System;

use super::plan::{PartPlan, RequestPlan};

/// What an executor is told of it.
#[derive(Debug, Serialize, Deserialize)]
pub enum Way {
    /// The server's socket.
    Server(PathBuf),
    /// The system file, and the cores of each accelerator's threads: each executor process has the
    /// devices that it uses to itself, set up as the server would set them up.
    Direct(PathBuf, BTreeMap<String, Vec<usize>>),
}

/// An executor's accelerators.
pub enum Access {
    /// None of its callbacks asks for one.
    None,
    Server(Client),
    Direct(Box<Direct>),
}

/// Something to ask for again and again.
pub enum Ask {
    Server(CallbackId, Request),
    Direct(Lane),
}

/// Why a request was not done.
pub enum Failure {
    /// It had not ended in time.
    OutOfTime,
    /// And why.
    Failed(String),
}

/// The executor's own devices, by accelerator.
pub struct Direct {
    system: System,
    options: Options,
    devices: BTreeMap<String, Arc<dyn Device>>,
}

/// A stream with what runs in it.
pub struct Lane {
    device: Arc<dyn Device>,
    stream: StreamId,
    kernel: KernelId,
    argument: u64,
    event: Event,
}

impl Access {
    /// Connects to the server, or gets ready to start devices.
    pub fn open(way: &Way, asks: bool) -> anyhow::Result<Access> {
        Ok(match way {
            _ if !asks => Access::None,
            Way::Server(socket) => Access::Server(Client::connect(socket)?),
            Way::Direct(file, cores) => {
                let system = System::read(file)?;
                let (accelerator_cores, whole_launches) = (cores.clone(), true);
                let options = Options { accelerator_cores, whole_launches, ..Options::default() };
                let devices = BTreeMap::new();
                Access::Direct(Box::new(Direct { system, options, devices }))
            }
        })
    }

    /// Registers a request of a callback.
    pub fn register(
        &mut self,
        part: &PartPlan,
        number: u64,
        request: &RequestPlan,
    ) -> anyhow::Result<Ask> {
        match self {
            Access::None => anyhow::bail!("no accelerator was to be used"),
            Access::Server(client) => {
                let registration = Registration::service(&request.service)
                    .chain(&part.chain.id, part.chain.priority)
                    .accelerator(&request.accelerator)
                    .callback(number)
                    .exec(Duration::from_nanos(request.exec_ns));
                let id = client.register(&registration)?;
                Ok(Ask::Server(id, Request::new().arguments(&[request.argument])))
            }
            Access::Direct(direct) => direct.lane(request).map(Ask::Direct),
        }
    }

    /// Has a request done, at most until `end_ns`.
    ///
    /// # Errors
    /// It was not.
    pub fn run(&mut self, ask: &Ask, wait: Wait, end_ns: u64) -> Result<(), Failure> {
        match (self, ask) {
            (Access::Server(client), Ask::Server(id, request)) => {
                client.set_wait(wait);
                match through_server(client, *id, request, end_ns) {
                    Ok(()) => Ok(()),
                    Err(accel::Error::TimedOut { .. }) => Err(Failure::OutOfTime),
                    Err(error) => Err(Failure::Failed(error.to_string())),
                }
            }
            (_, Ask::Direct(lane)) => lane.run(wait, end_ns),
            (_, Ask::Server(..)) => Err(Failure::Failed("there is no server".into())),
        }
    }
}

fn through_server(
    client: &mut Client,
    id: CallbackId,
    request: &Request,
    end_ns: u64,
) -> Result<(), accel::Error> {
    let mut ticket = client.submit(id, request)?;
    let left = Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()));
    client.wait(&mut ticket, Some(left))?.ok().map(|_| ())
}

impl Direct {
    fn lane(&mut self, request: &RequestPlan) -> anyhow::Result<Lane> {
        let id = &request.accelerator;
        let device = match self.devices.get(id) {
            Some(device) => device.clone(),
            None => {
                let started = accel_server::start_device(&self.system, id, &self.options)?;
                self.devices.insert(id.clone(), started.clone());
                started
            }
        };
        let kernel = self.system.service(&request.service);
        let name = kernel.map_or(request.service.as_str(), |service| service.kernel.as_str());
        let kernel = device.kernel(name).with_context(|| format!("{id}: no kernel {name}"))?;
        let stream = device.create_stream(device.create_context()?, Level(0))?;
        let argument = request.argument;
        Ok(Lane { device, stream, kernel, argument, event: Event::new() })
    }
}

impl Lane {
    fn run(&self, wait: Wait, end_ns: u64) -> Result<(), Failure> {
        let launch = Launch::new(self.kernel, [self.argument, 0, 0, 0]);
        let failed = |error: device::Error| Failure::Failed(error.to_string());
        self.device.launch(self.stream, launch, &self.event).map_err(failed)?;
        let outcome = loop {
            let left = Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()));
            let ended = match wait {
                Wait::Suspend => self.event.wait_timeout(left),
                Wait::Spin => self.event.query(),
            };
            match ended {
                Some(outcome) => break outcome,
                None if left.is_zero() => {
                    // The event is free again when this has taken effect.
                    let _ = self.device.cancel(self.stream);
                    return Err(Failure::OutOfTime);
                }
                None => std::hint::spin_loop(),
            }
        };
        match outcome.status {
            Status::Done => Ok(()),
            status => Err(Failure::Failed(format!("the device ended it as {status:?}"))),
        }
    }
}

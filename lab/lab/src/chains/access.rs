//! Access of an executor to accelerators: through the server, or directly, with devices of its own
//! as programs have that know nothing of each other.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use accel::{CallbackId, Client, Registration, Request, Wait};
use accel_server::Options;
use anyhow::Context;
use device::{Device, Event, KernelId, Launch, Level, Status, StreamId};
use executor::Executor;
use realtime::clock::monotonic_ns;
use serde::{Deserialize, Serialize};
use system::System;

use super::chains_plan::RequestPlan;
use super::job::Spent;

/// Way by which an executor reaches accelerators.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Way {
    /// The server's socket.
    Server(PathBuf),
    /// The system file, and the cores of each accelerator's threads in this process: each executor
    /// process has the devices that it uses to itself, set up as the server would set them up.
    Direct(PathBuf, BTreeMap<String, Vec<usize>>),
}

/// Accelerators of an executor.
pub(crate) enum Access {
    /// Devices of the server with this socket.
    Server(PathBuf),
    /// Its own.
    Direct(Box<Direct>),
}

/// Something to ask for again and again.
pub(crate) enum Ask {
    Server(CallbackId, Request),
    Direct(Lane),
}

/// Reason why a request was not done.
pub(crate) enum Failure {
    /// The request had not ended in time.
    OutOfTime,
    /// The request failed, with the reason.
    Failed(String),
}

/// The executor's own devices, by accelerator.
pub(crate) struct Direct {
    system: System,
    options: Options,
    devices: BTreeMap<String, Arc<dyn Device>>,
}

/// A stream with what runs in it.
pub(crate) struct Lane {
    device: Arc<dyn Device>,
    stream: StreamId,
    kernel: KernelId,
    argument: u64,
    event: Event,
}

impl Access {
    /// Gets ready to register requests.
    pub(crate) fn open(way: &Way) -> anyhow::Result<Access> {
        Ok(match way {
            Way::Server(socket) => Access::Server(socket.clone()),
            Way::Direct(file, cores) => Access::Direct(Box::new(Direct::open(file, cores)?)),
        })
    }

    /// Registers a request of a callback of an executor, by the name and the priority of its chain
    /// and the client's own number for it. The first one connects the executor to the server.
    pub(crate) fn register(
        &mut self,
        executor: &mut Executor,
        chain: (&str, u32),
        number: u64,
        request: &RequestPlan,
    ) -> anyhow::Result<Ask> {
        match self {
            Access::Direct(direct) => direct.lane(request).map(Ask::Direct),
            Access::Server(socket) => {
                if executor.clients().is_empty() {
                    executor.connect(socket, Wait::Suspend)?;
                }
                let id = executor.register(&registration(chain, number, request))?;
                Ok(Ask::Server(id, Request::new().arguments(&[request.argument])))
            }
        }
    }
}

impl Ask {
    /// Runs the request, at most until `end_ns`, and adds where its time went.
    ///
    /// # Errors
    /// It was not.
    pub(crate) fn run(
        &self,
        client: Option<&mut Client>,
        wait: Wait,
        end_ns: u64,
        spent: &mut Spent,
    ) -> Result<(), Failure> {
        match (self, client) {
            (Ask::Direct(lane), _) => lane.run(wait, end_ns, spent),
            (Ask::Server(id, request), Some(client)) => {
                client.set_wait(wait);
                through_server(client, *id, request, end_ns, spent).map_err(|error| match error {
                    accel::Error::TimedOut { .. } => Failure::OutOfTime,
                    error => Failure::Failed(error.to_string()),
                })
            }
            (Ask::Server(..), None) => Err(Failure::Failed("there is no server".into())),
        }
    }
}

/// Returns the registration of a request of a chain.
pub(crate) fn registration(
    (chain, priority): (&str, u32),
    number: u64,
    of: &RequestPlan,
) -> Registration {
    Registration::service(&of.service)
        .chain(chain, priority)
        .accelerator(&of.accelerator)
        .callback(number)
        .exec(Duration::from_nanos(of.exec_ns))
}

fn through_server(
    client: &mut Client,
    id: CallbackId,
    request: &Request,
    end_ns: u64,
    spent: &mut Spent,
) -> Result<(), accel::Error> {
    let mut ticket = client.submit(id, request)?;
    let left = Duration::from_nanos(end_ns.saturating_sub(monotonic_ns()));
    let outcome = client.wait(&mut ticket, Some(left))?.ok()?;
    let accel::RequestOutcome { submitted_ns, arrived_ns, started_ns, finished_ns, .. } = outcome;
    spent.request([submitted_ns, arrived_ns, started_ns, finished_ns, monotonic_ns()]);
    Ok(())
}

impl Direct {
    /// Gets ready to start the devices of a system file.
    fn open(file: &Path, cores: &BTreeMap<String, Vec<usize>>) -> anyhow::Result<Direct> {
        let (accelerator_cores, whole_launches) = (cores.clone(), true);
        let options = Options { accelerator_cores, whole_launches, ..Options::default() };
        Ok(Direct { system: System::read(file)?, options, devices: BTreeMap::new() })
    }

    /// A stream of its own for a request.
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
    /// Runs the request, at most until `end_ns`, and adds where its time went.
    fn run(&self, wait: Wait, end_ns: u64, spent: &mut Spent) -> Result<(), Failure> {
        let begin_ns = monotonic_ns();
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
            Status::Done => {
                let (started_ns, finished_ns) = (outcome.started_ns, outcome.finished_ns);
                spent.request([begin_ns, begin_ns, started_ns, finished_ns, monotonic_ns()]);
                Ok(())
            }
            status => Err(Failure::Failed(format!("the device ended it as {status:?}"))),
        }
    }
}

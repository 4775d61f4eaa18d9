//! Registration by a client: a service, for a callback of a chain, with memory of its own.
//!
//! A registration may also declare the chain: its period and deadline, the processor time of the
//! callback, the executor that runs it. The server then promises that the chain keeps its
//! deadline, or refuses it in words. Without a period nothing is declared and nothing promised.

use crate::control::{self, Name, Packet, flag};
use crate::{Error, Wait};
use shm::{PeerSlice, Segment};
use std::time::Duration;

/// Registration of a service for a callback of a chain.
#[derive(Clone, Debug)]
pub struct Registration {
    service: String,
    accelerator: String,
    chain: String,
    pub(crate) priority: u32,
    callback: u64,
    pub(crate) memory: usize,
    exec_ns: u64,
    exec_min_ns: u64,
    period_ns: u64,
    deadline_ns: u64,
    jitter_ns: u64,
    cpu_ns: u64,
    cpu_min_ns: u64,
    position: u32,
    requests: u32,
    executor: Option<(u32, u32)>,
    wait: Wait,
    best_effort: bool,
}

impl Registration {
    /// A registration for the service of this name, in a chain of its own at priority 0.
    pub fn service(name: &str) -> Registration {
        Registration {
            service: name.into(),
            accelerator: String::new(),
            chain: name.into(),
            priority: 0,
            callback: 0,
            memory: 0,
            exec_ns: 0,
            exec_min_ns: 0,
            period_ns: 0,
            deadline_ns: 0,
            jitter_ns: 0,
            cpu_ns: 0,
            cpu_min_ns: 0,
            position: 0,
            requests: 1,
            executor: None,
            wait: Wait::Suspend,
            best_effort: false,
        }
    }

    /// The chain that the callback belongs to, and its priority; larger is more critical.
    pub fn chain(mut self, name: &str, priority: u32) -> Registration {
        (self.chain, self.priority) = (name.into(), priority);
        self
    }

    /// The client's own number for the callback.
    pub fn callback(mut self, number: u64) -> Registration {
        self.callback = number;
        self
    }

    /// Bytes of memory that requests and results share.
    pub fn memory(mut self, bytes: usize) -> Registration {
        self.memory = bytes;
        self
    }

    /// Declares how long one request occupies the device at most.
    pub fn exec(mut self, time: Duration) -> Registration {
        self.exec_ns = nanoseconds(time);
        self
    }

    /// Declares how long one request occupies the device at least.
    pub fn exec_min(mut self, time: Duration) -> Registration {
        self.exec_min_ns = nanoseconds(time);
        self
    }

    /// Declares the least distance between two releases of the chain, and with it the chain: the
    /// server promises its deadline, or refuses. Every callback of a chain declares the same
    /// period, deadline, jitter, wait mode and priority. The server also needs to know
    /// [`executor`](Registration::executor), and the execution time from
    /// [`exec`](Registration::exec), its configuration or its calibration.
    pub fn period(mut self, time: Duration) -> Registration {
        self.period_ns = nanoseconds(time);
        self
    }

    /// Declares the chain's deadline, from the nominal release of its first callback to the end of
    /// its last one; without it, the period.
    pub fn deadline(mut self, time: Duration) -> Registration {
        self.deadline_ns = nanoseconds(time);
        self
    }

    /// Declares how much later than its nominal release a job of the chain may be released.
    pub fn jitter(mut self, time: Duration) -> Registration {
        self.jitter_ns = nanoseconds(time);
        self
    }

    /// Declares how much processor time the callback needs at most, without what requests cost.
    pub fn cpu(mut self, time: Duration) -> Registration {
        self.cpu_ns = nanoseconds(time);
        self
    }

    /// Declares how much processor time the callback needs at least.
    pub fn cpu_min(mut self, time: Duration) -> Registration {
        self.cpu_min_ns = nanoseconds(time);
        self
    }

    /// Declares where in the chain the callback stands, from 0. A second registration at the same
    /// position, of the same callback in the same session, is another request of that callback.
    pub fn position(mut self, position: u32) -> Registration {
        self.position = position;
        self
    }

    /// Declares how many requests one job of the chain sends by this registration; without it, 1.
    pub fn requests(mut self, count: u32) -> Registration {
        self.requests = count;
        self
    }

    /// Declares what runs the callback: the core that its thread is kept on, and the thread's
    /// `SCHED_FIFO` priority, 0 for normal scheduling. All registrations of one client are run by
    /// one thread, so they declare the same.
    pub fn executor(mut self, core: u32, priority: u32) -> Registration {
        self.executor = Some((core, priority));
        self
    }

    /// Declares how the chain waits for accelerators; [`Client::set_wait`](crate::Client::set_wait)
    /// is what makes it so.
    pub fn wait(mut self, wait: Wait) -> Registration {
        self.wait = wait;
        self
    }

    /// Declares that the chain's own deadline does not count: it is promised nothing, and let in
    /// unless it breaks a promise to another chain.
    pub fn best_effort(mut self) -> Registration {
        self.best_effort = true;
        self
    }

    /// The accelerator, where the server has several that offer the service.
    pub fn accelerator(mut self, id: &str) -> Registration {
        self.accelerator = id.into();
        self
    }

    /// Returns true if it declares its chain.
    pub(crate) fn declares(&self) -> bool {
        self.period_ns > 0
    }

    /// The chain's name.
    pub(crate) fn chain_name(&self) -> &str {
        &self.chain
    }

    pub(crate) fn packet(&self) -> Result<control::Register, Error> {
        let accelerator = match self.accelerator.as_str() {
            "" => Name::EMPTY,
            id => Name::new("accelerator", id)?,
        };
        let (core, process_priority) = self.executor.unwrap_or((0, 0));
        let bit = |set: bool, bit: u32| if set { bit } else { 0 };
        Ok(control::Register {
            kind: control::Register::KIND,
            chain_priority: self.priority,
            callback: self.callback,
            memory_bytes: self.memory as u64,
            exec_ns: self.exec_ns,
            exec_min_ns: self.exec_min_ns,
            period_ns: self.period_ns,
            deadline_ns: self.deadline_ns,
            jitter_ns: self.jitter_ns,
            cpu_ns: self.cpu_ns,
            cpu_min_ns: self.cpu_min_ns,
            position: self.position,
            requests: self.requests,
            core,
            process_priority,
            flags: bit(self.wait == Wait::Spin, flag::SPINS)
                | bit(self.best_effort, flag::BEST_EFFORT)
                | bit(self.executor.is_some(), flag::EXECUTOR),
            reserved: 0,
            chain: Name::new("chain", &self.chain)?,
            service: Name::new("service", &self.service)?,
            accelerator,
        })
    }
}

/// Times that do not fit are refused by the server, not wrapped.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// A registered callback of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallbackId(pub(crate) usize);

impl CallbackId {
    /// The number behind the id, for bindings.
    pub fn index(self) -> usize {
        self.0
    }

    /// The id of a number; the client checks it at each use.
    pub fn from_index(index: usize) -> CallbackId {
        CallbackId(index)
    }
}

/// A registration with its memory and what the server said of it.
pub(crate) struct Callback {
    pub registration: Registration,
    pub segment: Option<Segment>,
    pub memory: PeerSlice,
    pub number: u32,
    pub bucket: u32,
}

//! What a client registers: a service, for a callback of a chain, with memory of its own.

use crate::Error;
use crate::control::{self, Name, Packet};
use shm::{PeerSlice, Segment};
use std::time::Duration;

/// What to register: a service, for a callback of a chain.
#[derive(Clone, Debug)]
pub struct Registration {
    service: String,
    accelerator: String,
    chain: String,
    pub(crate) priority: u32,
    callback: u64,
    pub(crate) memory: usize,
    exec_ns: u64,
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
        self.exec_ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// The accelerator, where the server has several that offer the service.
    pub fn accelerator(mut self, id: &str) -> Registration {
        self.accelerator = id.into();
        self
    }

    pub(crate) fn packet(&self) -> Result<control::Register, Error> {
        let accelerator = match self.accelerator.as_str() {
            "" => Name::EMPTY,
            id => Name::new("accelerator", id)?,
        };
        Ok(control::Register {
            kind: control::Register::KIND,
            chain_priority: self.priority,
            callback: self.callback,
            memory_bytes: self.memory as u64,
            exec_ns: self.exec_ns,
            chain: Name::new("chain", &self.chain)?,
            service: Name::new("service", &self.service)?,
            accelerator,
        })
    }
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

//! Reports of the real-time threads to the control thread, in parts: it puts them into words, so
//! that they need not allocate.

use std::fmt;
use std::sync::Arc;

use accel::request::BadMessage;

/// A request, as a message names it.
pub(crate) struct Named {
    pub accelerator: Arc<str>,
    /// None if its registration is gone.
    pub chain: Option<Arc<str>>,
    pub launch_id: u64,
    pub pid: i32,
}

/// A line for the log, about one session.
pub(crate) enum Notice {
    /// A process sends requests of a chain more often than declared.
    Excess { chain: Arc<str>, pid: i32 },
    /// A request took longer than declared.
    Overran {
        request: Named,
        declared_us: u64,
        /// True if it was moved to the lowest bucket; an error if that should be and cannot.
        demoted: Result<bool, device::Error>,
    },
    /// The device broke down under a request.
    Lost {
        request: Named,
        /// Reason why the device cannot be set up anew, if it cannot.
        fault: Option<String>,
    },
}

/// Reason for which a session is ended.
pub(crate) enum Reason {
    /// Its ring cannot be as it is.
    Ring(shm::Error),
    /// A message cannot be read.
    Message(BadMessage),
    /// The session used a slot that is in use, or that does not exist.
    Slot(u16),
    /// A request of it never ended.
    Endless(Named),
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Named { accelerator, chain, launch_id, pid } = self;
        let chain = chain.as_deref().unwrap_or("?");
        write!(f, "{accelerator}: chain {chain}, request {launch_id} of process {pid}")
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Notice::Excess { chain, pid } => {
                write!(f, "chain {chain}: process {pid} sends requests more often than it declared")
            }
            Notice::Overran { request, declared_us, demoted } => {
                write!(f, "{request} runs longer than the declared {declared_us} us")?;
                match demoted {
                    Ok(true) => f.write_str(", demoted to the lowest bucket"),
                    Ok(false) => Ok(()),
                    Err(error) => write!(f, ", cannot be demoted: {error}"),
                }
            }
            Notice::Lost { request, fault } => {
                write!(f, "{request} was lost: the device broke down, and ")?;
                match fault {
                    Some(why) => write!(f, "cannot be set up anew: {why}"),
                    None => f.write_str("is set up anew"),
                }
            }
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Ring(error) => error.fmt(f),
            Reason::Message(error) => error.fmt(f),
            Reason::Slot(slot) => write!(f, "slot {slot} is in use or does not exist"),
            Reason::Endless(request) => {
                write!(f, "{request} never ended; the device is set up anew")
            }
        }
    }
}

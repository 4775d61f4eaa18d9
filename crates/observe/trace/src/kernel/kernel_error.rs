//! Reasons why a recording around the program failed, and how an administrator grants it.

use super::format::FormatError;
use std::io;

/// Reason why a collector cannot serve a request.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The kernel has no tracer, or it may not be reached.
    #[error("the kernel's tracer cannot be reached: {action}: {source}; {grant}")]
    Tracer {
        /// The action that failed.
        action: String,
        /// The kernel's reason.
        source: io::Error,
        /// Instruction for an administrator who wants to grant it.
        grant: &'static str,
    },
    /// A control file of the tracer said no.
    #[error("tracefs: {file}: cannot {action}: {source}")]
    Control {
        /// The file, from the root of tracefs.
        file: String,
        /// The action that failed.
        action: String,
        /// The kernel's reason.
        source: io::Error,
    },
    /// The kernel describes its events in a way that is not understood.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The process is in a container: the tracer uses the machine's thread ids, the program others.
    #[error(
        "this process is in its own process-id namespace ({namespace}), and the kernel's tracer \
         uses the thread ids of the machine: run keeptime outside the container, or start the \
         container with `--pid=host`"
    )]
    Namespace {
        /// The namespace of process ids.
        namespace: String,
    },
    /// Switch records were refused.
    #[error("perf_event_open for process {process} on processor {processor}: {source}; {grant}")]
    Switches {
        /// The program.
        process: u32,
        /// The processor.
        processor: u32,
        /// The kernel's reason.
        source: io::Error,
        /// Instruction for an administrator who wants to grant it.
        grant: String,
    },
    /// There was no memory to share with the kernel.
    #[error(
        "a ring of {bytes} bytes for each of {processors} processors: {source}; raise \
         kernel.perf_event_mlock_kb or the limit of locked memory (`ulimit -l`)"
    )]
    Ring {
        /// The smallest size that was tried.
        bytes: usize,
        /// Number of processors, each of which needed a ring.
        processors: usize,
        /// The kernel's reason.
        source: io::Error,
    },
    /// Any other refusal.
    #[error("{call}: {source}")]
    System {
        /// The call, with its object.
        call: String,
        /// The kernel's reason.
        source: io::Error,
    },
}

impl Error {
    pub(super) fn system<E: Into<io::Error>>(call: impl Into<String>) -> impl FnOnce(E) -> Error {
        let call = call.into();
        move |error| Error::System { call, source: error.into() }
    }
}

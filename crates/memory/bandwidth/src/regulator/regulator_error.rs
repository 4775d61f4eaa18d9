//! Reasons for which cores cannot be regulated.

use std::io;

/// An error of the regulator.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A setting that makes no sense here.
    #[error("{key}: found {found}, expected {expected}")]
    Config {
        /// The setting.
        key: &'static str,
        /// Value that was found.
        found: String,
        /// Value that was expected.
        expected: String,
    },
    /// The holders' door could not be opened.
    #[error(transparent)]
    Holders(#[from] crate::Error),
    /// A thread did not get its core or its priority.
    #[error(transparent)]
    Realtime(#[from] realtime::Error),
    /// An event cannot be counted on a core.
    #[error("{event} cannot be counted on core {core}: {reason}{}", grant(reason))]
    Count {
        /// The event.
        event: String,
        /// The core.
        core: usize,
        /// The kernel's reason.
        reason: io::Error,
    },
    /// A counter counts, but not what it is said to.
    #[error(
        "{event} on core {core} counted {counted} for a copy of {copied_lines} cache lines, \
         expected {} to {}: the counter is unreliable",
        copied_lines / 2,
        copied_lines * 4
    )]
    Untrusted {
        /// The event.
        event: String,
        /// The core.
        core: usize,
        /// Number of events that it counted.
        counted: u64,
        /// Lines that were read, and as many were written.
        copied_lines: u64,
    },
    /// A thread could not be started.
    #[error("a thread cannot be started: {0}")]
    Thread(io::Error),
}

fn grant(reason: &io::Error) -> &'static str {
    match reason.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "; counting all events of a core needs root, CAP_PERFMON, or \
             kernel.perf_event_paranoid <= 0"
        }
        Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP) => {
            "; this machine has no such counter, as is common in virtual machines"
        }
        _ => "",
    }
}

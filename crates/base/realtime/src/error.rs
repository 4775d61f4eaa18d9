//! Errors of a thread that asks for treatment that other threads do not get.

/// Reason for which the kernel refused a request of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The process lacks a privilege.
    #[error("{action} was refused: {missing}; to grant it: {grant}")]
    Privilege {
        /// Action that was asked for.
        action: String,
        /// The privilege that is not there.
        missing: String,
        /// Steps by which an administrator grants it.
        grant: String,
    },
    /// A priority outside 1..=99.
    #[error("priority {priority} is outside 1..=99")]
    Priority {
        /// The priority that was asked for.
        priority: u8,
    },
    /// One of the cores does not exist, or this process may not use it.
    #[error("cores {wanted:?} cannot all be used: this process may use {allowed:?}")]
    Cores {
        /// The cores that were asked for.
        wanted: Vec<usize>,
        /// The cores that the process may use.
        allowed: Vec<usize>,
    },
    /// Any other refusal by the kernel.
    #[error("{call} failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        source: std::io::Error,
    },
}

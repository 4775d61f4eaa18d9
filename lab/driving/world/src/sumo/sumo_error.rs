//! Errors of SUMO's traffic.

/// Error between SUMO and this client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection, a closed one, or no answer in time.
    #[error("SUMO at {address}: {step}: {reason}")]
    Connection {
        /// Address at which SUMO was expected.
        address: String,
        /// Action that failed.
        step: &'static str,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// SUMO refused a command.
    #[error("SUMO refused {command}: {reason:?}")]
    Refused {
        /// The command.
        command: &'static str,
        /// SUMO's words.
        reason: String,
    },
    /// A message from SUMO that contradicts the protocol.
    #[error("SUMO's answer, byte {at}: found {found}, expected {expected}")]
    Message {
        /// Offset from the answer's first byte.
        at: usize,
        /// Content that was found there.
        found: String,
        /// Content that the protocol has there.
        expected: &'static str,
    },
    /// An interface that is too old.
    #[error("SUMO's TraCI version: found {found}, expected {oldest} or newer")]
    Version {
        /// SUMO's.
        found: i32,
        /// The oldest that will do.
        oldest: i32,
    },
    /// A program could not be started.
    #[error(
        "SUMO: the program {program}: {reason}; expected it in PATH, or named by KEEPTIME_SUMO (it \
         comes with the Python package eclipse-sumo: pip install eclipse-sumo)"
    )]
    Program {
        /// Its path or name.
        program: String,
        /// Error of the operating system.
        reason: std::io::Error,
    },
    /// A program ended where it was not to.
    #[error("SUMO: {program} ended {during}, with {status}{said}")]
    Ended {
        /// Its path or name.
        program: String,
        /// Phase in which it ended.
        during: &'static str,
        /// Exit status of the program.
        status: std::process::ExitStatus,
        /// Last lines of its output, after a colon; empty if it wrote none.
        said: String,
    },
    /// Routes of which SUMO leaves some out.
    #[error("SUMO: {file}: {said}")]
    Routes {
        /// The file of routes.
        file: String,
        /// SUMO's words.
        said: String,
    },
    /// A vehicle that cannot be.
    #[error("SUMO's vehicle {vehicle:?}: found a {what} of {found}, expected {expected}")]
    Vehicle {
        /// Its name.
        vehicle: String,
        /// `length`, `width`, `speed` or `acceleration`.
        what: &'static str,
        /// Value that SUMO reported.
        found: f64,
        /// Values that are possible.
        expected: &'static str,
    },
    /// The ego's route is not SUMO's.
    #[error("SUMO's network: found no route at x {x:.1}, y {y:.1}, expected the ego's route there")]
    Route {
        /// m.
        x: f64,
        /// m.
        y: f64,
    },
}

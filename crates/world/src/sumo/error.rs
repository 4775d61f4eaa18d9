//! Why SUMO's traffic could not be had.

/// What went wrong between SUMO and us.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection, a closed one, or no answer in time.
    #[error("SUMO at {address}: {step}: {reason}")]
    Connection {
        /// Where SUMO was expected.
        address: String,
        /// What was being done.
        step: &'static str,
        /// What the operating system said.
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
    /// What it sent contradicts the protocol.
    #[error("SUMO's answer, byte {at}: found {found}, expected {expected}")]
    Message {
        /// From the answer's first byte.
        at: usize,
        /// What was there.
        found: String,
        /// What the protocol has there.
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
        "SUMO: the program {program}: {reason}; expected it on the path, or named by KEEPTIME_SUMO \
         (it comes with the Python package eclipse-sumo: pip install eclipse-sumo)"
    )]
    Program {
        /// Its path or name.
        program: String,
        /// What the operating system said.
        reason: std::io::Error,
    },
    /// A program ended where it was not to.
    #[error("SUMO: {program} ended {during}, with {status}{said}")]
    Ended {
        /// Its path or name.
        program: String,
        /// When.
        during: &'static str,
        /// How.
        status: std::process::ExitStatus,
        /// What it said last, after a colon; nothing if it said nothing.
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
        /// What SUMO said.
        found: f64,
        /// What can be.
        expected: &'static str,
    },
    /// The ego's route is not SUMO's.
    #[error("SUMO's network: found no way at x {x:.1}, y {y:.1}, expected the ego's route there")]
    Route {
        /// m.
        x: f64,
        /// m.
        y: f64,
    },
}

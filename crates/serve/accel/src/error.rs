//! Errors of the client.

use std::path::PathBuf;

/// An error of the client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No server answers at this address.
    #[error("no accelerator server at {path}: {}", nobody(.errno))]
    NoServer {
        /// The socket's path.
        path: PathBuf,
        /// Reason for which the connection failed.
        errno: rustix::io::Errno,
    },
    /// A server of a user whom this program has no reason to trust.
    #[error(
        "{path}: server of user {uid}, expected a server of {}; to trust user {uid}: \
         Client::connect_to, keeptime_connect_to, or --server-user",
        expected(.user)
    )]
    Stranger {
        /// The socket's path.
        path: PathBuf,
        /// User of the server that listens at this socket.
        uid: u32,
        /// Users whose server was expected.
        user: shm::peer::ServerUser,
    },
    /// The server ended, or closed this session, while requests were in flight.
    ///
    /// The request may or may not have run. The next call connects and registers anew.
    #[error("the accelerator server is gone{}{reason}", launch(.launch_id))]
    ServerLost {
        /// The request that was being waited for, if any.
        launch_id: Option<u64>,
        /// Last message of the server, if there was any, with a leading colon.
        reason: String,
    },
    /// The server refused.
    #[error("the accelerator server refused: {0}")]
    Refused(crate::control::Refusal),
    /// The request ended without a result.
    #[error("request {launch_id} failed: {status:?}")]
    Failed {
        /// Launch id of the request.
        launch_id: u64,
        /// Status with which it ended.
        status: crate::Status,
    },
    /// All slots of the session are in use.
    #[error("{slots} requests are outstanding, the session's ring holds no more")]
    Full {
        /// Requests that may be outstanding.
        slots: usize,
    },
    /// The time given for waiting is over; the request goes on.
    #[error("request {launch_id} did not complete within the time given")]
    TimedOut {
        /// Launch id of the request.
        launch_id: u64,
    },
    /// No such callback in this client.
    #[error("callback {0} is not registered with this client")]
    UnknownCallback(usize),
    /// The server speaks another protocol.
    #[error("protocol: {0}")]
    Protocol(String),
    /// The server's state changed each time it was read.
    #[error("the server's chains and sessions changed {tries} times while they were read")]
    Unsettled {
        /// Number of attempts.
        tries: usize,
    },
    /// A name that the control messages cannot carry, or that people could not tell from another.
    #[error(
        "{what} {name:?}: expected 1 to {limit} bytes of visible characters, without outer spaces"
    )]
    BadName {
        /// Kind of the object that has the name.
        what: &'static str,
        /// The name.
        name: String,
        /// Longest name in bytes.
        limit: usize,
    },
    /// Shared memory failed.
    #[error(transparent)]
    Memory(#[from] shm::Error),
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// The call.
        call: &'static str,
        /// The reason.
        errno: rustix::io::Errno,
    },
}

fn nobody(errno: &rustix::io::Errno) -> String {
    use rustix::io::Errno;
    match *errno {
        Errno::AGAIN => {
            let waited = crate::CONNECT_PATIENCE.as_secs();
            format!("it accepted no connection for {waited} s, its queue is full")
        }
        Errno::ACCESS => {
            format!(
                "{errno} (users that may connect: server.access and server.group in its system \
                 file)"
            )
        }
        errno => format!("{errno} (start one with `keeptime serve CONFIG`)"),
    }
}

fn expected(user: &shm::peer::ServerUser) -> String {
    let own = rustix::process::geteuid().as_raw();
    match *user {
        shm::peer::ServerUser::RootOrOwn if own == 0 => "root".into(),
        shm::peer::ServerUser::RootOrOwn => format!("root or user {own}, that of this program"),
        shm::peer::ServerUser::RootOr(user) => format!("root or user {user}"),
    }
}

fn launch(id: &Option<u64>) -> String {
    id.map_or(String::new(), |id| format!(" (request {id} was in flight)"))
}

impl Error {
    /// The error of a system call, for `map_err`.
    pub fn system(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
        move |errno| Error::System { call, errno }
    }
}

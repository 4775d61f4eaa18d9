//! Settings of the accelerator server: its door, its threads, its limits, and who may come in.

use crate::System;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The `server` section, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Server {
    /// Socket at which the server listens; [`Server::socket_path`] resolves the default.
    pub socket: Option<PathBuf>,
    /// Permissions of the socket.
    pub mode: u32,
    /// Group that owns the socket.
    pub group: Option<String>,
    /// Order in which requests are served.
    pub policy: Policy,
    /// Length of one turn under [`Policy::Timeslice`].
    pub slice_ns: u64,
    /// `SCHED_FIFO` priority of the dispatch thread, its helpers just below; 0 is normal.
    pub priority: u32,
    /// Cores of the server's own threads; empty leaves the choice to the kernel.
    pub cores: Vec<u32>,
    /// True if the cores of the server and its devices are kept from idling.
    pub awake: bool,
    /// Treatment of a request that runs longer than it declared.
    pub overrun: Overrun,
    /// Treatment of a chain that would break a promise.
    pub admission: Admission,
    /// Bound on which a promise rests.
    pub analysis: Bound,
    /// Measured execution times, as `keeptime calibrate` writes them; a relative path begins at
    /// the folder of the system file. See [`System::calibration_path`].
    pub calibration: Option<PathBuf>,
    /// Socket of the memory bandwidth's regulator, for services with a
    /// [`bandwidth_lock`](crate::Service::bandwidth_lock); none: the default socket.
    pub bandwidth_socket: Option<PathBuf>,
    /// Limits of the clients.
    pub limits: Limits,
    /// Users that may connect, and their chain priorities; the first rule that matches counts.
    pub access: Vec<AccessRule>,
}

/// Order in which requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    /// The highest bucket, with preemption.
    #[default]
    Priority,
    /// The oldest request.
    Fifo,
    /// Every client in turn, for one slice.
    Timeslice,
}

impl std::str::FromStr for Policy {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<Policy, &'static str> {
        match name {
            "priority" => Ok(Policy::Priority),
            "fifo" => Ok(Policy::Fifo),
            "timeslice" => Ok(Policy::Timeslice),
            _ => Err("expected priority, fifo or timeslice"),
        }
    }
}

/// Treatment of a request that runs longer than it declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Overrun {
    /// It is counted.
    #[default]
    Count,
    /// It is counted, and goes on in the lowest bucket.
    Demote,
}

/// Treatment of a chain that would break a promise: its own, or that of another chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// It is refused.
    #[default]
    Enforce,
    /// It is let in, and the chains that lose their guarantee are marked.
    Report,
    /// Nothing is analysed, and nothing is promised.
    Off,
}

/// Bound on which a promise rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The refined one.
    #[default]
    Tight,
    /// The repaired theorem of PAAM.
    Sound,
}

/// Limits of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Sessions at the same time.
    pub sessions: u32,
    /// Registrations of one session.
    pub registrations: u32,
    /// Shared memory of one session.
    pub memory_bytes: u64,
    /// Shared memory of all sessions; none: by what the machine and its control group have.
    pub total_memory_bytes: Option<u64>,
    /// Shared memory of all sessions of one user; none: three quarters of all.
    pub user_memory_bytes: Option<u64>,
    /// New connections within one second.
    pub connects_per_second: u32,
    /// Share of the control thread that one user may have, in percent.
    pub control_percent: u32,
}

/// Rights of one user or group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AccessRule {
    /// User or group that the rule is for.
    pub subject: Subject,
    /// The least chain priority they may use.
    pub priority_min: u32,
    /// The greatest chain priority they may use.
    pub priority_max: u32,
    /// Sessions at the same time, where the rule limits them further.
    pub sessions: Option<u32>,
    /// Shared memory of one session, where the rule changes it.
    pub memory_bytes: Option<u64>,
    /// Of which accelerators the chains that they declare may ask for how much, in percent, each
    /// user for itself; none: of all, for everything.
    pub declare: Option<BTreeMap<String, u32>>,
}

/// A user or a group, by name or by number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    /// A user by name.
    User(String),
    /// A user by number.
    UserId(u32),
    /// A group by name.
    Group(String),
    /// A group by number.
    GroupId(u32),
}

impl Default for Server {
    fn default() -> Self {
        Self {
            socket: None,
            mode: 0o660,
            group: None,
            policy: Policy::Priority,
            slice_ns: 2_000_000,
            priority: 99,
            cores: Vec::new(),
            awake: false,
            overrun: Overrun::Count,
            admission: Admission::Enforce,
            analysis: Bound::Tight,
            calibration: None,
            bandwidth_socket: None,
            limits: Limits::default(),
            access: Vec::new(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            sessions: 64,
            registrations: 64,
            memory_bytes: 64 << 20,
            total_memory_bytes: None,
            user_memory_bytes: None,
            connects_per_second: 200,
            control_percent: 25,
        }
    }
}

impl Server {
    /// Returns the socket at which the server listens and clients find it.
    pub fn socket_path(&self) -> PathBuf {
        self.socket.clone().unwrap_or_else(default_socket_path)
    }
}

impl System {
    /// Returns the file of measured execution times, if the system file names one: a relative path
    /// begins at the folder of the system file.
    pub fn calibration_path(&self) -> Option<PathBuf> {
        Some(self.path(self.server.calibration.as_ref()?))
    }
}

/// The socket of a server whose file names none: `/run/keeptime/keeptime.sock` for root,
/// otherwise `$XDG_RUNTIME_DIR/keeptime/keeptime.sock`, where an unset variable means
/// `/run/user/UID`.
pub fn default_socket_path() -> PathBuf {
    let user = rustix::process::geteuid();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty());
    let folder = match runtime {
        _ if user.is_root() => PathBuf::from("/run"),
        Some(folder) => PathBuf::from(folder),
        None => PathBuf::from(format!("/run/user/{}", user.as_raw())),
    };
    folder.join("keeptime").join("keeptime.sock")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explicit_socket_wins() {
        let server = Server { socket: Some("/tmp/here.sock".into()), ..Server::default() };
        assert_eq!(server.socket_path(), PathBuf::from("/tmp/here.sock"));
    }

    #[test]
    fn a_calibration_is_looked_for_beside_the_system_file() {
        let path = |name: &str, file: &str| {
            let text = format!("server: {{calibration: {file}}}");
            System::parse(&text, name).unwrap().calibration_path()
        };
        assert_eq!(path("conf/robot.yaml", "robot.json"), Some("conf/robot.json".into()));
        assert_eq!(path("robot.yaml", "robot.json"), Some("robot.json".into()));
        assert_eq!(path("conf/robot.yaml", "/etc/robot.json"), Some("/etc/robot.json".into()));
        assert_eq!(System::parse("", "robot.yaml").unwrap().calibration_path(), None);
    }

    #[test]
    fn the_default_socket_has_a_folder_of_its_own() {
        assert!(Server::default().socket_path().ends_with("keeptime/keeptime.sock"));
    }
}

//! Settings of the accelerator server: its door, its threads, its limits, and who may come in.

use crate::field::{self, Size, TimeAbove0, file, name, number, socket};
use crate::{MAX_PRIORITY, System};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The `server` section, defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Server {
    /// Socket at which the server listens; none: the default one of its user.
    #[serde(deserialize_with = "socket")]
    pub socket: Option<PathBuf>,
    /// Permissions of the socket.
    #[serde(with = "mode")]
    pub mode: u32,
    /// Group that owns the socket.
    #[serde(deserialize_with = "name")]
    pub group: Option<String>,
    /// Order in which requests are served.
    pub policy: ArbitrationPolicy,
    /// Length of one turn under [`ArbitrationPolicy::Timeslice`].
    #[serde(rename = "slice", with = "TimeAbove0")]
    pub slice_ns: u64,
    /// `SCHED_FIFO` priority of the dispatch thread, its helpers just below; 0 is normal.
    #[serde(deserialize_with = "number::<_, _, 0, MAX_PRIORITY>")]
    pub priority: u32,
    /// Cores of the server's own threads; empty leaves the choice to the kernel.
    #[serde(deserialize_with = "field::cores")]
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
    #[serde(deserialize_with = "file")]
    pub calibration: Option<PathBuf>,
    /// Socket of the memory bandwidth's regulator, for services with a
    /// [`bandwidth_lock`](crate::Service::bandwidth_lock); none: the default socket.
    #[serde(deserialize_with = "socket")]
    pub bandwidth_socket: Option<PathBuf>,
    /// Limits of the clients.
    pub limits: Limits,
    /// Users that may connect, and their chain priorities; the first rule that matches counts.
    pub access: Vec<AccessRule>,
}

/// Order in which requests are served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ArbitrationPolicy {
    /// The highest bucket, with preemption.
    #[default]
    Priority,
    /// The oldest request.
    Fifo,
    /// Every client in turn, for one slice.
    Timeslice,
}

impl std::str::FromStr for ArbitrationPolicy {
    type Err = &'static str;

    fn from_str(name: &str) -> Result<ArbitrationPolicy, &'static str> {
        match name {
            "priority" => Ok(ArbitrationPolicy::Priority),
            "fifo" => Ok(ArbitrationPolicy::Fifo),
            "timeslice" => Ok(ArbitrationPolicy::Timeslice),
            _ => Err("expected priority, fifo or timeslice"),
        }
    }
}

/// Treatment of a request that runs longer than it declared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Overrun {
    /// The overrun is counted.
    #[default]
    Count,
    /// The overrun is counted, and the request goes on in the lowest bucket.
    Demote,
}

/// Treatment of a chain that would break a promise: its own, or that of another chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Admission {
    /// The registration is refused.
    #[default]
    Enforce,
    /// The registration is accepted, and the chains that lose their guarantee are marked.
    Report,
    /// Nothing is analysed, and nothing is promised.
    Off,
}

/// Bound on which a promise rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The refined one.
    #[default]
    Tight,
    /// The repaired theorem of PAAM.
    Sound,
}

/// Limits of the clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Sessions at the same time.
    #[serde(deserialize_with = "number::<_, _, 1, 65_536>")]
    pub sessions: u32,
    /// Registrations of one session.
    #[serde(deserialize_with = "number::<_, _, 1, 65_536>")]
    pub registrations: u32,
    /// Shared memory of one session.
    #[serde(rename = "memory", with = "Memory")]
    pub memory_bytes: u64,
    /// Shared memory of all sessions; none: by what the machine and its control group have.
    #[serde(rename = "total_memory", with = "Memory")]
    pub total_memory_bytes: Option<u64>,
    /// Shared memory of all sessions of one user; none: three quarters of all.
    #[serde(rename = "user_memory", with = "Memory")]
    pub user_memory_bytes: Option<u64>,
    /// New connections within one second.
    #[serde(deserialize_with = "number::<_, _, 1, 65_536>")]
    pub connects_per_second: u32,
    /// Share of the control thread that one user may have, in percent.
    #[serde(deserialize_with = "number::<_, _, 1, 100>")]
    pub control_percent: u32,
}

/// Shared memory comes in pages.
type Memory = Size<4096, { 1 << 40 }>;

/// Rights of one user or group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessRule {
    /// The user that the rule is for, unless it is for a group.
    pub user: Option<Who>,
    /// The group that the rule is for.
    pub group: Option<Who>,
    /// The least and the greatest chain priority they may use.
    #[serde(deserialize_with = "least_and_greatest")]
    pub priority: [u32; 2],
    /// Sessions at the same time, where the rule limits them further.
    #[serde(default, deserialize_with = "number::<_, _, 1, 65_536>")]
    pub sessions: Option<u32>,
    /// Shared memory of one session, where the rule changes it.
    #[serde(default, rename = "memory", with = "Memory")]
    pub memory_bytes: Option<u64>,
    /// Share of each accelerator that the chains that they declare may ask for.
    pub declare: Option<Declare>,
}

/// A user or a group, by number (in a file without quotes) or by name.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(
    untagged,
    expecting = "a name of 1 to 64 bytes of visible characters, without outer spaces"
)]
pub enum Who {
    /// A number.
    Id(u32),
    /// A name.
    Name(#[serde(deserialize_with = "name")] String),
}

/// Limits of the chains that a user declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "true, false, or percents of accelerators such as {gpu0: 25}")]
pub enum Declare {
    /// Everything, or nothing.
    All(bool),
    /// Percent of each accelerator, each user for itself, and nothing of the others.
    Percents(BTreeMap<String, u32>),
}

impl AccessRule {
    /// The percents of accelerators that declared chains may ask for; none: no limit.
    pub fn percents(&self) -> Option<BTreeMap<String, u32>> {
        match self.declare.as_ref()? {
            Declare::All(true) => None,
            Declare::All(false) => Some(BTreeMap::new()),
            Declare::Percents(percents) => Some(percents.clone()),
        }
    }
}

fn least_and_greatest<'de, D: Deserializer<'de>>(from: D) -> Result<[u32; 2], D::Error> {
    let bounds: Vec<u32> = Vec::deserialize(from)?;
    match bounds[..] {
        [least, greatest] if least <= greatest => Ok([least, greatest]),
        _ => Err(D::Error::custom("two numbers, [least, greatest]")),
    }
}

/// Permissions, octal with or without quotes: `0660`, `"660"`, `0o660`.
mod mode {
    use super::{Deserializer, Serializer};

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
        files::checked(from, "octal permissions up to \"0777\", such as \"0660\"", |text| {
            let digits = text.strip_prefix("0o").unwrap_or(text);
            let octal = digits.bytes().all(|b| matches!(b, b'0'..=b'7'));
            u32::from_str_radix(digits, 8).ok().filter(|mode| octal && *mode <= 0o777)
        })
    }

    pub(super) fn serialize<S: Serializer>(mode: &u32, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&format!("0{mode:o}"))
    }
}

impl Default for Server {
    fn default() -> Self {
        Self {
            socket: None,
            mode: 0o660,
            group: None,
            policy: ArbitrationPolicy::Priority,
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

impl System {
    /// Returns the file of measured execution times, if the system file names one: a relative path
    /// begins at the folder of the system file.
    pub fn calibration_path(&self) -> Option<PathBuf> {
        Some(self.path(self.server.calibration.as_ref()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}

//! The `ros` section: the accelerator server as a node on the ROS 2 graph.

use crate::System;
use crate::field::{Size, Time, names, number};
use serde::{Deserialize, Deserializer, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

const HOUR_NS: u64 = 3_600_000_000_000;

/// The `ros` section, defaults filled in. A server without the section stays off the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ros {
    /// The domain, `ROS_DOMAIN_ID` of the nodes.
    #[serde(deserialize_with = "domain")]
    pub domain: u16,
    /// Addresses of the interfaces to use; none means all.
    #[serde(deserialize_with = "interfaces")]
    pub interfaces: Vec<IpAddr>,
    /// Addresses of machines that multicast does not reach.
    #[serde(deserialize_with = "peers")]
    pub peers: Vec<Ipv4Addr>,
    /// The middleware of the other nodes, which decides how services are called.
    pub middleware: Middleware,
    /// The distribution of the other nodes.
    pub distribution: Distribution,
    /// The node's namespace.
    #[serde(deserialize_with = "namespace")]
    pub namespace: String,
    /// The node's name.
    #[serde(deserialize_with = "node")]
    pub node: String,
    /// The distance between two messages of status.
    #[serde(rename = "status", with = "Time::<10_000_000, HOUR_NS>")]
    pub status_ns: u64,
    /// Private memory of the gateway's process.
    #[serde(rename = "memory", with = "Size::<{ 128 << 20 }, { 1 << 40 }>")]
    pub memory_bytes: u64,
    /// Limits of the clients on the graph.
    pub limits: RosLimits,
    /// The services that clients on the graph may ask for; none means all.
    #[serde(deserialize_with = "names")]
    pub services: Vec<String>,
    /// The folder of the enclave that secures the node; a relative path begins at the folder of
    /// the system file. See [`System::enclave_path`](crate::System::enclave_path).
    #[serde(deserialize_with = "folder")]
    pub security: Option<PathBuf>,
}

/// Form of the calls of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Middleware {
    /// The mapping of `rmw_cyclonedds_cpp`.
    #[default]
    Cyclonedds,
    /// The mapping of `rmw_fastrtps_cpp`.
    Fastrtps,
}

/// The ROS 2 release whose form of `ros_discovery_info` is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Humble and older.
    Humble,
    /// Iron, Jazzy and newer.
    #[default]
    Jazzy,
}

/// Limits of the clients on the graph, of all of them together if nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RosLimits {
    /// Clients at the same time.
    #[serde(deserialize_with = "number::<_, _, 1, 1024>")]
    pub clients: u32,
    /// Registrations at the same time.
    #[serde(deserialize_with = "number::<_, _, 1, 1024>")]
    pub registrations: u32,
    /// Memory of one registration: the largest request with its answer.
    #[serde(rename = "request", with = "Size::<4096, { 1 << 30 }>")]
    pub request_bytes: u64,
    /// Requests that may wait for one registration, and answers that are kept.
    #[serde(deserialize_with = "number::<_, _, 1, 256>")]
    pub in_flight: u32,
    /// The highest chain priority.
    pub priority: u32,
    /// Longest time for which a client may be silent.
    #[serde(rename = "lease", with = "Time::<100_000_000, HOUR_NS>")]
    pub lease_ns: u64,
}

impl Default for Ros {
    fn default() -> Ros {
        Ros {
            domain: 0,
            interfaces: Vec::new(),
            peers: Vec::new(),
            middleware: Middleware::default(),
            distribution: Distribution::default(),
            namespace: "/".into(),
            node: "keeptime".into(),
            status_ns: 1_000_000_000,
            memory_bytes: 1 << 30,
            limits: RosLimits::default(),
            services: Vec::new(),
            security: None,
        }
    }
}

impl Default for RosLimits {
    fn default() -> RosLimits {
        RosLimits {
            clients: 8,
            registrations: 16,
            request_bytes: 1 << 20,
            in_flight: 8,
            priority: 0,
            lease_ns: 5_000_000_000,
        }
    }
}

impl System {
    /// Returns the folder of the enclave that secures the node on the graph, if the file names one:
    /// a relative path begins at the folder of the system file.
    pub fn enclave_path(&self) -> Option<PathBuf> {
        Some(self.path(self.ros.as_ref()?.security.as_ref()?))
    }
}

fn interfaces<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<IpAddr>, D::Error> {
    let expected = "the address of an interface, such as 192.168.1.2";
    files::checked_list(from, expected, |text| text.parse().ok())
}

fn peers<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Ipv4Addr>, D::Error> {
    let expected = "the IPv4 address of a machine, such as 192.168.1.3";
    files::checked_list(from, expected, |text| text.parse().ok())
}

fn domain<'de, D: Deserializer<'de>>(from: D) -> Result<u16, D::Error> {
    number::<_, u32, 0, 232>(from).map(|domain| domain as u16)
}

fn folder<'de, D: Deserializer<'de>>(from: D) -> Result<Option<PathBuf>, D::Error> {
    files::checked(from, "the folder of an enclave", |text| {
        (!text.is_empty()).then(|| Some(text.into()))
    })
}

fn node<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    files::checked(from, "a node's name: letters, digits and _, no digit first", |text| {
        (is_token(text) && text.len() <= 128).then(|| text.to_owned())
    })
}

fn namespace<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    files::checked(from, "\"/\", or a node's namespace such as /robot", |text| {
        let names = text.strip_prefix('/')?;
        let fits = names.is_empty() || names.split('/').all(is_token) && names.len() <= 100;
        fits.then(|| text.to_owned())
    })
}

fn is_token(token: &str) -> bool {
    token.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && token.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !token.contains("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = r#"
ros:
  domain: 7
  interfaces: [127.0.0.1, "::1"]
  peers: [192.168.1.3]
  middleware: fastrtps
  distribution: humble
  namespace: /robot
  node: accelerators
  status: 100 ms
  memory: 256 MiB
  limits: {clients: 2, registrations: 3, request: 64 KiB, in_flight: 4, priority: 40, lease: 2 s}
  services: [vecadd]
  security: keystore/enclaves/robot
"#;

    #[test]
    fn every_key_is_read_and_written() {
        let system = System::parse(ALL, "robot.yaml").unwrap();
        let ros = system.ros.as_ref().unwrap();
        assert_eq!((ros.domain, ros.interfaces.len()), (7, 2));
        assert_eq!(ros.peers, [Ipv4Addr::new(192, 168, 1, 3)]);
        assert_eq!(ros.middleware, Middleware::Fastrtps);
        assert_eq!(ros.distribution, Distribution::Humble);
        assert_eq!((ros.namespace.as_str(), ros.node.as_str()), ("/robot", "accelerators"));
        assert_eq!((ros.status_ns, ros.memory_bytes), (100_000_000, 256 << 20));
        let limits = RosLimits {
            clients: 2,
            registrations: 3,
            request_bytes: 64 << 10,
            in_flight: 4,
            priority: 40,
            lease_ns: 2_000_000_000,
        };
        assert_eq!(ros.limits, limits);
        assert_eq!(ros.services, ["vecadd"]);
        let here = System::parse(ALL, "conf/robot.yaml").unwrap();
        assert_eq!(here.enclave_path(), Some("conf/keystore/enclaves/robot".into()));
        assert_eq!(System::parse(&system.to_yaml(), "robot.yaml").unwrap(), system);
        let default = System::parse("ros: {}", "robot.yaml").unwrap();
        assert_eq!(default.ros, Some(Ros::default()));
        assert_eq!(System::parse(&default.to_yaml(), "robot.yaml").unwrap(), default);
        assert_eq!(System::parse("", "robot.yaml").unwrap().ros, None);
    }

    #[test]
    fn wrong_values_are_refused_with_their_place() {
        for (text, key) in [
            ("{domain: 233}", "domain"),
            ("{interfaces: [eth0]}", "interfaces"),
            ("{peers: [\"::1\"]}", "peers"),
            ("{middleware: zenoh}", "middleware"),
            ("{distribution: foxy}", "distribution"),
            ("{namespace: robot}", "namespace"),
            ("{namespace: /robot/}", "namespace"),
            ("{node: 1st}", "node"),
            ("{security: \"\"}", "security"),
            ("{status: 1 ms}", "status"),
            ("{memory: 1 MiB}", "memory"),
            ("{limits: {clients: 0}}", "clients"),
            ("{limits: {request: 1 KiB}}", "request"),
            ("{limits: {in_flight: 257}}", "in_flight"),
            ("{limits: {lease: 0}}", "lease"),
            ("{limits: {hosts: 1}}", "hosts"),
        ] {
            let error = System::parse(&format!("ros: {text}"), "robot.yaml").unwrap_err();
            let said = error.to_string();
            assert!(said.contains("robot.yaml") && said.contains(key), "{text}: {said}");
        }
    }
}

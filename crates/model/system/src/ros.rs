//! The `ros` section: the accelerator server as a node on the ROS 2 graph.

use crate::field::Field;
use crate::{Error, System, TimeUnit};
use serde::Serialize;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

/// The `ros` section, defaults filled in. A server without the section stays off the graph.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Ros {
    /// The domain, `ROS_DOMAIN_ID` of the nodes.
    pub domain: u16,
    /// Addresses of the interfaces to use; none means all.
    pub interfaces: Vec<IpAddr>,
    /// Addresses of machines that multicast does not reach.
    pub peers: Vec<Ipv4Addr>,
    /// The middleware of the other nodes, which decides how services are called.
    pub middleware: Middleware,
    /// The distribution of the other nodes.
    pub distribution: Distribution,
    /// The node's namespace.
    pub namespace: String,
    /// The node's name.
    pub node: String,
    /// The distance between two messages of status.
    pub status_ns: u64,
    /// Private memory of the gateway's process.
    pub memory_bytes: u64,
    /// Limits of the clients on the graph.
    pub limits: RosLimits,
    /// The services that clients on the graph may ask for; none means all.
    pub services: Vec<String>,
    /// The folder of the enclave that secures the node; a relative path begins at the folder of
    /// the system file. See [`System::enclave_path`](crate::System::enclave_path).
    pub security: Option<PathBuf>,
}

/// Form of the calls of services.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Middleware {
    /// As `rmw_cyclonedds_cpp` does.
    #[default]
    Cyclonedds,
    /// As `rmw_fastrtps_cpp` does.
    Fastrtps,
}

/// Whose form of `ros_discovery_info` is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// Humble and older.
    Humble,
    /// Iron, Jazzy and newer.
    #[default]
    Jazzy,
}

/// Limits of the clients on the graph, of all of them together if nothing else is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct RosLimits {
    /// Clients at the same time.
    pub clients: u32,
    /// Registrations at the same time.
    pub registrations: u32,
    /// Memory of one registration: the largest request with its answer.
    pub request_bytes: u64,
    /// Requests that may wait for one registration, and answers that are kept.
    pub in_flight: u32,
    /// The highest chain priority.
    pub priority: u32,
    /// Longest time for which a client may be silent.
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

/// Reads the section.
pub(crate) fn ros(field: Field<'_>, unit: TimeUnit) -> Result<Ros, Error> {
    let fields = field.fields(&[
        "domain",
        "interfaces",
        "peers",
        "middleware",
        "distribution",
        "namespace",
        "node",
        "status",
        "memory",
        "limits",
        "services",
        "security",
    ])?;
    let default = Ros::default();
    Ok(Ros {
        domain: fields.or("domain", 0, |field| field.number(0..=232))? as u16,
        interfaces: fields.each("interfaces", |field| address(&field))?,
        peers: fields.each("peers", |field| peer(&field))?,
        middleware: fields.or("middleware", default.middleware, |field| {
            field.choice(&[
                ("cyclonedds", Middleware::Cyclonedds),
                ("fastrtps", Middleware::Fastrtps),
            ])
        })?,
        distribution: fields.or("distribution", default.distribution, |field| {
            field.choice(&[("humble", Distribution::Humble), ("jazzy", Distribution::Jazzy)])
        })?,
        namespace: fields.or("namespace", default.namespace, |field| namespace(&field))?,
        node: fields.or("node", default.node, |field| node(&field))?,
        status_ns: fields.or("status", default.status_ns, |field| {
            time(&field, unit, 10_000_000, "10 ms to 1 h")
        })?,
        memory_bytes: fields.or("memory", default.memory_bytes, |field| {
            bytes(&field, 128 << 20..=1 << 40, "128 MiB to 1024 GiB")
        })?,
        limits: fields.or("limits", default.limits, |field| limits(field, unit))?,
        services: fields.each("services", |field| field.name())?,
        security: fields.or("security", None, |field| folder(&field).map(Some))?,
    })
}

fn limits(field: Field<'_>, unit: TimeUnit) -> Result<RosLimits, Error> {
    let keys = ["clients", "registrations", "request", "in_flight", "priority", "lease"];
    let fields = field.fields(&keys)?;
    let default = RosLimits::default();
    Ok(RosLimits {
        clients: fields.or("clients", default.clients, |field| field.number(1..=1024))?,
        registrations: fields
            .or("registrations", default.registrations, |field| field.number(1..=1024))?,
        request_bytes: fields.or("request", default.request_bytes, |field| {
            bytes(&field, 4096..=1 << 30, "4 KiB to 1 GiB")
        })?,
        in_flight: fields.or("in_flight", default.in_flight, |field| field.number(1..=256))?,
        priority: fields.or("priority", default.priority, |field| field.number(0..=u32::MAX))?,
        lease_ns: fields.or("lease", default.lease_ns, |field| {
            time(&field, unit, 100_000_000, "100 ms to 1 h")
        })?,
    })
}

fn time(field: &Field<'_>, unit: TimeUnit, least_ns: u64, expected: &str) -> Result<u64, Error> {
    match field.time_ns(unit)? {
        time_ns if (least_ns..=3_600_000_000_000).contains(&time_ns) => Ok(time_ns),
        _ => Err(field.refuse(expected)),
    }
}

fn bytes(
    field: &Field<'_>,
    range: std::ops::RangeInclusive<u64>,
    expected: &str,
) -> Result<u64, Error> {
    match field.bytes()? {
        bytes if range.contains(&bytes) => Ok(bytes),
        _ => Err(field.refuse(expected)),
    }
}

fn address(field: &Field<'_>) -> Result<IpAddr, Error> {
    let expected = "the address of an interface, such as 192.168.1.2";
    field.text(expected)?.parse().map_err(|_| field.refuse(expected))
}

fn peer(field: &Field<'_>) -> Result<Ipv4Addr, Error> {
    let expected = "the IPv4 address of a machine, such as 192.168.1.3";
    field.text(expected)?.parse().map_err(|_| field.refuse(expected))
}

fn folder(field: &Field<'_>) -> Result<PathBuf, Error> {
    let expected = "the folder of an enclave";
    match field.text(expected)? {
        "" => Err(field.refuse(expected)),
        path => Ok(path.into()),
    }
}

fn node(field: &Field<'_>) -> Result<String, Error> {
    let expected = "a node's name: letters, digits and _, no digit first";
    match field.text(expected)? {
        text if is_token(text) && text.len() <= 128 => Ok(text.to_owned()),
        _ => Err(field.refuse(expected)),
    }
}

fn namespace(field: &Field<'_>) -> Result<String, Error> {
    let expected = "\"/\", or a node's namespace such as /robot";
    let text = field.text(expected)?;
    match text.strip_prefix('/') {
        Some("") => Ok(text.to_owned()),
        Some(rest) if rest.split('/').all(is_token) && rest.len() <= 100 => Ok(text.to_owned()),
        _ => Err(field.refuse(expected)),
    }
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

//! Sockets: the folder of the server's, and the ROS 2 graph.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;

use rustix::fs::{Access, access};

use crate::Finding;

/// Address at which participants of DDS announce themselves.
const DISCOVERY: Ipv4Addr = Ipv4Addr::new(239, 255, 0, 1);

/// The folder in which a server of this user puts its socket, or the nearest one that exists.
pub(crate) fn socket_folder() -> Finding {
    let socket = shm::environment::own_socket("keeptime");
    let folder = socket.parent().unwrap_or(Path::new("/"));
    let existing = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    match access(existing, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::ok(folder.display().to_string()),
        Err(errno) => Finding::missing(format!("{}: {errno}", existing.display()))
            .mend("keeptime serve --socket /tmp/keeptime.sock FILE"),
    }
}

/// Checks that this build knows the ROS 2 graph.
pub(crate) fn ros() -> Finding {
    match cfg!(feature = "ros") {
        true => Finding::ok("part of this build"),
        false => Finding::missing("not part of this build")
            .mend("cargo install --path crates/cli --features full"),
    }
}

/// Checks that this build knows DDS security.
pub(crate) fn dds_security() -> Finding {
    match cfg!(feature = "dds-security") {
        true => Finding::ok("part of this build"),
        false => Finding::missing("not part of this build")
            .mend("cargo install --path crates/cli --features full,dds-security"),
    }
}

/// Joins the group of discovery on the interface that the routes name.
pub(crate) fn multicast() -> Finding {
    let joined = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).and_then(|socket| {
        socket.join_multicast_v4(&DISCOVERY, &Ipv4Addr::UNSPECIFIED)?;
        socket.connect((DISCOVERY, 7400))?;
        socket.local_addr()
    });
    match joined {
        Ok(address) if address.ip().is_loopback() => {
            Finding::limited("on this machine only").mend("sudo ip link set DEVICE up multicast on")
        }
        Ok(address) => Finding::ok(format!("{DISCOVERY} from {}", address.ip())),
        Err(error) => Finding::limited(format!("{DISCOVERY}: {error}"))
            .mend("sudo ip link set DEVICE up multicast on"),
    }
}

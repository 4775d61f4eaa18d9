//! Needs of `keeptime regulate` alone: counters of memory traffic, the scheduler in BPF, control
//! groups.

use std::path::Path;

use bandwidth::regulator::{Error, Hardware};
use realtime::machine;

use crate::{Finding, cause, kernel};

/// Counts a copy of known size on the last core.
pub(crate) fn counters() -> Finding {
    let hardware = Hardware::of_this_machine();
    let core = machine::online_cores().last().copied().unwrap_or(0);
    match hardware.probe(core) {
        Ok(()) => Finding::ok(format!("{} agrees with a copy of known size", hardware.name)),
        Err(error) => {
            let is_refused = matches!(&error, Error::Count { reason, .. }
                if reason.kind() == std::io::ErrorKind::PermissionDenied);
            let grant = match is_refused && !kernel::is_root() {
                true => "sudo keeptime regulate",
                false => {
                    "use counters of the processor: a virtual machine gets them from its host (in \
                     QEMU: -cpu host,pmu=on)"
                }
            };
            Finding::limited(cause(&error.to_string())).mend(grant)
        }
    }
}

/// Checks that the kernel and this build have schedulers in BPF.
pub(crate) fn throttle_fair() -> Finding {
    let built = || match cfg!(feature = "sched-ext") {
        true => Ok(()),
        false => Err(throttle_fair::Error::NotBuilt),
    };
    match throttle_fair::available() {
        Err(error @ throttle_fair::Error::Occupied { .. }) => {
            Finding::limited(error.to_string()).mend("end the other scheduler")
        }
        Err(_) => Finding::missing("this kernel has no sched_ext")
            .mend("use Linux 6.12 or later with CONFIG_SCHED_CLASS_EXT"),
        Ok(()) if built().is_err() => Finding::missing("not part of this build")
            .mend("cargo install --path crates/cli --features full,sched-ext"),
        Ok(()) => Finding::ok("sched_ext is free"),
    }
}

/// Checks that there are control groups whose threads can be managed.
pub(crate) fn control_groups() -> Finding {
    let roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/cpu"];
    let has_processes = |root: &&&str| Path::new(root).join("cgroup.procs").is_file();
    match roots.iter().find(has_processes) {
        Some(root) => Finding::ok(*root),
        None => Finding::missing("none under /sys/fs/cgroup")
            .mend("sudo mount -t cgroup2 none /sys/fs/cgroup"),
    }
}

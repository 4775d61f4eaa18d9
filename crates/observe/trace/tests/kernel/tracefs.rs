//! The state of the kernel's tracer, seen through a mount of the test's own.

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::path::PathBuf;

/// A mount of tracefs for the test's own eyes.
pub(crate) struct Look(PathBuf);

impl Look {
    pub(crate) fn mount() -> Look {
        let name = format!("keeptime-test-tracefs-{}", std::process::id());
        let place = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&place).unwrap();
        mount("tracefs", &place, "tracefs", MountFlags::empty(), None).unwrap();
        Look(place)
    }

    pub(crate) fn instance(&self, name: &str) -> PathBuf {
        self.0.join("instances").join(name)
    }

    pub(crate) fn instances(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.join("instances")).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        unmount(&self.0, UnmountFlags::empty()).unwrap();
        std::fs::remove_dir(&self.0).unwrap();
    }
}

/// The instances of this process.
pub(crate) fn our_instances() -> Vec<String> {
    let ours = format!("keeptime-{}-", std::process::id());
    Look::mount().instances().into_iter().filter(|name| name.starts_with(&ours)).collect()
}

/// Returns the number of tracefs mounts that everybody sees, besides those of tests like this one.
pub(crate) fn tracefs_mounts() -> usize {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let counts = |line: &&str| line.contains(" tracefs ") && !line.contains("keeptime-test-");
    mounts.lines().filter(counts).count()
}

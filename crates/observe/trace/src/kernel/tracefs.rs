//! The control files of the kernel's tracer, and private instances of it.
//!
//! Tracefs is used where it is mounted. Where it is not, a mount of its own is made and attached
//! nowhere: it is only a descriptor, so that it is gone when this process is, however it ends.
//!
//! An instance is a directory `instances/keeptime-PID-RANDOM`. It is removed when its owner is
//! dropped; one whose process was killed is removed by the next recording.
//! Called by [`super::scheduler`].

use super::Error;
use rustix::fs::{AtFlags, Dir, Mode, OFlags, fstatfs, mkdirat, openat, unlinkat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use rustix::process::{Pid, test_kill_process};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

/// File system type that `statfs` returns for tracefs.
const TRACEFS_MAGIC: u64 = 0x7472_6163;
const GRANT: &str = "run keeptime as root (`sudo keeptime run ...`), or give it CAP_SYS_ADMIN \
                     and CAP_DAC_OVERRIDE";
const MISSING: &str = "use a kernel with CONFIG_FTRACE";
const PREFIX: &str = "keeptime-";

/// The root of tracefs.
#[derive(Debug)]
pub(super) struct Tracefs {
    root: OwnedFd,
}

impl Tracefs {
    /// Finds it mounted, or mounts it for this process alone.
    ///
    /// # Errors
    /// [`Error::Tracer`] when neither is allowed.
    pub(super) fn find() -> Result<Tracefs, Error> {
        let usual = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"].map(String::from);
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
        let places = usual.into_iter().chain(mounted(&mounts));
        if let Some(root) = places.into_iter().find_map(|place| open_mounted(place.as_ref())) {
            return Ok(Tracefs { root });
        }
        let refused = |action: &str| {
            let action = action.to_owned();
            move |errno: Errno| {
                let grant = if errno == Errno::NODEV { MISSING } else { GRANT };
                Error::Tracer { action, source: errno.into(), grant }
            }
        };
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(refused("opening the tracefs file system"))?;
        fsconfig_create(&context).map_err(refused("creating a tracefs file system"))?;
        let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
            | MountAttrFlags::MOUNT_ATTR_NODEV
            | MountAttrFlags::MOUNT_ATTR_NOEXEC;
        let root = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes)
            .map_err(refused("mounting tracefs"))?;
        Ok(Tracefs { root })
    }

    /// Opens a file.
    ///
    /// # Errors
    /// [`Error::Control`] with the file.
    pub(super) fn open(&self, file: &str, flags: OFlags) -> Result<File, Error> {
        openat(&self.root, file, flags | OFlags::CLOEXEC, Mode::empty())
            .map(File::from)
            .map_err(control(file, "open it"))
    }

    /// Reads a whole file.
    ///
    /// # Errors
    /// [`Error::Control`] with the file.
    pub(super) fn read(&self, file: &str) -> Result<String, Error> {
        let mut open = self.open(file, OFlags::RDONLY)?;
        // Some of these files end after the first read, however little was read.
        let mut piece = vec![0; 1 << 16];
        let mut bytes = Vec::new();
        loop {
            match open.read(&mut piece).map_err(control(file, "read it"))? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                read => bytes.extend_from_slice(&piece[..read]),
            }
        }
    }

    /// Writes a value to a file with one call.
    ///
    /// # Errors
    /// [`Error::Control`] with the file and the value.
    pub(super) fn write(&self, file: &str, value: &str) -> Result<(), Error> {
        let refused = |error| control(file, &format!("write {value:?} to it"))(error);
        let mut open = self.open(file, OFlags::WRONLY)?;
        open.write_all(value.as_bytes()).map_err(refused)
    }

    /// The names in a directory.
    ///
    /// # Errors
    /// [`Error::Control`] with the directory.
    pub(super) fn list(&self, directory: &str) -> Result<Vec<String>, Error> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = openat(&self.root, directory, flags, Mode::empty());
        let entries = open.and_then(Dir::new).map_err(control(directory, "list it"))?;
        let names = entries.filter_map(Result::ok);
        Ok(names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
    }

    /// Removes instances whose process is dead and says which.
    pub(super) fn remove_stale(&self) -> Vec<String> {
        let names = self.list("instances").unwrap_or_default();
        let stale = names.into_iter().filter(|name| owner(name).is_some_and(is_dead));
        stale.filter(|name| self.remove(&format!("instances/{name}")).is_ok()).collect()
    }

    fn remove(&self, directory: &str) -> Result<(), Errno> {
        unlinkat(&self.root, directory, AtFlags::REMOVEDIR)
    }
}

fn control<E: Into<io::Error>>(file: &str, action: &str) -> impl FnOnce(E) -> Error {
    let (file, action) = (file.to_owned(), action.to_owned());
    move |error| Error::Control { file, action, source: error.into() }
}

/// The places where tracefs is mounted, from the text of `/proc/mounts`.
fn mounted(mounts: &str) -> Vec<String> {
    let place = |line: &str| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "tracefs").then(|| place.replace("\\040", " "))
    };
    mounts.lines().filter_map(place).collect()
}

fn open_mounted(place: &Path) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::open(place, flags, Mode::empty()).ok()?;
    let is_tracefs = fstatfs(&root).is_ok_and(|status| status.f_type as u64 == TRACEFS_MAGIC);
    is_tracefs.then_some(root)
}

/// The process that made an instance, from its name.
fn owner(instance: &str) -> Option<Pid> {
    let (process, random) = instance.strip_prefix(PREFIX)?.split_once('-')?;
    let ours = random.len() == 16 && random.bytes().all(|digit| digit.is_ascii_hexdigit());
    ours.then(|| process.parse().ok().filter(|process| *process > 0).and_then(Pid::from_raw))?
}

fn is_dead(process: Pid) -> bool {
    test_kill_process(process) == Err(Errno::SRCH)
}

/// A tracer of our own, which the settings of other tracers do not disturb.
#[derive(Debug)]
pub(super) struct Instance {
    tracefs: Arc<Tracefs>,
    name: String,
}

impl Instance {
    /// Makes one that records nothing yet.
    ///
    /// # Errors
    /// [`Error::Tracer`] when the kernel has no instances or this process may not make one.
    pub(super) fn create(tracefs: &Arc<Tracefs>) -> Result<Instance, Error> {
        let mut random = [0; 8];
        rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())
            .map_err(Error::system("getrandom"))?;
        let (process, random) = (std::process::id(), u64::from_ne_bytes(random));
        let name = format!("instances/{PREFIX}{process}-{random:016x}");
        mkdirat(&tracefs.root, name.as_str(), Mode::RWXU).map_err(|errno| Error::Tracer {
            action: format!("creating {name} in tracefs"),
            source: errno.into(),
            grant: GRANT,
        })?;
        let instance = Instance { tracefs: tracefs.clone(), name };
        instance.write("tracing_on", "0")?;
        Ok(instance)
    }

    fn path(&self, file: &str) -> String {
        format!("{}/{file}", self.name)
    }

    /// Writes as [`Tracefs::write`] does.
    ///
    /// # Errors
    /// [`Error::Control`] with the file and the value.
    pub(super) fn write(&self, file: &str, value: &str) -> Result<(), Error> {
        self.tracefs.write(&self.path(file), value)
    }

    /// Reads as [`Tracefs::read`] does.
    ///
    /// # Errors
    /// [`Error::Control`] with the file.
    pub(super) fn read(&self, file: &str) -> Result<String, Error> {
        self.tracefs.read(&self.path(file))
    }

    /// The processors that have a buffer.
    ///
    /// # Errors
    /// [`Error::Control`] with the directory.
    pub(super) fn processors(&self) -> Result<Vec<u32>, Error> {
        let names = self.tracefs.list(&self.path("per_cpu"))?;
        let number = |name: String| name.strip_prefix("cpu")?.parse().ok();
        let mut processors: Vec<u32> = names.into_iter().filter_map(number).collect();
        processors.sort_unstable();
        Ok(processors)
    }

    /// A processor's buffer, to be read page by page without waiting.
    ///
    /// # Errors
    /// [`Error::Control`] with the file.
    pub(super) fn pages(&self, processor: u32) -> Result<File, Error> {
        let file = self.path(&format!("per_cpu/cpu{processor}/trace_pipe_raw"));
        self.tracefs.open(&file, OFlags::RDONLY | OFlags::NONBLOCK)
    }

    /// Removes it, which dropping does too, and tells of a refusal.
    ///
    /// # Errors
    /// [`Error::Control`] when another process holds it open; the next recording tries again.
    pub(super) fn remove(self) -> Result<(), Error> {
        self.tracefs.remove(&self.name).map_err(control(&self.name, "remove it"))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Nothing can be done about a refusal here: the next recording tries again.
        let _ = self.write("tracing_on", "0");
        let _ = self.tracefs.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_tracefs_are_found_also_with_spaces_in_their_names() {
        let mounts = "proc /proc proc rw 0 0\ntracefs /a\\040b tracefs rw 0 0\nx /y tracefsx rw\n";
        assert_eq!(mounted(mounts), ["/a b"]);
    }

    #[test]
    fn only_names_that_we_give_have_an_owner() {
        assert_eq!(owner("keeptime-77-0123456789abcdef"), Pid::from_raw(77));
        for name in ["keeptime-77", "keeptime-0-0123456789abcdef", "keeptime--1-0123456789abcdef"] {
            assert_eq!(owner(name), None, "{name}");
        }
        for name in ["foo-77-0123456789abcdef", "keeptime-x-0123456789abcdef", "keeptime-7-abc"] {
            assert_eq!(owner(name), None, "{name}");
        }
        assert!(!is_dead(rustix::process::getpid()));
    }
}

//! The file whose lock says that a socket's path is in use: `SOCKET.lock` beside it.
//!
//! The kernel gives the lock back when its owner ends, however it ends, so nothing has to be
//! guessed from what is left lying about. The owner removes the file before it lets go; a process
//! that locked a file that was removed meanwhile looks for the next one.

use super::{Closed, failed};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The locked file, removed when this goes.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: OwnedFd,
}

impl Lock {
    /// Takes the lock of a socket's path.
    pub(super) fn take(socket: &Path) -> Result<Lock, Closed> {
        let mut name = socket.as_os_str().to_owned();
        name.push(".lock");
        let path = PathBuf::from(name);
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::CLOEXEC
            | OFlags::NOCTTY
            | OFlags::NONBLOCK;
        loop {
            let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
                .map_err(failed("open the lock file"))?;
            let found = rustix::fs::fstat(&file).map_err(failed("fstat"))?;
            check(&found)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::AGAIN) => return Err(Closed::InUse { process: owner(&file) }),
                Err(errno) => return Err(failed("flock")(errno)),
            }
            // Removed by the last owner after it was opened here: another file has the name now.
            if named(&path).is_ok_and(|named| same(&named, &found)) {
                let lock = Lock { path, file };
                lock.sign().map_err(failed("write the lock file"))?;
                return Ok(lock);
            }
        }
    }

    /// Writes the own process number into the file, for the error message of a later process.
    fn sign(&self) -> Result<(), Errno> {
        rustix::fs::ftruncate(&self.file, 0)?;
        rustix::io::pwrite(&self.file, format!("{}\n", std::process::id()).as_bytes(), 0)?;
        Ok(())
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let own = rustix::fs::fstat(&self.file);
        if let (Ok(own), Ok(named)) = (own, named(&self.path)) {
            if same(&own, &named) {
                let _ = std::fs::remove_file(&self.path);
            }
        }
    }
}

/// Believes only a file of our own that has no other name.
fn check(found: &Stat) -> Result<(), Closed> {
    let own = rustix::process::geteuid().as_raw();
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile || found.st_nlink > 1 {
        return Err(Closed::Lock { found: "no regular file with one link" });
    }
    if found.st_uid != own {
        return Err(Closed::Lock { found: "a file of another user" });
    }
    Ok(())
}

/// The process number that an owner wrote; None if there is none.
fn owner(file: &OwnedFd) -> Option<u32> {
    let mut text = [0; 16];
    let length = rustix::io::pread(file, &mut text, 0).ok()?;
    std::str::from_utf8(&text[..length]).ok()?.trim_end().parse().ok()
}

/// Returns the status of the file that has this name now, without following a link.
pub(super) fn named(path: &Path) -> Result<Stat, Errno> {
    rustix::fs::statat(rustix::fs::CWD, path, AtFlags::SYMLINK_NOFOLLOW)
}

/// Returns true if both are the same file.
pub(super) fn same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

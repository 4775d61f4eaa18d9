//! The former scheduling of managed threads, in a file, for the case that the regulator is killed:
//! then no regulator gives it back to them, and the next regulator at the same socket does.
//!
//! ```text
//!   keeptime regulate 1
//!   TID STARTTIME POLICY NICE FLAGS      one line for each thread; start time in clock ticks
//! ```
//!
//! The file is the word of one regulator to the next, so no other user may change it. It
//! stands in a folder that only root and the regulator's user can write: beside the socket, or, if
//! that is in another folder, in the one of the usual socket. It is made anew and never through a
//! link, and it is believed only as an ordinary file of this user, closed to all others, with one
//! name, of which each line is understood. A line counts if its thread has the start time that
//! stands there and is under a policy of ours, `SCHED_IDLE` or `SCHED_EXT`; any other is left
//! alone.

use super::policy::{SCHED_EXT, Scheduling};
use super::roster::Seen;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

const HEAD: &str = "keeptime regulate 1";
/// Longest file that is read: as many lines as a machine has threads.
const MOST_BYTES: u64 = 64 << 20;

/// Place of the file of the regulator at a socket.
#[derive(Debug)]
pub(crate) struct StateFile {
    folder: OwnedFd,
    name: OsString,
}

impl StateFile {
    /// The place for a socket; None if there is no folder that only root and this user can write.
    /// Then a regulator that is killed leaves its threads as they are.
    pub(crate) fn of(socket: &Path, usual: &Path) -> Option<StateFile> {
        let socket = std::path::absolute(socket).ok()?;
        let file = socket.with_extension("threads");
        if let Some(place) = StateFile::beside(file.parent()?, file.file_name()?.to_owned()) {
            return Some(place);
        }
        let folder = usual.parent()?;
        shm::door::make_folder(folder).ok()?;
        // A name for each socket: its path, in which no slash may stand.
        let path = file.to_str()?.replace('%', "%25").replace('/', "%2F");
        StateFile::beside(folder, path.into())
    }

    fn beside(folder: &Path, name: OsString) -> Option<StateFile> {
        if !folder.ancestors().all(|above| is_private(above, above != folder)) {
            return None;
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let folder = rustix::fs::open(folder, flags, Mode::empty()).ok()?;
        Some(StateFile { folder, name })
    }

    /// The content of the file, if it is ours.
    fn read(&self) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.folder, &self.name, flags, Mode::empty()).ok()?;
        let found = rustix::fs::fstat(&file).ok()?;
        let own = rustix::process::geteuid().as_raw();
        let is_ours = FileType::from_raw_mode(found.st_mode) == FileType::RegularFile
            && (found.st_uid, found.st_nlink, found.st_mode & 0o777) == (own, 1, 0o600);
        let mut text = String::new();
        let all = is_ours.then(|| File::from(file).take(MOST_BYTES).read_to_string(&mut text))?;
        all.ok().map(|_| text)
    }

    /// Replaces the file: a reader finds the old one or the new one.
    fn write(&self, text: &str) -> io::Result<()> {
        let mut new = self.name.clone();
        new.push(".new");
        match rustix::fs::unlinkat(&self.folder, &new, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&self.folder, &new, flags, Mode::RUSR | Mode::WUSR)?;
        let mut file = File::from(file);
        // Whatever the mask of this process is.
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
        file.write_all(text.as_bytes())?;
        Ok(rustix::fs::renameat(&self.folder, &new, &self.folder, &self.name)?)
    }

    fn remove(&self) {
        // It may never have been written.
        let _ = rustix::fs::unlinkat(&self.folder, &self.name, AtFlags::empty());
    }
}

/// Returns true if only root and this user can change a folder's entries. A folder above it may
/// also be open to others if it is sticky, since the entry concerned belongs to root or to this
/// user.
fn is_private(folder: &Path, is_above: bool) -> bool {
    let Ok(found) = fs::symlink_metadata(folder) else { return false };
    let own = rustix::process::geteuid().as_raw();
    let is_closed = found.mode() & 0o022 == 0 || is_above && found.mode() & 0o1000 != 0;
    found.is_dir() && [0, own].contains(&found.uid()) && is_closed
}

/// The file, and what stands in it.
pub(super) struct Kept {
    place: Option<StateFile>,
    /// The start time of each thread, and what it had.
    threads: HashMap<i32, (u64, Scheduling)>,
}

impl Kept {
    /// Nothing is written yet.
    pub(super) fn new(place: Option<StateFile>) -> Kept {
        Kept { place, threads: HashMap::new() }
    }

    /// Writes the file anew. Threads that are not ordinary are left out, as nothing is done to them,
    /// except those that were: what they had before stands there already.
    pub(super) fn keep(&mut self, seen: &[Seen]) -> io::Result<()> {
        let threads = seen.iter().filter_map(|seen| Some((seen.thread, self.before(seen.thread)?)));
        self.threads = threads.collect();
        let mut text = format!("{HEAD}\n");
        for (thread, (start, before)) in &self.threads {
            let (policy, nice, flags) = (before.policy(), before.nice(), before.flags());
            text += &format!("{thread} {start} {policy} {nice} {flags}\n");
        }
        self.place.as_ref().map_or(Ok(()), |place| place.write(&text))
    }

    /// Removes the file: no thread is set back any more.
    pub(super) fn remove(self) {
        if let Some(place) = self.place {
            place.remove();
        }
    }

    /// Returns the time at which a thread began, and its scheduling before anything was done to it.
    fn before(&self, thread: i32) -> Option<(u64, Scheduling)> {
        let start = start_time(thread)?;
        let now = Scheduling::of(thread).ok()?;
        let known = self.threads.get(&thread).filter(|(since, _)| *since == start);
        if now.is_shared() { Some((start, now)) } else { known.copied() }
    }
}

/// Gives the threads in the file back what they had, and removes it. Returns how many did not have
/// it.
pub(crate) fn restore_after_crash(place: &StateFile) -> usize {
    let Some(text) = place.read() else { return 0 };
    let mut restored = 0;
    for (thread, start, before) in understood(&text).unwrap_or_default() {
        let ours = [libc::SCHED_IDLE, SCHED_EXT];
        let is_ours = Scheduling::of(thread).is_ok_and(|now| ours.contains(&now.policy()));
        if is_ours && start_time(thread) == Some(start) && before.give(thread).is_ok() {
            restored += 1;
        }
    }
    place.remove();
    restored
}

/// All lines; None if one of them is not understood.
fn understood(text: &str) -> Option<Vec<(i32, u64, Scheduling)>> {
    let lines = text.strip_prefix(HEAD)?.strip_prefix('\n')?;
    lines.lines().map(parse).collect()
}

fn parse(line: &str) -> Option<(i32, u64, Scheduling)> {
    let mut words = line.split(' ');
    let thread = words.next()?.parse().ok().filter(|thread| *thread > 0)?;
    let start = words.next()?.parse().ok()?;
    let policy = words.next()?.parse().ok()?;
    let nice = words.next()?.parse().ok()?;
    let flags = words.next()?.parse().ok()?;
    let before = Scheduling::ordinary(policy, nice, flags);
    (words.next().is_none() && before.is_shared()).then_some((thread, start, before))
}

/// Returns the time at which a thread began, in clock ticks since the machine started.
fn start_time(thread: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use std::path::PathBuf;

    /// A folder of this test's own under the usual one, or a temporary one where everything above
    /// is this user's; removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("kept-{name}-{}", std::process::id()));
            let path = std::path::absolute(path).unwrap();
            shm::door::make_folder(&path).unwrap();
            Folder(path)
        }

        fn file(&self) -> PathBuf {
            self.0.join("regulator.threads")
        }

        fn place(&self) -> StateFile {
            let socket = self.0.join("regulator.sock");
            StateFile::of(&socket, &socket).expect("a folder of one's own")
        }

        /// Writes the file as another regulator would have written it.
        fn write(&self, text: &str) {
            let _ = fs::remove_file(self.file());
            fs::write(self.file(), text).unwrap();
            fs::set_permissions(self.file(), fs::Permissions::from_mode(0o600)).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn own() -> Seen {
        let thread = realtime::thread::id() as i32;
        Seen { thread, process: std::process::id() as i32, core: 0 }
    }

    /// Runs on a thread of its own, whose policy may be changed.
    fn on_a_thread(test: impl FnOnce() + Send + 'static) {
        std::thread::spawn(test).join().unwrap();
    }

    #[test]
    fn thread_that_was_left_behind_gets_back_what_it_had() {
        on_a_thread(|| {
            let folder = Folder::new("left");
            realtime::thread::set_nice(3).unwrap();
            Kept::new(Some(folder.place())).keep(&[own()]).unwrap();
            let before = Scheduling::of(0).unwrap();
            before.idle().give(0).unwrap();
            assert_eq!(restore_after_crash(&folder.place()), 1);
            let now = Scheduling::of(0).unwrap();
            assert_eq!((now.policy(), now.nice()), (libc::SCHED_OTHER, 3));
            assert!(!folder.file().exists());
        });
    }

    #[test]
    fn thread_that_is_set_back_stays_in_the_file_when_another_one_is_found() {
        on_a_thread(|| {
            let folder = Folder::new("again");
            let mut kept = Kept::new(Some(folder.place()));
            kept.keep(&[own()]).unwrap();
            Scheduling::of(0).unwrap().idle().give(0).unwrap();
            kept.keep(&[own()]).unwrap();
            assert_eq!(restore_after_crash(&folder.place()), 1);
            assert_eq!(Scheduling::of(0).unwrap().policy(), libc::SCHED_OTHER);
        });
    }

    #[test]
    fn other_thread_with_the_same_number_and_nonsense_are_left_alone() {
        on_a_thread(|| {
            let (folder, thread) = (Folder::new("other"), realtime::thread::id());
            let before = Scheduling::of(0).unwrap();
            before.idle().give(0).unwrap();
            let start = start_time(thread as i32).unwrap();
            let good = format!("{thread} {start} 0 0 0");
            for text in [
                format!("{HEAD}\n{thread} {} 0 0 0\n", start + 1),
                format!("{HEAD}\n{thread} {start} 1 0 0\n"),
                format!("{HEAD}\n{thread} {start} 0 0 0 0\n"),
                format!("{HEAD}\n-1 {start} 0 0 0\n"),
                format!("{HEAD}\n{good}\nx\n"),
                format!("another file\n{good}\n"),
            ] {
                folder.write(&text);
                assert_eq!(restore_after_crash(&folder.place()), 0, "{text}");
            }
            folder.write(&format!("{HEAD}\n{good}\n"));
            assert_eq!(restore_after_crash(&folder.place()), 1, "that is what was wrong");
        });
    }

    #[test]
    fn file_that_is_not_the_regulators_own_is_not_believed() {
        on_a_thread(|| {
            let (folder, thread) = (Folder::new("foreign"), realtime::thread::id());
            Scheduling::of(0).unwrap().idle().give(0).unwrap();
            let start = start_time(thread as i32).unwrap();
            let text = format!("{HEAD}\n{thread} {start} 0 0 0\n");
            let left_alone = |why: &str| {
                assert_eq!(restore_after_crash(&folder.place()), 0, "{why}");
                let policy = Scheduling::of(0).unwrap().policy();
                assert_eq!(policy, libc::SCHED_IDLE, "{why}");
            };

            folder.write(&text);
            fs::set_permissions(folder.file(), fs::Permissions::from_mode(0o644)).unwrap();
            left_alone("others may read it");
            folder.write(&text);
            fs::hard_link(folder.file(), folder.0.join("another")).unwrap();
            left_alone("it has another name");
            fs::remove_file(folder.file()).unwrap();
            symlink("another", folder.file()).unwrap();
            left_alone("it is a link");
            if rustix::process::geteuid().is_root() {
                fs::remove_file(folder.file()).unwrap();
                folder.write(&text);
                std::os::unix::fs::chown(folder.file(), Some(65533), None).unwrap();
                left_alone("it is another user's");
            }
            let _ = fs::remove_file(folder.file());
            folder.write(&text);
            assert_eq!(restore_after_crash(&folder.place()), 1, "that is what was wrong");
        });
    }

    #[test]
    fn file_is_made_anew_and_never_through_a_link() {
        let folder = Folder::new("link");
        let precious = folder.0.join("precious");
        fs::write(&precious, "not to be cut").unwrap();
        symlink(&precious, folder.file()).unwrap();
        symlink(&precious, folder.0.join("regulator.threads.new")).unwrap();
        Kept::new(Some(folder.place())).keep(&[own()]).unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "not to be cut");
        let found = fs::symlink_metadata(folder.file()).unwrap();
        assert!(found.is_file() && found.mode() & 0o777 == 0o600);
        assert!(folder.place().read().unwrap().starts_with(HEAD));
    }

    #[test]
    fn folder_that_others_can_write_is_not_used() {
        let (open, usual) = (Folder::new("open"), Folder::new("usual"));
        fs::set_permissions(&open.0, fs::Permissions::from_mode(0o1777)).unwrap();
        let socket = open.0.join("regulator.sock");
        StateFile::of(&socket, &usual.0.join("x.sock")).unwrap().write("text").unwrap();
        assert_eq!(fs::read_dir(&open.0).unwrap().count(), 0);
        let name = fs::read_dir(&usual.0).unwrap().next().unwrap().unwrap().file_name();
        assert!(name.to_str().unwrap().ends_with("%2Fregulator.threads"), "{name:?}");
        assert!(StateFile::of(&socket, &socket).is_none());
    }
}

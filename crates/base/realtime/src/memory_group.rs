//! The control groups of this process that limit its memory, of both versions.
//!
//! The limit of a group counts for all groups below it, so every group from this process' own up
//! to the root of the mount is asked. Where a container sees its own group as the root of the
//! mount, the path that `/proc/self/cgroup` gives may not exist below it; then the root is asked.

use std::fs;
use std::path::{Path, PathBuf};

/// A limit above this is none: version 1 writes a number just below 2^63.
const NO_LIMIT: u64 = 1 << 60;

/// The groups, this process' own first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    folders: Vec<PathBuf>,
    files: &'static Files,
}

/// Names of the files of a version.
#[derive(Debug, PartialEq, Eq)]
struct Files {
    limits: &'static [&'static str],
    used: &'static str,
    /// Counters of `memory.stat` that count memory which the kernel takes back before the group is
    /// full.
    reclaimable: &'static [&'static str],
}

const VERSION_1: Files = Files {
    limits: &["memory.limit_in_bytes"],
    used: "memory.usage_in_bytes",
    reclaimable: &["total_inactive_file", "total_active_file"],
};
const VERSION_2: Files = Files {
    limits: &["memory.max", "memory.high"],
    used: "memory.current",
    reclaimable: &["inactive_file", "active_file"],
};

/// The tightest limit of a group, and what is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The group.
    pub group: PathBuf,
    /// Its limit.
    pub limit_bytes: u64,
    /// Bytes that it does not use, with files that the kernel only keeps as long as there is room.
    pub left_bytes: u64,
}

impl MemoryGroup {
    /// The groups of this process; None where none has memory files.
    pub fn of_this_process() -> Option<MemoryGroup> {
        let groups = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        MemoryGroup::find(&groups, &mounts)
    }

    /// The same from the texts of `/proc/PID/cgroup` and `/proc/PID/mountinfo`.
    fn find(groups: &str, mounts: &str) -> Option<MemoryGroup> {
        let path = |wanted: &dyn Fn(&str, &str) -> bool| {
            groups.lines().find_map(|line| {
                let mut fields = line.splitn(3, ':');
                let (number, controllers) = (fields.next()?, fields.next()?);
                wanted(number, controllers).then(|| fields.next())?
            })
        };
        let version_1 = path(&|_, controllers| controllers.split(',').any(|one| one == "memory"));
        let version_2 = path(&|number, controllers| number == "0" && controllers.is_empty());
        let found = |path: Option<&str>, files: &'static Files| {
            let wanted: &dyn Fn(&str, &str) -> bool = match *files == VERSION_1 {
                true => &|kind, options| {
                    kind == "cgroup" && options.split(',').any(|option| option == "memory")
                },
                false => &|kind, _| kind == "cgroup2",
            };
            let folders = folders(path?, mounts, wanted);
            let has = |folder: &&PathBuf| files.limits.iter().any(|f| folder.join(f).exists());
            let folders: Vec<PathBuf> = folders.iter().filter(has).cloned().collect();
            (!folders.is_empty()).then_some(MemoryGroup { folders, files })
        };
        found(version_1, &VERSION_1).or_else(|| found(version_2, &VERSION_2))
    }

    /// The least of all limits; None when there is none.
    pub fn limit_bytes(&self) -> Option<u64> {
        self.folders.iter().filter_map(|folder| self.limit_of(folder)).min()
    }

    /// The group with the least left below its limit; None when there is no limit.
    pub fn room(&self) -> Option<Room> {
        let rooms = self.folders.iter().filter_map(|folder| {
            let limit_bytes = self.limit_of(folder)?;
            let used = number(&folder.join(self.files.used))?;
            let stat = fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
            let reclaimable = self.files.reclaimable.iter().filter_map(|key| entry(&stat, key));
            let used = used.saturating_sub(reclaimable.sum());
            let left_bytes = limit_bytes.saturating_sub(used);
            Some(Room { group: folder.clone(), limit_bytes, left_bytes })
        });
        rooms.min_by_key(|room| room.left_bytes)
    }

    fn limit_of(&self, folder: &Path) -> Option<u64> {
        let limits = self.files.limits.iter().filter_map(|file| number(&folder.join(file)));
        limits.filter(|limit| *limit < NO_LIMIT).min()
    }
}

/// The group's folder and those above it, up to the mount.
fn folders(path: &str, mounts: &str, wanted: &dyn Fn(&str, &str) -> bool) -> Vec<PathBuf> {
    let mount = mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (kind, options) = (kind.next()?, kind.nth(1)?);
        let mut place = place.split(' ').skip(3);
        wanted(kind, options).then(|| Some((place.next()?, place.next()?)))?
    });
    let Some((root, mount)) = mount else { return Vec::new() };
    let below = Path::new(path).strip_prefix(root).or(Path::new(path).strip_prefix("/"));
    let own = Path::new(mount).join(below.unwrap_or(Path::new("")));
    own.ancestors().take_while(|folder| folder.starts_with(mount)).map(Path::to_owned).collect()
}

/// The number in a file; None for `max` too.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn entry(stat: &str, key: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}

/// The memory of the machine, as `/proc/meminfo` says.
pub fn machine_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder that is removed again.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let name = format!("keeptime-group-{name}-{}", std::process::id());
            Folder(std::env::temp_dir().join(name))
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.0.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn least_limit_of_all_groups_above_counts() {
        let folder = Folder::new("v2");
        folder.write("memory.stat", "");
        folder.write("robot.slice/memory.max", "125829120\n");
        folder.write("robot.slice/memory.current", "100000000\n");
        folder.write(
            "robot.slice/memory.stat",
            "anon 1\ninactive_file 15000000\nactive_file 5000000\n",
        );
        folder.write("robot.slice/keeptime.service/memory.max", "max\n");
        folder.write("robot.slice/keeptime.service/memory.high", "max\n");
        folder.write("robot.slice/keeptime.service/memory.current", "5\n");
        let mounts = format!("1 2 0:3 / {} rw - cgroup2 cgroup2 rw\n", folder.0.display());
        let group = MemoryGroup::find("0::/robot.slice/keeptime.service\n", &mounts).unwrap();
        assert_eq!(group.limit_bytes(), Some(125_829_120));
        let room = group.room().unwrap();
        assert!(room.group.ends_with("robot.slice"));
        assert_eq!((room.limit_bytes, room.left_bytes), (125_829_120, 45_829_120));
        folder.write("robot.slice/memory.max", "max\n");
        assert_eq!((group.limit_bytes(), group.room()), (None, None));
    }

    #[test]
    fn version_1_and_containers_are_understood() {
        let folder = Folder::new("v1");
        folder.write("memory.limit_in_bytes", "9223372036854771712\n");
        folder.write("own/memory.limit_in_bytes", "1000000\n");
        folder.write("own/memory.usage_in_bytes", "400000\n");
        folder.write("own/memory.stat", "inactive_file 7\ntotal_inactive_file 100000\n");
        let at = folder.0.display();
        let mounts = format!(
            "1 2 0:3 / /sys rw - sysfs sysfs rw\n3 2 0:3 /docker/abc {at} rw shared:1 - cgroup \
             cgroup rw,memory\n"
        );
        let groups = "5:cpu:/x\n4:memory:/docker/abc/own\n0::/\n";
        let group = MemoryGroup::find(groups, &mounts).unwrap();
        assert_eq!(group.limit_bytes(), Some(1_000_000));
        assert_eq!(group.room().unwrap().left_bytes, 700_000);
        // A path of the host, of which only the mount's root is seen here.
        let elsewhere = MemoryGroup::find("4:memory:/elsewhere\n", &mounts).unwrap();
        assert_eq!(elsewhere.limit_bytes(), None);
        assert_eq!(MemoryGroup::find("0::/x\n", &mounts), None);
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(machine_bytes().unwrap() > 1 << 20);
        if let Some(room) = MemoryGroup::of_this_process().and_then(|group| group.room()) {
            assert!(room.left_bytes <= room.limit_bytes);
        }
    }
}

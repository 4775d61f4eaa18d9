//! Memory that is available for a recording. All of it is taken before the program starts; memory
//! that the machine does not have would be taken from other programs, by killing them.

use crate::Error;
use shm::log::{AREA_CHUNKS, CHUNK_BYTES};
use std::fs;

/// Refuses to take `bytes` of memory that is not there. Where the kernel does not say how much
/// there is, anything goes.
///
/// # Errors
/// [`Error::Memory`] with both numbers.
pub(super) fn check(bytes: u64) -> Result<(), Error> {
    match available_bytes() {
        Some(available) if available < bytes => Err(Error::Memory { bytes, available }),
        _ => Ok(()),
    }
}

/// Returns the memory that the limit on the size of this process's files allows, with a note if
/// that is less than requested. A recording is a memory file, for which the limit holds, too.
///
/// # Errors
/// [`Error::FileLimit`] when not even the smallest recording fits.
pub(super) fn within_limit(bytes: u64, limit: Option<u64>) -> Result<(u64, Option<String>), Error> {
    let Some(limit) = limit else { return Ok((bytes, None)) };
    let area = u64::from(AREA_CHUNKS) * CHUNK_BYTES as u64;
    let most = limit.saturating_sub(area) / CHUNK_BYTES as u64 * CHUNK_BYTES as u64;
    if most >= bytes {
        return Ok((bytes, None));
    }
    if most == 0 {
        return Err(Error::FileLimit { limit, least: area + CHUNK_BYTES as u64 });
    }
    let note = format!(
        "memory for records: {most} bytes instead of {bytes}, since files may have at most {limit} \
         (ulimit -H -f)"
    );
    Ok((most, Some(note)))
}

/// Returns the least of the memory that the machine and this process's control groups have left.
fn available_bytes() -> Option<u64> {
    let machine = fs::read_to_string("/proc/meminfo").ok().and_then(|text| in_machine(&text));
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    groups
        .lines()
        .flat_map(|line| in_group(line, |file| fs::read_to_string(file).ok()))
        .chain(machine)
        .min()
}

fn in_machine(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The files of a control group with what the rest of this module asks them.
struct Hierarchy {
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// Counters of file pages in `memory.stat`, which the kernel gives up when it needs room.
    reclaimable: [&'static str; 2],
}

const VERSION_1: Hierarchy = Hierarchy {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: ["total_inactive_file ", "total_active_file "],
};

const VERSION_2: Hierarchy = Hierarchy {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    reclaimable: ["inactive_file ", "active_file "],
};

/// Returns the least memory left in the group of a line of `/proc/self/cgroup` and those above it.
fn in_group(line: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut parts = line.splitn(3, ':').skip(1);
    let (controllers, path) = (parts.next()?, parts.next()?);
    let hierarchy = match controllers.split(',').find(|name| ["", "memory"].contains(name))? {
        "" => VERSION_2,
        _ => VERSION_1,
    };
    let path = path.trim_end_matches('/');
    let above = path.match_indices('/').map(|(at, _)| &path[..at]);
    above.chain([path]).filter_map(|group| hierarchy.left(group, &read)).min()
}

impl Hierarchy {
    fn left(&self, group: &str, read: impl Fn(&str) -> Option<String>) -> Option<u64> {
        let text = |file: &str| read(&format!("{}{group}/{file}", self.root));
        // A limit that is not there, or "max", is no number.
        let number = |file: &str| text(file)?.trim().parse::<u64>().ok();
        let (limit, used) = (number(self.limit)?, number(self.used)?);
        let statistics = text("memory.stat").unwrap_or_default();
        let counters = statistics.lines().filter_map(|line| {
            let value = self.reclaimable.iter().find_map(|name| line.strip_prefix(name))?;
            value.trim().parse::<u64>().ok()
        });
        let reclaimable = counters.fold(0, u64::saturating_add);
        Some(limit.saturating_sub(used.saturating_sub(reclaimable)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_says_what_is_available() {
        let text = "MemTotal:       24684340 kB\nMemAvailable:   2000 kB\nBuffers: 5 kB\n";
        assert_eq!(in_machine(text), Some(2000 * 1024));
        assert_eq!(in_machine("MemTotal: 5 kB\n"), None);
        assert!(available_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn tightest_group_counts() {
        let read = |file: &str| {
            let text = match file {
                "/sys/fs/cgroup/a/memory.max" => "1000\n",
                "/sys/fs/cgroup/a/memory.current" => "900\n",
                "/sys/fs/cgroup/a/b/memory.max" => "500\n",
                "/sys/fs/cgroup/a/b/memory.current" => "490\n",
                "/sys/fs/cgroup/a/b/memory.stat" => "anon 5\ninactive_file 50\nactive_file 7\n",
                "/sys/fs/cgroup/a/b/c/memory.max" => "max\n",
                "/sys/fs/cgroup/memory/c/memory.limit_in_bytes" => "70\n",
                "/sys/fs/cgroup/memory/c/memory.usage_in_bytes" => "90\n",
                _ => return None,
            };
            Some(text.to_owned())
        };
        assert_eq!(in_group("0::/a/b/c", read), Some(500 - (490 - 57)));
        assert_eq!(in_group("0::/a", read), Some(100));
        assert_eq!(in_group("0::/", read), None);
        assert_eq!(in_group("4:cpu,memory:/c", read), Some(0));
        assert_eq!(in_group("4:cpu:/c", read), None);
        assert_eq!(in_group("", read), None);
    }

    #[test]
    fn limit_on_files_limits_the_memory() {
        let chunk = CHUNK_BYTES as u64;
        let area = u64::from(AREA_CHUNKS) * chunk;
        assert_eq!(within_limit(5 * chunk, None).unwrap(), (5 * chunk, None));
        assert_eq!(within_limit(5 * chunk, Some(area + 5 * chunk)).unwrap(), (5 * chunk, None));
        let (bytes, note) = within_limit(5 * chunk, Some(area + 3 * chunk - 1)).unwrap();
        assert_eq!(bytes, 2 * chunk);
        assert!(note.unwrap().contains("(ulimit -H -f)"));
        let text = within_limit(5 * chunk, Some(area)).unwrap_err().to_string();
        assert!(text.contains("ulimit -H -f") && text.contains(&area.to_string()), "{text}");
    }

    #[test]
    fn more_than_there_is_is_refused() {
        let text = check(u64::MAX).unwrap_err().to_string();
        assert!(text.starts_with("18446744073709551615 bytes of memory"), "{text}");
        check(1 << 20).unwrap();
    }
}

//! Dead threads of the recorded program: a log that keeps the last records can give their chunks
//! again.
//!
//! A thread is dead when its process has no such thread any more, or when another image took the
//! place of its process. Process ids are those that the processes see themselves: as soon as one
//! of them lives in a process-id namespace of its own, none can be told dead, and the chunks of
//! dead threads stay as they are. That costs memory, and the records that it would have held are
//! counted as lost; a chunk taken from a living thread would cost truth.

use record::{Name, NameKind, Side};
use shm::log::{Log, Writer};
use std::collections::HashMap;
use std::path::Path;

/// Most times that the names are read for a process that has none.
const TRIES: u8 = 3;

/// Process ids by which dead threads are found.
#[derive(Default)]
pub(super) struct Dead {
    /// Process id by process number.
    pids: HashMap<u32, u32>,
    /// The latest process number by process id.
    images: HashMap<u32, u32>,
    /// Process numbers without a name, and how often it was looked for.
    nameless: HashMap<u32, u8>,
    /// True if process ids cannot be trusted.
    confused: bool,
}

impl Dead {
    /// Knows nothing yet. Where threads cannot be looked for, none is ever dead.
    pub(super) fn new() -> Dead {
        let own = u32::try_from(rustix::process::getpid().as_raw_nonzero().get());
        let confused = !own.is_ok_and(|pid| thread_exists(pid, pid));
        Dead { confused, ..Dead::default() }
    }

    /// Closes the chunks of dead threads; returns how many.
    pub(super) fn close(&mut self, log: &Log, side: &Side) -> usize {
        if self.confused {
            return 0;
        }
        let mut is_read = false;
        log.close_dead(|writer| {
            if !is_read && self.should_read(writer.process) {
                is_read = true;
                self.learn(&side.names());
            }
            self.is_dead(writer)
        })
    }

    fn should_read(&mut self, process: u32) -> bool {
        if self.pids.contains_key(&process) {
            return false;
        }
        let tries = self.nameless.entry(process).or_default();
        *tries = tries.saturating_add(1);
        *tries <= TRIES
    }

    fn learn(&mut self, names: &[Name]) {
        for name in names.iter().filter(|name| name.kind == NameKind::Process) {
            let (pid, parent) = ((name.b >> 32) as u32, name.b as u32);
            // A parent that cannot be seen lives outside.
            self.confused |= parent == 0;
            self.pids.insert(name.process, pid);
            let latest = self.images.entry(pid).or_default();
            *latest = (*latest).max(name.process);
        }
    }

    fn is_dead(&self, writer: Writer) -> bool {
        let Some(pid) = self.pids.get(&writer.process).filter(|_| !self.confused) else {
            return false;
        };
        self.images[pid] != writer.process || !thread_exists(*pid, writer.thread)
    }
}

fn thread_exists(process: u32, thread: u32) -> bool {
    Path::new(&format!("/proc/{process}/task/{thread}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Recording, Settings, clock};
    use shm::log::{Cursor, Entry};

    fn recording() -> Recording {
        let settings = Settings { keep_last: true, ..Settings::default() };
        Recording::create(8 << 16, &settings).unwrap()
    }

    fn append(recording: &Recording, process: u32, thread: u32) {
        let entry = Entry { kind: 1, ..Entry::default() };
        let writer = Writer { process, thread };
        assert!(recording.log().append(&Cursor::default(), writer, clock::now(), &entry));
    }

    fn name(recording: &Recording, process: u32, pid: u32, parent: u32) {
        let ids = u64::from(pid) << 32 | u64::from(parent);
        assert!(recording.side().add(NameKind::Process, process, 0, ids, b"program"));
    }

    fn close(dead: &mut Dead, recording: &Recording) -> usize {
        dead.close(&recording.log(), &recording.side())
    }

    /// The largest process id is given to no process: the kernel's own limit is below it.
    const NOBODY: u32 = 1 << 22;

    #[test]
    fn chunks_of_dead_threads_are_closed_and_those_of_the_living_are_not() {
        let recording = recording();
        let own = std::process::id();
        name(&recording, 1, own, 1);
        append(&recording, 1, own);
        append(&recording, 1, NOBODY);
        let mut dead = Dead::new();
        assert_eq!(close(&mut dead, &recording), 1);
        assert_eq!(close(&mut dead, &recording), 0);
        name(&recording, 2, NOBODY, own);
        append(&recording, 2, NOBODY);
        assert_eq!(close(&mut dead, &recording), 1);
    }

    #[test]
    fn image_that_was_replaced_is_dead() {
        let recording = recording();
        let own = std::process::id();
        for process in [1, 2] {
            name(&recording, process, own, 1);
            append(&recording, process, own);
        }
        assert_eq!(close(&mut Dead::new(), &recording), 1);
        let open: Vec<u32> = recording
            .log()
            .numbers()
            .flat_map(|number| recording.log().read(number))
            .filter(|copy| copy.open)
            .map(|copy| copy.writer.process)
            .collect();
        assert_eq!(open, [2]);
    }

    #[test]
    fn process_without_a_name_is_not_dead() {
        let recording = recording();
        append(&recording, 3, NOBODY);
        let mut dead = Dead::new();
        for _ in 0..TRIES + 2 {
            assert_eq!(close(&mut dead, &recording), 0);
        }
        assert!(!dead.should_read(3), "the names are not read for ever");
    }

    #[test]
    fn nobody_is_dead_once_a_process_lives_in_another_namespace() {
        let recording = recording();
        name(&recording, 1, NOBODY, std::process::id());
        append(&recording, 1, NOBODY);
        name(&recording, 2, 1, 0);
        assert_eq!(close(&mut Dead::new(), &recording), 0);
    }
}

//! The recording, read back.

use record::{Action, Class, Kind, NameKind, Raw, Record, Recording};
use shm::log::{Copy, Lost, Writer};
use std::collections::BTreeMap;

/// A process image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pub number: u32,
    pub pid: u32,
    pub parent: u32,
    pub program: String,
}

/// One recording.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub processes: Vec<Process>,
    /// Records by process image and thread, in the order of each thread.
    pub records: BTreeMap<(u32, u32), Vec<Record>>,
    pub modules: Vec<(u32, String)>,
    pub kernels: Vec<String>,
    pub troubles: [u64; record::side::TROUBLES],
    /// Cursors that wrote them: more than there are threads where an id was given again.
    pub cursors: usize,
    /// Slots that were taken and not filled.
    pub torn: u32,
    /// Number of records for which there was no room.
    pub lost: u64,
    /// Number of records that gave way to later ones.
    pub overwritten: u64,
}

impl Trace {
    /// Copies everything.
    pub(crate) fn read(recording: &Recording) -> Trace {
        let log = recording.log();
        let mut trace = Trace { troubles: recording.side().troubles(), ..Trace::default() };
        let mut segments: Vec<Copy> = log.numbers().flat_map(|number| log.read(number)).collect();
        segments.sort_by_key(|segment| (segment.writer, segment.cursor, segment.sequence));
        let of_one = |a: &Copy, b: &Copy| (a.writer, a.cursor) == (b.writer, b.cursor);
        for segments in segments.chunk_by(of_one) {
            let Writer { process, thread } = segments[0].writer;
            let mut records = trace.records.remove(&(process, thread)).unwrap_or_default();
            trace.cursors += 1;
            trace.add_segments(segments, &mut records);
            trace.records.insert((process, thread), records);
        }
        let Lost { count, .. } = log.lost_without_chunk();
        trace.lost += count;
        trace.overwritten = log.overwritten();
        trace.add_names(recording);
        trace
    }

    fn add_segments(&mut self, segments: &[Copy], records: &mut Vec<Record>) {
        let mut had = 0;
        for segment in segments {
            self.torn += segment.torn;
            self.lost += segment.lost.count;
            assert!(segment.before >= had, "a segment counts what others have");
            had = segment.before + segment.entries.len() as u64 + u64::from(segment.torn);
            for entry in &segment.entries {
                let record = Record::from_raw(&Raw::from(*entry));
                records.push(record.unwrap_or_else(|| panic!("unknown kind: {entry:?}")));
            }
        }
    }

    fn add_names(&mut self, recording: &Recording) {
        for name in recording.side().names() {
            match name.kind {
                NameKind::Process => self.processes.push(Process {
                    number: name.process,
                    pid: (name.b >> 32) as u32,
                    parent: name.b as u32,
                    program: name.text,
                }),
                NameKind::Module => self.modules.push((name.process, name.text)),
                NameKind::Kernel => self.kernels.push(name.text),
                NameKind::Text => {}
            }
        }
    }

    /// All records, of all threads.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.values().flatten()
    }

    /// Returns the number of records of a kind.
    pub(crate) fn count(&self, class: Class, action: Action) -> usize {
        self.all().filter(|record| record.kind == Kind::Lock(class, action)).count()
    }

    /// Returns the number of records of a kind, by a process image.
    pub(crate) fn count_of(&self, process: u32, class: Class, action: Action) -> usize {
        let kind = Kind::Lock(class, action);
        self.of_process(process).filter(|record| record.kind == kind).count()
    }

    /// The records of a process image.
    pub(crate) fn of_process(&self, process: u32) -> impl Iterator<Item = &Record> {
        self.records.range((process, 0)..=(process, u32::MAX)).flat_map(|(_, records)| records)
    }

    /// The process image whose id was this.
    pub(crate) fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.iter().find(|process| process.pid == pid)
    }

    /// Returns the number of records about locks of any kind.
    pub(crate) fn locks(&self) -> usize {
        self.all().filter(|record| matches!(record.kind, Kind::Lock(..))).count()
    }

    /// Nothing was lost, torn or overwritten.
    #[track_caller]
    pub(crate) fn assert_whole(&self) {
        assert_eq!((self.lost, self.torn, self.overwritten), (0, 0, 0), "lost, torn, overwritten");
    }
}

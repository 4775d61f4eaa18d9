//! What was recorded, read back.

use record::{Action, Class, Kind, NameKind, Raw, Record, Recording};
use shm::log::{Copy, Lost};
use std::collections::BTreeMap;

/// A process image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    pub number: u32,
    pub pid: u32,
    pub parent: u32,
    pub program: String,
}

/// One recording.
#[derive(Debug, Default)]
pub struct Trace {
    pub processes: Vec<Process>,
    /// Who wrote what, in the order of each thread.
    pub records: BTreeMap<(u32, u32), Vec<Record>>,
    pub modules: Vec<(u32, String)>,
    pub kernels: Vec<String>,
    pub troubles: [u64; record::side::TROUBLES],
    /// Slots that were taken and not filled.
    pub torn: u32,
    /// What there was no room for.
    pub lost: u64,
    /// What gave way to later records.
    pub overwritten: u64,
}

impl Trace {
    /// Copies everything.
    pub fn read(recording: &Recording) -> Trace {
        let log = recording.log();
        let mut trace = Trace { troubles: recording.side().troubles(), ..Trace::default() };
        let mut threads: BTreeMap<(u32, u32), Vec<Copy>> = BTreeMap::new();
        for chunk in log.numbers().filter_map(|number| log.read(number)) {
            let key = (chunk.writer.process, chunk.writer.thread);
            threads.entry(key).or_default().push(chunk);
        }
        for (key, chunks) in threads {
            let mut records = Vec::new();
            for mut chunks in lives(chunks) {
                // A signal handler may have opened its chunk later than the thread that it
                // interrupted, and counted it first.
                chunks.sort_by_key(|chunk| chunk.sequence);
                trace.add_chunks(&chunks, &mut records);
            }
            trace.records.insert(key, records);
        }
        let Lost { count, .. } = log.lost_without_chunk();
        trace.lost += count;
        trace.add_names(recording);
        trace
    }

    fn add_chunks(&mut self, chunks: &[Copy], records: &mut Vec<Record>) {
        let mut had = 0;
        for chunk in chunks {
            self.torn += chunk.torn;
            self.lost += chunk.lost.count;
            self.overwritten += chunk.before.saturating_sub(had);
            had = chunk.before.max(had) + chunk.entries.len() as u64 + u64::from(chunk.torn);
            for entry in &chunk.entries {
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
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.values().flatten()
    }

    /// How many records there are of a kind.
    pub fn count(&self, class: Class, action: Action) -> usize {
        self.all().filter(|record| record.kind == Kind::Lock(class, action)).count()
    }

    /// How many records there are of a kind, by a process image.
    pub fn count_of(&self, process: u32, class: Class, action: Action) -> usize {
        let kind = Kind::Lock(class, action);
        self.of_process(process).filter(|record| record.kind == kind).count()
    }

    /// The records of a process image.
    pub fn of_process(&self, process: u32) -> impl Iterator<Item = &Record> {
        self.records.range((process, 0)..=(process, u32::MAX)).flat_map(|(_, records)| records)
    }

    /// The process image whose id was this.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.processes.iter().find(|process| process.pid == pid)
    }

    /// How many locks of any kind were noted.
    pub fn locks(&self) -> usize {
        self.all().filter(|record| matches!(record.kind, Kind::Lock(..))).count()
    }

    /// Nothing was lost, torn or overwritten.
    #[track_caller]
    pub fn assert_whole(&self) {
        assert_eq!((self.lost, self.torn, self.overwritten), (0, 0, 0), "lost, torn, overwritten");
    }
}

/// The chunks of one thread id, thread by thread: an id that is given again counts its chunks anew.
fn lives(mut chunks: Vec<Copy>) -> Vec<Vec<Copy>> {
    chunks.sort_by_key(|chunk| chunk.opened);
    let mut lives: Vec<Vec<Copy>> = Vec::new();
    for chunk in chunks {
        let is_new = |life: &Vec<Copy>| life.iter().any(|had| had.sequence == chunk.sequence);
        match lives.last_mut() {
            Some(life) if !is_new(life) => life.push(chunk),
            _ => lives.push(vec![chunk]),
        }
    }
    lives
}

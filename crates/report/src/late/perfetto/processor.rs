//! The kernel's records become scheduler events, from which Perfetto makes the tracks of the
//! processors and the states of the threads; or, where only the program's own switches were
//! recorded, slices of the time that its threads were off the processor.
//!
//! A switch from a thread that was not on the processor, as far as the records say, would be an
//! error in Perfetto's eyes. Where records are missing, the processor therefore goes to a thread
//! called `records lost`, and from there to the thread that is known to run next.

use super::Export;
use super::message::*;
use super::packets::Note;
use super::track::About;
use crate::Error;
use crate::late::spans::Gap;
use record::{Kind, Record, SwitchDetail};
use std::collections::{BTreeMap, HashMap};
use trace::Block;

/// Number of events in a packet.
const BUNDLE: usize = 512;
/// Ids of the threads that stand for missing records, one for each processor: above all real ones.
const LOST_TID: u32 = 0x4000_0000;
/// The priority of nice 0.
const ORDINARY: u16 = 120;
/// The kernel's state of a thread that sleeps. What a thread does after the last record before a
/// gap is not known; this is what least looks like a cause of anything.
const SLEEPING: u32 = 1;
/// Flag of an event that happened in an interrupt.
const HARD_INTERRUPT: u32 = 8;

/// State of the processors.
#[derive(Default)]
pub(super) struct Processors {
    processors: BTreeMap<u32, Processor>,
    bundles: BTreeMap<u32, Vec<FtraceEvent>>,
    /// Time at which each thread left its processor, that processor, and true if it was preempted.
    off: HashMap<u32, (u64, u32, bool)>,
    /// Open futex calls of each thread: when, the address, the operation.
    futexes: HashMap<u32, (u64, u64, u32)>,
    /// Threads whose process is not known: their names come with the events.
    names: HashMap<u32, String>,
}

#[derive(Default)]
struct Processor {
    /// Thread that runs.
    current: Option<u32>,
    /// The latest record, or when records came again.
    time: u64,
}

impl Processors {
    pub(super) fn new(about: &trace::Metadata) -> Processors {
        let nameless = about.tasks.iter().filter(|task| task.pid == 0 && task.thread != 0);
        let names = nameless.map(|task| (task.thread, task.name.clone())).collect();
        Processors { names, ..Processors::default() }
    }
}

impl Export<'_, '_> {
    /// A block of a processor begins.
    pub(super) fn processor_begins(&mut self, processor: u32, block: &Block) -> Result<(), Error> {
        let start = self.trace.start();
        let new = || Processor { time: start, ..Processor::default() };
        let from = self.processors.processors.entry(processor).or_insert_with(new).time;
        match Gap::before(block, from) {
            Some(gap) => self.processor_missing(processor, gap),
            None => Ok(()),
        }
    }

    /// A block of a processor is over.
    pub(super) fn processor_ends(&mut self, processor: u32, block: &Block) -> Result<(), Error> {
        let state = self.processors.processors.get(&processor);
        match state.and_then(|state| Gap::after(block, state.time, None)) {
            Some(gap) => self.processor_missing(processor, gap),
            None => Ok(()),
        }
    }

    fn processor_missing(&mut self, processor: u32, gap: Gap) -> Result<(), Error> {
        let Gap { from, to, count } = gap;
        let Some(state) = self.processors.processors.get_mut(&processor) else { return Ok(()) };
        state.time = to;
        if let Some(current) = state.current.filter(|current| *current < LOST_TID) {
            state.current = Some(LOST_TID + processor);
            self.switch(processor, from, (current, SLEEPING), LOST_TID + processor)?;
        }
        self.summary.lost_ranges += 1;
        let name = format!("CPU {processor}: records lost");
        let track = self.tracks.child(&mut self.to, About::Processor(processor), &name, None)?;
        let notes = &[("records", Note::Number(count))];
        self.slice((from, to), track, "records lost", "lost", notes)
    }

    /// A kernel's record.
    pub(super) fn kernel_record(&mut self, processor: u32, record: &Record) -> Result<(), Error> {
        match record.kind {
            Kind::Switch => self.switches(processor, record),
            Kind::Wakeup => self.wakes(record),
            Kind::OffCpu => {
                let (tid, preempted) = (record.subject as u32, record.detail == 1);
                self.processors.off.insert(tid, (record.time, record.number, preempted));
                Ok(())
            }
            Kind::OnCpu => self.comes(record),
            Kind::Boost => self.boosted(record),
            Kind::FutexEnter => {
                let open = (record.time, record.subject, (record.detail >> 32) as u32);
                self.processors.futexes.insert(record.number, open);
                Ok(())
            }
            Kind::FutexExit => self.futex_ends(record),
            _ => Ok(()),
        }
    }

    fn switches(&mut self, processor: u32, record: &Record) -> Result<(), Error> {
        let (from, to) = ((record.subject >> 32) as u32, record.subject as u32);
        let now = record.time;
        let state = self.processors.processors.entry(processor).or_default();
        let (before, since) = (state.current, state.time.min(now));
        (state.current, state.time) = (Some(to), now);
        let lost = LOST_TID + processor;
        match before {
            Some(other) if other == lost => {
                self.switch(processor, since, (lost, SLEEPING), from)?
            }
            Some(other) if other != from => {
                self.switch(processor, since, (other, SLEEPING), lost)?;
                self.switch(processor, now, (lost, SLEEPING), from)?;
            }
            _ => {}
        }
        self.summary.switches += 1;
        let detail = SwitchDetail::unpack(record.detail);
        self.sched_switch(processor, now, (from, to), detail)
    }

    /// A switch that was not recorded.
    fn switch(
        &mut self,
        processor: u32,
        ticks: u64,
        (from, from_state): (u32, u32),
        to: u32,
    ) -> Result<(), Error> {
        let (from_priority, to_priority) = (ORDINARY, ORDINARY);
        let detail = SwitchDetail { from_priority, to_priority, from_state };
        self.sched_switch(processor, ticks, (from, to), detail)
    }

    fn sched_switch(
        &mut self,
        processor: u32,
        ticks: u64,
        (from, to): (u32, u32),
        detail: SwitchDetail,
    ) -> Result<(), Error> {
        let next_comm = match to {
            LOST_TID.. => Some("records lost".to_owned()),
            _ => self.processors.names.get(&to).cloned(),
        };
        let switch = SchedSwitch {
            prev_pid: Some(from as i32),
            prev_prio: Some(detail.from_priority.into()),
            prev_state: Some(detail.from_state.into()),
            next_comm,
            next_pid: Some(to as i32),
            next_prio: Some(detail.to_priority.into()),
        };
        self.ftrace(processor, ticks, from, None, Happening::Switch(switch))
    }

    fn wakes(&mut self, record: &Record) -> Result<(), Error> {
        let (waker, wakee) = ((record.subject >> 32) as u32, record.subject as u32);
        self.summary.wakeups += 1;
        let waking = SchedWaking {
            pid: Some(wakee as i32),
            prio: Some(i32::from(record.detail as u16)),
            success: Some(1),
            target_cpu: None,
        };
        let flags = (waker == 0).then_some(HARD_INTERRUPT);
        self.ftrace(record.number, record.time, waker, flags, Happening::Waking(waking))
    }

    fn ftrace(
        &mut self,
        processor: u32,
        ticks: u64,
        runs: u32,
        common_flags: Option<u32>,
        event: Happening,
    ) -> Result<(), Error> {
        let (timestamp, pid) = (Some(self.to.ns(ticks)), Some(runs));
        let bundle = self.processors.bundles.entry(processor).or_default();
        bundle.push(FtraceEvent { timestamp, pid, common_flags, event: Some(event) });
        if bundle.len() < BUNDLE {
            return Ok(());
        }
        let event = std::mem::take(bundle);
        self.to.data(Data::FtraceEvents(FtraceEventBundle { cpu: Some(processor), event }))
    }

    /// Writes the scheduler events that were gathered.
    pub(super) fn flush_processors(&mut self) -> Result<(), Error> {
        for (processor, event) in std::mem::take(&mut self.processors.bundles) {
            self.to.data(Data::FtraceEvents(FtraceEventBundle { cpu: Some(processor), event }))?;
        }
        Ok(())
    }

    /// A thread comes to a processor; the time since it left one is a slice.
    fn comes(&mut self, record: &Record) -> Result<(), Error> {
        let (tid, now) = (record.subject as u32, record.time);
        let Some((since, left, preempted)) = self.processors.off.remove(&tid) else {
            return Ok(());
        };
        let parent = Some(self.tracks.task(&mut self.to, tid, now)?);
        let track = self.tracks.child(&mut self.to, About::OffCpu(tid), "off CPU", parent)?;
        let name = if preempted { "preempted" } else { "off CPU" };
        let from_cpu = ("from CPU", Note::Number(left.into()));
        let to_cpu = ("to CPU", Note::Number(record.number.into()));
        self.summary.off_cpu += 1;
        self.slice((since, now), track, name, "scheduler", &[from_cpu, to_cpu])
    }

    fn boosted(&mut self, record: &Record) -> Result<(), Error> {
        let (old, new) = ((record.detail >> 32) as u32, record.detail as u32);
        let track = self.tracks.task(&mut self.to, record.subject as u32, record.time)?;
        let name = if new < old { "priority inherited" } else { "priority given back" };
        let notes = [("from", Note::Number(old.into())), ("to", Note::Number(new.into()))];
        self.instant(record.time, track, name, &notes)
    }

    fn futex_ends(&mut self, record: &Record) -> Result<(), Error> {
        let tid = record.number;
        let Some((since, address, operation)) = self.processors.futexes.remove(&tid) else {
            return Ok(());
        };
        let parent = Some(self.tracks.task(&mut self.to, tid, record.time)?);
        let track = self.tracks.child(&mut self.to, About::Futex(tid), "futex", parent)?;
        let notes =
            [("address", Note::Pointer(address)), ("result", Note::Signed(record.detail as i64))];
        self.slice((since, record.time), track, operation_name(operation), "futex", &notes)
    }
}

/// The name of a futex operation, as `<linux/futex.h>` has them.
fn operation_name(operation: u32) -> &'static str {
    const NAMES: [&str; 14] = [
        "wait",
        "wake",
        "fd",
        "requeue",
        "cmp_requeue",
        "wake_op",
        "lock_pi",
        "unlock_pi",
        "trylock_pi",
        "wait_bitset",
        "wake_bitset",
        "wait_requeue_pi",
        "cmp_requeue_pi",
        "lock_pi2",
    ];
    // Above these bits stand: private to the process, and which clock.
    NAMES.get(operation as usize & 0x7f).copied().unwrap_or("futex")
}

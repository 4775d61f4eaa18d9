//! State of each topic, source, group, module and run.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cx::Run;
use crate::engine::Key;
use crate::estimate::{Linear, Window};
use crate::graph::{Erased, Group};
use crate::mailbox::Mailbox;
use crate::message::Envelope;
use crate::middleware::Codec;
use crate::trace::{Class, Core};
use crate::{Cancel, Header, Load, NO_DEADLINE, Origin, Path, Trigger};

pub(crate) struct TopicState {
    pub(super) output: Option<u16>,
    pub(super) codec: Option<Codec>,
    pub(super) readers: Vec<Reader>,
    /// Indices of the work that is to be done ahead when a message arrives.
    pub(super) arrivals: Vec<usize>,
}

/// A mailbox of a module that a topic feeds.
#[derive(Clone, Copy)]
pub(super) struct Reader {
    pub(super) module: usize,
    pub(super) port: usize,
    pub(super) active: bool,
    /// True if it does not wait for the timer, where its deadline does not allow it.
    pub(super) urgent: bool,
}

pub(crate) struct SourceState {
    pub(super) topic: u16,
    pub(super) deadline_ns: u64,
    pub(super) frames: u64,
}

pub(crate) struct GroupState {
    pub(crate) group: Group,
    pub(super) ready: BTreeMap<Key, Ready>,
    /// Keys of work ahead that waits for a core of this group.
    pub(super) ahead: std::collections::VecDeque<(&'static str, u64)>,
    pub(super) suspended_until_ns: u64,
    pub(super) statistics: super::GroupStatistics,
}

impl GroupState {
    /// Returns true if hosts wait for a core.
    pub(crate) fn waits(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Returns true if work ahead waits for a core.
    pub(crate) fn ahead_waits(&self) -> bool {
        !self.ahead.is_empty()
    }
}

/// An instance of a module that is to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(super) module: usize,
    pub(super) slot: usize,
}

/// An instance of a module.
pub(crate) struct Slot {
    /// Away while it runs.
    pub(super) module: Option<Box<dyn Erased>>,
    pub(super) group: usize,
    /// Its place among the ready ones of its group.
    pub(super) queued: Option<Key>,
    /// Run that is to be begun anew, on the fast path.
    pub(super) again: Option<Again>,
}

/// A run that was cancelled because the budget holds no more than the fast path.
pub(crate) struct Again {
    pub(super) input: Box<dyn Any + Send>,
    pub(super) run: Run,
    /// The messages that it read.
    pub(super) read: Vec<u64>,
    /// Time that the normal path was expected to take.
    pub(super) here_ns: u64,
    /// Time at which it was to be begun anew.
    pub(super) since_ns: u64,
    /// Its deadline among the ready ones.
    pub(super) order_ns: u64,
}

pub(crate) struct ModuleState {
    pub(crate) trigger: Trigger,
    /// The module at this place of an order in which feeders come before the fed.
    pub(super) order: usize,
    pub(super) slots: Vec<Slot>,
    pub(super) boxes: Vec<Mailbox>,
    pub(super) active: Vec<bool>,
    /// The wires whose messages need not wait for the trigger; none without fast path.
    pub(super) urgent: Vec<bool>,
    pub(super) publishes: u16,
    pub(super) deadline_ns: u64,
    pub(super) fast_path: bool,
    pub(super) cancel: Cancel,
    pub(super) guest: bool,
    pub(super) guest_pieces: bool,
    /// Largest number of times that one of its runs was divided into pieces.
    pub(super) divisions: u32,
    /// A timer has fired since the last run.
    pub(super) due: bool,
    /// A message has started it instead of the timer since the last tick.
    pub(super) early: bool,
    /// Capture time of the newest frame that it has read by an urgent wire.
    pub(super) read_ns: Option<u64>,
    /// Capture time of the newest frame of which it has read a part.
    pub(super) parted_ns: Option<u64>,
    /// Time at which the last message came by an active wire, and intervals between two such times;
    /// of a module with urgent wires.
    pub(super) came_ns: Option<u64>,
    pub(super) came: Window,
    /// Capture time of the newest frame of which it has published something.
    pub(super) published_ns: u64,
    /// Time at which it was last made ready, and intervals between two such times.
    pub(super) readied_ns: Option<u64>,
    pub(super) gaps: Window,
    /// Execution times, and the predictor of them, by path.
    pub(super) window: [Window; 2],
    /// Times from the start of runs on the fast path to the first part that they published.
    pub(super) first: Window,
    /// Times from when a run on the normal path is to be begun anew until it is.
    pub(super) leaves: Window,
    pub(super) linear: [Linear; 2],
    /// The predictor of its pieces.
    pub(super) pieces: Linear,
    pub(super) statistics: super::ModuleStatistics,
}

impl ModuleState {
    /// A message has come by an active wire.
    pub(super) fn note_arrival(&mut self, now_ns: u64) {
        if self.urgent.contains(&true) {
            if let Some(before_ns) = self.came_ns.replace(now_ns) {
                self.came.add(now_ns, (now_ns - before_ns) as i64);
            }
        }
    }

    /// Returns the messages that were gathered for the present input: active wires first, in the
    /// wires' order.
    pub(super) fn taken(&self) -> impl Iterator<Item = &Envelope> {
        let ports = || self.boxes.iter().zip(&self.active);
        let of = move |wanted: bool| {
            ports()
                .filter(move |(_, active)| **active == wanted)
                .flat_map(|(mailbox, _)| &mailbox.taken)
        };
        of(true).chain(of(false))
    }

    /// Returns the headers of the messages that were taken by wires that can start a run.
    pub(super) fn taken_actively(&self) -> impl Iterator<Item = &Header> {
        let starts = self.boxes.iter().enumerate().filter(|(port, _)| self.starts(*port));
        starts.flat_map(|(_, mailbox)| &mailbox.taken).map(|envelope| &*envelope.header)
    }

    fn starts(&self, port: usize) -> bool {
        self.active[port] || self.urgent[port]
    }

    /// The deadlines of the unread messages on wires that can start a run, one of each. The rest of
    /// a frame has none, once a part of it was read: no module waits for it.
    pub(super) fn waiting_deadlines_ns(&self) -> impl Iterator<Item = u64> {
        let starts = self.boxes.iter().enumerate().filter(|(port, _)| self.starts(*port));
        let fresh = starts.filter_map(|(_, mailbox)| mailbox.newest_fresh());
        fresh.map(|envelope| &envelope.header).map(|header| {
            let rest = header.part.is_partial() && Some(header.captured_ns) <= self.parted_ns;
            if rest { NO_DEADLINE } else { header.deadline_ns }
        })
    }

    /// Returns the capture time of the newest frame that was taken by an urgent wire.
    pub(super) fn taken_urgently_ns(&self) -> Option<u64> {
        let urgent = self.boxes.iter().zip(&self.urgent).filter(|(_, urgent)| **urgent);
        let taken = urgent.flat_map(|(mailbox, _)| &mailbox.taken);
        taken.map(|envelope| envelope.header.captured_ns).max()
    }

    /// The earliest deadline of what waits on urgent wires and is of a newer frame than what was read.
    pub(super) fn urgent_deadline_ns(&self) -> Option<u64> {
        let urgent = self.boxes.iter().zip(&self.urgent).filter(|(_, urgent)| **urgent);
        let fresh = urgent.filter_map(|(mailbox, _)| mailbox.newest_fresh());
        let newer = fresh.filter(|envelope| self.read_ns < Some(envelope.header.captured_ns));
        newer.map(|envelope| envelope.header.deadline_ns).min()
    }

    /// Returns true if its own trigger wants a run.
    pub(super) fn triggered(&self) -> bool {
        match self.trigger {
            Trigger::Message => self.waiting().count() >= 1,
            Trigger::Fuse(need) => self.waiting().count() >= need.max(1),
            Trigger::Timer { .. } => self.due,
        }
    }

    /// The unread messages that could trigger it, one of each active wire.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Header> {
        let active = self.boxes.iter().zip(&self.active).filter(|(_, active)| **active);
        active.filter_map(|(mailbox, _)| mailbox.newest_fresh()).map(|envelope| &*envelope.header)
    }

    /// The newest frame of each source among what was taken, by source.
    pub(super) fn provenance(&self) -> Arc<[Origin]> {
        let mut newest: Vec<Origin> = Vec::new();
        let origins = self.taken().flat_map(|envelope| envelope.header.provenance.iter());
        for &origin in origins {
            match newest.iter_mut().find(|other| other.source == origin.source) {
                Some(other) if other.captured_ns < origin.captured_ns => *other = origin,
                Some(_) => {}
                None => newest.push(origin),
            }
        }
        newest.sort_by_key(|origin| origin.source);
        newest.into()
    }
}

/// A run that was handed out.
pub(crate) struct Job {
    pub(super) of: Of,
    /// The frame that it is about.
    pub(super) frame: u64,
    pub(super) class: Class,
    pub(super) core: Core,
    pub(super) path: Path,
    pub(super) load: Load,
    pub(super) captured_ns: u64,
    /// Time that the normal path was expected to take.
    pub(super) here_ns: u64,
    pub(super) started_ns: u64,
    /// Time at which a run on the normal path that has published nothing is begun anew on the fast
    /// path.
    pub(super) switch_ns: u64,
    /// The messages that it has read.
    pub(super) read: Vec<u64>,
    /// Its deadline among the ready ones.
    pub(super) order_ns: u64,
    /// Number of times that it was divided.
    pub(super) divisions: u32,
    /// Time for which it has waited for its pieces, in all.
    pub(super) divided_ns: u64,
    /// Number of the newest part that was published, 0 if none was, and number of all parts.
    pub(super) parts: u16,
    pub(super) of_parts: u16,
}

/// Work of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    Module(Ready),
    /// Work ahead, by its number.
    Ahead(u64),
    /// Piece of a run of a module, and its number in that run.
    Piece {
        run: u64,
        ready: Ready,
        number: usize,
    },
}

impl Job {
    pub(super) fn of_module(
        ready: Ready,
        class: Class,
        core: Core,
        path: Path,
        load: Load,
        run: &Run,
    ) -> Job {
        let about = |what: fn(&Header) -> u64| run.header.as_deref().map_or(0, what);
        Job {
            of: Of::Module(ready),
            frame: about(|header| header.frame),
            class,
            core,
            path,
            load,
            captured_ns: about(|header| header.captured_ns),
            here_ns: 0,
            started_ns: 0,
            switch_ns: NO_DEADLINE,
            read: Vec::new(),
            order_ns: NO_DEADLINE,
            divisions: 0,
            divided_ns: 0,
            parts: 0,
            of_parts: 1,
        }
    }

    /// Work beside runs.
    pub(super) fn of_work(of: Of, class: Class, core: Core, load: Load) -> Job {
        let (frame, path, captured_ns, divided_ns) = (0, Path::Normal, 0, 0);
        let (parts, of_parts, here_ns, started_ns, switch_ns) = (0, 1, 0, 0, NO_DEADLINE);
        Job {
            of,
            frame,
            class,
            core,
            path,
            load,
            captured_ns,
            here_ns,
            started_ns,
            switch_ns,
            read: Vec::new(),
            order_ns: NO_DEADLINE,
            divisions: 0,
            divided_ns,
            parts,
            of_parts,
        }
    }

    /// The run of a module that this is.
    pub(super) fn ready(&self) -> Option<Ready> {
        if let Of::Module(ready) = self.of { Some(ready) } else { None }
    }
}

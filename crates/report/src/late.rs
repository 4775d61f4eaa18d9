//! Report on late launches from a trace, for people and for machines.
//!
//! [`Findings`] is what the passes of [`::late`] found in one trace. [`text`] shows it in a
//! terminal, [`json`](json()) to machines, [`html`] as one page that needs no network; [`headline`] is the
//! one sentence that all of them begin with. They are made from the same words: `name` says what
//! things are called, `share` what a call spent its time with, `advice` what is wrong, `help` what
//! would help, `unknown` what the trace cannot say.
//!
//! Times are printed with three digits. A quantile is shown only where there are enough values for
//! it, 100 for p99 and 1000 for p99.9: that of fewer would be the maximum by another name.

mod advice;
mod calls;
mod diagram;
mod help;
mod html;
mod kernel;
mod late_gpu;
mod late_graph;
mod late_headline;
mod late_json;
mod locks;
mod name;
mod open;
mod pattern;
pub mod perfetto;
mod plot;
mod share;
mod spans;
mod text;
pub mod timeline;
mod unknown;
mod worst;

pub use html::html;
pub use late_headline::headline;
pub use late_json::{SCHEMA, SCHEMA_VERSION, json};
pub use text::{Look, text};

use late::Explained;
use late::result::{CallKind, Survey, WorstCall};
use late::{Group, Verdict};
use serde::Serialize;
use trace::Metadata;

/// Findings in a trace, and the choice of those that the report shows.
#[derive(Debug, Clone)]
pub struct Findings<'t> {
    /// The trace file.
    pub file: String,
    /// Metadata of the trace.
    pub metadata: &'t Metadata,
    /// Its first pass.
    pub survey: Survey,
    /// Its worst calls, taken apart; in the order of [`Survey::worst`].
    pub explained: Vec<Explained>,
    /// Faults that were found, the worst first.
    pub verdicts: Vec<Verdict>,
    /// Calls that the report takes apart.
    pub focus: Focus,
    /// Largest number of them in each group.
    pub worst: usize,
    /// Largest number of locks that the report for machines lists, unless it refers to more.
    pub locks: usize,
    /// Number of records that were read before the report was interrupted.
    pub interrupted: Option<u64>,
}

/// Calls that the report is about.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Focus {
    /// Launches, or where there are none the first group that has calls.
    #[default]
    Launches,
    /// Those of one group.
    Group(Group),
    /// Those of one function, by its name without version and variant.
    Function(String),
    /// Those of every group.
    All,
}

/// Kinds of activity and waiting that a call spends time with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Running on a processor.
    Executing,
    /// Waiting for a lock that another thread had.
    Lock,
    /// Waiting for a lock that was free.
    HandOver,
    /// Preempted.
    Preempted,
    /// Woken, and waiting for a processor.
    WokenLate,
    /// Waiting for a signal.
    Signal,
    /// Suspended in a page fault or another system call.
    Blocked,
    /// The device's queue was probably full.
    QueueFull,
    /// Waiting for the GPU, which did this program's work.
    Gpu,
    /// Waiting for the GPU, which took longer than usual or did other work.
    GpuBeyond,
    /// Time that the records do not explain.
    Unexplained,
}

impl What {
    /// All of them, in the order of a legend.
    pub(crate) const ALL: [What; 11] = [
        What::Executing,
        What::Lock,
        What::HandOver,
        What::Preempted,
        What::WokenLate,
        What::Signal,
        What::Blocked,
        What::QueueFull,
        What::Gpu,
        What::GpuBeyond,
        What::Unexplained,
    ];

    /// The words of a legend.
    pub(crate) fn words(self) -> &'static str {
        match self {
            What::Executing => "executing",
            What::Lock => "waiting for a lock that is held",
            What::HandOver => "waiting for a lock that is free",
            What::Preempted => "preempted",
            What::WokenLate => "woken late",
            What::Signal => "waiting for a signal",
            What::Blocked => "page fault or other system call",
            What::QueueFull => "device queue full",
            What::Gpu => "waiting for the GPU",
            What::GpuBeyond => "waiting for the GPU, which was shared or slow",
            What::Unexplained => "unexplained",
        }
    }
}

/// One of the worst calls with its explanation.
#[derive(Clone, Copy)]
struct Late<'f> {
    call: &'f WorstCall,
    explained: &'f Explained,
}

impl Focus {
    /// Returns true if a report with this focus is about calls of a kind.
    pub fn asks(&self, survey: &Survey, kind: &CallKind) -> bool {
        match self {
            Focus::Launches => kind.group == main_group(survey),
            Focus::Group(group) => kind.group == *group,
            Focus::Function(name) => kind.function == *name,
            Focus::All => true,
        }
    }

    /// Returns true if nothing was asked for, so that other calls than launches are told of, too.
    fn is_open(&self) -> bool {
        matches!(self, Focus::Launches | Focus::All)
    }
}

/// The group that a report of launches is about: a program may have made none.
fn main_group(survey: &Survey) -> Group {
    let groups = [Group::Launch, Group::Copy, Group::Sync, Group::Other];
    let open = |kind: usize| survey.unfinished.iter().any(|u| u.kind as usize == kind);
    let has = |group: &Group| {
        let mut kinds = survey.kinds.iter().enumerate();
        kinds.any(|(at, kind)| kind.group == *group && (kind.count > 0 || open(at)))
    };
    groups.into_iter().find(has).unwrap_or(Group::Launch)
}

impl Findings<'_> {
    fn kind_of(&self, call: &WorstCall) -> Option<&CallKind> {
        self.survey.kinds.get(call.kind as usize)
    }

    /// Returns true if a kind of call, by its place, was asked for.
    fn asks(&self, kind: u32) -> bool {
        let kind = self.survey.kinds.get(kind as usize);
        kind.is_some_and(|kind| self.focus.asks(&self.survey, kind))
    }

    /// The late calls of those that were asked for, the latest first; where none is late, the one
    /// that comes closest.
    fn latest(&self) -> Vec<Late<'_>> {
        self.ranked(|kind| self.focus.asks(&self.survey, kind))
    }

    fn ranked(&self, wanted: impl Fn(&CallKind) -> bool) -> Vec<Late<'_>> {
        let late = self.explained.iter().filter_map(|explained| {
            let call = self.survey.worst.get(explained.worst as usize)?;
            wanted(self.kind_of(call)?).then_some(Late { call, explained })
        });
        let mut late: Vec<Late<'_>> = late.collect();
        late.sort_by_key(|late| {
            (!late.call.is_late(), std::cmp::Reverse(late.call.lateness_ns), late.call.at_ns)
        });
        let number = late.iter().filter(|late| late.call.is_late()).count();
        late.truncate(number.max(1));
        late
    }

    /// One of the calls that were asked for, in words: `launch`, `call of cuMemAlloc`.
    fn one(&self) -> String {
        match &self.focus {
            Focus::Launches => singular(main_group(&self.survey)).to_owned(),
            Focus::Group(group) => singular(*group).to_owned(),
            Focus::Function(name) => format!("call of {name}"),
            Focus::All => "call".to_owned(),
        }
    }

    /// Several of them: `launches`, `calls of cuMemAlloc`.
    fn many(&self) -> String {
        match &self.focus {
            Focus::Launches => plural(main_group(&self.survey)).to_owned(),
            Focus::Group(group) => plural(*group).to_owned(),
            Focus::Function(name) => format!("calls of {name}"),
            Focus::All => "calls".to_owned(),
        }
    }

    /// The verdicts that the report tells: those on calls that were asked for, and if none were,
    /// the others behind them.
    fn judged(&self) -> impl Iterator<Item = &Verdict> {
        self.verdicts.iter().filter(|verdict| verdict.asked || self.focus.is_open())
    }

    /// The calls that the report takes apart, as their places in [`Survey::worst`].
    pub fn shown(&self) -> Vec<u32> {
        let lists = self.lists();
        lists.iter().flat_map(|(_, list)| list).map(|late| late.explained.worst).collect()
    }

    /// The calls to be taken apart, with a heading for each list.
    fn lists(&self) -> Vec<(String, Vec<Late<'_>>)> {
        let all = [Group::Launch, Group::Copy, Group::Sync, Group::Other];
        let latest_of = |group: Group| {
            (format!("Worst {}", plural(group)), self.ranked(|kind| kind.group == group))
        };
        let mut lists = match &self.focus {
            Focus::Launches if self.survey.kinds.is_empty() => Vec::new(),
            Focus::All => {
                all.into_iter().map(latest_of).filter(|(_, list)| !list.is_empty()).collect()
            }
            _ => vec![(format!("Worst {}", self.many()), self.latest())],
        };
        lists.iter_mut().for_each(|(_, list)| list.truncate(self.worst));
        lists
    }
}

/// `launch`.
fn singular(group: Group) -> &'static str {
    match group {
        Group::Launch => "launch",
        Group::Copy => "copy",
        Group::Sync => "synchronisation",
        Group::Other => "other call",
    }
}

fn plural(group: Group) -> &'static str {
    match group {
        Group::Launch => "launches",
        Group::Copy => "copies",
        Group::Sync => "synchronisations",
        Group::Other => "other calls",
    }
}

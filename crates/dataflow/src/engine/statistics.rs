//! Counts of what modules and groups did.

use crate::engine::Engine;
use crate::trace::{Class, RunEnd};
use crate::{MailboxCounts, Path};

/// Counts and times of one module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleStatistics {
    /// Its name.
    pub name: String,
    /// Runs with a result on the normal path.
    pub normal: u64,
    /// Runs with a result on the fast path.
    pub fast: u64,
    /// Runs that were cancelled.
    pub cancelled: u64,
    /// Runs with nothing to publish.
    pub nothing: u64,
    /// Runs that failed.
    pub failed: u64,
    /// Text of the last failure.
    pub last_failure: Option<String>,
    /// Runs on another group's core.
    pub as_guest: u64,
    /// Pieces that its runs were divided into.
    pub pieces: u64,
    /// Those of them that another group's core did.
    pub pieces_as_guest: u64,
    /// Runs that a message started which could not wait for the trigger.
    pub early: u64,
    /// Runs on the normal path that were begun anew on the fast one.
    pub switched: u64,
    /// Timers that found the input incomplete.
    pub skipped: u64,
    /// Results of work ahead that were there.
    pub hits: u64,
    /// Results of work ahead that were not.
    pub misses: u64,
    /// Time for which its runs and their pieces had a core, in all, in nanoseconds.
    pub service_ns: u64,
    /// Counts of the messages on each of its wires.
    pub mailboxes: Vec<MailboxCounts>,
}

impl ModuleStatistics {
    pub(super) fn count(&mut self, outcome: RunEnd, path: Path, class: Class, service_ns: u64) {
        let count = match (outcome, path) {
            (RunEnd::Done, Path::Normal) => &mut self.normal,
            (RunEnd::Done, Path::Fast) => &mut self.fast,
            (RunEnd::Cancelled, _) => &mut self.cancelled,
            (RunEnd::Nothing, _) => &mut self.nothing,
            (RunEnd::Failed, _) => &mut self.failed,
        };
        *count += 1;
        self.as_guest += u64::from(class == Class::Guest);
        self.service_ns += service_ns;
    }

    pub(super) fn count_piece(&mut self, class: Class, service_ns: u64) {
        self.pieces += 1;
        self.pieces_as_guest += u64::from(class == Class::Guest);
        self.service_ns += service_ns;
    }
}

/// Counts and times of one group's cores.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupStatistics {
    /// Its name.
    pub name: String,
    /// Time for which its own modules had a core, in nanoseconds.
    pub host_ns: u64,
    /// Time for which guests of other groups had a core, in nanoseconds.
    pub guest_ns: u64,
    /// Time for which work ahead had a core, in nanoseconds.
    pub ahead_ns: u64,
    /// Guests that were let in.
    pub admitted: u64,
    /// Pieces among them that went home, since hosts wanted the core.
    pub returned: u64,
    /// Number of refusals of a guest.
    pub denied: u64,
    /// Hosts' runs that found a guest on their core.
    pub overruns: u64,
    /// Those of them that had to wait for it.
    pub violations: u64,
    /// Time for which they waited, in all, in nanoseconds.
    pub delayed_ns: u64,
    /// Work ahead that was asked for.
    pub ahead_asked: u64,
}

impl GroupStatistics {
    pub(super) fn served(&mut self, class: Class, service_ns: u64) {
        *match class {
            Class::Host => &mut self.host_ns,
            Class::Guest => &mut self.guest_ns,
            Class::Ahead => &mut self.ahead_ns,
        } += service_ns;
    }
}

/// Counts and times of a graph since it was started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Its modules, by number.
    pub modules: Vec<ModuleStatistics>,
    /// Its groups, by number.
    pub groups: Vec<GroupStatistics>,
}

impl Engine {
    pub(crate) fn statistics(&self) -> Statistics {
        let modules =
            self.modules.iter().zip(&self.names.modules).map(|(module, name)| ModuleStatistics {
                name: name.clone(),
                mailboxes: module.boxes.iter().map(|mailbox| mailbox.counts).collect(),
                ..module.statistics.clone()
            });
        let groups = self.groups.iter().map(|group| GroupStatistics {
            name: group.group.name.clone(),
            ..group.statistics.clone()
        });
        Statistics { modules: modules.collect(), groups: groups.collect() }
    }
}

//! Names of threads, calls and locks. The same words in a terminal and on a page.

use super::Findings;
use crate::number::{bytes, bytes_class, counted};
use late::result::{Attributes, CallKind, Lock, WorstCall};
use late::{Family, Host, Task};

/// `copy-3 (4711)`, or `thread 4711` for one without a name.
fn named(name: &str, tid: u32) -> String {
    match (name, tid) {
        (_, 0) => "no thread (the processor was idle)".to_owned(),
        ("", tid) => format!("thread {tid}"),
        (name, tid) => format!("{name} ({tid})"),
    }
}

impl Findings<'_> {
    /// A thread by its place in the survey.
    pub(super) fn thread(&self, place: u32) -> String {
        let thread = self.survey.threads.get(place as usize);
        thread.map_or("a thread".to_owned(), |thread| named(&thread.name, thread.tid))
    }

    /// A kind of call by its place in the survey.
    pub(super) fn call(&self, kind: u32) -> String {
        self.survey.kinds.get(kind as usize).map_or("a call".to_owned(), kind_name)
    }

    /// `inside cuLaunchKernel`, or `outside of recorded calls`.
    pub(super) fn inside(&self, kind: Option<u32>) -> String {
        match kind {
            Some(kind) => format!("inside {}", self.call(kind)),
            None => "outside of recorded calls".to_owned(),
        }
    }

    /// `mutex M4`.
    pub(super) fn lock(&self, place: u32) -> String {
        let lock = self.survey.locks.get(place as usize);
        lock.map_or("a lock that is not known".to_owned(), |lock| {
            format!("{} {}", family(lock.family), lock.name)
        })
    }

    /// `M4`.
    pub(super) fn lock_name(&self, place: Option<u32>) -> String {
        let lock = place.and_then(|place| self.survey.locks.get(place as usize));
        lock.map_or("?".to_owned(), |lock| lock.name.clone())
    }

    /// Special properties of one of the worst calls: bytes, kernel, result.
    pub(super) fn particulars(&self, call: &WorstCall) -> Vec<String> {
        let kind = self.survey.kinds.get(call.kind as usize);
        let copy = kind.is_some_and(|kind| kind.bytes_class.is_some());
        let mut words = Vec::new();
        words.extend(copy.then(|| bytes(call.detail)));
        words.extend(call.kernel.as_ref().map(|kernel| format!("kernel {kernel}")));
        words.extend(call.captured.then(|| "captured into a graph".to_owned()));
        words.extend((call.result != 0).then(|| format!("returned error {}", call.result)));
        words.extend((call.depth > 0).then(|| "made by another call".to_owned()));
        words
    }
}

/// A thread of the machine.
pub(super) fn task(task: &Task) -> String {
    named(&task.name, task.tid)
}

/// `cuMemcpyHtoDAsync (pageable, 1 to 16 MiB)`.
pub(super) fn kind_name(kind: &CallKind) -> String {
    let host = match kind.host {
        Host::Unknown => "",
        Host::Pinned => "pinned, ",
        Host::Pageable => "pageable, ",
    };
    match kind.bytes_class {
        Some(class) => format!("{} ({host}{})", kind.function, bytes_class(class)),
        None => kind.function.clone(),
    }
}

/// Name of a family of locks.
pub(super) fn family(family: Family) -> &'static str {
    match family {
        Family::Mutex => "mutex",
        Family::ReadWrite => "read-write lock",
        Family::Spin => "spinlock",
        Family::Semaphore => "semaphore",
        Family::Barrier => "barrier",
        Family::Once => "once control",
        Family::Condition => "condition",
    }
}

/// `mutex, normal, no inheritance`: what a lock is and was made as.
pub(super) fn attributes(lock: &Lock) -> String {
    let Some(attributes) = &lock.attributes else { return family(lock.family).to_owned() };
    let Attributes { kind, inherit, protect, robust, shared, .. } = attributes;
    let mut words = vec![family(lock.family), *kind];
    if lock.family == Family::Mutex {
        words.push(match (inherit, protect) {
            (true, _) => "priority inheritance",
            (_, true) => "priority ceiling",
            _ => "no inheritance",
        });
    }
    words.extend(robust.then_some("robust"));
    words.extend(shared.then_some("shared by processes"));
    words.join(", ")
}

/// `1 mutex`, `389 mutexes`.
pub(super) fn families(family: Family, number: u64) -> String {
    match family {
        Family::Mutex => counted(number, "mutex", "mutexes"),
        Family::ReadWrite => counted(number, "read-write lock", "read-write locks"),
        Family::Spin => counted(number, "spinlock", "spinlocks"),
        Family::Semaphore => counted(number, "semaphore", "semaphores"),
        Family::Barrier => counted(number, "barrier", "barriers"),
        Family::Once => counted(number, "once control", "once controls"),
        Family::Condition => counted(number, "condition", "conditions"),
    }
}

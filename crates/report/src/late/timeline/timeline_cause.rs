//! Causes of the parts of a call, in a few words for a label.

use crate::late::What;
use crate::late::late_gpu::work_name;
use crate::late::name::task;
use late::{Cause, GpuState, Holder, HolderState, Reason, Survey, Task};

/// The kind of a cause, and who or what it was in this part.
pub(super) fn words(survey: &Survey, cause: &Cause) -> (What, String) {
    let lock = |place: u32| {
        survey.locks.get(place as usize).map_or("a lock", |lock| lock.name.as_str()).to_owned()
    };
    match cause {
        Cause::Executing => (What::Executing, "executing".to_owned()),
        Cause::Lock { lock: wanted, holders, .. } => {
            let mut words = lock(*wanted);
            for holder in holders {
                words += &format!(" held by {}{}", task(&holder.task), state(holder, &lock));
            }
            (What::Lock, words)
        }
        Cause::HandOver { lock: wanted, to, .. } => {
            let to = to.as_ref().map(|to| format!(", given to {}", task(to)));
            (What::HandOver, format!("{} is free{}", lock(*wanted), to.unwrap_or_default()))
        }
        Cause::WokenLate { behind, .. } => (What::WokenLate, behind_whom("woken", behind)),
        Cause::Preempted { by } => (What::Preempted, behind_whom("preempted", by)),
        Cause::Signal { lock: wanted, .. } => {
            (What::Signal, format!("waiting for a signal of {}", lock(*wanted)))
        }
        Cause::Blocked => (What::Blocked, "in a system call or a page fault".to_owned()),
        Cause::QueueFull { outstanding } => {
            (What::QueueFull, format!("queue full: {outstanding} launches outstanding"))
        }
        Cause::Gpu { state, work } => (gpu_what(*state), gpu_words(survey, *state, *work)),
        Cause::Unexplained { reason } => {
            let words = match reason {
                Reason::NoScheduler => "executing or suspended: the scheduler was not recorded",
                Reason::QueueMayBeFull => "the queue may be full",
                _ => "records are missing",
            };
            (What::Unexplained, words.to_owned())
        }
    }
}

fn gpu_what(state: GpuState) -> What {
    if state.is_beyond() { What::GpuBeyond } else { What::Gpu }
}

fn gpu_words(survey: &Survey, state: GpuState, work: Option<u32>) -> String {
    let gpu = survey.gpu.as_ref().zip(work);
    let work = gpu.and_then(|(gpu, work)| gpu.works.get(work as usize)).map(work_name);
    let work = work.unwrap_or_else(|| "work".to_owned());
    match state {
        GpuState::OwnWork => format!("the GPU runs {work}"),
        GpuState::LongerThanUsual => format!("the GPU runs {work}, for longer than usual"),
        GpuState::Between => "the GPU is between two pieces of work".to_owned(),
        GpuState::NotGiven => "the GPU runs no work of this program".to_owned(),
        GpuState::Over => "the GPU has ended the work".to_owned(),
        GpuState::ToldLate => "the GPU has ended the work, and tells late".to_owned(),
        GpuState::NotRecorded => "waiting for the GPU".to_owned(),
    }
}

fn behind_whom(what: &str, who: &Option<Task>) -> String {
    match who {
        Some(who) => format!("{what}, behind {}", task(who)),
        None => what.to_owned(),
    }
}

/// Activity of a holder that keeps the lock from being released.
fn state(holder: &Holder, lock: &impl Fn(u32) -> String) -> String {
    match &holder.state {
        HolderState::Executing => ", which executes".to_owned(),
        HolderState::Preempted { by } => format!(", {}", behind_whom("preempted", by)),
        HolderState::WokenLate { behind } => format!(", {}", behind_whom("woken", behind)),
        HolderState::WaitsForLock => ", which waits for the next:".to_owned(),
        HolderState::HandOver { lock: wanted } => format!(", about to get {}", lock(*wanted)),
        HolderState::Signal { lock: wanted } => format!(", waiting for {}", lock(*wanted)),
        HolderState::Blocked => ", blocked".to_owned(),
        _ => String::new(),
    }
}

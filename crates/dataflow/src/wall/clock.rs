//! The thread that fires the timers.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use realtime::thread::{Scheduling, set_name, set_policy};

use crate::Trigger;
use crate::trace::Ring;
use crate::wall::{Left, Shared};

pub(super) fn start(shared: Arc<Shared>, ring: Ring) -> Result<JoinHandle<Left>, std::io::Error> {
    let run = move || Left { ring: run(&shared, ring), chunks: Vec::new() };
    std::thread::Builder::new().name("dataflow-clock".into()).spawn(run)
}

fn run(shared: &Shared, mut ring: Ring) -> Ring {
    set_name("dataflow-clock");
    let (mut timers, priority) = timers(shared);
    if let Some(priority) = priority {
        // Refused here is refused to the workers, which say so.
        let _ = set_policy(Scheduling::Fifo(priority));
    }
    while !shared.stopping() {
        let now_ns = shared.now_ns();
        let due: Vec<usize> =
            (0..timers.len()).filter(|&at| timers[at].next_ns <= now_ns).collect();
        if !due.is_empty() {
            let mut locked = shared.locked.lock();
            for at in due {
                locked.engine.fire(now_ns, timers[at].module);
                timers[at].next_ns += timers[at].period_ns;
            }
            locked.settle(now_ns, &mut ring);
            continue;
        }
        match timers.iter().map(|timer| timer.next_ns).min() {
            Some(next_ns) => std::thread::park_timeout(Duration::from_nanos(next_ns - now_ns)),
            None => std::thread::park(),
        }
    }
    ring
}

struct Timer {
    module: usize,
    next_ns: u64,
    period_ns: u64,
}

/// The graph's timers, and the highest priority of its groups.
fn timers(shared: &Shared) -> (Vec<Timer>, Option<u8>) {
    let locked = shared.locked.lock();
    let modules = locked.engine.modules.iter().enumerate();
    let timers = modules.filter_map(|(module, state)| match state.trigger {
        Trigger::Timer { period_ns, offset_ns } => {
            Some(Timer { module, next_ns: offset_ns, period_ns })
        }
        Trigger::Message | Trigger::Fuse(_) => None,
    });
    let priority = locked.engine.groups.iter().filter_map(|group| group.group.priority).max();
    (timers.collect(), priority)
}

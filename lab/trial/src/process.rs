//! The process of a child, and the end of all children after a signal.
//!
//! A command ends within about a second of its first signal, whatever its children do. Waits for a
//! child look for the signal themselves. But a command also waits for its children in ways that
//! cannot, such as a request to a server that has stopped. So a thread, which sleeps until the first
//! signal, gives the command [`GRACE`] and then kills all children: their sockets and pipes are
//! closed, and each wait for one of them returns an error, which [`signals::finished`] takes for the
//! end by the signal.
//!
//! A process is reaped only under its lock, so that its number is its own whenever a signal is sent.

use std::process::ExitStatus;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::signals;

/// Time that a command has after a signal to end its children by itself.
const GRACE: Duration = Duration::from_millis(300);
/// Time until children are killed that were started meanwhile.
const AGAIN: Duration = Duration::from_millis(50);

/// All processes of children that were not dropped.
static PROCESSES: Mutex<Vec<Weak<Process>>> = Mutex::new(Vec::new());

/// A process that leads a process group.
#[derive(Debug)]
pub(crate) struct Process {
    id: u32,
    process: Mutex<std::process::Child>,
}

impl Process {
    /// A process that was just started.
    pub(crate) fn new(process: std::process::Child) -> Arc<Process> {
        static WATCH: Once = Once::new();
        // Without a thread the waits alone look for signals.
        WATCH.call_once(|| {
            drop(std::thread::Builder::new().name("kt-children".into()).spawn(kill_all_at_the_end));
        });
        let process = Arc::new(Process { id: process.id(), process: Mutex::new(process) });
        let mut processes = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner);
        processes.retain(|process| process.strong_count() > 0);
        processes.push(Arc::downgrade(&process));
        process
    }

    /// Its number.
    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Its status, if it has ended.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.lock().try_wait().ok().flatten()
    }

    /// Sends a signal, if it runs.
    pub(crate) fn signal(&self, signal: Signal) {
        let mut process = self.lock();
        if matches!(process.try_wait(), Ok(None)) {
            // One that ends just now needs no signal.
            let _ = kill_process(Pid::from_child(&process), signal);
        }
    }

    /// Kills it with what it has started itself, all of its group, if it runs.
    pub(crate) fn kill(&self) {
        let mut process = self.lock();
        if matches!(process.try_wait(), Ok(None)) {
            // The group has its number.
            let _ = kill_process_group(Pid::from_child(&process), Signal::KILL);
        }
    }

    /// Waits until it has ended.
    pub(crate) fn reap(&self) {
        let _ = self.lock().wait();
    }

    fn lock(&self) -> MutexGuard<'_, std::process::Child> {
        self.process.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kills all children some time after the first signal, and those that come later.
fn kill_all_at_the_end() {
    if signals::first().is_none() {
        return;
    }
    std::thread::sleep(GRACE);
    loop {
        let processes = PROCESSES.lock().unwrap_or_else(PoisonError::into_inner).clone();
        processes.iter().filter_map(Weak::upgrade).for_each(|process| process.kill());
        std::thread::sleep(AGAIN);
    }
}

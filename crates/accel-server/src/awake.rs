//! Keeps cores from idling.
//!
//! A core that idles sleeps, ever deeper, and in a virtual machine it goes back to the host: waking
//! up takes tens of microseconds then. A thread that runs only when nobody else wants the core
//! prevents that. It gives way to every other thread at once.

use realtime::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Looks whether to stop once in so many rounds of doing nothing.
const ROUNDS: u32 = 1000;

/// Starts a thread on each of these cores, until `stop` is set. Without a core, or without the
/// policy, there is none on it: what it says is for people.
///
/// # Errors
/// The operating system makes no thread.
pub(crate) fn keep(
    mut cores: Vec<usize>,
    stop: &Arc<AtomicBool>,
) -> std::io::Result<Vec<JoinHandle<()>>> {
    cores.sort_unstable();
    cores.dedup();
    let start = |core: usize| {
        let stop = stop.clone();
        std::thread::Builder::new().name("kt-awake".into()).spawn(move || {
            // With another policy it would take the core from those that need it.
            if thread::pin(&[core]).is_ok() && thread::set_idle().is_ok() {
                // Relaxed: nothing else is read because of it.
                while !stop.load(Ordering::Relaxed) {
                    (0..ROUNDS).for_each(|_| std::hint::spin_loop());
                }
            }
        })
    };
    cores.into_iter().map(start).collect()
}

//! Settings and counters, in the side area, of a program that takes the bandwidth lock by itself.

use crate::Side;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

/// Longest path of a socket in bytes, without the zero that ends it for the kernel.
pub const SOCKET_BYTES: usize = 107;

/// Order that a program holds the bandwidth lock while the accelerator works for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Path of the socket at which the regulator listens.
    pub socket: PathBuf,
    /// Interval, in nanoseconds, of the questions about streams whose work has no other observer.
    pub period_ns: u64,
}

/// The same, as a process of the program reads it.
#[derive(Clone, Copy, Debug)]
pub struct Taking {
    socket: [u8; SOCKET_BYTES],
    length: usize,
    /// Interval, as in [`Bandwidth`].
    pub period_ns: u64,
}

impl Taking {
    /// Returns the path of the socket at which the regulator listens.
    pub fn socket(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.socket[..self.length]))
    }
}

/// Counters that are kept while the lock is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum BandwidthCount {
    /// Processes that attached to the regulator.
    Attached,
    /// Processes that used the accelerator and could not attach: nothing was held for them.
    NotAttached,
    /// Processes without a polling thread: the lock was held on for work that no call waited for.
    NoPoller,
    /// Streams that got work, each time that they were met anew.
    Streams,
    /// Submissions for whose stream there was no place: nothing was held for them.
    NoPlace,
    /// Submissions whose end cannot be asked for: given back at once.
    NotAsked,
    /// Streams whose work ended with an error.
    Failed,
    /// Calls that did not wait any longer until a stream had been asked.
    Impatient,
    /// Rounds of the thread that asks, begun.
    RoundsBegun,
    /// Rounds that have ended.
    RoundsEnded,
    /// Number of times that a process took the lock that did not hold it.
    Taken,
    /// Number of times that one gave it back for good. Fewer than were taken: some ended while they
    /// held it.
    GivenBack,
    /// Sum of the times of `GivenBack` less those of `Taken`, on `CLOCK_MONOTONIC` in nanoseconds,
    /// modulo 2^64: for how long it was held, once all is given back.
    HeldNs,
}

/// Number of counters.
pub const BANDWIDTH_COUNTS: usize = 13;

impl Side {
    /// Returns the settings by which the lock is taken, if it is. For those who have the flags.
    pub fn bandwidth(&self) -> Option<Taking> {
        let shared = self.bandwidth_settings();
        let length = shared.socket_bytes.load(Ordering::Relaxed) as usize;
        if length == 0 || length > SOCKET_BYTES {
            return None;
        }
        let socket = std::array::from_fn(|at| shared.socket[at].load(Ordering::Relaxed));
        Some(Taking { socket, length, period_ns: shared.period_ns.load(Ordering::Relaxed) })
    }

    /// Counts something about the lock.
    pub fn count_bandwidth(&self, what: BandwidthCount) {
        self.add_bandwidth(what, 1);
    }

    /// Adds to a counter, modulo 2^64.
    pub fn add_bandwidth(&self, what: BandwidthCount, number: u64) {
        self.bandwidth_settings().counters[what as usize].fetch_add(number, Ordering::SeqCst);
    }

    /// Returns the counters, in the order of [`BandwidthCount`].
    pub fn bandwidth_counts(&self) -> [u64; BANDWIDTH_COUNTS] {
        let counters = &self.bandwidth_settings().counters;
        std::array::from_fn(|at| counters[at].load(Ordering::SeqCst))
    }
}

// Miri has no memory files.
#[cfg(all(test, not(miri)))]
mod tests {
    use super::*;
    use crate::{Error, Recording, Settings};

    fn with(socket: &str) -> Result<Recording, Error> {
        let bandwidth = Some(Bandwidth { socket: socket.into(), period_ns: 1_000_000 });
        Recording::create(1 << 16, &Settings { bandwidth, ..Settings::default() })
    }

    #[test]
    fn settings_reach_the_program() {
        let recording = with("/run/keeptime/bandwidth.sock").unwrap();
        let taking = recording.side().bandwidth().unwrap();
        assert_eq!(taking.socket(), Path::new("/run/keeptime/bandwidth.sock"));
        assert_eq!(taking.period_ns, 1_000_000);
        let none = Recording::create(1 << 16, &Settings::default()).unwrap();
        assert!(none.side().bandwidth().is_none());
    }

    #[test]
    fn socket_that_the_kernel_could_not_take_is_refused() {
        assert!(with(&"s".repeat(SOCKET_BYTES)).is_ok());
        let error = with(&"s".repeat(SOCKET_BYTES + 1)).unwrap_err().to_string();
        assert!(error.contains("107"), "{error}");
    }

    #[test]
    fn counters_have_their_own_places() {
        let recording = with("s").unwrap();
        recording.side().count_bandwidth(BandwidthCount::RoundsEnded);
        recording.side().add_bandwidth(BandwidthCount::HeldNs, 5);
        let counts = recording.side().bandwidth_counts();
        assert_eq!(counts[BandwidthCount::RoundsEnded as usize], 1);
        assert_eq!(counts[BandwidthCount::HeldNs as usize], 5);
        assert_eq!(counts.iter().sum::<u64>(), 6);
    }
}

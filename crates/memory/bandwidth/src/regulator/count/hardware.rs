//! Events of the processor that move a cache line between a core's last own cache and the memory,
//! by its model, and whether they can be believed.

use super::super::Error;
use super::super::counted::Hardware;
use super::event::Event;
use std::hint::black_box;

/// Refills and write-backs.
pub(super) const MOST_EVENTS: usize = 2;
/// Number of bytes that are copied to try a counter: several times the last cache, within these
/// bounds.
const COPY_BYTES: std::ops::RangeInclusive<usize> = 64 << 20..=256 << 20;

impl Hardware {
    /// Checks that the events can be counted on this core, and that they count a copy correctly.
    ///
    /// # Errors
    /// [`Error::Count`], [`Error::Untrusted`], and [`Error::Realtime`] if the core is not ours.
    pub fn probe(&self, core: usize) -> Result<(), Error> {
        std::thread::scope(|scope| {
            let probe = || {
                realtime::thread::pin(&[core])?;
                self.open(core).map(drop)
            };
            scope.spawn(probe).join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Counters of the core that the calling thread is on.
    pub(super) fn open(&self, core: usize) -> Result<Vec<Event>, Error> {
        let failed = |reason| Error::Count { event: self.name.clone(), core, reason };
        let open = |&(kind, config)| Event::open(kind, config, core).map_err(failed);
        let events = self.events.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        self.validate(core, events)
    }

    fn validate(&self, core: usize, mut events: Vec<Event>) -> Result<Vec<Event>, Error> {
        let failed = |reason| Error::Count { event: self.name.clone(), core, reason };
        let bytes = (4 * last_cache_bytes()).clamp(*COPY_BYTES.start(), *COPY_BYTES.end());
        let source = vec![1_u8; bytes];
        let mut target = vec![2_u8; bytes];
        for event in &mut events {
            event.forget().and_then(|()| event.arm(i64::MAX as u64)).map_err(failed)?;
        }
        black_box(&mut target).copy_from_slice(black_box(&source));
        black_box(&mut target);
        let mut counted = 0;
        for event in &mut events {
            event.disarm().map_err(failed)?;
            counted += event.used().map_err(failed)?;
        }
        let copied_lines = bytes as u64 / self.line_bytes;
        match is_believable(counted, copied_lines) {
            true => Ok(events),
            false => {
                Err(Error::Untrusted { event: self.name.clone(), core, counted, copied_lines })
            }
        }
    }
}

/// A copy reads each line, reads or claims the line that it writes, and writes that back: one to
/// three times as many as are copied, with room for what else runs and for lines that a prefetcher
/// fetched uncounted.
fn is_believable(counted: u64, copied_lines: u64) -> bool {
    (copied_lines / 2..=copied_lines * 4).contains(&counted)
}

/// Bytes of the first core's largest cache; 0 where the kernel does not say.
fn last_cache_bytes() -> usize {
    let size = |index: usize| {
        let file = format!("/sys/devices/system/cpu/cpu0/cache/index{index}/size");
        let text = std::fs::read_to_string(file).ok()?;
        text.trim().strip_suffix('K')?.parse::<usize>().ok().map(|kib| kib << 10)
    };
    (0..8).filter_map(size).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counter_that_saw_next_to_nothing_or_far_too_much_is_not_believed() {
        for (counted, answer) in
            [(0, false), (499, false), (500, true), (2000, true), (3000, true), (4001, false)]
        {
            assert_eq!(is_believable(counted, 1000), answer, "{counted}");
        }
    }
}

//! Options of `keeptime run` for the bandwidth lock, which the program holds while the accelerator
//! works for it, and what is said about it afterwards.

use std::time::Duration;

use anyhow::Context;
use bandwidth::Hold;
use record::bandwidth::Bandwidth;
use trace::session;

/// Options of the bandwidth lock.
#[derive(clap::Args)]
pub(super) struct BandwidthOptions {
    /// Hold the memory-bandwidth lock while the accelerator works for the program, so that a
    /// regulator (keeptime regulate) keeps the best-effort cores to their budgets. Its socket is
    /// $KEEPTIME_BANDWIDTH, or where the regulator of the user or of the machine listens
    #[arg(long)]
    bandwidth: bool,
    /// Interval at which to ask about work that the program does not wait for, as in 1ms
    #[arg(long, value_name = "TIME", value_parser = parse_period, requires = "bandwidth",
        default_value = "1ms")]
    bandwidth_period: Duration,
}

fn parse_period(text: &str) -> Result<Duration, String> {
    let expected = "expected a time from 100us to 1s, as in 1ms";
    let time = terminal::time(text).map_err(|_| expected.to_owned())?;
    let fits = (Duration::from_micros(100)..=Duration::from_secs(1)).contains(&time);
    fits.then_some(time).ok_or_else(|| expected.into())
}

impl BandwidthOptions {
    /// Returns the way in which the program takes the lock, if it does. A regulator that would
    /// refuse it refuses here.
    pub(super) fn settings(&self) -> anyhow::Result<Option<Bandwidth>> {
        if !self.bandwidth {
            return Ok(None);
        }
        // The program may change its directory before it uses the accelerator.
        let socket = std::path::absolute(bandwidth::default_socket())?;
        Hold::attach(&socket)
            .with_context(|| format!("{}: the bandwidth lock cannot be held", socket.display()))?;
        let period_ns = self.bandwidth_period.as_nanos() as u64;
        Ok(Some(Bandwidth { socket, period_ns }))
    }
}

/// One line about a program that held the lock.
pub(super) fn summary(bandwidth: &session::bandwidth::Bandwidth, processes: usize) -> String {
    let b = bandwidth;
    let mut line = "bandwidth lock: ".to_owned();
    if processes == 0 {
        line += "nothing was held";
        return line;
    }
    line += &match (b.attached, b.acquisitions) {
        (0, _) if b.not_attached == 0 => "the program did not use the accelerator".to_owned(),
        (0, _) => "never held".to_owned(),
        (number, 0) => format!("never taken by {}", processes_in_words(number)),
        (number, times) => {
            let held = accel_server::short_time(b.held_ns);
            format!("taken {times} times and held for {held} by {}", processes_in_words(number))
        }
    };
    let also = [
        (b.not_attached, "found no regulator, so that nothing was held"),
        (b.outstanding, "ended with work outstanding"),
        (b.without_poller, "had no polling thread: lock held until a call saw the end"),
    ];
    for (number, what) in also.into_iter().filter(|(number, _)| *number > 0) {
        line += &format!("; {} {what}", processes_in_words(number));
    }
    let also = [
        (
            b.submissions_without_place,
            "submissions without a place for their stream: lock not held",
        ),
        (
            b.submissions_not_asked,
            "submissions whose end cannot be polled: lock given back at once",
        ),
        (b.failed_streams, "streams that ended with an error"),
        (b.impatient_calls, "calls passed through while their stream was polled"),
    ];
    for (number, what) in also.into_iter().filter(|(number, _)| *number > 0) {
        line += &format!("; {number} {what}");
    }
    line
}

fn processes_in_words(number: u64) -> String {
    if number == 1 { "1 process".into() } else { format!("{number} processes") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use session::bandwidth::Bandwidth as Counts;

    #[test]
    fn summary_says_what_was_held_and_what_was_not() {
        let none = Counts::default();
        let idle = "bandwidth lock: the program did not use the accelerator";
        assert_eq!(summary(&none, 1), idle);
        assert!(summary(&none, 0).ends_with("nothing was held"));
        let refused = Counts { not_attached: 2, ..none };
        let expected = "bandwidth lock: never held; 2 processes found no regulator, so that \
                        nothing was held";
        assert_eq!(summary(&refused, 2), expected);
        let held = Counts { attached: 1, acquisitions: 3, held_ns: 4_000_000, ..none };
        let expected = "bandwidth lock: taken 3 times and held for 4 ms by 1 process";
        assert_eq!(summary(&held, 1), expected);
        let counts = Counts { outstanding: 1, impatient_calls: 7, ..held };
        let line = summary(&counts, 1);
        assert!(line.contains("; 1 process ended with work outstanding; 7 calls"), "{line}");
    }

    #[test]
    fn periods_are_times() {
        assert_eq!(parse_period("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_period("100us"), Ok(Duration::from_micros(100)));
        for wrong in ["", "1", "99us", "2s", "often"] {
            assert!(parse_period(wrong).unwrap_err().contains("as in 1ms"), "{wrong}");
        }
    }
}

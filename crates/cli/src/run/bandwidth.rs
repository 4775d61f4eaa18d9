//! Options of `keeptime run` for the bandwidth lock: the program holds it while the accelerator
//! works for it.

use std::time::Duration;

use anyhow::Context;
use bandwidth::Hold;
use record::bandwidth::Bandwidth;

/// Options of the bandwidth lock.
#[derive(clap::Args)]
pub struct BandwidthOptions {
    /// Hold the memory-bandwidth lock while the accelerator works for the program, so that a
    /// regulator (keeptime regulate) keeps the best-effort cores to their budgets. Its socket is
    /// $KEEPTIME_BANDWIDTH, or where the regulator of the user or of the machine listens
    #[arg(long)]
    bandwidth: bool,
    /// How often to ask about work that the program does not wait for, as in 1ms
    #[arg(long, value_name = "TIME", value_parser = parse_period, requires = "bandwidth",
        default_value = "1ms")]
    bandwidth_period: Duration,
}

fn parse_period(text: &str) -> Result<Duration, String> {
    let expected = "expected a time from 100us to 1s, as in 1ms";
    let time = humantime::parse_duration(text).map_err(|_| expected.to_owned())?;
    let fits = (Duration::from_micros(100)..=Duration::from_secs(1)).contains(&time);
    fits.then_some(time).ok_or_else(|| expected.into())
}

impl BandwidthOptions {
    /// How the program takes the lock, if it does. A regulator that would refuse it refuses here.
    pub fn settings(&self) -> anyhow::Result<Option<Bandwidth>> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_times() {
        assert_eq!(parse_period("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_period("100us"), Ok(Duration::from_micros(100)));
        for wrong in ["", "1", "99us", "2s", "often"] {
            assert!(parse_period(wrong).unwrap_err().contains("as in 1ms"), "{wrong}");
        }
    }
}

//! Factor by which a stack's cores are slower than the machine's: a number, or the one with which
//! its base is as late as COLA's.

use crate::study::{Study, Unit};
use crate::work::{Jobs, side_by_side};
use crate::{Error, Experiment, Scenarios, Times, measure};
use driving::Policy;
use driving::stack::Stack;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Mean time of COLA's Apollo from a frame to its command, ms (section 5.2).
pub(crate) const PUBLISHED_MS: f64 = 73.73;

/// Distance from that mean, as a share of it, at which the search ends; and the largest one that is
/// accepted after all tries, if the machine is not the same from try to try.
const NEAR: f64 = 0.02;
const NEAR_ENOUGH: f64 = 0.1;

/// Normal traffic to find the factor with, from the least to the most of it.
const SCENARIOS: Scenarios = Scenarios::Range(250, 7999, 500);

/// First factor, and number of tries.
const FIRST: f64 = 15.0;
const TRIES: usize = 6;

/// Factor by which the simulated cores are slower than the machine's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Factor {
    /// Fixed factor, whatever the machine.
    Times(f64),
    /// Factor at which, on this machine, base of stack A answers normal traffic after
    /// [`PUBLISHED_MS`] in the mean.
    Published,
}

/// The word for [`Factor::Published`].
const PUBLISHED: &str = "published";

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Factor::Times(times) => times.fmt(f),
            Factor::Published => f.write_str(PUBLISHED),
        }
    }
}

impl FromStr for Factor {
    type Err = String;

    fn from_str(text: &str) -> Result<Factor, String> {
        if text == PUBLISHED {
            return Ok(Factor::Published);
        }
        let times = text.parse::<f64>().ok().filter(|times| (0.01..=1000.0).contains(times));
        times
            .map(Factor::Times)
            .ok_or_else(|| format!("expected {PUBLISHED}, or a number from 0.01 to 1000"))
    }
}

impl Serialize for Factor {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Factor::Times(times) => serializer.serialize_f64(*times),
            Factor::Published => serializer.serialize_str(PUBLISHED),
        }
    }
}

impl<'de> Deserialize<'de> for Factor {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Factor, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Word(String),
        }
        let text = match Written::deserialize(deserializer)? {
            Written::Number(times) => times.to_string(),
            Written::Word(word) => word,
        };
        let wrong =
            |expected| serde::de::Error::custom(format!("factor: found {text}, {expected}"));
        text.parse().map_err(wrong)
    }
}

/// Factor, and its effect as measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Slowness {
    /// The factor.
    pub factor: f64,
    /// Frame to command of base of stack A in the mean, ms.
    pub mean_ms: f64,
}

impl fmt::Display for Slowness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Slowness { factor, mean_ms } = self;
        write!(
            f,
            "{factor:.1} times slower than the machine's: base of stack A answers normal traffic after \
             {mean_ms:.1} ms in the mean, COLA's after {PUBLISHED_MS}"
        )
    }
}

/// Finds [`Factor::Published`] of this machine, driving as many at a time as the study will. `tell`
/// is called after each try. None after a signal ([`trial::signals`]).
///
/// # Errors
/// A drive failed, or no factor has that effect.
pub fn published(jobs: &Jobs, tell: &dyn Fn(Slowness)) -> Result<Option<Slowness>, Error> {
    let factor = Factor::Times(FIRST);
    let stacks = [Stack::A];
    let policies = Some(&[Policy::Base][..]);
    let study =
        Study::new(&[Experiment::Latency], Some(SCENARIOS), policies, &stacks, (factor, 1))?;
    let units = study.units().map_err(wrong)?;
    let bench = Bench { units, study, threads: jobs.count() };
    let off = |found: &Slowness| (found.mean_ms / PUBLISHED_MS - 1.0).abs();
    let (mut factor, mut tried) = (FIRST, Vec::new());
    for _ in 0..TRIES {
        let Some(mean_ms) = bench.mean_ms(factor)? else { return Ok(None) };
        let found = Slowness { factor, mean_ms };
        tell(found);
        if off(&found) <= NEAR {
            return Ok(Some(found));
        }
        tried.push(found);
        // Latency grows nearly with the factor, and faster only where frames wait for each other.
        factor = (factor * PUBLISHED_MS / mean_ms).clamp(0.01, 1000.0);
    }
    let nearest = tried.into_iter().min_by(|one, other| off(one).total_cmp(&off(other)));
    match nearest {
        Some(found) if off(&found) > NEAR_ENOUGH => Err(wrong(format!("{PUBLISHED}, {found}"))),
        nearest => Ok(nearest),
    }
}

fn wrong(found: String) -> Error {
    let expected = format!("a factor with a mean of {PUBLISHED_MS} ms, or a number");
    Error::Option { option: "--factor", found, expected }
}

struct Bench {
    study: Study,
    units: Vec<Unit>,
    threads: usize,
}

impl Bench {
    /// Frame to command in the mean at a factor, ms; none if it was interrupted.
    fn mean_ms(&self, factor: f64) -> Result<Option<f64>, Error> {
        let (next, all) = (AtomicUsize::new(0), Mutex::new(Times::default()));
        let run = |()| {
            while let Some(unit) = self.units.get(next.fetch_add(1, Ordering::Relaxed)) {
                for (policy, key) in unit.keys() {
                    let row = match measure::drive(&self.study, factor, unit, policy, key) {
                        Err(error) if error.is_stopped() => return Ok(()),
                        driven => driven?,
                    };
                    if let Some(frames) = row.times.get("frames") {
                        all.lock().unwrap_or_else(|poison| poison.into_inner()).merge(frames);
                    }
                }
            }
            Ok(())
        };
        side_by_side(&vec![(); self.threads], run)?;
        if measure::unless_stopped().is_break() {
            return Ok(None);
        }
        let all = all.into_inner().unwrap_or_else(|poison| poison.into_inner());
        all.mean_ms().map(Some).ok_or_else(|| wrong("no frame that led to a command".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factor_is_a_number_or_that_of_cola() {
        assert_eq!("published".parse(), Ok(Factor::Published));
        assert_eq!("15".parse(), Ok(Factor::Times(15.0)));
        for wrong in ["0", "-1", "NaN", "1001", "slow", ""] {
            let error = wrong.parse::<Factor>().unwrap_err();
            assert!(error.contains("expected published, or a number from 0.01 to 1000"), "{error}");
        }
        // As studies have always written it, and as they do now.
        for (text, factor) in [("15.0", Factor::Times(15.0)), ("\"published\"", Factor::Published)]
        {
            assert_eq!(serde_json::from_str::<Factor>(text).unwrap(), factor);
            assert_eq!(serde_json::to_string(&factor).unwrap(), text);
        }
        let error = serde_json::from_str::<Factor>("0").unwrap_err().to_string();
        assert!(error.contains("factor: found 0, expected published"), "{error}");
    }
}

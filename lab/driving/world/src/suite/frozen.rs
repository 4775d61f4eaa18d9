//! The corner cases as they were frozen: which draw each is, and how late a reaction may come.

use super::{Family, Set};
use crate::critical::Limit;
use crate::scenario::Scenario;
use fnv::FnvHasher;
use std::hash::Hasher;
use std::sync::LazyLock;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frozen {
    /// The corner case's number.
    pub index: usize,
    /// Its family.
    pub family: Family,
    /// Number of its draw.
    pub attempt: u32,
    /// Fingerprint of its parameters.
    pub fingerprint: u64,
    /// Its critical reaction time; none: not determined.
    pub limit: Option<Limit>,
}

/// A table is not of the families that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "case {index}: found a draw that differs from the table, expected the same: freeze the table \
     again"
)]
pub struct Stale {
    /// The first case that differs.
    pub index: usize,
}

static CORNER: LazyLock<Vec<Frozen>> = LazyLock::new(|| read(include_str!("corner.csv")));
static DEVELOP: LazyLock<Vec<Frozen>> = LazyLock::new(|| read(include_str!("develop.csv")));
static CONFIRM: LazyLock<Vec<Frozen>> = LazyLock::new(|| read(include_str!("confirm.csv")));

/// The first line of a table. A limit is `unavoidable`, `after`, `never`, `erratic`, or empty.
pub const HEAD: &str = "index,family,attempt,fingerprint,limit,critical_ms";

impl Set {
    /// Its table. `cargo run --release -p keeptime-driving --example freeze` writes it.
    pub fn frozen(self) -> &'static [Frozen] {
        match self {
            Set::Corner => &CORNER,
            Set::Develop => &DEVELOP,
            Set::Confirm => &CONFIRM,
        }
    }
}

/// The lines of a table; what is none is left out.
pub fn read(table: &str) -> Vec<Frozen> {
    table.lines().skip(1).filter_map(Frozen::read).collect()
}

impl Frozen {
    /// The longest reaction that ends well, s; none if there is no such time.
    pub fn critical_s(&self) -> Option<f64> {
        match self.limit {
            Some(Limit::After(seconds)) => Some(seconds),
            _ => None,
        }
    }

    /// The draw of a case, as it is to stand in the table.
    pub fn new(set: Set, index: usize, attempt: u32, limit: Option<Limit>) -> Frozen {
        let fingerprint = fingerprint(&set.draw(index, attempt));
        Frozen { index, family: set.family(index), attempt, fingerprint, limit }
    }

    /// The scenario.
    ///
    /// # Errors
    /// The draw has other parameters than when the table was frozen.
    pub fn scenario(&self, set: Set) -> Result<Scenario, Stale> {
        let scenario = set.draw(self.index, self.attempt);
        let same = fingerprint(&scenario) == self.fingerprint;
        if same { Ok(scenario) } else { Err(Stale { index: self.index }) }
    }

    fn read(line: &str) -> Option<Frozen> {
        let fields: Vec<&str> = line.split(',').collect();
        let [index, name, attempt, fingerprint, limit, ms] = fields[..] else { return None };
        let family = Family::ALL.into_iter().find(|family| family.name() == name)?;
        let limit = match (limit, ms) {
            ("", "") => None,
            ("unavoidable", "") => Some(Limit::Unavoidable),
            ("never", "") => Some(Limit::Never),
            ("erratic", "") => Some(Limit::Erratic),
            ("after", ms) => Some(Limit::After(ms.parse::<f64>().ok()? / 1000.0)),
            _ => return None,
        };
        Some(Frozen {
            index: index.parse().ok()?,
            family,
            attempt: attempt.parse().ok()?,
            fingerprint: u64::from_str_radix(fingerprint, 16).ok()?,
            limit,
        })
    }

    /// Line of the table.
    pub fn line(&self) -> String {
        let (limit, ms) = match self.limit {
            None => ("", String::new()),
            Some(Limit::Unavoidable) => ("unavoidable", String::new()),
            Some(Limit::After(seconds)) => ("after", format!("{:.0}", 1000.0 * seconds)),
            Some(Limit::Never) => ("never", String::new()),
            Some(Limit::Erratic) => ("erratic", String::new()),
        };
        let Frozen { index, attempt, fingerprint, .. } = self;
        format!("{index},{},{attempt},{fingerprint:016x},{limit},{ms}", self.family.name())
    }
}

/// A number that changes with every parameter of a scenario (FNV-1a of all of them as text).
pub fn fingerprint(scenario: &Scenario) -> u64 {
    let mut hasher = FnvHasher::default();
    hasher.write(format!("{scenario:?}").as_bytes());
    hasher.finish()
}

//! The corner cases as they were frozen: what each is, and how late a reaction may come.

use super::Family;
use crate::critical::Limit;
use crate::scenario::Scenario;

/// A line of the table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Frozen {
    /// The corner case's number.
    pub index: usize,
    /// What happens.
    pub family: Family,
    /// Of its parameters.
    pub fingerprint: u64,
    /// Its critical reaction time.
    pub limit: Limit,
}

const TABLE: &str = include_str!("corner.csv");

/// The table: `index,family,fingerprint,limit,critical_ms`, where the limit is `unavoidable`,
/// `after` or `never`. `cargo run --release -p world --example freeze` writes it.
pub fn frozen() -> Vec<Frozen> {
    TABLE.lines().skip(1).filter_map(read).collect()
}

fn read(line: &str) -> Option<Frozen> {
    let mut fields = line.split(',');
    let index = fields.next()?.parse().ok()?;
    let name = fields.next()?;
    let family = Family::ALL.into_iter().find(|family| family.name() == name)?;
    let fingerprint = u64::from_str_radix(fields.next()?, 16).ok()?;
    let limit = match (fields.next()?, fields.next()?) {
        ("unavoidable", "") => Limit::Unavoidable,
        ("never", "") => Limit::Never,
        ("after", ms) => Limit::After(ms.parse::<f64>().ok()? / 1000.0),
        _ => return None,
    };
    Some(Frozen { index, family, fingerprint, limit })
}

impl Frozen {
    /// As in the table.
    pub fn line(&self) -> String {
        let (limit, ms) = match self.limit {
            Limit::Unavoidable => ("unavoidable", String::new()),
            Limit::After(seconds) => ("after", format!("{:.0}", 1000.0 * seconds)),
            Limit::Never => ("never", String::new()),
        };
        let (family, fingerprint) = (self.family.name(), self.fingerprint);
        format!("{},{family},{fingerprint:016x},{limit},{ms}", self.index)
    }
}

/// A number that changes with every parameter of a scenario (FNV-1a of all of them as text).
pub fn fingerprint(scenario: &Scenario) -> u64 {
    let text = format!("{scenario:?}");
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

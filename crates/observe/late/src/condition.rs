//! Conditions on the durations of calls, such as `cuLaunchKernel.p99 > 2ms`, for a pipeline that
//! fails when one holds.

use crate::function::Group;
use crate::histogram::Histogram;
use crate::result::Survey;
use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// A condition: `CALLS.QUANTITY OPERATOR VALUE`.
///
/// `CALLS` is a function of the driver without its version, or `launch`, `copy`, `sync` or `other` for
/// all calls of a group; `QUANTITY` is `p50`, `p90`, `p99`, `p99.9`, `max`, `mean` or `count`; the
/// value is a duration with its unit, or a plain number for `count`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    text: String,
    calls: Calls,
    quantity: Quantity,
    operator: Operator,
    /// Nanoseconds, or a number of calls.
    limit: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Calls {
    Function(String),
    Group(Group),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    /// A quantile, in thousandths.
    Quantile(u64),
    Max,
    Mean,
    Count,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Above,
    AtLeast,
    Below,
    AtMost,
}

/// Groups by the names of `keeptime report --call`.
const GROUPS: [(&str, Group); 4] = [
    ("launch", Group::Launch),
    ("copy", Group::Copy),
    ("sync", Group::Sync),
    ("other", Group::Other),
];
const QUANTITIES: [(&str, Quantity); 7] = [
    ("p50", Quantity::Quantile(500)),
    ("p90", Quantity::Quantile(900)),
    ("p99", Quantity::Quantile(990)),
    ("p99.9", Quantity::Quantile(999)),
    ("max", Quantity::Max),
    ("mean", Quantity::Mean),
    ("count", Quantity::Count),
];
/// Longer ones first: `>` begins `>=`.
const OPERATORS: [(&str, Operator); 4] = [
    (">=", Operator::AtLeast),
    ("<=", Operator::AtMost),
    (">", Operator::Above),
    ("<", Operator::Below),
];

/// A condition with the value that was found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Judgement {
    /// The condition as it was given.
    pub condition: String,
    /// Value that was found: nanoseconds, or a number of calls for `count`.
    pub found: u64,
    /// True if `found` is a duration.
    pub is_duration: bool,
    /// Number of calls that it is the value of.
    pub calls: u64,
    /// True if the condition holds.
    pub holds: bool,
}

/// Reason for which a condition cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooFew {
    condition: String,
    calls: u64,
    needed: u64,
}

impl Condition {
    /// Parses a condition. `duration_ns` reads a duration with its unit; `is_function` knows the names
    /// of functions.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn parse(
        text: &str,
        is_function: impl Fn(&str) -> bool,
        duration_ns: impl Fn(&str) -> Result<u64, String>,
    ) -> Result<Condition, String> {
        let operator = OPERATORS.iter().filter_map(|(sign, of)| Some((text.find(sign)?, sign, of)));
        let (at, sign, operator) =
            operator.min_by_key(|(at, ..)| *at).ok_or("expected >, >=, < or <= in it")?;
        let (left, value) = (text[..at].trim(), text[at + sign.len()..].trim());
        let (calls, quantity) =
            left.split_once('.').ok_or("expected CALLS.QUANTITY, as in cuLaunchKernel.p99")?;
        let group = GROUPS.iter().find(|(name, _)| *name == calls);
        let calls = match group {
            Some((_, group)) => Calls::Group(*group),
            None if is_function(calls) => Calls::Function(calls.to_owned()),
            None => {
                let expected = "launch, copy, sync, other, or a function of the driver";
                return Err(format!("found \"{calls}\", expected {expected}"));
            }
        };
        let known = QUANTITIES.iter().find(|(name, _)| *name == quantity);
        let (_, quantity) = known.ok_or_else(|| {
            format!("found \"{quantity}\", expected p50, p90, p99, p99.9, max, mean or count")
        })?;
        let limit = match quantity {
            Quantity::Count => u64::from_str(value)
                .map_err(|_| format!("found \"{value}\", expected a number of calls"))?,
            _ => duration_ns(value)?,
        };
        let (quantity, operator) = (*quantity, *operator);
        Ok(Condition { text: text.trim().to_owned(), calls, quantity, operator, limit })
    }

    /// Looks whether it holds.
    ///
    /// # Errors
    /// If there are too few calls for the quantity: none, or less than 100 for `p99`.
    pub fn judge(&self, survey: &Survey) -> Result<Judgement, TooFew> {
        let mut durations = Histogram::default();
        for (kind, of_kind) in survey.inner.durations.iter().enumerate() {
            let base = survey.inner.functions.of(kind as u32).0;
            let is_asked = match &self.calls {
                Calls::Function(name) => base.name == *name,
                Calls::Group(group) => base.group == *group,
            };
            if is_asked {
                durations.merge(of_kind);
            }
        }
        let (calls, needed) = (durations.count(), self.quantity.needed());
        if calls < needed {
            return Err(TooFew { condition: self.text.clone(), calls, needed });
        }
        let ns = |ticks| survey.inner.clock.duration_ns(ticks);
        let found = match self.quantity {
            Quantity::Quantile(thousandths) => ns(durations.quantile(thousandths as f64 / 1000.0)),
            Quantity::Max => ns(durations.greatest()),
            Quantity::Mean => ns(durations.mean()),
            Quantity::Count => calls,
        };
        let holds = match self.operator {
            Operator::Above => found > self.limit,
            Operator::AtLeast => found >= self.limit,
            Operator::Below => found < self.limit,
            Operator::AtMost => found <= self.limit,
        };
        let is_duration = self.quantity != Quantity::Count;
        Ok(Judgement { condition: self.text.clone(), found, is_duration, calls, holds })
    }
}

impl Quantity {
    /// Least number of calls of which it says something: one beyond a quantile.
    fn needed(self) -> u64 {
        match self {
            Quantity::Quantile(thousandths) => 1000 / (1000 - thousandths),
            Quantity::Max | Quantity::Mean => 1,
            Quantity::Count => 0,
        }
    }
}

impl fmt::Display for TooFew {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TooFew { condition, calls, needed } = self;
        write!(out, "{condition}: found {calls} such calls, expected at least {needed}")
    }
}

impl std::error::Error for TooFew {}

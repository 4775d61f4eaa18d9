//! Choice of scenarios of a suite: the first ones, a range, or a band of critical reaction
//! times.

use crate::{Error, Suite};
use std::str::FromStr;

/// Choice of scenarios of a suite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scenarios {
    /// The first ones, by number.
    First(usize),
    /// Range from one number to another, in steps.
    Range(usize, usize, usize),
    /// Corner cases whose critical reaction time is not less than the first, ms, and not more than
    /// the second.
    Band(f64, f64),
}

impl FromStr for Scenarios {
    type Err = String;

    fn from_str(text: &str) -> Result<Scenarios, String> {
        let wrong = || {
            "expected a number as in 40, a range as in 0-99 or 0-999/10, or a band of critical \
             reaction times in ms as in band:150-300"
                .to_owned()
        };
        if let Some(band) = text.strip_prefix("band:") {
            let ends = band.split_once('-').and_then(|(low, high)| {
                Some((low.parse::<f64>().ok()?, high.parse::<f64>().ok()?))
            });
            let ends = ends.filter(|(low, high)| 0.0 <= *low && low <= high && high.is_finite());
            return ends.map(|(low, high)| Scenarios::Band(low, high)).ok_or_else(wrong);
        }
        let (ends, step) = text.split_once('/').unwrap_or((text, "1"));
        let number = |text: &str| text.parse::<usize>().map_err(|_| wrong());
        match ends.split_once('-') {
            None if ends == text => Some(Scenarios::First(number(ends)?)),
            None => None,
            Some((first, last)) => {
                Some(Scenarios::Range(number(first)?, number(last)?, number(step)?))
            }
        }
        .filter(|it| match *it {
            Scenarios::First(count) => count > 0,
            Scenarios::Range(first, last, step) => first <= last && step > 0,
            Scenarios::Band(..) => true,
        })
        .ok_or_else(wrong)
    }
}

impl Scenarios {
    /// Their numbers in a suite.
    ///
    /// # Errors
    /// The suite has no such scenarios.
    pub fn of(self, suite: Suite) -> Result<Vec<usize>, Error> {
        let size = suite.size();
        let wrong = |found: String, expected: String| Error::Option {
            option: "--scenarios",
            found,
            expected,
        };
        match self {
            Scenarios::First(count) if count > size => {
                Err(wrong(count.to_string(), format!("at most {size} ({})", suite.name())))
            }
            Scenarios::First(count) => Ok((0..count).collect()),
            Scenarios::Range(_, last, _) if last >= size => {
                let expected = format!("numbers from 0 to {} ({})", size - 1, suite.name());
                Err(wrong(last.to_string(), expected))
            }
            Scenarios::Range(first, last, step) => Ok((first..=last).step_by(step).collect()),
            Scenarios::Band(low, high) => {
                let Some(set) = suite.set() else {
                    let of = suite.name();
                    let expected = format!(
                        "a number or a range: only corner cases have a critical time, {of} ones \
                         have none"
                    );
                    return Err(wrong("a band".to_owned(), expected));
                };
                let inside = set.frozen().iter().filter(|case| {
                    case.critical_s()
                        .is_some_and(|critical| (low..=high).contains(&(critical * 1e3)))
                });
                let found: Vec<usize> = inside.map(|case| case.index).collect();
                if found.is_empty() {
                    let expected = "a band with at least one corner case".to_owned();
                    return Err(wrong(format!("band:{low}-{high}"), expected));
                }
                Ok(found)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_a_count_a_range_or_a_band() {
        let chosen = |text: &str, suite| text.parse::<Scenarios>().unwrap().of(suite).unwrap();
        assert_eq!(chosen("3", Suite::Normal), [0, 1, 2]);
        assert_eq!(chosen("4-6", Suite::Corner), [4, 5, 6]);
        assert_eq!(chosen("0-9/4", Suite::Commute), [0, 4, 8]);
        let band = chosen("band:150-300", Suite::Corner);
        for index in 0..Suite::Corner.size() {
            let critical = Suite::Corner.critical_s(index);
            let inside = critical.is_some_and(|critical| (0.15..=0.3).contains(&critical));
            assert_eq!(band.contains(&index), inside, "{index}: {critical:?}");
        }
        assert!(band.len() > 5, "{band:?}");
    }

    #[test]
    fn what_no_suite_has_is_named() {
        for wrong in ["", "0", "x", "3-1", "0-9/0", "5/2", "band:3", "band:5-1", "band:0-inf"] {
            assert!(wrong.parse::<Scenarios>().unwrap_err().contains("band:150-300"), "{wrong}");
        }
        let refusal = |text: &str, suite| {
            text.parse::<Scenarios>().unwrap().of(suite).unwrap_err().to_string()
        };
        assert!(refusal("330", Suite::Corner).contains("found 330, expected at most 329 (corner)"));
        assert!(
            refusal("0-80", Suite::Commute).contains("found 80, expected numbers from 0 to 79")
        );
        assert!(refusal("band:1-2", Suite::Corner).contains("at least one corner case"));
        assert!(refusal("band:150-300", Suite::Normal).contains("only corner cases"));
    }
}

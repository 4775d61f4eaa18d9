//! Choice of a scenario: a file, or one of a suite.

use std::path::PathBuf;
use std::str::FromStr;

use drive_study::commute;
use driving::drive::Until;
use world::suite::{self, NORMAL, Set};
use world::{Limit, Scenario};

/// Name of a scenario on the command line.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Which {
    /// A file of one's own.
    File(PathBuf),
    /// Scenario of normal traffic.
    Normal(usize),
    /// A corner case, or another of the same families.
    Case(Set, usize),
    /// A commute of the study.
    Commute(usize),
}

/// A scenario, with what is known of it.
pub(super) struct Named {
    pub scenario: Scenario,
    /// Description in one sentence.
    pub about: String,
    /// The longest reaction that avoids a crash, s.
    pub critical_s: Option<f64>,
    /// Condition at which the drive ends.
    pub until: Until,
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Which, String> {
        let number = |digits: &str, count: usize| {
            let number = digits.parse().ok().filter(|number| *number < count);
            number.ok_or_else(|| format!("expected a number from 0 to {}", count - 1))
        };
        let case =
            |set: Set, digits| number(digits, set.size()).map(|index| Which::Case(set, index));
        match text.split_once(':') {
            Some(("normal", digits)) => number(digits, NORMAL).map(Which::Normal),
            Some(("corner", digits)) => case(Set::Corner, digits),
            Some(("develop", digits)) => case(Set::Develop, digits),
            Some(("confirm", digits)) => case(Set::Confirm, digits),
            Some(("commute", digits)) => number(digits, commute::COUNT).map(Which::Commute),
            _ => Ok(Which::File(text.into())),
        }
    }
}

impl Which {
    /// The scenario.
    ///
    /// # Errors
    /// The file cannot be read or holds none.
    pub(super) fn load(&self) -> Result<Named, world::scenario::Error> {
        Ok(match self {
            Which::File(path) => Named {
                scenario: Scenario::read(path)?,
                about: format!("Read from {}.", path.display()),
                critical_s: None,
                until: Until::End,
            },
            Which::Normal(index) => Named {
                scenario: suite::normal(*index),
                about: "Normal traffic, without a planned hazard.".to_owned(),
                critical_s: None,
                until: Until::End,
            },
            Which::Commute(index) => Named {
                scenario: commute::commute(*index),
                about: format!("A commute of {} m.", commute::DISTANCE_M),
                critical_s: None,
                until: Until::Distance(commute::DISTANCE_M),
            },
            Which::Case(set, index) => of_set(*set, *index),
        })
    }
}

fn of_set(set: Set, index: usize) -> Named {
    let what = match set {
        Set::Corner => "Corner case",
        Set::Develop => "Development case, of the family of corner case",
        Set::Confirm => "Confirmation case, of the family of corner case",
    };
    let limit = set.frozen().get(index).and_then(|case| case.limit);
    let (critical_s, limit) = match limit {
        Some(Limit::After(seconds)) => {
            (Some(seconds), format!("it requires a reaction within {:.0} ms", seconds * 1e3))
        }
        Some(Limit::Unavoidable) => (None, "no reaction avoids the crash".to_owned()),
        Some(Limit::Never) => {
            (None, "it ends without a crash, however late the reaction".to_owned())
        }
        Some(Limit::Erratic) => {
            (None, "some late reactions end in a crash, and some later ones do not".to_owned())
        }
        None => (None, "its critical reaction time is not known".to_owned()),
    };
    let family = set.family(index).name();
    let about = format!("{what} {index}, {family}: {limit}.");
    Named { scenario: set.case(index), about, critical_s, until: Until::End }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_told_from_files_and_have_an_end() {
        assert_eq!("corner:328".parse(), Ok(Which::Case(Set::Corner, 328)));
        assert_eq!("develop:328".parse(), Ok(Which::Case(Set::Develop, 328)));
        assert_eq!("confirm:329".parse(), Ok(Which::Case(Set::Confirm, 329)));
        assert_eq!("normal:7999".parse(), Ok(Which::Normal(7999)));
        assert_eq!("commute:79".parse(), Ok(Which::Commute(79)));
        assert_eq!("a/b.yaml".parse(), Ok(Which::File("a/b.yaml".into())));
        let wrong = "corner:329".parse::<Which>().unwrap_err();
        assert_eq!(wrong, "expected a number from 0 to 328");
        assert!("normal:x".parse::<Which>().is_err());
    }
}

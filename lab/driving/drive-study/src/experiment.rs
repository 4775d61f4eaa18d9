//! Suites of scenarios, and the experiments that drive them.

use crate::{Clock, Scenarios, commute};
use driving::Policy;
use driving::drive::Until;
use serde::{Deserialize, Serialize};
use world::Scenario;
use world::suite::{self, CORNER, NORMAL, Set};

/// Suite of scenarios.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Suite {
    /// Corner cases.
    Corner,
    /// Confirmation cases for the result of the corner cases.
    Confirm,
    /// Normal traffic.
    Normal,
    /// Commutes.
    Commute,
    /// The corner cases again, each to some time after its hazard could be seen, on both clocks.
    Clocks,
    /// Normal traffic again, whose inputs modules compute by themselves.
    Modules,
}

impl Suite {
    /// Name in files and tables.
    pub fn name(self) -> &'static str {
        match self {
            Suite::Corner => "corner",
            Suite::Confirm => "confirm",
            Suite::Normal => "normal",
            Suite::Commute => "commute",
            Suite::Clocks => "clocks",
            Suite::Modules => "modules",
        }
    }

    /// Returns the number of scenarios.
    pub fn size(self) -> usize {
        match self {
            Suite::Corner | Suite::Clocks => Set::Corner.size(),
            Suite::Confirm => Set::Confirm.size(),
            Suite::Normal | Suite::Modules => NORMAL,
            Suite::Commute => commute::COUNT,
        }
    }

    /// The scenario with this number.
    pub fn scenario(self, index: usize) -> Scenario {
        match self {
            Suite::Corner | Suite::Clocks => Set::Corner.case(index),
            Suite::Confirm => Set::Confirm.case(index),
            Suite::Normal | Suite::Modules => suite::normal(index),
            Suite::Commute => commute::commute(index),
        }
    }

    /// The set of corner cases that its scenarios are.
    pub(crate) fn set(self) -> Option<Set> {
        match self {
            Suite::Corner | Suite::Clocks => Some(Set::Corner),
            Suite::Confirm => Some(Set::Confirm),
            Suite::Normal | Suite::Commute | Suite::Modules => None,
        }
    }

    /// Returns the condition that ends their drives.
    pub(crate) fn until(self) -> Until {
        match self {
            Suite::Corner | Suite::Confirm | Suite::Normal | Suite::Modules => Until::End,
            Suite::Commute => Until::Distance(commute::DISTANCE_M),
            Suite::Clocks => Until::Seen(AFTER),
        }
    }

    /// Returns the clocks of their drives.
    pub(crate) fn clocks(self) -> &'static [Clock] {
        match self {
            Suite::Clocks => &[Clock::Virtual, Clock::Wall, Clock::Again],
            _ => &[Clock::Virtual],
        }
    }

    /// Returns true if nothing in it differs between the stacks.
    pub(crate) fn of_one_stack(self) -> bool {
        self == Suite::Modules
    }

    /// Returns the longest time that a reaction may take, s, as [`driving::critical`] says; none if
    /// there is no such time.
    pub fn critical_s(self, index: usize) -> Option<f64> {
        self.set()?.frozen().get(index)?.critical_s()
    }
}

/// Time from when a hazard could be seen to the end of a drive on both clocks, s.
const AFTER: f64 = 2.0;

/// Experiment of a study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Experiment {
    /// Crashes in corner cases (figure 14).
    Corner,
    /// The same in more cases that latency can decide, which were frozen later.
    Confirm,
    /// Collisions and safe distances in normal traffic (figures 13h and 13i).
    Normal,
    /// Latencies, and what each mechanism does for them (figures 13a to c, e and g).
    Latency,
    /// Frame deadlines of 75 to 150 ms, and none (figure 13d).
    Deadlines,
    /// Commuting time (figure 13j).
    Commute,
    /// Table 1, for which nothing is driven by a stack.
    Table1,
    /// Reaction times on the wall clock and on the virtual one.
    Clocks,
    /// Causes of latency in base: modules, traffic, waiting, use of the cores (figures 4, 5, 8 and
    /// 11b).
    Characterise,
    /// Modules by themselves: by objects, lookahead and horizon, and beside others that take the
    /// last-level cache (figures 9, 11a and 11e).
    Modules,
}

impl Experiment {
    /// All of them.
    pub const ALL: [Experiment; 10] = [
        Experiment::Corner,
        Experiment::Confirm,
        Experiment::Normal,
        Experiment::Latency,
        Experiment::Deadlines,
        Experiment::Commute,
        Experiment::Table1,
        Experiment::Clocks,
        Experiment::Characterise,
        Experiment::Modules,
    ];

    /// Name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Experiment::Corner => "corner",
            Experiment::Confirm => "confirm",
            Experiment::Normal => "normal",
            Experiment::Latency => "latency",
            Experiment::Deadlines => "deadlines",
            Experiment::Commute => "commute",
            Experiment::Table1 => "table1",
            Experiment::Clocks => "clocks",
            Experiment::Characterise => "characterise",
            Experiment::Modules => "modules",
        }
    }

    /// Returns the suite of its scenarios; none if it drives none.
    pub fn suite(self) -> Option<Suite> {
        match self {
            Experiment::Corner => Some(Suite::Corner),
            Experiment::Confirm => Some(Suite::Confirm),
            Experiment::Normal
            | Experiment::Latency
            | Experiment::Deadlines
            | Experiment::Characterise => Some(Suite::Normal),
            Experiment::Modules => Some(Suite::Modules),
            Experiment::Commute => Some(Suite::Commute),
            Experiment::Table1 => None,
            Experiment::Clocks => Some(Suite::Clocks),
        }
    }

    /// Returns true if nothing else may be driven in the same study, nor at the same time.
    pub fn is_alone(self) -> bool {
        matches!(self, Experiment::Clocks | Experiment::Modules)
    }

    /// Returns true if its scenarios may be driven again and again: costs differ from drive to
    /// drive, and so may the results.
    pub(crate) fn is_repeatable(self) -> bool {
        use Experiment::{Clocks, Commute, Confirm, Corner};
        matches!(self, Corner | Confirm | Commute | Clocks)
    }

    /// The scenarios that it drives if nothing else is asked for.
    pub(crate) fn scenarios(self) -> Scenarios {
        match self {
            Experiment::Corner | Experiment::Table1 => Scenarios::First(CORNER),
            // Those of which no draw was in the band have no time.
            Experiment::Confirm => Scenarios::Band(150.0, 300.0),
            Experiment::Normal => Scenarios::First(NORMAL),
            // Spread over the suite.
            Experiment::Latency | Experiment::Characterise => Scenarios::Range(0, NORMAL - 1, 100),
            Experiment::Deadlines => Scenarios::Range(0, NORMAL - 1, 200),
            Experiment::Modules => Scenarios::Range(0, NORMAL - 1, 400),
            // The families come in turns of 11. In some no reaction is necessary: fifty need one.
            Experiment::Clocks => Scenarios::Range(0, CORNER - 1, 5),
            Experiment::Commute => Scenarios::First(commute::COUNT),
        }
    }

    /// The policies that it drives if nothing else is asked for.
    pub(crate) fn policies(self) -> Vec<Policy> {
        use Policy::{All, Base, Cola, Fast, Oracle, Proactive, Stealing, Within};
        match self {
            Experiment::Corner => Policy::NAMED.map(|(policy, _)| policy).to_vec(),
            Experiment::Confirm => {
                [Base, Cola, All].into_iter().chain(Policy::RIVALS).chain([Oracle]).collect()
            }
            Experiment::Normal | Experiment::Clocks => vec![Base, All],
            Experiment::Latency => vec![Base, Fast, Proactive, Stealing, All],
            Experiment::Deadlines => {
                let others = [75, 100, 150].map(|ms| Within(Some(ms)));
                others.into_iter().chain([All, Within(None)]).collect()
            }
            Experiment::Commute => {
                [Base, All].into_iter().chain(Policy::RIVALS).chain([Oracle]).collect()
            }
            Experiment::Characterise => vec![Base],
            Experiment::Modules => vec![Oracle],
            Experiment::Table1 => Vec::new(),
        }
    }

    /// Returns true if it keeps its own policies, whatever is asked for.
    pub(crate) fn keeps_policies(self) -> bool {
        matches!(self, Experiment::Characterise | Experiment::Modules | Experiment::Table1)
    }
}

impl std::str::FromStr for Experiment {
    type Err = String;

    fn from_str(text: &str) -> Result<Experiment, String> {
        let found = Experiment::ALL.into_iter().find(|experiment| experiment.name() == text);
        let names = Experiment::ALL.map(Experiment::name).join(", ");
        found.ok_or_else(|| format!("expected {names}"))
    }
}

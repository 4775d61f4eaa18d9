//! Methods that judge a set: a test, and priorities.
//!
//! A method has a name such as `tight` or `sound+dm`: what judges, and after the plus sign how
//! priorities are assigned before.

use std::fmt;
use std::str::FromStr;

use analysis::Variant;
use report::study::SIMULATION;

/// Test that judges, and its priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method {
    /// Test that judges.
    pub test: Test,
    /// Assignment of priorities.
    pub assignment: Assignment,
}

/// Test that judges a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    /// A set is schedulable where the analysis gives every chain a guarantee.
    Bound(Variant),
    /// A set is schedulable where no simulated job is late.
    Simulation,
}

/// Assignment of priorities, buckets and order of executors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Assignment {
    /// Priorities of the set.
    Given,
    /// Deadline-monotonic ones.
    DeadlineMonotonic,
    /// Any that `analysis::assign` finds without local search: deadline-monotonic ones with
    /// several cuts into buckets, those of the set, Audsley's.
    Search,
}

const TESTS: [(&str, Test); 4] = [
    ("published", Test::Bound(Variant::Published)),
    ("sound", Test::Bound(Variant::Sound)),
    ("tight", Test::Bound(Variant::Tight)),
    (SIMULATION, Test::Simulation),
];

const ASSIGNMENTS: [(&str, Assignment); 3] = [
    ("", Assignment::Given),
    ("+dm", Assignment::DeadlineMonotonic),
    ("+search", Assignment::Search),
];

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let test = TESTS.iter().find(|(_, test)| *test == self.test);
        let assignment = ASSIGNMENTS.iter().find(|(_, assignment)| *assignment == self.assignment);
        for name in [test.map(|(name, _)| name), assignment.map(|(name, _)| name)] {
            f.write_str(name.copied().unwrap_or_default())?;
        }
        Ok(())
    }
}

impl FromStr for Method {
    type Err = String;

    /// Reads what may be asked for: simulation has an option of its own.
    fn from_str(text: &str) -> Result<Method, String> {
        let (test, assignment) = text.split_at(text.find('+').unwrap_or(text.len()));
        let test = TESTS.iter().find(|(name, judge)| *name == test && *judge != Test::Simulation);
        let assignment = ASSIGNMENTS.iter().find(|(name, _)| *name == assignment);
        match (test, assignment) {
            (Some(&(_, test)), Some(&(_, assignment))) => Ok(Method { test, assignment }),
            _ => Err("expected published, sound or tight, perhaps with +dm or +search".into()),
        }
    }
}

/// The methods with the simulations of the same sets: one for each assignment that is the same
/// for every analysis.
pub(super) fn with_simulation(methods: &[Method]) -> Vec<Method> {
    let mut all = methods.to_vec();
    for assignment in [Assignment::Given, Assignment::DeadlineMonotonic] {
        if methods.iter().any(|method| method.assignment == assignment) {
            all.push(Method { test: Test::Simulation, assignment });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["published", "sound", "tight", "tight+dm", "sound+search"] {
            assert_eq!(name.parse::<Method>().unwrap().to_string(), name);
        }
        for wrong in ["", "+dm", "loose", "tight+", "tight+opa", "simulation", "tight+dm+dm"] {
            assert!(wrong.parse::<Method>().unwrap_err().contains("+search"), "{wrong}");
        }
    }

    #[test]
    fn simulation_follows_the_priorities_that_are_judged() {
        let simulated = |names: &[&str]| -> Vec<String> {
            let methods: Vec<Method> = names.iter().map(|name| name.parse().unwrap()).collect();
            with_simulation(&methods)[methods.len()..].iter().map(Method::to_string).collect()
        };
        assert_eq!(simulated(&["tight", "sound"]), ["simulation"]);
        assert_eq!(simulated(&["tight", "tight+dm"]), ["simulation", "simulation+dm"]);
        assert_eq!(simulated(&["tight+search"]), Vec::<String>::new());
    }
}

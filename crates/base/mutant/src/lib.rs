//! Deliberate mistakes for models under loom, and the test that each of them is found.
//!
//! A model test that cannot fail proves nothing. So a crate with lock-free code lists mistakes by
//! [`mutants!`], asks at the place of each one `Mutant::NAME.is_on()`, which is the constant false
//! in ordinary builds, and its test of models ends with [`every_mutant_is_found!`].
#![forbid(unsafe_code)]

use std::process::Command;

/// Environment variable with the place of the mutant whose model a process runs.
const CHOICE: &str = "KEEPTIME_MUTANT";

/// Declares `enum Mutant`, a mistake for each name.
#[macro_export]
macro_rules! mutants {
    ($($(#[doc = $words:literal])+ $name:ident,)+) => {
        /// A mistake that loom must find.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Mutant {
            $($(#[doc = $words])+ $name,)+
        }

        impl Mutant {
            /// Returns true if this mistake is on.
            #[cfg(not(loom))]
            pub(crate) const fn is_on(self) -> bool {
                false
            }

            /// Returns true if this mistake is on.
            #[cfg(loom)]
            pub(crate) fn is_on(self) -> bool {
                CURRENT.get() == Some(self)
            }

            /// Runs a model with this mistake on. Loom's threads all run on the calling thread.
            #[cfg(loom)]
            pub fn with(self, model: impl FnOnce()) {
                CURRENT.set(Some(self));
                model();
                CURRENT.set(None);
            }
        }

        #[cfg(loom)]
        std::thread_local! {
            static CURRENT: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
        }
    };
}

/// The test that the model of each mutant fails, for the reason that is given: `$mutants` is an array
/// of a mutant, its model and words of the failure. Variables of loom may follow, as in
/// `"LOOM_MAX_PREEMPTIONS" = "3"`.
#[macro_export]
macro_rules! every_mutant_is_found {
    ($mutants:expr $(, $variable:literal = $value:literal)*) => {
        /// The model of one mutant. It must fail, often by abort, so it runs in a process of its own.
        #[test]
        #[ignore = "run by every_mutant_is_found"]
        fn model_of_the_chosen_mutant() {
            let (mutant, model, _) = $mutants[$crate::chosen()];
            mutant.with(model);
        }

        #[test]
        fn every_mutant_is_found() {
            for (place, (mutant, _, complaint)) in $mutants.iter().enumerate() {
                let variables = [$(($variable, $value)),*];
                $crate::find(place, &format!("{mutant:?}"), complaint, &variables);
            }
        }
    };
}

/// The place of the mutant whose model this process is to run.
///
/// # Panics
/// If none was chosen.
pub fn chosen() -> usize {
    let place = std::env::var(CHOICE).ok().and_then(|place| place.parse().ok());
    place.expect("every_mutant_is_found chooses a mutant")
}

/// Runs `model_of_the_chosen_mutant` of this program for one mutant.
///
/// # Panics
/// If the model does not fail, or not with these words.
pub fn find(place: usize, name: &str, complaint: &str, variables: &[(&str, &str)]) {
    let program = std::env::current_exe().expect("this program has a path");
    let run = Command::new(program)
        .args(["--ignored", "--exact", "model_of_the_chosen_mutant", "--nocapture"])
        .env(CHOICE, place.to_string())
        .envs(variables.iter().copied())
        .output()
        .expect("this program starts");
    let said = String::from_utf8_lossy(&run.stderr);
    assert!(!run.status.success(), "{name} was not found");
    assert!(said.contains(complaint), "{name} failed for another reason:\n{said}");
}

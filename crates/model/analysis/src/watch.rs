//! A look at a computation that may take long: how far it is, and whether it is still wanted.

use std::fmt;
use std::sync::Arc;

/// How far a computation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Chains that the present pass of an analysis has bounded. An analysis makes passes until no
    /// bound changes, so that their number is not known before.
    Pass {
        /// The number of the pass, from 1.
        number: u32,
        /// Chains that are done.
        chains: usize,
        /// Chains of the system.
        of: usize,
    },
    /// Systems that a search has analysed.
    Analyses {
        /// Number of them.
        done: u64,
        /// Largest number that the search may come to.
        most: u64,
    },
}

/// Function that is told how far a computation is, many times a second, and that ends the
/// computation by returning false. The default lets it go on.
#[derive(Clone, Default)]
pub struct Watch(Option<Arc<dyn Fn(Step) -> bool + Send + Sync>>);

impl Watch {
    /// A watch that calls this function.
    pub fn new(look: impl Fn(Step) -> bool + Send + Sync + 'static) -> Watch {
        Watch(Some(Arc::new(look)))
    }

    /// Returns false if the rest of the computation is not wanted.
    pub(crate) fn goes_on(&self, step: Step) -> bool {
        self.0.as_ref().is_none_or(|look| look(step))
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Watch").field(&self.0.is_some()).finish()
    }
}

//! The bounds that were found.

/// The bounds of a graph.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GraphBounds {
    /// The key paths, in the order of the file.
    pub paths: Vec<PathBound>,
    /// The callbacks; those of a fusion may be one.
    pub callbacks: Vec<CallbackBound>,
}

/// The bound of a key path.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PathBound {
    /// Its name.
    pub id: String,
    /// Time from the oldest nominal release of its roots to the end of its sink's callback.
    pub bound_ns: Option<u64>,
    /// Reason why there is no bound.
    pub reason: Option<String>,
}

/// The bound of a callback.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallbackBound {
    /// Its name.
    pub name: String,
    /// Its executor.
    pub executor: String,
    /// Larger is more urgent.
    pub priority: u32,
    /// The period of the timers that it descends from.
    pub period_ns: u64,
    /// Time from the nominal release of these timers to its end.
    pub bound_ns: Option<u64>,
    /// Reason why there is no bound.
    pub reason: Option<String>,
}

impl GraphBounds {
    /// Returns true if each key path has a bound; where the file names none, each callback.
    pub fn complete(&self) -> bool {
        let callbacks = || self.callbacks.iter().all(|callback| callback.bound_ns.is_some());
        let paths = self.paths.iter().all(|path| path.bound_ns.is_some());
        if self.paths.is_empty() { callbacks() } else { paths }
    }
}

//! Deliberate mistakes for the model checker.
//!
//! A model test that cannot fail proves nothing, so `tests/loom.rs` switches each of these on
//! and demands that loom finds it. In normal builds the switch is a constant.

/// A mistake that loom must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The producer publishes the tail without releasing the slot.
    TailPublishedRelaxed,
    /// The consumer gives a slot back without having finished reading it.
    HeadPublishedRelaxed,
    /// The waiter announces itself by a plain store, over a completion that came in between.
    WaiterOverwritesState,
    /// The completer publishes without looking whether somebody sleeps.
    NoWake,
    /// Two parties may both find that they are the one to complete a request.
    RightTakenTwice,
    /// A thread takes a slot of its log by a load and a store, with room for a handler between.
    SlotTakenInTwoSteps,
    /// A slot of a log is marked as whole before it is.
    TagBeforeWords,
    /// A chunk of a log is given to a second thread while the first still writes to it.
    OpenChunkGivenAgain,
    /// A range of addresses is believed that was read while it changed.
    RangeReadTorn,
    /// A thread moves its cursor on although its signal handler has done so meanwhile.
    CursorMovedBlindly,
    /// An appender looks whether the gate is shut before it says that it is inside.
    LookedBeforeEntering,
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

//! Deliberate mistakes for the model checker, each switched on by `tests/`.

::mutant::mutants! {
    /// The producer publishes the tail without releasing the slot.
    TailPublishedRelaxed,
    /// The consumer gives a slot back without having finished reading it.
    HeadPublishedRelaxed,
    /// The waiter announces itself by a plain store, over a completion that came in between.
    WaiterOverwritesState,
    /// The completer publishes without looking whether a thread sleeps.
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

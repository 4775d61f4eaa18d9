//! Deliberate mistakes for the model checker, each switched on by `tests/`.

::mutant::mutants! {
    /// The thread that releases a mutex does not look again for waiters that came meanwhile.
    NoSecondLook,
    /// A waiter that lends its priority does not look again whether the owner is still the owner.
    OwnerNotLookedAtAgain,
    /// A waiter that gives up does not look whether the mutex was handed to it.
    HandOverForgotten,
    /// A waiter takes a mutex that it was handed although another one has taken it back.
    TakenBackUnseen,
    /// A mutex that was handed to a waiter that does not take it is not taken back.
    NeverTakenBack,
    /// The mutex is given free although it was handed over.
    FreedAfterHandOver,
    /// A mutex is made an inheritance mutex while a thread holds it.
    ConvertedWhileHeld,
    /// A reader enters although a writer waits.
    ReaderOvertakesWriter,
    /// The last reader does not tell the writer that waits for it.
    WriterNotTold,
    /// A writer that gives up keeps readers out.
    WriterLeavesItsMark,
    /// A writer that leaves lets in the next writer although readers wait.
    WriterOvertakesReaders,
    /// A reader that gives up does not look whether it was let in.
    EntryForgotten,
    /// A thread that is let in does not wait until the threads that let it in have left the door.
    DoorNotWaitedFor,
    /// A lock that is let go behind the door can be had without going there.
    FreeBeforeDoorCloses,
    /// A thread that reads already waits behind a writer.
    NestedReaderWaits,
    /// A reader looks whether it was lent a priority while it is still known as a reader.
    ReaderLeavesLate,
    /// A waiter that lends its priority does not look again whether the reader still reads.
    ReaderNotLookedAtAgain,
    /// A waiter lends its priority to readers that wait themselves.
    WaitingReaderLentTo,
    /// A reader whose wait has outlasted the limit goes on waiting behind the writer.
    LimitForgotten,
    /// A reader whose wait has outlasted the limit gets in although a writer is inside.
    LimitIgnoresWriter,
    /// A reader that has to wait does not give back what it was lent as one that reads.
    ReaderWaitsWithALoan,
}

//! Deliberate mistakes for the model checker, each switched on by `tests/`.

::mutant::mutants! {
    /// A holder looks whether the regulator sleeps before it has taken the lock.
    LookBeforeTaking,
    /// A holder may look whether the regulator sleeps before others see that it holds.
    NoFence,
    /// A holder wakes without changing the bell, so that a regulator about to sleep misses it.
    BellNotRung,
    /// The regulator goes to sleep without having looked after it announced its sleep.
    NoSecondLook,
    /// The regulator reads the bell after its last look at the holders.
    BellReadLate,
    /// A thread of the regulator that leaves the bell does not wake those that rely on it.
    FollowersNotWoken,
    /// A thread of the regulator reads the turn after it saw that another one leads.
    TurnReadLate,
    /// A release with nothing held counts below zero.
    ReleaseUnchecked,
    /// A stream gets its first work before the lock is taken.
    TakenAfterwards,
    /// The observer of an empty stream takes work that came meanwhile for ended.
    AllCompleted,
    /// A thread that waits for a stream reads the newest ticket after it found the stream's place.
    MomentReadLate,
    /// A place is given to another stream although that was forbidden meanwhile.
    TakenForbidden,
}

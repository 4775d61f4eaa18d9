//! Deliberate mistakes for the model checker.
//!
//! A model test that cannot fail proves nothing, so `tests/loom.rs` switches each of these on
//! and demands that loom finds it. In normal builds the switch is a constant.

/// A mistake that loom must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
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
    /// Whoever sees a stream empty takes work that came meanwhile for ended.
    AllCompleted,
    /// Whoever waits for a stream reads the newest ticket after it found the stream's place.
    MomentReadLate,
    /// A place is given to another stream although that was forbidden meanwhile.
    TakenForbidden,
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

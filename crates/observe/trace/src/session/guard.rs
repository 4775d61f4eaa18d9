//! Description of a program's guard, for the trace and for the caller.

use crate::metadata::{Guard, GuardCounts};
use record::Side;
use record::guard::{GuardCount, Mutexes};

/// The settings, and what was counted.
pub(super) fn describe(guard: &record::guard::Guard, side: &Side) -> Guard {
    let mutexes = match guard.mutexes {
        Mutexes::Alone => "none",
        Mutexes::Inherit => "inherit",
        Mutexes::Fair => "fair",
        Mutexes::FairInherit => "fair+inherit",
    };
    Guard {
        mutexes: mutexes.into(),
        phase_fair: guard.phase_fair,
        boost: guard.boost,
        bound_ns: guard.bound_ns,
        everywhere: guard.everywhere,
        libraries: guard.libraries.clone(),
        counts: counts(side),
    }
}

fn counts(side: &Side) -> GuardCounts {
    let mut counts = GuardCounts::default();
    for (what, number) in GuardCount::ALL.into_iter().zip(side.guard_counts()) {
        *place(&mut counts, what) = number;
    }
    counts
}

fn place(counts: &mut GuardCounts, what: GuardCount) -> &mut u64 {
    match what {
        GuardCount::MutexConverted => &mut counts.mutexes_converted,
        GuardCount::MutexRobust => &mut counts.mutexes_robust,
        GuardCount::MutexInherits => &mut counts.mutexes_inheriting,
        GuardCount::MutexCeiling => &mut counts.mutexes_ceiling,
        GuardCount::MutexShared => &mut counts.mutexes_shared,
        GuardCount::MutexDestroyed => &mut counts.mutexes_destroyed,
        GuardCount::MutexBusy => &mut counts.mutexes_busy,
        GuardCount::MutexUnknownUsers => &mut counts.mutexes_of_unknown_users,
        GuardCount::HandedOver => &mut counts.handed_over,
        GuardCount::OutlastedBound => &mut counts.outlasted_bound,
        GuardCount::Lent => &mut counts.lent,
        GuardCount::TableFull => &mut counts.table_full,
        GuardCount::RwlockConverted => &mut counts.rwlocks_converted,
        GuardCount::RwlockShared => &mut counts.rwlocks_shared,
        GuardCount::RwlockBusy => &mut counts.rwlocks_busy,
        GuardCount::Intercepted => &mut counts.intercepted,
        GuardCount::RwlockReadersFirst => &mut counts.rwlocks_readers_first,
        GuardCount::TakenBack => &mut counts.taken_back,
        GuardCount::MutexLetGoByOthers => &mut counts.mutexes_let_go_by_others,
    }
}

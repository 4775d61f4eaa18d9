//! Taking the lock against going to sleep, under the loom model checker, with mutants that must
//! fail. Run with `RUSTFLAGS="--cfg loom" cargo test -p keeptime-bandwidth --release --test loom`.
#![cfg(loom)]

use bandwidth::mutant::Mutant;
use bandwidth::page::{Bell, Cell, Crew, Said, Watch};
use loom::sync::Arc;
use loom::thread;

struct Pages {
    cells: [Cell; 2],
    bell: Bell,
    watch: Watch,
    crew: Crew,
}

impl Pages {
    fn new() -> Arc<Pages> {
        let cells = [Cell::new(), Cell::new()];
        Arc::new(Pages { cells, bell: Bell::new(), watch: Watch::new(), crew: Crew::default() })
    }

    fn acquire(&self, holder: usize) {
        assert!(self.cells[holder].acquire(&self.bell, &self.watch, || 1));
    }

    fn is_held(&self) -> bool {
        self.cells.iter().any(|cell| matches!(cell.said(), Said::Holds(1..)))
    }

    /// As `Holders::wait_until_held` without a limit: a wake-up that is lost is a deadlock.
    fn wait_until_held(&self) {
        while !self.is_held() {
            self.crew.sleep(&self.bell, &self.watch, || self.is_held(), None);
        }
    }
}

/// One takes the lock while the regulator falls asleep.
fn sleep_model() {
    loom::model(|| {
        let pages = Pages::new();
        let regulator = {
            let pages = pages.clone();
            thread::spawn(move || pages.wait_until_held())
        };
        pages.acquire(0);
        regulator.join().unwrap();
    });
}

/// Runs all schedules with up to 3 preemptions, where all that there are take minutes.
fn bounded(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Two cores of the regulator fall asleep: both are woken.
fn cores_model() {
    bounded(|| {
        let pages = Pages::new();
        let regulator = || {
            let pages = pages.clone();
            thread::spawn(move || pages.wait_until_held())
        };
        let cores = [regulator(), regulator()];
        pages.acquire(0);
        cores.into_iter().for_each(|core| core.join().unwrap());
    });
}

/// One holder takes the lock and lets it go while another takes it and keeps it.
fn holders_model() {
    bounded(|| {
        let pages = Pages::new();
        let regulator = {
            let pages = pages.clone();
            thread::spawn(move || pages.wait_until_held())
        };
        pages.acquire(0);
        assert!(pages.cells[0].release());
        pages.acquire(1);
        regulator.join().unwrap();
    });
}

/// Two threads of one holder take the lock and let it go, one of them once too often. Who has it
/// in between has it, and in the end it is free.
fn threads_model() {
    loom::model(|| {
        let pages = Pages::new();
        let other = {
            let pages = pages.clone();
            thread::spawn(move || {
                pages.acquire(0);
                pages.cells[0].release()
            })
        };
        pages.acquire(0);
        assert!(pages.cells[0].release());
        assert!(other.join().unwrap());
        assert_eq!(pages.cells[0].said(), Said::Holds(0));
        let again = pages.cells[0].release();
        assert_eq!(pages.cells[0].said(), Said::Holds(0), "counted below zero");
        assert!(!again);
    });
}

#[test]
fn lock_taken_while_the_regulator_falls_asleep_wakes_it() {
    sleep_model();
}

#[test]
fn one_acquisition_wakes_all_cores() {
    cores_model();
}

#[test]
fn release_of_one_holder_hides_no_acquisition_of_another() {
    holders_model();
}

#[test]
fn lock_is_free_when_all_threads_have_released() {
    threads_model();
}

const MUTANTS: [(Mutant, fn(), &str); 8] = [
    (Mutant::LookBeforeTaking, sleep_model, "deadlock"),
    (Mutant::NoFence, sleep_model, "deadlock"),
    (Mutant::BellNotRung, sleep_model, "deadlock"),
    (Mutant::NoSecondLook, sleep_model, "deadlock"),
    (Mutant::BellReadLate, sleep_model, "deadlock"),
    (Mutant::FollowersNotWoken, cores_model, "deadlock"),
    (Mutant::TurnReadLate, cores_model, "deadlock"),
    (Mutant::ReleaseUnchecked, threads_model, "counted below zero"),
];

mutant::every_mutant_is_found!(MUTANTS);

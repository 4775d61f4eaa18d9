//! Mutexes under the loom model checker, with mutants that must fail. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p keeptime-guard --release --test mutex_loom`.
#![cfg(loom)]

use guard::mutant::Mutant;
use guard::mutex::{Failure, LockPolicy, Mutex, model};
use guard::{Deadline, Table, Waiter, interrupt_next_sleep, with_limits};
use loom::cell::UnsafeCell;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
// Not loom's: dropping that one while a model fails would end the process.
use std::sync::Arc;

struct Scene {
    table: Table,
    mutex: Mutex,
    /// Number of times that the mutex was taken, which it protects. Loom reports two who use it at
    /// once.
    taken: UnsafeCell<u32>,
}

// SAFETY: the cell is what the mutex protects; loom checks that it does.
unsafe impl Sync for Scene {}

/// A waiter may be overtaken for no time at all, so that the first sleep is one in the table.
const POLICY: LockPolicy = LockPolicy { bound_ns: 0, inherit: true };
const ORDINARY: u32 = 0;
const URGENT: u32 = 50;

impl Scene {
    fn new() -> Arc<Scene> {
        let taken = UnsafeCell::new(0);
        Arc::new(Scene { table: Table::new(), mutex: Mutex::new(), taken })
    }

    /// As the hook does it. Whether it got the mutex.
    fn lock(&self, thread: u32, urgency: u32, until: Option<Deadline>) -> bool {
        if model::try_lock(&self.mutex, thread) {
            return true;
        }
        match self.mutex.lock(&self.table, Waiter { thread, urgency }, until, POLICY) {
            Ok(_) => true,
            Err(Failure::TimedOut) => false,
            Err(Failure::Deadlock) => panic!("nobody locks twice"),
        }
    }

    fn unlock(&self, thread: u32) {
        if self.mutex.hand_over(&self.table, || thread).is_none() {
            let address = std::ptr::from_ref(&self.mutex) as usize;
            model::unlock(&self.mutex);
            Mutex::let_go(address, &self.table, || thread);
        }
    }

    fn use_it(&self, thread: u32, urgency: u32, until: Option<Deadline>) -> bool {
        let locked = self.lock(thread, urgency, until);
        if locked {
            // SAFETY: under the mutex.
            self.taken.with_mut(|taken| unsafe { *taken += 1 });
            self.unlock(thread);
        }
        locked
    }
}

/// Runs all interleavings with this number of changes of thread where none was necessary.
fn check(changes: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(model);
}

/// Threads with these urgencies take the mutex once each; all get it.
fn all_get_it(urgencies: &'static [u32]) {
    check(if urgencies.len() > 2 { 2 } else { 4 }, move || {
        let scene = Scene::new();
        let threads: Vec<_> = urgencies[1..]
            .iter()
            .zip(2..)
            .map(|(urgency, thread)| {
                let scene = scene.clone();
                thread::spawn(move || assert!(scene.use_it(thread, *urgency, None)))
            })
            .collect();
        assert!(scene.use_it(1, urgencies[0], None));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        // SAFETY: nobody else is there any more.
        scene.taken.with(|taken| assert_eq!(unsafe { *taken } as usize, urgencies.len()));
        assert!(scene.table.is_empty());
        assert!(scene.mutex.is_free());
    });
}

fn ordinary_model() {
    all_get_it(&[ORDINARY, ORDINARY]);
}

fn urgent_model() {
    all_get_it(&[ORDINARY, URGENT]);
}

/// A waiter gives up while the holder may be handing the mutex to it.
fn giving_up_model(urgency: u32) {
    check(3, move || {
        let scene = Scene::new();
        assert!(scene.lock(1, ORDINARY, None));
        let waiter = {
            let scene = scene.clone();
            thread::spawn(move || {
                let until = Some(Deadline::after_ns(0));
                scene.use_it(2, urgency, until)
            })
        };
        scene.unlock(1);
        let got = waiter.join().unwrap();
        assert!(scene.use_it(1, ORDINARY, None));
        // SAFETY: nobody else is there any more.
        scene.taken.with(|taken| assert_eq!(unsafe { *taken }, 1 + u32::from(got)));
        assert!(scene.table.is_empty());
        assert!(scene.mutex.is_free());
    });
}

/// A thread takes the mutex again that it has perhaps handed to a waiter. If the waiter is
/// interrupted in the table, its handler waits until that is done.
fn again_model(urgency: u32, is_interrupted: bool) {
    with_limits(|| {
        check(3, move || {
            let scene = Scene::new();
            assert!(scene.lock(1, ORDINARY, None));
            let taken = Arc::new(loom::sync::Notify::new());
            let waiter = {
                let (scene, taken) = (scene.clone(), taken.clone());
                thread::spawn(move || {
                    if is_interrupted {
                        interrupt_next_sleep(move || taken.wait());
                    }
                    assert!(scene.use_it(2, urgency, None));
                })
            };
            scene.unlock(1);
            assert!(scene.use_it(1, ORDINARY, None));
            taken.notify();
            waiter.join().unwrap();
            // SAFETY: nobody else is there any more.
            scene.taken.with(|taken| assert_eq!(unsafe { *taken }, 2));
            assert!(scene.table.is_empty());
            assert!(scene.mutex.is_free());
        });
    });
}

/// Mutexes are taken back from threads that are about to take them.
fn late_model(urgencies: &'static [u32]) {
    with_limits(|| all_get_it(urgencies));
}

/// The C library lets the mutex go by itself, as inside a wait for a condition.
fn unseen_model() {
    check(4, || {
        let scene = Scene::new();
        assert!(scene.lock(1, ORDINARY, None));
        let waiter = {
            let scene = scene.clone();
            thread::spawn(move || assert!(scene.use_it(2, ORDINARY, None)))
        };
        scene.mutex.will_let_go(&scene.table, || 1);
        model::unlock(&scene.mutex);
        waiter.join().unwrap();
    });
}

/// A mutex becomes an inheritance mutex while somebody may hold it: whoever holds it can still
/// let it go.
fn conversion_model() {
    loom::model(|| {
        let scene = Scene::new();
        let user = {
            let scene = scene.clone();
            thread::spawn(move || {
                if model::try_lock(&scene.mutex, 2) {
                    assert!(scene.mutex.fitness().is_ok(), "converted while it was held");
                    model::unlock(&scene.mutex);
                }
            })
        };
        user.join().unwrap();
        assert!(model::try_lock(&scene.mutex, 1));
        assert!(scene.mutex.convert().is_err());
        assert!(scene.mutex.fitness().is_ok(), "converted while it was held");
        model::unlock(&scene.mutex);
        assert!(scene.mutex.convert().is_ok());
    });
}

#[test]
fn ordinary_threads_get_it_one_after_the_other() {
    ordinary_model();
}

#[test]
fn three_ordinary_threads_get_it_one_after_the_other() {
    all_get_it(&[ORDINARY, ORDINARY, ORDINARY]);
}

#[test]
fn urgent_thread_gets_it_and_gives_it_back() {
    urgent_model();
}

#[test]
fn urgent_and_ordinary_threads_get_it() {
    all_get_it(&[ORDINARY, URGENT, ORDINARY]);
}

#[test]
fn waiter_that_gives_up_leaves_nothing_behind() {
    giving_up_model(ORDINARY);
    giving_up_model(URGENT);
}

#[test]
fn mutex_of_an_interrupted_waiter_can_be_had() {
    again_model(ORDINARY, true);
    again_model(URGENT, true);
}

#[test]
fn mutex_that_is_taken_back_has_one_owner() {
    again_model(ORDINARY, false);
    again_model(URGENT, false);
    late_model(&[ORDINARY, ORDINARY, ORDINARY]);
    late_model(&[ORDINARY, URGENT, ORDINARY]);
}

#[test]
fn mutex_that_is_let_go_unseen_is_found() {
    unseen_model();
}

#[test]
fn only_free_mutexes_are_converted() {
    conversion_model();
}

/// Runs a model with a mistake on; it must fail.
fn must_fail(mutant: Mutant, model: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(|| mutant.with(model)));
    assert!(outcome.is_err(), "the model does not notice {mutant:?}");
}

#[test]
fn mutant_without_a_second_look_is_found() {
    must_fail(Mutant::NoSecondLook, urgent_model);
}

#[test]
fn mutant_that_does_not_look_at_the_owner_again_is_found() {
    must_fail(Mutant::OwnerNotLookedAtAgain, urgent_model);
}

#[test]
fn mutant_that_forgets_a_hand_over_is_found() {
    must_fail(Mutant::HandOverForgotten, || giving_up_model(URGENT));
}

#[test]
fn mutant_that_never_takes_a_mutex_back_is_found() {
    must_fail(Mutant::NeverTakenBack, || again_model(ORDINARY, true));
}

#[test]
fn mutant_that_takes_what_was_taken_back_is_found() {
    must_fail(Mutant::TakenBackUnseen, || again_model(ORDINARY, false));
}

#[test]
fn mutant_that_frees_what_it_handed_over_is_found() {
    must_fail(Mutant::FreedAfterHandOver, ordinary_model);
}

#[test]
fn mutant_that_converts_what_is_held_is_found() {
    must_fail(Mutant::ConvertedWhileHeld, conversion_model);
}

//! Streams and their work under the loom model checker, with mutants that must fail. Run with
//! `RUSTFLAGS="--cfg loom" cargo test -p keeptime-bandwidth --release --test activity_loom`.
//!
//! The driver of the model is two counters for each stream: pieces of work that were submitted,
//! and that have ended. The lock is held too little if at any time more were submitted than ended
//! and nothing was held.
#![cfg(loom)]

use bandwidth::activity::{Activity, Holding, Key, Stream};
use bandwidth::mutant::Mutant;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};

const CONTEXT: u64 = 0xc0;

struct Count(AtomicUsize);

impl Holding for Count {
    fn acquire(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn release(&self) {
        assert_ne!(
            self.0.fetch_sub(1, Ordering::SeqCst),
            0,
            "given back without having been taken"
        );
    }
}

/// Two streams.
struct Scene {
    activity: Activity,
    held: Count,
    submitted: [AtomicUsize; 2],
    ended: [AtomicUsize; 2],
}

/// The value that it has; a load may give loom's threads an older one.
fn value(counter: &AtomicUsize) -> usize {
    counter.fetch_add(0, Ordering::SeqCst)
}

/// Moment at which a submission draws its ticket.
#[derive(Clone, Copy, PartialEq)]
enum Ticket {
    After,
    Before,
}

impl Scene {
    fn new() -> Arc<Scene> {
        let zeros = || std::array::from_fn(|_| AtomicUsize::new(0));
        let held = Count(AtomicUsize::new(0));
        let scene = Scene { activity: Activity::new(), held, submitted: zeros(), ended: zeros() };
        Arc::new(scene)
    }

    /// Every place has had a stream, and the first that stream 1 looks at had stream 0.
    fn crowded() -> Arc<Scene> {
        let scene = Scene::new();
        for stream in [0, 2, 3, 4] {
            scene.fail(stream);
        }
        scene
    }

    fn key(stream: usize) -> Key {
        Key::made(0x1000 * (stream as u64 + 1))
    }

    fn submit(&self, stream: usize, ticket: Ticket) {
        let begun = self.activity.begin(Self::key(stream), || CONTEXT, &self.held);
        let place = begun.expect("there is a place for each stream");
        if ticket == Ticket::Before {
            self.activity.end(place, &self.held);
        }
        self.submitted[stream].fetch_add(1, Ordering::SeqCst);
        if ticket == Ticket::After {
            self.activity.end(place, &self.held);
        }
    }

    /// A call that fails.
    fn fail(&self, stream: usize) {
        let begun = self.activity.begin(Self::key(stream), || CONTEXT, &self.held);
        self.activity.leave(begun.expect("there is a place for each stream"), &self.held);
    }

    /// Waits for what is in a stream.
    fn synchronise(&self, stream: usize) {
        let Some((place, before)) = self.activity.find_at(Self::key(stream)) else { return };
        let submitted = value(&self.submitted[stream]);
        self.ended[stream].fetch_max(submitted, Ordering::SeqCst);
        self.activity.complete(place, before, &self.held);
    }

    /// Destroys a stream; nobody uses it any more.
    fn destroy(&self, stream: usize) {
        let Some(place) = self.activity.find(Self::key(stream)) else { return };
        self.activity.forbid(place);
        while self.activity.is_changing(place) {
            thread::yield_now();
        }
        if self.activity.key(place) == Some(Self::key(stream)) {
            self.activity.orphan(place);
        }
        self.activity.allow(place);
    }

    /// Performs one round of the thread that asks.
    fn poll(&self) {
        self.activity.each_active(|place| {
            let key = self.activity.key(place).expect("an active place has a stream");
            let is_first = key == Self::key(0) || key.stream() == Stream::Destroyed;
            let stream = usize::from(!is_first);
            if self.activity.is_submitted(place) {
                let before = self.activity.now();
                if value(&self.submitted[stream]) == value(&self.ended[stream]) {
                    self.activity.complete(place, before, &self.held);
                }
            }
        });
    }

    /// The lock is held if there is work.
    fn look(&self) {
        for (submitted, ended) in self.submitted.iter().zip(&self.ended) {
            let submitted = value(submitted);
            let held = value(&self.held.0);
            assert!(submitted <= value(ended) || held > 0, "work without the lock");
        }
    }

    /// Checks that, once nobody does anything any more, it is held exactly if there is work.
    fn settle(&self) {
        self.look();
        self.poll();
        let works = |(submitted, ended)| value(submitted) > value(ended);
        let has_work = self.submitted.iter().zip(&self.ended).any(works);
        assert_eq!(value(&self.held.0) > 0, has_work, "held without work, or the other way round");
    }
}

/// Runs these threads and a look at any time, in all orders with this number of forced changes.
fn check(changes: usize, threads: &'static [fn(&Scene)]) {
    check_in(Scene::new, changes, threads);
}

fn check_in(scene: fn() -> Arc<Scene>, changes: usize, threads: &'static [fn(&Scene)]) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(changes);
    builder.check(move || {
        let scene = scene();
        let threads: Vec<_> = threads
            .iter()
            .map(|act| {
                let scene = scene.clone();
                thread::spawn(move || act(&scene))
            })
            .collect();
        scene.look();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        scene.settle();
    });
}

fn fails(mutant: Option<Mutant>, changes: usize, threads: &'static [fn(&Scene)]) {
    fails_in(Scene::new, mutant, changes, threads);
}

fn fails_in(
    scene: fn() -> Arc<Scene>,
    mutant: Option<Mutant>,
    changes: usize,
    threads: &'static [fn(&Scene)],
) {
    let run = AssertUnwindSafe(|| match mutant {
        Some(mutant) => mutant.with(|| check_in(scene, changes, threads)),
        None => check_in(scene, changes, threads),
    });
    assert!(catch_unwind(run).is_err(), "loom does not find {mutant:?}");
}

const SUBMIT_AND_WAIT: &[fn(&Scene)] = &[
    |scene| scene.submit(0, Ticket::After),
    |scene| {
        scene.submit(0, Ticket::After);
        scene.synchronise(0);
        scene.look();
    },
];

#[test]
fn wait_gives_back_what_it_waited_for() {
    check(2, SUBMIT_AND_WAIT);
}

#[test]
fn lock_is_held_before_there_is_work() {
    check(3, &[|scene| scene.submit(0, Ticket::After), |scene| scene.submit(1, Ticket::After)]);
}

#[test]
fn failed_calls_leave_nothing() {
    check(3, &[|scene| scene.fail(0), |scene| scene.submit(0, Ticket::After)]);
}

#[test]
fn work_that_nobody_waits_for_is_found() {
    check(
        2,
        &[
            |scene| {
                scene.submit(0, Ticket::After);
                scene.ended[0].fetch_max(1, Ordering::SeqCst);
            },
            |scene| scene.poll(),
        ],
    );
}

#[test]
fn work_before_the_lock_is_found() {
    const BOTH: &[fn(&Scene)] =
        &[|scene| scene.submit(0, Ticket::After), |scene| scene.submit(0, Ticket::After)];
    fails(Some(Mutant::TakenAfterwards), 2, BOTH);
}

#[test]
fn wait_that_takes_too_much_for_ended_is_found() {
    fails(Some(Mutant::AllCompleted), 3, SUBMIT_AND_WAIT);
}

#[test]
fn ticket_that_is_drawn_before_the_call_is_found() {
    fails(
        None,
        3,
        &[
            |scene| scene.submit(0, Ticket::Before),
            |scene| {
                scene.synchronise(0);
                scene.look();
            },
        ],
    );
}

/// One waits for a stream without work, whose place another stream gets meanwhile.
const WAIT_AND_TAKE: &[fn(&Scene)] =
    &[|scene| scene.synchronise(0), |scene| scene.submit(1, Ticket::After)];

#[test]
fn wait_for_a_stream_whose_place_changes_hands_ends_nothing() {
    check_in(Scene::crowded, 3, WAIT_AND_TAKE);
}

#[test]
fn moment_that_is_read_after_the_place_was_found_is_found() {
    fails_in(Scene::crowded, Some(Mutant::MomentReadLate), 3, WAIT_AND_TAKE);
}

/// One destroys a stream without work, whose place another stream gets meanwhile.
const DESTROY_AND_TAKE: &[fn(&Scene)] =
    &[|scene| scene.destroy(0), |scene| scene.submit(1, Ticket::After)];

#[test]
fn destroyed_stream_does_not_take_the_name_of_the_next_one() {
    check_in(Scene::crowded, 3, DESTROY_AND_TAKE);
}

#[test]
fn place_that_is_taken_although_forbidden_is_found() {
    fails_in(Scene::crowded, Some(Mutant::TakenForbidden), 3, DESTROY_AND_TAKE);
}

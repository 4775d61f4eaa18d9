//! The table with one thread: who is handed what, and when it is taken back.

use super::*;

const MUTEX: usize = 64;
const ME: u32 = 1;

/// Returns the number of hand-overs that go by until the waiter is called.
fn silent(table: &Table) -> u32 {
    let may_call = || table.enter(MUTEX, ME).unwrap().may_call();
    (0..).find(|_| may_call()).unwrap()
}

#[test]
fn who_is_passed_over_is_called_once_before_its_turn() {
    let table = Table::new();
    let waiter = |thread| Waiter { thread, urgency: 0 };
    // Arrivals 0 and 1: passed over twice, and once.
    let places = [2, 3].map(|thread| table.stand(MUTEX, waiter(thread), true).unwrap());
    let hand_over = || table.hand_over(MUTEX, ME, |_| ());
    assert_eq!((hand_over(), Table::was_called(places[0])), (None, false));
    assert_eq!((hand_over(), Table::was_called(places[0])), (None, true));
    assert!(!Table::was_called(places[0]) && !Table::was_called(places[1]));
    assert_eq!(hand_over(), Some(2));
    assert_eq!((hand_over(), Table::was_called(places[1])), (None, true));
    assert_eq!(hand_over(), Some(3));
    for (place, thread) in places.into_iter().zip([2, 3]) {
        assert!(table.accept(place, thread));
    }
    assert!(table.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "Miri runs one thread at a time")]
fn mutex_that_is_not_taken_in_time_is_taken_back_and_its_waiter_stands_again() {
    let table = Table::new();
    let thread = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    let (waiter, other) = (Waiter { thread, urgency: 0 }, Waiter { thread: 1, urgency: 0 });
    let place = table.stand(MUTEX, waiter, false).unwrap();
    let lender = table.stand(MUTEX, other, false).unwrap();
    let owner = AtomicU32::new(ME);
    let other = |table: &Table| table.take_back(MUTEX, 1, &owner);
    let hand_over = |me| table.hand_over(MUTEX, me, |mark| owner.store(mark, Ordering::Relaxed));
    assert!(!other(&table), "it was not handed over");
    assert_eq!((hand_over(ME), table.marked(ME)), (Some(thread), None));
    assert_eq!(table.marked(owner.load(Ordering::Relaxed)), Some(thread));
    assert!(!other(&table), "it may still take it");
    place.offered_until_ns.store(0, Ordering::Relaxed);
    assert!(other(&table) && !other(&table));
    assert!(Table::was_put_aside(place) && !table.accept(place, thread));
    // A waiter that has lent to it as to the next owner gets that back when it shows up.
    lender.lent.store(thread, Ordering::Relaxed);
    assert!(table.stand_again(place, thread));
    assert_eq!(lender.lent.load(Ordering::Relaxed), 0);
    // It came first, and has its rank.
    assert_eq!(hand_over(1), Some(thread));
    let until_ns = place.offered_until_ns.load(Ordering::Relaxed) as i64;
    assert!(until_ns <= futex::now(Clock::Monotonic) + NEXT_OFFER_NS, "after one in vain");
    // A handler of its own thread wants the mutex: at once.
    assert!(table.take_back(MUTEX, thread, &owner));
    assert!(table.leave(place, thread) && table.leave(lender, 1));
    assert!(table.is_empty());
}

#[test]
#[cfg_attr(miri, ignore = "Miri does not say that a thread has ended")]
fn places_of_threads_that_have_ended_aside_serve_others() {
    let table = Table::new();
    let nobody = Waiter { thread: (1 << 22) - 1, urgency: 0 };
    for _ in 0..PLACES {
        let place = table.stand(MUTEX, nobody, false).unwrap();
        assert_eq!(table.hand_over(MUTEX, ME, |_| ()), Some(nobody.thread));
        place.offered_until_ns.store(0, Ordering::Relaxed);
        // Another mutex is there by now, which a thread has.
        assert!(!table.take_back(MUTEX, ME, &AtomicU32::new(ME)));
        assert!(Table::was_put_aside(place));
    }
    assert!(table.is_empty(), "nobody has to look at them");
    assert!(table.stand(MUTEX, nobody, false).is_some());
}

#[test]
fn calls_that_come_too_early_become_rare_until_one_comes_in_time() {
    let table = Table::new();
    assert_eq!(silent(&table), 0);
    for expected in [1, 3, 7, 15] {
        table.was_too_early(MUTEX, true);
        assert_eq!(silent(&table), expected);
    }
    for _ in 0..20 {
        table.was_too_early(MUTEX, true);
    }
    assert_eq!(silent(&table), (1 << MOST_EARLY) - 1);
    table.was_too_early(MUTEX, false);
    assert_eq!(silent(&table), 0);
}

//! The lock through its public door, within one process.
#![cfg(not(loom))]

mod support;

use bandwidth::Hold;
use std::time::Duration;
use support::regulator;

const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));

#[test]
fn holds_nest_over_threads_and_the_last_release_frees() {
    let (holders, socket) = regulator(|_| {});
    let hold = Hold::attach(&socket).unwrap();
    assert!(!holders.is_held());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|_| assert!(hold.acquire())));
        }
    });
    assert!(holders.wait_until_held(PATIENCE));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..1333).for_each(|_| assert!(hold.release())));
        }
    });
    assert!(holders.is_held());
    assert_eq!(holders.status().holders[0].holds, 1);
    assert!(hold.release());
    assert!(!holders.is_held());
    assert!(!hold.release(), "nothing is held");
    assert!(!holders.is_held());
}

#[test]
fn sleeping_regulator_is_woken() {
    let (holders, socket) = regulator(|_| {});
    let hold = Hold::attach(&socket).unwrap();
    std::thread::scope(|scope| {
        let sleepers: Vec<_> =
            (0..4).map(|_| scope.spawn(|| holders.wait_until_held(PATIENCE))).collect();
        hold.acquire();
        assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap()));
    });
    hold.release();
    assert!(!holders.wait_until_held(Some(Duration::from_millis(1))));
}

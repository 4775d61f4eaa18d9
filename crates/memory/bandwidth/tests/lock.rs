//! The lock through its public door, within one process.
#![cfg(not(loom))]

mod support;

use bandwidth::handshake::Refusal;
use bandwidth::holders::Config;
use bandwidth::{Error, Hold, Holders};
use shm::door::Closed;
use std::time::Duration;
use support::regulator;
use testing::{PATIENCE, until};

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
    assert!(holders.wait_until_held(Some(PATIENCE)));
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| (0..1333).for_each(|_| assert!(hold.release())));
        }
    });
    assert!(holders.is_held());
    let status = holders.status();
    assert_eq!((status.holders.len(), status.holders[0].holds), (1, 1));
    assert_eq!(status.holders[0].pid, std::process::id());
    assert!(hold.release());
    assert!(!holders.is_held());
    assert!(!hold.release(), "nothing is held");
    assert!(!holders.is_held());
    assert_eq!(holders.status().holders[0].acquisitions, 1);
}

#[test]
fn sleeping_cores_are_all_woken_by_one_acquisition() {
    let (holders, socket) = regulator(|_| {});
    let hold = Hold::attach(&socket).unwrap();
    for _ in 0..200 {
        std::thread::scope(|scope| {
            let wait = || holders.wait_until_held(Some(PATIENCE));
            let sleepers: Vec<_> = (0..3).map(|_| scope.spawn(wait)).collect();
            hold.acquire();
            assert!(sleepers.into_iter().all(|sleeper| sleeper.join().unwrap()));
        });
        hold.release();
    }
    assert!(!holders.wait_until_held(Some(Duration::from_millis(1))));
}

#[test]
fn guard_holds_while_it_lives() {
    let (holders, socket) = regulator(|_| {});
    let hold = Hold::attach(&socket).unwrap();
    {
        let _outer = hold.hold();
        drop(hold.hold());
        assert!(holders.is_held());
        assert!(holders.held_since_ns().unwrap() <= realtime::clock::monotonic_ns());
    }
    assert!(!holders.is_held());
    assert_eq!(holders.held_since_ns(), None);
}

#[test]
fn holders_of_one_process_are_apart() {
    let (holders, socket) = regulator(|_| {});
    let (first, second) = (Hold::attach(&socket).unwrap(), Hold::attach(&socket).unwrap());
    let local = holders.local_hold().unwrap();
    for hold in [&first, &second, &local] {
        hold.acquire();
    }
    drop(first);
    second.release();
    assert!(holders.is_held(), "the local hold");
    assert_eq!(holders.status().holders.len(), 2);
    local.release();
    assert!(!holders.is_held());
}

#[test]
fn closing_a_hold_gives_back_what_it_held_and_its_place() {
    let (holders, socket) = regulator(|config| config.holders = 2);
    for _ in 0..20 {
        let hold = Hold::attach(&socket).unwrap();
        hold.acquire();
        assert!(holders.is_held());
        drop(hold);
        assert!(!holders.is_held());
    }
}

#[test]
fn no_more_holders_than_there_may_be() {
    let (_holders, socket) = regulator(|config| config.holders = 3);
    let kept: Vec<Hold> = (0..3).map(|_| Hold::attach(&socket).unwrap()).collect();
    let refused = Hold::attach(&socket).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Full)), "{refused}");
    drop(kept);
    Hold::attach(&socket).unwrap();
}

#[test]
fn no_more_holders_of_a_user_than_there_may_be() {
    let (holders, socket) = regulator(|config| config.holders_per_user = 2);
    let _kept: Vec<Hold> = (0..2).map(|_| Hold::attach(&socket).unwrap()).collect();
    let refused = Hold::attach(&socket).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Full)), "{refused}");
    holders.local_hold().unwrap();
}

#[test]
fn who_connects_too_often_is_refused_for_a_while() {
    let (holders, socket) = regulator(|config| config.connects_per_second = 5);
    until("a refusal", || matches!(Hold::attach(&socket), Err(Error::Refused(Refusal::Pace))));
    assert!(holders.status().refused >= 1);
    until("another chance", || Hold::attach(&socket).is_ok());
}

#[test]
fn acquisitions_beyond_the_most_are_not_counted() {
    let (holders, _socket) = regulator(|_| {});
    let hold = holders.local_hold().unwrap();
    (0..bandwidth::page::MOST_HOLDS).for_each(|_| assert!(hold.acquire()));
    assert!(!hold.acquire());
    assert!(holders.is_held());
    assert_eq!(holders.status().holders[0].holds, bandwidth::page::MOST_HOLDS);
}

#[test]
fn holder_goes_on_when_the_regulator_is_gone_and_finds_the_next_one() {
    let (holders, socket) = regulator(|_| {});
    let hold = Hold::attach(&socket).unwrap();
    drop(holders);
    assert!(hold.acquire() && hold.release());
    let error = Hold::attach(&socket).unwrap_err();
    assert!(matches!(error, Error::NoRegulator { .. }), "{error}");
    let next = Holders::start(Config { socket: socket.clone(), ..Config::default() }).unwrap();
    hold.acquire();
    assert!(!next.is_held(), "the old hold is nothing to it");
    let hold = Hold::attach(&socket).unwrap();
    hold.acquire();
    assert!(next.is_held());
}

#[test]
fn second_regulator_at_a_socket_is_refused() {
    let (_holders, socket) = regulator(|_| {});
    let second = Holders::start(Config { socket: socket.clone(), ..Config::default() });
    assert!(
        matches!(&second, Err(Error::Socket { path, reason: Closed::InUse { .. } }) if *path == socket)
    );
}

#[test]
fn waits_end_when_the_regulator_says_so() {
    let (holders, _socket) = regulator(|_| {});
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| holders.wait_until_held(None));
        holders.end_waits();
        assert!(!waiting.join().unwrap());
    });
    assert!(!holders.wait_until_held(None));
}

#[test]
fn settings_without_sense_are_refused_by_name() {
    let refused = |change: fn(&mut Config)| {
        let mut config = Config::default();
        change(&mut config);
        Holders::start(config).unwrap_err().to_string()
    };
    assert_eq!(refused(|config| config.holders = 0), "holders: 0: expected 1 to 256");
    assert_eq!(refused(|config| config.holders = 257), "holders: 257: expected 1 to 256");
    assert_eq!(refused(|config| config.ceiling = Some(100)), "ceiling: 100: expected 1 to 99");
    assert_eq!(refused(|config| config.priority = Some(0)), "priority: 0: expected 1 to 99");
}

//! Data from the socket or from a page is only a claim of the holder.
#![cfg(not(loom))]

mod support;

use bandwidth::Hold;
use bandwidth::handshake::{Hello, Refusal, Welcome, image};
use bandwidth::page::VERSION;
use rustix::io::Errno;
use std::sync::atomic::Ordering;
use support::{Stranger, map, regulator};
use testing::until;

#[test]
fn garbage_on_the_socket_is_refused_and_costs_others_nothing() {
    let (holders, socket) = regulator(|_| {});
    let own = Hold::attach(&socket).unwrap();
    own.acquire();
    let hello = Hello { version: VERSION, image: image() }.packet();
    let mut packets = vec![vec![0; 1], vec![0; 16], vec![0xff; 64], vec![7; 1 << 16]];
    packets.push(hello[..15].to_vec());
    packets.push([&hello[..], &[0]].concat());
    let mut random = fastrand::Rng::with_seed(7);
    packets.extend((0..50).map(|_| std::iter::repeat_with(|| random.u8(..)).take(16).collect()));
    for (count, packet) in packets.iter().enumerate() {
        let stranger = Stranger::connect(&socket);
        stranger.send(packet);
        let (answer, pages) = stranger.answer().expect("an answer");
        assert_eq!(answer, Welcome::Refused(Refusal::Malformed), "{packet:?}");
        assert!(pages.is_empty());
        assert!(stranger.answer().is_none(), "the connection ends");
        assert_eq!(holders.status().refused, count as u64 + 1);
    }
    assert!(holders.is_held());
    assert_eq!(holders.status().holders.len(), 1);
    own.release();
    assert!(!holders.is_held());
}

#[test]
fn other_versions_are_told_so() {
    let (_holders, socket) = regulator(|_| {});
    let stranger = Stranger::connect(&socket);
    stranger.send(&Hello { version: VERSION + 1, image: image() }.packet());
    assert_eq!(stranger.answer().unwrap().0, Welcome::Refused(Refusal::Version));
}

#[test]
fn who_says_nothing_is_sent_away() {
    let (holders, socket) = regulator(|_| {});
    let silent = Stranger::connect(&socket);
    Hold::attach(&socket).unwrap();
    assert_eq!(silent.answer().unwrap().0, Welcome::Refused(Refusal::Malformed));
    assert_eq!(holders.status().refused, 1);
}

#[test]
fn silent_crowd_is_bounded_and_goes() {
    let (holders, socket) = regulator(|_| {});
    let crowd: Vec<Stranger> = (0..64).map(|_| Stranger::connect(&socket)).collect();
    let refused = || matches!(Hold::attach(&socket), Err(bandwidth::Error::Refused(Refusal::Full)));
    until("the crowd to be too large", refused);
    drop(crowd);
    until("the crowd to be gone", || Hold::attach(&socket).is_ok());
    assert!(holders.status().refused >= 1);
}

#[test]
fn who_goes_before_the_answer_leaves_no_holder() {
    let (holders, socket) = regulator(|_| {});
    for _ in 0..100 {
        let stranger = Stranger::connect(&socket);
        stranger.send(&Hello { version: VERSION, image: image() }.packet());
    }
    // Of a hundred at once some may wait to be heard.
    let mut hold = None;
    until("a place", || {
        hold = Hold::attach(&socket).ok();
        hold.is_some()
    });
    let hold = hold.unwrap();
    hold.acquire();
    assert!(holders.is_held());
    hold.release();
    assert!(!holders.is_held(), "nobody holds by having asked");
}

#[test]
fn holder_that_counts_nonsense_is_dropped_and_counted() {
    let (holders, socket) = regulator(|_| {});
    let own = Hold::attach(&socket).unwrap();
    type Lie = fn(&support::RawCell);
    let lies: [Lie; 5] = [
        |cell| cell.holds().store(4_000_000_000, Ordering::SeqCst),
        |cell| cell.holds().store(u32::MAX, Ordering::SeqCst),
        |cell| cell.version().store(7, Ordering::SeqCst),
        |cell| {
            cell.holds().store(1, Ordering::SeqCst);
            cell.version().store(0, Ordering::SeqCst);
        },
        |cell| cell.version().store(1 << 31, Ordering::SeqCst),
    ];
    for (count, lie) in lies.into_iter().enumerate() {
        let (cell, _pages) = Stranger::attach(&socket);
        cell.holds().store(1, Ordering::SeqCst);
        assert!(holders.is_held(), "an honest hold counts");
        lie(&cell);
        assert!(!holders.is_held(), "nonsense is no hold");
        until("the liar to be dropped", || holders.status().dropped == count as u64 + 1);
        assert_eq!(holders.status().holders.len(), 1, "only the honest one is left");
        // Its later writes go nowhere.
        cell.version().store(VERSION, Ordering::SeqCst);
        cell.holds().store(1, Ordering::SeqCst);
        assert!(!holders.is_held());
        own.acquire();
        assert!(holders.is_held());
        own.release();
    }
}

#[test]
fn times_that_a_holder_makes_up_are_only_told() {
    let (holders, socket) = regulator(|_| {});
    let (cell, _pages) = Stranger::attach(&socket);
    cell.holds().store(1, Ordering::SeqCst);
    cell.acquired_ns().store(u64::MAX, Ordering::SeqCst);
    assert!(holders.is_held());
    assert_eq!(holders.held_since_ns(), Some(u64::MAX));
    assert_eq!(holders.status().dropped, 0);
}

#[test]
fn holders_can_neither_write_the_watch_nor_cut_a_page() {
    let (_holders, socket) = regulator(|_| {});
    let (_cell, pages) = Stranger::attach(&socket);
    assert_eq!(pages.len(), 3);
    assert!(map(&pages[2], false).is_ok());
    assert_eq!(map(&pages[2], true), Err(Errno::PERM));
    for page in &pages {
        assert_eq!(rustix::fs::ftruncate(page, 0), Err(Errno::PERM));
        assert_eq!(rustix::fs::ftruncate(page, 1 << 20), Err(Errno::PERM));
    }
    assert!(rustix::io::pwrite(&pages[2], &[1], 4).is_err(), "nor by writing to the file");
}

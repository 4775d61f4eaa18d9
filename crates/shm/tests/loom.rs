//! The ring and the completion protocol under the loom model checker, with mutants that must
//! fail. Run with `RUSTFLAGS="--cfg loom" cargo test -p shm --release --test loom`.
#![cfg(loom)]

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;
use shm::mutant::Mutant;
use shm::{Completion, CompletionCell, Consumer, Producer, Rights, Ring};

/// Four messages through a ring of two, so that slots are used again.
fn ring_model() {
    loom::model(|| {
        let ring = Arc::new(Ring::new());
        let sender = {
            let ring = ring.clone();
            thread::spawn(move || {
                let mut producer = Producer::default();
                for i in 0..3u64 {
                    while !producer.push(&ring, &[i; 8]).unwrap() {
                        thread::yield_now();
                    }
                }
            })
        };
        let mut consumer = Consumer::default();
        for i in 0..3u64 {
            let message = loop {
                match consumer.pop(&ring).unwrap() {
                    Some(message) => break message,
                    None => thread::yield_now(),
                }
            };
            assert_eq!(message, [i; 8]);
        }
        sender.join().unwrap();
        assert_eq!(consumer.pop(&ring).unwrap(), None);
    });
}

/// A client that sleeps while a server completes: it wakes, and sees the whole outcome.
fn wait_model() {
    loom::model(|| {
        let cell = Arc::new(CompletionCell::new());
        cell.arm();
        let rights = Rights::new(1);
        let opening = rights.open(0).unwrap();
        let server = {
            let cell = cell.clone();
            thread::spawn(move || {
                let outcome = Completion { status: 1, launch_id: 7, ..Completion::default() };
                cell.complete(rights.take(opening).unwrap(), &outcome);
            })
        };
        let outcome = cell.wait(None).unwrap();
        assert_eq!((outcome.status, outcome.launch_id), (1, 7));
        server.join().unwrap();
    });
}

/// The device's event and a cancellation race for the same request: one of them completes it.
fn completion_model() {
    loom::model(|| {
        let cell = Arc::new(CompletionCell::new());
        cell.arm();
        let rights = Arc::new(Rights::new(1));
        let opening = rights.open(0).unwrap();
        let completions = Arc::new(AtomicU32::new(0));
        let finish = move |status: u32| {
            let (cell, rights, count) = (cell.clone(), rights.clone(), completions.clone());
            move || {
                if let Some(right) = rights.take(opening) {
                    cell.complete(right, &Completion { status, ..Completion::default() });
                    count.fetch_add(1, Ordering::Relaxed);
                }
                (cell, count)
            }
        };
        let device = thread::spawn(finish(1));
        let (cell, count) = finish(2)();
        device.join().unwrap();
        assert_eq!(count.load(Ordering::Relaxed), 1, "completed not exactly once");
        assert!(cell.poll().is_some());
    });
}

#[test]
fn ring_delivers_every_message_once_and_whole() {
    ring_model();
}

#[test]
fn sleeping_client_is_always_woken() {
    wait_model();
}

#[test]
fn racing_completions_complete_once() {
    completion_model();
}

const MUTANTS: [(Mutant, fn(), &str); 5] = [
    (Mutant::TailPublishedRelaxed, ring_model, "Causality violation"),
    (Mutant::HeadPublishedRelaxed, ring_model, "Causality violation"),
    (Mutant::WaiterOverwritesState, wait_model, "deadlock"),
    (Mutant::NoWake, wait_model, "deadlock"),
    (Mutant::RightTakenTwice, completion_model, "completed not exactly once"),
];

const CHOICE: &str = "SHM_LOOM_MUTANT";

/// The model of one mutant. It must fail, often by abort, so it runs in a process of its own.
#[test]
#[ignore = "run by every_mutant_is_found"]
fn model_of_the_chosen_mutant() {
    let index: usize = std::env::var(CHOICE).unwrap().parse().unwrap();
    let (mutant, model, _) = MUTANTS[index];
    mutant.with(model);
}

#[test]
fn every_mutant_is_found() {
    for (index, (mutant, _, complaint)) in MUTANTS.iter().enumerate() {
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "model_of_the_chosen_mutant", "--nocapture"])
            .env(CHOICE, index.to_string())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(!run.status.success(), "{mutant:?} was not found");
        assert!(said.contains(complaint), "{mutant:?} failed for another reason:\n{said}");
    }
}

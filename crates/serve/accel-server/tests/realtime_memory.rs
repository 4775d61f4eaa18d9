//! The server's real-time threads neither allocate nor free memory, whatever clients do. An
//! allocator may ask the kernel for memory; the kernel has one lock for the memory of all threads
//! of a process, which the control thread holds while it makes a client's memory present: an inbox
//! that allocated waited 12 ms for it.
//!
//! An allocator that counts is the whole program's, so this test has a program of its own.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use accel::request::Order;
use accel::{Client, Registration, Request};
use support::raw::RawSession;
use support::{Busy, Fixture, PATIENCE, serve, work};

/// Rounds of everything before the count begins: each thread's lists get their room.
const WARM_UP: u32 = 3;
/// Rounds that are counted.
const ROUNDS: u32 = 20;

struct Watched;

static WATCHING: AtomicBool = AtomicBool::new(false);
/// Places at which real-time threads allocated or freed.
static SEEN: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    /// The allocator is used by what looks at it.
    static LOOKING: Cell<bool> = const { Cell::new(false) };
}

/// Notes a use of the allocator by a thread that may not.
fn look(what: &str) {
    if !WATCHING.load(Ordering::Relaxed) || LOOKING.replace(true) {
        return;
    }
    note(what);
    LOOKING.set(false);
}

fn note(what: &str) {
    let name = rustix::thread::name().unwrap_or_default();
    let name = name.to_str().unwrap_or_default();
    if name == "kt-inbox" || name.starts_with("unit-") || name == "copy-engine" {
        let trace = Backtrace::force_capture().to_string();
        let own = |line: &&str| line.contains("accel_server::") || line.contains("device::");
        let places: Vec<&str> = trace.lines().filter(own).map(str::trim).take(6).collect();
        SEEN.lock().unwrap().push(format!("{name}: {what}: {}", places.join(" < ")));
    }
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Watched {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        look("alloc");
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        look("free");
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Watched = Watched;

/// One round of everything that clients do.
fn round(fixture: &Fixture, punctual: &mut Busy) {
    for _ in 0..10 {
        punctual.client.run(punctual.callback, &Request::new().arguments(&[1_000])).unwrap();
    }
    let mut other = fixture.client();
    let vector = other.register(&Registration::service("vecadd").memory(4096)).unwrap();
    let add = Request::new().arguments(&[64]).input(0, 512).output(512, 256);
    other.run(vector, &add).unwrap();
    let sum = other.register(&Registration::service("reduce").memory(4096)).unwrap();
    let reduce = Request::new().arguments(&[256]).input(0, 1024).output(1024, 8);
    other.run(sum, &reduce).unwrap();
    let bins = Registration::service("histogram").memory(1 << 20).accelerator("wide");
    let bins = other.register(&bins).unwrap();
    let count = Request::new().arguments(&[200_000, 64]).input(0, 800_000).output(800_000, 512);
    other.run(bins, &count).unwrap();
    other.deregister(vector).unwrap();
    overruns(fixture);
    cancels(fixture, &mut other);
    breaks_the_rules(fixture);
    dies_at_work(fixture);
}

/// A request that takes longer than it declared is demoted, and reported.
fn overruns(fixture: &Fixture) {
    let before = fixture.server().counters().demotions;
    let mut client = fixture.client();
    let short = Registration::service("busy").chain("short", 70);
    let short = short.exec(std::time::Duration::from_micros(1));
    let short = client.register(&short).unwrap();
    client.run(short, &work(1)).unwrap();
    assert!(fixture.server().counters().demotions > before);
}

/// A running request, and others that wait and are taken back.
fn cancels(fixture: &Fixture, client: &mut Client) {
    let busy = client.register(&Registration::service("busy").chain("busy", 5)).unwrap();
    let mut tickets: Vec<_> = (0..8).map(|_| client.submit(busy, &work(2)).unwrap()).collect();
    fixture.until("one runs", |counters| counters.running > 0);
    for ticket in &mut tickets {
        client.cancel(ticket).unwrap();
    }
    for ticket in &mut tickets {
        // Done or cancelled.
        let _ = client.wait(ticket, Some(PATIENCE));
    }
}

/// Sessions that are ended for what they send, and one that is not listened to for a while.
fn breaks_the_rules(fixture: &Fixture) {
    let evicted = |session: &RawSession| assert!(!session.raw.farewell().is_empty());
    let mut session = RawSession::open(fixture);
    session.push(&[u64::MAX; 8]);
    evicted(&session);
    let mut session = RawSession::open(fixture);
    let own = session.register("busy", 0, &[]).unwrap();
    session.launch(own, 64);
    evicted(&session);
    let mut session = RawSession::open(fixture);
    let busy = session.register("busy", 0, &[]).unwrap();
    let request = work(60_000);
    let order = Order::Launch { launch_id: 1, registration: busy, slot: 0, request }.encode();
    session.push(&order);
    session.push(&order);
    evicted(&session);
    let mut session = RawSession::open(fixture);
    for slot in 0..60 {
        session.launch(u32::MAX, slot);
    }
    let mutings = fixture.server().counters().mutings;
    while fixture.server().counters().mutings == mutings {
        (0..100).for_each(|_| session.doorbell.ring());
    }
}

/// A client that is gone while its requests run and wait.
fn dies_at_work(fixture: &Fixture) {
    let others = fixture.server().counters().sessions;
    let mut session = RawSession::open(fixture);
    let busy = session.register("busy", 0, &[]).unwrap();
    for slot in 0..4 {
        let request = work(2);
        session.push(&Order::Launch { launch_id: 7, registration: busy, slot, request }.encode());
    }
    fixture.until("one runs", |counters| counters.running > 0);
    drop(session);
    fixture.until("it is gone", |counters| counters.sessions <= others && counters.running == 0);
}

#[test]
fn realtime_threads_neither_allocate_nor_free() {
    let fixture = serve(
        "accelerators:\n\
         - {id: cpu, buckets: 4, cores: [0]}\n\
         - {id: wide, buckets: 2, cores: [0, 1]}\n\
         server: {priority: 0, overrun: demote}\n",
    );
    let mut punctual = Busy::new(&fixture, "punctual", 99);
    for _ in 0..WARM_UP {
        round(&fixture, &mut punctual);
    }
    WATCHING.store(true, Ordering::Relaxed);
    for _ in 0..ROUNDS {
        round(&fixture, &mut punctual);
    }
    WATCHING.store(false, Ordering::Relaxed);
    let mut seen = std::mem::take(&mut *SEEN.lock().unwrap());
    seen.sort();
    seen.dedup();
    assert!(seen.is_empty(), "{}", seen.join("\n"));
}

//! Clients that break the rules, one layer below the client library. Each test has an honest
//! client beside it, whose requests go on.

mod support;

use accel::control::{self, Name, Packet, Refused};
use accel::request::{Order, Status};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use support::raw::{Raw, RawSession, memfd};
use support::{Busy, Fixture, one_gpu, serve};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

fn fixture() -> (Fixture, Busy) {
    let fixture = serve(&one_gpu("buckets: 3", ""));
    let honest = Busy::new(&fixture, "honest", 50);
    (fixture, honest)
}

#[test]
fn packets_of_garbage_end_the_session_and_nothing_else() {
    let (fixture, mut honest) = fixture();
    let long = [7u8; control::MAX_PACKET + 1];
    for garbage in [&b"x"[..], &[0; 4], &[1, 0, 0, 0], &[255; 200], &long] {
        let raw = Raw::connect(&fixture);
        raw.send(garbage, &[]);
        assert!(raw.farewell().contains("expected a message of version 2"), "{garbage:?}");
        let session = RawSession::open(&fixture);
        session.raw.send(garbage, &[]);
        assert!(session.raw.farewell().contains("expected a message of version 2"), "{garbage:?}");
        honest.run(1);
    }
    fixture.until("all of them are gone", |c| c.sessions == 1);
}

#[test]
fn other_versions_and_disorder_are_refused() {
    let (fixture, mut honest) = fixture();
    let raw = Raw::connect(&fixture);
    let kind = control::Hello::KIND;
    raw.send(control::Hello { kind, version: 99, magic: control::MAGIC }.as_bytes(), &[]);
    assert_eq!(raw.farewell(), "protocol version 99, this server speaks version 2");

    let raw = Raw::connect(&fixture);
    raw.send(control::QueryStatus { kind: control::QueryStatus::KIND }.as_bytes(), &[]);
    assert_eq!(raw.farewell(), "no hello before the first request");

    let session = RawSession::open(&fixture);
    let hello = control::Hello { kind, version: control::VERSION, magic: control::MAGIC };
    session.raw.send(hello.as_bytes(), &[]);
    assert_eq!(session.raw.farewell(), "hello in an open session");
    honest.run(1);
}

#[test]
fn silent_connection_is_closed() {
    let (fixture, mut honest) = fixture();
    let raw = Raw::connect(&fixture);
    assert_eq!(raw.farewell(), "no hello within 1 s");
    honest.run(1);
}

#[test]
fn memory_that_is_not_as_announced_is_refused() {
    let (fixture, mut honest) = fixture();
    let session = RawSession::open(&fixture);
    let sealed = SealFlags::SHRINK;
    let cases = [
        (8192, vec![memfd(4096, sealed)], "has 4096 bytes, expected the announced 8192 bytes"),
        (4096, vec![memfd(4096, SealFlags::empty())], "not sealed against shrinking"),
        (4096, vec![std::fs::File::open("/dev/zero").unwrap().into()], "not sealed"),
        (4096, vec![], "4096 bytes of memory announced with 0 descriptors"),
        (0, vec![memfd(4096, sealed)], "0 bytes of memory announced with 1 descriptors"),
        (4096, vec![memfd(4096, sealed), memfd(4096, sealed)], "with 2 descriptors"),
        (u64::MAX, vec![memfd(4096, sealed)], "bytes are left to this session"),
    ];
    for (bytes, fds, said) in cases {
        let fds: Vec<BorrowedFd<'_>> = fds.iter().map(AsFd::as_fd).collect();
        let refused = session.register("vecadd", bytes, &fds).unwrap_err();
        assert!(refused.contains(said), "{refused}");
    }
    let good = memfd(4096, sealed);
    session.register("vecadd", 4096, &[good.as_fd()]).unwrap();
    honest.run(1);
}

#[test]
fn lies_about_ids_are_answered() {
    let (fixture, mut honest) = fixture();
    let mut session = RawSession::open(&fixture);
    let own = session.register("empty", 0, &[]).unwrap();
    for (slot, registration) in [own + 1, u32::MAX].into_iter().enumerate() {
        session.launch(registration, slot as u16);
        assert_eq!(session.status(slot), Some(Status::UnknownRegistration));
    }
    session.launch(own, 5);
    assert_eq!(session.status(5), Some(Status::Done));
    // Cancelling what somebody else, or nobody, has sent.
    session.memory.completion(6).unwrap().arm();
    let cancel = Order::Cancel { launch_id: 7, slot: 6, target_slot: 0, target_launch_id: 1 };
    session.push(&cancel.encode());
    assert_eq!(session.status(6), Some(Status::TooLate));
    for (kind, number) in [(control::Deregister::KIND, 9), (control::Deregister::KIND, u32::MAX)] {
        session.raw.send(control::Deregister { kind, registration: number }.as_bytes(), &[]);
        let (bytes, _) = session.raw.receive().unwrap();
        assert!(Refused::parse(&bytes).unwrap().unpack().text.contains("no such registration"));
    }
    honest.run(1);
}

#[test]
fn broken_rings_end_the_session() {
    let (fixture, mut honest) = fixture();
    let evicted = |session: &RawSession| session.raw.farewell();

    let mut session = RawSession::open(&fixture);
    session.push(&[u64::MAX; 8]);
    assert!(evicted(&session).contains("the reserved byte is 255"));

    let mut session = RawSession::open(&fixture);
    session.push(&[0; 8]);
    assert!(evicted(&session).contains("unknown kind 0"));

    let mut session = RawSession::open(&fixture);
    session.launch(0, 64);
    assert!(evicted(&session).contains("slot 64 is in use or does not exist"));

    // The ring's tail, claimed to be far ahead.
    let session = RawSession::open(&fixture);
    shm::PeerSlice::whole(session.mapping.clone()).write(64, &999u32.to_ne_bytes()).unwrap();
    session.doorbell.ring();
    assert!(evicted(&session).contains("jumped by 999, the ring holds 64"));
    assert!(fixture.server().counters().evictions >= 4);
    honest.run(1);
    fixture.until("all of them are gone", |c| c.sessions == 1);
}

#[test]
fn slot_in_use_cannot_be_used_again() {
    let (fixture, mut honest) = fixture();
    let mut session = RawSession::open(&fixture);
    let busy = session.register("busy", 0, &[]).unwrap();
    let request = accel::Request::new().arguments(&[60_000_000_000]);
    let order = Order::Launch { launch_id: 1, registration: busy, slot: 0, request };
    session.push(&order.encode());
    fixture.until("the first runs", |c| c.running == 1);
    session.push(&order.encode());
    assert!(session.raw.farewell().contains("slot 0 is in use"));
    fixture.until("its minute of work is cancelled", |c| c.running == 0 && c.sessions == 1);
    honest.run(1);
}

#[test]
fn scribbling_over_the_own_segment_harms_only_the_scribbler() {
    let (fixture, mut honest) = fixture();
    let mut session = RawSession::open(&fixture);
    let own = session.register("empty", 0, &[]).unwrap();
    session.launch(own, 0);
    let all = shm::PeerSlice::whole(session.mapping.clone());
    for seed in 0..200u32 {
        let noise: Vec<u8> = (0..all.len() as u32)
            .map(|i| (i.wrapping_mul(2_654_435_761) ^ seed.wrapping_mul(40_503)).to_le_bytes()[2])
            .collect();
        all.write(0, &noise).unwrap();
        session.doorbell.ring();
    }
    honest.run(1);
    drop(session);
    fixture.until("the scribbler is gone", |c| c.sessions == 1);
    honest.run(1);
}

#[test]
fn ringing_for_nothing_is_muted_and_loses_no_request() {
    let (fixture, mut honest) = fixture();
    let mut session = RawSession::open(&fixture);
    let own = session.register("empty", 0, &[]).unwrap();
    fixture.until("a muting", |counters| {
        (0..1000).for_each(|_| session.doorbell.ring());
        counters.mutings > 0
    });
    session.launch(own, 0);
    honest.run(1);
    assert_eq!(session.status(0), Some(Status::Done), "a muted client is heard again");
}

#[test]
fn chains_whose_name_cannot_be_seen_are_refused() {
    let (fixture, mut honest) = fixture();
    for chain in ["", " ", "a\nb", "\u{202e}tsenoh", "honest\u{200b}", "\u{3164}"] {
        let session = RawSession::open(&fixture);
        let mut packed = [0; control::NAME_BYTES];
        packed[..chain.len()].copy_from_slice(chain.as_bytes());
        let register = control::Register {
            kind: control::Register::KIND,
            requests: 1,
            chain: Name::read_from_bytes(&packed).unwrap(),
            service: Name::new("service", "empty").unwrap(),
            ..control::Register::new_zeroed()
        };
        session.raw.send(register.as_bytes(), &[]);
        assert_eq!(session.raw.farewell(), "the chain is not a name", "{chain:?}");
    }
    honest.run(1);
}

#[test]
fn connecting_in_a_loop_is_slowed_down() {
    let yaml = one_gpu("buckets: 1", "server: {priority: 0, limits: {connects_per_second: 20}}");
    let mut fixture = serve(&yaml);
    let mut honest = Busy::new(&fixture, "honest", 50);
    let refused = testing::until_ok("a refusal", || {
        match accel::Client::connect(&fixture.socket).map(drop) {
            Ok(()) | Err(accel::Error::NoServer { .. }) => Err("let in"),
            Err(error) => Ok(error.to_string()),
        }
    });
    assert!(refused.contains("more than 20 times a second"), "{refused}");
    honest.run(1);
    // Each knock too many is counted, and few are worth a line.
    fixture.until("a hundred refusals", |c| {
        drop(accel::Client::connect(&fixture.socket));
        c.refusals > 100
    });
    let refusals = || {
        let log = fixture.log.lock().unwrap();
        log.iter().filter(|line| line.contains("connection refused")).count()
    };
    assert!(refusals() <= 10, "{} lines", refusals());
    // Patience is rewarded.
    testing::until_ok("a place", || accel::Client::connect(&fixture.socket).map(drop));
    fixture.stop();
    assert!(fixture.logged("more lines about refused connections of user"));
}

#[test]
fn client_that_does_not_read_its_answers_is_ended() {
    let (fixture, mut honest) = fixture();
    let session = RawSession::open(&fixture);
    let ask = control::QueryStatus { kind: control::QueryStatus::KIND };
    fixture.until("its end", |counters| {
        session.raw.send(ask.as_bytes(), &[]);
        counters.sessions != 2
    });
    honest.run(1);
}

fn punch(fd: &OwnedFd, bytes: u64) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fd, flags, 0, bytes).unwrap();
}

#[test]
fn holes_in_the_memory_of_a_client_are_filled() {
    let (fixture, mut honest) = fixture();
    let mut session = RawSession::open(&fixture);
    let memory = memfd(8192, SealFlags::SHRINK);
    let own = session.register("vecadd", 8192, &[memory.as_fd()]).unwrap();
    punch(&memory, 8192);
    session.add(own, 0, [(0, 4096), (4096, 2048)]);
    assert_eq!(session.status(0), Some(Status::Done));
    honest.run(1);
}

/// Makes the pages of this process' mapping of a client's memory such that no page comes when
/// they are touched, as if the kernel had none. The server runs in this process.
fn lose(name: &str) {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let line = maps.lines().find(|line| line.contains(name)).unwrap();
    let (begin, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
    let [begin, end] = [begin, end].map(|text| usize::from_str_radix(text, 16).unwrap());
    // A file of no bytes has no pages.
    let empty = rustix::fs::memfd_create("no page", MemfdFlags::CLOEXEC).unwrap();
    let access = rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE;
    let flags = rustix::mm::MapFlags::SHARED | rustix::mm::MapFlags::FIXED;
    // SAFETY: replaces the server's mapping, which it expects anybody to change, by one of the
    // same size.
    unsafe { rustix::mm::mmap(begin as *mut _, end - begin, access, flags, &empty, 0) }.unwrap();
}

#[test]
fn client_whose_memory_is_lost_is_ended_and_nobody_else() {
    let (fixture, mut honest) = fixture();
    let before = fixture.server().counters().memory_bytes;
    let mut session = RawSession::open(&fixture);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = rustix::fs::memfd_create("lost-memory", flags).unwrap();
    rustix::fs::ftruncate(&memory, 8192).unwrap();
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
    let own = session.register("vecadd", 8192, &[memory.as_fd()]).unwrap();
    lose("lost-memory");
    session.add(own, 0, [(0, 4096), (4096, 2048)]);
    let said = session.raw.farewell();
    assert!(said.contains("memory lost"), "{said}");
    honest.run(1);
    fixture.until("it is gone", |c| c.sessions == 1);
    drop(session);
    fixture.until("its memory is gone", |c| c.memory_bytes == before);
    honest.run(1);
}

/// Sealed like any other. The pool of huge pages may be empty: nothing is taken from it.
#[test]
fn memory_of_huge_pages_is_refused() {
    let (fixture, mut honest) = fixture();
    let session = RawSession::open(&fixture);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    let Ok(memory) = rustix::fs::memfd_create("huge", flags) else {
        println!("SKIP: this kernel makes no memory files of huge pages");
        return;
    };
    rustix::fs::ftruncate(&memory, 2 << 20).unwrap();
    rustix::fs::fcntl_add_seals(&memory, SealFlags::SHRINK).unwrap();
    for bytes in [4096, 2 << 20] {
        let refused = session.register("vecadd", bytes, &[memory.as_fd()]).unwrap_err();
        assert!(refused.contains("expected a memory file without huge pages"), "{refused}");
    }
    honest.run(1);
}

/// Much memory is made present in slices: the counters that another client reads meanwhile have
/// the memory, and not yet the registration.
#[test]
fn others_are_served_while_memory_is_made_present() {
    const BYTES: u64 = 128 << 20;
    let limits = "server: {priority: 0, limits: {memory: 128 MiB, total_memory: 256 MiB}}";
    let fixture = serve(&one_gpu("buckets: 3", limits));
    let mut other = fixture.client();
    let session = RawSession::open(&fixture);
    let memory = memfd(BYTES, SealFlags::SHRINK);
    std::thread::scope(|scope| {
        // It keeps its session until it is asked.
        let registering = scope.spawn(move || {
            let registered = session.register("vecadd", BYTES, &[memory.as_fd()]);
            (session, registered)
        });
        let mut between = 0;
        loop {
            let seen = other.status().unwrap();
            if seen.registrations == 1 {
                break;
            }
            between += u32::from(seen.memory_bytes >= BYTES);
        }
        assert!(between > 0, "nobody is served meanwhile");
        assert!(registering.join().unwrap().1.is_ok());
    });
}

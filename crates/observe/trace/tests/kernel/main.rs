//! The collectors around real programs.

mod cost;
mod program;
mod seen;
mod tracefs;

use program::{Hog, Program, compute};
use realtime::thread::cores;
use record::clock::{Calibration, Reading};
use record::{Kind, Record, SwitchDetail};
use seen::{Seen, collect};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use trace::kernel::{Collected, Collector, Request, Started, Wanted};
use trace::metadata::Tier;
use tracefs::{Look, our_instances, tracefs_mounts};

/// One at a time: they load a processor with real-time threads and look at shared directories.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

macro_rules! need_root {
    () => {
        if !is_root() {
            return eprintln!("SKIP: the kernel's tracer is for root only");
        }
    };
}
use need_root;

fn request(process: u32, wanted: Wanted) -> Request {
    Request { process, wanted, futex: false, keep_last: false, bytes_per_processor: 4 << 20 }
}

fn last_core() -> (usize, String) {
    let core = *cores().last().unwrap();
    (core, core.to_string())
}

#[test]
fn scheduler_tier_sees_who_left_who_came_and_who_woke() {
    need_root!();
    let _alone = alone();
    let (core, core_text) = last_core();
    let program = Program::waiting("ping_pong", &[("CORE", &core_text)]);
    let hog = Hog::on(core).expect("root may have a real-time priority");
    let started =
        Collector::start(&request(program.id(), Wanted::Exactly(Tier::Scheduler))).unwrap();
    assert_eq!((started.tier, started.futex), (Tier::Scheduler, false));
    assert_eq!(started.reasons, [] as [String; 0]);
    let seen = collect(started, program);
    seen.little_is_lost();
    let (ping, pong) = (seen.thread("ping"), seen.thread("pong"));
    seen.alternates(ping);
    seen.alternates(pong);
    preempted_by_the_hog(&seen, ping, hog.id);
    woken_before_it_came(&seen, ping, pong);
    assert_eq!(seen.task(ping), ("ping", seen.process));
    assert_eq!(seen.task(pong), ("pong", seen.process));
    assert_eq!(seen.task(hog.id), ("hog", std::process::id()));
    // A loaded machine is never idle.
    let mut idle = seen.collected.tasks.iter().filter(|task| task.thread == 0);
    assert!(idle.all(|task| (task.name.as_str(), task.pid) == ("swapper", 0)));
    for stream in &seen.collected.processors {
        let switches = stream.records.iter().filter(|record| record.kind == Kind::Switch.code());
        switches.for_each(|record| assert_eq!(record.number, stream.processor));
    }
}

/// The kernel's number for the priority of who runs these tests, and of programs that they start.
fn usual() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let nice = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap();
    120u64.checked_add_signed(nice.parse().unwrap()).unwrap()
}

fn preempted_by_the_hog(seen: &Seen, ping: u32, hog: u32) {
    let visits = seen.visits(ping);
    let to_hog = visits.iter().filter(|(_, on, record)| !on && record.subject as u32 == hog);
    let details: Vec<_> = to_hog.map(|visit| SwitchDetail::unpack(visit.2.detail)).collect();
    assert!(details.len() >= 5, "{} times preempted by the hog", details.len());
    let preempted = details.iter().filter(|detail| detail.preempted()).count();
    // It may also have been about to wait when the hog came.
    assert!(preempted * 2 > details.len(), "{details:?}");
    for detail in details {
        assert_eq!((u64::from(detail.from_priority), detail.to_priority), (usual(), 49));
    }
}

fn woken_before_it_came(seen: &Seen, ping: u32, pong: u32) {
    let records = seen.records();
    let wakeups: Vec<&Record> = records
        .iter()
        .filter(|record| record.kind == Kind::Wakeup && record.subject as u32 == ping)
        .collect();
    let mut blocked = 0;
    for pair in seen.visits(ping).windows(2) {
        let [(left, false, record), (came, true, _)] = pair else { continue };
        if SwitchDetail::unpack(record.detail).preempted() {
            continue;
        }
        let woken = wakeups.iter().any(|wakeup| (*left..=*came).contains(&wakeup.time));
        if !woken {
            assert!(seen.is_unknown(*left, *came), "no wake-up from {left} to {came}");
            continue;
        }
        blocked += 1;
    }
    assert!(blocked > 10, "it waited {blocked} times");
    let by_pong = wakeups.iter().filter(|wakeup| (wakeup.subject >> 32) as u32 == pong).count();
    assert!(by_pong > 10, "{by_pong} of {} wake-ups by the other", wakeups.len());
    assert!(wakeups.iter().all(|wakeup| wakeup.detail == usual()));
}

#[test]
fn switches_tier_sees_when_the_program_was_on_and_whether_it_was_preempted() {
    let _alone = alone();
    let (core, core_text) = last_core();
    let program = Program::waiting("ping_pong", &[("CORE", &core_text)]);
    let hog = Hog::on(core);
    let asked = request(program.id(), Wanted::Exactly(Tier::Switches));
    let started = match Collector::start(&asked) {
        Ok(started) => started,
        Err(error) => return eprintln!("SKIP: {error}"),
    };
    assert_eq!((started.tier, started.futex), (Tier::Switches, false));
    let seen = collect(started, program);
    assert_eq!(seen.lost(), 0, "{:?}", seen.collected.processors);
    let (ping, pong) = (seen.thread("ping"), seen.thread("pong"));
    seen.alternates(ping);
    seen.alternates(pong);
    let off = |record: &&Record| record.kind == Kind::OffCpu && record.subject as u32 == ping;
    let records = seen.records();
    let preempted = records.iter().filter(off).filter(|record| record.detail == 1).count();
    let waited = records.iter().filter(off).filter(|record| record.detail == 0).count();
    assert!(waited > 10, "it waited {waited} times");
    match hog {
        Some(_) => assert!(preempted >= 5, "{preempted} times preempted"),
        None => eprintln!("SKIP: no real-time priority, so nothing preempts for sure"),
    }
    assert_eq!(seen.task(ping), ("ping", seen.process));
    assert_eq!(seen.task(pong), ("pong", seen.process));
    let threads: BTreeSet<u64> = records.iter().map(|record| record.subject).collect();
    let tasks = &seen.collected.tasks;
    let programs = |thread: u64| tasks.iter().any(|task| u64::from(task.thread) == thread);
    assert!(threads.iter().all(|thread| programs(*thread)), "{threads:?} {tasks:?}");
    assert!(tasks.iter().all(|task| task.pid == seen.process), "{tasks:?}");
}

#[test]
fn both_tiers_agree_on_when_a_thread_ran() {
    need_root!();
    let _alone = alone();
    let (_, core) = last_core();
    let program = Program::waiting("ping_pong", &[("CORE", &core)]);
    let start = |tier| Collector::start(&request(program.id(), Wanted::Exactly(tier))).unwrap();
    let (scheduler, switches) = (start(Tier::Scheduler), start(Tier::Switches));
    let first = Reading::take();
    let process = program.id();
    let said = program.run();
    let clock = Calibration::between(first, Reading::take()).unwrap();
    let seen = |started: Started| {
        let collected = started.collector.finish(&clock);
        Seen { collected, said: said.clone(), process, before: 0, after: u64::MAX }
    };
    let (scheduler, switches) = (seen(scheduler), seen(switches));
    let ping = scheduler.thread("ping");
    let visits = switches.visits(ping);
    // The two stamp the same switch one after the other, with nothing but the kernel between, and
    // perhaps a hypervisor. Either may miss some: the tracer of a virtual machine was seen to leave
    // out switches, and of a pair that is missing nothing tells.
    let near = clock.ticks(clock.ns(0) + 2_000_000) - clock.ticks(clock.ns(0));
    let known = scheduler.visits(ping);
    let twins = |of: &[(u64, bool, Record)], among: &[(u64, bool, Record)]| {
        let has_twin = |(time, on, _): &(u64, bool, Record)| {
            among.iter().any(|twin| twin.1 == *on && twin.0.abs_diff(*time) < near)
        };
        let agreed = of.iter().filter(|visit| has_twin(visit)).count();
        assert!(agreed * 20 >= of.len() * 19, "{agreed} of {}", of.len());
    };
    assert!(known.len() > 40, "{} switches", known.len());
    twins(&known, &visits);
    let reported = visits.into_iter().filter(|visit| !scheduler.is_unknown(visit.0, visit.0));
    twins(&reported.collect::<Vec<_>>(), &known);
}

#[test]
fn futex_calls_are_those_of_the_program_alone() {
    need_root!();
    let _alone = alone();
    let (_, core) = last_core();
    let program = Program::waiting("ping_pong", &[("CORE", &core), ("COMPUTE_US", "100")]);
    let mut asked = request(program.id(), Wanted::Auto);
    asked.futex = true;
    let started = Collector::start(&asked).unwrap();
    if !started.futex {
        return eprintln!("SKIP: {:?}", started.reasons);
    }
    assert_eq!(our_instances().len(), 2);
    let seen = collect(started, program);
    assert_eq!(our_instances().len(), 0);
    let mut open = BTreeMap::new();
    let mut waits = 0;
    for record in seen.records() {
        match record.kind {
            Kind::FutexEnter => {
                assert_eq!(seen.task(record.number).1, seen.process, "{record:?}");
                assert!(record.subject > 4096);
                assert!(open.insert(record.number, record.time).is_none(), "{record:?}");
                let command = (record.detail >> 32) & 0x7f;
                waits += usize::from(command == 0 || command == 9);
            }
            Kind::FutexExit => {
                let entered = open.remove(&record.number).expect("a call that began");
                assert!(entered <= record.time);
            }
            _ => {}
        }
    }
    assert!(waits > 10, "{waits} futex waits");
    seen.alternates(seen.thread("ping"));
}

#[test]
fn inherited_priority_comes_and_goes() {
    need_root!();
    let _alone = alone();
    let program = Program::waiting("inherit", &[]);
    let started =
        Collector::start(&request(program.id(), Wanted::Exactly(Tier::Scheduler))).unwrap();
    let seen = collect(started, program);
    let low = u64::from(seen.thread("low"));
    let records = seen.records();
    let boosts = records.iter().filter(|record| record.kind == Kind::Boost);
    let own: Vec<u64> = boosts.filter(|boost| boost.subject == low).map(|b| b.detail).collect();
    assert_eq!(own, [usual() << 32 | 79, 79 << 32 | usual()]);
}

#[test]
fn small_buffers_keep_the_first_or_the_last_events_and_say_what_is_missing() {
    need_root!();
    let _alone = alone();
    let (core, text) = last_core();
    for keep_last in [false, true] {
        let settings = [("CORE", text.as_str()), ("ROUNDS", "3000"), ("COMPUTE_US", "0")];
        let program = Program::waiting("ping_pong", &settings);
        let mut asked = request(program.id(), Wanted::Exactly(Tier::Scheduler));
        (asked.keep_last, asked.bytes_per_processor) = (keep_last, 16 << 10);
        let started = Collector::start(&asked).unwrap();
        let seen = collect(started, program);
        let streams = &seen.collected.processors;
        let stream = streams.iter().find(|stream| stream.processor == core as u32).unwrap();
        let lost: u64 = stream.lost.iter().map(|range| range.count).sum();
        assert!(lost > 4000, "{lost} lost, keep_last {keep_last}");
        let (first, last) = (stream.records.first().unwrap(), stream.records.last().unwrap());
        let range = *stream.lost.iter().max_by_key(|range| range.count).unwrap();
        if keep_last {
            assert!(range.last <= first.time && range.first <= seen.before, "{range:?}");
        } else {
            assert!(range.first >= last.time && range.last >= seen.after, "{range:?}");
        }
    }
}

#[test]
fn full_lists_of_the_switches_tier_are_counted() {
    let _alone = alone();
    let (core, text) = last_core();
    for keep_last in [false, true] {
        let settings = [("CORE", text.as_str()), ("ROUNDS", "2000"), ("COMPUTE_US", "0")];
        let program = Program::waiting("ping_pong", &settings);
        let mut asked = request(program.id(), Wanted::Exactly(Tier::Switches));
        (asked.keep_last, asked.bytes_per_processor) = (keep_last, 100 * 32);
        let started = match Collector::start(&asked) {
            Ok(started) => started,
            Err(error) => return eprintln!("SKIP: {error}"),
        };
        let seen = collect(started, program);
        let streams = &seen.collected.processors;
        let stream = streams.iter().find(|stream| stream.processor == core as u32).unwrap();
        assert_eq!(stream.records.len(), 100);
        let lost: u64 = stream.lost.iter().map(|range| range.count).sum();
        assert!(lost > 3000, "{lost} lost");
        let (first, last) = (stream.records[0].time, stream.records[99].time);
        let at_the_side = stream
            .lost
            .iter()
            .filter(|range| if keep_last { range.last <= first } else { range.first >= last });
        assert!(at_the_side.map(|range| range.count).sum::<u64>() > 3000, "{:?}", stream.lost);
    }
}

#[test]
fn nothing_is_left_behind_however_a_collector_ends() {
    need_root!();
    let _alone = alone();
    let mounts = tracefs_mounts();
    let program = Program::waiting("ping_pong", &[]);
    let mut asked = request(program.id(), Wanted::Exactly(Tier::Scheduler));
    asked.futex = true;
    let started = Collector::start(&asked).unwrap();
    let running = our_instances().len();
    assert_eq!(running, 1 + usize::from(started.futex));
    assert_eq!(tracefs_mounts(), mounts, "nobody else sees the mount");
    drop(started);
    assert_eq!(our_instances(), [] as [String; 0], "after a drop");
    let started = Collector::start(&asked).unwrap();
    let panicking = std::thread::spawn(move || {
        let _started = started;
        panic!("expected by the test");
    });
    assert!(panicking.join().is_err());
    assert_eq!(our_instances(), [] as [String; 0], "after a panic");
    let started = Collector::start(&asked).unwrap();
    collect(started, program);
    assert_eq!(our_instances(), [] as [String; 0], "after the end");
    asked.process = 0;
    let _ = Collector::start(&asked);
    assert_eq!(our_instances().len(), 0, "after a start for no process");
    assert_eq!(tracefs_mounts(), mounts);
}

#[test]
fn remains_of_killed_recordings_are_removed_and_nothing_else() {
    need_root!();
    let _alone = alone();
    let mut dead = Command::new("/bin/true").spawn().unwrap();
    dead.wait().unwrap();
    let stale = format!("keeptime-{}-0123456789abcdef", dead.id());
    let alive = format!("keeptime-{}-0123456789abcdef", std::process::id());
    let others = [format!("keeptime-{}-theirs", dead.id()), alive];
    let look = Look::mount();
    let made = [&stale, &others[0], &others[1]].map(|name| look.instance(name));
    made.iter().for_each(|instance| std::fs::create_dir(instance).unwrap());
    let program = Program::waiting("ping_pong", &[("ROUNDS", "1")]);
    let started =
        Collector::start(&request(program.id(), Wanted::Exactly(Tier::Scheduler))).unwrap();
    let left = look.instances();
    made.iter().for_each(|instance| drop(std::fs::remove_dir(instance)));
    let seen = collect(started, program);
    assert!(others.iter().all(|other| left.contains(other)), "{left:?}");
    assert!(!left.contains(&stale), "{left:?}");
    assert!(seen.collected.notes.iter().any(|note| note.contains(&stale)));
}

#[test]
fn auto_falls_back_with_a_reason_when_the_tracer_is_out_of_reach() {
    if is_root() {
        return eprintln!("SKIP: root may have everything; see the test that is somebody else");
    }
    let program = Program::waiting("ping_pong", &[("ROUNDS", "1"), ("CORE", "0")]);
    let refused = Collector::start(&request(program.id(), Wanted::Exactly(Tier::Scheduler)));
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("sudo keeptime run"), "{message}");
    let mut asked = request(program.id(), Wanted::Auto);
    asked.futex = true;
    let started = Collector::start(&asked).unwrap();
    assert!(started.tier < Tier::Scheduler && !started.futex);
    assert!(started.reasons.iter().any(|reason| reason.contains(&message)));
    assert!(started.reasons.iter().any(|reason| reason.contains("futex")));
    eprintln!("reasons: {:#?}", started.reasons);
    // A process that does not exist: nothing is left but the lowest tier.
    let mut dead = Command::new("/bin/true").spawn().unwrap();
    dead.wait().unwrap();
    let started = Collector::start(&request(dead.id(), Wanted::Auto)).unwrap();
    assert_eq!((started.tier, started.reasons.len()), (Tier::Preload, 2));
}

#[test]
fn preload_tier_collects_nothing_and_promises_no_futex_calls() {
    let mut asked = request(std::process::id(), Wanted::Exactly(Tier::Preload));
    asked.futex = true;
    let started = Collector::start(&asked).unwrap();
    assert_eq!((started.tier, started.futex, started.reasons.len()), (Tier::Preload, false, 1));
    let first = Reading::take();
    compute(Duration::from_millis(1));
    let clock = Calibration::between(first, Reading::take()).unwrap();
    assert_eq!(started.collector.finish(&clock), Collected::default());
}

/// The tests of what needs no privilege, as user 65534.
#[test]
fn user_without_privileges_gets_the_switches_tier() {
    need_root!();
    let _alone = alone();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.uid(65534).gid(65534).current_dir("/").args([
        "auto_falls_back_with_a_reason_when_the_tracer_is_out_of_reach",
        "full_lists_of_the_switches_tier_are_counted",
        "switches_tier_sees_when_the_program_was_on_and_whether_it_was_preempted",
        "--exact",
        "--nocapture",
        "--test-threads=1",
    ]);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return eprintln!("SKIP: user 65534 cannot run this binary: {error}"),
    };
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success(), "{text}");
    assert!(text.contains("3 passed"), "{text}");
}

//! What the report says would help: the command where Keeptime has the remedy, and nothing that was
//! applied already.

mod late_findings;
#[path = "../../observe/late/tests/tape/mod.rs"]
mod late_tape;

use late_findings::{findings, text};
use late_tape::Tape;
use record::{Action, Class, Kind};
use report::late::{self, Findings, Look};
use trace::metadata::{Guard, GuardCounts, Module, Tier};

const M: u64 = 0x1000;
const LAUNCH: &str = "cuLaunchKernel";
const COPY: &str = "cuMemcpyHtoDAsync_v2";
/// An address in the only module of a tape.
const CALLER: u64 = 0x7000_1234;

/// The text as one line.
fn line(findings: &Findings<'_>) -> String {
    text(findings).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A launch that waits 1 ms for a mutex with these attributes, which a copying thread takes again
/// and again. The locks are taken from a module with this file.
fn unfair(file: &str, attributes: u32) -> Tape {
    let mut tape = Tape::new(Tier::Preload);
    let [infer, copier] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.metadata.command = ["./my app", "--name", "it's", "", "-n=3"].map(str::to_owned).into();
    if !file.is_empty() {
        let (start, end) = (0x7000_0000, 0x7001_0000);
        tape.metadata.modules.push(Module { process: 1, start, end, file: file.into() });
    }
    let caller = if file.is_empty() { 0 } else { CALLER };
    let takes = |tape: &mut Tape, stream, time| {
        let acquired = Kind::Lock(Class::Mutex, Action::Acquired);
        tape.put(stream, time, acquired, M, caller, attributes);
    };
    tape.usual(infer, 1_000, 4_000, LAUNCH, 1);
    tape.enter(copier, 990_000, COPY, 7, 64);
    takes(&mut tape, copier, 1_000_000);
    tape.enter(infer, 1_100_000, LAUNCH, 7, 1);
    tape.waits(infer, 1_100_000, Class::Mutex, M, 102);
    for turn in 0..4 {
        tape.releases(copier, 1_200_000 + turn * 100_000, M);
        takes(&mut tape, copier, 1_200_010 + turn * 100_000);
    }
    tape.releases(copier, 2_100_000, M);
    tape.exit(copier, 2_100_010);
    takes(&mut tape, infer, 2_100_020);
    tape.releases(infer, 2_100_100, M);
    tape.exit(infer, 2_100_200);
    tape
}

/// The same, guarded in this mode; the copying thread handed the mutex over once.
fn guarded(mode: &str, counts: GuardCounts) -> Tape {
    let mut tape = unfair("/lib/libcuda.so.1", 0);
    tape.metadata.guard = Some(Guard {
        mutexes: mode.to_owned(),
        phase_fair: true,
        bound_ns: 5_000_000,
        libraries: vec!["libcuda.so".to_owned()],
        counts,
        ..Guard::default()
    });
    let thread = tape.thread(1, 103);
    tape.put(thread, 3_000_000, Kind::Lock(Class::Mutex, Action::HandedOver), M, CALLER, 101);
    tape
}

#[test]
fn command_that_helps_is_printed_as_a_shell_takes_it() {
    let trace = unfair("/usr/lib/libcuda.so.535.1", 0).trace();
    let findings = findings(&trace);
    let command = r"keeptime run --guard fair+inherit -- './my app' --name 'it'\''s' '' -n=3";
    let said = text(&findings);
    assert!(said.contains(&format!("\nTo try:\n  {command}\nt.kt: ")), "{said}");
    assert!(said.contains(&format!("\n       {command}\n")), "{said}");
    let json = late::json(&findings);
    assert_eq!(json["command_to_try"], command);
    assert_eq!(
        (&json["verdicts"][0]["command"], &json["verdicts"][0]["applied"]),
        (&command.into(), &serde_json::Value::Null)
    );
    let page = late::html(&findings, None).unwrap();
    let page = page.replace("&#x27;", "'").replace("&#x2f;", "/");
    assert_eq!(page.matches(&format!("<code>{command}</code>")).count(), 2, "{page}");
}

#[test]
fn command_on_a_narrow_terminal_goes_on_behind_a_backslash() {
    let trace = unfair("/usr/lib/libcuda.so.535.1", 0).trace();
    let findings = findings(&trace);
    let said = late::text(&findings, Look { width: 40, color: false });
    let (_, rest) = said.split_once("To try:\n").unwrap();
    let lines: Vec<&str> = rest.lines().take_while(|line| line.starts_with("  ")).collect();
    assert!(lines.len() > 1 && lines.iter().all(|line| line.chars().count() <= 40), "{lines:?}");
    let joined: String = lines.iter().map(|line| line.trim().trim_end_matches('\\')).collect();
    assert_eq!(joined, late::json(&findings)["command_to_try"].as_str().unwrap());
}

#[test]
fn command_reaches_the_library_that_takes_the_lock() {
    for (file, options) in [
        ("/lib/libcudart.so.12", ""),
        ("/opt/x/libpool.so.3", "--guard-from libpool.so "),
        ("/opt/x/app", "--guard-all "),
        ("", ""),
    ] {
        let trace = unfair(file, 0).trace();
        let command = format!("keeptime run --guard fair+inherit {options}-- './my app'");
        let said = line(&findings(&trace));
        assert!(said.contains(&format!("To try: {command}")), "{file}: {said}");
    }
}

#[test]
fn mutex_that_no_guard_can_change_gets_no_command() {
    const ROBUST: u32 = 16;
    const SHARED: u32 = 128;
    for attributes in [ROBUST, SHARED] {
        let trace = unfair("/lib/libcuda.so.1", attributes).trace();
        let findings = findings(&trace);
        let said = text(&findings);
        assert!(
            said.contains("Unfair hand-over") && !said.contains("keeptime run --guard f"),
            "{said}"
        );
        assert!(late::json(&findings)["command_to_try"].is_null());
    }
}

#[test]
fn what_is_applied_is_not_advised_again_and_what_it_brought_is_said() {
    let counts = GuardCounts { handed_over: 7, lent: 2, outlasted_bound: 3, ..Default::default() };
    let trace = guarded("fair+inherit", counts).trace();
    let findings = findings(&trace);
    let said = line(&findings);
    for expected in [
        "Why: Unfair hand-over at mutex M1. What would help: shorter holds.",
        "The guard fair+inherit (bound 5 ms) was on: 7 hand-overs, 2 waits lent a priority and 3 \
         waits longer than the bound.",
        "Guarded already (--guard fair+inherit): it was handed over once; 2 waits lent a priority in \
         the whole program. - Hold the lock for less time",
    ] {
        assert!(said.contains(expected), "{expected}: {said}");
    }
    for advice in ["Use a mutex that is handed", "PTHREAD_PRIO_INHERIT", "To try:", "-- './my app'"]
    {
        assert!(!said.contains(advice), "{advice}: {said}");
    }
    let verdict = &late::json(&findings)["verdicts"][0];
    assert!(verdict["command"].is_null());
    assert!(verdict["applied"].as_str().unwrap().contains("handed over once"), "{verdict}");
    let remedies = verdict["remedies"].as_array().unwrap();
    assert_eq!((remedies.len(), &remedies[0]["remedy"]), (1, &"shorter_holds".into()));
    let page = late::html(&findings, None).unwrap();
    assert!(page.contains("it was handed over once;") && page.contains("bound 5 ms) was on"));
}

#[test]
fn guard_that_lacks_a_remedy_is_completed() {
    let trace = guarded("inherit", GuardCounts::default()).trace();
    let said = line(&findings(&trace));
    assert!(
        said.contains("Guarded already (--guard inherit): it had priority inheritance."),
        "{said}"
    );
    assert!(said.contains("- Use a mutex that is handed"), "{said}");
    assert!(!said.contains("PTHREAD_PRIO_INHERIT"), "{said}");
    assert!(said.contains("To try: keeptime run --guard fair+inherit -- './my app'"), "{said}");
    let trace = guarded("fair", GuardCounts::default()).trace();
    let said = line(&findings(&trace));
    assert!(
        said.contains("Guarded already (--guard fair): it was handed over once. - Make it a mutex"),
        "{said}"
    );
    assert!(!said.contains("- Use a mutex that is handed"), "{said}");
}

#[test]
fn lock_that_the_guard_was_not_responsible_for_is_advised() {
    let mut tape = guarded("fair+inherit", GuardCounts::default());
    tape.metadata.modules[0].file = "/opt/libpool.so".into();
    let trace = tape.trace();
    let said = line(&findings(&trace));
    assert!(!said.contains("Guarded already"), "{said}");
    let command = "To try: keeptime run --guard fair+inherit --guard-from libpool.so -- './my app'";
    assert!(said.contains(command), "{said}");
}

/// A launch at this real-time priority that waits for a lock whose holder is preempted by a thread
/// between both.
fn held_up(class: Class, waiter: u16) -> Tape {
    let mut tape = Tape::new(Tier::Scheduler);
    tape.metadata.command = vec!["drive".to_owned()];
    let [a, b] = [101, 102].map(|tid| tape.thread(1, tid));
    let [p, q] = [0, 1].map(|number| tape.processor(number));
    tape.switch(p, 10, (0, 120), (102, 139), 0);
    tape.switch(q, 20, (0, 120), (101, waiter), 0);
    tape.enter(b, 90, COPY, 7, 64);
    tape.lock(b, 100, class, Action::Acquired, M);
    tape.usual(a, 200, 10, LAUNCH, 1);
    tape.enter(a, 1_200, LAUNCH, 7, 1);
    tape.waits(a, 1_300, class, M, 102);
    tape.switch(q, 1_320, (101, waiter), (0, 120), 1);
    tape.switch(p, 1_400, (102, 139), (900, 110), 0);
    tape.switch(p, 901_000, (900, 110), (102, 139), 1);
    let released = if class == Class::Mutex { class } else { Class::ReadWrite };
    tape.lock(b, 902_000, released, Action::Released, M);
    tape.exit(b, 902_010);
    tape.wakeup(p, 902_010, 102, (101, waiter));
    tape.switch(q, 902_020, (0, 120), (101, waiter), 0);
    tape.lock(a, 902_030, class, Action::Acquired, M);
    tape.lock(a, 902_040, released, Action::Released, M);
    tape.exit(a, 902_050);
    tape
}

#[test]
fn priority_is_lent_only_by_real_time_threads_and_at_read_write_locks_with_an_option() {
    let trace = held_up(Class::Mutex, 49).trace();
    let said = line(&findings(&trace));
    let why = "Why: Priority inversion at mutex M1. What would help: priority inheritance and a \
        real-time priority. To try: keeptime run --guard fair+inherit -- drive";
    assert!(said.contains(why), "{said}");
    let trace = held_up(Class::Write, 49).trace();
    let said = line(&findings(&trace));
    assert!(
        said.contains("To try: keeptime run --guard fair+inherit --guard-boost -- drive"),
        "{said}"
    );
    let trace = held_up(Class::Mutex, 120).trace();
    let said = line(&findings(&trace));
    let why = "Why: Preempted holder at mutex M1. What would help: a real-time priority and \
        priority inheritance.";
    assert!(said.contains(why), "{said}");
}

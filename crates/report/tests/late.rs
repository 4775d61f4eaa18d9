//! The report of a trace, through its public door: small programs on a tape, and what is said of
//! them in a terminal, to machines and on a page.

mod late_findings;
#[path = "../../observe/late/tests/tape/mod.rs"]
mod late_tape;
mod whole;

use ::late::Group;
use late_findings::{findings, text};
use late_tape::Tape;
use record::layout::host_copy;
use record::{Action, Class, Kind};
use report::late::{self, Focus, Look};
use trace::metadata::{Kernel, ProgramEnd, Task as Named, Tier, TroubleCount};

const M: u64 = 0x1000;
const N: u64 = 0x2000;
const R: u64 = 0x3000;
const LAUNCH: &str = "cuLaunchKernel";
const COPY: &str = "cuMemcpyHtoDAsync_v2";
const INFER: u32 = 4712;
const COPIER: u32 = 4711;
const HOG: u32 = 900;
const KERNEL: u64 = 0x77;

/// Two hundred launches of 4 us, each with a read lock, and in it a mutex for 1 us; and one of
/// 1 ms that has to wait for that mutex, since a copy of 4 MiB has it. The copy's thread is
/// preempted for 300 us by one that has nothing to do with it.
fn late_launch(names: [&str; 2]) -> Tape {
    let mut tape = Tape::new(Tier::Scheduler);
    let (infer, copier) = (tape.thread(1, INFER), tape.thread(1, COPIER));
    let (first, second) = (tape.processor(0), tape.processor(1));
    tape.metadata.command = vec!["drive".to_owned(), "--fast".to_owned()];
    tape.metadata.tasks = vec![Named { thread: HOG, pid: HOG, name: "hog".to_owned() }];
    let name = "saxpy<float>".to_owned();
    tape.metadata.kernels = vec![Kernel { process: 1, handle: KERNEL, name }];
    tape.name(infer, 1, names[0], 1, 50);
    tape.name(copier, 1, names[1], 0, 0);
    tape.switch(first, 10, (0, 120), (COPIER, 120), 0);
    tape.switch(second, 10, (0, 120), (INFER, 49), 0);

    tape.enter(copier, 990_000, COPY, 7, host_copy(4 << 20, false));
    tape.takes(copier, 1_000_000, M);
    tape.enter(infer, 1_100_000, LAUNCH, 7, KERNEL);
    tape.lock(infer, 1_100_100, Class::Read, Action::Acquired, R);
    tape.waits(infer, 1_101_000, Class::Mutex, M, COPIER);
    tape.switch(second, 1_101_000, (INFER, 49), (0, 120), 1);
    tape.switch(first, 1_200_000, (COPIER, 120), (HOG, 110), 0);
    tape.switch(first, 1_500_000, (HOG, 110), (COPIER, 120), 0);
    tape.releases(copier, 2_088_000, M);
    tape.wakeup(first, 2_088_000, COPIER, (INFER, 49));
    tape.exit(copier, 2_090_000);
    tape.switch(second, 2_090_000, (0, 120), (INFER, 49), 0);
    tape.takes(infer, 2_090_000, M);
    tape.releases(infer, 2_091_000, M);
    tape.lock(infer, 2_091_500, Class::ReadWrite, Action::Released, R);
    tape.exit(infer, 2_100_000);

    for call in 0..200 {
        let begin = 10_000_000 + call * 10_000;
        tape.enter(infer, begin, LAUNCH, 7, KERNEL);
        tape.lock(infer, begin + 500, Class::Read, Action::Acquired, R);
        tape.takes(infer, begin + 1_000, M);
        tape.releases(infer, begin + 2_000, M);
        tape.lock(infer, begin + 3_000, Class::ReadWrite, Action::Released, R);
        tape.exit(infer, begin + 4_000);
    }
    tape
}

/// The median is the upper edge of its bucket, at most 1/32 above the true one.
const HEADLINE: &str = "worst launch: 1 ms (usual 4.03 us): 99 % waiting for mutex M1, held by copy-3 \
    (4711) inside cuMemcpyHtoDAsync (pageable, 1 to 16 MiB), who was preempted by hog (900) for 30 % \
    of that";

#[test]
fn headline_says_how_late_it_was_and_who_made_it_wait() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    assert_eq!(late::headline(&findings(&trace)), HEADLINE);
}

/// Two threads take two mutexes in different orders; a third one waits for a condition.
fn deadlock() -> Tape {
    let mut tape = Tape::new(Tier::Preload);
    let [main, worker, idle] = [101, 102, 103].map(|tid| tape.thread(1, tid));
    tape.name(main, 1, "main", 0, 0);
    tape.name(worker, 1, "worker", 0, 0);
    tape.takes(main, 1_000_000, M);
    tape.takes(worker, 2_000_000, N);
    tape.condition(idle, 3_000_000, Action::Waiting, R, 0, 0);
    tape.waits(main, 10_000_000, Class::Mutex, N, 102);
    tape.waits(worker, 20_000_000, Class::Mutex, M, 101);
    tape.metadata.outcome = ProgramEnd::Killed(9);
    tape
}

#[test]
fn deadlock_is_the_first_thing_that_is_said() {
    let trace = deadlock().trace();
    let findings = findings(&trace);
    let circle = "deadlock: main (101) waits for mutex M2, which worker (102) has, who waits for \
        mutex M1, which main (101) has; since 20 ms after the start, 80 ms until the program was \
        killed by signal 9";
    assert_eq!(late::headline(&findings), circle);
    let said = text(&findings);
    assert!(said.starts_with("deadlock: main (101) waits for mutex M2,"), "{said}");
    assert!(said.contains("\nWaits that did not end\n"), "{said}");
    assert!(
        said.contains("- thread 103 waits for condition C1 since 3 ms after the start"),
        "{said}"
    );
    assert!(!said.contains("Nothing that Keeptime knows of"), "{said}");
    let value = late::json(&findings);
    assert_eq!(value["circles"], serde_json::json!([[0, 1]]));
    let first = &value["open_waits"][0];
    assert_eq!((&first["lock"], &first["at_ns"]), (&"M2".into(), &10_000_000.into()));
    assert_eq!(first["holders"][0]["waits"], 1);
    let page = late::html(&findings, None).unwrap();
    whole::check(&page);
    assert!(page.contains("<h2>Waits that did not end</h2>"));
    assert!(page.contains("which worker (102) has, who waits for mutex M1"));
}

#[test]
fn wait_that_never_ended_is_said_before_calls_that_were_shorter() {
    let mut tape = late_launch(["infer", "copy-3"]);
    let stuck = tape.thread(1, 55);
    tape.waits(stuck, 50_000_000, Class::Mutex, N, 4711);
    let trace = tape.trace();
    let findings = findings(&trace);
    assert_eq!(
        late::headline(&findings),
        "thread 55 waits for mutex M2 since 50 ms after the start, 50 ms until recording ended; \
         copy-3 (4711) has it, whose last record is of 2.09 ms"
    );
    let said = text(&findings);
    assert!(said.contains("Of the calls that returned, the worst launch: 1 ms"), "{said}");
}

#[test]
fn waits_that_end_by_their_time_limit_are_said_as_such() {
    let mut tape = Tape::new(Tier::Preload);
    let [main, worker] = [101, 102].map(|tid| tape.thread(1, tid));
    tape.takes(main, 1_000_000, M);
    tape.waits(worker, 2_000_000, Class::Mutex, M, 101);
    let failed = Kind::Lock(Class::Mutex, Action::Failed);
    tape.put(worker, 9_000_000, failed, M, 0, 110);
    tape.releases(main, 10_000_000, M);
    let trace = tape.trace();
    let findings = findings(&trace);
    assert_eq!(
        late::headline(&findings),
        "no call of the CUDA driver was recorded; the longest wait for a lock was 7 ms for mutex M1 \
         by thread 102, which gave up without it"
    );
    assert_eq!(late::json(&findings)["locks"][0]["timed_out"], 1);
}

#[test]
fn worst_call_is_taken_apart_into_shares_that_add_up() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let text = text(&findings(&trace));
    let block = "
Worst launches
  1  1 ms (usual 4.03 us): cuLaunchKernel in infer (4712), 1.1 ms after the start
     kernel saxpy<float>
     987.0 us   98.7 %  ███████████████▊ waiting for mutex M1
     687.0 us   68.7 %                     held by copy-3 (4711) inside cuMemcpyHtoDAsync (pageable,
                                             1 to 16 MiB)
     300.0 us   30.0 %                     held by copy-3 (4711) inside cuMemcpyHtoDAsync (pageable,
                                             1 to 16 MiB), who was preempted by hog (900)
      11.0 us    1.1 %  ▏                executing
       2.0 us    0.2 %  ▏                woken to take mutex M1, but waiting for a processor, which
                                           was idle, to wake up
";
    assert!(text.contains(block), "{text}");
}

#[test]
fn answer_comes_first_then_numbers_then_what_is_not_known() {
    let mut tape = late_launch(["infer", "copy-3"]);
    tape.metadata.troubles =
        vec![TroubleCount { trouble: "a clock ran backwards".into(), count: 2 }];
    let trace = tape.trace();
    let text = text(&findings(&trace));
    assert!(text.starts_with("worst launch: 1 ms (usual 4.03 us): 99 % waiting"), "{text}");
    let headings = [
        "\nIt was cuLaunchKernel in infer (4712), 1.1 ms after the start.\n",
        "\nWhy: Long hold at mutex M1. What would help: pinned memory and smaller copies.",
        "t.kt: drive --fast, 100 ms, ",
        "\nCalls\n",
        "\nWorst launches\n",
        "\nLocks\n",
        "\nFindings and remedies\n",
        "\nLocking pattern\n",
        "\nLocks per call\n",
        "\nLimits of the recording\n",
        "The recorder noted 2 times: a clock ran backwards.",
    ];
    let places: Vec<usize> = headings
        .iter()
        .map(|heading| text.find(heading).unwrap_or_else(|| panic!("{heading}: {text}")))
        .collect();
    assert!(places.is_sorted(), "{text}");
}

#[test]
fn quantiles_of_too_few_calls_are_not_shown() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let findings = findings(&trace);
    let text = text(&findings);
    let line = |begin: &str| {
        let table = text.split("\nCalls\n").nth(1).unwrap();
        let line = table.lines().find(|line| line.trim_start().starts_with(begin));
        line.unwrap_or_else(|| panic!("{begin}: {text}"))
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("cuLaunchKernel"), "cuLaunchKernel 201 4.03 us 4.03 us - 1.00 ms 2 55 %");
    let copy = line("cuMemcpyHtoDAsync");
    assert!(copy.ends_with("1 1.10 ms - - 1.10 ms 1 0.0 %"), "{copy}");
    let json = late::json(&findings);
    let duration = &json["calls"][0]["duration"];
    assert_eq!((duration["p99_ns"].as_u64(), duration["p99_9_ns"].as_u64()), (Some(4_031), None));
    assert_eq!(duration["max_ns"], 1_000_000);
}

#[test]
fn locks_are_named_with_what_they_are_who_takes_them_and_both_distributions() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let text = text(&findings(&trace));
    for expected in [
        "1 mutex: none has priority inheritance; a holder that is preempted keeps the others out.",
        "1 read-write lock: 1 prefers readers.",
        "  M1*   mutex, normal, no inheritance     cuLaunchKernel 201, cuMemcpyHtoDAsync 1\n",
        "  R1    read-write lock, prefers readers  cuLaunchKernel 201\n",
        "  M1            202       1    989 us    -  989 us   1.01 us  1.01 us  1.09 ms\n",
        "  R1    read    201       0         -    -       -   2.56 us  2.56 us   991 us\n",
        "* shared by launches and other calls",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
}

#[test]
fn report_for_machines_lists_as_many_locks_as_wanted_and_those_it_refers_to() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let mut findings = findings(&trace);
    let names = |json: &serde_json::Value| -> Vec<String> {
        let locks = json["locks"].as_array().unwrap();
        locks.iter().map(|lock| lock["name"].as_str().unwrap().to_owned()).collect()
    };
    let all = late::json(&findings);
    assert_eq!(names(&all), ["M1", "R1"]);
    assert_eq!(
        all["locks_left_out"],
        serde_json::json!({ "locks": 0, "acquisitions": 0, "contended": 0 })
    );
    // A lock that nothing refers to.
    let mut idle = findings.survey.locks[0].clone();
    idle.name = "M2".to_owned();
    (idle.in_launches, idle.others.contended) = (false, 0);
    findings.survey.locks.push(idle);
    findings.locks = 0;
    let few = late::json(&findings);
    assert_eq!(names(&few), ["M1", "R1"]);
    let numbers: Vec<_> = few["locks"].as_array().unwrap().iter().map(|l| &l["number"]).collect();
    assert_eq!(numbers, [0, 1]);
    assert_eq!(
        few["locks_left_out"],
        serde_json::json!({ "locks": 1, "acquisitions": 202, "contended": 0 })
    );
    findings.locks = 3;
    assert_eq!(names(&late::json(&findings)), ["M1", "R1", "M2"]);
}

#[test]
fn pattern_shows_nested_locks_over_the_time_of_a_call() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let text = text(&findings(&trace));
    let pattern = "
  launches of cuLaunchKernel: the same for 201 calls that took a lock
  lock          from         to  0                                                    4.03 us
  R1 read     500 ns       3 us         [====================================]
    M1*         1 us       2 us                [==============]
";
    assert!(text.contains(pattern), "{text}");
    assert!(text.contains("* shared: mutex M1 by launches and copies\n"), "{text}");
    let table = text.split("\nLocks per call\n").nth(1).unwrap();
    let launch = table.lines().nth(1).unwrap().split_whitespace().collect::<Vec<_>>();
    assert_eq!(launch, ["launch", "cuLaunchKernel", "201", "2", "2", "1", "1", "2", "100", "%"]);
    assert!(table.lines().nth(2).unwrap().starts_with("  pageable copy  cuMemcpyHtoDAsync"));
}

#[test]
fn narrow_terminals_are_kept_to() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let findings = findings(&trace);
    for width in [40, 60, 80, 100, 200] {
        let text = late::text(&findings, Look { width, color: false });
        let wide = text.lines().find(|line| line.chars().count() > width);
        assert_eq!(wide, None, "{width}");
        assert!(text.contains("M1*"), "{width}: {text}");
    }
    let coloured = late::text(&findings, Look { width: 100, color: true });
    assert!(coloured.contains("\u{1b}["));
    assert!(!text(&findings).contains('\u{1b}'));
}

#[test]
fn names_from_outside_can_neither_move_the_cursor_nor_write_a_page() {
    let trace = late_launch(["<script>x", "a\u{1b}[2J&b"]).trace();
    let findings = findings(&trace);
    let text = text(&findings);
    assert!(!text.contains('\u{1b}') && text.contains("a\u{fffd}[2J&b (4711)"), "{text}");
    let page = late::html(&findings, None).unwrap();
    whole::check(&page);
    assert!(!page.contains("<script"), "a name became a tag");
    assert!(page.contains("&lt;script&gt;x (4712)") && page.contains("saxpy&lt;float&gt;"));
}

#[test]
fn page_needs_nothing_else_and_says_what_the_text_says() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let findings = findings(&trace);
    let page = late::html(&findings, None).unwrap();
    whole::check(&page);
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    for foreign in ["http:", "https:", "src=", "@import", "url(", "<link", "<script"] {
        assert!(!outside.contains(foreign), "{foreign}");
    }
    let headline = format!("Worst{}.", &HEADLINE["worst".len()..]);
    for expected in [
        headline.as_str(),
        "Priority inversion at mutex M1",
        "<span>987.0 us</span><span>98.7 %</span>",
        "M1*<small>mutex, normal, no inheritance</small><small>shared by launches and copies</small>",
        "aria-label=\"Locks that cuLaunchKernel holds, and when\"",
        "R1 read (read-write lock, prefers readers): from 500 ns to 3 us, held 2.5 us",
        "inside 1 other lock",
        "infer (4712)",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    let timeline = "<section id=\"timeline\">here</section>".to_owned();
    assert!(late::html(&findings, Some(timeline.clone())).unwrap().contains(&timeline));
}

#[test]
fn json_is_one_object_with_these_keys_whose_parts_add_up() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let json = late::json(&findings(&trace));
    assert_eq!(
        (json["schema"].as_str(), json["version"].as_u64()),
        (Some("keeptime.late"), Some(1))
    );
    let keys: Vec<&str> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = "schema version partial headline beside command_to_try file command outcome machine tier tier_reasons \
        settings guard duration_ns records unknown losses calls worst unfinished open_waits circles audit locks \
        locks_left_out forgotten_locks verdicts sequences graph_advice threads launches load gpu";
    assert_eq!(keys, expected.split_whitespace().collect::<Vec<_>>());
    assert_eq!(json["headline"], HEADLINE);
    let worst = json["worst"].as_array().unwrap();
    assert_eq!(worst.len(), 1, "the others are not late");
    let ns = |value: &serde_json::Value| value["duration_ns"].as_u64().unwrap();
    let sum = |list: &serde_json::Value| list.as_array().unwrap().iter().map(ns).sum::<u64>();
    assert_eq!(
        (ns(&worst[0]), sum(&worst[0]["parts"]), sum(&worst[0]["timeline"])),
        (1_000_000, 1_000_000, 1_000_000)
    );
    for part in worst[0]["parts"].as_array().unwrap() {
        assert_eq!(sum(&part["details"]), ns(part), "{part}");
    }
    let lock = &worst[0]["parts"][0];
    assert_eq!((lock["what"].as_str(), lock["lock"].as_str()), (Some("lock"), Some("M1")));
    assert_eq!(lock["details"][0]["who"][0]["name"], "copy-3");
    let verdict = &json["verdicts"][0];
    assert_eq!(verdict["lock"], "M1");
    assert!(verdict["verdict"].is_string() && verdict["remedies"][0]["words"].is_string());
    assert_eq!(json["locks"][0]["takers"][0]["call"], "cuLaunchKernel");
    assert_eq!(json["locks"][0]["other"]["wait"]["max_ns"], 989_000);
}

#[test]
fn focus_chooses_which_calls_are_taken_apart() {
    let trace = late_launch(["infer", "copy-3"]).trace();
    let mut findings = findings(&trace);
    findings.focus = Focus::Group(Group::Copy);
    let copies = text(&findings);
    assert!(
        copies.contains("\nWorst copies\n  1  1.1 ms (usual 1.1 ms): cuMemcpyHtoDAsync"),
        "{copies}"
    );
    assert!(copies.contains("\n     4 MiB\n") && !copies.contains("Worst launches"), "{copies}");
    findings.focus = Focus::Function("cuMemAlloc".to_owned());
    assert!(text(&findings).contains("The trace has no whole call of cuMemAlloc."));
    findings.focus = Focus::All;
    let all = text(&findings);
    assert!(all.contains("Worst launches") && all.contains("Worst copies"), "{all}");
}

#[test]
fn usual_launches_are_not_called_late() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.usual(thread, 1_000, 5_000, LAUNCH, KERNEL);
    let trace = tape.trace();
    let text = text(&findings(&trace));
    assert!(text.starts_with("no launch was late: the worst took 5 us (usual 5 us)\n"), "{text}");
    assert!(!text.contains("Why:"), "{text}");
}

#[test]
fn launch_that_never_returned_is_the_worst_one() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.metadata.outcome = ProgramEnd::Killed(9);
    tape.usual(thread, 1_000, 5_000, LAUNCH, KERNEL);
    tape.enter(thread, 40_000_000, LAUNCH, 7, KERNEL);
    let trace = tape.trace();
    let text = text(&findings(&trace));
    let expected = "worst launch: cuLaunchKernel by thread 4712 had not returned when its records \
        ended, 60 ms";
    assert!(text.replace("\n  ", " ").starts_with(expected), "{text}");
    let returned = "Of those that returned, the worst launch: 5 us (usual 5 us): ";
    assert!(text.replace("\n  ", " ").contains(returned), "{text}");
    let unknown = "1 call had not returned when records ended, the longest cuLaunchKernel by thread \
        4712 after 60 ms; the program was killed by signal 9.";
    assert!(text.replace("\n    ", " ").contains(unknown), "{text}");
}

#[test]
fn call_that_takes_longer_than_usual_for_its_kind_comes_before_one_that_hardly_does() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.usual(thread, 1_000, 1_000_000, COPY, host_copy(8 << 20, false));
    tape.call(thread, 30_000_000, 31_500_000, COPY, host_copy(8 << 20, false));
    tape.usual(thread, 40_000_000, 4_000, COPY, host_copy(100, false));
    tape.call(thread, 50_000_000, 50_300_000, COPY, host_copy(100, false));
    let trace = tape.trace();
    let text = text(&findings(&trace));
    assert!(text.starts_with("worst copy: 300 us (usual 4.03 us): "), "{text}");
    assert!(!text.contains("1.5 ms (usual"), "{text}");
}

#[test]
fn first_launch_that_hangs_is_not_hidden_by_copies() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.usual(thread, 1_000, 5_000, COPY, host_copy(100, true));
    tape.enter(thread, 40_000_000, LAUNCH, 7, KERNEL);
    let trace = tape.trace();
    let headline = late::headline(&findings(&trace));
    assert!(
        headline.starts_with("worst launch: cuLaunchKernel by thread 4712 had not"),
        "{headline}"
    );
}

#[test]
fn calls_that_are_all_unknown_are_not_denied() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.enter(thread, 900_000, LAUNCH, 7, KERNEL);
    tape.lost(thread, 17, 900_100, 950_000);
    tape.cut(thread);
    tape.exit(thread, 960_000);
    let trace = tape.trace();
    let text = text(&findings(&trace));
    assert!(text.starts_with("no call returned while its records are whole"), "{text}");
    assert!(text.contains("No such call returned while its records are whole."), "{text}");
}

#[test]
fn program_without_launches_is_told_of_its_copies_or_locks() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, COPIER);
    tape.usual(thread, 1_000, 5_000, COPY, host_copy(100, true));
    tape.call(thread, 10_000_000, 10_500_000, COPY, host_copy(100, true));
    let trace = tape.trace();
    let copies = text(&findings(&trace));
    assert!(
        copies.starts_with("worst copy: 500 us (usual 5.12 us): 99 % unexplained: "),
        "{copies}"
    );
    assert!(copies.contains("No launch was recorded, so this is about copies."), "{copies}");
    assert!(copies.contains("cuMemcpyHtoDAsync (pinned, up to 4 KiB)"), "{copies}");

    let mut tape = Tape::new(Tier::Preload);
    let [a, b] = [1, 2].map(|tid| tape.thread(1, tid));
    tape.takes(a, 1_000, N);
    tape.waits(b, 2_000, Class::Mutex, N, 1);
    tape.releases(a, 702_000, N);
    tape.takes(b, 702_000, N);
    let trace = tape.trace();
    let locks = text(&findings(&trace));
    let expected = "no call of the CUDA driver was recorded; the longest wait for a lock was 700 us \
        for mutex M1 by thread 2";
    assert!(locks.replace("\n  ", " ").starts_with(expected), "{locks}");
    assert!(!locks.contains("Worst launches"), "{locks}");

    let trace = Tape::new(Tier::Preload).trace();
    let nothing = text(&findings(&trace));
    assert!(nothing.starts_with("the trace is empty: nothing was recorded\n"), "{nothing}");
    assert!(late::html(&findings(&trace), None).unwrap().contains("nothing was recorded"));
    assert!(late::json(&findings(&trace))["worst"].as_array().unwrap().is_empty());
}

#[test]
fn what_is_missing_is_said_with_how_to_get_it() {
    let mut tape = Tape::new(Tier::Preload);
    let thread = tape.thread(1, INFER);
    tape.metadata.tier_reasons = vec!["perf events are refused".to_owned()];
    tape.metadata.settings.contended_only = true;
    tape.metadata.settings.libraries = vec!["libcuda.so".to_owned()];
    tape.usual(thread, 1_000, 5_000, LAUNCH, KERNEL);
    tape.enter(thread, 900_000, LAUNCH, 7, KERNEL);
    tape.lost(thread, 17, 900_100, 950_000);
    tape.cut(thread);
    tape.exit(thread, 960_000);
    let trace = tape.trace();
    let findings = findings(&trace);
    let text = text(&findings).replace("\n    ", " ");
    for expected in [
        "- 17 records were lost for want of memory: record again with more --memory, or with \
         --contended.",
        "1 call reached into a time whose records are missing: no number counts them, and one of \
         them may have been the worst.",
        "- Tier preload: the trace does not say when threads were on a processor",
        "- Reason for this tier: perf events are refused.",
        "- Only locks that had to be waited for were recorded (--contended)",
        "- Only locks taken by libcuda.so were recorded; --all-locks records the program's own too.",
    ] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let unknown = late::json(&findings)["unknown"].as_array().unwrap().len();
    assert!(unknown >= 6, "{unknown}");
    assert!(!text.contains("Locking pattern"), "{text}");
}

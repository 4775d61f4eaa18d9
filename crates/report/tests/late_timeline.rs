//! The timeline of a page: its data, and what a browser makes of it.
//!
//! The browser is a Chromium on the path, without a window. Without one its tests say SKIP.

mod browser;
mod late_trace;
mod whole;

use browser::browsed;
use late::{Explained, Survey, explain, survey};
use late_trace::*;
use record::{Action, Class, Record};
use report::late::timeline::{Options, Section, section};
use report::late::{Findings, Focus, html};
use serde_json::{Value, json};
use std::path::PathBuf;
use trace::metadata::{Kernel, Tier};
use trace::{StreamKind, Trace};

fn passes(trace: &Trace) -> (Survey, Vec<Explained>) {
    let options = late::Options::default();
    let survey = survey(trace, &options, &mut |_, _| true).unwrap();
    let explained = explain(trace, &survey, &options).unwrap();
    (survey, explained)
}

fn shown(trace: &Trace, options: &Options) -> Section {
    let (survey, explained) = passes(trace);
    section(trace, &survey, &explained, options).unwrap()
}

/// Data for the page's script.
fn data(section: &Section) -> Value {
    let begin = "data-part=\"data\">";
    let from = section.html.find(begin).unwrap() + begin.len();
    let to = from + section.html[from..].find("</script>").unwrap();
    serde_json::from_str(&section.html[from..to]).unwrap()
}

/// The entries of a list of a window, as objects; tasks, locks and texts by their names.
fn list(data: &Value, window: usize, name: &str) -> Vec<Value> {
    let fields: Vec<&str> = data["lists"][name].as_str().unwrap().split(' ').collect();
    let numbers = data["windows"][window][name].as_array().unwrap();
    assert_eq!(numbers.len() % fields.len(), 0, "{name}");
    let entry = |entry: &[Value]| {
        let named = fields.iter().zip(entry).map(|(field, number)| {
            let of = |table: &str| number.as_u64().map(|at| data[table][at as usize].clone());
            let value = match (*field, name) {
                ("task" | "owner" | "giver" | "taker" | "waker" | "wakee", _) => {
                    of("tasks").map_or(Value::Null, |task| task[1].clone())
                }
                ("lock", _) => of("locks").unwrap()[0].clone(),
                ("name" | "note" | "text", _) => of("texts").unwrap(),
                ("cause", _) => of("causes").unwrap()[0].clone(),
                _ => number.clone(),
            };
            (field.to_string(), value)
        });
        Value::Object(named.collect())
    };
    numbers.chunks(fields.len()).map(entry).collect()
}

fn late(name: &str) -> Trace {
    let mut made = late_launch(name, Tier::Scheduler);
    scheduler(&mut made);
    made.finish()
}

/// Begin of the window, in nanoseconds from the begin of recording. The margin before the call at
/// 2,000 ns is longer than that, so the window begins with the recording.
const BEGIN: i64 = 0;

#[test]
fn data_is_what_happened_around_the_call() {
    let trace = late("timeline-data");
    let section = shown(&trace, &Options::default());
    let data = data(&section);
    assert_eq!((section.calls, data["tier"].as_str()), (4, Some("scheduler")));
    let window = &data["windows"][0];
    assert_eq!(window["label"], "cuLaunchKernel: 3.2 us, at 2 us");
    assert_eq!(window["call"], json!([2_000, 3_200]));
    let names = |numbers: &Value| -> Vec<String> {
        let name = |at: &Value| data["tasks"][at.as_u64().unwrap() as usize][1].clone();
        numbers.as_array().unwrap().iter().map(|at| name(at).as_str().unwrap().into()).collect()
    };
    assert_eq!(names(&window["rows"]), ["launch", "copy", "device"]);
    let call = list(&data, 0, "calls").into_iter().find(|call| call["flags"] == 8).unwrap();
    let note = "stream 0x9";
    assert_eq!(call["note"], note);
    assert_eq!((call["task"].as_str(), call["from"].as_i64()), (Some("launch"), Some(2_000)));
    let copies = list(&data, 0, "calls").into_iter().filter(|call| call["task"] == "copy");
    let copies: Vec<(i64, String)> = copies
        .map(|call| (call["duration"].as_i64().unwrap(), call["note"].as_str().unwrap().into()))
        .collect();
    let wanted = [
        (4_100, "4 MiB pageable, stream 0x7".to_owned()),
        (100, "4 KiB pageable, stream 0x7, its return is missing".to_owned()),
        (100, "4 KiB pageable, stream 0x7, returned error 1".to_owned()),
    ];
    assert_eq!(copies, wanted);
    let wait = json!({"task": "launch", "depth": 1, "from": 2_100 + BEGIN, "duration": 2_950,
        "lock": "M1", "owner": "copy", "flags": 0});
    assert_eq!(list(&data, 0, "waits")[0], wait);
    let hold = json!({"task": "copy", "lane": 0, "from": 1_100, "duration": 3_900, "lock": "M1",
        "flags": 0});
    assert_eq!(list(&data, 0, "holds")[0], hold);
    let arrow = |from: u32, giver: &str, to: u32, taker: &str, lock: &str| json!({"from": from, "giver": giver, "to": to, "taker": taker, "lock": lock});
    let arrows = [
        arrow(5_000, "copy", 5_050, "launch", "M1"),
        arrow(7_100, "device", 7_100, "launch", "C1"),
        arrow(7_200, "device", 7_300, "launch", "M3"),
    ];
    assert_eq!(list(&data, 0, "arrows"), arrows);
    let lost = json!({"task": "copy", "from": 8_100, "duration": 900, "count": 5});
    assert_eq!(list(&data, 0, "lost")[0], lost);
    let parts: i64 =
        list(&data, 0, "parts").iter().map(|part| part["duration"].as_i64().unwrap()).sum();
    assert_eq!(parts, 3_200);
}

#[test]
fn states_and_processors_are_what_the_scheduler_did() {
    let data = data(&shown(&late("timeline-scheduler"), &Options::default()));
    assert_eq!(data["windows"][0]["processors"], json!([0, 1]));
    let state = |of: &str| -> Vec<(i64, i64, i64)> {
        let of = list(&data, 0, "states").into_iter().filter(|state| state["task"] == of);
        let numbers = |state: Value| ["from", "duration", "state"].map(|at| state[at].as_i64());
        let numbers = of.map(numbers);
        numbers.map(|[from, long, state]| (from.unwrap(), long.unwrap(), state.unwrap())).collect()
    };
    // 0 running, 1 preempted, 2 woken, 3 off.
    let copy = [(900, 2_100, 0), (3_000, 1_000, 1), (4_000, 5_500, 0)];
    assert_eq!(state("copy")[..3], copy);
    let launch = state("launch");
    let wanted = [(1_900, 300, 0), (2_200, 2_810, 3), (5_010, 30, 2), (5_040, 1_160, 0)];
    assert_eq!(launch[..4], wanted);
    let runs = list(&data, 0, "runs").into_iter().filter(|run| run["processor"] == 0);
    let runs: Vec<(String, i64)> = runs
        .map(|run| (run["task"].as_str().unwrap().into(), run["duration"].as_i64().unwrap()))
        .collect();
    let wanted = [("copy".into(), 2_100), ("intruder".into(), 1_000), ("copy".into(), 5_500)];
    assert_eq!(runs[..3], wanted);
    let wake = json!({"at": 5_010, "waker": "copy", "wakee": "launch"});
    assert_eq!(list(&data, 0, "wakes")[0], wake);
    // Records of processor 1 are missing between 7,110 and 7,250.
    let lost = list(&data, 0, "lost").into_iter().filter(|lost| lost["task"].is_null());
    let lost: Vec<Value> = lost.map(|lost| lost["from"].clone()).collect();
    assert_eq!(lost, [json!(7_110)]);
    // The thread came while they were missing, and left at 7,500.
    assert!(launch.contains(&(7_250, 250, 0)), "{launch:?}");
}

#[test]
fn page_holds_no_more_than_it_may_and_says_so() {
    let mut made = late_launch("timeline-bounded", Tier::Preload);
    let busy = |number: u64| {
        let from = 1_200 + number * 4;
        let lock = 0x9000 + number % 3 * 64;
        [
            enter(from, "cuLaunchKernel", 0, 1),
            acquired(from + 1, Class::Mutex, lock),
            released(from + 2, Class::Mutex, lock),
            exit(from + 3, 0),
        ]
    };
    let records: Vec<Record> = (0..3_000).flat_map(busy).collect();
    made.block(StreamKind::Thread, 104, &records);
    let section = shown(&made.finish(), &Options { items: 200, ..Options::default() });
    let data = data(&section);
    assert_eq!((list(&data, 0, "calls").len(), list(&data, 0, "holds").len()), (200, 200));
    // The call that it is about and whoever it waited for are there, however busy others were.
    assert!(list(&data, 0, "calls").iter().any(|call| call["flags"] == 8));
    assert!(list(&data, 0, "holds").iter().any(|hold| hold["duration"] == 3_900));
    let kept = data["windows"][0]["kept"].as_str().unwrap();
    assert!(kept.contains("200 of 3005 calls"), "{kept}");
    assert!(section.html.len() < 200_000, "{}", section.html.len());
}

#[test]
fn page_needs_nothing_else_and_names_cannot_break_it() {
    let mut made = late_launch("timeline-names", Tier::Preload);
    let name = "</script><b>&{data}{script}".to_owned();
    made.metadata.kernels.push(Kernel { process: PROCESS, handle: 0xf00, name: name.clone() });
    let section = shown(&made.finish(), &Options::default());
    for foreign in ["http:", "https:", " src=", "url(", "import(", "</script><b>"] {
        assert!(!section.html.contains(foreign), "{foreign}");
    }
    let calls = list(&data(&section), 0, "calls");
    assert!(calls.iter().any(|call| call["note"] == format!("kernel {name}, stream 0x9")));
}

#[test]
fn trace_without_calls_has_no_timeline() {
    let mut made = Made::new("timeline-empty", Tier::Preload);
    made.block(StreamKind::Thread, 5, &[named(10, "idle")]);
    let section = shown(&made.finish(), &Options::default());
    assert_eq!((section.calls, data(&section)["windows"].as_array().unwrap().len()), (0, 0));
}

/// The page of a trace with a script that uses it, and the errors of both.
fn page(trace: &Trace, script: &str) -> PathBuf {
    let (survey, explained) = passes(trace);
    let section = section(trace, &survey, &explained, &Options::default()).unwrap();
    let verdicts = late::verdicts(&survey, &explained, &late::Options::default(), |_| true);
    let findings = Findings {
        file: "t.kt".into(),
        metadata: trace.metadata(),
        survey,
        explained,
        verdicts,
        focus: Focus::default(),
        worst: 10,
        locks: 1000,
        interrupted: None,
    };
    let page = html(&findings, Some(section.html)).unwrap();
    whole::check(&page);
    let path = trace.path().with_extension("html");
    std::fs::write(&path, browser::used(&page, script)).unwrap();
    path
}

/// Uses the timeline as a person does, and notes what it shows.
const USE: &str = r##"
(async () => {
  const results = { errors };
  const part = (name) => document.querySelector(`.timeline [data-part="${name}"]`);
  const canvas = part("canvas"), pause = () => new Promise((done) => setTimeout(done, 60));
  const view = () => [Number(canvas.dataset.from), Number(canvas.dataset.to)];
  const detail = () => [...part("detail").querySelectorAll("p")].map((line) => line.textContent);
  canvas.setPointerCapture = () => {}; // There is no real pointer.
  const at = (type, left, top, more = {}) => {
    const box = canvas.getBoundingClientRect();
    const Kind = type === "wheel" ? WheelEvent : PointerEvent;
    canvas.dispatchEvent(new Kind(type, { clientX: box.left + left, clientY: box.top + top, bubbles: true, cancelable: true, ...more }));
  };
  const key = (name) => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
  const pixels = () => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Map();
    for (let at = 0; at < data.length; at += 4) {
      const colour = `${data[at]},${data[at + 1]},${data[at + 2]}`;
      colours.set(colour, (colours.get(colour) ?? 0) + 1);
    }
    return colours;
  };
  try {
    await pause();
    const first = pixels(), paper = [...first].sort((one, other) => other[1] - one[1])[0][0];
    const width = canvas.clientWidth, height = canvas.clientHeight;
    Object.assign(results, { colours: first.size, paper, lock: first.get(paper === "21,26,32" ? "255,145,80" : "186,80,0") ?? 0, height });
    results.calls = [...part("call").options].map((option) => option.textContent);
    results.first = { view: view(), detail: detail(), label: canvas.getAttribute("aria-label") };

    at("wheel", width / 2, 60, { deltaY: -300 });
    await pause();
    results.zoomed = view();
    at("pointerdown", 600, 60); at("pointermove", 500, 60); at("pointerup", 500, 60);
    await pause();
    results.dragged = view();
    part("canvas").focus();
    key("Home");
    await pause();
    results.home = view();

    part("find").value = "m1";
    part("find").dispatchEvent(new Event("input"));
    await pause();
    results.found = part("found").textContent;
    results.dimmed = [...pixels()].length;
    part("find").value = "";
    part("find").dispatchEvent(new Event("input"));

    // The first place where the pointer means a wait.
    search: for (let top = 30; top < height; top += 4) for (let left = 180; left < width; left += 20) {
      at("pointermove", left, top);
      if (part("tip").textContent.startsWith("Waits for mutex")) { results.tip = part("tip").textContent; results.wait = [left, top]; break search; }
    }
    at("pointerdown", ...results.wait); at("pointerup", ...results.wait);
    await pause();
    results.jumped = detail();
    key("Backspace");
    await pause();
    results.back = detail();
    key("Enter");
    await pause();
    results.entered = detail();
    key("Escape"); key("ArrowDown");
    await pause();
    results.down = detail();

    part("as-text").open = true;
    await pause();
    results.table = [...part("table").rows].map((row) => [...row.cells].map((cell) => cell.textContent).join(" | "));
    part("call").value = "1";
    part("call").dispatchEvent(new Event("change"));
    await pause();
    results.second = canvas.getAttribute("aria-label");
  } catch (error) { errors.push(`${error.stack}`); }
  const out = document.createElement("pre");
  out.id = "results";
  out.textContent = JSON.stringify(results);
  document.body.append(out);
})();
"##;

fn numbers(value: &Value) -> (f64, f64) {
    (value[0].as_f64().unwrap(), value[1].as_f64().unwrap())
}

#[test]
fn browser_draws_zooms_finds_and_jumps_to_who_had_the_lock() {
    let trace = late("timeline-browser");
    let Some(seen) = browsed(&page(&trace, USE), false) else { return };
    assert_eq!(seen["errors"], json!([]), "{seen:#}");
    assert!(seen["colours"].as_u64().unwrap() > 20, "{seen:#}");
    assert_eq!(seen["paper"], "255,255,255");
    assert!(seen["lock"].as_u64().unwrap() > 100, "the wait is not drawn: {seen:#}");
    assert_eq!(seen["calls"].as_array().unwrap().len(), 4);
    assert_eq!(seen["calls"][0], "1. cuLaunchKernel: 3.2 us, at 2 us, launch (101)");
    let first = numbers(&seen["first"]["view"]);
    assert_eq!(first, (1_520.0, 5_680.0));
    assert_eq!(seen["first"]["detail"][0], "cuLaunchKernel");
    assert!(seen["first"]["label"].as_str().unwrap().contains("in launch (101); 6 rows"));
    let (zoomed, dragged) = (numbers(&seen["zoomed"]), numbers(&seen["dragged"]));
    assert!(zoomed.0 > first.0 && zoomed.1 < first.1, "{zoomed:?} in {first:?}");
    assert!(dragged.0 > zoomed.0, "{dragged:?} is to the right of {zoomed:?}");
    assert!((dragged.1 - dragged.0 - (zoomed.1 - zoomed.0)).abs() < 2.0);
    assert_eq!(numbers(&seen["home"]), first);
    let found = seen["found"].as_str().unwrap();
    assert!(found.contains("1 waits: 2.95 us, longest 2.95 us; 2 locks held"), "{found}");
    assert!(seen["dimmed"].as_u64().unwrap() > 20);
    let tip = seen["tip"].as_str().unwrap();
    assert!(tip.contains("had by copy (102), in cuMemcpyHtoDAsync"), "{tip}");
    let holder = ["cuMemcpyHtoDAsync", "4.1 us, from \u{2212}1 us, in copy (102)"];
    for jump in ["jumped", "entered"] {
        assert_eq!([&seen[jump][0], &seen[jump][1]], [&json!(holder[0]), &json!(holder[1])]);
    }
    assert_eq!(seen["back"][0], "Waits for mutex M1");
    assert!(seen["down"][0].is_string());
    let table = seen["table"].as_array().unwrap();
    let is = |words: &str| table.iter().any(|row| row.as_str().unwrap().contains(words));
    assert!(is("launch (101) | Waits for mutex M1; had by copy (102)"), "{table:#?}");
    assert!(seen["second"].as_str().unwrap() != seen["first"]["label"].as_str().unwrap());
}

#[test]
fn browser_draws_in_the_colours_of_the_night() {
    let Some(seen) = browsed(&page(&late("timeline-dark"), USE), true) else { return };
    assert_eq!((&seen["errors"], &seen["paper"]), (&json!([]), &json!("21,26,32")));
    assert!(seen["lock"].as_u64().unwrap() > 100, "{seen:#}");
}

#[test]
fn waits_for_signals_and_unfinished_calls_can_be_shown() {
    let mut made = late_launch("timeline-unfinished", Tier::Preload);
    let mutex = Class::Mutex;
    let records = [
        enter(2_500, "cuLaunchKernel", 0, 1),
        acquired(2_600, mutex, 0x9000),
        condition(2_700, Action::Waiting, 0x9100, 0x9000),
    ];
    made.block(StreamKind::Thread, 105, &records);
    let data = data(&shown(&made.finish(), &Options::default()));
    let open = |name: &str| {
        let of = list(&data, 0, name).into_iter().filter(|item| item["flags"] == 1);
        of.filter(|item| item["task"] == "").count()
    };
    // Its mutex was given up for the wait.
    assert_eq!((open("calls"), open("waits"), open("holds")), (1, 1, 0));
}

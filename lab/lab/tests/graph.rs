//! Drives the real `keeptime-lab graph` on a small graph. One run at a time: each of them takes the
//! cores for itself, at real-time priority.

mod program;

use program::laboratory;
use serde_json::Value;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Two sensors that are fused, a transform on the key path, an intersection on a second executor, a
/// cyclic node and a command.
const GRAPH: &str = "
accelerators: [{id: gpu0, buckets: 3, cores: [0]}]
server: {cores: [0]}
executors:
- {id: front, core: 1, priority: 80}
- {id: rear, core: 1, priority: 70}
graph:
  message: 1 KiB
  nodes:
  - {id: Left, kind: sensor, executor: front, period: 20 ms, priority: 3}
  - {id: Right, kind: sensor, executor: front, period: 20 ms, priority: 4, segments: [{accel: gpu0, exec: 200 us}]}
  - id: Fuse
    kind: fusion
    executor: front
    cpu: 200 us
    inputs: [{from: Left, priority: 5}, {from: Right, priority: 6}]
  - id: Detect
    kind: transform
    executor: front
    primes: 1000
    segments: [{accel: gpu0, exec: 500 us}]
    inputs: [{from: Fuse, priority: 7}]
  - id: Split
    kind: intersection
    executor: rear
    inputs: [{from: Detect, output: SplitOut, priority: 1}]
  - {id: Plan, kind: cyclic, executor: rear, period: 10 ms, priority: 9, inputs: [{from: SplitOut, priority: 8}]}
  - {id: Act, kind: command, executor: rear, inputs: [{from: Plan, priority: 10, depth: 10}]}
  paths: [{id: hot, roots: [Left, Right], sink: Detect, reported: {ros2: 12 ms}}]
";

static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

struct Bench {
    folder: tempfile::TempDir,
    _turn: MutexGuard<'static, ()>,
}

impl Bench {
    fn new(text: &str) -> Bench {
        let turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("graph.yaml"), text).unwrap();
        Bench { folder, _turn: turn }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = laboratory();
        command.args(["graph", "graph.yaml"]).args(arguments).current_dir(self.folder.path());
        command.output().unwrap()
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[arguments, &["--json", "--duration", "1s"]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        testing::result::of(&output)
    }
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("no whole number: {value}"))
}

/// Checks the results of one second of the graph, on any machine: no more than was released, and
/// most of it.
fn check(method: &Value) {
    let hot = &method["paths"]["hot"];
    assert_eq!(hot["releases"], 50, "{hot}");
    let instances = whole(&hot["instances"]);
    assert!((25..=50).contains(&instances), "{hot}");
    // Two requests, which come after each other, cannot take less time than they work.
    assert!(hot["min_ns"].as_f64().unwrap() > 0.5 * 700e3, "{hot}");
    let callbacks = method["callbacks"].as_object().unwrap();
    assert_eq!(callbacks.len(), 9);
    let count = |name: &str| whole(&callbacks[name]["count"]);
    assert!(count("Detect") == instances && count("Fuse < Left") >= instances, "{method}");
    assert!(count("Split") <= instances && count("Plan < SplitOut") <= count("Split"));
    assert!(count("Act") > 50 && count("Act") <= count("Plan (timer)"), "{method}");
    let plan = &method["cycles"]["Plan"];
    assert_eq!(plan["period_ns"], 10e6);
    assert!((5e6..15e6).contains(&plan["p50_ns"].as_f64().unwrap()), "{plan}");
}

#[test]
fn every_method_runs_the_graph_by_queues_and_by_dds() {
    let bench = Bench::new(GRAPH);
    for transport in ["shared", "dds"] {
        let run = bench.json(&["--transport", transport, "--domain", "98"]);
        for method in ["ros2", "picas", "keeptime"] {
            check(&run["methods"][method]);
        }
        assert_eq!(run["methods"]["ros2"]["paths"]["hot"]["reported_max_ns"], 12e6);
        assert_eq!(run["methods"]["picas"]["paths"]["hot"]["reported_max_ns"], Value::Null);
    }
}

#[test]
fn one_executor_of_several_threads_runs_all_nodes() {
    let bench = Bench::new(GRAPH);
    let run = bench.json(&["--transport", "shared", "--threads", "multi"]);
    for method in ["ros2", "picas", "keeptime"] {
        let method = &run["methods"][method];
        check(method);
        let executors = method["callbacks"].as_object().unwrap().values();
        assert!(executors.into_iter().all(|callback| callback["executor"] == "all"));
        assert_eq!(method["paths"]["hot"]["reported_max_ns"], Value::Null);
    }
}

/// Text without its line breaks.
fn words_of(text: &[u8]) -> String {
    String::from_utf8_lossy(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn page_and_table_say_what_was_won_and_what_others_reported() {
    let bench = Bench::new(GRAPH);
    let arguments = ["--transport", "shared", "--duration", "500ms", "--policy", "keeptime,ros2"];
    let said = words_of(&bench.run(&arguments).stdout);
    for part in
        ["Path hot: Left and Right to Detect", "Period of Plan", "12.00", "Messages missed on it"]
    {
        assert!(said.contains(part), "{part} in\n{said}");
    }
    let output = bench.run(&[&arguments[..], &["--html", "page.html"]].concat());
    assert!(String::from_utf8_lossy(&output.stderr).ends_with("wrote page.html\n"), "{output:?}");
    let page = std::fs::read_to_string(bench.folder.path().join("page.html")).unwrap();
    for part in ["Path hot: Left and Right to Detect", "12.00", "Callbacks under ros2"] {
        assert!(page.contains(part), "{part}");
    }
}

fn example(name: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    std::fs::read_to_string(folder.join(name)).unwrap()
}

/// The reference system with one accelerator on a core of its own, and a tenth of its load. The primes
/// take a quarter of what is declared on a fast machine, so that unoptimised code on one that is half
/// as fast, or less, still does what the file says.
fn reference() -> String {
    let text = example("autoware-reference-system.yaml");
    let lines = text.lines().filter(|line| !line.contains("id: tpu0"));
    let text: String = lines.map(|line| format!("{line}\n")).collect();
    let less = [
        ("tpu0", "gpu0"),
        ("server: {cores: [2]}", "server: {cores: [0]}"),
        ("primes: 65536", "primes: 3000"),
        ("cpu: 4 ms", "cpu: 800 us"),
        ("exec: 2 ms", "exec: 200 us"),
        // Queues instead of DDS.
        ("hop: 300 us", "hop: 20 us"),
    ];
    less.into_iter().fold(text, |text, (all, part)| {
        assert!(text.contains(all), "{all}");
        text.replace(all, part)
    })
}

/// Each path with a bound, and whether all of its instances stayed within it.
fn bounded(run: &Value, method: &str) -> Vec<(String, bool)> {
    let paths = run["methods"][method]["paths"].as_object().unwrap();
    let with = paths.iter().filter(|(_, path)| !path["bound_ns"].is_null());
    with.map(|(id, path)| {
        assert!(whole(&path["instances"]) > 0, "{id}: {path}");
        (id.clone(), whole(&path["over_bound"]) == 0)
    })
    .collect()
}

/// Runs until every path has a bound that no instance passed: what else the machine does can delay
/// one, and the bounds know nothing of it. Four runs in which one was passed are no coincidence.
fn covered(bench: &Bench, method: &str, arguments: &[&str], paths: &[&str]) {
    for attempt in 1..=4 {
        let fixed = ["--json", "--duration", "2s", "--policy", method];
        let output = bench.run(&[&fixed[..], arguments].concat());
        let run: Value = testing::result::of(&output);
        let found = bounded(&run, method);
        let is_within = found.iter().all(|(_, is_within)| *is_within);
        assert_eq!(output.status.code(), Some(i32::from(!is_within)), "{output:?}");
        if is_within && found.iter().map(|(id, _)| id.as_str()).eq(paths.iter().copied()) {
            return;
        }
        assert!(attempt < 4, "{run}");
    }
}

#[test]
fn bounds_cover_what_is_observed_of_the_reference_system() {
    let bench = Bench::new(&reference());
    covered(&bench, "keeptime", &["--transport", "shared"], &["hot", "planning", "settings"]);
}

#[test]
fn bounds_cover_what_is_observed_of_the_picas_case_study() {
    let mut text = example("picas-case-study.yaml");
    for ms in [2, 7, 8, 9, 11, 14, 16, 18, 21, 23, 33, 196] {
        text = text.replace(&format!("cpu: {ms} ms"), &format!("cpu: {} us", ms * 120));
    }
    // A machine that takes longer than the file declares disproves nothing.
    let arguments = ["--transport", "shared", "--margin", "measured"];
    let paths = ["chain1", "chain2", "chain3", "chain4", "chain5", "chain6"];
    covered(&Bench::new(&text), "picas", &arguments, &paths);
}

#[test]
fn instance_beyond_its_bound_is_told_and_the_status_says_so() {
    // The file declares a thousandth of the time that the primes take.
    let text = GRAPH
        .replace("primes: 1000", "primes: 100000\n    cpu: 10 us")
        .replace("{accel: gpu0, exec: 500 us}", "");
    let bench = Bench::new(&text);
    let output = bench.run(&["--policy", "keeptime", "--transport", "shared", "--duration", "1s"]);
    let said = words_of(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("Longer than the bound under keeptime: hot in "), "{said}");
    // So the margin that it would take can be read.
    let (_, words) = said.split_once("longest processor time: ").unwrap();
    let share: f64 = words.split(' ').next().unwrap().parse().unwrap();
    assert!(share > 10.0 && words.contains("times as long as declared, "), "{words}");
}

#[test]
fn bounds_grow_with_the_margin_of_declared_times_and_the_result_says_so() {
    let bench = Bench::new(&example("picas-case-study.yaml"));
    let analyze = |arguments: &[&str]| {
        let output = Command::new(testing::keeptime())
            .args(["analyze", "--json"])
            .args(arguments)
            .arg("graph.yaml")
            .current_dir(bench.folder.path())
            .output()
            .unwrap();
        let said: Value = testing::result::of(&output);
        said["paths"]["chain1"]["bound_ns"].as_f64().unwrap() / 1e3
    };
    // 2 and 16 ms of work, and two times 0.3 ms for the message between them.
    assert_eq!((analyze(&[]), analyze(&["--margin", "1.5"])), (18_600.0, 27_600.0));
    let shared = ["--policy", "picas", "--transport", "shared", "--duration", "1s", "--json"];
    let output = bench.run(&[&shared[..], &["--margin", "1.5"]].concat());
    let run: Value = testing::result::of(&output);
    assert_eq!(run["margin"], "bounds of times 1.5 times as long as declared");
}

#[test]
fn measured_margin_is_that_of_a_rehearsal_and_covers_what_takes_longer_than_declared() {
    // The file declares a tenth of the time that the primes take, or less.
    let text = GRAPH.replace("primes: 1000", "primes: 100000\n    cpu: 500 us");
    let bench = Bench::new(&text);
    let shared = ["--transport", "shared", "--duration", "1s", "--margin", "measured", "--json"];
    // Not whether the bounds hold: the next second of a machine with other work is not this one.
    let output = bench.run(&[&shared[..], &["--policy", "picas,keeptime"]].concat());
    let run: Value = testing::result::of(&output);
    let said = run["margin"].as_str().unwrap();
    let after = |words: &str| -> f64 {
        let (_, rest) = said.split_once(words).unwrap();
        rest.split([' ', ',']).next().unwrap().parse().unwrap()
    };
    assert!(after("bounds of processor times ") > 2.0, "{said}");
    assert!(said.ends_with("a tenth more than the longest of a rehearsal"), "{said}");
    // That of a request by itself, and never less than declared.
    assert!(after(", gpu0 ") >= 1.0, "{said}");

    let none = bench.run(&[&shared[..], &["--policy", "ros2,picas"]].concat());
    let error = String::from_utf8(none.stderr).unwrap();
    assert_eq!(none.status.code(), Some(2), "{error}");
    assert!(error.contains("--margin measured: no policy of --policy has bounds"), "{error}");
}

#[test]
fn what_a_fold_leaves_without_a_bound_is_said() {
    let cores = realtime::thread::cores();
    let [first, second, ..] = cores[..] else { return eprintln!("SKIP: it takes two cores") };
    let map = [first, first, first, second, second, second, second];
    let map: Vec<String> = map.iter().enumerate().map(|(at, to)| format!("{at}={to}")).collect();
    let bench = Bench::new(&example("autoware-reference-system.yaml"));
    let arguments = ["--policy", "keeptime", "--transport", "shared", "--map", &map.join(",")];
    let both = bench.json(&arguments);
    let marks = both["marks"].to_string();
    assert!(marks.contains(&format!("no bounds: tpu0 shares core {first} with gpu0")), "{marks}");
    assert!(bounded(&both, "keeptime").is_empty());
}

#[test]
fn what_cannot_be_run_is_refused_with_its_place() {
    let refusal = |text: &str, arguments: &[&str]| {
        let output = Bench::new(text).run(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let none = refusal("executors: []", &[]);
    assert!(none.contains("graph.yaml: graph: found none, expected at least one node"), "{none}");
    let less = refusal(GRAPH, &["--margin", "0.9"]);
    assert!(less.contains("'0.9' for '--margin <FACTOR>': expected 1 to 100, as in 1.2"), "{less}");
    let twice = refusal(GRAPH, &["--policy", "ros2,ros2"]);
    assert!(twice.contains("--policy: found ros2 twice, expected it once"), "{twice}");
    let data = GRAPH
        .replace("{accel: gpu0, exec: 500 us}", "{accel: gpu0, exec: 500 us, service: add}")
        + "services: [{name: add, accelerator: gpu0, kernel: vecadd}]\n";
    let data = refusal(&data, &[]);
    assert!(
        data.contains("graph.nodes.Detect.segments: found service add of kernel vecadd"),
        "{data}"
    );
}

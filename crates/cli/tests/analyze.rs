//! `keeptime analyze` as a user runs it: published numbers, exit statuses, and what is said of
//! chains that have no guarantee.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn case_study() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../examples/paam-case-study-1.yaml")
}

fn keeptime(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.arg("analyze").args(arguments).stdin(Stdio::null()).output().unwrap()
}

/// A folder of its own with a system file in it.
struct Bench {
    folder: tempfile::TempDir,
    file: String,
}

impl Bench {
    fn new(yaml: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("robot.yaml");
        std::fs::write(&file, yaml).unwrap();
        Bench { file: file.to_str().unwrap().to_owned(), folder }
    }

    fn run(&self, options: &[&str]) -> Output {
        keeptime(&[&[self.file.as_str()], options].concat())
    }

    fn json(&self, options: &[&str]) -> Value {
        let output = self.run(&[options, &["--json"]].concat());
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
    }

    fn text(&self, options: &[&str]) -> String {
        String::from_utf8(self.run(options).stdout).unwrap()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Bound in microseconds and status of the six real-time chains.
fn bounds(json: &Value) -> Vec<(Option<f64>, String)> {
    let chain = |number| {
        let chain = &json["chains"][format!("chain{number}")];
        (chain["R_star"].as_f64(), chain["status"].as_str().unwrap().to_owned())
    };
    (1..=6).map(chain).collect()
}

fn expected(ok: &[f64]) -> Vec<(Option<f64>, String)> {
    let found = ok.iter().map(|us| (Some(*us), "ok".to_owned()));
    found.chain(std::iter::repeat((None, "miss".to_owned()))).take(6).collect()
}

#[test]
fn case_study_1_has_its_published_numbers() {
    let text = std::fs::read_to_string(case_study()).unwrap();
    let without = text.replace("kappa: 129 us\nepsilon: 391 us\n", "");
    assert_ne!(text, without);
    let (with, without) = (Bench::new(&text), Bench::new(&without));
    for variant in ["published", "sound"] {
        let options = ["--variant", variant];
        assert_eq!(bounds(&with.json(&options)), expected(&[49_814.0, 91_979.0]), "{variant}");
        let golden = expected(&[48_000.0, 89_000.0, 216_000.0]);
        assert_eq!(bounds(&without.json(&options)), golden, "{variant}, A = 10 ms");
        let options = ["--variant", variant, "--exec-scale", "1.25"];
        let golden = expected(&[58_000.0, 106_500.0]);
        assert_eq!(bounds(&without.json(&options)), golden, "{variant}, A = 12.5 ms");
    }
    // The refined bound certifies one chain more, and none later.
    let tight = bounds(&with.json(&[]));
    assert_eq!(tight[0].0, Some(49_814.0));
    assert!(tight[1].0 <= Some(91_979.0) && tight[1].1 == "ok", "{tight:?}");
    assert!(tight[2].0 <= Some(220_000.0) && tight[2].1 == "ok", "{tight:?}");
}

#[test]
fn json_keeps_the_order_of_the_file_and_of_the_keys() {
    let text = std::fs::read_to_string(case_study()).unwrap();
    let output = Bench::new(&text).text(&["--variant", "sound", "--json"]);
    let chains = ["chain1", "chain2", "chain6", "be1", "be2"];
    let places = chains.map(|id| output.find(&format!("\"{id}\": {{")).unwrap());
    assert!(places.is_sorted(), "{output}");
    let keys = ["schedulable", "chains", "status", "R_star", "parts", "executor", "B", "E"];
    let more = ["H_segments_l2", "H_l2", "H_l3", "H_star", "R"];
    let keys = keys.iter().chain(&more);
    let places: Vec<usize> = keys.map(|key| output.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{output}");
    assert!(output.contains("\"R_star\": 49814,"), "whole numbers stay whole: {output}");
    let json: Value = serde_json::from_str(&output).unwrap();
    let part = &json["chains"]["chain1"]["parts"][0];
    assert_eq!(part["executor"], "e1");
    assert_eq!((&part["B"], &part["E"]), (&Value::from(0), &Value::from(8_000)));
    assert_eq!(part["H_segments_l2"], serde_json::json!([20_516, 20_516]));
    assert_eq!((&part["H_l2"], &part["H_l3"]), (&Value::from(41_032), &Value::from(41_032)));
    assert_eq!((&part["H_star"], &part["R"]), (&Value::from(41_814), &Value::from(49_814)));
}

/// One executor, whose lower chain waits 60 ms for the accelerator: the counterexample to the
/// published theorem.
const SHARED: &str = "
accelerators: [{id: gpu0, buckets: 1}]
executors: [{id: e, core: 0, priority: 50}]
chains:
- {id: hi, priority: 2, period: 100 ms, deadline: 50 ms, callbacks: [{id: a, executor: e, cpu: 1 ms}]}
- {id: lo, priority: 1, period: 200 ms, callbacks: [{id: a, executor: e, cpu: 1 ms, segments: [{accel: gpu0, exec: 60 ms}]}]}
";

#[test]
fn published_theorem_is_used_only_with_a_warning() {
    let bench = Bench::new(SHARED);
    let output = bench.run(&["--variant", "published"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("! UNSOUND: the published theorem leaves out"), "{text}");
    assert!(text.contains("accepted") && !text.contains("guaranteed"), "{text}");
    let output = bench.run(&["--variant", "published", "--json"]);
    assert!(stderr(&output).contains("UNSOUND"));
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["chains"]["hi"]["R_star"], 2_000);
    assert!(json["warning"].as_str().unwrap().contains("UNSOUND"));
    for variant in ["sound", "tight"] {
        let output = bench.run(&["--variant", variant]);
        assert_eq!(output.status.code(), Some(1), "{variant}");
        assert!(!String::from_utf8(output.stdout).unwrap().contains("UNSOUND"), "{variant}");
    }
}

#[test]
fn the_chain_to_blame_is_named_with_what_must_shrink() {
    let text = Bench::new(SHARED).text(&[]);
    let advice = "Change hi first: its bound passes the deadline of 50 ms by at least 12 ms.\n\
                  The largest thing that can be taken away is blocking by lo on executor e \
                  (61 ms): it must shrink by 12 ms (20 %), at least.\n";
    assert!(text.contains(advice), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
}

/// steer misses its deadline, and log relies on it; brake is above both.
const DEPENDENT: &str = "
accelerators: [{id: gpu0, buckets: 3}]
executors: [{id: a, core: 0, priority: 9}, {id: b, core: 1, priority: 9}, {id: c, core: 2, priority: 9}]
chains:
- {id: log, priority: 1, period: 1 s, callbacks: [{id: x, executor: c, cpu: 1 ms, segments: [{accel: gpu0, exec: 10 ms}]}]}
- {id: steer, priority: 2, period: 100 ms, deadline: 20 ms, callbacks: [{id: x, executor: b, cpu: 1 ms, segments: [{accel: gpu0, exec: 15 ms}]}]}
- {id: brake, priority: 3, period: 100 ms, callbacks: [{id: x, executor: a, cpu: 1 ms, segments: [{accel: gpu0, exec: 10 ms}]}]}
";

#[test]
fn bound_that_relies_on_a_late_chain_is_no_guarantee() {
    let bench = Bench::new(DEPENDENT);
    for variant in ["sound", "tight"] {
        let json = bench.json(&["--variant", variant]);
        let status = |id: &str| json["chains"][id]["status"].as_str().unwrap().to_owned();
        assert_eq!(["log", "steer", "brake"].map(status), ["dep", "miss", "ok"], "{variant}");
        let log = &json["chains"]["log"];
        assert!(log["R_star"].is_number() && log["slack"].is_null(), "{variant}: {log}");
        assert_eq!(log["reason"]["chain"], "steer", "{variant}: {log}");
        let text = bench.text(&["--variant", variant]);
        let line = text.lines().find(|line| line.starts_with("  log ")).unwrap();
        assert!(line.contains("  (") && line.contains("no guarantee: relies on steer"), "{line}");
    }
    let text = bench.text(&[]);
    assert!(text.contains("log would be in time, but has no guarantee as long as one"), "{text}");
}

#[test]
fn explain_derives_one_chain_and_refuses_an_unknown_one() {
    let text = std::fs::read_to_string(case_study()).unwrap();
    let bench = Bench::new(&text);
    let text = bench.text(&["--variant", "sound", "--explain", "chain2"]);
    for part in ["H[3]   10.258", "H2", "91.979  response time of the part", "bucket 5 of gpu0"] {
        let found = text.contains(part) || part.starts_with("H[3]") && text.contains("H[3]");
        assert!(found, "{part} in {text}");
    }
    assert!(!text.contains("\nchain1: "), "only the chain that was asked for: {text}");
    let output = bench.run(&["--explain", "chain9"]);
    assert_eq!(output.status.code(), Some(2));
    let expected = "--explain: found \"chain9\", expected one of the chains: chain1, chain2";
    assert!(stderr(&output).contains(expected), "{output:?}");
}

#[test]
fn what_cannot_be_analysed_is_exit_status_2() {
    let bench = Bench::new("chains: [{id: x}]");
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("robot.yaml:1:10: chains[0].period: missing key"),
        "{output:?}"
    );
    for (options, message) in [
        (&["/nowhere/robot.yaml"][..], "/nowhere/robot.yaml: cannot be read"),
        (&["x", "--variant", "exact"], "expected tight, sound or published"),
        (&["x", "--exec-scale", "0"], "expected a decimal number above 0 and up to 1000"),
        (&["x", "--effort", "3"], "--assign"),
    ] {
        let output = keeptime(options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(message), "{options:?}: {output:?}");
    }
    let empty = Bench::new("accelerators: []");
    assert!(stderr(&empty.run(&[])).contains("chains: found none, expected at least one chain"));
}

#[test]
fn sensitivity_is_where_the_verdict_changes() {
    let bench = Bench::new(&DEPENDENT.replace("deadline: 20 ms", "deadline: 40 ms"));
    let json = bench.json(&["--sensitivity"]);
    assert_eq!(json["schedulable"], true, "{json}");
    let margins = json["sensitivity"].as_array().unwrap();
    assert_eq!(margins.len(), 4 + 3);
    let accelerator = margins.iter().find(|m| m["scale"] == "accelerator").unwrap();
    let factor = accelerator["factor"].as_f64().unwrap();
    assert!(factor > 1.0, "{accelerator}");
    let schedulable =
        |factor: f64| bench.json(&["--exec-scale", &format!("{factor:.3}")])["schedulable"].clone();
    assert_eq!((schedulable(factor), schedulable(factor + 0.001)), (true.into(), false.into()));
    let text = bench.text(&["--sensitivity"]);
    let line = text.lines().find(|line| line.contains("accelerator times")).unwrap();
    assert!(line.contains(&format!("x {factor:.3}  then steer: late by")), "{text}");
}

/// Priorities against the deadlines: short is below long.
const INVERTED: &str = "
time_unit: ms
accelerators: [{id: gpu0, buckets: 2}]
executors: [{id: a, core: 0, priority: 9}, {id: b, core: 1, priority: 9}]
chains:
- {id: short, priority: 1, period: 30, callbacks: [{id: x, executor: a, cpu: 1, segments: [{accel: gpu0, exec: 10}]}]}
- {id: long, priority: 2, period: 100, callbacks: [{id: x, executor: b, cpu: 1, segments: [{accel: gpu0, exec: 30}]}]}
";

#[test]
fn assignment_finds_priorities_and_writes_a_file_that_is_schedulable() {
    let bench = Bench::new(INVERTED);
    assert_eq!(bench.run(&[]).status.code(), Some(1));
    let file = bench.folder.path().join("better.yaml");
    let better = file.to_str().unwrap();
    let output = bench.run(&["--assign", better]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("chain short  priority"), "{text}");
    assert!(text.contains("Assignment found"), "{text}");
    assert_eq!(keeptime(&[better]).status.code(), Some(0));
    let again = bench.json(&["--assign", better]);
    assert_eq!(again["assignment"]["schedulable"], true, "{again}");
}

#[test]
fn assignment_refuses_what_it_cannot_mean() {
    let bench = Bench::new(INVERTED);
    let file = bench.folder.path().join("better.yaml");
    let assign = ["--assign", file.to_str().unwrap()];
    for (options, message) in [
        (&["--variant", "published"][..], "--assign: found --variant published"),
        (&["--units", "gpu0,gpu7"], "--units: found \"gpu7\", expected accelerators: gpu0"),
        (&["--units", "gpu0,gpu0"], "--units: found gpu0 twice, expected it once"),
    ] {
        let output = bench.run(&[&assign[..], options].concat());
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(message), "{options:?}: {output:?}");
        assert!(!file.exists(), "{options:?}");
    }
}

#[test]
fn json_of_the_guide_is_what_the_command_prints() {
    let repository = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let block = |page: &str, language: &str| {
        let page = std::fs::read_to_string(repository.join(page)).unwrap();
        let (_, rest) = page.split_once(&format!("```{language}\n")).unwrap();
        rest.split("```").next().unwrap().to_owned()
    };
    let said: Value = serde_json::from_str(&block("docs/analysis.md", "json")).unwrap();
    let found = Bench::new(&block("docs/system-file.md", "yaml")).json(&["--variant", "sound"]);
    assert_eq!(found["schedulable"], said["schedulable"]);
    let (said, found) = (&said["chains"]["brake"], &found["chains"]["brake"]);
    assert_eq!((&found["status"], &found["R_star"]), (&said["status"], &said["R_star"]));
    for (part, said) in said["parts"].as_array().unwrap().iter().enumerate() {
        for (key, value) in said.as_object().unwrap() {
            assert_eq!(found["parts"][part][key], *value, "{key} of part {part} in {found}");
        }
    }
}

/// Three tasks on one core; the values of equation 4 are worked out in the analysis crate's test.
const LOCKED: &str = "
time_unit: ms
accelerators: [{id: gpu0, buckets: 1}]
executors:
- {id: e1, core: 4, priority: 9}
- {id: e2, core: 4, priority: 8}
- {id: e3, core: 4, priority: 7}
chains:
- {id: a, priority: 3, period: 20, callbacks: [{id: c, executor: e1, cpu: 2, segments: [{accel: gpu0, exec: 1}]}]}
- {id: b, priority: 2, period: 40, callbacks: [{id: c, executor: e2, cpu: 4, segments: [{accel: gpu0, exec: 5}, {accel: gpu0, exec: 2}]}]}
- {id: c, priority: 1, period: 100, callbacks: [{id: c, executor: e3, cpu: 10, segments: [{accel: gpu0, exec: 6}, {accel: gpu0, exec: 8}]}]}
";

#[test]
fn bandwidth_lock_bounds_one_core() {
    let bench = Bench::new(LOCKED);
    let json = bench.json(&["--bandwidth-lock"]);
    let response = |chain: &str| json["chains"][chain]["R"].as_u64();
    assert_eq!([response("a"), response("b"), response("c")], [11_000, 25_000, 55_000].map(Some));
    let text = bench.text(&["--bandwidth-lock"]);
    assert!(text.contains("schedulable under the bandwidth lock"), "{text}");
    assert!(text.contains("55.000"), "{text}");
}

#[test]
fn bandwidth_lock_refuses_what_its_equation_does_not_cover() {
    let output = keeptime(&[case_study().to_str().unwrap(), "--bandwidth-lock"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("all chains on one core under the lock"), "{output:?}");
}

/// A file without priorities: deadline monotonic is enough.
const DRAFT: &str = "
time_unit: ms
accelerators: [{id: gpu0, buckets: 4}]
executors: [{id: e1, core: 1}, {id: e2, core: 1}]
chains:
- {id: slow, period: 500, callbacks: [{id: c, executor: e1, cpu: 100, segments: [{accel: gpu0, exec: 40}]}]}
- {id: fast, period: 60, callbacks: [{id: c, executor: e2, cpu: 10, segments: [{accel: gpu0, exec: 10}]}]}
";

#[test]
fn file_without_priorities_gets_some_that_are_schedulable() {
    let bench = Bench::new(DRAFT);
    assert_eq!(bench.run(&[]).status.code(), Some(2), "priorities are required elsewhere");
    let found = bench.folder.path().join("found.yaml");
    let output = bench.run(&["--assign", found.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(keeptime(&[found.to_str().unwrap()]).status.code(), Some(0));
    let text = std::fs::read_to_string(&found).unwrap();
    let place = |id: &str| {
        text.find(&format!("id: {id}\n    priority: "))
            .map(|at| text[at..].lines().nth(1).unwrap().trim().to_owned())
    };
    assert_eq!(place("fast").as_deref(), Some("priority: 2"), "{text}");
    assert_eq!(place("slow").as_deref(), Some("priority: 1"), "{text}");
}

#[test]
fn graph_has_bounds_of_its_paths_and_callbacks() {
    let file = case_study().with_file_name("picas-case-study.yaml");
    let file = file.to_str().unwrap();
    let output = keeptime(&[file, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    let chain = |id: &str| json["paths"][id]["bound_us"].as_f64().unwrap();
    // Chain 1: a timer, the way and the receipt of its message, 2 + 16 ms; nobody is above it, and
    // each of its executors has no callback but its own.
    assert_eq!(chain("chain1"), 18_600.0);
    // Chain 2 begins with the same callback, on whose executor that of chain 1 may come first.
    assert_eq!(chain("chain2"), 18_600.0 + 29_000.0 + 5.0 * 300.0);
    assert_eq!(json["callbacks"]["c2_3"]["bound_us"], json["paths"]["chain2"]["bound_us"]);
    let text = String::from_utf8(keeptime(&[file]).stdout).unwrap();
    assert!(text.contains("chain1   18.600"), "{text}");
    let refused = keeptime(&[file, "--sensitivity"]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("--sensitivity: found a graph in"), "{refused:?}");
}

#[test]
fn path_of_a_graph_without_a_bound_says_why_and_fails() {
    let graph = "
executors: [{id: e, core: 0, priority: 9}]
graph:
  nodes:
  - {id: a, kind: sensor, executor: e, period: 10 ms, priority: 1}
  - {id: b, kind: sensor, executor: e, period: 15 ms, priority: 2}
  - {id: f, kind: fusion, executor: e, inputs: [{from: a, priority: 3}, {from: b, priority: 4}]}
  paths: [{id: p, roots: [a], sink: f}]
";
    let bench = Bench::new(graph);
    assert_eq!(bench.run(&[]).status.code(), Some(1));
    assert_eq!(bench.json(&[])["paths"]["p"]["reason"], "f fuses messages of different periods");
    let primes = Bench::new(&graph.replace("priority: 1}", "priority: 1, primes: 100}"));
    let refused = primes.run(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("no bounds: the file does not say how long"), "{refused:?}");
}

//! `keeptime analyze` as a user runs it: published numbers, exit statuses, and what is said of
//! chains that have no guarantee.

use std::io::{BufRead, BufReader, Read, Seek};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

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
        testing::result::of(&output)
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
        (
            chain["R_star_ns"].as_f64().map(|ns| ns / 1e3),
            chain["status"].as_str().unwrap().to_owned(),
        )
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
    let keys =
        ["schedulable", "chains", "status", "R_star_ns", "parts", "executor", "B_ns", "E_ns"];
    let more = ["H_segments_l2_ns", "H_l2_ns", "H_l3_ns", "H_star_ns", "R_ns"];
    let keys = keys.iter().chain(&more);
    let places: Vec<usize> = keys.map(|key| output.find(&format!("\"{key}\":")).unwrap()).collect();
    assert!(places.is_sorted(), "{output}");
    let json: Value = testing::result::read(&output);
    assert_eq!((&json["schema"], &json["version"]), (&"keeptime.analysis".into(), &1.into()));
    let part = &json["chains"]["chain1"]["parts"][0];
    assert_eq!(part["executor"], "e1");
    assert_eq!((&part["B_ns"], &part["E_ns"]), (&Value::from(0), &Value::from(8_000_000)));
    assert_eq!(part["H_segments_l2_ns"], serde_json::json!([20_516_000, 20_516_000]));
    let terms = ["H_l2_ns", "H_l3_ns", "H_star_ns", "R_ns"].map(|key| part[key].as_u64().unwrap());
    assert_eq!(terms, [41_032_000, 41_032_000, 41_814_000, 49_814_000]);
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
    let json: Value = testing::result::of(&output);
    assert_eq!(json["chains"]["hi"]["R_star_ns"], 2_000_000);
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
        assert!(log["R_star_ns"].is_number() && log["slack_ns"].is_null(), "{variant}: {log}");
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
    let output = bench.run(&["--assign", better, "--lower-critical"]);
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(stderr(&output).ends_with(&format!("wrote {better}\n")), "{output:?}");
    assert!(text.contains("chain short  priority"), "{text}");
    assert!(text.contains("Assignment found"), "{text}");
    assert_eq!(keeptime(&[better]).status.code(), Some(0));
    let again = bench.json(&["--assign", better, "--lower-critical"]);
    assert_eq!(again["assignment"]["schedulable"], true, "{again}");
}

#[test]
fn critical_chain_is_lowered_only_if_the_command_says_so() {
    let bench = Bench::new(INVERTED);
    let file = bench.folder.path().join("better.yaml");
    let output = bench.run(&["--assign", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = stderr(&output);
    for part in [
        "better.yaml is not written",
        "no guarantee for short",
        "(long below short)",
        "--lower-critical",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(!file.exists());
}

/// A best-effort chain above a critical one, with comments everywhere.
const COMMENTED: &str = "\
# Ask Kim before you change the cores.
time_unit: ms
accelerators: [{id: gpu0, buckets: 2}]   # the only one
executors:
  - {id: a, core: 0, priority: 9}
  - {id: b,   core: 1, priority: 9} # spare

chains:
  - {id: log, best_effort: true, priority: 7, period: 100, callbacks: [{id: x, executor: b, cpu: 1, segments: [{accel: gpu0, exec: 30}]}]}
  # The urgent one.
  - id: brake
    priority: 4          # was 3
    period: 30
    callbacks: [{id: x, executor: a, cpu: 1, segments: [{accel: gpu0, exec: 10}]}]
# The end.
";

#[test]
fn comments_of_an_assigned_file_stay_byte_for_byte() {
    let bench = Bench::new(COMMENTED);
    assert_eq!(bench.run(&[]).status.code(), Some(1));
    let file = bench.folder.path().join("better.yaml");
    let output = bench.run(&["--assign", file.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let expected = COMMENTED
        .replace("priority: 7,", "priority: 4,")
        .replace("priority: 4          #", "priority: 7          #");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), expected);
    let text = String::from_utf8(output.stdout).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for change in ["chain log priority 7 -> 4", "chain brake priority 4 -> 7"] {
        assert!(words.contains(change), "{change}: {text}");
    }
    // A file that is good already does not change at all.
    let again = bench.folder.path().join("again.yaml");
    let output = keeptime(&[file.to_str().unwrap(), "--assign", again.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(std::fs::read_to_string(&again).unwrap(), expected);
}

#[test]
fn search_that_is_interrupted_writes_the_best_so_far() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("better.yaml");
    let study = case_study();
    let arguments =
        [study.to_str().unwrap(), "--effort", "4000000000", "--assign", file.to_str().unwrap()];
    let output = interrupted(&arguments, "keeptime analyze: takes about ", Signal::INT);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("PARTIAL: the search was interrupted after"), "{text}");
    assert!(matches!(keeptime(&[file.to_str().unwrap()]).status.code(), Some(0 | 1)));
}

/// A system with more chains than anyone waits for: an analysis of them takes seconds.
fn large(exec: &str) -> Bench {
    let chain = |i: usize| {
        let callbacks: Vec<String> = (0..5)
            .map(|k| {
                let executor = (i * 7 + k * 3) % 40;
                format!(
                    "{{id: c{k}, executor: e{executor}, cpu: 100 us, \
                     segments: [{{accel: gpu0, exec: {exec}}}]}}"
                )
            })
            .collect();
        let period = [200, 400, 1000, 2000][i % 4];
        let callbacks = callbacks.join(", ");
        format!("- {{id: ch{i}, priority: {i}, period: {period} ms, callbacks: [{callbacks}]}}\n")
    };
    let executor = |i: usize| format!("- {{id: e{i}, core: {i}, priority: 50}}\n");
    let executors: String = (0..40).map(executor).collect();
    let chains: String = (0..300).map(chain).collect();
    Bench::new(&format!(
        "accelerators: [{{id: gpu0, buckets: 32}}]\nexecutors:\n{executors}chains:\n{chains}"
    ))
}

/// Runs the command, sends it a signal when its progress has a line with `sign`, and waits for its
/// end; the rest of what it says stands in the output.
fn interrupted(arguments: &[&str], sign: &str, signal: Signal) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    // A pipe that nobody reads would keep the command from its end.
    let mut result = tempfile::tempfile().unwrap();
    command.arg("analyze").args(arguments).stdout(result.try_clone().unwrap());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap());
    let mut said = String::new();
    while !said.lines().last().unwrap_or_default().contains(sign) {
        assert_ne!(lines.read_line(&mut said).unwrap(), 0, "{said}");
    }
    kill_process(Pid::from_child(&child), signal).unwrap();
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    lines.read_to_end(&mut stderr).unwrap();
    let status = child.wait().unwrap();
    result.rewind().unwrap();
    result.read_to_end(&mut stdout).unwrap();
    Output { status, stdout, stderr }
}

#[test]
fn interrupted_margins_are_those_until_then() {
    let bench = large("90 us");
    let output = interrupted(&[&bench.file, "--sensitivity"], " of 304, margins", Signal::TERM);
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("PARTIAL: interrupted after") && text.contains("ch299"), "{text}");
}

/// A graph of 200 sensors, each with eight nodes behind it.
fn large_graph() -> Bench {
    let executor = |i: usize| format!("- {{id: e{i}, core: {i}, priority: 50}}\n");
    let line = |i: usize| -> String {
        let period = [100, 200, 500][i % 3];
        let node = |n: usize| {
            let priority = i * 9 + n;
            match n {
                0 => format!(
                    "kind: sensor, executor: e{}, period: {period} ms, priority: {priority}",
                    i % 16
                ),
                _ => format!(
                    "kind: transform, executor: e{}, cpu: 50 us, primes: 64, \
                     inputs: [{{from: n{i}x{}, priority: {priority}}}]",
                    (i * 5 + n / 3) % 16,
                    n - 1
                ),
            }
        };
        let segments = "segments: [{accel: gpu0, exec: 20 us}]";
        (0..9).map(|n| format!("  - {{id: n{i}x{n}, {}, {segments}}}\n", node(n))).collect()
    };
    let executors: String = (0..16).map(executor).collect();
    let nodes: String = (0..200).map(line).collect();
    Bench::new(&format!(
        "accelerators: [{{id: gpu0, buckets: 2}}]\nexecutors:\n{executors}graph:\n  message: 4 KiB\n  \
         nodes:\n{nodes}"
    ))
}

#[test]
fn analysis_that_is_interrupted_has_no_result() {
    let (chains, graph) = (large("90 us"), large_graph());
    let file = chains.folder.path().join("better.yaml");
    let assign = ["--assign", file.to_str().unwrap()];
    for (bench, options) in [(&chains, &[][..]), (&chains, &assign), (&graph, &[])] {
        let arguments = [&[bench.file.as_str()], options].concat();
        let output = interrupted(&arguments, ": pass ", Signal::INT);
        assert_eq!(output.status.code(), Some(130), "{options:?}");
        assert!(output.stdout.is_empty(), "{options:?}");
        let expected = format!("keeptime: {}: no result yet: interrupted by SIGINT\n", bench.file);
        assert!(stderr(&output).ends_with(&expected), "{output:?}");
    }
    assert!(!file.exists());
}

/// The bounds of the file that the search has found would take seconds.
#[test]
fn large_assignment_is_written_without_its_bounds() {
    let bench = large("150 us");
    let file = bench.folder.path().join("better.yaml");
    let better = file.to_str().unwrap();
    for json in [false, true] {
        let mut arguments = vec![bench.file.as_str(), "--assign", better];
        arguments.extend(json.then_some("--json"));
        let output = interrupted(&arguments, ", analyses at most", Signal::INT);
        assert_eq!(output.status.code(), Some(130), "{output:?}");
        assert!(stderr(&output).ends_with(&format!("wrote {better}\n")), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        let parts = [
            "PARTIAL: the search was interrupted after ",
            &format!("PARTIAL: no bounds yet; keeptime analyze {better} has them"),
        ];
        if json {
            let found: Value = serde_json::from_str(&text).unwrap();
            assert!(found["partial"].as_str().unwrap().starts_with(parts[0]), "{found}");
            assert_eq!(found["marks"][2], parts[1], "{found}");
            assert_eq!(found["assignment"]["of"], 300, "{found}");
            assert!(found.get("chains").is_none(), "{found}");
        } else {
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let guaranteed = " of 300 chains are guaranteed: this is the best that was found";
            let parts = [parts[0], parts[1].split(" analyze ").next().unwrap(), guaranteed];
            assert!(parts.iter().all(|part| words.contains(part)), "{text}");
            assert!(!text.contains("times in ms"), "{text}");
        }
        std::fs::remove_file(&file).unwrap();
    }
}

#[test]
fn bare_number_is_refused_with_the_units_it_may_have_been_meant_in() {
    let bench = Bench::new("chains: [{id: brake, priority: 1, period: 500}]\n");
    let output = bench.run(&[]);
    assert_eq!(output.status.code(), Some(2));
    let expected = ":1:43: chains[0].period: found \"500\", expected a number with its unit: \
                    \"500us\" or \"500ms\"";
    assert!(stderr(&output).contains(expected), "{output:?}");
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
    let said: Value = testing::result::read(block("docs/analysis.md", "json"));
    let found = Bench::new(&block("docs/system-file.md", "yaml")).json(&["--variant", "sound"]);
    assert_eq!(found["schedulable"], said["schedulable"]);
    let (said, found) = (&said["chains"]["brake"], &found["chains"]["brake"]);
    assert_eq!((&found["status"], &found["R_star_ns"]), (&said["status"], &said["R_star_ns"]));
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
    let response = |chain: &str| json["chains"][chain]["R_ns"].as_u64();
    assert_eq!(
        [response("a"), response("b"), response("c")],
        [11_000_000, 25_000_000, 55_000_000].map(Some)
    );
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
    for place in ["{id: fast, priority: 2, period: 60", "{id: slow, priority: 1, period: 500"] {
        assert!(text.contains(place), "{place}: {text}");
    }
}

#[test]
fn graph_has_bounds_of_its_paths_and_callbacks() {
    let file = case_study().with_file_name("picas-case-study.yaml");
    let file = file.to_str().unwrap();
    let output = keeptime(&[file, "--json"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let json: Value = testing::result::of(&output);
    let chain = |id: &str| json["paths"][id]["bound_ns"].as_f64().unwrap() / 1e3;
    // Chain 1: a timer, the way and the receipt of its message, 2 + 16 ms; nobody is above it, and
    // each of its executors has no callback but its own.
    assert_eq!(chain("chain1"), 18_600.0);
    // Chain 2 begins with the same callback, on whose executor that of chain 1 may come first.
    assert_eq!(chain("chain2"), 18_600.0 + 29_000.0 + 5.0 * 300.0);
    assert_eq!(json["callbacks"]["c2_3"]["bound_ns"], json["paths"]["chain2"]["bound_ns"]);
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

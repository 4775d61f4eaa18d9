//! `keeptime simulate` as a user runs it: responses beside bounds, searches that can be repeated,
//! pictures.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use serde_json::Value;

struct Bench {
    folder: tempfile::TempDir,
}

impl Bench {
    fn new(yaml: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("robot.yaml"), yaml).unwrap();
        Bench { folder }
    }

    /// Runs in the folder of the system file, so that commands are the same everywhere.
    fn keeptime(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
        let command = command.args(arguments).current_dir(self.folder.path());
        command.stdin(Stdio::null()).output().unwrap()
    }

    fn run(&self, options: &[&str]) -> Output {
        self.keeptime(&[&["simulate", "robot.yaml"], options].concat())
    }

    fn json(&self, options: &[&str]) -> Value {
        let output = self.run(&[options, &["--json"]].concat());
        testing::result::of(&output)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// The counterexample to the published theorem: lo holds the executor while it waits.
const SHARED: &str = "
accelerators: [{id: gpu0, buckets: 1}]
executors: [{id: e, core: 0, priority: 50}]
chains:
- {id: hi, priority: 2, period: 100 ms, deadline: 50 ms, callbacks: [{id: a, executor: e, cpu: 1 ms}]}
- {id: lo, priority: 1, period: 200 ms, callbacks: [{id: a, executor: e, cpu: 1 ms, segments: [{accel: gpu0, exec: 60 ms}]}]}
";

#[test]
fn chain_released_just_after_a_blocking_one_is_late() {
    let bench = Bench::new(SHARED);
    let output = bench.run(&["--jobs", "1"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let late = bench.json(&["--jobs", "1", "--offsets", "hi=2us,lo=1us"]);
    assert_eq!(late["chains"]["hi"]["worst_ns"], 61_999_000, "{late}");
    assert_eq!(late["chains"]["hi"]["misses"], 1, "{late}");
    assert_eq!(late["fails"], true);
    let output = bench.run(&["--jobs", "1", "--offsets", "hi=2us,lo=1us"]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Deadlines that count were missed in this schedule: hi."), "{text}");
}

#[test]
fn missed_deadline_of_a_best_effort_chain_is_no_failure() {
    let bench = Bench::new(&SHARED.replace("{id: hi,", "{id: hi, best_effort: true,"));
    let options = ["--jobs", "1", "--offsets", "hi=2us,lo=1us"];
    assert_eq!(bench.json(&options)["chains"]["hi"]["misses"], 1);
    assert_eq!(bench.run(&options).status.code(), Some(0));
}

/// Two executors, two accelerators, one chain that spins, one with jitter, one of two parts.
const ROBOT: &str = "
kappa: 300 us
epsilon: 200 us
hop: 500 us
accelerators: [{id: gpu0, buckets: 4}, {id: npu & co, buckets: 2}]
executors:
- {id: front, core: 1, priority: 80}
- {id: rear, core: 1, priority: 70}
- {id: back, core: 2, priority: 70}
chains:
- {id: brake, priority: 9, period: 20 ms, jitter: 1 ms, wait: spin, callbacks: [{id: see, executor: front, cpu: 2 ms, segments: [{accel: gpu0, exec: 2 ms}]}, {id: act, executor: rear, cpu: 1 ms}]}
- {id: steer <fast>, priority: 8, period: 30 ms, callbacks: [{id: see, executor: rear, cpu: 2 ms, segments: [{accel: gpu0, exec: 3 ms}, {accel: npu & co, exec: 2 ms}]}]}
- {id: \"map, all\", priority: 1, period: 50 ms, callbacks: [{id: see, executor: back, cpu: 5 ms, segments: [{accel: gpu0, exec: 12 ms}, {accel: npu & co, exec: 6 ms}]}]}
";

#[test]
fn responses_stay_within_the_bounds_that_stand_beside_them() {
    let bench = Bench::new(ROBOT);
    let bounds = bench.keeptime(&["analyze", "robot.yaml", "--json"]).stdout;
    let bounds: Value = testing::result::read(&bounds);
    for options in [
        &["--duration", "3s"][..],
        &["--duration", "3s", "--offsets", "random", "--seed", "3", "--jitter", "random"],
        &["--duration", "3s", "--execution", "random", "--split", "random", "--tie", "random"],
        &["--adversarial"],
    ] {
        let json = bench.json(options);
        for id in ["brake", "steer <fast>", "map, all"] {
            let (found, bound) = (&json["chains"][id], &bounds["chains"][id]);
            assert_eq!(found["bound_ns"], bound["R_star_ns"], "{options:?} {id}");
            assert_eq!(found["exceeds_bound"], false, "{options:?} {id}: {found}");
            assert!(found["worst_ns"].as_f64() <= found["bound_ns"].as_f64(), "{options:?} {id}");
            assert!(found["median_ns"].as_f64() <= found["worst_ns"].as_f64(), "{options:?} {id}");
            assert!(found["jobs"].as_u64().unwrap() > 1, "{options:?} {id}");
        }
    }
}

#[test]
fn schedule_that_a_search_found_is_simulated_again_by_its_command() {
    let bench = Bench::new(ROBOT);
    let found = bench.json(&["--adversarial", "--seed", "5"]);
    for id in ["brake", "steer <fast>", "map, all"] {
        let chain = &found["chains"][id];
        let command = chain["repeat"].as_str().unwrap();
        let arguments = shell_words(command);
        let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(arguments.remove(0), "keeptime");
        arguments.push("--json");
        let output = bench.keeptime(&arguments);
        let again: Value = testing::result::of(&output);
        assert_eq!(again["chains"][id]["worst_ns"], chain["worst_ns"], "{command}");
    }
    let text = String::from_utf8(bench.run(&["--adversarial", "--chain", "brake"]).stdout).unwrap();
    assert!(text.contains("  keeptime simulate robot.yaml --chain brake --duration "), "{text}");
    bench.run(&["--adversarial", "--chain", "brake", "--html", "a.html"]);
    let page = std::fs::read_to_string(bench.file("a.html")).unwrap();
    assert!(page.contains("<code>keeptime simulate robot.yaml --chain brake --duration "));
    assert!(!text.contains("\n  map, all "), "only the chain that was asked for: {text}");
}

/// Splits a command at spaces outside of single quotes.
fn shell_words(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    words
}

#[test]
fn search_with_the_same_seed_finds_the_same() {
    let bench = Bench::new(SHARED);
    let options = ["--adversarial", "--seed", "7", "--effort", "1"];
    let (first, second) = (bench.json(&options), bench.json(&options));
    assert_eq!(first["chains"], second["chains"]);
    // It finds what the published theorem overlooks.
    assert!(first["chains"]["hi"]["worst_ns"].as_f64() > Some(60_000_000.0), "{first}");
    assert_eq!(bench.run(&options).status.code(), Some(1));
}

#[test]
fn picture_has_every_chain_core_and_bucket() {
    let bench = Bench::new(ROBOT);
    let output = bench.run(&["--svg", "a.svg", "--html", "a.html", "--kappa", "physical"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let svg = std::fs::read_to_string(bench.file("a.svg")).unwrap();
    for text in [">brake<", ">steer &lt;fast&gt;<", ">map, all<", ">core 1<", ">core 2<"] {
        assert!(svg.contains(text), "{text}");
    }
    for text in [">gpu0<", ">npu &amp; co<", ">bucket 3<", ">bucket 1<", ">front, rear<"] {
        assert!(svg.contains(text), "{text}");
    }
    // 100 ms are two of the longest periods: 5 releases of brake, with the one at its end 6.
    let releases = svg.matches(">brake: job ").count();
    assert!((5..=6).contains(&releases), "{releases} releases");
    assert!(svg.contains("class=\"spin c0\"") && svg.contains("class=\"switch\""));
    assert!(!svg.contains("<script") && !svg.contains("steer <fast>"));
    let page = std::fs::read_to_string(bench.file("a.html")).unwrap();
    assert!(page.contains("steer &lt;fast&gt;") && !page.contains("steer <fast>"));
    assert!(page.contains("--kappa physical") && page.contains("<svg"));
}

#[test]
fn picture_of_a_chain_is_around_its_worst_job() {
    let bench = Bench::new(SHARED);
    let options = ["--jobs", "3", "--offsets", "hi=2us,lo=1us", "--chain", "hi", "--svg", "a.svg"];
    bench.run(&options);
    let svg = std::fs::read_to_string(bench.file("a.svg")).unwrap();
    assert!(svg.contains("hi, job 1: responds in 62 ms"), "{svg}");
    assert!(svg.contains("class=\"late\""), "{svg}");
    assert!(!svg.contains("hi, job 5"), "{svg}");
}

#[test]
fn options_that_mean_nothing_are_exit_status_2() {
    let bench = Bench::new(SHARED);
    for (options, message) in [
        (&["--offsets", "mid=3ms"][..], "--offsets: found \"mid=3ms\", expected synchronous or"),
        (&["--jitter", "mid=first"], "with CHAIN one of the chains: hi, lo"),
        (&["--duration", "500"], "expected a number with its unit: 500us or 500ms"),
        (
            &["--offsets", "hi=3"],
            "--offsets: found \"3\", expected synchronous or random, or CHAIN",
        ),
        (
            &["--execution", "best"],
            "--execution: found \"best\", expected worst or least or random",
        ),
        (&["--jitter", "hi=maybe"], "--jitter: found \"maybe\", expected none or random"),
        (&["--chain", "mid"], "--chain: found \"mid\", expected one of the chains: hi, lo"),
        (&["--jobs", "0"], "--jobs"),
        (&["--jobs", "3", "--duration", "3s"], "cannot be used with"),
        (&["--adversarial", "--offsets", "random"], "cannot be used with"),
        (&["--effort", "3"], "--adversarial"),
        (&["--duration", "100000s"], "--duration: found 1500000 jobs in all, expected at most"),
        (&["--tie", "never"], "expected completion or release or decision or random"),
        (
            &["--duration", "3000s", "--window", "3000s", "--svg", "a.svg"],
            "choose a shorter --window",
        ),
        (&["--svg", "nowhere/a.svg"], "--svg nowhere/a.svg"),
    ] {
        let output = bench.run(options);
        let error = String::from_utf8(output.stderr.clone()).unwrap();
        assert_eq!(output.status.code(), Some(2), "{options:?}: {error}");
        assert!(error.contains(message), "{options:?}: {error}");
    }
}

#[test]
fn search_that_is_interrupted_shows_the_worst_schedules_so_far() {
    let bench = Bench::new(ROBOT);
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.args(["simulate", "robot.yaml", "--adversarial", "--effort", "1000", "--json"]);
    command.current_dir(bench.folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
    assert!(said.starts_with("keeptime simulate: takes about "), "{said}");
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(143), "{output:?}");
    let found: Value = testing::result::of(&output);
    assert!(found["marks"][0].as_str().unwrap().starts_with("PARTIAL: interrupted after"));
    assert!(found["chains"]["brake"]["worst_ns"].as_u64().unwrap() > 0, "{found}");
}

#[test]
fn schedule_that_takes_long_shows_its_progress_and_is_as_long_as_until_a_signal() {
    // Each event takes the simulator some microseconds.
    let executors: String =
        (0..1000).map(|i| format!("- {{id: e{i}, core: {i}, priority: 50}}\n")).collect();
    let chain = |i: usize| {
        format!(
            "- {{id: ch{i}, priority: {i}, period: 1 ms, \
             callbacks: [{{id: a, executor: e{i}, cpu: 1 us}}]}}\n"
        )
    };
    let chains: String = (0..1000).map(chain).collect();
    let bench = Bench::new(&format!("executors:\n{executors}chains:\n{chains}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.args(["simulate", "robot.yaml", "--duration", "1s", "--json"]);
    let result = std::fs::File::create(bench.file("result.json")).unwrap();
    command.current_dir(bench.folder.path()).stdout(result).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let estimate = lines.next().unwrap();
    assert!(estimate.starts_with("keeptime simulate: takes about "), "{estimate}");
    let progress = lines.next().unwrap();
    assert!(progress.contains(" of 1000, ms of the schedule, "), "{progress}");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let result = std::fs::read_to_string(bench.file("result.json")).unwrap();
    let found: Value = serde_json::from_str(&result).unwrap();
    let partial = found["partial"].as_str().unwrap();
    assert!(partial.starts_with("PARTIAL: interrupted after "), "{partial}");
    assert!(partial.ends_with(" of 1000 ms of the schedule"), "{partial}");
    let chain = &found["chains"]["ch999"];
    assert!((1..1000).contains(&chain["jobs"].as_u64().unwrap()), "{chain}");
    assert_eq!(chain["unfinished"], 0, "{chain}");
}

#[test]
fn summary_alone_is_printed_beside_a_page() {
    let bench = Bench::new(ROBOT);
    let output = bench.run(&["--duration", "1s", "--html", "page.html"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("closest to its bound") && !text.contains("deadline  "), "{text}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "wrote page.html\n");
    let whole = String::from_utf8(bench.run(&["--duration", "1s"]).stdout).unwrap();
    assert!(whole.len() > text.len() && whole.contains("deadline  "), "{whole}");
}

#[test]
fn hyperperiod_is_simulated_unless_it_is_too_long() {
    let bench = Bench::new(SHARED);
    let text = String::from_utf8(bench.run(&[]).stdout).unwrap();
    assert!(text.starts_with("robot.yaml\n200ms (one hyperperiod) simulated"), "{text}");
    let odd = SHARED.replace("100 ms", "99999989 ns").replace("200 ms", "199999991 ns");
    let json = Bench::new(&odd).json(&[]);
    let jobs: u64 =
        ["hi", "lo"].map(|id| json["chains"][id]["jobs"].as_u64().unwrap()).iter().sum();
    assert!((25_000..=50_010).contains(&jobs), "{jobs} jobs");
}

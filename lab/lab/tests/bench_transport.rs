//! Drives the real `keeptime-lab bench transport`: all ways are measured, each answer is right (a client
//! ends with an error otherwise), parts sum to the whole, and the JSON has what
//! docs/bench-transport.md says. How long anything takes is not tested.

mod program;

use program::laboratory;
use serde_json::Value;
use std::process::{Command, Output};

const STEPS: [&str; 9] =
    ["send", "there", "gateway", "wake", "queue", "device", "answer", "back", "take"];

fn bench(arguments: &[&str]) -> Output {
    let mut command = laboratory();
    command.args(["bench", "transport"]).args(arguments).output().expect("keeptime starts")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

/// Returns true if this machine can have two hosts.
fn has_hosts() -> bool {
    let works = |command: &mut Command| command.output().is_ok_and(|done| done.status.success());
    rustix::process::geteuid().is_root()
        && std::fs::File::options().read(true).write(true).open("/dev/net/tun").is_ok()
        && works(Command::new("ip").args(["netns", "list"]))
        && works(Command::new("python3").arg("--version"))
}

/// The parts of the request, and that they sum to its whole.
fn parts(request: &Value, is_best: bool) -> [f64; 9] {
    let parts = &request["parts_ns"];
    let steps = STEPS.map(|step| number(&parts[step]));
    assert!(steps.iter().all(|ns| *ns >= 0.0), "{request}");
    let rest = number(&parts["unexplained"]);
    let (sum, whole) = (steps.iter().sum::<f64>() + rest, number(&request["whole_ns"]));
    assert!((sum - whole).abs() < 1.0, "{sum} of {whole}: {request}");
    // Time stamps of two clocks are compared, which are read one after the other: a thread that is
    // interrupted in between leaves something unexplained, but not of the best request.
    assert!(!is_best || rest.abs() < 0.05 * whole, "{rest} of {whole} is unexplained: {request}");
    let overhead = number(&request["overhead_ns"]);
    assert!((overhead + steps[5] - whole).abs() < 1.0, "{request}");
    steps
}

#[test]
fn ways_are_measured_in_one_run_and_parts_sum_to_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("page.html");
    let sizes = ["--sizes", "64B,4KiB,64KiB", "--loss", "0", "--delay", "2ms"];
    let out = ["--json", "--html", page.to_str().unwrap()];
    let output = bench(&[&["--quick"], &sizes[..], &out].concat());
    assert!(output.status.success(), "{output:?}");
    let run: Value = testing::result::of(&output);
    assert_eq!(run["steps"], serde_json::json!(STEPS));
    assert_eq!((number(&run["delay_ns"]), number(&run["loss"])), (2e6, 0.0));
    assert_eq!(run["paam_overhead_ns"], serde_json::json!({"best": 198_000, "worst": 391_000}));
    for name in ["command", "date", "machine", "device", "marks"] {
        assert!(!run[name].is_null(), "{name}: {run}");
    }
    let cells = run["cells"].as_array().unwrap();
    let ways = match has_hosts() {
        true => vec!["shared", "loopback", "hosts"],
        false => {
            println!("SKIP: no two hosts here");
            assert!(run["marks"].to_string().contains("hosts is left out"), "{run}");
            vec!["shared", "loopback"]
        }
    };
    assert_eq!(cells.len(), 3 * ways.len());
    for (cell, (bytes, way)) in cells.iter().zip(
        [64.0, 4096.0, 65536.0]
            .into_iter()
            .flat_map(|bytes| ways.iter().map(move |way| (bytes, way))),
    ) {
        assert_eq!((cell["way"].as_str(), number(&cell["bytes"])), (Some(*way), bytes));
        assert_eq!(number(&cell["samples"]), 20.0, "{cell}");
        assert_eq!(number(&cell["unanswered"]), 0.0, "{cell}");
        assert!(number(&cell["repeated"]) >= 0.0);
        assert_eq!(cell["warm_up_ns"].as_array().unwrap().len(), 5, "{cell}");
        let latency = ["min", "median", "p99", "max"].map(|name| number(&cell["latency_ns"][name]));
        assert!(latency.is_sorted() && latency[0] > 0.0, "{cell}");
        for which in ["best", "mean", "worst"] {
            let request = &cell["requests"][which];
            let whole = number(&request["whole_ns"]);
            assert!((latency[0]..=latency[3]).contains(&whole), "{cell}");
            let steps = parts(request, which == "best");
            // Each way has its steps, and no others.
            let dds = [1, 2, 7].map(|step| steps[step] > 0.0);
            assert_eq!(dds, [*way != "shared"; 3], "{cell}");
            assert!([0, 3, 4, 5, 6, 8].iter().all(|&step| steps[step] > 0.0), "{cell}");
            if *way == "hosts" {
                assert!(steps[1] >= 2e6 && steps[7] >= 2e6, "the delay is missing: {cell}");
            }
        }
    }
    let page = std::fs::read_to_string(&page).unwrap();
    assert!(page.contains("shared memory") && page.contains("<svg"), "the page");
}

#[test]
fn bad_options_are_refused_with_what_was_expected() {
    for (arguments, expected) in [
        (["--sizes", "12"], "multiple of 8 bytes"),
        (["--sizes", "1GiB"], "multiple of 8 bytes"),
        (["--loss", "0.9"], "a share from 0 to 0.5"),
        (["--delay", "1min"], "at most 1 s"),
        (["--ways", "pigeon"], "possible values"),
        (["--samples", "0"], "1..="),
        (["--device", "tpu"], "cpu, cuda:N or vulkan:N"),
    ] {
        let output = bench(&arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(arguments[0]) && said.contains(expected), "{arguments:?}: {said}");
    }
}

//! `keeptime-lab drive --middleware`: bytes lose nothing, and what they cost is seen.

mod program;

use program::laboratory;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use testing::result;

fn keeptime(arguments: &[&str]) -> Output {
    let reports = arguments.first() == Some(&"report");
    let mut command = if reports { Command::new(testing::keeptime()) } else { laboratory() };
    command.args(arguments).output().unwrap()
}

const WAYS: [&str; 2] = ["pointer", "serialised"];

#[test]
fn vehicle_drives_the_same_way_whatever_carries_its_messages() {
    // Modules of the oracle cost nothing, and neither does the middleware: what differs would be
    // what got lost on the way.
    for stack in ["a", "b"] {
        let [pointer, bytes] = WAYS.map(|way| {
            let fixed = ["drive", "corner:1", "--policy", "oracle", "--json", "--stack", stack];
            let drove = result::of(&keeptime(&[&fixed[..], &["--middleware", way]].concat()));
            assert!(drove["drives"][0]["latency_ns"]["count"].as_u64().unwrap() > 20);
            drove["drives"].clone()
        });
        assert!(pointer == bytes, "stack {stack}: {pointer}\n{bytes}");
    }
    let wrong = keeptime(&["drive", "corner:1", "--middleware", "dds"]);
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(said.contains("expected pointer or serialised"), "{said}");
}

#[test]
fn report_has_what_each_topics_bytes_took() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [pointer, bytes] = WAYS.map(|way| {
        let (trace, page) = (path(way), path("page.html"));
        let policies = ["--policy", "base", "--factor", "4"];
        let drive = ["drive", "corner:1", "--json", "--middleware", way, "--trace", &trace];
        keeptime(&[&drive[..], &policies].concat());
        let report = result::of(&keeptime(&["report", &trace, "--json", "--html", &page]));
        let text = keeptime(&["report", &trace]).stdout;
        let page = std::fs::read_to_string(page).unwrap();
        (report["drives"][0].clone(), String::from_utf8(text).unwrap(), page)
    });
    let none = &pointer.0["middleware"].as_array().unwrap()[0];
    assert_eq!((&none["bytes"]["count"], &none["serialise_ns"]), (&0.into(), &Value::Null));
    assert_eq!(pointer.0["frame_middleware_ns"]["max"], 0);
    assert!(!pointer.1.contains("middleware") && !pointer.2.contains("deserialise, p50"));
    assert!(bytes.1.contains("deserialise, p50") && bytes.2.contains("deserialise, p50"));

    let drive = &bytes.0;
    let topic = |name: &str| {
        let topics = drive["middleware"].as_array().unwrap();
        topics.iter().find(|topic| topic["topic"] == name).unwrap()
    };
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    let (scan, boxes, place) = (topic("lidar"), topic("detections"), topic("localisation"));
    let mean = |topic: &Value| number(&topic["bytes"]["mean"]);
    let median = |topic: &Value| number(&topic["deserialise_ns"]["p50"]);
    assert!(mean(scan) > 100.0 * mean(boxes) && mean(boxes) > 2.0 * mean(place), "{drive}");
    assert!(median(scan) > 0.0 && median(boxes) > 0.0, "{scan} {boxes}");
    // A sensor's own processor makes bytes of what it sees.
    assert_eq!((&scan["serialise_ns"], &boxes["serialise_ns"]["count"]), {
        (&Value::Null, &boxes["hop_ns"]["count"])
    });
    assert_eq!(drive["frame_middleware_ns"]["count"], drive["frame_to_command_ns"]["count"]);
    for path in drive["worst"].as_array().unwrap().iter().chain([&drive["reaction"]]) {
        let of = |key: &str| path[key].as_u64().unwrap();
        assert_eq!(of("total_ns"), of("sensor_ns") + of("module_ns") + of("bubble_ns"));
        let steps = path["steps"].as_array().unwrap();
        let parts = ["deserialise_ns", "serialise_ns", "hop_ns"];
        let sum: u64 =
            steps.iter().flat_map(|step| parts.map(|part| step[part].as_u64().unwrap())).sum();
        assert_eq!(sum, of("middleware_ns"));
        assert!(sum > 0 && sum < of("module_ns"), "{path}");
        // The scan's bytes are on each of these ways.
        assert!(steps[0]["deserialise_ns"].as_u64().unwrap() > 0, "{path}");
    }
}

/// A bound in time, for a machine without other work: `cargo xtask soak` runs it.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn bytes_of_a_scan_take_five_times_as_long_as_those_of_boxes() {
        let folder = tempfile::tempdir().unwrap();
        let trace = folder.path().join("trace").to_str().unwrap().to_owned();
        let policies = ["--policy", "base", "--factor", "4"];
        let drive = ["drive", "corner:1", "--json", "--middleware", "serialised"];
        keeptime(&[&drive[..], &policies, &["--trace", &trace]].concat());
        let report = result::of(&keeptime(&["report", &trace, "--json"]));
        let topics = report["drives"][0]["middleware"].as_array().unwrap();
        let median = |name: &str| {
            let topic = topics.iter().find(|topic| topic["topic"] == name).unwrap();
            topic["deserialise_ns"]["p50"].as_f64().unwrap()
        };
        assert!(median("lidar") > 5.0 * median("detections"), "{topics:?}");
    }
}

#[test]
fn study_has_the_middleware_among_the_modules() {
    let folder = tempfile::tempdir().unwrap();
    let study = |way: &str, out: &Path| {
        let out = out.to_str().unwrap();
        let what = ["--experiment", "characterise", "--scenarios", "1", "--stack", "a"];
        let how = ["--factor", "2", "--jobs", "1", "--json", "--middleware", way];
        keeptime(&[&["drive", "study", "--out", out], &what[..], &how].concat())
    };
    let rows = WAYS.map(|way| {
        let run = result::of(&study(way, &folder.path().join(way)));
        let tables = run["sections"][0]["tables"].as_array().unwrap().clone();
        let rows = tables[0]["rows"].as_array().unwrap().clone();
        rows.into_iter().find(|row| row[0] == "middleware").unwrap()
    });
    assert_eq!((&rows[0][1], &rows[0][3]), (&"0".into(), &"-".into()));
    let median: f64 = rows[1][3].as_str().unwrap().parse().unwrap();
    assert!(median > 0.0 && rows[1][1].as_str().unwrap().parse::<u32>().unwrap() > 200, "{rows:?}");
    // A folder is of one of them.
    let other = study("pointer", &folder.path().join("serialised"));
    assert!(!other.status.success());
}

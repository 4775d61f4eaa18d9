//! `keeptime-lab drive --trace` and `keeptime report` of what it wrote.

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

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn report_finds_in_the_trace_what_the_drive_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (trace, page, perfetto) = (path("drive.kt"), path("page.html"), path("drive.pftrace"));
    // If timers start modules, somebody waits for sure.
    let drive = ["drive", "corner:1", "--stack", "b", "--factor", "4", "--json", "--trace", &trace];
    let drive = result::of(&keeptime(&drive));

    let shows = ["--worst", "3", "--html", &page, "--perfetto", &perfetto];
    let report = result::of(&keeptime(&[&["report", &trace, "--json"][..], &shows].concat()));
    assert_eq!(report["schema"], "keeptime.flow");
    for (drove, found) in
        drive["drives"].as_array().unwrap().iter().zip(report["drives"].as_array().unwrap())
    {
        assert_eq!(drove["policy"], found["policy"]);
        // The frames and the reaction are found again, from the events alone.
        let latency = (&drove["latency_ns"], &found["frame_to_command_ns"]);
        assert_eq!(latency.0["count"], latency.1["count"]);
        for name in ["p50", "p99", "max"] {
            let [one, other] = [latency.0, latency.1].map(|it| it[name].as_u64().unwrap());
            assert!(one.abs_diff(other) < 1_000, "{name}: {one} {other}");
        }
        check_reaction(&drove["reaction"], &found["reaction"]);
        let worst = found["worst"].as_array().unwrap();
        assert_eq!(worst.len(), 3);
        let longest_ns = worst[0]["total_ns"].as_u64().unwrap();
        assert!(longest_ns.abs_diff(latency.1["max"].as_u64().unwrap()) < 1_000, "{worst:?}");
        let modules = found["modules"].as_array().unwrap();
        let names: Vec<&str> = modules.iter().map(|it| it["module"].as_str().unwrap()).collect();
        let all = ["segmentation", "tracking", "prediction", "planning", "control", "brake"];
        let brakes = usize::from(found["policy"] == "all");
        assert_eq!(names, all[..5 + brakes]);
        assert!(modules.iter().all(|it| it["runs"].as_u64().unwrap() > 5), "{modules:?}");
    }
    let text = said(&keeptime(&["report", &trace]));
    assert!(
        text.contains("base: the slowest frame took") && text.contains("segmentation"),
        "{text}"
    );
    let html = std::fs::read_to_string(page).unwrap();
    assert!(html.contains("Critical paths") && html.contains("<svg"));
    assert!(std::fs::metadata(perfetto).unwrap().len() > 10_000);
    broken(&trace, &path("broken.kt"));
}

fn check_reaction(drove: &Value, found: &Value) {
    assert_eq!(drove.is_null(), found.is_null(), "{drove} {found}");
    if drove.is_null() {
        return;
    }
    for (kind, key) in [("module", "module_ns"), ("waiting", "bubble_ns")] {
        let parts = drove["parts"].as_array().unwrap().iter();
        let of = parts
            .filter(|part| part["kind"] == kind || (kind == "waiting" && part["kind"] == "bubble"));
        let sum: u64 = of.map(|part| part["took_ns"].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), found[key].as_u64(), "{drove} {found}");
    }
}

/// A trace with other bytes in it is refused or read, but never makes the report panic.
fn broken(trace: &str, copy: &str) {
    let whole = std::fs::read(trace).unwrap();
    let mut refused = 0;
    for round in 0..24_usize {
        let mut bytes = whole.clone();
        let at = 64 + round.wrapping_mul(2_654_435_761) % (whole.len() - 64);
        bytes[at] ^= 1 << (round % 8);
        std::fs::write(copy, bytes).unwrap();
        let output = keeptime(&["report", copy]);
        assert!(matches!(output.status.code(), Some(0 | 2)), "byte {at}: {output:?}");
        refused += u32::from(output.status.code() == Some(2));
    }
    assert!(refused > 0);
    // The version is that of a trace with records of graphs.
    assert_eq!(whole[8..12], 4_u32.to_le_bytes());
    assert!(Path::new(trace).is_file());
}

//! `keeptime-lab drive --clock wall` and its study, on whatever cores there are: that it drives, says
//! on which clock, and refuses what cannot be. How fast it is, these tests do not ask.

mod program;

use program::laboratory;
use serde_json::Value;
use std::process::{Command, Output};

/// The car ahead brakes.
const LEAD: &str = "
name: the car ahead brakes
duration_s: 2
road:
  straight: { length_m: 400, lanes: 1, lane_width_m: 3.5, limit_kmh: 50 }
ego: { along_m: 50, speed_kmh: 40 }
actors:
  - { kind: car, along_m: 72, speed_kmh: 40, moves: !lane {} }
actions:
  - { actor: 0, when: !time_s 0.5, does: !speed { to_kmh: 0, rate_mps2: 7 } }
hazard: { actor: 0, action: 0 }
";

fn keeptime(arguments: &[&str]) -> Output {
    let reports = arguments.first() == Some(&"report");
    let mut command = if reports { Command::new(testing::keeptime()) } else { laboratory() };
    command.args(arguments).output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn drive_on_the_wall_clock_says_so_wherever_it_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (scenario, trace, page) = (path("lead.yaml"), path("lead.kt"), path("lead.html"));
    std::fs::write(&scenario, LEAD).unwrap();
    let wall = ["--clock", "wall", "--fold", "--factor", "1", "--trace", &trace, "--html", &page];
    let drive = [&["drive", &scenario, "--policy", "base", "--json"][..], &wall].concat();
    let output = keeptime(&drive);
    let result: Value = testing::result::of(&output);
    let clock = result["machine"]["Clock"].as_str().unwrap();
    assert!(clock.starts_with("wall: the modules") && clock.contains("the world on"), "{clock}");
    assert!(result["stack"].as_str().unwrap().ends_with("on the wall clock"));
    let frames = result["drives"][0]["latency_ns"]["count"].as_u64().unwrap();
    assert!((1..=20).contains(&frames), "{frames}");
    let marks = result["marks"].to_string();
    let few = realtime::thread::cores().len() < 8;
    assert_eq!(marks.contains("Folded"), few, "{marks}");
    assert!(std::fs::read_to_string(page).unwrap().contains("on the wall clock"));
    let report = keeptime(&["report", &trace]);
    let text = String::from_utf8_lossy(&report.stdout).into_owned();
    assert!(text.contains("on the wall clock") && text.contains("planning"), "{text}");
}

#[test]
fn what_cannot_be_driven_on_the_wall_clock_is_refused_in_words() {
    for (more, expected) in [
        (["--clock", "wall", "--policy", "base,oracle"], "found oracle, which takes no time"),
        (["--clock", "wall", "--factor", "0.5"], "--factor: found 0.5, expected 1 to 1000"),
        (["--clock", "virtual", "--policy", "base"], "--fold: found it with --clock virtual"),
    ] {
        let output = keeptime(&[&["drive", "corner:1", "--fold"], &more[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}");
        assert!(said(&output).contains(expected), "{more:?}: {}", said(&output));
    }
    // A process inherits the cores of the thread that starts it.
    let core = realtime::thread::cores()[0];
    let on_one_core = std::thread::spawn(move || {
        realtime::thread::pin(&[core]).unwrap();
        keeptime(&["drive", "corner:1", "--clock", "wall", "--policy", "base,brake"])
    });
    let output = on_one_core.join().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let expected = "found 1 cores, expected 9: 8 for the stack, one for the world; --fold";
    assert!(said(&output).contains(expected), "{}", said(&output));
}

#[test]
fn study_drives_each_scenario_on_both_clocks_and_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("clocks");
    let study = |more: &[&str]| {
        let usual = ["--experiment", "clocks", "--scenarios", "0-0", "--stack", "a", "--factor"];
        let out = ["drive", "study", "--out", out.to_str().unwrap()];
        keeptime(&[&out, &usual[..], &["1", "--policy", "base", "--fold"], more].concat())
    };
    let output = study(&["--json"]);
    assert!(output.status.success(), "{}", said(&output));
    let result: Value = testing::result::of(&output);
    let demands = result["demands"].as_array().unwrap();
    let of_clocks: Vec<&Value> = demands
        .iter()
        .filter(|it| it["what"].as_str().unwrap().contains("virtual clock"))
        .collect();
    assert_eq!(of_clocks.len(), 4, "{demands:?}");
    assert!(of_clocks.iter().all(|demand| demand["verdict"] == "not_measured"), "{of_clocks:?}");
    let log = std::fs::read_to_string(out.join("drives.log")).unwrap();
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines.len(), 3);
    assert!(!lines[0].contains("\"clock\"") && lines[1].contains("\"clock\":\"wall\""), "{log}");
    // The same drive again: the vehicle went where it went, on times that were measured on the wall
    // clock. A busy machine drops chunks there, which then were not measured.
    let [wall, again] = [lines[1], lines[2]].map(|line| {
        let row = &line[line.find('{').unwrap()..];
        serde_json::from_str::<Value>(row).unwrap()
    });
    assert_eq!(again["key"]["clock"], "again");
    for same in ["driven_s", "progress_m", "violation_s"] {
        assert_eq!(wall[same], again[same], "{same}");
    }
    let chunks = |name: &str| again[name].as_u64().unwrap_or(0);
    let (same, other) = (chunks("chunks_observed"), chunks("chunks_missing"));
    assert!(same > 0, "{same} chunks were run on the wall clock, {other} were not");
    assert!(wall["chunks_observed"].is_null() && wall["chunks_missing"].is_null());
    let resumed = |kept: &[&str]| {
        let kept: String = kept.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(out.join("drives.log"), kept).unwrap();
        let output = study(&["--resume"]);
        assert!(output.status.success(), "{}", said(&output));
        std::fs::read_to_string(out.join("drives.log")).unwrap()
    };
    // Drives that are over on both clocks are kept; the drive of its own is driven again.
    let log = resumed(&lines[1..]);
    assert!(log.starts_with(lines[1]) && log.contains(lines[2]), "{log}");
    assert_eq!(log.lines().count(), 3);
    // A drive on the wall clock whose other half was lost is none: another one would not be
    // the same drive.
    let log = resumed(&lines[..2]);
    assert!(log.starts_with(lines[0]) && !log.contains(lines[1]), "{log}");
    assert_eq!(log.lines().count(), 3);
}

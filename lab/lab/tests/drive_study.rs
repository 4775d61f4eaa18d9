//! `keeptime-lab drive study`: a few drives, killed and gone on with, in shards and whole.
//!
//! Drives that are compared one by one are those of the oracle, whose modules cost nothing: they do
//! not depend on the machine.

mod program;

use parquet::file::reader::{FileReader, SerializedFileReader};
use program::laboratory;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

fn command(out: &Path, arguments: &[&str]) -> Command {
    let mut command = laboratory();
    command.args(["drive", "study", "--out"]).arg(out).args(arguments);
    command
}

fn study(out: &Path, arguments: &[&str]) -> Output {
    command(out, arguments).output().unwrap()
}

fn corner<'a>(policies: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    corner_at("10", policies, more)
}

fn corner_at<'a>(factor: &'a str, policies: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    let usual = ["--experiment", "corner", "--scenarios", "1-3", "--stack", "a", "--policy"];
    [usual.as_slice(), &[policies, "--factor", factor], more].concat()
}

/// The rows of a folder by scenario and policy, without what depends on the machine.
fn rows(out: &Path) -> BTreeMap<(u64, String), Value> {
    let log = std::fs::read_to_string(out.join("drives.log")).unwrap();
    let row = |line: &str| {
        let mut row: Value = serde_json::from_str(&line[17..]).unwrap();
        row.as_object_mut().unwrap().remove("took_s").unwrap();
        let policy = row["key"]["policy"].as_str().unwrap().to_owned();
        ((row["key"]["index"].as_u64().unwrap(), policy), row)
    };
    log.lines().map(row).collect()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn study_that_was_killed_goes_on_and_damage_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (killed, log) = (folder.path().join("killed"), folder.path().join("killed/drives.log"));
    let one = corner("oracle", &["--jobs", "1"]);
    let mut child =
        command(&killed, &one).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let lines = || std::fs::read_to_string(&log).map_or(0, |log| log.matches('\n').count());
    testing::until("a drive", || lines() > 0 || child.try_wait().unwrap().is_some());
    child.kill().unwrap();
    child.wait().unwrap();
    // One drive and half a line, as if it had been killed while it wrote the second one.
    let kept = std::fs::read_to_string(&log).unwrap();
    let whole = &kept[..kept.find('\n').unwrap() + 1];
    std::fs::write(&log, format!("{whole}{}", &whole[..40])).unwrap();

    let again = study(&killed, &one);
    assert_eq!(again.status.code(), Some(2), "{}", said(&again));
    assert!(said(&again).contains("--resume continues it"), "{}", said(&again));
    let resumed = study(&killed, &[one.as_slice(), &["--resume"]].concat());
    assert!(resumed.status.success(), "{}", said(&resumed));
    assert!(std::fs::read_to_string(&log).unwrap().starts_with(whole), "drives were kept");
    assert_eq!(rows(&killed).len(), 3);
    assert!(said(&resumed).contains("study: 3 of 3, drives"), "{}", said(&resumed));

    let other = study(&killed, &corner_at("5", "oracle", &["--resume"]));
    assert!(
        said(&other).contains("study.json: factor: found 10.0, expected 5.0"),
        "{}",
        said(&other)
    );

    // A changed digit, a line of something else, and a drive of another study.
    let good = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<&str> = good.lines().collect();
    let changed = lines[1].replacen("driven_s\":", "driven_s\":1", 1);
    for (second, expected) in [
        (changed.as_str(), "drives.log:2: checksum"),
        ("nonsense", "drives.log:2: expected a checksum"),
        (lines[0], "drives.log:2: found corner 1, stack a, oracle twice"),
    ] {
        std::fs::write(&log, format!("{}\n{second}\n{}\n", lines[0], lines[2])).unwrap();
        let output = study(&killed, &[one.as_slice(), &["--resume"]].concat());
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(expected), "{expected}: {}", said(&output));
    }
}

#[test]
fn merged_shards_are_the_whole_study_and_its_results_are_complete() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let page = at("page.html");
    let more = ["--jobs", "2", "--html", page.to_str().unwrap(), "--json"];
    let output = study(&at("whole"), &corner("base,oracle", &more));
    assert!(output.status.success(), "{}", said(&output));
    let result: Value = testing::result::of(&output);
    let demands = result["demands"].as_array().unwrap();
    let verdicts = demands.iter().map(|demand| demand["verdict"].as_str().unwrap());
    assert!(verdicts.clone().any(|verdict| verdict == "not_measured"));
    assert!(std::fs::read_to_string(&page).unwrap().contains("Corner cases (figure 14)"));
    let table = |name: &str| {
        let file = File::open(at("whole").join(name)).unwrap();
        SerializedFileReader::new(file).unwrap().metadata().file_metadata().num_rows()
    };
    assert_eq!(table("drives.parquet"), 6);
    assert!(table("times.parquet") > 100);

    for shard in ["1/2", "2/2"] {
        let more = ["--jobs", "2", "--shard", shard];
        let output = study(&at(&shard.replace('/', "-")), &corner("base,oracle", &more));
        assert!(output.status.success(), "{}", said(&output));
    }
    let (one, two) = (at("1-2"), at("2-2"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let missing = study(&at("merged"), &["--merge", one]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(said(&missing).contains("missing 2/2"), "{}", said(&missing));
    let output = study(&at("merged"), &["--merge", one, two]);
    assert!(output.status.success(), "{}", said(&output));
    let (whole, merged) = (rows(&at("whole")), rows(&at("merged")));
    assert!(whole.keys().eq(merged.keys()) && whole.len() == 6);
    for (key, row) in whole.iter().filter(|(key, _)| key.1 == "oracle") {
        assert_eq!(merged[key], *row, "{key:?}");
    }
}

#[test]
fn what_is_no_study_is_refused_before_anything_is_driven() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("none");
    for (arguments, expected) in [
        (vec!["--experiment", "luck"], "expected corner, confirm, normal"),
        (vec!["--merge", "a", "--factor", "5"], "cannot be used with"),
        (vec!["--experiment", "commute", "--scenarios", "81"], "at most 80 (commute)"),
        (vec!["--experiment", "normal", "--scenarios", "band:150-300"], "only corner cases"),
        (vec!["--policy", "base,base"], "--policy: found base twice"),
        (vec!["--policy", "all-0"], "all-none"),
        (vec!["--factor", "0"], "'0' for '--factor <FACTOR>': expected published, or"),
        (vec!["--fold"], "--fold: found it without --experiment clocks"),
        (vec!["--experiment", "clocks,corner"], "expected clocks alone"),
        (vec!["--experiment", "normal,modules"], "expected modules alone"),
        (vec!["--experiment", "modules", "--jobs", "2"], "--jobs: found 2, expected 1"),
        (vec!["--experiment", "modules", "--middleware", "serialised"], "--middleware: found"),
        (vec!["--experiment", "clocks", "--factor", "0.5"], "--factor: found 0.5"),
        (vec!["--experiment", "clocks", "--policy", "oracle"], "found oracle"),
        (vec!["--experiment", "clocks", "--fold", "--jobs", "99"], "--jobs: found 99"),
        (vec!["--shard", "3/2"], "expected I/N"),
    ] {
        let output = study(&out, &arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
        assert!(!out.exists(), "{arguments:?}");
    }
}

/// Measures the machine for minutes: `cargo xtask soak` runs it.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn cores_are_as_slow_as_colas_if_no_factor_is_given() {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("published");
        let usual = ["--experiment", "corner", "--scenarios", "1-1", "--stack", "a", "--policy"];
        let one = [usual.as_slice(), &["base", "--json"]].concat();
        let output = study(&out, &one);
        assert!(output.status.success(), "{}", said(&output));
        let tries = said(&output).matches("COLA's after 73.73").count();
        assert!((1..=6).contains(&tries), "{}", said(&output));

        let manifest = || -> Value {
            serde_json::from_str(&std::fs::read_to_string(out.join("study.json")).unwrap()).unwrap()
        };
        let before = manifest();
        assert_eq!(before["study"]["factor"], "published");
        let found = &before["slower"][0]["found"];
        let (factor, mean) =
            (found["factor"].as_f64().unwrap(), found["mean_ms"].as_f64().unwrap());
        assert!((66.0..82.0).contains(&mean), "{found}");
        let result: Value = testing::result::of(&output);
        let machine = result["machine"].to_string();
        assert!(
            machine.contains(&format!("{factor:.1} times slower than the machine's")),
            "{machine}"
        );
        let merged =
            study(&folder.path().join("merged"), &["--merge", out.to_str().unwrap(), "--json"]);
        let merged: Value = testing::result::of(&merged);
        assert_eq!(merged["machine"], result["machine"]);

        // The factor that was found is kept: a study is not driven at two factors on one machine. A
        // drive that is over needs none.
        let resumed = study(&out, &[one.as_slice(), &["--resume"]].concat());
        assert!(resumed.status.success(), "{}", said(&resumed));
        assert!(!said(&resumed).contains("COLA's"), "{}", said(&resumed));
        assert_eq!(manifest(), before);
        let mut elsewhere = before.clone();
        elsewhere["slower"][0]["machine"][0][1] = Value::from("another machine");
        std::fs::write(out.join("study.json"), elsewhere.to_string()).unwrap();
        let resumed = study(&out, &[one.as_slice(), &["--resume"]].concat());
        assert!(resumed.status.success(), "{}", said(&resumed));
        assert_eq!(manifest()["slower"], elsewhere["slower"]);
    }
}

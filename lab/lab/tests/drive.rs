//! `keeptime-lab drive`: a scenario, a whole stack, and what it says of the reaction.

mod program;

use program::laboratory;
use serde_json::Value;
use std::process::Output;

fn drive(arguments: &[&str]) -> Output {
    laboratory().arg("drive").args(arguments).output().unwrap()
}

#[test]
fn parts_of_a_reaction_sum_to_it_and_a_collision_is_the_answer_no() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("drive.html");
    let page = page.to_str().unwrap();
    // The speed of this machine decides if the drive comes to a crash.
    let arguments = ["corner:1", "--factor", "20", "--policy", "base", "--html", page, "--json"];
    let output = drive(&arguments);
    let said: Value = testing::result::of(&output);
    let base = &said["drives"][0];
    let collided = base["collision"].is_object();
    assert_eq!(output.status.code(), Some(i32::from(collided)), "{said}");
    let reaction = &base["reaction"];
    let parts = reaction["parts"].as_array().unwrap();
    let sum: u64 = parts.iter().map(|part| part["took_ns"].as_u64().unwrap()).sum();
    let number = |key: &str| reaction[key].as_u64().unwrap();
    let whole_ns = number("acted_ns") - number("visible_ns");
    assert!(sum.abs_diff(whole_ns) < 1_000, "{sum} {whole_ns}: {reaction}");
    assert!(parts.iter().any(|part| part["kind"] == "module" && part["name"] == "planning"));
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.contains("animateTransform") && page.contains("the reaction went through it"));
}

#[test]
fn scenario_that_was_written_is_read_again_and_wrong_ones_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.yaml");
    let file = file.to_str().unwrap();
    let write = ["normal:7", "--policy", "base", "--factor", "0.01", "--write", file];
    assert!(drive(&write).status.code().unwrap() < 2);
    let text = std::fs::read_to_string(file).unwrap();
    let short = text.replace("duration_s: 25", "duration_s: 1");
    std::fs::write(file, &short).unwrap();
    let output = drive(&[file, "--policy", "base"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    std::fs::write(file, short.replace("duration_s: 1", "duration_s: -1")).unwrap();
    let output = drive(&[file]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2));
    assert!(said.contains("mine.yaml") && said.contains("duration_s: found -1"), "{said}");
    for wrong in [["corner:329"].as_slice(), &["nothing.yaml"], &["corner:1", "--factor", "0"]] {
        assert_eq!(drive(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

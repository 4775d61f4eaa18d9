//! Drives the real `keeptime doctor`, as this user and as one without any privilege.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const NOBODY: u32 = 65_534;

#[test]
fn json_has_every_field_and_the_exit_status_follows_the_states() {
    let output = keeptime().args(["doctor", "--json"]).output().unwrap();
    let diagnosis = json(&output);
    for check in checks(&diagnosis) {
        for field in ["name", "found", "means"] {
            assert!(check[field].as_str().is_some_and(|text| !text.is_empty()), "{check}");
        }
        let state = check["state"].as_str().unwrap();
        assert!(["ok", "limited", "missing", "unknown"].contains(&state), "{check}");
        if ["limited", "missing"].contains(&state) {
            assert!(check["grant"].is_string(), "nothing says how to grant it: {check}");
        }
    }
    let missing = checks(&diagnosis).iter().any(|check| check["state"] == "missing");
    assert_eq!(output.status.code(), Some(i32::from(missing)));
    assert_eq!(diagnosis["devices"][0]["name"], "cpu");
}

#[test]
fn text_names_every_check_and_has_no_colour_in_a_pipe() {
    let diagnosis = json(&keeptime().args(["doctor", "--json"]).output().unwrap());
    let output = keeptime().arg("doctor").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for check in checks(&diagnosis) {
        assert!(text.contains(check["name"].as_str().unwrap()), "{check} is not in\n{text}");
    }
    assert!(!text.contains('\x1b'), "{text}");
    assert!(text.lines().all(|line| line == line.trim_end()), "trailing blanks in\n{text}");
}

#[test]
fn user_without_privilege_learns_that_priority_is_missing_and_how_to_grant_it() {
    let program = ProgramForAll::new();
    // Dropping to another user drops the capabilities, and only root can do it and need it.
    let unprivileged = |arguments: &str| {
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("ulimit -r 0; exec \"$0\" {arguments}")).arg(&program.path);
        command.current_dir("/");
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command.output().unwrap()
    };

    let output = unprivileged("doctor --json");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let diagnosis = json(&output);
    let check = checks(&diagnosis)
        .iter()
        .find(|check| check["name"] == "real-time priority")
        .expect("the check is there");
    assert_eq!(check["state"], "missing", "{check}");
    assert!(check["grant"].as_str().unwrap().contains("rtprio"), "{check}");

    let output = unprivileged("doctor");
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Missing: real-time priority"), "{text}");
}

#[test]
fn unknown_option_exits_with_2() {
    let output = keeptime().args(["doctor", "--no-such-option"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[test]
fn reader_that_stops_early_causes_no_panic() {
    let shell = format!("'{}' doctor --json | head -c 1", env!("CARGO_BIN_EXE_keeptime"));
    let output = Command::new("sh").arg("-c").arg(shell).output().unwrap();
    assert_eq!(output.stdout, b"{");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn keeptime() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.env("KEEPTIME_PRELOAD", testing::preload_library());
    command
}

#[test]
fn recording_is_tried_and_a_missing_library_is_named() {
    let recording = |command: &mut Command| {
        let diagnosis = json(&command.args(["doctor", "--json"]).output().unwrap());
        checks(&diagnosis).iter().find(|check| check["name"] == "recording").unwrap().clone()
    };
    let check = recording(&mut keeptime());
    assert!(["ok", "limited"].contains(&check["state"].as_str().unwrap()), "{check}");
    assert!(check["found"].as_str().unwrap().starts_with("tier "), "{check}");
    let check = recording(keeptime().env("KEEPTIME_PRELOAD", "/absent.so"));
    assert_eq!(check["state"], "missing");
    assert!(check["found"].as_str().unwrap().contains("/absent.so is not a file"), "{check}");
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

fn checks(diagnosis: &Value) -> &[Value] {
    let checks = diagnosis["checks"].as_array().expect("checks is a list");
    assert!(checks.len() >= 10, "only {} checks", checks.len());
    checks
}

/// A copy of the program where every user can run it; the build folder may be private.
struct ProgramForAll {
    folder: PathBuf,
    path: PathBuf,
}

impl ProgramForAll {
    fn new() -> Self {
        use std::os::unix::fs::PermissionsExt;
        let everyone = std::fs::Permissions::from_mode(0o755);
        let folder = std::env::temp_dir().join(format!("keeptime-doctor-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::set_permissions(&folder, everyone.clone()).unwrap();
        let path = folder.join("keeptime");
        // By another process: what this one has open for writing is also open in processes that
        // other tests have just forked, and cannot be executed meanwhile.
        let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_keeptime")).arg(&path).status();
        assert!(copied.unwrap().success());
        std::fs::set_permissions(&path, everyone).unwrap();
        Self { folder, path }
    }
}

impl Drop for ProgramForAll {
    fn drop(&mut self) {
        // A left-over copy in the temporary folder does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

//! Drives the real `keeptime doctor`, as this user and as one without any privilege.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use support::ProgramForAll;
use testing::result;

mod support;

const PARTS: [&str; 6] = ["run", "guard", "serve", "regulate", "remote", "lab"];

fn keeptime(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
    command.args(arguments).env("KEEPTIME_PRELOAD", testing::preload_library());
    command
}

/// The parts of a diagnosis, or the checks of a part.
fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    let list = value[key].as_array().unwrap_or_else(|| panic!("no {key}: {value}"));
    assert!(!list.is_empty(), "{value}");
    list
}

fn check<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    let mut checks = list(diagnosis, "parts").iter().flat_map(|part| list(part, "checks"));
    checks.find(|check| check["name"] == name).unwrap_or_else(|| panic!("no {name}: {diagnosis}"))
}

#[test]
fn every_part_has_checks_and_a_verdict_that_the_exit_status_follows() {
    let output = keeptime(&["doctor", "--json"]).output().unwrap();
    let diagnosis = result::of(&output);
    assert_eq!(
        (&diagnosis["schema"], &diagnosis["version"]),
        (&"keeptime.doctor".into(), &1.into())
    );
    let parts = list(&diagnosis, "parts");
    let names: Vec<_> = parts.iter().map(|part| part["part"].as_str().unwrap()).collect();
    assert_eq!(names, PARTS);
    for part in parts {
        for check in list(part, "checks") {
            assert!(check["found"].as_str().is_some_and(|text| !text.is_empty()), "{check}");
            let is_ok = check["state"] == "ok";
            assert!(is_ok || ["limited", "missing"].contains(&check["state"].as_str().unwrap()));
            assert_eq!(check["consequence"].is_string(), !is_ok, "{check}");
            assert!(check["consequence"] != "", "{check}");
            assert!(is_ok || check["mend"].is_string(), "nothing says how to mend it: {check}");
        }
        let is_reason =
            |check: &&Value| part["because"].as_array().unwrap().contains(&check["name"]);
        if part["verdict"] == "works" {
            assert_eq!(part["because"], Value::Array(Vec::new()));
        } else {
            let mut reasons = list(part, "checks").iter().filter(is_reason);
            assert!(reasons.all(|check| check["state"] != "ok"), "{part}");
        }
        let alone = keeptime(&["doctor", part["part"].as_str().unwrap()]).output().unwrap();
        let cannot = part["verdict"] == "cannot work";
        assert_eq!(alone.status.code(), Some(i32::from(cannot)), "{part}");
    }
    // The library of this build can be loaded, so that at least one part works.
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn text_has_a_line_for_each_check_within_80_columns_and_a_verdict_for_each_part() {
    let diagnosis = result::of(&keeptime(&["doctor", "--json", "run", "serve"]).output().unwrap());
    let output = keeptime(&["doctor", "serve", "run", "serve"]).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in list(&diagnosis, "parts") {
        let title = part["title"].as_str().unwrap();
        assert_eq!(text.matches(title).count(), 1, "{title} is not once in\n{text}");
        for check in list(part, "checks") {
            let name = check["name"].as_str().unwrap();
            let is_line = |line: &str| line.get(11..).is_some_and(|line| line.starts_with(name));
            assert!(text.lines().any(is_line), "{check} is not in\n{text}");
        }
    }
    let is_verdict = |line: &&str| {
        ["  Works.", "  Works with limits: ", "  Cannot work: "].iter().any(|v| line.starts_with(v))
    };
    assert_eq!(text.lines().filter(is_verdict).count(), 2, "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    for line in text.lines() {
        // A path is one word, however long it is.
        let is_path = line.rsplit(' ').next().is_some_and(|word| word.starts_with('/'));
        assert!(line.chars().count() <= 80 || is_path, "too long: {line}");
        assert_eq!(line, line.trim_end(), "trailing blanks in\n{text}");
    }
}

#[test]
fn unknown_part_and_option_exit_with_2_and_list_the_known_ones() {
    let output = keeptime(&["doctor", "server"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(PARTS.iter().all(|part| said.contains(part)), "{said}");
    let output = keeptime(&["doctor", "--no-such-option"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
}

#[test]
fn user_without_privilege_learns_what_cannot_work_and_how_to_grant_it() {
    let program = ProgramForAll::new();
    let doctor = |part: &str| program.bare(61_511, "/", &["doctor", part]).output().unwrap();

    let output = doctor("regulate");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    for said in [
        "missing  real-time priority  no CAP_SYS_NICE, and RLIMIT_RTPRIO is 0",
        "No thread can stop a best-effort core.",
        "Mend: sudo prlimit --pid $$ --rtprio=99",
        "Cannot work: real-time priority.",
        "USER - rtprio 99",
    ] {
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }

    let output = doctor("serve");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for said in ["/tmp/keeptime-61511", "RLIMIT_MEMLOCK is 64 KiB", "Works with limits: real-time"]
    {
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }

    let output = doctor("run");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}");
    for said in ["limited  tracefs", "Mend: sudo keeptime run -- PROGRAM", "ok       perf events"] {
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }
}

#[test]
fn reader_that_stops_early_causes_no_panic() {
    let shell = format!("'{}' doctor --json remote | head -c 1", env!("CARGO_BIN_EXE_keeptime"));
    let output = Command::new("sh").arg("-c").arg(shell).output().unwrap();
    assert_eq!(output.stdout, b"{");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn preload_library_that_is_absent_or_of_another_machine_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let foreign = folder.path().join("foreign.so");
    let mut content = std::fs::read(testing::preload_library()).unwrap();
    // e_machine: 183 is aarch64, 62 is x86_64.
    content[18] = if cfg!(target_arch = "x86_64") { 183 } else { 62 };
    std::fs::write(&foreign, content).unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "This is not a library at all.").unwrap();
    for (library, said) in [
        ("/absent.so", "/absent.so is not a file"),
        (foreign.to_str().unwrap(), "foreign.so: built for aarch64, expected x86_64"),
        (text.to_str().unwrap(), "text.so: expected a shared library (ELF)"),
    ] {
        let mut command = keeptime(&["doctor", "run", "--json"]);
        let output = command.env("KEEPTIME_PRELOAD", library).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let diagnosis = result::of(&output);
        let check = check(&diagnosis, "preload library");
        assert_eq!(check["state"], "missing");
        assert!(check["found"].as_str().unwrap().contains(said), "{check}");
        assert_eq!(diagnosis["parts"][0]["because"][0], "preload library");
    }
    let diagnosis = result::of(&keeptime(&["doctor", "run", "--json"]).output().unwrap());
    let check = check(&diagnosis, "preload library");
    let found = check["found"].as_str().unwrap();
    assert!(found.ends_with(&format!(", {}", std::env::consts::ARCH)), "{check}");
}

#[test]
fn program_that_polls_the_gpu_is_named_with_its_process() {
    let mut poller = Command::new("sleep").arg0("nvidia-smi").arg("1000").spawn().unwrap();
    let diagnosis = result::of(&keeptime(&["doctor", "run", "--json"]).output().unwrap());
    poller.kill().unwrap();
    poller.wait().unwrap();
    let check = check(&diagnosis, "GPU pollers");
    let process = format!("process {}: nvidia-smi 1000", poller.id());
    assert_eq!(check["state"], "limited", "{check}");
    assert!(check["found"].as_str().unwrap().contains(&process), "{check}");
    assert!(check["mend"].as_str().unwrap().contains(&poller.id().to_string()), "{check}");
}

#[test]
fn shell_that_runs_the_doctor_is_no_poller() {
    let script = "while false; do nvidia-smi; done; \"$0\" doctor run --json; exit $?";
    let mut shell = Command::new("sh");
    shell.args(["-c", script, env!("CARGO_BIN_EXE_keeptime")]).stdout(Stdio::piped());
    let shell = shell.env("KEEPTIME_PRELOAD", testing::preload_library()).spawn().unwrap();
    let process = format!("process {}:", shell.id());
    let diagnosis = result::of(&shell.wait_with_output().unwrap());
    let check = check(&diagnosis, "GPU pollers");
    assert!(!check["found"].as_str().unwrap().contains(&process), "{check}");
}

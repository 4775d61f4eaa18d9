//! `keeptime-lab bench` with a server, as a user runs it.

mod program;

use std::io::{BufRead, BufReader};
use std::process::{Output, Stdio};
use std::sync::{Mutex, PoisonError};

use program::laboratory;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// A server's real-time threads keep the control thread of another one from their core.
static ONE_SERVER_AT_A_TIME: Mutex<()> = Mutex::new(());

fn output(arguments: &[&str]) -> Output {
    let _alone = ONE_SERVER_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = laboratory();
    command.args(arguments).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn requests_are_measured_beside_their_floor() {
    let output = output(&["bench", "requests", "--samples", "500", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = testing::result::of(&output);
    for mode in ["suspend", "spin"] {
        for what in ["request", "device", "server", "floor"] {
            let quantiles = &result["modes"][mode][what];
            let value = |key: &str| quantiles[key].as_f64().unwrap();
            let all = [value("p50_ns"), value("p99_ns"), value("p999_ns"), value("max_ns")];
            assert!(all[0] > 0.0 && all.is_sorted(), "{mode} {what}: {all:?}");
        }
    }
}

#[test]
fn request_takes_as_long_as_its_time_on_the_device() {
    let [request, device, _] = medians_of_busy_requests();
    // A machine may be faster than when it was calibrated.
    assert!(device >= 1e6 && request >= device, "{request} and {device} ns");
}

/// A bound in time, for a machine without other work: `cargo xtask soak` runs it.
mod soak {
    use super::*;

    #[test]
    #[ignore = "soak"]
    fn time_on_the_device_is_not_the_servers() {
        let [_, device, server] = medians_of_busy_requests();
        assert!(server < device, "{server} and {device} ns");
    }
}

/// Medians, in ns, of requests that are busy for 2 ms: of the request, on the device, in the server.
fn medians_of_busy_requests() -> [f64; 3] {
    let output = output(&["bench", "requests", "--samples", "250", "--busy", "2ms", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = testing::result::of(&output);
    ["request", "device", "server"]
        .map(|what| result["modes"]["suspend"][what]["p50_ns"].as_f64().unwrap())
}

#[test]
fn killed_clients_cost_the_others_no_request() {
    let output = output(&["bench", "kills", "--count", "40", "--json"]);
    let result: Value = testing::result::of(&output);
    // Delays depend on the machine; that nothing fails and nothing is kept does not.
    for survivor in ["critical", "checking"] {
        assert_eq!(result[survivor]["failures"], 0, "{result}");
        assert!(result[survivor]["requests"].as_u64().unwrap() > 0);
    }
    let server = &result["server"];
    for what in ["mapped_bytes", "descriptors"] {
        assert_eq!(server["before"][what], server["after"][what], "{result}");
    }
}

#[test]
fn interrupted_kills_show_the_clients_that_were_killed_and_leave_no_process() {
    let _alone = ONE_SERVER_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut command = laboratory();
    command.args(["bench", "kills", "--count", "1000", "--json"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut run = command.spawn().unwrap();
    let mut progress = BufReader::new(run.stderr.take().unwrap()).lines();
    let killing = |line: String| line.contains("takes about");
    assert!(progress.any(|line| killing(line.unwrap())), "no client was killed");
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let said: Vec<String> = progress.map(Result::unwrap).collect();
    let id = run.id();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{said:?}");
    let result: Value = testing::result::of(&output);
    assert_eq!(result["schema"], "keeptime.bench-kills");
    let killed = result["kills"].as_u64().unwrap();
    assert!((1..1000).contains(&killed), "{result}");
    let partial = format!("partial, interrupted by SIGINT: {killed} of 1000 kills finished");
    assert_eq!(result["partial"], partial);
    assert!(result["critical"]["requests"].as_u64().unwrap() > 0, "{result}");
    let option = format!("\0--parent\0{id}\0");
    let left = std::fs::read_dir("/proc").unwrap().flatten().filter(|process| {
        let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(&option)
    });
    assert_eq!(left.count(), 0);
}

#[test]
fn attacks_of_other_users_cost_the_others_no_request() {
    let arguments = ["--duration", "3s", "--packets", "200", "--sessions", "20", "--json"];
    let output = output(&[&["bench", "attacks"], &arguments[..]].concat());
    let result: Value = testing::result::of(&output);
    // Times depend on the machine; that nothing fails and nothing is kept does not.
    assert_eq!(result["punctual"]["failures"], 0, "{result}");
    assert!(result["punctual"]["requests"].as_u64().unwrap() > 0, "{result}");
    assert!(result["punctual"]["bound_ns"].is_u64(), "{result}");
    for attack in ["packets", "sessions", "knocks", "memory", "files", "kills"] {
        assert!(result["attacks"][attack].as_u64().unwrap() > 0, "{attack}: {result}");
    }
    let server = &result["server"];
    for what in ["mapped_bytes", "descriptors", "threads"] {
        assert_eq!(server["before"][what], server["after"][what], "{result}");
    }
}

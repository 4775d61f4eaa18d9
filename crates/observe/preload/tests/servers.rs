//! Real servers, bare and under the library: `cargo test -p keeptime-preload --test servers -- --ignored`.

mod support;

use std::path::Path;
use std::process::Command;
use support::{Mode, Subject, Trace};

/// Runs `servers.sh` in each mode; what was recorded in each.
fn compare(server: &str, programs: &[&str]) -> Option<[Trace; 2]> {
    for program in programs {
        let found =
            Command::new("sh").args(["-c", &format!("ls {program} >/dev/null 2>&1")]).status();
        if !found.is_ok_and(|status| status.success()) {
            eprintln!("SKIP: there is no {program}");
            return None;
        }
    }
    // Another user has to come in, so that the folder is not in the target folder.
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/servers.sh");
    let run = |name: &str| {
        let folder =
            std::env::temp_dir().join(format!("keeptime-{server}-{}-{name}", std::process::id()));
        (Subject::new("sh").arg(script).arg(server).arg(&folder).patient(), folder)
    };
    let (bare, folder) = run("bare");
    let expected = bare.bare().success().to_owned();
    let _ = std::fs::remove_dir_all(folder);
    for mode in Mode::guarded() {
        let (guarded, folder) = run(&mode.name.replace(", ", "-"));
        let ended = guarded.recorded(&mode.clone().bytes(256 << 20)).0;
        assert_eq!(ended.success(), expected, "{}\n{}", mode.name, ended.err);
        let _ = std::fs::remove_dir_all(folder);
    }
    Some([Mode::full(), Mode::contended()].map(|mode| {
        let (recorded, folder) = run(mode.name);
        let (ended, trace) = recorded.recorded(&mode.clone().bytes(256 << 20));
        assert_eq!(ended.success(), expected, "{}\n{}", mode.name, ended.err);
        assert_eq!(trace.torn, 0, "{}", mode.name);
        println!(
            "{server}, {}: {} processes, {} locks",
            mode.name,
            trace.processes.len(),
            trace.locks()
        );
        let speed = std::fs::read_to_string(folder.join("speed")).unwrap_or_default();
        for line in speed
            .split(['\r', '\n'])
            .filter(|line| line.contains("per second") || line.contains("tps ="))
        {
            println!("  {}", line.trim());
        }
        let _ = std::fs::remove_dir_all(folder);
        trace
    }))
}

fn has(trace: &Trace, program: &str) -> usize {
    let is_it = |path: &str| Path::new(path).file_name().is_some_and(|name| name == program);
    trace.processes.iter().filter(|process| is_it(&process.program)).count()
}

#[test]
#[ignore = "takes a minute"]
fn redis_keeps_its_data() {
    let Some(traces) = compare("redis", &["/usr/bin/redis-server", "/usr/bin/redis-benchmark"])
    else {
        return;
    };
    for trace in traces {
        assert!(has(&trace, "redis-check-rdb") + has(&trace, "redis-server") >= 1);
        assert!(trace.locks() > 100, "{} locks", trace.locks());
    }
}

#[test]
#[ignore = "takes a minute"]
fn postgresql_keeps_its_data() {
    let Some(traces) = compare("postgres", &["/usr/lib/postgresql/*/bin/postgres"]) else {
        return;
    };
    for trace in traces {
        // The server, its helpers, and one process for each connection.
        assert!(has(&trace, "postgres") >= 10, "{:?}", trace.processes);
    }
}

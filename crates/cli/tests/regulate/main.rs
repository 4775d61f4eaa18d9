//! Drives the real `keeptime regulate`, with real loads and holders.
//!
//! Each step waits for what the regulator reports (`--verbose`), or for a load's processor time.
//! How long something takes is for `soak.rs`.

mod running;
mod soak;

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use bandwidth::Hold;
use realtime::clock::thread_cpu_ns;
use running::{
    HOLDER, Process, Regulate, Seen, alone, core, holder, keeptime, load, of_core, of_thread, text,
};
use rustix::process::{Pid, Signal, kill_process};
use testing::until;

const MS: u64 = 1_000_000;

#[test]
fn lines_of_a_core_are_added_up() {
    let mut seen = Seen::default();
    let said = "keeptime regulate:    1.0 s   core 1: 9 periods, 8 stops, 7.5 ms stopped";
    let idle = "keeptime regulate:   12.0 s   core 1: 0 periods, 0 stops, 7.5 ms stopped";
    for line in [said, "keeptime regulate: memory is not locked: x", idle] {
        seen.add(line);
    }
    assert_eq!((seen.periods, seen.stops, seen.stopped_ms, seen.idle), (9, 8, 15.0, 1));
}

/// The kernel's number of a process' policy, and its nice value.
fn scheduling(id: i32) -> (i32, i32) {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    let words: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    (words[38].parse().unwrap(), words[16].parse().unwrap())
}

const OTHER: i32 = 0;
const IDLE: i32 = 5;

#[test]
fn bad_options_name_themselves_and_what_was_found_with_status_2() {
    let all: Vec<_> = realtime::machine::online_cores().iter().map(ToString::to_string).collect();
    let all = all.join(",");
    for (options, expected) in [
        (&["--cores", &all][..], "never stopped"),
        (&["--cores", "4096"], "cores: found [4096], expected some of"),
        (&["--cores", "1", "--period", "99us"], "period: found 99µs, expected 100us to 1s"),
        (&["--period", "soon"], "--period <TIME>"),
        (&["--budget", "0%"], "expected a share (10%)"),
        (&["--budget", "40", "--count", "time"], "--budget 40: expected a share, as in 10%"),
        (&["--budget", "10%", "--count", "software"], "--budget 10%: expected events"),
        (&["--event", "faults", "--count", "software"], "--event faults: expected one of page-f"),
        (&["--event", "x", "--count", "hardware"], "--event x: expected the processor's number"),
        (&["--cores", "1", "--fair", "1"], "fair: found no managed threads"),
        (&["--manage", "0"], "expected the number of a running process"),
        (&["--user", "nobody-of-this-name"], "--user nobody-of-this-name: expected a user"),
        (&["--config", "/nowhere.yaml"], "/nowhere.yaml"),
        (&["--config", "/dev/zero"], "larger than 1048576 bytes"),
        (&["--calibrate"], "--calibrate: found no program"),
    ] {
        let output = keeptime().arg("regulate").args(options).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{options:?}: {said}");
        assert!(said.contains(expected), "{options:?}: {said}");
    }
}

#[test]
#[cfg(not(feature = "sched-ext"))]
fn scheduler_in_bpf_that_is_not_built_is_refused_with_how_to_get_it() {
    let options = ["--cores", "1", "--fair", "bpf", "--", "true"];
    let output = keeptime().arg("regulate").args(options).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--fair bpf: ") && said.contains("--features sched-ext"), "{said}");
}

#[test]
fn implementation_of_throttle_fair_scheduling_is_named_with_why() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let load = load("compute", core);
    let id = load.id().to_string();
    let of = |options: &[&str]| {
        let regulate = Regulate::start(core, &[options, &["--manage", &id]].concat());
        let totals = regulate.end(Signal::TERM);
        (totals["rho"].clone(), totals["fair"].clone())
    };
    let (rho, fair) = of(&["--fair", "user", "--rho", "3"]);
    assert_eq!((rho.as_f64(), fair["by"].as_str()), (Some(3.0), Some("user")));
    let (rho, fair) = of(&["--fair", "none"]);
    assert_eq!((rho.as_f64(), fair["by"].as_str()), (None, Some("none")));
    let has_sched_ext = Path::new("/sys/kernel/sched_ext").is_dir();
    for options in [&["--fair", "auto"][..], &["--fair", "1"], &["--rho", "1"]] {
        let (rho, fair) = of(options);
        let why = fair["why"].as_str().unwrap();
        assert_eq!(rho, 1.0);
        match (fair["by"].as_str().unwrap(), has_sched_ext) {
            ("user", false) => assert!(why.contains("has no sched_ext"), "{why}"),
            ("user", true) => assert!(why.contains("built without"), "{why}"),
            (by, _) => assert_eq!((by, has_sched_ext), ("bpf", true)),
        }
    }
}

#[test]
fn core_is_stopped_while_the_lock_is_held_and_never_otherwise() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let totals = |hold: &[&str], wait: &dyn Fn(&Process, &Regulate)| {
        let load = load("compute", core);
        let id = load.id().to_string();
        let options = [&["--budget", "25%", "--manage", &id][..], hold].concat();
        let regulate = Regulate::start(core, &options);
        wait(&load, &regulate);
        let totals = regulate.end(Signal::TERM);
        assert!(of_thread(&totals, load.id())["run_ns"].as_f64().unwrap() > 0.0, "{totals}");
        totals
    };
    let held = totals(&["--hold"], &|_, regulate| {
        regulate.until("stops", |seen| seen.stops >= 100);
    });
    assert!(of_core(&held, "stops") >= 100 && of_core(&held, "stopped_ns") > 0, "{held}");
    let free = totals(&[], &|load, _| load.until_it_ran(50 * MS));
    assert_eq!((of_core(&free, "stops"), of_core(&free, "stopped_ns")), (0, 0), "{free}");
}

/// If not, there is one stop in a period, at most.
#[test]
fn stop_ends_with_the_release_and_not_with_its_period() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let load = load("compute", core);
    let regulate = Regulate::start(core, &["--budget", "5%", "--period", "1s"]);
    let hold = Hold::attach(&regulate.socket).unwrap();
    until("more stops than periods", || {
        hold.acquire();
        regulate.until_awake();
        hold.release();
        load.until_it_ran(MS);
        let seen = regulate.seen();
        seen.stops > seen.periods
    });
    regulate.end(Signal::INT);
}

#[test]
fn many_short_holds_share_the_budget_of_a_period() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let load = load("compute", core);
    let regulate = Regulate::start(core, &["--budget", "20%", "--period", "200ms"]);
    let hold = Hold::attach(&regulate.socket).unwrap();
    // In none of them does the load run for as long as the budget.
    until("a stop", || {
        hold.acquire();
        load.until_it_ran(10 * MS);
        hold.release();
        regulate.seen().stops > 0
    });
    regulate.end(Signal::TERM);
}

#[test]
fn killed_holder_holds_no_core() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let regulate = Regulate::start(core, &["--budget", "5%"]);
    let mut holder = holder(&regulate.socket);
    regulate.until("a stop", |seen| seen.stops > 0);
    holder.signal(Signal::KILL);
    holder.0.wait().unwrap();
    regulate.until_idle();
    let totals = regulate.end(Signal::TERM);
    assert_eq!(totals["statistics"]["died_holding"], 1, "{totals}");
    assert!(of_core(&totals, "stopped_ns") > 0, "{totals}");
}

/// Not a test by itself: the process that holds the lock until it is killed, or its parent ends.
#[test]
fn holder_for_others() {
    let Some(socket) = std::env::var_os(HOLDER) else { return };
    let hold = Hold::attach(Path::new(&socket)).unwrap();
    assert!(hold.acquire());
    println!("holds");
    let _ = std::io::stdin().read(&mut [0]);
}

#[test]
fn threads_that_were_set_back_have_what_they_had_after_each_signal() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let loads = [load("fresh", core), load("compute", core)];
        let before = loads.each_ref().map(|load| scheduling(load.id()));
        assert_eq!(before.map(|(policy, _)| policy), [OTHER; 2]);
        let ids = loads.each_ref().map(|load| load.id().to_string());
        let options =
            ["--budget", "20", "--fair", "1", "--hold", "--manage", &ids[0], "--manage", &ids[1]];
        let regulate = Regulate::start(core, &options);
        until("one is set back", || loads.iter().any(|load| scheduling(load.id()).0 == IDLE));
        regulate.end(signal);
        assert_eq!(loads.each_ref().map(|load| scheduling(load.id())), before, "{signal:?}");
    }
}

#[test]
fn threads_have_what_they_had_while_the_lock_is_free() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let loads = [load("fresh", core), load("compute", core)];
    let ids = loads.each_ref().map(|load| load.id().to_string());
    let options = ["--budget", "20", "--fair", "1", "--manage", &ids[0], "--manage", &ids[1]];
    let regulate = Regulate::start(core, &options);
    let hold = Hold::attach(&regulate.socket).unwrap();
    let policies = || loads.each_ref().map(|load| scheduling(load.id()).0);
    hold.acquire();
    until("one is set back", || policies().contains(&IDLE));
    hold.release();
    until("all are as they were", || policies() == [OTHER; 2]);
    regulate.end(Signal::TERM);
}

#[test]
fn next_regulator_restores_what_a_killed_one_has_left() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let loads = [load("fresh", core), load("compute", core)];
    let ids = loads.each_ref().map(|load| load.id().to_string());
    let options =
        ["--budget", "20", "--fair", "1", "--hold", "--manage", &ids[0], "--manage", &ids[1]];
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("bandwidth.sock");
    let other = tempfile::tempdir().unwrap();
    let mut killed = Regulate::start_at(core, &options, other, &socket);
    let policies = || loads.each_ref().map(|load| scheduling(load.id()).0);
    until("one is set back", || policies().contains(&IDLE));
    killed.process.signal(Signal::KILL);
    killed.process.0.wait().unwrap();
    assert!(policies().contains(&IDLE), "SIGKILL leaves it behind, as documented");
    // No core is stopped any more: the load that has its policy runs.
    let next = Regulate::start_at(core, &[], folder, &socket);
    assert_eq!(policies(), [OTHER; 2], "{}", next.said);
    next.end(Signal::TERM);
}

/// The kernel keeps real-time threads from a core for 50 ms of each second that they fill. That is
/// no stop that does not end: nobody loses a priority, which would be a loss.
#[test]
fn core_that_is_stopped_for_nearly_all_of_the_time_stays_regulated() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let _load = load("compute", core);
    let regulate = Regulate::start(core, &["--budget", "2%", "--hold"]);
    regulate.until("stops for more than two such seconds", |seen| seen.stopped_ms > 2500.0);
    let totals = regulate.end(Signal::TERM);
    assert_eq!(of_core(&totals, "demotions"), of_core(&totals, "promotions"), "{totals}");
}

#[test]
fn more_urgent_thread_on_a_regulated_core_is_said() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let regulate = Regulate::start(core, &["--budget", "50%", "--hold"]);
    let urgent = std::thread::spawn(move || {
        realtime::thread::pin(&[core]).unwrap();
        realtime::thread::set_policy(realtime::thread::Scheduling::Fifo(20)).unwrap();
        let begun_ns = thread_cpu_ns();
        while thread_cpu_ns() < begun_ns + 600 * MS {
            std::hint::spin_loop();
        }
    });
    urgent.join().unwrap();
    let totals = regulate.end(Signal::TERM);
    // A period is a millisecond, and the thread had the core in each of 600.
    assert!(of_core(&totals, "missed") > 300, "{totals}");
    let said = totals["hindrances"][0].as_str().unwrap();
    assert!(said.starts_with(&format!("core {core}: ")), "{said}");
}

#[test]
fn core_is_stopped_at_each_hold_whether_its_thread_is_woken_or_looks_by_itself() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    for attention in ["bell", "look"] {
        let regulate = Regulate::start(core, &["--budget", "50%", "--attention", attention]);
        let hold = Hold::attach(&regulate.socket).unwrap();
        for _ in 0..2 {
            let before = regulate.seen().stops;
            hold.acquire();
            regulate.until("a stop", |seen| seen.stops > before);
            hold.release();
            regulate.until_idle();
        }
        regulate.end(Signal::TERM);
    }
}

#[test]
fn program_runs_on_the_regulated_core_and_its_status_is_passed_on() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let run = |program: &[&str]| -> Output {
        let mut command = keeptime();
        command.args(["regulate", "--cores", &core.to_string(), "--socket"]);
        command.arg(folder.path().join("bandwidth.sock")).arg("--").args(program);
        command.output().unwrap()
    };
    let output = run(&["sh", "-c", "grep Cpus_allowed_list /proc/self/status; exit 7"]);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    assert!(said.contains(&format!("Cpus_allowed_list:\t{core}\n")), "{said}");
    let output = run(&["/nowhere/program"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("cannot start /nowhere/program"));
}

#[test]
fn calibration_writes_a_budget_that_regulate_reads() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, socket) = (folder.path().join("budget.yaml"), folder.path().join("b.sock"));
    let mut command = keeptime();
    command.args(["regulate", "--calibrate", "--runs", "5", "--tolerance", "1000%"]);
    command.args(["--hold-for-program", "--count", "time", "--cores", &core.to_string()]);
    command.arg("--socket").arg(&socket).arg("--out").arg(&file).args(["--", "sleep", "0.1"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stdout);
    for word in ["alone", "unregulated", "50%", "slowdown", "No budget is needed"] {
        assert!(said.contains(word), "{word} is not in {said}");
    }
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("# unregulated") && written.contains("####"), "{written}");
    let mut command = keeptime();
    command.args(["regulate", "--duration", "50ms", "--config"]).arg(&file);
    let output = command.arg("--socket").arg(&socket).output().unwrap();
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains(&format!("cores [{core}], 50 % in periods of 1ms")), "{said}");
    // A program that never takes the lock is told so.
    let mut command = keeptime();
    command.args(["regulate", "--calibrate", "--count", "time", "--cores"]);
    command.arg(core.to_string()).arg("--socket").arg(&socket).args(["--", "true"]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("never took the lock"), "{}", text(&output.stderr));
}

#[test]
fn interrupted_calibration_shows_the_rounds_until_then() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = keeptime();
    command.args(["regulate", "--calibrate", "--quick", "--tolerance", "0%", "--count", "time"]);
    command.args(["--hold-for-program", "--cores", &core.to_string(), "--socket"]);
    command.arg(folder.path().join("b.sock")).args(["--", "sleep", "0.01"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let begun = lines.find(|line| line.contains("keeptime regulate: budget 25%"));
    begun.expect("the second budget is announced");
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    let said = text(&output.stdout);
    assert!(said.contains("PARTIAL: interrupted") && said.contains("unregulated"), "{said}");
}

#[test]
fn users_and_groups_that_may_hold_the_lock_can_open_the_socket() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let socket = folder.path().join("bandwidth.sock");
    let options = ["--user", "nobody", "--group", "games"];
    let regulate = Regulate::start_at(core, &options, folder, &socket);
    let user = |name| bandwidth::holders::user_id(name).unwrap();
    let group = |name| bandwidth::holders::group_id(name).unwrap();
    let opens = |user: u32, group: u32| {
        let script = "import socket, sys\n\
                      client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n\
                      try: client.connect(sys.argv[1])\n\
                      except PermissionError: sys.exit(13)\n";
        let mut python = Command::new("python3");
        python.args(["-c", script]).arg(&regulate.socket).uid(user).gid(group);
        python.status().unwrap().code()
    };
    assert_eq!(opens(user("nobody"), 65530), Some(0), "the user");
    assert_eq!(opens(65531, group("games")), Some(0), "one of the group");
    assert_eq!(opens(65531, 65530), Some(13), "somebody else");
    regulate.end(Signal::TERM);
}

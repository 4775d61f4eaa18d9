//! Drives the real `keeptime regulate`, with real loads and holders.
//!
//! Times are compared with each other, never with a clock: other programs run on these cores too.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bandwidth::Hold;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

const HOLDER: &str = "KEEPTIME_TEST_HOLDER";
const PATIENCE: Duration = Duration::from_secs(60);

fn keeptime() -> Command {
    Command::new(env!("CARGO_BIN_EXE_keeptime"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The last core, if cores can be regulated here. The calling thread, which holds locks, is kept
/// away from it: a holder on a stopped core cannot give the lock back.
fn core() -> Option<usize> {
    let cores = realtime::machine::online_cores();
    if !rustix::process::geteuid().is_root() || cores.len() < 2 {
        eprintln!("SKIP: regulating takes root and two cores");
        return None;
    }
    let (core, others) = cores.split_last()?;
    realtime::thread::pin(others).unwrap();
    Some(*core)
}

/// Checks that one of a few attempts succeeds: something else, or a hypervisor, may have the core
/// in any of them.
fn in_one_of_a_few(mut attempt: impl FnMut() -> Result<(), String>) {
    let failed: Vec<String> = (0..5).map_while(|_| attempt().err()).collect();
    assert!(failed.len() < 5, "{failed:#?}");
}

/// One regulator at a time: it keeps others from their core.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process that is killed when the test ends, however it does.
struct Process(Child);

impl Process {
    fn id(&self) -> i32 {
        self.0.id() as i32
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A load that is on its core.
fn load(name: &str, core: usize) -> Process {
    let mut command = keeptime();
    command.args(["regulate-load", name, &core.to_string()]).stdout(Stdio::piped());
    let mut load = Process(command.spawn().unwrap());
    let mut said = [0; 7];
    load.0.stdout.take().unwrap().read_exact(&mut said).unwrap();
    load
}

/// A running `keeptime regulate --json`, whose door is open.
struct Regulate {
    process: Process,
    socket: PathBuf,
    said: String,
    _folder: tempfile::TempDir,
}

impl Regulate {
    fn start(core: usize, options: &[&str]) -> Regulate {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("bandwidth.sock");
        Regulate::start_at(core, options, folder, &socket)
    }

    fn start_at(
        core: usize,
        options: &[&str],
        folder: tempfile::TempDir,
        socket: &Path,
    ) -> Regulate {
        let mut command = keeptime();
        command.args(["regulate", "--json", "--cores", &core.to_string(), "--socket"]);
        command.arg(socket).args(options).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = Process(command.spawn().unwrap());
        let mut lines = BufReader::new(process.0.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains("listening") {
            assert!(lines.read_line(&mut said).unwrap() > 0, "{said}");
        }
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        Regulate { process, socket: socket.into(), said, _folder: folder }
    }

    /// Ends it by a signal; what it did.
    fn end(mut self, signal: Signal) -> Value {
        self.process.signal(signal);
        let mut text = String::new();
        self.process.0.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        let status = self.process.0.wait().unwrap();
        assert!(status.success(), "{status}: {text}");
        serde_json::from_str(&text).unwrap()
    }
}

fn of_core(totals: &Value, key: &str) -> u64 {
    totals["statistics"]["cores"][0][key].as_u64().unwrap()
}

fn of_thread(totals: &Value, id: i32) -> &Value {
    let threads = totals["statistics"]["threads"].as_array().unwrap();
    threads.iter().find(|thread| thread["thread"] == id).unwrap_or_else(|| panic!("{totals}"))
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
        (&["--cores", "1", "--fair", "1"], "fair: found nobody to manage"),
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
fn core_has_its_share_while_the_lock_is_held_and_all_of_it_otherwise() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let share = |hold: &[&str]| {
        let load = load("compute", core);
        let id = load.id().to_string();
        let options = [&["--budget", "25%", "--manage", &id][..], hold].concat();
        let regulate = Regulate::start(core, &options);
        std::thread::sleep(Duration::from_millis(1500));
        let totals = regulate.end(Signal::TERM);
        let ran = of_thread(&totals, load.id())["run_ns"].as_f64().unwrap();
        (ran / totals["elapsed_ns"].as_f64().unwrap(), of_core(&totals, "stopped_ns"))
    };
    in_one_of_a_few(|| {
        let (held, stopped_ns) = share(&["--hold"]);
        let (free, not_stopped_ns) = share(&[]);
        assert_eq!(not_stopped_ns, 0);
        // Its share without the lock depends on whatever else runs there.
        let is_right = held < 0.35 && held > free / 20.0 && stopped_ns > 500_000_000;
        let said = format!("{held} of the time with the lock held, {free} without; {stopped_ns}");
        if is_right { Ok(()) } else { Err(said) }
    });
}

#[test]
fn stop_ends_with_the_release_and_not_with_its_period() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let _load = load("compute", core);
    in_one_of_a_few(|| {
        let regulate = Regulate::start(core, &["--budget", "5%", "--period", "1s"]);
        let hold = Hold::attach(&regulate.socket).unwrap();
        let begun = Instant::now();
        for _ in 0..3 {
            hold.acquire();
            std::thread::sleep(Duration::from_millis(150));
            hold.release();
            std::thread::sleep(Duration::from_millis(20));
        }
        let most = begun.elapsed();
        // A second more, in which a stop that went on would be seen.
        std::thread::sleep(Duration::from_secs(1));
        let totals = regulate.end(Signal::INT);
        let stopped = Duration::from_nanos(of_core(&totals, "stopped_ns"));
        let is_right = stopped > Duration::from_millis(50) && stopped < most;
        if is_right { Ok(()) } else { Err(format!("{stopped:?} of {most:?}")) }
    });
}

#[test]
fn many_short_holds_share_the_budget_of_a_period() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let _load = load("compute", core);
    in_one_of_a_few(|| {
        let regulate = Regulate::start(core, &["--budget", "20%", "--period", "200ms"]);
        let hold = Hold::attach(&regulate.socket).unwrap();
        let begun = Instant::now();
        // None of them is as long as the budget.
        while begun.elapsed() < Duration::from_secs(2) {
            hold.acquire();
            std::thread::sleep(Duration::from_millis(20));
            hold.release();
            std::thread::sleep(Duration::from_millis(5));
        }
        let totals = regulate.end(Signal::TERM);
        let stopped = Duration::from_nanos(of_core(&totals, "stopped_ns"));
        if stopped > begun.elapsed() / 4 { Ok(()) } else { Err(format!("{stopped:?}")) }
    });
}

#[test]
fn killed_holder_holds_no_core() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let regulate = Regulate::start(core, &["--budget", "5%"]);
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "holder_for_others", "--nocapture"]);
    command.env(HOLDER, &regulate.socket).stdout(Stdio::piped());
    let mut holder = Process(command.spawn().unwrap());
    let mut lines = BufReader::new(holder.0.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("holds")));
    std::thread::sleep(Duration::from_millis(200));
    holder.signal(Signal::KILL);
    holder.0.wait().unwrap();
    let begun = Instant::now();
    std::thread::sleep(Duration::from_secs(3));
    let free = begun.elapsed();
    let totals = regulate.end(Signal::TERM);
    assert_eq!(totals["statistics"]["died_holding"], 1, "{totals}");
    let elapsed = Duration::from_nanos(totals["elapsed_ns"].as_u64().unwrap());
    let stopped = Duration::from_nanos(of_core(&totals, "stopped_ns"));
    assert!(stopped > Duration::ZERO && stopped < elapsed - free / 2, "{stopped:?} {elapsed:?}");
}

/// Not a test by itself: the process that `killed_holder_holds_no_core` kills.
#[test]
fn holder_for_others() {
    let Some(socket) = std::env::var_os(HOLDER) else { return };
    let hold = Hold::attach(Path::new(&socket)).unwrap();
    assert!(hold.acquire());
    println!("holds");
    std::thread::sleep(PATIENCE);
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
/// no stop that does not end.
#[test]
fn core_that_is_stopped_for_nearly_all_of_the_time_stays_regulated() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let _load = load("compute", core);
    in_one_of_a_few(|| {
        let regulate = Regulate::start(core, &["--budget", "2%", "--hold"]);
        std::thread::sleep(Duration::from_secs(5));
        let totals = regulate.end(Signal::TERM);
        let share = of_core(&totals, "stopped_ns") as f64 / totals["elapsed_ns"].as_f64().unwrap();
        let has_all_back = of_core(&totals, "demotions") == of_core(&totals, "promotions");
        if share > 0.7 && has_all_back { Ok(()) } else { Err(format!("{share}: {totals}")) }
    });
}

#[test]
fn more_urgent_thread_on_a_regulated_core_is_said() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let regulate = Regulate::start(core, &["--budget", "50%", "--hold"]);
    let urgent = std::thread::spawn(move || {
        realtime::thread::pin(&[core]).unwrap();
        realtime::thread::set_policy(realtime::thread::Policy::Fifo(20)).unwrap();
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(600) {
            std::hint::spin_loop();
        }
    });
    urgent.join().unwrap();
    let totals = regulate.end(Signal::TERM);
    assert!(of_core(&totals, "missed") > 300, "{totals}");
    let said = totals["hindrances"][0].as_str().unwrap();
    assert!(said.contains(&format!("core {core}: something more urgent")), "{said}");
}

#[test]
fn thread_that_looks_by_itself_costs_the_taker_no_wake_up() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let taking = |attention: &str| {
        let regulate = Regulate::start(core, &["--budget", "50%", "--attention", attention]);
        let hold = Hold::attach(&regulate.socket).unwrap();
        let once = |_| {
            let begun = Instant::now();
            hold.acquire();
            let took = begun.elapsed();
            std::thread::sleep(Duration::from_millis(3));
            hold.release();
            // For much longer than it lingers.
            std::thread::sleep(Duration::from_millis(20));
            took
        };
        let mut took: Vec<_> = (0..25).map(once).collect();
        took.sort_unstable();
        let totals = regulate.end(Signal::TERM);
        (took[took.len() / 2], of_core(&totals, "stops") >= 25, totals)
    };
    in_one_of_a_few(|| {
        let [bell, look] = ["bell", "look"].map(taking);
        let is_right = look.0 * 2 < bell.0 && look.1 && bell.1;
        if is_right { Ok(()) } else { Err(format!("{bell:?} with the bell, {look:?} looking")) }
    });
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
    command.arg("--socket").arg(&socket).arg("--write").arg(&file).args(["--", "sleep", "0.1"]);
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

//! Drives the real `keeptime-lab chains` on small systems. One run at a time: each of them takes the
//! cores for itself, at real-time priority.

mod program;

use std::io::{BufRead, BufReader};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use program::laboratory;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use testing::{result, until};

const NOBODY: u32 = 65_534;

/// A critical chain over two executors, one that spins, and a best-effort one that asks for more
/// than its period allows, over two executors as well.
const SYSTEM: &str = "
accelerators: [{id: gpu0, buckets: 3, cores: [0]}]
server: {cores: [0]}
executors:
- {id: front, core: 1, priority: 80}
- {id: rear, core: 1, priority: 70}
chains:
- id: brake
  priority: 3
  period: 20 ms
  callbacks:
  - {id: see, executor: front, cpu: 200 us, segments: [{accel: gpu0, exec: 500 us}]}
  - {id: act, executor: rear, cpu: 100 us}
- id: map
  priority: 2
  period: 50 ms
  wait: spin
  callbacks:
  - id: build
    executor: rear
    cpu: 500 us
    segments: [{accel: gpu0, exec: 300 us}, {accel: gpu0, exec: 300 us}]
- id: log
  priority: 1
  period: 10 ms
  best_effort: true
  callbacks:
  - {id: pack, executor: front, cpu: 100 us}
  - {id: send, executor: rear, cpu: 100 us, segments: [{accel: gpu0, exec: 15000 us}]}
";

#[test]
fn json_has_every_number_of_every_chain_under_every_policy() {
    let bench = Bench::new(SYSTEM);
    let run = bench.json(&["--duration", "1s"]);
    for policy in ["priority", "fifo", "timeslice"] {
        for (chain, period_ns) in [("brake", 20_000_000), ("map", 50_000_000), ("log", 10_000_000)]
        {
            let result = &run["policies"][policy]["chains"][chain];
            assert_eq!(result["period_ns"], period_ns, "{policy} {chain} in {run}");
            assert!(result["jobs"].as_u64().is_some_and(|jobs| jobs > 0), "{policy} {chain}");
            assert!(result["misses"].is_u64(), "{policy} {chain}: {result}");
            assert!(result["bound_ns"].is_null(), "{policy} {chain}: {result}");
            let times = ["p50_ns", "p99_ns", "max_ns"].map(|key| result[key].as_f64().unwrap());
            assert!(times[0] > 0.0 && times.is_sorted(), "{policy} {chain}: {result}");
        }
    }
    assert_eq!(run["policies"].as_object().unwrap().len(), 3);
    assert_eq!((&run["schema"], &run["version"]), (&"keeptime.chains".into(), &1.into()));
    assert_eq!((&run["partial"], &run["duration_ns"]), (&Value::Null, &1_000_000_000.into()));
    assert_eq!(run["judged"], serde_json::json!(["priority"]));
}

#[test]
fn real_time_chains_serve_every_release_also_across_executors() {
    let bench = Bench::new(SYSTEM);
    let run = bench.json(&["--duration", "1s", "--policy", "priority"]);
    let chains = &run["policies"]["priority"]["chains"];
    assert_eq!(chains["brake"]["jobs"], 50, "{run}");
    assert_eq!(chains["map"]["jobs"], 20, "{run}");
    // 200 us and 100 us of processor and 500 us of accelerator; a machine may be a little
    // faster than when it was calibrated.
    assert!(chains["brake"]["p50_ns"].as_f64().unwrap() > 400e3, "{run}");
}

#[test]
fn chains_without_a_server_have_devices_of_their_own() {
    let bench = Bench::new(SYSTEM);
    let run = bench.json(&["--duration", "1s", "--policy", "direct"]);
    let direct = &run["policies"]["direct"];
    let brake = &direct["chains"]["brake"];
    assert_eq!(brake["jobs"], 50, "{run}");
    assert!(brake["p50_ns"].as_f64().unwrap() > 400e3, "the accelerator has worked: {run}");
    assert!(direct["chains"]["map"]["jobs"].as_u64().is_some_and(|jobs| jobs > 0), "{run}");
}

#[test]
fn best_effort_chain_skips_releases_while_its_job_is_on_another_executor() {
    let bench = Bench::new(SYSTEM);
    let run = bench.json(&["--duration", "1s", "--policy", "fifo"]);
    let log = &run["policies"]["fifo"]["chains"]["log"];
    let count = |key: &str| log[key].as_u64().unwrap();
    assert_eq!(count("jobs") + count("skipped") + count("unfinished"), 100, "{run}");
    // 15 ms of work in a period of 10 ms: at most every other release.
    assert!(count("skipped") >= 50, "{run}");
    assert!(count("jobs") > 0 && count("unfinished") <= 1, "{run}");
}

#[test]
fn chain_may_come_back_to_its_first_executor() {
    let bench = Bench::new(
        "accelerators: [{id: gpu0, buckets: 1, cores: [0]}]\n\
         executors: [{id: a, core: 1, priority: 5}, {id: b, core: 1, priority: 0}]\n\
         chains: [{id: loop, priority: 1, period: 10 ms, best_effort: true, callbacks: [\
         {id: x, executor: a, cpu: 10 us}, {id: y, executor: b, cpu: 10 us}, \
         {id: z, executor: a, cpu: 10 us}]}]\n",
    );
    let run = bench.json(&["--duration", "500ms", "--policy", "priority"]);
    let chain = &run["policies"]["priority"]["chains"]["loop"];
    let count = |key: &str| chain[key].as_u64().unwrap();
    assert_eq!(count("jobs") + count("skipped") + count("unfinished"), 50, "{run}");
    assert!(count("jobs") > 25, "{run}");
}

#[test]
fn tables_end_with_the_conclusion_and_beside_a_page_there_is_only_the_summary() {
    let bench = Bench::new(SYSTEM);
    let page = bench.folder.join("page.html");
    let options = ["--duration", "300ms", "--policy", "priority,fifo"];
    let run = |more: &[&str]| {
        let output = bench.command(&[&options[..], more].concat()).output().unwrap();
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap())
    };
    let [text, said] = run(&[]);
    assert!(text.contains("chain ") && text.contains(" priority ") && text.contains(" fifo "));
    assert!(text.rsplit("\n\n").next().unwrap().contains("brake"), "{text}");
    assert!(!text.contains('\x1b'), "{text}");
    assert!(said.starts_with("keeptime-lab chains: takes about 6s\n"), "{said}");
    assert!(said.contains("fifo: finished\n"), "{said}");
    assert!(!page.exists());
    let [text, said] = run(&["--html", page.to_str().unwrap()]);
    assert!(text.contains("brake") && text.contains("Judged under priority and fifo"), "{text}");
    assert!(!text.contains("Distributions") && !text.contains(" p99 "), "{text}");
    assert!(said.ends_with(&format!("wrote {}\n", page.display())), "{said}");
    assert!(std::fs::read_to_string(page).unwrap().contains("<svg"));
}

#[test]
fn missed_deadline_under_a_judged_policy_is_exit_status_1() {
    // No job takes less than that.
    let late = SYSTEM.replace("period: 20 ms", "period: 20 ms\n  deadline: 1 us");
    let status = |system: &str, options: &[&str]| {
        let bench = Bench::new(system);
        let duration = ["--duration", "300ms"];
        let output = bench.command(&[&duration[..], options].concat()).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = status(&late, &["--policy", "priority"]);
    assert_eq!(code, Some(1), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("Judged under priority: brake missed"), "{text}");
    // A policy that was named is judged, too.
    assert_eq!(status(&late, &["--policy", "fifo"]).0, Some(1));
    // Policies that are run beside priority for comparison are not.
    let (code, text) = status(ROOMY, &[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("Judged under priority: no critical chain was late."), "{text}");
}

/// A chain that needs a thousandth of its period, and is allowed a tenth by its bound.
const ROOMY: &str = "
epsilon: 100 ms
kappa: 100 ms
accelerators: [{id: gpu0, buckets: 1, cores: [0]}]
executors: [{id: a, core: 1, priority: 5}]
chains:
- id: calm
  priority: 1
  period: 2 s
  callbacks: [{id: x, executor: a, cpu: 1 ms, segments: [{accel: gpu0, exec: 1 ms}]}]
";

#[test]
fn random_offsets_release_every_chain_in_its_first_period() {
    let bench = Bench::new(SYSTEM);
    let run = bench.json(&["--duration", "1s", "--policy", "fifo", "--offsets", "random:3"]);
    assert_eq!(run["policies"]["fifo"]["chains"]["brake"]["jobs"], 50, "{run}");
}

#[test]
fn run_without_privilege_marks_its_results() {
    let bench = Bench::new(SYSTEM);
    let limited = "ulimit -r 0; exec \"$0\" \"$@\"";
    let mut command = Command::new("sh");
    command.arg("-c").arg(limited).arg(bench.program_for_all()).arg("chains");
    command.arg(bench.file()).args(["--json", "--duration", "300ms", "--policy", "fifo"]);
    // Dropping to another user drops the capabilities, and only root can do it and need it.
    if rustix::process::geteuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.current_dir("/").output().unwrap();
    let run = result::of(&output);
    let marks = run["policies"]["fifo"]["marks"].as_array().unwrap();
    let refused = "ran at normal priority: SCHED_FIFO refused, see keeptime doctor";
    assert!(marks.iter().any(|mark| mark == refused), "{run}");
    assert!(run["policies"]["fifo"]["chains"]["brake"]["jobs"].as_u64().unwrap() > 0, "{run}");
}

#[test]
fn cores_that_are_not_there_are_folded_and_told() {
    let bench = Bench::new(&SYSTEM.replace("core: 1,", "core: 1023,"));
    let run = bench.json(&["--duration", "200ms", "--policy", "fifo"]);
    assert!(run["marks"][0].as_str().unwrap().starts_with("folded 2 cores onto "), "{run}");
}

#[test]
fn bad_input_is_exit_status_2_and_names_the_key() {
    let bench = Bench::new(SYSTEM);
    let refusal = |options: &[&str]| {
        let output = bench.command(options).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(refusal(&["--policy", "best"]).contains("expected priority, fifo or timeslice"));
    assert!(refusal(&["--policy", "fifo,fifo"]).contains("found fifo twice"));
    assert!(refusal(&["--duration", "60"]).contains("--duration"));
    assert!(refusal(&["--map", "9=0"]).contains("found core 9, expected one that"));
    assert!(refusal(&["--offsets", "late"]).contains("random:SEED"));
    assert!(refusal(&["--html", "/no/such/folder/page.html"]).contains("--html"));

    std::fs::write(bench.file(), SYSTEM.replace("period: 50 ms", "period: never")).unwrap();
    let output = bench.command(&[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("system.yaml:") && text.contains("period: found \"never\""), "{text}");
}

#[test]
fn what_stops_the_server_from_starting_is_shown() {
    let bench = Bench::new(&SYSTEM.replace("cores: [0]}]", "cores: [0], device: 'cuda:0'}]"));
    let output = bench.command(&["--duration", "200ms"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("the accelerator server ended with"), "{text}");
    assert!(text.contains("accelerators.gpu0.device"), "{text}");
}

#[test]
fn children_go_with_their_parent_even_if_it_is_killed() {
    let bench = Bench::new(SYSTEM);
    for (signal, status) in [(Signal::KILL, None), (Signal::TERM, Some(143))] {
        let mut parent = bench.command(&["--duration", "1h"]).spawn().unwrap();
        let _run = EndsWithTheTest::of(&parent);
        let id = parent.id();
        until("the server and two executors", || children_of(id) == 3);
        kill(&parent, signal);
        assert_eq!(parent.wait().unwrap().code(), status);
        until("the end of all children", || children_of(id) == 0);
    }
}

#[test]
fn child_whose_parent_has_ended_does_nothing() {
    let mut child = laboratory();
    let output = child.args(["child", "--parent", "1", "nobody"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("the parent process has ended"), "{text}");
}

#[test]
fn interrupted_run_cleans_up() {
    let bench = Bench::new(SYSTEM);
    let mut parent = bench.command(&["--duration", "1h"]).spawn().unwrap();
    let _run = EndsWithTheTest::of(&parent);
    let mut progress = BufReader::new(parent.stderr.take().unwrap()).lines();
    let started = |line: String| line.contains("chains: priority, ");
    assert!(progress.any(|line| started(line.unwrap())), "the chains did not start");
    assert_eq!(bench.files(), 2, "the system file and the folder of sockets");
    kill(&parent, Signal::INT);
    assert!(progress.any(|line| line.unwrap() == "keeptime-lab: interrupted by SIGINT"));
    assert_eq!(parent.wait().unwrap().code(), Some(130));
    assert_eq!((children_of(parent.id()), bench.files()), (0, 1));
}

#[test]
fn interrupted_run_shows_the_policies_that_finished() {
    for (signal, status, name) in [(Signal::INT, 130, "SIGINT"), (Signal::TERM, 143, "SIGTERM")] {
        let bench = Bench::new(SYSTEM);
        let (page, all) = (bench.folder.join("page.html"), bench.folder.join("all.json"));
        let options = ["--duration", "5s", "--policy", "priority,fifo", "--json", "--html"];
        let mut run = bench.command(&options);
        let mut parent = run.arg(&page).arg("--out").arg(&all).spawn().unwrap();
        let _run = EndsWithTheTest::of(&parent);
        let mut progress = BufReader::new(parent.stderr.take().unwrap()).lines();
        let finished = |line: String| line == "keeptime-lab chains: priority: finished";
        assert!(progress.any(|line| finished(line.unwrap())), "priority did not finish");
        assert!(!page.exists(), "the page is written at the end");
        kill(&parent, signal);
        let said: Vec<String> = progress.map(Result::unwrap).collect();
        let id = parent.id();
        let output = parent.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{said:?}");
        assert_eq!(said.last().unwrap(), &format!("keeptime-lab: interrupted by {name}"));
        assert_eq!((children_of(id), bench.files()), (0, 3), "the system file and both results");
        let run = result::of(&output);
        let partial = format!("partial, interrupted by {name}: 1 of 2 policies finished");
        assert_eq!(run["partial"], partial, "{run}");
        let policies: Vec<&String> = run["policies"].as_object().unwrap().keys().collect();
        assert_eq!(policies, ["priority"]);
        let brake = &run["policies"]["priority"]["chains"]["brake"];
        let all = result::read(std::fs::read(all).unwrap());
        let samples = all["policies"][0]["chains"][0]["response_ns"].as_array().unwrap();
        assert_eq!(samples.len() as u64, brake["jobs"].as_u64().unwrap());
        assert!(samples.contains(&brake["max_ns"]), "{brake}: {samples:?}");
        let page = std::fs::read_to_string(page).unwrap();
        assert!(page.contains(&partial) && page.trim_end().ends_with("</html>"), "{page}");
    }
}

#[test]
fn server_that_dies_is_a_mark_and_not_a_hang() {
    let bench = Bench::new(SYSTEM);
    let options = ["--duration", "2s", "--policy", "priority", "--json"];
    let mut parent = bench.command(&options).spawn().unwrap();
    let _run = EndsWithTheTest::of(&parent);
    let mut progress = BufReader::new(parent.stderr.take().unwrap()).lines();
    let started = |line: String| line.contains("chains: priority, ");
    assert!(progress.any(|line| started(line.unwrap())), "the chains did not start");
    for server in processes_of(parent.id(), "\0serve\0") {
        kill_process(Pid::from_raw(server).unwrap(), Signal::KILL).unwrap();
    }
    let output = parent.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let run = result::of(&output);
    let marks = run["policies"]["priority"]["marks"].to_string();
    assert!(marks.contains("the accelerator server ended with"), "{run}");
    assert!(marks.contains("lost to failed requests"), "{run}");
}

/// A run that is killed when its test panics: its server would keep a core for an hour.
struct EndsWithTheTest(OwnedFd);

impl EndsWithTheTest {
    fn of(run: &Child) -> EndsWithTheTest {
        let process = pidfd_open(Pid::from_child(run), PidfdFlags::empty());
        EndsWithTheTest(process.unwrap())
    }
}

impl Drop for EndsWithTheTest {
    fn drop(&mut self) {
        // One that has ended is not there any more.
        let _ = pidfd_send_signal(&self.0, Signal::KILL);
    }
}

fn kill(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

fn children_of(parent: u32) -> usize {
    processes_of(parent, "").len()
}

/// Living processes that were told to end with `parent`, of a subcommand.
fn processes_of(parent: u32, subcommand: &str) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let option = format!("\0--parent\0{parent}\0");
    let ours = processes.filter_map(|process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        // The command line of a zombie is empty.
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        let line = String::from_utf8_lossy(&line);
        (line.contains(subcommand) && line.contains(&option)).then_some(id)
    });
    ours.collect()
}

/// A system file in a folder that everybody can enter.
struct Bench {
    folder: PathBuf,
    _lock: MutexGuard<'static, ()>,
}

impl Bench {
    fn new(system: &str) -> Bench {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        // A test that failed has no effect on the next one.
        let lock = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("keeptime-chains-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        let bench = Bench { folder, _lock: lock };
        std::fs::write(bench.file(), system).unwrap();
        for (path, mode) in [(bench.folder.clone(), 0o755), (bench.file(), 0o644)] {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        bench
    }

    fn file(&self) -> PathBuf {
        self.folder.join("system.yaml")
    }

    /// The command; cores that are missing here are folded.
    fn command(&self, options: &[&str]) -> Command {
        let mut command = laboratory();
        command.arg("chains").arg(self.file()).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A run that is killed cannot remove its folder of sockets.
        command.env("TMPDIR", &self.folder);
        command
    }

    fn json(&self, options: &[&str]) -> Value {
        let output = self.command(options).arg("--json").output().unwrap();
        // A busy machine may miss deadlines; that is no failure of the command.
        assert!(matches!(output.status.code(), Some(0 | 1)), "{output:?}");
        result::of(&output)
    }

    /// Returns the number of files and folders in the folder.
    fn files(&self) -> usize {
        std::fs::read_dir(&self.folder).unwrap().count()
    }

    /// A copy of the program where every user can run it; the build folder may be private.
    fn program_for_all(&self) -> PathBuf {
        let path = self.folder.join("keeptime-lab");
        // By another process: what this one has open for writing is also open in processes that
        // other tests have just forked, and cannot be executed meanwhile.
        let mut copy = Command::new("cp");
        copy.arg(env!("CARGO_BIN_EXE_keeptime-lab")).arg(testing::keeptime()).arg(&self.folder);
        assert!(copy.status().unwrap().success());
        for program in [&path, &self.folder.join("keeptime")] {
            std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        path
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // A folder that is left over does no harm.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

//! Processes: forks, other programs, and what a program may take from itself. Every process image
//! records under a number of its own, and none notices.

mod support;

use record::{Action, Class, Trouble};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use support::{
    Ended, Folder, Mode, Recorder, Subject, Trace, can_compile, is_root, program, program_with,
};

const NAME: &str = "processes";

fn subject(arguments: &[&str]) -> Subject {
    Subject::new(subject_path()).args(arguments)
}

fn subject_path() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| program(support::shared_folder(), "processes.c"))
}

/// Runs it in every mode, and returns how it ended when all of its own locks were recorded.
#[track_caller]
fn compare(arguments: &[&str]) -> (Ended, Trace) {
    let subject = subject(arguments);
    let (output, _) = subject.compare(Mode::all());
    let (ended, trace) = subject.recorded(&Mode::only(NAME));
    assert_eq!(ended.success(), output);
    trace.assert_whole();
    (ended, trace)
}

#[test]
fn memory_can_be_locked_as_it_can_without() {
    let folder = Folder::new();
    let path = program(&folder, "mlockall.c");
    for how in ["without-privileges", "with-those-that-there-are"] {
        let subject = Subject::new(&path).arg(how);
        subject.compare(Mode::all().map(|mode| mode.bytes(256 << 20)));
        let (ended, trace) = subject.recorded(&Mode::only("mlockall").bytes(256 << 20));
        ended.success();
        // All that was not taken while memory was being locked.
        assert!(trace.count(Class::Mutex, Action::Acquired) >= 10 + 2 * 3 * 3000 + 10 * 10);
        assert_eq!((trace.torn, not_attached(&trace)), (0, 0));
    }
}

fn acquired(trace: &Trace, number: u32) -> usize {
    trace.count_of(number, Class::Mutex, Action::Acquired)
}

fn not_attached(trace: &Trace) -> u64 {
    trace.troubles[Trouble::NotAttached as usize]
}

/// Returns the statements of processes: id and number of times that they locked.
fn told(ended: &Ended) -> Vec<(u32, usize)> {
    let words = ended.err.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    words
        .map(|words| match words[..] {
            ["locked", pid, times] => (pid.parse().unwrap(), times.parse().unwrap()),
            _ => panic!("unexpected: {words:?}"),
        })
        .collect()
}

/// Returns the number of times that each process image locked, with its process id.
fn recorded(trace: &Trace) -> Vec<(u32, usize)> {
    trace.processes.iter().map(|process| (process.pid, acquired(trace, process.number))).collect()
}

#[test]
fn children_of_a_program_with_threads_have_numbers_of_their_own() {
    let (ended, trace) = compare(&["forks"]);
    let mut expected = told(&ended);
    // After they have told it, children lock once more.
    let (parent, _) = *expected.last().expect("the parent");
    for (pid, times) in &mut expected {
        *times += usize::from(*pid != parent);
    }
    let mut found = recorded(&trace);
    expected.sort_unstable();
    found.sort_unstable();
    assert_eq!(found, expected);
    let by_pid: BTreeMap<u32, _> = trace.processes.iter().map(|p| (p.pid, p)).collect();
    let parents = trace.processes.iter().filter(|p| by_pid.contains_key(&p.parent)).count();
    assert_eq!(parents, expected.len() - 1, "{:?}", trace.processes);
}

#[test]
fn every_program_of_a_process_has_a_number_of_its_own() {
    let (ended, trace) = compare(&["programs"]);
    let told = told(&ended);
    for (pid, times) in &told {
        let process = trace.process(*pid).unwrap_or_else(|| panic!("{pid} of {told:?}"));
        assert_eq!(acquired(&trace, process.number), *times);
    }
    let times: Vec<usize> = told.iter().map(|(_, times)| *times).collect();
    assert_eq!(times, [5, 10, 20, 30]);
    // One process that became itself three times.
    let mut by_pid: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (pid, times) in recorded(&trace) {
        by_pid.entry(pid).or_default().push(times);
    }
    assert!(by_pid.values().any(|images| *images == [103, 102, 101, 100]), "{by_pid:?}");
    let shell = trace.processes.iter().find(|process| !process.program.ends_with(NAME));
    assert!(shell.is_some_and(|shell| shell.program.contains("sh")), "{:?}", trace.processes);
}

#[test]
fn program_without_its_environment_runs_unrecorded() {
    let (ended, trace) = compare(&["without-environment"]);
    assert_eq!(told(&ended).len(), 1, "the one that is not recorded");
    // The program, and a child that was forked after it had cleared its environment.
    let times: Vec<usize> = recorded(&trace).into_iter().map(|(_, times)| times).collect();
    assert_eq!(times, [7, 3]);
}

#[test]
fn program_that_closes_everything_is_recorded_and_keeps_its_descriptors() {
    let (_, trace) = compare(&["without-descriptors"]);
    let times: Vec<usize> = recorded(&trace).into_iter().map(|(_, times)| times).collect();
    assert_eq!(times, [10 + 10 + 5 + 4000 + 1, 7]);
}

#[test]
fn program_that_drops_its_rights_is_recorded_and_so_are_those_it_starts() {
    if !is_root() {
        eprintln!("SKIP: only root can become another user");
        return;
    }
    // If nobody else may enter the folder, nobody could start it again.
    let folder = public_folder();
    let path = folder.join(NAME);
    // By another process: what this one has open for writing is also open in processes that other
    // tests have just forked, and cannot be executed meanwhile.
    let copied = Command::new("cp").arg(subject_path()).arg(&path).status();
    assert!(copied.expect("cp starts").success());
    let library = folder.join("libkeeptime_preload.so");
    std::fs::copy(support::library(), &library).expect("a copy");
    let subject = Subject::new(&path).args(["without-root"]);
    let bare = subject.bare();
    for mode in [Mode::only(NAME), Mode::full(), Mode::contended(), Mode::default_filter()] {
        let recorder = Recorder::new(&mode);
        let mut command = recorder.invite(&subject);
        command.env("LD_PRELOAD", &library);
        let ended = support::run(&mut command);
        assert_eq!(ended.success(), bare.success(), "{}", mode.name);
        let trace = recorder.finish();
        if mode.name == Mode::only("").name {
            assert_eq!(recorded(&trace), in_order(&trace, &told(&ended)));
        }
        assert_eq!(not_attached(&trace), 0);
    }
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

/// Returns the numbers that were told, in the order in which the processes began.
fn in_order(trace: &Trace, told: &[(u32, usize)]) -> Vec<(u32, usize)> {
    let times = |pid| told.iter().find(|(told, _)| *told == pid).map_or(0, |(_, times)| *times);
    trace.processes.iter().map(|process| (process.pid, times(process.pid))).collect()
}

/// A folder that everybody may look into.
fn public_folder() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("keeptime-preload-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).expect("a folder");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&folder, everybody).expect("it is ours");
    folder
}

#[test]
fn program_without_proc_is_recorded() {
    if !is_root() {
        eprintln!("SKIP: only root can change the root folder");
        return;
    }
    let folder = Folder::new();
    let cage = folder.path("cage");
    std::fs::create_dir(&cage).expect("a folder");
    let (ended, trace) = compare(&["in-a-cage", cage.to_str().expect("a path in UTF-8")]);
    assert_eq!(recorded(&trace), in_order(&trace, &told(&ended)));
    assert_eq!(trace.processes.len(), 2);
    assert!(trace.processes.iter().all(|process| process.program.ends_with(NAME)));
}

#[test]
fn program_with_little_address_space_keeps_it_and_is_counted() {
    let subject = subject(&["in-little-space"]);
    let (_, traces) = subject.compare([Mode::full(), Mode::only(NAME)]);
    for trace in traces {
        assert_eq!(trace.processes.len(), 1, "{:?}", trace.processes);
        assert_eq!(not_attached(&trace), 1);
    }
}

#[test]
fn sandboxed_processes_make_no_system_call_that_could_kill_them() {
    let (ended, trace) = compare(&["sandboxes"]);
    let told = told(&ended);
    let (parent, times) = *told.last().expect("the parent");
    let parent = trace.process(parent).expect("the parent is recorded");
    // Filters that the kernel refused ended nothing.
    assert_eq!((acquired(&trace, parent.number), times), (30, 30));
    // Three filters in children, three before forks, strict mode, and one before a program, each
    // in a process that was not recorded before and is not after; none of them had entered.
    assert_eq!(trace.processes.len(), 2, "{:?}", trace.processes);
    assert_eq!(not_attached(&trace), 8);
}

#[test]
fn static_program_runs_unrecorded() {
    let folder = Folder::new();
    if !can_compile(&folder, &["-static"]) {
        eprintln!("SKIP: there is no static C library");
        return;
    }
    let path = program_with(&folder, "processes.c", &["-static"]);
    let subject = Subject::new(path).args(["lock", "100"]);
    for mode in Mode::all() {
        let (ended, trace) = subject.recorded(&mode);
        assert_eq!(ended.success(), subject.bare().success());
        assert_eq!((trace.processes.len(), trace.records.len()), (0, 0));
    }
}

/// Set for the process that is to be a recorder.
const ROLE: &str = "KEEPTIME_TEST_RECORDS";

/// Not a test: a recorder in a process of its own, for the one below.
#[test]
#[ignore = "the other half of program_goes_on_when_its_recorder_is_killed"]
fn recorder_in_a_process_of_its_own() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let recorder = Recorder::new(&Mode::full());
    let mut program = recorder.invite(&subject(&["in-parts"])).spawn().expect("it starts");
    program.wait().expect("its end");
}

#[test]
fn program_goes_on_when_its_recorder_is_killed() {
    let own = std::env::current_exe().expect("a path");
    let mut command = Command::new(own);
    command.args(["--exact", "recorder_in_a_process_of_its_own", "--ignored", "--nocapture"]);
    command.env(ROLE, "1").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut recorder = command.spawn().expect("it starts");
    let mut input = recorder.stdin.take().expect("a pipe");
    let mut lines = BufReader::new(recorder.stdout.take().expect("a pipe")).lines();
    let mut part = || {
        input.write_all(b"\n").expect("the program reads");
        lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains("part done"))
    };
    assert!(part().is_some());
    // Whoever knocks now waits in vain, but not for long.
    let pid = rustix::process::Pid::from_child(&recorder);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("it is ours");
    assert!(part().is_some());
    recorder.kill().expect("it is ours");
    recorder.wait().expect("its end");
    assert!(part().is_some());
    assert!(part().is_some());
    drop(input);
    assert!(lines.all(|line| !line.expect("text").contains("a child ended with 1")));
}

#[test]
fn processes_that_share_their_memory_take_the_same_locks() {
    let folder = Folder::new();
    let path = program(&folder, "shared-memory.c");
    let (output, _) = Subject::new(path).compare(Mode::all());
    assert!(output.contains("8000 counted, 0 broken, torn by 0"), "{output}");
}

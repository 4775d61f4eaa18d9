//! The first commands of a user without any privilege: no login session, no environment, 64 KiB of
//! locked memory, no real-time priority, no access to the kernel's tracer.
//!
//! Each test has a user of its own, because the default socket is one for each user.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use accel::{Client, Registration, Request};
use support::{ProgramForAll, preload_test_program};

mod support;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/server.yaml");

/// Returns true if tests can become another user, and otherwise says that this one is skipped.
fn can_become_another_user() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIP: only root can become another user");
    }
    root
}

fn words(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn has(text: &str, all: &[&str]) {
    for said in all {
        assert!(text.contains(said), "{said:?} is not in\n{text}");
    }
}

/// The default folder of a user without a login session, removed at the end.
struct DefaultFolder(PathBuf);

impl DefaultFolder {
    fn of(user: u32) -> DefaultFolder {
        let folder = PathBuf::from(format!("/tmp/keeptime-{user}"));
        let _ = std::fs::remove_dir_all(&folder);
        DefaultFolder(folder)
    }
}

impl Drop for DefaultFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A server that is ended when this goes.
struct Server(Child);

impl Server {
    /// Starts it, and returns also what it says until it listens.
    fn start(mut command: Command) -> (Server, String) {
        let mut server = Server(command.stderr(Stdio::piped()).spawn().unwrap());
        let mut said = String::new();
        let mut lines = BufReader::new(server.0.stderr.take().unwrap());
        while !said.contains("listening at") {
            assert_ne!(lines.read_line(&mut said).unwrap(), 0, "the server ended: {said}");
        }
        // The rest of what it says must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
        (server, said)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The example's file, where every user can read it.
fn example(program: &ProgramForAll) -> String {
    let file = program.folder().join("server.yaml");
    std::fs::write(&file, std::fs::read(EXAMPLE).unwrap()).unwrap();
    std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
    file.to_str().unwrap().to_owned()
}

#[test]
fn example_server_serves_whoever_starts_it() {
    if !can_become_another_user() {
        return;
    }
    const USER: u32 = 61_521;
    let (folder, program) = (DefaultFolder::of(USER), ProgramForAll::new());
    let file = example(&program);
    let none = program.bare(USER, "/", &["status"]).output().unwrap();
    assert_eq!(none.status.code(), Some(2));
    has(&words(&none).1, &["no accelerator server at", "keeptime serve CONFIG"]);

    let (server, said) = Server::start(program.bare(USER, "/", &["serve", &file]));
    has(
        &said,
        &[
            "memory is not locked, so that a thread may wait",
            "RLIMIT_MEMLOCK is 65536 bytes",
            "prlimit --pid $$ --memlock=unlimited",
            "no bound holds",
            "prlimit --pid $$ --rtprio=99",
            &format!("listening at {}/keeptime.sock", folder.0.display()),
        ],
    );
    let status = program.bare(USER, "/", &["status"]).output().unwrap();
    assert_eq!(status.status.code(), Some(0), "{status:?}");

    // Another program of that user, which looks at the default places.
    let client = program.folder().join("client");
    let own = std::env::current_exe().unwrap();
    let copied = Command::new("install").args(["-m", "0755"]).arg(own).arg(&client).status();
    assert!(copied.unwrap().success());
    let arguments = ["--ignored", "--exact", "--nocapture", "client_that_runs_a_request"];
    let mut run = program.bare_program(USER, &client, &arguments);
    let output = run.env("CLIENT", "1").output().unwrap();
    has(&words(&output).0, &["the request is done"]);
    drop(server);
}

#[test]
#[ignore = "run by example_server_serves_whoever_starts_it"]
fn client_that_runs_a_request() {
    if std::env::var_os("CLIENT").is_none() {
        return;
    }
    let mut client = Client::connect(accel::default_socket()).unwrap();
    let registration = Registration::service("empty").chain("first", 7);
    let callback = client.register(&registration.memory(1 << 20)).unwrap();
    client.run(callback, &Request::new()).unwrap();
    println!("the request is done");
}

#[test]
fn folder_of_another_user_at_the_default_place_is_not_trusted() {
    if !can_become_another_user() {
        return;
    }
    const USER: u32 = 61_522;
    let (folder, program) = (DefaultFolder::of(USER), ProgramForAll::new());
    let file = example(&program);
    std::fs::create_dir(&folder.0).unwrap();
    let server = program.bare(USER, "/", &["serve", &file]).output().unwrap();
    assert_eq!(server.status.code(), Some(2), "{server:?}");
    has(&words(&server).1, &["keeptime-61522/keeptime.sock: ", "Permission denied", "--socket"]);
    // A client does not look into it, so that the owner cannot keep it from root's server.
    std::fs::write(folder.0.join("keeptime.sock"), "").unwrap();
    let status = program.bare(USER, "/", &["status"]).output().unwrap();
    has(&words(&status).1, &["no accelerator server at /run/keeptime/keeptime.sock"]);
    let doctor = program.bare(USER, "/", &["doctor", "serve"]).output().unwrap();
    assert_eq!(doctor.status.code(), Some(1), "{doctor:?}");
    has(&words(&doctor).0, &["missing  socket folder", "--socket", "Cannot work: socket folder."]);
}

#[test]
fn program_is_recorded_guarded_and_reported_and_a_missing_right_is_named() {
    if !can_become_another_user() {
        return;
    }
    const USER: u32 = 61_523;
    let program = ProgramForAll::new();
    let folder = program.folder();
    let recorded = program.bare(USER, folder, &["run", "--", "echo", "out"]).output().unwrap();
    let (out, said) = words(&recorded);
    assert_eq!((recorded.status.code(), out.as_str()), (Some(0), "out\n"), "{said}");
    has(&said, &["echo.kt: ", "sudo keeptime run", "keeptime report echo.kt"]);
    // In a folder that the user cannot write to.
    let elsewhere = program.bare(USER, "/", &["run", "--", "echo", "out"]).output().unwrap();
    let (out, said) = words(&elsewhere);
    assert_eq!((elsewhere.status.code(), out.as_str()), (Some(0), "out\n"), "{said}");
    let (_, trace) = said.trim_end().rsplit_once("keeptime report ").expect(&said);
    let report = program.bare(USER, "/", &["report", trace]).output().unwrap();
    assert_eq!(report.status.code(), Some(0), "{report:?}");
    std::fs::remove_dir_all(Path::new(trace).parent().unwrap()).unwrap();

    let report = program.bare(USER, folder, &["report", "echo.kt"]).output().unwrap();
    assert_eq!(report.status.code(), Some(0), "{report:?}");
    let guarded = ["run", "--guard", "auto", "--", "sh", "-c", "exit 7"];
    let guarded = program.bare(USER, folder, &guarded).output().unwrap();
    assert_eq!(guarded.status.code(), Some(7), "{guarded:?}");
}

/// A filter that refuses perf events, as a container's does, or kernel.perf_event_paranoid above 2.
#[test]
fn program_is_recorded_where_performance_events_are_refused() {
    if !can_become_another_user() {
        return;
    }
    const USER: u32 = 61_525;
    let program = ProgramForAll::new();
    let folder = program.folder();
    let refuse = PathBuf::from(preload_test_program(folder, "refuse"));
    let keeptime = folder.join("keeptime");
    let refused = |arguments: &[&str]| {
        let rule = format!("{},{}", libc::SYS_perf_event_open, libc::EACCES);
        let words = [&[rule.as_str(), "--", keeptime.to_str().unwrap()], arguments].concat();
        program.bare_program(USER, &refuse, &words).current_dir(folder).output().unwrap()
    };
    let recorded = refused(&["run", "--", "echo", "out"]);
    let (out, said) = words(&recorded);
    assert_eq!((recorded.status.code(), out.as_str()), (Some(0), "out\n"), "{said}");
    has(&said, &["echo.kt: ", "tier preload", "sudo keeptime run", "perf_event_open", "seccomp"]);
    let report = refused(&["report", "echo.kt"]);
    assert_eq!(report.status.code(), Some(0), "{report:?}");
    let doctor = refused(&["doctor", "run"]);
    assert_eq!(doctor.status.code(), Some(0), "{doctor:?}");
    has(
        &words(&doctor).0,
        &[
            "limited  perf events",
            "perf_event_paranoid is",
            "Works with limits: tracefs, perf events",
        ],
    );
}

#[test]
fn regulator_without_real_time_priority_names_the_command_that_grants_it() {
    if !can_become_another_user() {
        return;
    }
    const USER: u32 = 61_524;
    let (_folder, program) = (DefaultFolder::of(USER), ProgramForAll::new());
    let regulate = ["regulate", "--cores", "1", "--budget", "10%", "--duration", "1s"];
    let output = program.bare(USER, "/", &regulate).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    has(&words(&output).1, &["keeptime: ", "SCHED_FIFO", "sudo prlimit --pid $$ --rtprio=99"]);
}

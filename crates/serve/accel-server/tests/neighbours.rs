//! Clients that take what belongs to others: memory, promises, the server's time.

mod support;

use accel::control::Code;
use accel::snapshot::{Snapshot, Standing};
use accel::{Client, Error, Registration};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::time::Duration;
use support::{Busy, Fixture, command_of, given, one_gpu, serve};

fn refusal(error: Error) -> (Code, String) {
    match error {
        Error::Refused(refusal) => (refusal.code.unwrap(), refusal.text),
        other => panic!("{other}"),
    }
}

fn snapshot(fixture: &Fixture) -> Snapshot {
    fixture.client().snapshot().unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn memory_of_all_sessions_has_a_limit_and_is_shown() {
    let limits = "limits: {total_memory: 1 MiB, memory: 1 MiB}";
    let fixture = serve(&one_gpu("buckets: 2", &format!("server: {{priority: 0, {limits}}}")));
    let half = Registration::service("vecadd").memory(512 << 10);
    let mut first = Busy::with(&fixture, half.clone());
    let mut second = fixture.client();
    let (code, text) = refusal(second.register(&half).unwrap_err());
    assert_eq!(code, Code::Limit);
    assert!(text.contains("bytes are left of 1048576 for all clients"), "{text}");
    let seen = snapshot(&fixture).memory;
    assert_eq!((seen.limit_bytes, seen.users.len()), (1 << 20, 1));
    let user = &seen.users[0];
    assert_eq!((user.uid, user.sessions), (rustix::process::geteuid().as_raw(), 3));
    // Three session segments come on top.
    assert!((512 << 10..600 << 10).contains(&user.used_bytes), "{user:?}");
    assert_eq!(seen.used_bytes, user.used_bytes);
    first.client.deregister(first.callback).unwrap();
    fixture.until("its memory is gone", |c| c.memory_bytes < 512 << 10);
    second.register(&half).unwrap();
}

#[test]
fn memory_is_charged_in_whole_pages_and_given_back() {
    let fixture = serve(&one_gpu("buckets: 2", ""));
    let before = fixture.server().counters().memory_bytes;
    let mut client = fixture.client();
    let session = fixture.server().counters().memory_bytes - before;
    assert!(session > 0 && session % 4096 == 0, "{session}");
    client.register(&Registration::service("vecadd").memory(1)).unwrap();
    assert_eq!(fixture.server().counters().memory_bytes, before + session + 4096);
    // A registration that admission control refuses gives its memory back, too.
    let ms = Duration::from_millis(1);
    let wrong = Registration::service("vecadd").memory(1 << 20).period(10 * ms).exec(ms);
    assert_eq!(refusal(client.register(&wrong).unwrap_err()).0, Code::Declaration);
    fixture.until("the refused memory is gone", |c| c.memory_bytes == before + session + 4096);
    drop(client);
    fixture.until("all is gone", |c| c.memory_bytes == before);
}

/// The scheduling policy of each thread of this process with this name.
fn policies(name: &str) -> Vec<i32> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    let named = tasks.filter(|task| {
        std::fs::read_to_string(task.path().join("comm")).is_ok_and(|comm| comm.trim() == name)
    });
    let policy = |task: std::fs::DirEntry| {
        let tid: i32 = task.file_name().to_str().unwrap().parse().unwrap();
        // SAFETY: takes a number, touches no memory.
        unsafe { libc::sched_getscheduler(tid) }
    };
    named.map(policy).collect()
}

/// The control thread does no work that is part of a promise.
#[test]
fn control_thread_runs_below_every_real_time_thread() {
    let fixture = serve(&one_gpu("buckets: 2", "server: {priority: 40}"));
    if !fixture.server().is_realtime() {
        println!("SKIP: this process may have no real-time threads");
        return;
    }
    assert!(policies("kt-inbox").contains(&libc::SCHED_FIFO));
    let control = policies("kt-control");
    assert!(!control.is_empty() && control.iter().all(|p| *p == libc::SCHED_OTHER), "{control:?}");
}

#[test]
#[ignore = "run as a process of another user by the tests below"]
fn client_of_another_user() {
    let Some((socket, word)) = given() else { return };
    let period = Duration::from_millis(10);
    let registration = match word.as_str() {
        "declares" => Registration::service("busy")
            .chain("small", 0)
            .period(period)
            .exec(Duration::from_micros(1))
            .executor(0, 0),
        "declares a priority" => Registration::service("busy")
            .chain("small", 0)
            .period(period)
            .exec(Duration::from_micros(1))
            .executor(0, 90),
        "declares much" => Registration::service("busy")
            .chain("small", 0)
            .period(period)
            .exec(Duration::from_millis(3))
            .executor(0, 0),
        bytes => Registration::service("vecadd").memory(bytes.parse().unwrap()),
    };
    let mut client = Client::connect(socket).unwrap();
    match client.register(&registration) {
        Ok(_) => println!("said: registered"),
        Err(error) => println!("said: {error}"),
    }
    support::stay();
}

/// Clients of another user, and what the server said to them.
struct Strangers {
    program: std::path::PathBuf,
    children: Vec<Child>,
}

impl Strangers {
    fn new() -> Strangers {
        // The folder of the tests may be closed to other users. By another process: what this one
        // has open for writing is also open in processes that other tests have just forked, and
        // cannot be executed meanwhile.
        use std::sync::atomic::{AtomicU32, Ordering};
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("keeptime-test-neighbour-{}-{count}", std::process::id());
        let program = std::env::temp_dir().join(name);
        let own = std::env::current_exe().unwrap();
        assert!(Command::new("cp").args([&own, &program]).status().unwrap().success());
        Strangers { program, children: Vec::new() }
    }

    fn client(&mut self, fixture: &Fixture, uid: u32, word: &str) -> String {
        let mut child = command_of(&self.program, "client_of_another_user", fixture, word);
        let mut child = child.uid(uid).gid(uid).current_dir("/").spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.children.push(child);
        lines.find_map(|line| Some(line.unwrap().split_once("said: ")?.1.to_owned())).unwrap()
    }
}

impl Drop for Strangers {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        let _ = std::fs::remove_file(&self.program);
    }
}

#[test]
fn user_has_a_limit_of_its_own_below_that_of_all() {
    if !is_root() {
        println!("SKIP: only root can become another user");
        return;
    }
    let server = "server: {priority: 0, mode: \"0666\", limits: {total_memory: 4 MiB}, access: \
                  [{user: 0, priority: [0, 99]}, {user: 65533, priority: [0, 99]}]}";
    let fixture = serve(&one_gpu("buckets: 2", server));
    let mut strangers = Strangers::new();
    let said = strangers.client(&fixture, 65533, "2097152");
    assert_eq!(said, "registered");
    let said = strangers.client(&fixture, 65533, "1048576");
    assert!(said.contains("user 65533 has ") && said.contains("left of 3145728"), "{said}");
    Busy::with(&fixture, Registration::service("vecadd").memory(1 << 20));
    let seen = snapshot(&fixture).memory;
    let user = seen.users.iter().find(|user| user.uid == 65533).unwrap();
    assert_eq!((user.sessions, user.limit_bytes), (2, 3 << 20));
}

#[test]
fn small_declaration_of_another_user_keeps_no_critical_chain_out() {
    if !is_root() {
        println!("SKIP: only root can become another user");
        return;
    }
    let server = "server: {priority: 0, mode: \"0666\", access: [{user: 0, priority: [0, 99]}, \
                  {user: 65533, priority: [0, 10]}]}";
    let fixture = serve(&one_gpu("buckets: 2", server));
    let mut strangers = Strangers::new();
    assert_eq!(strangers.client(&fixture, 65533, "declares"), "registered");
    let standing = |name: &str| {
        let chains = snapshot(&fixture).chains;
        chains.into_iter().find(|chain| chain.name == name).unwrap().standing
    };
    assert_eq!(standing("small"), Some(Standing::Guaranteed));
    // One that declares nothing, and one that is promised something.
    drop(Busy::with(&fixture, Registration::service("busy").chain("any", 99)));
    fixture.until("it is gone again", |c| c.registrations == 1);
    let ms = Duration::from_millis;
    let brake = Registration::service("busy").chain("brake", 98);
    let _brake = Busy::with(&fixture, brake.period(ms(100)).exec(ms(40)).executor(1, 50));
    assert_eq!(standing("brake"), Some(Standing::Guaranteed));
    assert_eq!(standing("small"), Some(Standing::Unguaranteed));
    assert!(fixture.logged("chain \"small\" has lost its guarantee"));
}

#[test]
fn rule_says_who_may_declare_and_how_much() {
    if !is_root() {
        println!("SKIP: only root can become another user");
        return;
    }
    let server = "server: {priority: 0, mode: \"0666\", access: [\
                  {user: 65532, priority: [0, 10], declare: false}, \
                  {user: 65533, priority: [0, 10], declare: {gpu0: 25}}]}";
    let fixture = serve(&one_gpu("buckets: 2", server));
    let mut strangers = Strangers::new();
    let said = strangers.client(&fixture, 65532, "declares");
    assert!(said.contains("user 65532 may not declare any on this server"), "{said}");
    let said = strangers.client(&fixture, 65533, "declares much");
    assert!(said.contains("ask for 30.00 % of accelerator \"gpu0\""), "{said}");
    assert_eq!(strangers.client(&fixture, 65533, "declares"), "registered");
}

/// An executor that cannot be there would only be in the way of those that are.
#[test]
fn executor_that_the_kernel_would_not_allow_is_refused() {
    if !is_root() {
        println!("SKIP: only root can become another user");
        return;
    }
    let server = "server: {priority: 0, mode: \"0666\", access: [{user: 65533, priority: [0, 9]}]}";
    let fixture = serve(&one_gpu("buckets: 2", server));
    let mut strangers = Strangers::new();
    let said = strangers.client(&fixture, 65533, "declares a priority");
    assert!(said.contains("declares process priority 90: process "), "{said}");
}

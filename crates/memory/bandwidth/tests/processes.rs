//! The lock between real processes: deaths, sleeps, forks, other programs, other users.
#![cfg(not(loom))]

mod support;

use bandwidth::handshake::Refusal;
use bandwidth::holders::Config;
use bandwidth::{Error, Hold, Holders};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};
use support::regulator;
use testing::{PATIENCE, until};

const ROLE: &str = "BANDWIDTH_ROLE";
const SOCKET: &str = "BANDWIDTH_SOCKET";
const NOBODY: u32 = 65534;
const SOME_GROUP: u32 = 54321;

/// This test program, as another process in a role. It is killed when it is dropped.
struct Other {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

fn command(role: &str, socket: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "other_process", "--nocapture"]);
    command.env(ROLE, role).env(SOCKET, socket);
    command
}

impl Other {
    fn start(role: &str, socket: &Path) -> Other {
        Other::spawn(&mut command(role, socket))
    }

    fn spawn(command: &mut Command) -> Other {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Other { child, input, output }
    }

    /// Reads on until the other process says something that begins so, and returns the rest.
    fn hear(&mut self, begin: &str) -> String {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "it ended before {begin:?}");
            // The test harness writes too, and not always whole lines.
            if let Some(at) = line.find(begin) {
                return line[at + begin.len()..].trim().to_owned();
            }
        }
    }

    fn tell(&mut self) {
        self.input.write_all(b"\n").unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn kill(mut self) -> Instant {
        self.child.kill().unwrap();
        let killed = Instant::now();
        self.child.wait().unwrap();
        killed
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn say(text: &str) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "{text}").unwrap();
    output.flush().unwrap();
}

/// Waits for the test to go on; ends when the test has gone.
fn listen() {
    if std::io::stdin().lock().read(&mut [0]).unwrap() == 0 {
        std::process::exit(0);
    }
}

/// The other process.
#[test]
#[ignore = "run by the other tests"]
fn other_process() {
    let socket = std::env::var_os(SOCKET).unwrap();
    let socket = Path::new(&socket);
    match std::env::var(ROLE).unwrap().as_str() {
        "hold" => hold(socket),
        "churn" => churn(socket),
        "fork" => fork(socket),
        "execute" => execute(socket),
        "stranger" => stranger(socket),
        "regulate" => regulate(socket),
        role => panic!("no role {role}"),
    }
}

/// Attaches, takes the lock, releases it, each when it is told.
fn hold(socket: &Path) {
    let hold = Hold::attach(socket).unwrap();
    say("attached");
    listen();
    hold.acquire();
    say("held");
    listen();
    hold.release();
    say("released");
    listen();
}

/// Is the regulator, until it is killed.
fn regulate(socket: &Path) {
    let _holders = Holders::start(Config { socket: socket.into(), ..Config::default() }).unwrap();
    say("listening");
    listen();
}

/// Takes and releases the lock for ever, with 2 threads, more often nested than not.
fn churn(socket: &Path) {
    let hold = Hold::attach(socket).unwrap();
    say("attached");
    std::thread::scope(|scope| {
        for seed in 0..2 {
            let hold = &hold;
            scope.spawn(move || {
                let mut random = fastrand::Rng::with_seed(seed);
                loop {
                    let depth = random.u32(1..5);
                    (0..depth).for_each(|_| assert!(hold.acquire()));
                    (0..random.u32(0..2000)).for_each(|_| std::hint::spin_loop());
                    (0..depth).for_each(|_| assert!(hold.release()));
                }
            });
        }
    });
}

/// Forks while it holds the lock. The child says what it can do, and outlives its parent.
fn fork(socket: &Path) {
    let hold = Hold::attach(socket).unwrap();
    hold.acquire();
    // SAFETY: the child only does what needs no other thread: it was the harness' test thread.
    match unsafe { libc::fork() } {
        -1 => panic!("fork: {}", std::io::Error::last_os_error()),
        0 => {
            let does_nothing = !hold.is_attached() && !hold.acquire() && !hold.release();
            drop(hold);
            say(&format!("child {does_nothing}"));
            listen();
            let own = Hold::attach(socket).unwrap();
            own.acquire();
            say("child holds");
            listen();
            // SAFETY: ends the process and nothing else.
            unsafe { libc::_exit(0) };
        }
        _ => {
            listen();
            // SAFETY: as above.
            unsafe { libc::_exit(0) };
        }
    }
}

/// Executes another program while it holds the lock.
fn execute(socket: &Path) {
    let hold = Hold::attach(socket).unwrap();
    hold.acquire();
    say("held");
    listen();
    panic!("{}", command("hold", socket).exec());
}

/// Says whether it gets in.
fn stranger(socket: &Path) {
    match Hold::attach(socket) {
        Ok(_) => say("answer in"),
        Err(Error::Refused(Refusal::NotAllowed)) => say("answer not allowed"),
        Err(Error::NoRegulator { errno, .. }) => {
            say(&format!("answer error {}", errno.raw_os_error()))
        }
        Err(error) => say(&format!("answer {error}")),
    }
}

#[test]
fn holder_that_is_killed_while_holding_is_gone_at_once() {
    let (holders, socket) = regulator(|_| {});
    let mut longest = Duration::ZERO;
    for round in 1..=30 {
        let mut other = Other::start("hold", &socket);
        other.hear("attached");
        other.tell();
        other.hear("held");
        assert!(holders.is_held());
        let killed = other.kill();
        until("the dead holder to be gone", || !holders.is_held());
        longest = longest.max(killed.elapsed());
        let status = holders.status();
        assert_eq!((status.died, status.died_holding), (round, round));
    }
    println!("from the kill to the free lock at most {longest:?} in 30 deaths");
}

/// Two holders are killed again and again at random instants, while a third one, whose lock must
/// not be touched by that, takes it and lets it go.
#[test]
fn deaths_at_any_instant_cost_others_nothing() {
    let (holders, socket) = regulator(|config| config.holders = 4);
    let own = Hold::attach(&socket).unwrap();
    let mut random = fastrand::Rng::with_seed(1);
    let (mut rounds, mut in_use) = (0, 0);
    while rounds < 60 {
        let mut others = [(); 2].map(|()| Other::start("churn", &socket));
        others.iter_mut().for_each(|other| drop(other.hear("attached")));
        let instant = Instant::now() + Duration::from_nanos(random.u64(0..3_000_000));
        while Instant::now() < instant {
            own.acquire();
            assert!(holders.is_held());
            assert!(holders.wait_until_held(None));
            own.release();
        }
        others.into_iter().for_each(|other| _ = other.kill());
        rounds += 1;
        until("the dead holders to be gone", || holders.status().died == 2 * rounds);
        in_use = holders.status().died_holding;
        assert!(!holders.is_held(), "nobody holds any more");
        assert_eq!(holders.status().holders.len(), 1);
    }
    assert!(in_use > 0 && in_use < 2 * rounds, "{in_use} of {rounds} died holding: not random");
    println!("{in_use} of {} deaths were those of holders that held the lock", 2 * rounds);
}

#[test]
fn holder_that_sleeps_or_is_stopped_keeps_the_lock() {
    let (holders, socket) = regulator(|_| {});
    let mut other = Other::start("hold", &socket);
    other.hear("attached");
    other.tell();
    other.hear("held");
    kill_process(other.pid(), Signal::STOP).unwrap();
    until("it to be stopped", || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", other.child.id())).unwrap();
        stat.rsplit(')').next().unwrap().trim_start().starts_with('T')
    });
    assert!(holders.is_held());
    kill_process(other.pid(), Signal::CONT).unwrap();
    other.tell();
    other.hear("released");
    assert!(!holders.is_held());
    assert_eq!(holders.status().holders.len(), 1, "it is still a holder");
}

#[test]
fn forked_child_neither_holds_nor_releases_what_its_parent_holds() {
    let (holders, socket) = regulator(|_| {});
    let mut other = Other::start("fork", &socket);
    assert_eq!(other.hear("child "), "true");
    assert!(holders.is_held(), "the parent");
    assert_eq!(holders.status().holders[0].holds, 1);
    // The parent reads the same pipe and must not take the child's line.
    kill_process(other.pid(), Signal::KILL).unwrap();
    other.child.wait().unwrap();
    until("the lock to be free although the child lives", || !holders.is_held());
    other.tell();
    other.hear("child holds");
    assert!(holders.is_held(), "the child, by a hold of its own");
    other.tell();
    until("the child to be gone", || !holders.is_held());
}

#[test]
fn program_that_executes_another_loses_what_it_held_when_that_one_attaches() {
    let (holders, socket) = regulator(|_| {});
    let mut other = Other::start("execute", &socket);
    other.hear("held");
    assert!(holders.is_held());
    other.tell();
    other.hear("attached");
    assert!(!holders.is_held());
    assert_eq!(holders.status().holders.len(), 1);
    other.tell();
    other.hear("held");
    assert!(holders.is_held());
}

#[test]
fn only_those_who_may_get_in() {
    if !rustix::process::geteuid().is_root() {
        println!("SKIP: only root can be another user");
        return;
    }
    let answer = |socket: &Path, uid: u32, gid: u32, groups: Vec<u32>| {
        let mut command = command("stranger", socket);
        let become_other = move || {
            // SAFETY: the list has as many groups; the others take numbers.
            let results = unsafe {
                [
                    libc::setgroups(groups.len(), groups.as_ptr()),
                    libc::setgid(gid),
                    libc::setuid(uid),
                ]
            };
            match results {
                [0, 0, 0] => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        };
        // SAFETY: three system calls, between fork and exec.
        unsafe { command.pre_exec(become_other) };
        Other::spawn(&mut command).hear("answer ")
    };
    let (holders, socket) = regulator(|_| {});
    assert_eq!(answer(&socket, NOBODY, NOBODY, vec![]), "error 13", "EACCES");
    assert_eq!(answer(&socket, 0, 0, vec![]), "in");
    // The regulator refuses users even if the socket lets everybody in.
    let (open, socket) = regulator(|config| {
        config.mode = 0o666;
        config.groups = vec![SOME_GROUP];
    });
    assert_eq!(answer(&socket, NOBODY, NOBODY, vec![]), "not allowed");
    assert_eq!(answer(&socket, NOBODY, NOBODY, vec![1, 2, 3]), "not allowed");
    assert_eq!(open.status().refused, 2);
    assert_eq!(answer(&socket, NOBODY, NOBODY, vec![1, SOME_GROUP]), "in");
    assert_eq!(answer(&socket, NOBODY, SOME_GROUP, vec![]), "in");
    assert_eq!(holders.status().refused, 0);
}

/// Returns true if a connection has hung up, now or within the patience of a test.
fn hangs_up(connection: &OwnedFd, patience: Duration) -> bool {
    let timeout = Timespec { tv_sec: patience.as_secs() as i64, tv_nsec: 0 };
    let mut fds = [PollFd::new(connection, PollFlags::IN)];
    poll(&mut fds, Some(&timeout)).unwrap();
    fds[0].revents().contains(PollFlags::HUP)
}

#[test]
fn connection_hangs_up_when_the_regulator_is_killed() {
    let socket = tempfile::tempdir().unwrap().keep().join("bandwidth.sock");
    let mut other = Other::start("regulate", &socket);
    other.hear("listening");
    let (hold, connection) = Hold::attach_connected(&socket).unwrap();
    assert!(hold.acquire());
    assert!(!hangs_up(&connection, Duration::ZERO));
    other.kill();
    assert!(hangs_up(&connection, PATIENCE));
    assert!(hold.release() && hold.acquire(), "it goes on, read by nobody");
    std::fs::remove_dir_all(socket.parent().unwrap()).unwrap();
}

#[test]
fn connection_hangs_up_when_the_regulator_ends_or_lets_go_of_the_holder() {
    let (holders, socket) = regulator(|_| {});
    let (first, connection) = Hold::attach_connected(&socket).unwrap();
    let (_second, other) = Hold::attach_connected(&socket).unwrap();
    drop(first);
    // It collects what was closed when somebody looks.
    assert_eq!(holders.status().holders.len(), 1);
    assert!(hangs_up(&connection, PATIENCE));
    assert!(!hangs_up(&other, Duration::ZERO));
    drop(holders);
    assert!(hangs_up(&other, PATIENCE));
}

#[test]
fn process_of_a_namespace_that_cannot_be_seen_is_refused_in_words() {
    let (_holders, socket) = regulator(|_| {});
    let inner = socket.with_extension("inner");
    let namespace = ["--pid", "--fork", "--kill-child"];
    let mut unshare = Command::new("unshare");
    if !matches!(unshare.args(namespace).arg("true").status(), Ok(status) if status.success()) {
        println!("SKIP: no process-id namespace can be made");
        return;
    }
    let regulate = command("regulate", &inner);
    let mut unshare = Command::new("unshare");
    unshare.args(namespace).arg(regulate.get_program()).args(regulate.get_args());
    unshare.envs(regulate.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut other = Other::spawn(&mut unshare);
    other.hear("listening");
    let refused = Hold::attach(&inner).unwrap_err();
    assert!(matches!(refused, Error::Refused(Refusal::Unseen)), "{refused}");
    assert!(
        refused.to_string().ends_with("the regulator cannot see this process-id namespace"),
        "{refused}"
    );
    // The other way round the process has a number.
    Hold::attach(&socket).unwrap();
}

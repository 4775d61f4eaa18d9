//! A server on a socket of its own, and clients that are processes of their own.
#![allow(dead_code)]

pub(crate) mod raw;

use accel::{CallbackId, Client, Registration, Request, RequestOutcome, Ticket};
use accel_server::{GpuHost, Options, Server};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use system::System;
pub(crate) use testing::PATIENCE;

pub(crate) struct Fixture {
    pub server: Option<Server>,
    pub socket: PathBuf,
    pub log: Arc<Mutex<Vec<String>>>,
    system: System,
}

/// A server of this system file.
pub(crate) fn serve(yaml: &str) -> Fixture {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("keeptime-test-{}-{count}.sock", std::process::id());
    let system = System::parse(yaml, "test.yaml").unwrap();
    let socket = std::env::temp_dir().join(name);
    let mut fixture = Fixture { server: None, socket, log: Arc::default(), system };
    fixture.start();
    fixture
}

/// One accelerator with these further keys, served at normal priority.
pub(crate) fn one_gpu(keys: &str, rest: &str) -> String {
    // The first server section wins nothing: a test gives its own or none.
    let server = if rest.contains("server:") { "" } else { "server: {priority: 0}\n" };
    format!("accelerators: [{{id: gpu0, {keys}}}]\n{server}{rest}")
}

/// This program as the process that has a GPU: see the test of that name.
fn gpu_host() -> GpuHost {
    let arguments = ["--ignored", "--exact", "gpu_host", "--nocapture"].map(String::from);
    GpuHost { path: std::env::current_exe().unwrap(), arguments: arguments.into() }
}

impl Fixture {
    pub(crate) fn start(&mut self) {
        let log = self.log.clone();
        let options = Options {
            socket: Some(self.socket.clone()),
            log: Arc::new(move |_, line| log.lock().unwrap().push(line.into())),
            gpu_host: Some(gpu_host()),
            ..Options::default()
        };
        self.server = Some(Server::start(&self.system, options).unwrap());
    }

    pub(crate) fn stop(&mut self) {
        self.server.take().unwrap().stop();
    }

    pub(crate) fn server(&self) -> &Server {
        self.server.as_ref().unwrap()
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(&self.socket).unwrap()
    }

    /// Waits until the server's counters are as they should become.
    pub(crate) fn until(&self, what: &str, condition: impl Fn(&accel::control::Counters) -> bool) {
        testing::until_ok(what, || {
            let counters = self.server().counters();
            if condition(&counters) { Ok(()) } else { Err(counters) }
        });
    }

    /// Waits until the device has finished its first block.
    pub(crate) fn until_begun(&self) {
        let device = &self.server().devices()[0].1;
        testing::until("the device begins", || device.statistics().blocks > 0);
    }

    pub(crate) fn until_logged(&self, text: &str) {
        testing::until_ok(text, || {
            if self.logged(text) { Ok(()) } else { Err(self.log.lock().unwrap().clone()) }
        });
    }

    pub(crate) fn logged(&self, text: &str) -> bool {
        self.log.lock().unwrap().iter().any(|line| line.contains(text))
    }
}

/// A client with one registration of the busy service, in a chain of this priority.
pub(crate) struct Busy {
    pub client: Client,
    pub callback: CallbackId,
}

impl Busy {
    pub(crate) fn new(fixture: &Fixture, chain: &str, priority: u32) -> Busy {
        Busy::with(fixture, Registration::service("busy").chain(chain, priority))
    }

    pub(crate) fn with(fixture: &Fixture, registration: Registration) -> Busy {
        let mut client = fixture.client();
        let callback = client.register(&registration).unwrap();
        Busy { client, callback }
    }

    pub(crate) fn submit(&mut self, ms: u64) -> Ticket {
        self.client.submit(self.callback, &work(ms)).unwrap()
    }

    pub(crate) fn run(&mut self, ms: u64) -> RequestOutcome {
        let mut ticket = self.submit(ms);
        self.wait(&mut ticket).ok().unwrap()
    }

    pub(crate) fn wait(&mut self, ticket: &mut Ticket) -> RequestOutcome {
        self.client.wait(ticket, Some(PATIENCE)).unwrap()
    }
}

/// A request of the busy kernel.
pub(crate) fn work(ms: u64) -> Request {
    Request::new().arguments(&[ms * 1_000_000])
}

/// Runs one ignored test of this binary as a process of its own, with the socket and one word.
pub(crate) fn spawn(test: &str, fixture: &Fixture, word: &str) -> Child {
    command_of(&std::env::current_exe().unwrap(), test, fixture, word).spawn().unwrap()
}

/// The same with a copy of this binary.
pub(crate) fn command_of(program: &Path, test: &str, fixture: &Fixture, word: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(["--ignored", "--exact", "--nocapture", test])
        .env("KEEPTIME_TEST_SOCKET", &fixture.socket)
        .env("KEEPTIME_TEST_WORD", word)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

/// For such a process: stays until it is killed, or the test has gone.
pub(crate) fn stay() {
    let _ = std::io::stdin().read(&mut [0]);
}

/// Returns the socket and the word that `spawn` gave to this process; None if it did not start it.
pub(crate) fn given() -> Option<(PathBuf, String)> {
    let socket = std::env::var_os("KEEPTIME_TEST_SOCKET")?;
    Some((socket.into(), std::env::var("KEEPTIME_TEST_WORD").ok()?))
}

/// Sends a signal to a child.
pub(crate) fn signal(child: &Child, signal: i32) {
    // SAFETY: the child has not been waited for, so its number is still its own.
    assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
}

//! The door of a service, with a neighbour who knocks as fast as it can: others come in.
#![cfg(not(loom))]

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use shm::door::{Acceptor, Closed, Limits, Openers, ServiceSocket, Turned};
use shm::peer::Credentials;
use shm::socket::{Received, Socket};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);
const NEIGHBOUR: u32 = 65533;

/// A folder that every user may look into, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("keeptime-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        Folder(path)
    }

    fn socket(&self) -> PathBuf {
        self.0.join("door.sock")
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A service that greets whoever comes in, and counts whom it turned away.
struct Service {
    stop: Arc<AtomicBool>,
    paced: Arc<AtomicU64>,
    crowded: Arc<AtomicU64>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Service {
    fn start(socket: &Path, limits: Limits) -> Service {
        let door = ServiceSocket::open(socket, Openers::mode(0o666)).unwrap();
        let (paced, crowded) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counted = [paced.clone(), crowded.clone()];
        let refuse = move |socket: &Socket, turned: Turned| {
            let _ = socket.send(b"no", &[]);
            counted[usize::from(!matches!(turned, Turned::Pace { .. }))]
                .fetch_add(1, Ordering::Relaxed);
        };
        let acceptor = Acceptor::start(door, limits, || {}, refuse).unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut inside = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                match acceptor.next() {
                    Ok(Some(guest)) => {
                        let _ = guest.socket.send(b"hello", &[]);
                        inside.push(guest);
                    }
                    Ok(None) => std::thread::yield_now(),
                    Err(errno) => panic!("{errno}"),
                }
                // Whoever has said something has been heard, and whoever has gone is gone.
                inside.retain(|guest| {
                    matches!(guest.socket.receive(&mut [0; 8]), Ok(Received::Nothing))
                });
            }
        });
        Service { stop, paced, crowded, thread: Some(thread) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

/// Returns the first packet of the service; empty if it closes without one.
fn greeting(socket: &Socket) -> Vec<u8> {
    let mut buffer = [0; 8];
    loop {
        match socket.receive(&mut buffer).unwrap() {
            Received::Packet(length, _) => return buffer[..length].to_vec(),
            Received::Nothing => drop(socket.wait_readable(1000).unwrap()),
            Received::Closed => return Vec::new(),
        }
    }
}

/// Runs one ignored test of this binary as another user, who may not see the folder it is in.
struct Neighbour {
    child: Child,
    _program: Folder,
}

/// A copy of this program that other users may run.
fn copy_of_this(name: &str) -> (Folder, PathBuf) {
    let folder = Folder::new(name);
    let program = folder.0.join("program");
    let own = std::env::current_exe().unwrap();
    // By another process, so that no descriptor for writing is left open here.
    assert!(Command::new("cp").args([&own, &program]).status().unwrap().success());
    (folder, program)
}

impl Neighbour {
    fn start(test: &str, socket: &Path) -> Neighbour {
        let (folder, program) = copy_of_this(&format!("neighbour-{test}"));
        let mut command = Command::new(&program);
        command.args(["--ignored", "--exact", "--nocapture", test]).current_dir("/");
        command.env("DOOR", socket).stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.uid(NEIGHBOUR).gid(NEIGHBOUR).spawn().unwrap();
        Neighbour { child, _program: folder }
    }

    /// Waits until it says this word.
    fn until(&mut self, word: &str) {
        let (mut said, mut byte) = (String::new(), [0]);
        while !said.contains(word) {
            self.child.stdout.as_mut().unwrap().read_exact(&mut byte).expect(word);
            said.push(byte[0].into());
        }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        eprintln!("SKIP: only root can become another user");
    }
    root
}

#[test]
fn others_come_in_while_a_user_knocks_in_a_loop() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("door-knock");
    let service = Service::start(&folder.socket(), Limits::paced(10_000));
    let mut neighbour = Neighbour::start("knocker", &folder.socket());
    neighbour.until("knocking");
    let before = service.paced.load(Ordering::Relaxed);
    for _ in 0..100 {
        let socket = Socket::connect(&folder.socket(), PATIENCE).expect("a place in the queue");
        assert_eq!(greeting(&socket), b"hello");
        socket.send(b"thanks", &[]).unwrap();
    }
    testing::until("the knocker is paced", || service.paced.load(Ordering::Relaxed) > before);
}

#[test]
#[ignore = "run by others_come_in_while_a_user_knocks_in_a_loop"]
fn knocker() {
    let Some(door) = std::env::var_os("DOOR") else { return };
    let address = SocketAddrUnix::new(Path::new(&door)).unwrap();
    let knock = || {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::NONBLOCK);
        let socket = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::connect(&socket, &address)
    };
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| while !matches!(knock(), Err(Errno::NOENT | Errno::CONNREFUSED)) {});
        }
        (0..50_000).for_each(|_| {
            let _ = knock();
        });
        println!("knocking");
    });
}

#[test]
fn silent_connections_of_a_user_take_no_place_of_others() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("door-silent");
    let limits = Limits { unfinished_per_user: 8, ..Limits::paced(1_000_000) };
    let service = Service::start(&folder.socket(), limits);
    let mut neighbour = Neighbour::start("silent", &folder.socket());
    neighbour.until("refused after 8");
    assert!(service.crowded.load(Ordering::Relaxed) > 0);
    let socket = Socket::connect(&folder.socket(), PATIENCE).unwrap();
    assert_eq!(greeting(&socket), b"hello");
}

#[test]
#[ignore = "run by silent_connections_of_a_user_take_no_place_of_others"]
fn silent() {
    let Some(door) = std::env::var_os("DOOR") else { return };
    let mut kept = Vec::new();
    loop {
        let socket = Socket::connect(Path::new(&door), PATIENCE).unwrap();
        if greeting(&socket) != b"hello" {
            break;
        }
        kept.push(socket);
    }
    println!("refused after {}", kept.len());
    // Until the test has seen enough.
    std::thread::park();
}

#[test]
fn connecting_waits_for_a_place_and_gives_up_in_time() {
    let folder = Folder::new("door-queue");
    let path = folder.socket();
    let kind = SocketType::SEQPACKET;
    let listener = rustix::net::socket(AddressFamily::UNIX, kind, None).unwrap();
    rustix::net::bind(&listener, &SocketAddrUnix::new(&path).unwrap()).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let first = Socket::connect(&path, PATIENCE).unwrap();
    assert_eq!(Socket::connect(&path, Duration::ZERO).unwrap_err(), Errno::AGAIN);
    assert_eq!(Socket::connect(&path, Duration::from_millis(20)).unwrap_err(), Errno::AGAIN);
    std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let path = &path;
        let second = scope.spawn(move || {
            tell.send(rustix::thread::gettid()).unwrap();
            Socket::connect(path, PATIENCE)
        });
        let thread = told.recv().unwrap().as_raw_nonzero().get() as u32;
        // None: it has given up and gone.
        testing::until("it sleeps in the connect", || testing::sleeps(thread) != Some(false));
        rustix::net::accept(&listener).unwrap();
        let second = second.join().unwrap().expect("the place that became free");
        rustix::net::accept(&listener).unwrap();
        assert_eq!(
            Credentials::of(rustix::fd::AsFd::as_fd(&second)).unwrap().uid,
            rustix::process::geteuid().as_raw()
        );
        assert!(matches!(second.receive(&mut [0]), Ok(Received::Closed)), "it never blocks");
    });
    drop(first);
}

#[test]
fn of_many_that_open_a_door_at_once_one_does() {
    let folder = Folder::new("door-race");
    let path = folder.socket();
    for _ in 0..20 {
        let start = std::sync::Barrier::new(8);
        let doors: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                start.wait();
                ServiceSocket::open(&path, Openers::mode(0o600))
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        let opened: Vec<_> = doors.iter().filter(|door| door.is_ok()).collect();
        assert_eq!(opened.len(), 1, "{doors:?}");
        for closed in doors.iter().filter_map(|door| door.as_ref().err()) {
            assert!(matches!(closed, Closed::InUse { .. }), "{closed:?}");
        }
        Socket::connect(&path, PATIENCE).expect("whoever opened it listens");
        drop(doors);
        assert_eq!(folder.names(), Vec::<String>::new(), "nothing is left behind");
    }
}

#[test]
fn only_a_socket_at_which_nobody_listens_is_replaced() {
    let folder = Folder::new("door-replace");
    let path = folder.socket();
    std::fs::write(&path, "notes of three years").unwrap();
    assert_eq!(ServiceSocket::open(&path, Openers::mode(0o600)).unwrap_err(), Closed::NoSocket);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "notes of three years");
    std::fs::remove_file(&path).unwrap();
    symlink(folder.0.join("elsewhere"), &path).unwrap();
    assert_eq!(ServiceSocket::open(&path, Openers::mode(0o600)).unwrap_err(), Closed::NoSocket);
    std::fs::remove_file(&path).unwrap();

    // A program of another kind, which knows of no lock file.
    let stranger = UnixListener::bind(&path).unwrap();
    assert_eq!(
        ServiceSocket::open(&path, Openers::mode(0o600)).unwrap_err(),
        Closed::InUse { process: None }
    );
    drop(stranger);
    let door = ServiceSocket::open(&path, Openers::mode(0o640)).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    let process = Some(std::process::id());
    assert_eq!(
        ServiceSocket::open(&path, Openers::mode(0o640)).unwrap_err(),
        Closed::InUse { process }
    );

    // Somebody has put another one there: it is not ours to remove.
    std::fs::remove_file(&path).unwrap();
    let _other = UnixListener::bind(&path).unwrap();
    drop(door);
    assert_eq!(folder.names(), ["door.sock"]);
    let long = folder.0.join("x".repeat(200));
    let closed = ServiceSocket::open(&long, Openers::mode(0o640)).unwrap_err();
    assert!(matches!(closed, Closed::Call { call: "bind", .. }), "{closed:?}");
}

#[test]
fn lock_file_that_is_none_is_neither_followed_nor_believed() {
    let folder = Folder::new("door-lock");
    let (path, lock) = (folder.socket(), folder.0.join("door.sock.lock"));
    let precious = folder.0.join("precious");
    std::fs::write(&precious, "not to be cut").unwrap();
    symlink(&precious, &lock).unwrap();
    let closed = ServiceSocket::open(&path, Openers::mode(0o600)).unwrap_err();
    assert!(matches!(closed, Closed::Call { errno: Errno::LOOP, .. }), "{closed:?}");
    std::fs::remove_file(&lock).unwrap();
    std::fs::hard_link(&precious, &lock).unwrap();
    let closed = ServiceSocket::open(&path, Openers::mode(0o600)).unwrap_err();
    assert!(matches!(closed, Closed::Lock { .. }), "{closed:?}");
    assert_eq!(std::fs::read_to_string(&precious).unwrap(), "not to be cut");
}

/// Returns true if a program of this user with these groups can open the socket.
fn opens(program: &Path, socket: &Path, uid: u32, groups: &str) -> bool {
    let mut setpriv = Command::new("setpriv");
    setpriv.args([format!("--reuid={uid}"), "--regid=65534".into(), format!("--groups={groups}")]);
    setpriv.arg(program).args(["--ignored", "--exact", "--nocapture", "opener"]);
    let output = setpriv.env("DOOR", socket).current_dir("/").output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    assert!(said.contains("opened") || said.contains("closed"), "{said}");
    said.contains("opened")
}

#[test]
#[ignore = "run by socket_opens_for_those_who_are_named_and_nobody_else"]
fn opener() {
    let Some(door) = std::env::var_os("DOOR") else { return };
    match Socket::connect(Path::new(&door), Duration::ZERO) {
        Ok(_) => println!("opened"),
        Err(Errno::ACCESS) => println!("closed"),
        Err(errno) => panic!("{errno}"),
    }
}

#[test]
fn socket_opens_for_those_who_are_named_and_nobody_else() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("door-openers");
    let path = folder.0.join("made").join("door.sock");
    let (_copy, program) = copy_of_this("opener");
    let (users, groups) = (vec![0, 61001, 61002], vec![62001, 62002]);
    let several = Openers { users, groups, ..Openers::mode(0o660) };
    let door = ServiceSocket::open(&path, several).unwrap();
    assert_eq!(door.blocked_by(), None);
    for (uid, of, expected) in [
        (61001, "65534", true),
        (61002, "65534", true),
        (61003, "62001", true),
        (61003, "65534,62002", true),
        (61003, "65534,62003", false),
        (62001, "61001", false),
    ] {
        assert_eq!(opens(&program, &path, uid, of), expected, "user {uid} of groups {of}");
    }
    drop(door);

    // One group needs no access list.
    let one = Openers { groups: vec![62001], ..Openers::mode(0o600) };
    let door = ServiceSocket::open(&path, one).unwrap();
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!((found.gid(), found.mode() & 0o777), (62001, 0o660));
    assert!(opens(&program, &path, 61003, "62001") && !opens(&program, &path, 61003, "65534"));
    let closed = path.parent().unwrap();
    std::fs::set_permissions(closed, PermissionsExt::from_mode(0o700)).unwrap();
    assert_eq!(door.blocked_by(), Some((closed.to_path_buf(), 0o700)));
}

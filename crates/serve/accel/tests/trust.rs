//! Trust of a client in the user of its server, and in its environment.

use accel::{Client, Error, ServerUser, default_socket};
use shm::door::{Acceptor, Limits, Openers, ServiceSocket};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const STRANGER: u32 = 65533;

/// A folder that every user may write to, removed at the end, with a copy of this program.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("keeptime-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o777)).unwrap();
        let own = std::env::current_exe().unwrap();
        // By another process, so that no descriptor for writing is left open here.
        let copied = Command::new("cp").args([&own, &path.join("program")]).status();
        assert!(copied.unwrap().success());
        Folder(path)
    }

    fn program(&self) -> PathBuf {
        self.0.join("program")
    }

    /// The copy, which runs one ignored test as a stranger.
    fn stranger(&self, test: &str) -> Command {
        let mut command = Command::new(self.program());
        command.args(["--ignored", "--exact", "--nocapture", test]).current_dir("/");
        command.uid(STRANGER).gid(STRANGER).stdin(Stdio::null()).stdout(Stdio::piped());
        command
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
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
fn set_user_id_program_believes_nothing_of_its_environment() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("secure");
    let evil = folder.0.join("keeptime/keeptime.sock");
    std::fs::create_dir_all(evil.parent().unwrap()).unwrap();
    std::fs::write(&evil, "").unwrap();
    for (mode, variable, value, expected) in [
        (0o755, "KEEPTIME_SOCKET", "/evil", Path::new("/evil")),
        (0o755, "XDG_RUNTIME_DIR", folder.0.to_str().unwrap(), &evil),
        (0o4755, "KEEPTIME_SOCKET", "/evil", Path::new("/run/keeptime/keeptime.sock")),
        (
            0o4755,
            "XDG_RUNTIME_DIR",
            folder.0.to_str().unwrap(),
            Path::new("/run/keeptime/keeptime.sock"),
        ),
    ] {
        chown(folder.program(), Some(0), Some(0)).unwrap();
        std::fs::set_permissions(folder.program(), PermissionsExt::from_mode(mode)).unwrap();
        let mut program = folder.stranger("socket_that_is_looked_for");
        program.env_remove("KEEPTIME_SOCKET").env_remove("XDG_RUNTIME_DIR").env(variable, value);
        let output = program.env("RUN", "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = format!("looks at {}", expected.display());
        assert!(said.lines().any(|said| said == line), "{mode:o} {variable}: {said}");
    }
}

#[test]
#[ignore = "run by set_user_id_program_believes_nothing_of_its_environment"]
fn socket_that_is_looked_for() {
    if std::env::var_os("RUN").is_some() {
        println!("\nlooks at {}", default_socket().display());
    }
}

#[test]
fn server_of_another_user_is_refused_unless_that_user_is_named() {
    if !is_root() {
        return;
    }
    let folder = Folder::new("stranger");
    let socket = folder.0.join("server.sock");
    let mut server = folder.stranger("server_of_a_stranger").env("DOOR", &socket).spawn().unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    lines.find(|line| line.as_ref().unwrap().contains("listening")).unwrap().unwrap();
    let refused = Client::connect(&socket).err().expect("a refusal");
    assert!(matches!(refused, Error::Stranger { uid: STRANGER, .. }), "{refused}");
    let text = refused.to_string();
    assert!(text.contains("server of user 65533, expected a server of root"), "{text}");
    let other = Client::connect_to(&socket, ServerUser::RootOr(STRANGER - 1)).err().unwrap();
    assert!(matches!(other, Error::Stranger { .. }), "{other}");
    // It is asked, and goes away without an answer.
    let named = Client::connect_to(&socket, ServerUser::RootOr(STRANGER)).err().unwrap();
    assert!(matches!(named, Error::ServerLost { .. }), "{named}");
    server.kill().unwrap();
    server.wait().unwrap();
}

#[test]
#[ignore = "run by server_of_another_user_is_refused_unless_that_user_is_named"]
fn server_of_a_stranger() {
    let Some(path) = std::env::var_os("DOOR") else { return };
    let door = ServiceSocket::open(Path::new(&path), Openers::mode(0o666)).unwrap();
    let acceptor = Acceptor::start(door, Limits::paced(1000), || {}, |_, _| {}).unwrap();
    println!("\nlistening");
    loop {
        drop(acceptor.next().unwrap());
        std::thread::yield_now();
    }
}

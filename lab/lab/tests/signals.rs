//! A signal ends `keeptime-lab`, whatever the programs do that it has started.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use testing::page::repository;
use testing::until;

/// Stands for `keeptime serve`: listens at the socket that the command names, tells by a file that
/// a client has come, and does nothing more.
const SILENT_SERVER: &str = r#"
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int count, char **words) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    for (int i = 1; i + 1 < count; i++)
        if (!strcmp(words[i], "--socket"))
            strncpy(address.sun_path, words[i + 1], sizeof address.sun_path - 1);
    int server = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    if (bind(server, (struct sockaddr *)&address, sizeof address) || listen(server, 8)) return 1;
    struct pollfd client = {.fd = server, .events = POLLIN};
    poll(&client, 1, -1);
    if (open("begun", O_CREAT | O_WRONLY, 0600) < 0) return 1;
    for (;;) pause();
}
"#;

/// Stands for a compiler that takes for ever.
const SLOW_COMPILER: &str = "#!/bin/sh\n: >begun\nexec sleep 100000\n";

/// A folder on the file system of the programs.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// Sends SIGINT to a command once one of its programs has begun, and waits for the end of it.
fn interrupted(mut command: Command, folder: &Path) -> Output {
    command.current_dir(folder).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("keeptime-lab starts");
    until("its program begins", || {
        assert_eq!(child.try_wait().unwrap(), None, "the command ended by itself");
        folder.join("begun").exists()
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    child.wait_with_output().unwrap()
}

#[track_caller]
fn check(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert_eq!(said.lines().last(), Some("keeptime-lab: interrupted by SIGINT"));
}

#[test]
fn command_ends_also_while_its_server_does_not_answer() {
    let example = repository().join("examples/paam-case-study-1.yaml");
    let chains = ["chains", example.to_str().unwrap()];
    for arguments in [&["bench", "requests"], &["bench", "attacks"], &["bench", "kills"], &chains] {
        let folder = folder();
        let source = folder.path().join("server.c");
        std::fs::write(&source, SILENT_SERVER).unwrap();
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(folder.path().join("keeptime")).arg(&source);
        assert!(compiler.status().expect("a C compiler").success());
        let program = folder.path().join("keeptime-lab");
        std::fs::hard_link(env!("CARGO_BIN_EXE_keeptime-lab"), &program).unwrap();
        let mut command = Command::new(program);
        command.args(arguments);
        check(&interrupted(command, folder.path()));
    }
}

#[test]
fn command_ends_also_while_its_program_is_compiled() {
    use std::os::unix::fs::PermissionsExt;
    let folder = folder();
    let compiler = folder.path().join("cc");
    std::fs::write(&compiler, SLOW_COMPILER).unwrap();
    std::fs::set_permissions(&compiler, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime-lab"));
    command.args(["bench", "locks", "--trace", "--quick"]).env("CC", &compiler);
    check(&interrupted(command, folder.path()));
}

//! Programs of other kinds than this one: `keeptime run` must not keep them from running, and must
//! not let them say anything that they do not say without it.

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use support::Folder;

const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

int main(void) {
    char *memory = malloc(100);
    for (int i = 0; i < 1000; i++) {
        pthread_mutex_lock(&mutex);
        memory[i % 100]++;
        pthread_mutex_unlock(&mutex);
    }
    puts("ran");
    free(memory);
    return 3;
}
"#;

/// Compiles the program; `None` where there is no such compiler.
fn compile(folder: &Folder, compiler: &str, options: &[&str]) -> Option<PathBuf> {
    let (file, program) = (folder.0.join("foreign.c"), folder.0.join("foreign"));
    fs::write(&file, PROGRAM).unwrap();
    let mut command = Command::new(compiler);
    command.args(options).arg("-pthread").arg("-o").arg(&program).arg(&file);
    match command.output() {
        Ok(output) if output.status.success() => Some(program),
        _ => {
            eprintln!("SKIP: {compiler} {options:?} compiles nothing here");
            None
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the program's lines on standard error, and keeptime's.
fn sorted(output: &Output) -> (String, String) {
    let own = |line: &&str| line.starts_with("keeptime run:");
    let stderr = text(&output.stderr);
    let (own, others): (Vec<&str>, Vec<&str>) = stderr.lines().partition(own);
    (others.join("\n"), own.join("\n"))
}

/// Runs a program by itself and as a child, as it is and recorded: the same came of it. Returns
/// what keeptime said of the program by itself, and how many processes it recorded.
fn compare(folder: &Folder, command: &[&str], libraries: &Path) -> (String, usize) {
    let with = |mut recorded: Command, command: &[&str]| {
        recorded.args(command).env("LD_LIBRARY_PATH", libraries).output().unwrap()
    };
    let mut said = None;
    let script = "\"$@\"; exit $?";
    let child: Vec<&str> = ["sh", "-c", script, "sh"].iter().chain(command).copied().collect();
    for (kind, command) in [("itself", command), ("a child", &child)] {
        let bare = with(Command::new("env"), command);
        let options = ["--all-locks", "--tier", "preload"];
        let recorded = with(folder.keeptime(&options), command);
        let (others, own) = sorted(&recorded);
        assert_eq!(others, text(&bare.stderr).trim_end(), "{kind}: {command:?}");
        assert_eq!(text(&recorded.stdout), text(&bare.stdout), "{kind}: {command:?}");
        assert_eq!(recorded.status, bare.status, "{kind}: {command:?}");
        said.get_or_insert((own, folder.open().metadata().processes.len()));
    }
    said.unwrap()
}

/// Folder of clang's runtime libraries.
fn runtimes() -> PathBuf {
    let output = Command::new("clang").arg("-print-runtime-dir").output();
    let folder = output.map(|output| text(&output.stdout).trim().to_owned()).unwrap_or_default();
    // Debian's clang names another folder than it uses.
    let other = Command::new("clang").arg("-print-file-name=libclang_rt.asan-x86_64.so").output();
    let file = other.map(|output| text(&output.stdout).trim().to_owned()).unwrap_or_default();
    match Path::new(&file).parent().filter(|found| found.is_absolute()) {
        Some(found) => found.to_owned(),
        None => folder.into(),
    }
}

#[test]
fn programs_that_cannot_load_the_library_run_and_the_reason_is_told_once() {
    for (compiler, options, reason) in [
        ("musl-gcc", &[][..], "is linked with musl"),
        ("musl-gcc", &["-static"], "is linked statically"),
        ("gcc", &["-m32"], "is a 32-bit program"),
        ("gcc", &["-static"], "is linked statically"),
    ] {
        let folder = Folder::new();
        let Some(program) = compile(&folder, compiler, options) else { continue };
        let (said, processes) = compare(&folder, &[program.to_str().unwrap()], Path::new(""));
        assert_eq!(processes, 0, "{said}");
        assert_eq!(folder.open().metadata().processes.len(), 1, "its shell");
        assert!(said.contains("did not load the library"), "{said}");
        assert_eq!(said.matches(reason).count(), 1, "{said}");
        folder.run(&["--tier", "preload"], &[program.to_str().unwrap()]);
        let trace = folder.open();
        let notes = &trace.metadata().troubles;
        assert!(notes.iter().any(|note| note.trouble.contains(reason)), "{notes:?}");
    }
}

#[test]
fn programs_with_sanitizers_are_recorded() {
    for (compiler, options) in [
        ("gcc", &["-fsanitize=address"][..]),
        ("gcc", &["-fsanitize=thread"]),
        ("gcc", &["-fsanitize=undefined"]),
        ("clang", &["-fsanitize=address"]),
        ("clang", &["-fsanitize=address", "-shared-libasan"]),
    ] {
        let folder = Folder::new();
        let Some(program) = compile(&folder, compiler, options) else { continue };
        let (said, processes) = compare(&folder, &[program.to_str().unwrap()], &runtimes());
        assert_eq!(processes, 1, "{compiler} {options:?}: {said}");
        assert!(folder.open().records() > 2000, "{compiler} {options:?}: {said}");
    }
}

#[test]
fn scripts_have_the_reason_of_their_interpreter() {
    let folder = Folder::new();
    let Some(program) = compile(&folder, "gcc", &["-static"]) else { return };
    let script = folder.0.join("script");
    fs::write(&script, format!("#! {} -x\n", program.display())).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let (said, _) = compare(&folder, &[script.to_str().unwrap()], Path::new(""));
    assert!(said.contains(&format!("{} is linked statically", program.display())), "{said}");
}

#[test]
fn limited_address_space_is_the_reason_that_is_told() {
    let folder = Folder::new();
    let keeptime = folder.keeptime(&["--tier", "preload", "--memory", "64MiB"]);
    let mut shell = Command::new("sh");
    // In KiB: a sixteenth is less than the memory.
    shell.args(["-c", "ulimit -v 1000000; exec \"$@\"", "sh"]).arg(keeptime.get_program());
    shell.args(keeptime.get_args()).args(["sh", "-c", "exit 3"]);
    let output = shell.env("KEEPTIME_PRELOAD", support::preload_library()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = text(&output.stderr);
    assert!(said.contains("limited to 1024000000 bytes (ulimit -v)"), "{said}");
    assert!(!said.contains("statically"), "{said}");
}

/// Returns true if the tests may become other users, and have other roots.
fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIP: needs to be root");
    }
    is_root
}

#[test]
fn other_user_who_may_not_read_the_folder_of_the_library_is_recorded() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let hidden = folder.0.join("hidden");
    fs::create_dir(&hidden).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o700)).unwrap();
    let library = hidden.join("libkeeptime_preload.so");
    fs::copy(support::preload_library(), &library).unwrap();
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut keeptime = folder.keeptime(&["--quiet"]);
    keeptime.env("KEEPTIME_PRELOAD", &library).args(other);
    let output = keeptime.args(["sh", "-c", "id -u; true"]).current_dir("/").output().unwrap();
    assert_eq!((text(&output.stdout), text(&output.stderr)), ("65534\n".into(), String::new()));
    let trace = folder.open();
    let programs = trace.metadata().processes.iter().map(|process| &process.program);
    let names: Vec<&str> = programs.map(|path| path.rsplit('/').next().unwrap()).collect();
    assert_eq!(names.first(), Some(&"setpriv"));
    assert!(names.contains(&"id"), "{names:?}");
}

#[test]
fn program_under_another_root_runs_and_says_nothing() {
    if !is_root() {
        return;
    }
    let folder = Folder::new();
    let program = compile(&folder, "gcc", &[]).expect("a C compiler");
    let root = folder.0.join("root");
    let listed = Command::new("ldd").arg(&program).output().unwrap();
    let libraries = text(&listed.stdout);
    let libraries = libraries.split_whitespace().filter(|word| word.starts_with('/'));
    for file in libraries.chain([program.to_str().unwrap()]) {
        let copy = root.join(&file[1..]);
        fs::create_dir_all(copy.parent().unwrap()).unwrap();
        fs::copy(file, &copy).unwrap();
    }
    let command = ["chroot", root.to_str().unwrap(), program.to_str().unwrap()];
    let (said, processes) = compare(&folder, &command, Path::new(""));
    assert_eq!(processes, 1, "chroot alone: {said}");
}

#[test]
fn program_of_another_network_namespace_is_recorded() {
    let folder = Folder::new();
    let unshare = ["unshare", "--net", "true"];
    if !Command::new(unshare[0]).args(&unshare[1..]).output().is_ok_and(|o| o.status.success()) {
        eprintln!("SKIP: no network namespaces here");
        return;
    }
    let output = folder.run(&["--quiet"], &unshare);
    assert!(output.status.success(), "{output:?}");
    let trace = folder.open();
    let programs = trace.metadata().processes.iter().map(|process| &process.program);
    assert_eq!(programs.filter(|path| path.ends_with("/true")).count(), 1);
}

/// Knocks at every recorder's socket, and says nothing, until its standard input ends.
const NEIGHBOUR: &str = r#"
import os, select, socket, sys
os.setuid(65534)
held, told = [], False
while not select.select([sys.stdin], [], [], 0.001)[0]:
    for line in open("/proc/net/unix"):
        name = line.split()[-1]
        if name.startswith("@keeptime-record-"):
            guest = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            guest.setblocking(False)
            try:
                guest.connect("\0" + name[1:])
                held = held[-500:] + [guest]
            except OSError:
                guest.close()
                continue
            if not told and len(held) > 100:
                told = True
                print("knocked", flush=True)
"#;

#[test]
fn neighbour_who_knocks_keeps_nothing_from_being_recorded() {
    if !is_root() {
        return;
    }
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let mut neighbour = Command::new("python3");
    neighbour.args(["-c", NEIGHBOUR]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut neighbour = neighbour.spawn().unwrap();
    let folder = Folder::new();
    // Another user's processes go to the socket; the recorder's own need not.
    let script = "read line; for i in 1 2 3 4 5; do /bin/true; done; \
        setpriv --reuid=65533 --regid=65533 --clear-groups /bin/true";
    let mut recorder = folder.keeptime(&["--quiet", "--tier", "preload"]);
    let mut recorder = recorder.args(["sh", "-c", script]).stdin(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(neighbour.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "knocked\n");
    drop(recorder.stdin.take());
    assert!(recorder.wait().unwrap().success());
    drop(neighbour.stdin.take());
    neighbour.wait().unwrap();
    let trace = folder.open();
    let programs = trace.metadata().processes.iter().map(|process| &process.program);
    assert_eq!(programs.filter(|path| path.ends_with("/true")).count(), 6);
}

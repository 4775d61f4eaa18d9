//! Builds the libraries, compiles programs against them, and runs programs and servers.
#![allow(dead_code, reason = "every test file uses its own part")]

use accel_server::{Options, Server};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use system::System;

/// Folder of the header.
pub(crate) const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include");

/// A standard of C or C++.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Language {
    C(&'static str),
    Cpp(&'static str),
}

/// Kind of the library that a program is linked to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Library {
    Shared,
    Static,
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path)
}

/// The folder with libkeeptime.so and libkeeptime.a, built on first use.
pub(crate) fn libraries() -> PathBuf {
    testing::built_folder("keeptime-accel-c")
}

/// A path that no other test uses.
pub(crate) fn fresh(name: &str) -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let file = format!("{name}-{}-{number}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(file)
}

/// A compiler with all warnings as errors.
pub(crate) fn compiler(language: Language) -> Command {
    let (program, standard) = match language {
        Language::C(standard) => ("cc", standard),
        Language::Cpp(standard) => ("c++", standard),
    };
    let mut command = Command::new(program);
    command.arg(format!("-std={standard}"));
    command.args(["-Wall", "-Wextra", "-pedantic", "-Werror", "-Wshadow", "-Wconversion"]);
    command.arg("-I").arg(INCLUDE);
    command
}

/// Compiles a source file to a program. It is removed when it goes out of scope.
pub(crate) fn program(language: Language, library: Library, source: &Path) -> Program {
    let mut command = compiler(language);
    command.arg(source);
    linked(command, library)
}

/// Runs a compiler that was given its sources, to make a program.
pub(crate) fn linked(mut command: Command, library: Library) -> Program {
    let path = fresh("program");
    let folder = libraries();
    command.arg("-o").arg(&path);
    match library {
        Library::Shared => {
            command.arg("-L").arg(&folder).arg("-lkeeptime");
            command.arg(format!("-Wl,-rpath,{}", folder.display()));
        }
        Library::Static => {
            command.arg(folder.join("libkeeptime.a")).args(["-lpthread", "-ldl", "-lm"]);
        }
    }
    succeed(&mut command);
    Program(path)
}

/// A compiled program.
pub(crate) struct Program(PathBuf);

impl Program {
    /// Runs it with a socket in its environment.
    pub(crate) fn run(&self, socket: &Path) -> Output {
        self.command(socket).output().expect("the program starts")
    }

    /// Path of the program.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The command that runs it.
    pub(crate) fn command(&self, socket: &Path) -> Command {
        let mut command = Command::new(&self.0);
        command.env("KEEPTIME_SOCKET", socket);
        command
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Runs a command that must succeed, and returns what it printed.
pub(crate) fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    expect_success(&output)
}

/// Checks that a program succeeded, and returns its output.
pub(crate) fn expect_success(output: &Output) -> String {
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{}\n{out}\n{err}", output.status);
    out.into_owned()
}

/// A server of one software accelerator, in this process, at a socket of its own.
pub(crate) fn server() -> Server {
    server_at(&socket())
}

/// A server of one software accelerator, in this process.
pub(crate) fn server_at(socket: &Path) -> Server {
    server_with(socket, "")
}

/// A server of one software accelerator, in this process, with more fields of `server`.
pub(crate) fn server_with(socket: &Path, more: &str) -> Server {
    // Normal scheduling: the test shares its machine.
    let text = format!("accelerators: [{{id: gpu0, buckets: 4}}]\nserver: {{priority: 0{more}}}\n");
    let system = System::parse(&text, "test.yaml").expect("a correct system file");
    let options = Options { socket: Some(socket.to_owned()), ..Options::default() };
    Server::start(&system, options).expect("the server starts")
}

/// A path for a socket, shorter than the target folder's may be.
pub(crate) fn socket() -> PathBuf {
    std::env::temp_dir().join(fresh("keeptime").file_name().expect("a name"))
}

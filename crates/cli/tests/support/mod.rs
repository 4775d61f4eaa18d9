//! Runs `keeptime run` with a preload library of the same build.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use trace::Trace;

pub(crate) use testing::preload_library;

/// A folder that no other test uses, removed when it goes out of scope.
pub(crate) struct Folder(pub PathBuf);

impl Folder {
    /// A new one.
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("run-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    /// Returns the path of the trace.
    pub(crate) fn trace(&self) -> PathBuf {
        self.0.join("t.kt")
    }

    /// `keeptime run --record TRACE OPTIONS --`, to which the program is to be added.
    pub(crate) fn keeptime(&self, options: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_keeptime"));
        command.env("KEEPTIME_PRELOAD", preload_library()).env_remove("LD_PRELOAD");
        command.arg("run").arg("--record").arg(self.trace()).args(options);
        if !options.contains(&"--memory") {
            command.args(["--memory", "4MiB"]);
        }
        command.arg("--");
        command
    }

    /// Records a program to its end.
    pub(crate) fn run(&self, options: &[&str], program: &[&str]) -> Output {
        self.keeptime(options).args(program).output().expect("keeptime starts")
    }

    /// Opens the trace.
    pub(crate) fn open(&self) -> Trace {
        Trace::open(&self.trace()).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Compiles a C program.
    pub(crate) fn compile(&self, source: &str) -> String {
        let (file, program) = (self.0.join("program.c"), self.0.join("program"));
        fs::write(&file, source).expect("a source file");
        let mut command = Command::new("cc");
        command.args(["-O1", "-Wall", "-Werror", "-pthread", "-o"]).arg(&program).arg(&file);
        assert!(command.status().expect("a C compiler").success());
        program.to_str().expect("a path in UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Compiles one of the programs that test the preload library, into a folder.
pub(crate) fn preload_test_program(folder: &Path, name: &str) -> String {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../observe/preload/tests/programs");
    let (source, program) = (sources.join(name).with_extension("c"), folder.join(name));
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O1", "-pthread", "-o"]).arg(&program).arg(source);
    assert!(command.status().expect("a C compiler").success());
    program.to_str().expect("a path in UTF-8").to_owned()
}

/// A copy of the program and its preload library where every user can run it: the build folder may
/// be private.
pub(crate) struct ProgramForAll(tempfile::TempDir);

impl ProgramForAll {
    /// Copies them into a folder that every user may write to.
    pub(crate) fn new() -> ProgramForAll {
        let folder = tempfile::tempdir().expect("a folder");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder.path(), mode).expect("permissions");
        // By another process: what this one has open for writing is also open in processes that
        // other tests have just forked, and cannot be executed meanwhile.
        let mut command = Command::new("install");
        command.args(["-m", "0755", env!("CARGO_BIN_EXE_keeptime")]);
        command.arg(preload_library()).arg(folder.path());
        assert!(command.status().expect("install").success());
        ProgramForAll(folder)
    }

    /// The folder.
    pub(crate) fn folder(&self) -> &Path {
        self.0.path()
    }

    /// `keeptime ARGUMENTS` in a folder, by a user without privileges, as [`Self::bare_program`].
    pub(crate) fn bare(&self, user: u32, folder: impl AsRef<Path>, arguments: &[&str]) -> Command {
        let mut command = self.bare_program(user, &self.folder().join("keeptime"), arguments);
        command.current_dir(folder);
        command
    }

    /// A program of a user without privileges: without an environment, a login session and real-time
    /// priority, with 64 KiB of locked memory. A test that is not run by root cannot become that
    /// user and stays the one that it is.
    pub(crate) fn bare_program(&self, user: u32, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -r 0; ulimit -l 64; exec \"$0\" \"$@\""]);
        command.arg(program).args(arguments);
        command.env_clear().current_dir("/").stdin(std::process::Stdio::null());
        if rustix::process::geteuid().is_root() {
            command.uid(user).gid(user);
        }
        command
    }
}

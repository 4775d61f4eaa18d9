//! Runs `keeptime run` with a preload library of the same build.
#![allow(dead_code, reason = "every test file uses its own part")]

use std::fs;
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

//! Builds the library and the programs.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// The preload library, built on first use. `KEEPTIME_PRELOAD` names another one to be tested.
pub(crate) fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let given = std::env::var_os("KEEPTIME_PRELOAD");
        given.map_or_else(testing::preload_library, PathBuf::from)
    })
}

/// A folder that no other test uses, removed when it goes out of scope.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("preload-{}-{number}", std::process::id());
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A folder for what several tests of a file use; a later run removes it.
pub(crate) fn shared_folder() -> &'static Folder {
    static FOLDER: OnceLock<Folder> = OnceLock::new();
    FOLDER.get_or_init(|| {
        remove_old_folders();
        Folder::new()
    })
}

/// Removes the folders of processes that are gone.
fn remove_old_folders() {
    let folders = fs::read_dir(env!("CARGO_TARGET_TMPDIR")).expect("cargo has made it");
    for folder in folders.flatten() {
        let name = folder.file_name().to_string_lossy().into_owned();
        let pid = name.strip_prefix("preload-").and_then(|rest| rest.split('-').next());
        let is_gone = pid.is_some_and(|pid| !Path::new("/proc").join(pid).exists());
        if is_gone {
            let _ = fs::remove_dir_all(folder.path());
        }
    }
}

/// A source file of the test programs.
pub(crate) fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Compiles a program of the test programs into a folder; the compiler follows from its name.
pub(crate) fn program(folder: &Folder, file: &str) -> PathBuf {
    program_with(folder, file, &[] as &[&str])
}

/// The same, with more words for the compiler.
pub(crate) fn program_with<A: AsRef<OsStr>>(
    folder: &Folder,
    file: &str,
    arguments: &[A],
) -> PathBuf {
    let name = file.split('.').next().expect("a name");
    compile(folder, file, name, arguments)
}

/// Compiles a source file of the test programs to a file of any name.
pub(crate) fn compile<A: AsRef<OsStr>>(
    folder: &Folder,
    file: &str,
    to: &str,
    arguments: &[A],
) -> PathBuf {
    let path = folder.path(to);
    let mut command = match file.rsplit('.').next() {
        Some("c") => c("cc", "-std=gnu11"),
        Some("cpp") => c("c++", "-std=gnu++20"),
        Some("rs") => rust(),
        _ => panic!("{file}: expected a source file in C, C++ or Rust"),
    };
    command.arg(source(file)).arg("-o").arg(&path).args(arguments);
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    path
}

/// Returns true if the C compiler makes programs with these arguments.
pub(crate) fn can_compile(folder: &Folder, arguments: &[&str]) -> bool {
    let source = folder.path("empty.c");
    fs::write(&source, "int main(void) { return 0; }\n").expect("a source file");
    let mut command = c("cc", "-std=gnu11");
    let output = command.arg(source).arg("-o").arg(folder.path("empty")).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

fn c(compiler: &str, standard: &str) -> Command {
    let mut command = Command::new(compiler);
    command.args([standard, "-O1", "-g", "-pthread", "-Wall", "-Wextra", "-Werror"]);
    command
}

fn rust() -> Command {
    let mut command = Command::new("rustc");
    command.args(["--edition", "2024", "-C", "opt-level=1", "-D", "warnings"]);
    command
}

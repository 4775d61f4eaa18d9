//! A folder in which the commands of a page run as a reader would run them, one block after the
//! other in one shell.
//!
//! The folder has the files that pages name and that a reader has: the programs `perception` and
//! `mapping` (launches on the fake CUDA driver), `examples`, and the sources as `~/keeptime`.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::page::{Block, Page, repository};
use crate::{built_folder, preload_library};

/// Program of the folder that launches kernels, by the name that pages give it.
const PROGRAM: &str = "#!/bin/sh\nLD_LIBRARY_PATH=LAUNCHES exec LAUNCHES/algorithm2 \
                       --copy-threads 2 --seconds 1\n";

/// A stage for pages.
pub struct Stage {
    /// Commands, by the names that pages use.
    programs: Vec<(&'static str, PathBuf)>,
    /// Runs blocks that take minutes or measure with counters, too.
    pub patient: bool,
    /// A program that launches kernels, and a fake CUDA driver.
    launches: tempfile::TempDir,
}

impl Stage {
    /// A stage on which these programs are installed.
    ///
    /// # Panics
    /// If the programs that pages name cannot be built.
    pub fn new(programs: Vec<(&'static str, PathBuf)>) -> Stage {
        let launches = tempfile::tempdir().expect("a folder");
        let made = Command::new("make")
            .args(["--no-print-directory", "-C"])
            .arg(repository().join("examples/late-launch"))
            .arg(format!("BUILD={}", launches.path().display()))
            .output()
            .expect("make starts");
        assert!(made.status.success(), "{made:?}");
        Stage { programs, patient: false, launches }
    }

    /// Runs the blocks of a page that this machine can run, in an empty folder.
    ///
    /// # Errors
    /// If one fails, or does not print what the page promises.
    pub fn run(&self, page: &Page) -> Result<(), String> {
        let blocks: Vec<&Block> = page.blocks.iter().filter(|block| self.can_run(block)).collect();
        eprintln!("{}: runs {} of {} blocks", page.name, blocks.len(), page.blocks.len());
        if blocks.is_empty() {
            return Ok(());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path();
        self.furnish(folder);
        let Output { status, stdout, .. } = self.shell(folder, &script(&blocks));
        let said = |number: usize| {
            let said = fs::read(folder.join(format!(".out.{number}"))).unwrap_or_default();
            String::from_utf8_lossy(&said).into_owned()
        };
        let name = &page.name;
        let all: String = (0..blocks.len()).map(said).collect();
        let stopped = String::from_utf8_lossy(&stdout);
        if !status.success() {
            return Err(format!("{name}: {status}: {stopped}\n{all}"));
        }
        for (number, Block { line, output, .. }) in blocks.iter().enumerate() {
            let (said, expected) = (said(number), output.as_deref().unwrap_or_default());
            if !said.contains(expected.trim_end()) {
                return Err(format!("{name}:{line}: expected\n{expected}\nfound\n{said}"));
            }
        }
        Ok(())
    }

    /// Returns true if this machine can run a block.
    pub fn can_run(&self, block: &Block) -> bool {
        block.marks.iter().all(|mark| match mark.as_str() {
            "hardware" | "long" => self.patient,
            "root" => is_root(),
            _ => false,
        })
    }

    /// Puts the files that pages name into the folder.
    fn furnish(&self, folder: &Path) {
        let put = |name: &str, target: &Path| symlink(target, folder.join(name)).expect(name);
        put("keeptime", &repository());
        put("examples", &repository().join("examples"));
        fs::create_dir(folder.join(".bin")).expect("a folder");
        for (name, path) in &self.programs {
            put(&format!(".bin/{name}"), path);
        }
        let text = PROGRAM.replace("LAUNCHES", &self.launches.path().display().to_string());
        for name in ["perception", "mapping"] {
            let path = folder.join(name);
            fs::write(&path, &text).expect(name);
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect(name);
        }
        c_library(folder);
    }

    fn shell(&self, folder: &Path, script: &str) -> Output {
        let variable = |name| std::env::var(name).unwrap_or_default();
        let home = |name, folder: &str| match std::env::var(name) {
            Ok(path) => path,
            Err(_) => format!("{}/{folder}", variable("HOME")),
        };
        let mut command = isolated();
        command
            .args(["sh", "-c", script])
            .current_dir(folder)
            .env("PATH", format!("{}:{}", folder.join(".bin").display(), variable("PATH")))
            .env("CARGO_HOME", home("CARGO_HOME", ".cargo"))
            .env("RUSTUP_HOME", home("RUSTUP_HOME", ".rustup"))
            .env("HOME", folder)
            .env("XDG_RUNTIME_DIR", folder.join(".run"))
            .env("KEEPTIME_PRELOAD", preload_library())
            .env("PKG_CONFIG_PATH", folder.join(".pkgconfig"))
            // Two runs on one machine must not meet, with ports below those that it gives out.
            .env("ROS_DOMAIN_ID", (1 + std::process::id() % 100).to_string());
        // Of the test, not of a reader.
        for name in ["CARGO_TARGET_DIR", "KEEPTIME_SOCKET", "LD_PRELOAD", "RUSTFLAGS"] {
            command.env_remove(name);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let shell = command.process_group(0).spawn().expect("a shell");
        let group = format!("-{}", shell.id());
        let output = shell.wait_with_output().expect("a shell");
        if !output.status.success() {
            // A page that failed may have left a server.
            let _ = Command::new("kill").args(["-KILL", "--", &group]).output();
        }
        output
    }
}

/// A command in a mount namespace with a `/run/keeptime` of its own, where sockets of root lie.
fn isolated() -> Command {
    if !is_root() {
        return Command::new("env");
    }
    let mount = "mkdir -p /run/keeptime && mount -t tmpfs none /run/keeptime && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", mount, "sh"]);
    command
}

/// The blocks of a page that need nothing but Keeptime, as a script for `sh`: for a machine that a
/// test cannot reach otherwise. Outputs are left in the folder where it runs.
pub fn plain_script(page: &Page) -> String {
    let blocks: Vec<&Block> = page.blocks.iter().filter(|block| block.marks.is_empty()).collect();
    script(&blocks)
}

/// The blocks as one script, which ends with the first one that fails.
fn script(blocks: &[&Block]) -> String {
    let mut script = "set -u; stage=$PWD\n".to_owned();
    for (number, Block { line, commands, service, served, measures, .. }) in
        blocks.iter().enumerate()
    {
        writeln!(script, "echo 'line {line} of the page'").expect("a script");
        let wrong =
            format!("echo 'line {line} ended with '$status; cat $stage/.out.{number}; exit 1;");
        if *served {
            write!(
                script,
                "(exec keeptime serve examples/server.yaml) > $stage/.server 2>&1 &\nserver=$!\n\
                 until grep -q listening $stage/.server || ! kill -0 $server; do sleep 0.1; done\n"
            )
            .expect("a script");
        }
        if *service {
            // It is ready when it has printed something, and ends well when it is told to.
            write!(
                script,
                "(exec {}\n) > $stage/.out.{number} 2>&1 &\nservice=$!\n\
                 until test -s $stage/.out.{number} || ! kill -0 $service; do sleep 0.1; done\n\
                 kill $service; wait $service\n",
                commands.trim_end()
            )
            .expect("a script");
        } else {
            // A pipe or an earlier command that fails ends the script, unless that is the answer.
            let fails = commands.contains("exit status 1") || *measures;
            let (strict, lax) = if fails { ("", "") } else { ("set -e", "set +e") };
            writeln!(script, "{{ {strict}\n{commands}{lax}\n}} > $stage/.out.{number} 2>&1")
                .expect("a script");
        }
        let expected = match (measures, commands.contains("exit status 1")) {
            (true, _) => "-le 1",
            (false, true) => "-eq 1",
            (false, false) => "-eq 0",
        };
        writeln!(script, "status=$?; [ $status {expected} ] || {{ {wrong} }}").expect("a script");
        if *served {
            writeln!(script, "kill $server; wait $server").expect("a script");
        }
    }
    script
}

/// Puts the C library of this build where pkg-config finds it, as a package does.
fn c_library(folder: &Path) {
    let libraries = built_folder("keeptime-accel-c");
    let headers = repository().join("crates/serve/accel-c/include");
    let packages = folder.join(".pkgconfig");
    fs::create_dir(&packages).expect("a folder");
    let (headers, libraries) = (headers.display(), libraries.display());
    let text = format!(
        "Name: keeptime\nDescription: of this build\nVersion: 0\nCflags: -I{headers}\n\
         Libs: -L{libraries} -lkeeptime -Wl,-rpath,{libraries}\n"
    );
    fs::write(packages.join("keeptime.pc"), text).expect("a file");
}

/// Returns true if this process belongs to root.
fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

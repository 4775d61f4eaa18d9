//! The preload library, and the tiers at which `keeptime run` records here: each found by recording
//! a program that does nothing.

use std::io::Read;
use std::process::{Command, Stdio};

use anyhow::{Context, bail, ensure};
use serde_json::Value;
use trace::session::Library;

use crate::{FindLibrary, Finding, cause, kernel};

/// Machines of ELF files, by the names of the architectures.
const MACHINES: [(&str, u16); 2] = [("x86_64", 62), ("aarch64", 183)];
/// Bytes of an ELF file up to the end of `e_machine`.
const HEAD_BYTES: usize = 20;

/// The preload library: where it is, for which architecture, and whether a program loads it.
pub(crate) fn preload_library(library: FindLibrary) -> Finding {
    let missing = |error: anyhow::Error| {
        Finding::missing(format!("{error:#}"))
            .mend("cargo install --path crates/cli (a release has the library inside)")
    };
    let found = match describe(library) {
        Ok(found) => found,
        Err(error) => return missing(error),
    };
    match record("preload") {
        Ok(summary) => match summary["unloaded"].as_str() {
            Some(reason) => Finding::missing(format!("{found}: not loaded: {reason}")),
            None => Finding::ok(found),
        },
        Err(error) => missing(error.context(found)),
    }
}

/// Place and architecture of the library.
fn describe(library: FindLibrary) -> anyhow::Result<String> {
    let mut head = [0; HEAD_BYTES];
    let place = match library()? {
        Library::Content(content) => {
            head.copy_from_slice(content.get(..HEAD_BYTES).context("the library is cut off")?);
            "inside this program".to_owned()
        }
        Library::File(path) => {
            let place = path.display().to_string();
            let mut file = std::fs::File::open(&path).with_context(|| place.clone())?;
            file.read_exact(&mut head).with_context(|| place.clone())?;
            place
        }
    };
    ensure!(head.starts_with(b"\x7fELF"), "{place}: expected a shared library (ELF)");
    let machine = u16::from_le_bytes([head[18], head[19]]);
    let known = MACHINES.iter().find(|(_, number)| *number == machine);
    let found = known.map_or(format!("machine {machine}"), |(name, _)| (*name).to_owned());
    let expected = std::env::consts::ARCH;
    ensure!(found == expected, "{place}: built for {found}, expected {expected}");
    Ok(format!("{place}, {found}"))
}

/// Recording of every switch and wake-up, by the kernel's tracer.
pub(crate) fn scheduler_events() -> Finding {
    match record("scheduler") {
        Ok(_) => Finding::ok("every switch and wake-up (tier scheduler)"),
        Err(error) => Finding::limited(reason(&error)).mend(match kernel::is_root() {
            true => "docker run --privileged --pid=host, or run it outside the container",
            false => "sudo keeptime run -- PROGRAM",
        }),
    }
}

/// Recording of the program's own switches, by performance events.
pub(crate) fn perf_events() -> Finding {
    let file = "/proc/sys/kernel/perf_event_paranoid";
    let level = std::fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
    let said = level.map_or("no kernel.perf_event_paranoid".into(), |level: i32| {
        format!("kernel.perf_event_paranoid is {level}")
    });
    match record("switches") {
        Ok(_) => Finding::ok(format!("tier switches; {said}")),
        Err(_) if level.is_none() => {
            Finding::limited(said).mend("use a kernel with CONFIG_PERF_EVENTS")
        }
        Err(error) => {
            let grant = match level {
                Some(3..) => "sudo sysctl kernel.perf_event_paranoid=2",
                _ => "allow perf_event_open: docker run --security-opt seccomp=unconfined",
            };
            Finding::limited(format!("{said}; {}", reason(&error))).mend(grant)
        }
    }
}

/// The kernel's own reason.
fn reason(error: &anyhow::Error) -> String {
    let text = cause(&format!("{error:#}"));
    text.trim_start_matches("the kernel's tracer cannot be reached: ").to_owned()
}

/// Records `true` at a tier, and returns the object that `keeptime run --json` writes.
fn record(tier: &str) -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let program = std::env::current_exe().context("this program's own file")?;
    let output = Command::new(program)
        .args(["run", "--json", "--memory", "1MiB", "--tier", tier, "--out"])
        .arg(folder.path().join("doctor.kt"))
        .args(["--", "true"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let Some(start) = said.find('{') else {
        bail!("{}", said.trim().trim_start_matches("keeptime: "))
    };
    serde_json::from_str(&said[start..]).with_context(|| said.trim().to_owned())
}

//! Libraries and programs of others that are looked for and not loaded.

use std::path::PathBuf;
use std::process::Command;

use crate::{Finding, device};

/// Returns the file that the dynamic linker would load for the first of these names that it finds.
/// The linker is asked to list and not to run: no code of a library is executed.
fn find(names: &[&str]) -> Option<String> {
    names.iter().find_map(|name| {
        let mut command = Command::new("true");
        command.env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_PRELOAD", name);
        let listed = String::from_utf8(command.output().ok()?.stdout).ok()?;
        let path = |line: &str| {
            let (found, path) = line.trim().split_once(" => ")?;
            (found == *name).then(|| path.split(" (").next().unwrap_or(path).to_owned())
        };
        listed.lines().find_map(path)
    })
}

/// The library that `keeptime run --gpu` records the GPU's work with.
pub(crate) fn cupti() -> Finding {
    match find(&["libcupti.so.13", "libcupti.so.12", "libcupti.so"]) {
        Some(path) => Finding::ok(path),
        None => Finding::missing("no libcupti.so").mend(
            "sudo apt install libcupti-dev, or put the CUDA toolkit's extras/CUPTI/lib64 into \
             LD_LIBRARY_PATH",
        ),
    }
}

/// The library that `nvidia-smi` reads a GPU's state with.
pub(crate) fn nvml() -> Finding {
    match find(&["libnvidia-ml.so.1"]) {
        Some(path) => Finding::ok(path),
        None => Finding::missing("no libnvidia-ml.so.1").mend(device::grant_driver()),
    }
}

/// The laboratory's program, which runs this one.
pub(crate) fn laboratory() -> Finding {
    let lab = std::env::current_exe().unwrap_or_default().with_file_name("keeptime-lab");
    match lab.is_file() {
        true => Finding::ok(lab.display().to_string()),
        false => Finding::missing(format!("{} does not exist", lab.display()))
            .mend("cargo build --release -p keeptime -p keeptime-lab --features keeptime/full"),
    }
}

/// The traffic simulator that scenarios may use.
pub(crate) fn sumo() -> Finding {
    let named = std::env::var_os("KEEPTIME_SUMO").map(PathBuf::from);
    let search = std::env::var_os("PATH").unwrap_or_default();
    let installed = || std::env::split_paths(&search).map(|folder| folder.join("sumo"));
    let found = named.clone().into_iter().chain(installed().filter(|_| named.is_none()));
    match found.into_iter().find(|path| path.is_file()) {
        Some(path) => Finding::ok(path.display().to_string()),
        None => Finding::missing(match named {
            Some(path) => format!("KEEPTIME_SUMO: {} is not a file", path.display()),
            None => "no sumo in PATH".into(),
        })
        .mend("pip install eclipse-sumo"),
    }
}

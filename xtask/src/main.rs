//! The task runner: `cargo xtask demo`, `test`, `devices`, `soak`, `suites`, `sched-ext`, `tidy`,
//! `deny`, `docs`, `package`, `coverage` and `ci`.
//!
//! Each task is a row of commands that can be typed by hand: every command is printed before it
//! runs, and how long it took after it.
#![forbid(unsafe_code)]

mod colcon;
mod coverage;
mod debian;
mod demo;
mod deny;
mod devices;
mod docs;
mod links;
mod perfetto;
mod pool;
mod release;
mod ros;
mod rss;
mod sched_ext;
mod security;
mod soak;
mod step;
mod suites;
mod sumo;
mod tests;
mod tidy;
mod wheel;

use std::path::PathBuf;
use std::process::{Command, ExitCode};

use clap::{Parser, Subcommand};

use step::Step;

/// Keeptime's task runner
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Show a late launch, its reason and its remedy, and chains under three policies, on one page
    Demo(demo::Args),
    /// Check format, lints and documentation (tidy), then run all tests: unit, integration,
    /// documentation and loom
    Test,
    /// Check all devices of this machine against the device contract, and measure them: the
    /// conformance suite, and a reduced submission study
    Devices,
    /// Run the locks' tests under ThreadSanitizer and the tests with bounds in time, then attack a
    /// server for the given time
    Soak(soak::Args),
    /// Run third-party test suites bare, recorded and guarded, and list the differences
    Suites(suites::Args),
    /// Boot a kernel with sched_ext in QEMU, test the throttle-fair scheduler there, and repeat
    /// BWLOCK++'s experiment with it
    SchedExt(sched_ext::Args),
    /// Check format, lints, the architecture page and forbidden content of files
    Tidy,
    /// Check all crates for known vulnerabilities, licences and sources
    Deny,
    /// Build the tool with the oldest supported compiler, which rustup installs
    Oldest,
    /// Run the unit tests of shared memory, guarded locks and recordings in Miri, which finds undefined
    /// behaviour; rustup installs it
    Miri,
    /// Build the pages as a site (mdBook), with all links checked
    Docs,
    /// Make a tarball and a Debian package of the tool and its C libraries
    Package(release::Args),
    /// Run the server's tests instrumented, and check that they cover the server
    Coverage,
    /// Tidy, deny, oldest, miri, test and coverage
    Ci,
}

fn main() -> ExitCode {
    let answer = match Arguments::parse().task {
        Task::Demo(args) => demo::run(&args),
        Task::Test => tidy::run().and_then(|()| test()),
        Task::Devices => devices::run(),
        Task::Soak(args) => soak::run(&args),
        Task::Suites(args) => suites::run(&args),
        Task::SchedExt(args) => sched_ext::run(&args),
        Task::Tidy => tidy::run(),
        Task::Deny => deny::run(),
        Task::Oldest => oldest(),
        Task::Miri => miri(),
        Task::Docs => docs::run(),
        Task::Package(args) => release::run(&args),
        Task::Coverage => coverage::run(),
        Task::Ci => tidy::run()
            .and_then(|()| deny::run())
            .and_then(|()| oldest())
            .and_then(|()| miri())
            .and_then(|()| test())
            .and_then(|()| coverage::run()),
    };
    if let Err(error) = &answer {
        eprintln!("xtask: {error:#}");
    }
    if answer.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Builds all test programs, then runs each once; and the package in bare trees of Debian 12 and 13.
fn test() -> anyhow::Result<()> {
    // They take minutes, most of which they wait for the disk.
    let trees = release::Trees::begin(&["bookworm", "trixie"]);
    // The fake CUDA driver of the examples, on which many tests run.
    let build = std::path::absolute(target())?.join("late-launch");
    Step::program("make")
        .args(["--no-print-directory", "-C", "examples/late-launch", "check"])
        .arg(format!("BUILD={}", build.display()))
        .run()?;
    devices::vulkan_driver();
    // Without it, the test that needs it says so.
    debian::have(&["valgrind"], || debian::runs(Command::new("valgrind").arg("--version")));
    let mut variables = vec![
        (perfetto::VARIABLE, perfetto::folder()?),
        (devices::ONNX_VARIABLE, devices::onnx_library()?),
        (ros::VARIABLE, ros::python()?),
        (sumo::VARIABLE, sumo::program()?),
        // Built with the tests, with all features.
        ("KEEPTIME_PROGRAM", std::path::absolute(target())?.join("debug/keeptime")),
    ];
    variables.extend(rss::python()?.map(|python| (rss::VARIABLE, python)));
    variables.extend(security::python()?.map(|python| (security::VARIABLE, python)));
    // The typesetter takes longer to build than the rest; `cargo xtask soak` has it.
    let all = |kind: &str| {
        Step::cargo(&format!("test --workspace {kind}--no-default-features --features"))
            .arg(security::features())
    };
    let mut programs = tests::build(all(""))?;
    // Loom replaces the atomics by its own, so everything is built anew, in a folder of its own
    // that does not disturb the ordinary build.
    let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
    let models = "test --release -p keeptime-shm -p keeptime-guard -p keeptime-bandwidth --test loom \
                  --test mutex_loom --test rwlock_loom --target-dir";
    programs.extend(tests::build(
        Step::cargo(models)
            .arg(target().join("loom"))
            .env("RUSTFLAGS", format!("{flags} --cfg loom").trim()),
    )?);
    let answer = tests::run(programs, &variables);
    all("--no-fail-fast --doc ").run().and(answer)?;
    colcon::tests()?;
    trees.map_or(Ok(()), release::test)
}

/// The oldest compiler that builds the tool: the first with naked functions.
const OLDEST: &str = "1.88";

/// Builds the tool with it.
fn oldest() -> anyhow::Result<()> {
    Step::program("rustup")
        .args(["toolchain", "install", OLDEST, "--profile", "minimal", "--no-self-update"])
        .run()?;
    Step::program("rustup")
        .args(["run", OLDEST, "cargo", "build", "--locked", "--target-dir"])
        .arg(target().join("oldest"))
        // Of the toolchain that runs this task.
        .without(&["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"])
        .run()
}

/// Runs what needs no kernel beyond futexes: Miri has no memory files, sockets with credentials, signals
/// or scheduling policies. Its weak memory, which loom's models cover, cannot do with accesses of
/// different sizes to the same bytes, as peers may do them.
fn miri() -> anyhow::Result<()> {
    Step::program("rustup")
        .args(["toolchain", "install", "nightly", "--profile", "minimal", "--no-self-update"])
        .args(["--component", "miri,rust-src"])
        .run()?;
    let flags = "-Zmiri-disable-isolation -Zmiri-ignore-leaks -Zmiri-disable-weak-memory-emulation";
    Step::program("rustup")
        .args(["run", "nightly", "cargo", "miri", "test", "--lib"])
        .args(["-p", "keeptime-shm", "-p", "keeptime-guard", "-p", "keeptime-record"])
        .arg("--target-dir")
        .arg(target().join("miri"))
        .env("MIRIFLAGS", flags)
        // Of the toolchain that runs this task.
        .without(&["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC"])
        .run()
}

/// Builds the laboratory and the tool beside it. Without the typesetter of one benchmark's report,
/// which takes longer to build than the rest.
fn laboratory() -> anyhow::Result<()> {
    Step::cargo("build --release -p keeptime-lab -p keeptime --no-default-features --features")
        .arg("keeptime/full")
        .run()
}

/// The root of the repository.
fn root() -> PathBuf {
    let xtask = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    xtask.parent().expect("xtask lies in the repository").to_owned()
}

/// The folder that cargo builds into.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

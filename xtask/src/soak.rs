//! `cargo xtask soak`: what takes long, and shows only then.
//!
//! - The locks' tests under ThreadSanitizer.
//! - The paper of the submission study: its typesetter takes longer to build than the rest.
//! - Tests with bounds in time: those in modules `soak`. They need a machine without other work.
//!   Among them are the commands of the documentation that take minutes, or count with hardware.
//! - Attacks on a server by users without privileges (`keeptime-lab bench attacks`), beside a client
//!   of the highest priority. They need root, for users of their own and for real-time priorities.

use crate::devices;
use crate::step::Step;

/// Options of `cargo xtask soak`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Least duration of the attacks on a server
    #[arg(long, default_value = "1h")]
    attacks: String,
    /// Least number of control packets
    #[arg(long, default_value_t = 1_000_000)]
    packets: u64,
    /// Least number of sessions with garbage in their rings
    #[arg(long, default_value_t = 10_000)]
    sessions: u64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    sanitized()?;
    typeset()?;
    timed()?;
    attacked(args)
}

/// Runs the timed tests, one at a time.
fn timed() -> anyhow::Result<()> {
    devices::vulkan_driver();
    let library = devices::onnx_library()?;
    for packages in [
        "-p keeptime -p keeptime-accel-server -p keeptime-device-onnx -p keeptime-device-vulkan \
         -p keeptime-preload --features keeptime/ros",
        "-p keeptime-lab --no-default-features",
    ] {
        Step::cargo(&format!("test {packages} --tests -- --ignored --test-threads=1 soak::"))
            .env(devices::ONNX_VARIABLE, &library)
            .run()?;
    }
    Ok(())
}

/// The tests of what the typesetter writes.
fn typeset() -> anyhow::Result<()> {
    Step::cargo("test -p keeptime-submission --features pdf --test output").run()
}

fn attacked(args: &Args) -> anyhow::Result<()> {
    crate::laboratory()?;
    Step::program(crate::target().join("release/keeptime-lab"))
        .args(["bench", "attacks", "--duration", &args.attacks])
        .args(["--packets", &args.packets.to_string()])
        .args(["--sessions", &args.sessions.to_string()])
        .run()
}

/// The sanitizer is not stable in rustc: the variable lets a stable one have it. Only the crate
/// itself is instrumented; `tsan.supp` says what looks like a race for that.
fn sanitized() -> anyhow::Result<()> {
    let flags = "-Zsanitizer=thread -Cunsafe-allow-abi-mismatch=sanitizer";
    let suppressions = crate::root().join("crates/observe/guard/tsan.supp");
    let run = |tests: &str| {
        Step::cargo("test -p keeptime-guard --target x86_64-unknown-linux-gnu --target-dir")
            .arg(crate::target().join("soak"))
            .args(tests.split(' '))
            .env("RUSTC_BOOTSTRAP", "1")
            .env("RUSTFLAGS", flags)
            .env("TSAN_OPTIONS", format!("suppressions={}", suppressions.display()))
            .env("KEEPTIME_SOAK_SECONDS", "30")
            .run()
    };
    run("--lib soak -- --nocapture")?;
    // The one that is left out uses the C library's locks, whose functions the sanitizer replaces.
    run("--test rwlock -- --skip lock_that_the_library_uses")
}

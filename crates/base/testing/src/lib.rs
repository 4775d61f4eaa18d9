//! Helpers of tests: waiting for events, hostile inputs, results as JSON, the commands of the
//! documentation, and builds of libraries and programs that cargo does not build for a test.
//!
//! A library that no test links to and the program of another package are built on first use, with
//! the profile of the test, into the same folder.
#![forbid(unsafe_code)]

pub mod attacker;
pub mod command_line;
pub mod page;
pub mod random;
pub mod refusals;
pub mod result;
pub mod rtps;
pub mod stage;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Limit of each wait for an event. It ends a hang and tests nothing: no wait that goes well takes
/// a hundredth of it on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// Number of times in a row that a wait asks again at once. Then it sleeps between two looks.
const EAGER: u32 = 200;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Waits for an event: until `has_come` returns true.
///
/// # Panics
/// If it has not come after [`PATIENCE`].
#[track_caller]
pub fn until(event: &str, mut has_come: impl FnMut() -> bool) {
    until_ok(event, || has_come().then_some(()).ok_or("not yet"));
}

/// Waits until `look` returns a value, and returns that.
///
/// # Panics
/// If there is none after [`PATIENCE`], with the last error.
#[track_caller]
pub fn until_ok<T, E: Debug>(event: &str, mut look: impl FnMut() -> Result<T, E>) -> T {
    let begun = Instant::now();
    let mut looks = 0;
    loop {
        match look() {
            Ok(value) => return value,
            Err(error) if begun.elapsed() > PATIENCE => {
                panic!("{event}: not within {PATIENCE:?}: {error:?}")
            }
            Err(_) if looks < EAGER => std::thread::yield_now(),
            Err(_) => std::thread::sleep(BETWEEN_LOOKS),
        }
        looks += 1;
    }
}

/// Checks that a text names all of these facts (names, numbers with their units), in this order. The
/// words between them are free.
///
/// # Panics
/// If it lacks one.
#[track_caller]
pub fn tells(text: &str, facts: &[&str]) {
    let mut rest = text;
    for fact in facts {
        let Some((_, after)) = rest.split_once(fact) else {
            panic!("found {text:?}, expected {facts:?} in it: {fact:?} is not there");
        };
        rest = after;
    }
}

/// Returns true if a thread sleeps in the kernel, by its number; None if it is not there.
pub fn sleeps(thread: u32) -> Option<bool> {
    let stat = std::fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    Some(stat.rsplit_once(") ")?.1.starts_with('S'))
}

/// Processor time of a thread, by its number, ns; None if it is not there.
pub fn run_ns(thread: u32) -> Option<u64> {
    let words = std::fs::read_to_string(format!("/proc/{thread}/schedstat")).ok()?;
    words.split_whitespace().next()?.parse().ok()
}

/// The preload library.
pub fn preload_library() -> PathBuf {
    built("keeptime-preload", "libkeeptime_preload.so")
}

/// Environment variable with the program `keeptime`, where the task that runs all tests has built it with
/// them: to build it by itself takes other features of its libraries, and so all of them anew.
pub const PROGRAM_VARIABLE: &str = "KEEPTIME_PROGRAM";

/// The program `keeptime`.
pub fn keeptime() -> PathBuf {
    let given = std::env::var_os(PROGRAM_VARIABLE).map(PathBuf::from);
    given.unwrap_or_else(|| built("keeptime", "keeptime"))
}

/// A file that cargo makes of a package.
///
/// # Panics
/// If it cannot be built.
pub fn built(package: &str, file: &str) -> PathBuf {
    built_folder(package).join(file)
}

/// The folder with what cargo makes of a package.
///
/// # Panics
/// If it cannot be built.
pub fn built_folder(package: &str) -> PathBuf {
    static BUILT: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let (target, folder) = folders();
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if !built.contains(package) {
        let profile = if folder.ends_with("debug") { "dev" } else { "release" };
        let status = Command::new(env!("CARGO"))
            .args(["build", "--quiet", "--package", package, "--profile", profile])
            // Experiments use all that the tool can have.
            .args(if package == "keeptime" { &["--features", "full"][..] } else { &[] })
            .arg("--target-dir")
            .arg(target)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.expect("cargo starts").success(), "{package} cannot be built");
        built.insert(package.to_owned());
    }
    folder
}

/// The target folder, and in it that of the profile: a test is TARGET/PROFILE/deps/NAME.
fn folders() -> (PathBuf, PathBuf) {
    let test = std::env::current_exe().expect("this test's own file");
    let folder = test.ancestors().nth(2).expect("a folder of the profile");
    (folder.parent().map(Path::to_owned).unwrap_or_default(), folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wait_ends_with_the_event_and_returns_its_value() {
        let mut looks = 0;
        let value = until_ok("the fifth look", || {
            looks += 1;
            if looks == 5 { Ok(looks) } else { Err(looks) }
        });
        assert_eq!(value, 5);
    }

    #[test]
    fn thread_is_seen_asleep_awake_and_gone() {
        let (tell, told) = std::sync::mpsc::channel();
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let sleeper = std::thread::spawn(move || {
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            let number: u32 = link.file_name().unwrap().to_str().unwrap().parse().unwrap();
            assert_eq!(sleeps(number), Some(false));
            assert!(run_ns(number) > Some(0));
            tell.send(number).unwrap();
            gone.recv().unwrap();
        });
        let number = told.recv().unwrap();
        until("it sleeps", || sleeps(number) == Some(true));
        go.send(()).unwrap();
        sleeper.join().unwrap();
        until("it is gone", || sleeps(number).is_none() && run_ns(number).is_none());
    }

    #[test]
    fn facts_are_told_in_their_order() {
        let text = "chain \"map\" makes \"brake\" late: 110 ms";
        tells(text, &["\"map\"", "\"brake\"", "110 ms"]);
        for wrong in [&["\"brake\"", "\"map\""][..], &["111 ms"]] {
            assert!(std::panic::catch_unwind(|| tells(text, wrong)).is_err());
        }
    }
}

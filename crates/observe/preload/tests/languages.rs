//! Programs in C++, Rust and Python with everything that their standard libraries lock.

mod support;

use record::{Action, Class};
use std::path::Path;
use support::{Folder, Mode, Subject, build, program};

#[test]
fn locks_of_the_cpp_standard_library_behave_the_same() {
    let folder = Folder::new();
    let path = program(&folder, "standard.cpp");
    let (_, [full, contended, default]) = Subject::new(&path).compare(Mode::all());
    full.assert_whole();
    assert_eq!(default.locks(), 0);
    // mutex, recursive_mutex, timed_mutex, recursive_timed_mutex: two, two, four, four times.
    assert!(full.count(Class::Mutex, Action::Acquired) >= 12 * 4 * 150);
    assert!(full.count(Class::Write, Action::Acquired) >= 2 * 150);
    assert!(full.count(Class::Read, Action::Acquired) >= 2 * 3 * 150);
    assert!(full.count(Class::Condition, Action::Signalled) >= 2 * 150);
    assert!(full.count(Class::Once, Action::Waiting) >= 6);
    assert!(contended.count(Class::Mutex, Action::Failed) >= 4);
}

#[test]
fn locks_of_the_rust_standard_library_work_and_are_not_seen() {
    let folder = Folder::new();
    let path = program(&folder, "standard.rs");
    let (_, [full]) = Subject::new(&path).compare([Mode::only("standard")]);
    assert_eq!(full.locks(), 0);
    Subject::new(&path).compare(Mode::all());
}

#[test]
fn threads_and_processes_of_python_behave_the_same() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        eprintln!("SKIP: there is no {}", python.display());
        return;
    }
    let subject = Subject::new(python).args([build::source("threads.py")]);
    let (_, [full, _, _]) = subject.compare(Mode::all());
    // The program, its forked workers, the one that it started, the child.
    assert!(full.processes.len() >= 5, "{:?}", full.processes);
    assert!(full.count(Class::Semaphore, Action::Acquired) > 1000);
}

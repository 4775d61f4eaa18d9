//! Every lock of the C library answers as it does without the library, in every mode, and all
//! that a program took is recorded.

mod support;

use record::guard::GuardCount;
use record::{Action, Class};
use support::{Folder, Mode, Subject, program};

/// A number that the program printed behind a word.
fn printed(output: &str, word: &str) -> usize {
    let line = output.lines().find_map(|line| line.strip_prefix(word)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("no line with {word}:\n{output}")).parse().expect("a number")
}

/// The subject, and all modes; the first two record only its own locks.
fn subject(folder: &Folder, file: &str) -> (Subject, [Mode; 5]) {
    let path = program(folder, file);
    let name = path.file_name().and_then(|name| name.to_str()).expect("a name").to_owned();
    let [full, contended, default] = Mode::all();
    let modes = [Mode::only(&name), Mode::only_contended(&name), full, contended, default];
    (Subject::new(path), modes)
}

#[test]
fn mutexes_of_every_type_answer_the_same() {
    let folder = Folder::new();
    let (subject, modes) = subject(&folder, "mutex.c");
    let (output, [full, contended, ..]) = subject.compare(modes);
    full.assert_whole();
    contended.assert_whole();
    assert_eq!(full.count(Class::Mutex, Action::Acquired), printed(&output, "acquired"));
    let waited = printed(&output, "waited");
    assert!(full.count(Class::Mutex, Action::Waiting) >= waited);
    assert!(contended.count(Class::Mutex, Action::Waiting) >= waited);
    assert!(contended.count(Class::Mutex, Action::Acquired) >= waited);
    assert_eq!(contended.count(Class::Mutex, Action::Created), 0);
}

#[test]
fn read_write_locks_of_every_preference_answer_the_same() {
    let folder = Folder::new();
    let (subject, modes) = subject(&folder, "rwlock.c");
    let (output, [full, contended, ..]) = subject.compare_recorded(modes);
    full.assert_whole();
    let acquired = |action| full.count(Class::Read, action) + full.count(Class::Write, action);
    assert_eq!(acquired(Action::Acquired), printed(&output, "acquired"));
    // The child's lock may have been free.
    let waited = printed(&output, "waited");
    assert!(contended.count(Class::Write, Action::Acquired) >= waited);
}

#[test]
fn guarded_read_write_locks_answer_the_same_but_for_whose_turn_it_is() {
    let folder = Folder::new();
    let (subject, [full, ..]) = subject(&folder, "rwlock.c");
    subject.arg("without-turns").compare([full]);
}

#[test]
fn readers_that_need_other_readers_get_in_while_a_writer_waits() {
    let folder = Folder::new();
    let subject = Subject::new(program(&folder, "readers.c"));
    subject.compare(Mode::all());
    for mode in Mode::guarded().map(Mode::boosted) {
        assert_eq!(guarded(&subject, &mode, GuardCount::RwlockReadersFirst), 4, "{}", mode.name);
    }
}

#[test]
fn mutexes_handed_to_threads_that_cannot_take_them_can_be_had() {
    let folder = Folder::new();
    let subject = Subject::new(program(&folder, "handlers.c"));
    subject.compare(Mode::all());
    for mode in &Mode::guarded()[1..] {
        assert!(guarded(&subject, mode, GuardCount::TakenBack) > 0, "{}", mode.name);
    }
}

#[test]
fn mutexes_that_another_thread_lets_go_are_free() {
    let folder = Folder::new();
    let subject = Subject::new(program(&folder, "let-go.c"));
    subject.compare(Mode::all());
    let [inherit, ..] = &Mode::guarded();
    assert!(guarded(&subject, inherit, GuardCount::MutexLetGoByOthers) >= 3);
}

/// Runs a program, which must end well, and returns what was counted.
fn guarded(subject: &Subject, mode: &Mode, what: GuardCount) -> u64 {
    let recorder = support::Recorder::new(mode);
    support::run(&mut recorder.invite(subject)).success();
    let counts = recorder.recording().side().guard_counts();
    recorder.finish();
    counts[what as usize]
}

#[test]
fn functions_answer_as_it_is_written_down_for_them() {
    let folder = Folder::new();
    let subject = Subject::new(program(&folder, "conformance.c"));
    let (output, _) = subject.compare([Mode::full(), Mode::contended()]);
    assert!(output.ends_with(" expectations held, 0 did not\n"), "{output}");
}

#[test]
fn condition_variables_answer_the_same() {
    let folder = Folder::new();
    let (subject, [full, contended, everything, everything_contended, default]) =
        subject(&folder, "condition.c");
    subject.compare([everything, everything_contended, default]);
    let bare = subject.bare();
    for mode in [full, contended] {
        let (ended, trace) = subject.recorded(&mode);
        assert_eq!(ended.success(), bare.success(), "{}", mode.name);
        trace.assert_whole();
        let waits = printed(&ended.err, "waits");
        assert_eq!(trace.count(Class::Condition, Action::Waiting), waits, "{}", mode.name);
        assert_eq!(trace.count(Class::Condition, Action::Acquired), waits, "{}", mode.name);
        let (signals, sent) =
            (trace.count(Class::Condition, Action::Signalled), printed(&ended.err, "signals"));
        // In cheap mode those that nobody waits for are not recorded.
        let expected = if mode.settings.contended_only { 2..=sent } else { sent..=sent };
        assert!(expected.contains(&signals), "{}: {signals} of {sent}", mode.name);
    }
}

#[test]
fn semaphores_spinlocks_barriers_and_once_answer_the_same() {
    let folder = Folder::new();
    let (subject, modes) = subject(&folder, "semaphore.c");
    let (output, [full, contended, ..]) = subject.compare(modes);
    full.assert_whole();
    assert_eq!(full.count(Class::Semaphore, Action::Acquired), printed(&output, "taken"));
    assert_eq!(full.count(Class::Semaphore, Action::Signalled), printed(&output, "posts"));
    assert_eq!(full.count(Class::Spin, Action::Acquired), 4 * 500 + 1);
    assert_eq!(full.count(Class::Spin, Action::Released), 4 * 500 + 1);
    for trace in [&full, &contended] {
        assert_eq!(trace.count(Class::Barrier, Action::Waiting), 4 * 500);
        assert_eq!(trace.count(Class::Barrier, Action::Acquired), 4 * 500);
        assert!(trace.count(Class::Once, Action::Acquired) >= 1);
    }
}

#[test]
fn locks_of_c11_answer_the_same() {
    let folder = Folder::new();
    let (subject, modes) = subject(&folder, "c11.c");
    let (output, [full, ..]) = subject.compare(modes);
    full.assert_whole();
    // Besides what it took: whoever waits for its turn has the mutex again afterwards.
    assert_eq!(full.count(Class::Mutex, Action::Acquired), printed(&output, "acquired"));
    assert_eq!(full.count(Class::Condition, Action::Signalled), printed(&output, "turns"));
}

#[test]
fn cancelled_threads_unwind_as_they_do_without() {
    let folder = Folder::new();
    let (subject, modes) = subject(&folder, "cancel.c");
    let (_, [full, contended, ..]) = subject.compare(modes);
    for trace in [&full, &contended] {
        assert_eq!(trace.count(Class::Condition, Action::Waiting), 3);
        assert_eq!(trace.count(Class::Condition, Action::Acquired), 0);
        assert_eq!(trace.count(Class::Semaphore, Action::Waiting), 3);
    }
}

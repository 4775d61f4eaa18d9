//! Loading: libraries that come and go, that lock before this one is set up, that wrap the same
//! functions; allocators that lock from the first allocation on; ways to get at functions.

mod support;

use record::{Action, Class, Trouble};
use std::path::{Path, PathBuf};
use support::{Folder, Mode, Subject, Trace, can_compile, compile, program, program_with};

const SHARED: [&str; 2] = ["-shared", "-fPIC"];

fn locks(trace: &Trace) -> usize {
    trace.count(Class::Mutex, Action::Acquired)
}

/// Copies of the plugin under several names: libraries that the linker takes for different ones.
fn plugins(folder: &Folder, names: &[&str]) -> Vec<PathBuf> {
    let names = names.iter().map(|name| format!("{name}.so"));
    names.map(|name| compile(folder, "plugin.c", &name, &SHARED)).collect()
}

#[test]
fn libraries_that_come_and_go_are_told_apart() {
    let folder = Folder::new();
    let plugins = plugins(&folder, &["wanted", "other", "third"]);
    let program = program(&folder, "plugins.c");
    let subject = Subject::new(program).args(["in-turn", "300", "local"]).args(&plugins);
    subject.compare(Mode::all());
    let (_, [wanted, third]) = subject.compare([Mode::only("wanted"), Mode::only("third")]);
    for trace in [wanted, third] {
        trace.assert_whole();
        assert_eq!(locks(&trace), 100 * 5);
        assert_eq!(trace.troubles[Trouble::NameLost as usize], 0);
        // A library that comes back to its old place is not named again.
        assert!(trace.modules.len() < 50, "{} modules", trace.modules.len());
    }
}

#[test]
fn libraries_are_told_apart_with_an_older_c_library_too() {
    let folder = Folder::new();
    let plugins = plugins(&folder, &["wanted", "other"]);
    let older = compile(&folder, "older.c", "older.so", &SHARED);
    let program = program(&folder, "plugins.c");
    let subject = Subject::new(program).args(["in-turn", "40", "local"]).args(&plugins);
    let subject = subject.preload_after(&older);
    let (_, [wanted, full]) = subject.compare([Mode::only("wanted"), Mode::full()]);
    assert_eq!(locks(&wanted), 20 * 5);
    assert_eq!(locks(&full), 40 * 5);
    let named = |name: &str| wanted.modules.iter().any(|(_, file)| file.ends_with(name));
    assert!(named("/wanted.so") && named("/other.so"), "{:?}", wanted.modules);
    assert_eq!(wanted.troubles[Trouble::FunctionMissing as usize], 0);
}

#[test]
fn libraries_may_come_and_go_in_several_threads() {
    let folder = Folder::new();
    let plugins = plugins(&folder, &["plugin-1", "plugin-2", "plugin-3", "plugin-4"]);
    let program = program(&folder, "plugins.c");
    let subject = Subject::new(program).args(["at-once", "250", "local"]).args(&plugins);
    let (_, [full, ..]) = subject.compare(Mode::all());
    full.assert_whole();
    assert_eq!(locks(&full), 1000 * 5);
    assert_eq!(full.troubles[Trouble::NameLost as usize], 0);
}

#[test]
fn library_that_is_bound_to_itself_works_and_is_not_seen() {
    let folder = Folder::new();
    let plugins = plugins(&folder, &["plugin"]);
    let program = program(&folder, "plugins.c");
    let subject = Subject::new(program).args(["in-turn", "10", "deep"]).args(&plugins);
    let (_, [full]) = subject.compare([Mode::full()]);
    assert_eq!(full.locks(), 0);
}

#[test]
fn what_locks_before_the_constructors_is_recorded() {
    let folder = Folder::new();
    let library = compile(&folder, "early.c", "libearly.so", &SHARED);
    let folder_name = library.parent().expect("a folder").to_str().expect("a path in UTF-8");
    let link = [format!("-L{folder_name}"), "-learly".into(), format!("-Wl,-rpath,{folder_name}")];
    let program = compile(&folder, "early-user.c", "early-user", &link);
    for now in ["", "1"] {
        let subject = Subject::new(&program).env("LD_BIND_NOW", now);
        subject.compare(Mode::all());
        let (_, [trace]) = subject.compare([Mode::only("libearly")]);
        trace.assert_whole();
        // The constructor, its thread, and a child that was forked there.
        assert_eq!(locks(&trace), 300);
        assert_eq!(trace.processes.len(), 2);
    }
}

#[test]
fn other_preloaded_libraries_keep_their_place() {
    let folder = Folder::new();
    let program = program(&folder, "wrapped.c");
    let mut sysv = SHARED.to_vec();
    sysv.push("-Wl,--hash-style=sysv");
    for (name, flags) in [("gnu.so", SHARED.to_vec()), ("sysv.so", sysv)] {
        let wrapper = compile(&folder, "wrapper.c", name, &flags);
        for subject in [
            Subject::new(&program).preload_before(&wrapper),
            Subject::new(&program).preload_after(&wrapper),
        ] {
            let (output, _) = subject.compare(Mode::all());
            assert_eq!(output, "wrapper: 1000 locked, 1000 unlocked, 3 waited\n");
            let (_, [trace]) = subject.compare([Mode::full()]);
            assert_eq!(locks(&trace), 1000);
            // The wrapper asks for a version of this one, and goes past the hook when it is first.
            assert!([0, 3].contains(&trace.count(Class::Condition, Action::Waiting)));
        }
    }
}

#[test]
fn next_library_sees_called_what_the_program_calls() {
    let folder = Folder::new();
    let mut all = SHARED.to_vec();
    all.push("-DALL");
    let (some, all) = (
        compile(&folder, "shim.c", "libsome.so", &SHARED),
        compile(&folder, "shim.c", "all.so", &all),
    );
    let folder_name = some.parent().expect("a folder").to_str().expect("a path in UTF-8");
    let link = ["-Wl,--no-as-needed", "-L", folder_name, "-lsome", "-Wl,-rpath", folder_name];
    let linked = compile(&folder, "shimmed.c", "linked", &link);
    let preloaded = program(&folder, "shimmed.c");
    for (subject, more) in
        [(Subject::new(linked), 0), (Subject::new(preloaded).arg("all").preload_after(&all), 50)]
    {
        let (_, [full, contended, ..]) = subject.compare(Mode::all());
        full.assert_whole();
        // By somebody whose wait timed out.
        for trace in [&full, &contended] {
            assert!(trace.count(Class::Mutex, Action::Waiting) >= more);
            assert!(trace.count(Class::Mutex, Action::Failed) >= more);
        }
        assert_eq!(full.count(Class::Spin, Action::Acquired), 50);
        assert_eq!(full.count(Class::Read, Action::Acquired), 70);
        assert_eq!(full.count(Class::Write, Action::Acquired), 90 + more);
        assert_eq!(full.count(Class::Semaphore, Action::Acquired), 90 + more);
        // Of both kinds; attempts, waits with a limit, and before those that time out.
        assert_eq!(full.count(Class::Mutex, Action::Acquired), 90 + 90 + 3 * more);
    }
}

#[test]
fn searches_for_functions_find_what_they_find_without() {
    let folder = Folder::new();
    let program = program_with(&folder, "symbols.c", &["-rdynamic"]);
    let (output, _) = Subject::new(program).compare(Mode::all());
    let line = "\"cuInit\": default not found, with a reason, next not found, with a reason, \
        own not found, with a reason";
    assert!(output.starts_with(line), "{output}");
}

#[test]
fn callbacks_of_the_dynamic_linker_may_wait_for_locks() {
    let folder = Folder::new();
    let plugins = plugins(&folder, &["plugin"]);
    let program = program(&folder, "callbacks.c");
    let subject = Subject::new(program).args(&plugins);
    let (_, [full, ..]) = subject.compare(Mode::all());
    full.assert_whole();
    assert!(locks(&full) >= 11 + 4);
}

/// Returns the path of a library of Debian's; None if it is not there.
fn installed(name: &str) -> Option<PathBuf> {
    let path = Path::new("/usr/lib/x86_64-linux-gnu").join(name);
    let is_there = path.exists();
    if !is_there {
        eprintln!("SKIP: there is no {}", path.display());
    }
    is_there.then_some(path)
}

#[test]
fn other_allocators_work_before_and_behind_this_library() {
    let folder = Folder::new();
    let program = program(&folder, "allocator.c");
    let found = ["libjemalloc.so.2", "libtcmalloc_minimal.so.4"].into_iter().filter_map(installed);
    for allocator in found {
        for subject in [
            Subject::new(&program).preload_before(&allocator),
            Subject::new(&program).preload_after(&allocator),
        ] {
            let [full, contended, default] = Mode::all();
            let modes = [full, contended, default, Mode::only("allocator")];
            let (output, [full, _, _, own]) = subject.compare(modes);
            assert_eq!(output, "wrong 0, the child 0\n");
            assert!(full.lost + locks(&full) as u64 >= 5 * 8_000, "{} locks", locks(&full));
            assert_eq!(full.torn, 0);
            own.assert_whole();
            assert_eq!(locks(&own), 5 * 8_000);
        }
    }
}

#[test]
fn program_with_thread_sanitizer_works() {
    let folder = Folder::new();
    let flag = "-fsanitize=thread";
    // The sanitizer's own needs: some machines place memory where it wants none.
    let usable = |path: &Path| Subject::new(path).bare().status.success();
    if !can_compile(&folder, &[flag]) || !usable(&folder.path("empty")) {
        eprintln!("SKIP: there is no thread sanitizer");
        return;
    }
    let path = program_with(&folder, "allocator.c", &[flag]);
    let (output, [full, ..]) = Subject::new(&path).compare(Mode::all());
    assert_eq!(output, "wrong 0, the child 0\n");
    full.assert_whole();
    assert!(locks(&full) >= 5 * 8_000);
}

#[test]
fn program_with_address_sanitizer_works_when_it_is_told_not_to_insist_on_being_first() {
    let folder = Folder::new();
    if !can_compile(&folder, &["-fsanitize=address"]) {
        eprintln!("SKIP: there is no address sanitizer");
        return;
    }
    let path = program_with(&folder, "allocator.c", &["-fsanitize=address"]);
    let subject = Subject::new(&path).env("ASAN_OPTIONS", "verify_asan_link_order=0");
    let (_, [own]) = subject.compare([Mode::only("allocator")]);
    assert_eq!(locks(&own), 5 * 8_000);
    subject.compare(Mode::all());
    // Otherwise it refuses to run, and says why: a preloaded library comes before it.
    let refused = Subject::new(&path).uninvited();
    assert!(!refused.status.success());
    assert!(refused.err.contains("ASan runtime does not come first"), "{}", refused.err);
}

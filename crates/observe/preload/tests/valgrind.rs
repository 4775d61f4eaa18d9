//! Valgrind: a program that it runs is left alone, and its tools see what they see without the
//! library.

mod support;

use record::Trouble;
use record::guard::GuardCount;
use support::{Folder, Mode, Recorder, Subject, program, run};

#[test]
fn programs_under_valgrind_are_left_alone_and_its_tools_find_nothing_more() {
    let folder = Folder::new();
    let program = program(&folder, "contended.c");
    for tool in ["memcheck", "helgrind", "drd"] {
        let subject = Subject::new("sh")
            .args(["-c", "exec \"$@\"", "sh", "valgrind", "-q", "--trace-children=yes"])
            .args([format!("--tool={tool}"), "--error-exitcode=99".to_owned()])
            .arg(&program);
        let bare = subject.bare();
        if bare.status.code() == Some(127) {
            eprintln!("SKIP: there is no valgrind");
            return;
        }
        assert_eq!(bare.status.code(), Some(3), "{tool}: {}", bare.err);
        let [inherit, .., recorded] = Mode::guarded();
        for mode in [Mode::full(), inherit, recorded] {
            let recorder = Recorder::new(&mode);
            let ended = run(&mut recorder.invite(&subject));
            assert_eq!(ended, bare, "{tool}, {}", mode.name);
            let side = recorder.recording().side();
            assert_eq!(side.troubles()[Trouble::Valgrind as usize], 1, "{tool}, {}", mode.name);
            let intercepted = side.guard_counts()[GuardCount::Intercepted as usize];
            assert_eq!(intercepted, u64::from(mode.settings.guard.is_some()), "{}", mode.name);
            recorder.finish();
        }
    }
}

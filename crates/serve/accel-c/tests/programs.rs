//! Real programs in C and C++, compiled with all warnings as errors, against a real server.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::Stdio;
use support::{Language, Library, expect_success, program, repository};

const C: Language = Language::C("c99");
const CPP: Language = Language::Cpp("c++17");

#[test]
fn c_example_adds_vectors_with_both_libraries() {
    let server = support::server();
    for library in [Library::Shared, Library::Static] {
        let example = program(C, library, &repository("examples/c/vector_add.c"));
        let output = expect_success(&example.run(server.socket()));
        let expected = "run: 10000 sums are right\n\
                        submit and wait: 10000 sums are right\n\
                        submit and poll: 10000 sums are right\n\
                        a wrong range: KEEPTIME_FAILED, out of range\n";
        assert_eq!(output, expected, "{library:?}");
    }
}

#[test]
fn cpp_example_multiplies_matrices_with_both_libraries() {
    let server = support::server();
    for library in [Library::Shared, Library::Static] {
        let example = program(CPP, library, &repository("examples/cpp/matmul.cpp"));
        let output = expect_success(&example.run(server.socket()));
        let expected = "run: all 4096 elements are right\n\
                        submit: all 4096 elements are right\n\
                        unknown service: KEEPTIME_REFUSED\n";
        assert_eq!(output, expected, "{library:?}");
    }
}

#[test]
fn examples_say_that_there_is_no_server() {
    for (language, source) in [(C, "examples/c/vector_add.c"), (CPP, "examples/cpp/matmul.cpp")] {
        let output =
            program(language, Library::Shared, &repository(source)).run(Path::new("/nonexistent"));
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{source}: {text}");
        assert!(text.contains("no accelerator server at /nonexistent"), "{source}: {text}");
    }
}

#[test]
fn misuse_is_an_error_and_never_a_crash() {
    let server = support::server();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/misuse.c");
    let output = expect_success(&program(C, Library::Shared, &source).run(server.socket()));
    assert_eq!(output, "0 mistakes, 2 sessions opened\n");
}

#[test]
fn set_user_id_program_does_not_look_where_its_caller_says() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/secure.c");
    let built = program(C, Library::Static, &source);
    let evil = Path::new("/evil.sock");
    let text = expect_success(&built.run(evil));
    assert!(text.contains("no accelerator server at /evil.sock"), "{text}");
    let own = std::env::temp_dir().join(support::fresh("secure").file_name().expect("a name"));
    let copied = std::process::Command::new("cp").arg(built.path()).arg(&own).status();
    assert!(copied.expect("cp starts").success());
    let made = chown(&own, Some(0), Some(0))
        .and_then(|()| std::fs::set_permissions(&own, PermissionsExt::from_mode(0o4755)));
    if made.is_err() {
        eprintln!("SKIP: only root can make a program of root's");
        return;
    }
    let mut command = std::process::Command::new(&own);
    command.env("KEEPTIME_SOCKET", evil).env("XDG_RUNTIME_DIR", "/evil").current_dir("/");
    let text = expect_success(&command.uid(65533).gid(65533).output().expect("it starts"));
    std::fs::remove_file(&own).expect("it is ours");
    assert!(!text.contains("evil"), "{text}");
    assert!(text.contains("/run/keeptime/keeptime.sock") || text == "connected\n", "{text}");
}

#[test]
fn cpp_classes_own_what_they_hold() {
    let server = support::server();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrapper.cpp");
    for language in [CPP, Language::Cpp("c++20")] {
        let program = program(language, Library::Shared, &source);
        assert_eq!(expect_success(&program.run(server.socket())), "0 mistakes\n");
    }
    assert_eq!(server.counters().registrations, 0, "a registration outlived its callback");
}

#[test]
fn client_survives_a_restart_of_the_server_with_its_memory() {
    let socket = support::socket();
    let server = support::server_at(&socket);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/restart.c");
    let program = program(C, Library::Shared, &source);
    let mut command = program.command(&socket);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut go = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || lines.next().expect("a line").unwrap();
    assert_eq!(next(), "served");
    drop(server);
    go.write_all(b"\n").unwrap();
    assert_eq!(next(), "alone: KEEPTIME_NO_SERVER");
    let _server = support::server_at(&socket);
    go.write_all(b"\n").unwrap();
    assert_eq!(next(), "served again: the memory is the same, the old ticket KEEPTIME_SERVER_LOST");
    assert!(child.wait().unwrap().success());
}

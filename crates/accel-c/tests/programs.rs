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

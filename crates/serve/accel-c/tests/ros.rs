//! The package `crates/ros/keeptime_ros`, compiled against headers that stand in for rclcpp, in the forms
//! of Humble and of Jazzy. ROS 2 itself is on none of the machines that run this.

mod support;

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Output;
use support::{Language, Library, Program, compiler, expect_success, linked, repository};

/// Options of the compiler for the stand-in of each distribution.
const DISTRIBUTIONS: [(&str, &[&str]); 2] =
    [("Humble", &[]), ("Jazzy", &["-DKEEPTIME_STAND_IN_JAZZY"])];

/// A source of the package with its library.
fn program(source: &str, distribution: &[&str]) -> Program {
    let package = repository("crates/ros/keeptime_ros");
    let mut command = compiler(Language::Cpp("c++17"));
    command.args(distribution);
    command.arg("-I").arg(package.join("include")).arg("-I").arg(package.join("test/stand_in"));
    command.args(["src/chain.cpp", "src/executor.cpp", source].map(|file| package.join(file)));
    linked(command, Library::Shared)
}

/// Runs a program with parameters of its nodes.
fn run(program: &Program, socket: &Path, parameters: &[&str]) -> Output {
    let mut command = program.command(socket);
    command.arg("--ros-args");
    for parameter in parameters {
        command.args(["-p", parameter]);
    }
    command.output().expect("the program starts")
}

#[test]
fn ready_callback_of_the_most_critical_chain_runs_each_time_anew() {
    // As colcon's test of the package has them.
    let text =
        |file| std::fs::read_to_string(repository("crates/ros/keeptime_ros/test").join(file));
    let arguments = text("order.arguments").expect("the arguments");
    let expected = text("order.expected").expect("what it says");
    for (name, distribution) in DISTRIBUTIONS {
        let program = program("test/order.cpp", distribution);
        let mut command = program.command(Path::new("/nonexistent"));
        let output = command.args(arguments.split_whitespace()).output();
        let output = output.expect("the program starts");
        let text = expect_success(&output);
        let scheduling = text.strip_prefix(&expected).unwrap_or_else(|| panic!("{name}: {text}"));
        let warnings = String::from_utf8_lossy(&output.stderr);
        // SCHED_FIFO is policy 1: the machine allows it, or a warning says that it does not.
        if scheduling != "policy 1, priority 40\n" {
            assert_eq!(scheduling, "policy 0, priority 0\n", "{name}");
            let refusal = "cannot have SCHED_FIFO priority 40: Operation not permitted";
            assert!(warnings.contains(refusal), "{name}: {warnings}");
        }
        let warning = "the executor's thread cannot be kept on core 4095: Invalid argument; \
                       callbacks run all the same";
        assert!(warnings.contains(warning), "{name}: {warnings}");
    }
}

#[test]
fn callbacks_request_an_accelerator_waiting_and_not_waiting() {
    let user = std::fs::metadata("/proc/self").expect("this process").uid();
    let access = format!(", access: [{{user: {user}, priority: [0, 9]}}]");
    let server = support::server_with(&support::socket(), &access);
    let undeclared = ["jobs:=5"];
    let declared = [
        "jobs:=5",
        "keeptime.chain:=vision",
        "keeptime.priority:=7",
        "keeptime.period_ms:=1000",
        "keeptime.core:=0",
        "keeptime.process_priority:=0",
    ];
    let mut done = 0;
    for (name, distribution) in DISTRIBUTIONS {
        let program = program("examples/detector.cpp", distribution);
        for (parameters, chain) in [(&undeclared[..], "/detector"), (&declared[..], "vision")] {
            let output = expect_success(&run(&program, server.socket(), parameters));
            assert_eq!(output, format!("[INFO] [detector]: {chain}: 5 jobs, 0 wrong sums\n"));
            done += 2 * 5;
            assert_eq!(server.counters().done, done, "{name}: one request each way for each job");
        }
        for (parameter, refusal) in [
            ("keeptime.priority:=10", "priority 10"),
            ("keeptime.deadline_ms:=0.001", "chain \"vision\""),
        ] {
            let refused = run(&program, server.socket(), &[&declared[..], &[parameter]].concat());
            let text = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(2), "{text}");
            assert!(text.contains("the accelerator server refused"), "{name}: {text}");
            assert!(text.contains(refusal), "{name}, {parameter}: {text}");
        }
        let lost = run(&program, Path::new("/nonexistent"), &undeclared);
        let text = String::from_utf8_lossy(&lost.stderr);
        assert_eq!(lost.status.code(), Some(2), "{text}");
        assert!(text.contains("no accelerator server at /nonexistent"), "{name}: {text}");
    }
    assert_eq!(server.counters().registrations, 0, "a registration outlived its node");
}

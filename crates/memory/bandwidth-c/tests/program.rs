//! A C program that takes the lock by hand, linked to either library, as C and as C++.

use bandwidth::holders::Config;
use bandwidth::{Ceiling, Holders};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Libraries that a static library of Rust needs in addition.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lgcc_s"];

fn compile(compiler: [&str; 3], library: &[String]) -> PathBuf {
    let [program, standard, language] = compiler;
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!(
        "bandwidth-{}-{language}-{}",
        std::process::id(),
        library.len()
    ));
    let status = Command::new(program)
        .args([standard, "-Wall", "-Wextra", "-pedantic", "-Werror", "-Wshadow", "-Wconversion"])
        .args(["-I", &format!("{ROOT}/include"), "-x", language])
        .arg(format!("{ROOT}/tests/program.c"))
        .args(["-x", "none", "-o"])
        .arg(&output)
        .args(library)
        .status();
    assert!(status.expect("a compiler").success());
    output
}

/// Runs the program, and looks at the lock after each of its steps.
fn drive(program: &Path, ceiling: Option<u32>) {
    let name = format!("{}.sock", program.file_name().unwrap().to_string_lossy());
    let socket = std::env::temp_dir().join(name);
    let config = Config { socket: socket.clone(), ceiling, ..Config::default() };
    let holders = Holders::start(config).unwrap();
    let mut child = Command::new(program)
        .env("KEEPTIME_BANDWIDTH", &socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut hear = || lines.next().unwrap().unwrap();
    assert_eq!([hear(), hear()], ["null 1", "missing 1"]);
    let may = |ceiling: &u32| {
        let ceiling = Ceiling::new(*ceiling).unwrap();
        ceiling.raise() && {
            ceiling.restore();
            true
        }
    };
    let expected = ceiling.filter(may).unwrap_or(0);
    let steps = [("opened 0", false), ("held 1234", true), ("anew 0", false), ("held 0", true)];
    for (said, held) in steps.into_iter().chain([("released 0", false)]) {
        assert_eq!(hear(), said);
        assert_eq!(holders.is_held(), held, "after {said:?}");
        let status = holders.status();
        assert_eq!(status.holders.len(), 1, "after {said:?}");
        if said == "held 1234" {
            assert_eq!(priority(child.id()), expected, "the real-time priority of its thread");
        }
        input.write_all(b"\n").unwrap();
    }
    assert!(child.wait().unwrap().success());
    std::fs::remove_file(program).unwrap();
}

/// `rt_priority`, field 40.
fn priority(process: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    let fields = stat.rsplit(')').next().unwrap();
    fields.split_whitespace().nth(37).unwrap().parse().unwrap()
}

#[test]
fn c_program_takes_the_lock_by_hand() {
    let folder = testing::built_folder("keeptime-bandwidth-c");
    let shared = [format!("-L{}", folder.display()), "-lkeeptime_bandwidth".into()];
    let shared = [&shared[..], &[format!("-Wl,-rpath,{}", folder.display())]].concat();
    let fixed = folder.join("libkeeptime_bandwidth.a").display().to_string();
    let fixed = [&[fixed][..], &SYSTEM.map(String::from)].concat();
    for (library, ceiling) in [(&shared, None), (&fixed, None), (&shared, Some(50))] {
        for compiler in [["cc", "-std=c99", "c"], ["c++", "-std=c++11", "c++"]] {
            drive(&compile(compiler, library), ceiling);
        }
    }
}

#[test]
fn library_exports_three_functions() {
    let library = testing::built_folder("keeptime-bandwidth-c").join("libkeeptime_bandwidth.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(library).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split_whitespace().nth(2)).collect();
    let wanted = ["acquire", "open", "release"].map(|name| format!("keeptime_bandwidth_{name}"));
    assert_eq!(names, wanted);
}

//! CPython's own tests, those that have to do with threads, processes and signals, run by Debian's
//! `python3.11`. Each file is a program with many cases.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::attempt::{Outcome, REPORT};
use super::{Cases, Program, Suite, debian_source};
use crate::step::Step;

const PYTHON: &str = "/usr/bin/python3.11";
const LIBRARY: &str = "usr/lib/python3.11/test";

/// Hangs bare, with the interpreter of Debian 12.
const HANGS: &str = "test_4_daemon_threads";

/// The files; those with the most to do with threads first.
const FILES: [&str; 80] = [
    "test_threading",
    "test_thread",
    "test_threading_local",
    "test_threadsignals",
    "test_threadedtempfile",
    "test_queue",
    "test_concurrent_futures",
    "test_multiprocessing_fork",
    "test_multiprocessing_forkserver",
    "test_multiprocessing_spawn",
    "test_multiprocessing_main_handling",
    "test_subprocess",
    "test_signal",
    "test_asyncio",
    "test_ctypes",
    "test_fork1",
    "test_wait3",
    "test_wait4",
    "test_os",
    "test_posix",
    "test_popen",
    "test_pty",
    "test_eintr",
    "test_faulthandler",
    "test_selectors",
    "test_select",
    "test_poll",
    "test_epoll",
    "test_sched",
    "test_io",
    "test_fileio",
    "test_bufio",
    "test_memoryio",
    "test_mmap",
    "test_fcntl",
    "test_socket",
    "test_socketserver",
    "test_ssl",
    "test_httpservers",
    "test_httplib",
    "test_xmlrpc",
    "test_smtplib",
    "test_ftplib",
    "test_telnetlib",
    "test_imaplib",
    "test_poplib",
    "test_urllib2_localnet",
    "test_robotparser",
    "test_docxmlrpc",
    "test_logging",
    "test_gc",
    "test_weakref",
    "test_weakset",
    "test_context",
    "test_contextlib",
    "test_contextlib_async",
    "test_functools",
    "test_importlib",
    "test_embed",
    "test_interpreters",
    "test__xxsubinterpreters",
    "test_atexit",
    "test_cmd_line",
    "test_cmd_line_script",
    "test_decimal",
    "test_zlib",
    "test_bz2",
    "test_lzma",
    "test_hashlib",
    "test_syslog",
    "test_sys",
    "test_sys_settrace",
    "test_sys_setprofile",
    "test_tracemalloc",
    "test_resource",
    "test_time",
    "test_tempfile",
    "test_shutil",
    "test_coroutines",
    "test_generators",
];

pub(super) fn suite(folder: &Path, limit: Duration) -> anyhow::Result<Suite> {
    super::need(&["python3.11"], || Path::new(PYTHON).exists())?;
    let unpacked = debian_source::unpacked_binary(folder, "libpython3.11-testsuite")?;
    let library = library(folder, &unpacked)?;
    let mut programs = Vec::new();
    let mut left_out = vec![format!("{HANGS} of test_threading: hangs bare")];
    for file in FILES {
        let place = library.join("test").join(file);
        if !place.is_dir() && !place.with_extension("py").exists() {
            left_out.push(format!("{file}: not in this version"));
            continue;
        }
        let words = ["-m", "test", "--ignore", HANGS, "--junit-xml", REPORT, file];
        let words = [PYTHON].into_iter().chain(words).map(str::to_owned).collect();
        let mut program = Program::one(file.to_owned(), words, &library, limit);
        program.cases = Cases::Junit;
        program.variables.push(("PYTHONPATH".into(), library.to_string_lossy().into_owned()));
        program.variables.push(("PYTHONDONTWRITEBYTECODE".into(), "1".into()));
        programs.push(program);
    }
    let version = debian_source::source_version("python3.11")?;
    Ok(Suite { programs, version: format!("python3.11 {version}"), left_out })
}

/// A folder with the package `test` alone, of the two packages that Debian splits it into.
fn library(folder: &Path, unpacked: &Path) -> anyhow::Result<PathBuf> {
    let library = folder.join("build/python-test");
    super::once(&folder.join("build/python-test.done"), || {
        std::fs::create_dir_all(&library).with_context(|| library.display().to_string())?;
        for part in [Path::new("/").join(LIBRARY), unpacked.join(LIBRARY)] {
            Step::program("cp").arg("-r").arg(part).arg(&library).run()?;
        }
        Ok(())
    })?;
    Ok(library)
}

/// The cases of a report; none if it is not one, as where the program did not end by itself.
pub(super) fn cases(report: &str) -> Outcome {
    let Ok(document) = roxmltree::Document::parse(report) else { return Outcome::new() };
    let cases = document.descendants().filter(|node| node.has_tag_name("testcase"));
    let mut outcome = Outcome::new();
    for case in cases {
        let name = case.attribute("name").unwrap_or_default().to_owned();
        let has = |name: &str| case.children().any(|child| child.has_tag_name(name));
        let end = ["error", "failure", "skipped"].into_iter().find(|word| has(word));
        let end = end.unwrap_or("passed");
        // A case that stands there twice failed in a part of it: the worse one counts.
        let known = outcome.entry(name).or_insert_with(|| end.to_owned());
        if badness(end) > badness(known) {
            *known = end.to_owned();
        }
    }
    outcome
}

fn badness(end: &str) -> usize {
    let words = ["skipped", "passed", "failure", "error"];
    words.iter().position(|word| *word == end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_from_a_report() {
        let report = r#"<testsuites tests="4"><testsuite>
            <testcase name="t.A.passes" status="run" result="completed" time="0.1"><system-out>x</system-out></testcase>
            <testcase name="t.A.fails" status="run"><failure type="x" message="y">z</failure></testcase>
            <testcase name="t.A.breaks"><error/></testcase>
            <testcase name="t.A.skips"><skipped>why</skipped></testcase>
            </testsuite></testsuites>"#;
        let cases = cases(report);
        let cases: Vec<_> = cases.iter().map(|(name, end)| (&**name, &**end)).collect();
        let expected = [
            ("t.A.breaks", "error"),
            ("t.A.fails", "failure"),
            ("t.A.passes", "passed"),
            ("t.A.skips", "skipped"),
        ];
        assert_eq!(cases, expected);
    }

    #[test]
    fn case_with_parts_is_as_bad_as_the_worst_in_either_order() {
        let parts = ["<testcase name='a'/>", "<testcase name='a'><failure/></testcase>"];
        for parts in [[parts[0], parts[1]], [parts[1], parts[0]]] {
            let cases = cases(&format!("<s>{}</s>", parts.concat()));
            assert_eq!(cases["a"], "failure");
        }
    }

    #[test]
    fn cut_off_report_has_no_cases() {
        assert!(cases("<testsuites><testcase name='a'").is_empty());
        assert!(cases("").is_empty());
    }
}

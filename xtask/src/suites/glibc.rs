//! The C library's own tests of threads and of its real-time functions: built in a build of the
//! installed version's sources, and run with the installed library.
//!
//! The library's make files know with which arguments and variables each test runs. They are asked
//! by a wrapper that stands in for running a test, and writes down what it was to run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;

use super::{Program, Suite, debian_source};
use crate::step::Step;

const FOLDERS: &str = "nptl rt";
/// Between the words of a command, and between commands.
const SEPARATORS: [char; 2] = ['\u{1f}', '\u{1e}'];
/// Tests have time limits of their own, for idle machines.
const PATIENCE: (&str, &str) = ("TIMEOUTFACTOR", "10");
const WRAPPER: &str = r#"#!/bin/bash
words=$(printf '%s\x1f' "$PWD" "$@")
printf '%s\x1e' "$words" >> "${0%/*}/commands"
"#;

pub(super) fn suite(folder: &Path, limit: Duration) -> anyhow::Result<Suite> {
    let version = debian_source::source_version("libc6")?;
    let source = debian_source::unpacked(folder, "glibc", Some(&version))?;
    let build = folder.join("build/glibc");
    let commands = build.join("commands");
    super::once(&folder.join("build/glibc.done"), || {
        super::need(&["gawk", "bison"], || {
            ["gawk", "bison"].iter().all(|name| Path::new("/usr/bin").join(name).exists())
        })?;
        std::fs::create_dir_all(&build).with_context(|| build.display().to_string())?;
        Step::program(source.join("configure"))
            .args(["--quiet", "--prefix=/usr", "--disable-werror", "--disable-profile"])
            .folder(&build)
            .run()?;
        Step::program("make").args(["--silent", "-j2"]).folder(&build).run()
    })?;
    super::once(&folder.join("build/glibc-tests.done"), || {
        let wrapper = build.join("wrapper");
        std::fs::write(&wrapper, WRAPPER)?;
        Step::program("chmod").arg("+x").arg(&wrapper).run()?;
        // No result is looked at, so it does not matter that some tests miss an output.
        Step::program("make")
            .args(["--silent", "-j2", "-k", "check"])
            .arg(format!("subdirs={FOLDERS}"))
            .arg(format!("test-wrapper={}", wrapper.display()))
            .folder(&build)
            .ends()
    })?;
    let text = std::fs::read_to_string(&commands);
    let text = text.with_context(|| commands.display().to_string())?;
    let mut programs = programs(&text, &build, limit);
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    programs.dedup_by(|one, other| one.name == other.name && one.command == other.command);
    Ok(Suite { programs, version: format!("glibc {version}"), left_out: Vec::new() })
}

/// The programs in what the wrapper wrote down: a folder, then `env`, variables, the loader of the
/// build with its options, the program and its arguments.
fn programs(text: &str, build: &Path, limit: Duration) -> Vec<Program> {
    let program = |command: &str| {
        let mut words = command.split(SEPARATORS[0]).map(str::to_owned);
        let folder = PathBuf::from(words.next()?);
        let mut words: Vec<String> = words.filter(|word| !word.is_empty()).collect();
        (words.first()? == "env").then(|| words.remove(0));
        let count = words.iter().take_while(|word| is_variable(word)).count();
        let variables = words.drain(..count).filter_map(|word| {
            let (name, value) = word.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        });
        let variables = variables.collect();
        let command = without_loader(&words, build);
        let name = Path::new(command.first()?).strip_prefix(build).ok()?;
        // Not the programs of the build that other tests start.
        if !name.file_name()?.to_string_lossy().starts_with("tst") {
            return None;
        }
        let name = name.to_string_lossy().into_owned();
        let mut program = Program::one(name, command, &folder, limit);
        program.variables = variables;
        program.variables.push((PATIENCE.0.into(), PATIENCE.1.into()));
        // Beside a test lie the libraries that it loads; the C library itself does not.
        let beside = Path::new(&program.command[0]).parent().unwrap_or(build);
        let beside = beside.to_string_lossy().into_owned();
        program.variables.push(("LD_LIBRARY_PATH".into(), beside));
        Some(program)
    };
    text.split(SEPARATORS[1]).filter_map(program).collect()
}

fn is_variable(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    })
}

/// A command without the loader of the build, anywhere in it: `LOADER --library-path PATH PROGRAM`
/// becomes `PROGRAM`.
fn without_loader(words: &[String], build: &Path) -> Vec<String> {
    let loader = build.join("elf/ld-linux-x86-64.so.2");
    let loader = loader.to_string_lossy();
    let mut left = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word != loader {
            left.push(cut(word, &format!("{loader} --library-path ")));
            continue;
        }
        if words.as_slice().first().is_some_and(|word| word == "--library-path") {
            words.by_ref().take(2).for_each(drop);
        }
    }
    left
}

/// A command in one word, as some tests are given it, without `start` and the path behind it.
fn cut(word: &str, start: &str) -> String {
    let mut parts = word.split(start);
    let mut left = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        left += part.split_once(' ').map_or("", |(_, rest)| rest);
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_lose_the_loader_and_keep_variables_and_arguments() {
        let build = Path::new("/b");
        let text = "/s/nptl\u{1f}env\u{1f}LC_ALL=C\u{1f}GCONV_PATH=/b/iconvdata\u{1f}\
                    /b/elf/ld-linux-x86-64.so.2\u{1f}--library-path\u{1f}/b:/b/math\u{1f}\
                    /b/nptl/tst-cond1\u{1f}--x=y\u{1f}\
                    exec /b/elf/ld-linux-x86-64.so.2 --library-path /b /b/nptl/tst-cond1 -r\u{1e}\
                    /s/nptl\u{1f}env\u{1f}/b/nptl/tst-static\u{1e}\
                    /s\u{1f}env\u{1f}/b/elf/ld-linux-x86-64.so.2\u{1f}/b/locale/localedef\u{1e}";
        let programs = programs(text, build, Duration::from_secs(1));
        let [cond, fixed] = &*programs else { panic!("{programs:?}") };
        assert_eq!(cond.name, "nptl/tst-cond1");
        assert_eq!(cond.command, ["/b/nptl/tst-cond1", "--x=y", "exec /b/nptl/tst-cond1 -r"]);
        assert_eq!(cond.folder, Path::new("/s/nptl"));
        let variables = [
            ("LC_ALL", "C"),
            ("GCONV_PATH", "/b/iconvdata"),
            PATIENCE,
            ("LD_LIBRARY_PATH", "/b/nptl"),
        ];
        assert_eq!(cond.variables, variables.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert_eq!(fixed.command, ["/b/nptl/tst-static"]);
    }
}

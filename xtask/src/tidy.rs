//! `cargo xtask tidy`: what a reviewer should not have to look for.
//!
//! - The format and the lints are clean.
//! - Every crate is named in ARCHITECTURE.md, and every crate that it names exists.
//! - No file names a place on one developer's machine.
//! - Long source files are listed; that is a warning.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::security;
use crate::step::Step;

const LONG_LINES: usize = 700;
/// Other people's sources.
const VENDORED: &str = "vendor/";
/// Written in two halves, so that this file passes its own check.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Runs every check, and fails after the last if one of them failed.
pub fn run() -> anyhow::Result<()> {
    let mut failures = Vec::new();
    let mut steps = vec![
        Step::cargo("fmt --all --check"),
        Step::cargo("clippy --workspace --all-targets -- -D warnings"),
    ];
    // The same again for what is in no ordinary build.
    match security::feature() {
        Some(feature) => steps.push(
            Step::cargo("clippy -p ros -p cli --all-targets --features")
                .arg(feature)
                .args(["--", "-D", "warnings"]),
        ),
        None => eprintln!("==> SKIP: the lints of DDS security: {}", security::MISSING),
    }
    for step in steps {
        failures.extend(step.run().err().map(|error| error.to_string()));
    }
    eprintln!("==> crates named in ARCHITECTURE.md");
    failures.extend(architecture(&crate::root())?);
    eprintln!("==> machine paths and long files");
    for (path, text) in tracked_texts(&crate::root())? {
        failures.extend(machine_paths(&path, &text));
        let lines = text.lines().count();
        if path.ends_with(".rs") && lines > LONG_LINES {
            eprintln!("warning: {path} has {lines} lines");
        }
    }
    for failure in &failures {
        eprintln!("tidy: {failure}");
    }
    match failures.len() {
        0 => Ok(()),
        1 => bail!("1 thing is not tidy"),
        count => bail!("{count} things are not tidy"),
    }
}

fn architecture(root: &Path) -> anyhow::Result<Vec<String>> {
    let Ok(page) = std::fs::read_to_string(root.join("ARCHITECTURE.md")) else {
        return Ok(vec!["ARCHITECTURE.md is missing".into()]);
    };
    let mut crates = BTreeSet::new();
    for entry in std::fs::read_dir(root.join("crates"))? {
        let entry = entry?;
        if entry.path().join("Cargo.toml").exists() {
            crates.insert(entry.file_name().to_string_lossy().into_owned());
        }
    }
    let named = named_crates(&page);
    let unnamed = crates
        .difference(&named)
        .map(|name| format!("ARCHITECTURE.md does not name crates/{name}"));
    let absent = named
        .difference(&crates)
        .map(|name| format!("ARCHITECTURE.md names crates/{name}, which does not exist"));
    Ok(unnamed.chain(absent).collect())
}

/// The crates that a page names: as `crates/NAME` anywhere, or as the first word of a line that is
/// indented below a line `crates/`.
fn named_crates(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut indent = None;
    let mut listing = false;
    for line in page.lines() {
        for (at, prefix) in line.match_indices("crates/") {
            names.insert(first_name(&line[at + prefix.len()..]));
        }
        let depth = line.len() - line.trim_start().len();
        if line.trim_start().starts_with("crates/") {
            (listing, indent) = (true, None);
        } else if line.trim().is_empty() || depth == 0 {
            listing = false;
        } else if listing && depth == *indent.get_or_insert(depth) {
            names.insert(first_name(line.trim_start()));
        }
    }
    names.remove("");
    names
}

fn first_name(text: &str) -> String {
    let is_part = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    text.chars().take_while(is_part).collect()
}

fn machine_paths(path: &str, text: &str) -> Vec<String> {
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(index, line)| {
            let found = MACHINE_PATHS.iter().find(|place| names_place(line, place))?;
            Some(format!("{path}:{}: names a place on one machine ({found})", index + 1))
        })
        .collect()
}

/// Returns true if `line` has `place` where a path begins, and not in the middle of a longer one.
fn names_place(line: &str, place: &str) -> bool {
    line.match_indices(place).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/'))
    })
}

/// All files under version control, and new ones that are not ignored, that hold text and are ours.
fn tracked_texts(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("cannot start git")?;
    if !output.status.success() {
        bail!("git ls-files: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let ours = |name: &&str| !name.starts_with(VENDORED);
    // A file that cannot be read as text is a deleted or a binary file.
    let read = |name: &str| Some((name.to_owned(), std::fs::read_to_string(root.join(name)).ok()?));
    Ok(names.split_terminator('\0').filter(ours).filter_map(read).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_are_read_from_paths_and_from_the_listing() {
        let page = "See crates/shm/src/lib.rs and `crates/accel-c`.\n\
                    ```\ncrates/\n  shm      memory\n  device   accelerators\n           of all kinds\n\
                    xtask/     tasks\n  other    nothing\n```\n";
        let named: Vec<_> = named_crates(page).into_iter().collect();
        assert_eq!(named, ["accel-c", "device", "shm"]);
    }

    #[test]
    fn machine_paths_are_found_only_where_a_path_begins() {
        let place = MACHINE_PATHS[0];
        assert_eq!(machine_paths("a.md", &format!("fine\ncd {place}main")).len(), 1);
        assert_eq!(machine_paths("a.md", &format!("see \"{place}x\"")).len(), 1);
        assert!(machine_paths("a.md", &format!("https://example.org{place}x")).is_empty());
        assert!(machine_paths("a.md", &format!("target{place}x")).is_empty());
    }
}

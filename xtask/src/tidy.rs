//! `cargo xtask tidy`: what a reviewer should not have to look for.
//!
//! - The format, the lints and the documentation are clean.
//! - Every crate is named in ARCHITECTURE.md or lab/ARCHITECTURE.md, and every crate that they name
//!   exists; their lists of dependencies are those of the manifests, and the versions in their tables
//!   of formats those of the code.
//! - No file names a place on one developer's machine.
//! - No source file is longer than 700 lines.
//! - Each link of a page leads to a file that is there, and to a heading that it has; each page of
//!   `docs` is a page of the site, and so is each page that it links to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use crate::debian;
use crate::docs;
use crate::links;
use crate::security;
use crate::step::Step;

const MOST_LINES: usize = 700;
/// Other people's sources.
const VENDORED: &str = "vendor/";
/// Written in two halves, so that this file passes its own check.
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];

/// Runs every check, and fails after the last if one of them failed.
pub(crate) fn run() -> anyhow::Result<()> {
    let mut failures = Vec::new();
    let features = security::features();
    let mut steps = Vec::new();
    if has("fmt") {
        steps.push(Step::cargo("fmt --all --check"));
    }
    if has("clippy") {
        // The typesetter of one report is left out: it takes longer than the rest.
        let all = Step::cargo("clippy --workspace --all-targets --no-default-features --features");
        steps.push(all.arg(&features).args(["--", "-D", "warnings"]));
        // The tool as it is built without features.
        steps.push(Step::cargo("clippy -p keeptime -- -D warnings"));
    }
    let pages = Step::cargo("doc --workspace --no-deps --no-default-features --features");
    steps.push(pages.arg(&features).env("RUSTDOCFLAGS", "-D warnings"));
    for step in steps {
        failures.extend(step.run().err().map(|error| error.to_string()));
    }
    eprintln!("==> crates, arrows and formats of ARCHITECTURE.md");
    failures.extend(architecture(&crate::root())?);
    eprintln!("==> machine paths and long files");
    for (path, text) in tracked_texts(&crate::root())? {
        failures.extend(machine_paths(&path, &text));
        let lines = text.lines().count();
        if path.ends_with(".rs") && lines > MOST_LINES {
            failures.push(format!("{path} has {lines} lines, at most {MOST_LINES} are allowed"));
        }
    }
    eprintln!("==> links of the pages");
    failures.extend(broken_links(&crate::root())?);
    for failure in &failures {
        eprintln!("tidy: {failure}");
    }
    match failures.len() {
        0 => Ok(()),
        1 => bail!("found 1 problem, expected none"),
        count => bail!("found {count} problems, expected none"),
    }
}

/// Returns a line for each link of a page that leads nowhere.
fn broken_links(root: &Path) -> anyhow::Result<Vec<String>> {
    let texts = tracked_texts(root)?;
    let pages =
        texts.iter().filter(|(path, _)| path.ends_with(".md") && !path.starts_with("results/"));
    let pages = pages.map(|(path, text)| (path.clone(), links::page(path, text))).collect();
    let mut broken = links::broken(root, &pages);
    broken.extend(docs::outside(root)?);
    Ok(broken)
}

/// Returns true if cargo has this part; a line says so where it has not.
fn has(part: &str) -> bool {
    let has = debian::runs(Command::new("cargo").args([part, "--version"]));
    if !has {
        eprintln!("==> SKIP: cargo {part}: rustup component add rustfmt clippy");
    }
    has
}

fn architecture(root: &Path) -> anyhow::Result<Vec<String>> {
    let mut page = String::new();
    for name in ["ARCHITECTURE.md", "lab/ARCHITECTURE.md"] {
        page += &std::fs::read_to_string(root.join(name)).context(name)?;
    }
    let Workspace { folders, arrows } = workspace(root)?;
    let named = named_folders(&page);
    let mut failures = Vec::new();
    failures.extend(folders.difference(&named).map(|of| format!("the code map lacks {of}")));
    let absent = named.iter().filter(|folder| !root.join(folder).exists());
    failures
        .extend(absent.map(|folder| format!("the code map names {folder}, which is not there")));
    let drawn = arrows_of(&page);
    let edges = |map: &BTreeMap<String, BTreeSet<String>>| -> BTreeSet<String> {
        let edges = map.iter().flat_map(|(from, to)| to.iter().map(move |to| (from, to)));
        edges.map(|(from, to)| format!("{from} -> {to}")).collect()
    };
    let (real, drawn) = (edges(&arrows), edges(&drawn));
    failures.extend(real.difference(&drawn).map(|edge| format!("no arrow for {edge}")));
    failures.extend(drawn.difference(&real).map(|edge| format!("{edge} is in no manifest")));
    failures.extend(formats(root, &page, &folders)?);
    Ok(failures.into_iter().map(|failure| format!("ARCHITECTURE.md: {failure}")).collect())
}

/// Compares the tables of formats with the constants `VERSION` of the code.
fn formats(root: &Path, page: &str, folders: &BTreeSet<String>) -> anyhow::Result<Vec<String>> {
    let mut failures = Vec::new();
    let mut named = BTreeSet::new();
    for (files, version) in formats_of(page) {
        let mut found = Vec::new();
        for file in files {
            let (name, rest) = file.split_once('/').unwrap_or_default();
            let folder = folders.iter().find(|folder| folder.rsplit('/').next() == Some(name));
            let Some(folder) = folder else {
                failures.push(format!("the table of formats names {file}: there is no such crate"));
                continue;
            };
            let path = format!("{folder}/{rest}");
            let text = std::fs::read_to_string(root.join(&path)).with_context(|| path.clone())?;
            found.extend(versions(&text).into_iter().map(|(_, number)| number));
            named.insert(path);
        }
        if !found.contains(&version) {
            failures.push(format!("a format has version {version}, its files {found:?}"));
        }
    }
    for (path, text) in tracked_texts(root)? {
        let is_source = path.ends_with(".rs") && path.contains("/src/");
        let has_version = is_source && versions(&text).iter().any(|(name, _)| name == "VERSION");
        if has_version && !named.contains(&path) {
            failures.push(format!("the tables of formats lack {path}, which has a VERSION"));
        }
    }
    Ok(failures)
}

/// Source files and version of each row of the tables of formats: those that name a source file.
fn formats_of(page: &str) -> Vec<(Vec<String>, u32)> {
    let tables = page.split("\n## Formats with a version\n").skip(1);
    let rows = tables.flat_map(|table| table.split("\n## ").next().unwrap_or_default().lines());
    rows.filter_map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split('|').collect();
        let [_, pages, version] = cells[..] else { return None };
        let files = pages.split('`').skip(1).step_by(2);
        let files: Vec<String> =
            files.filter(|file| file.ends_with(".rs")).map(str::to_owned).collect();
        let digits: String = version.trim().chars().take_while(char::is_ascii_digit).collect();
        (!files.is_empty()).then_some((files, digits.parse().ok()?))
    })
    .collect()
}

/// Integer constants whose names end in `VERSION`, with their values.
fn versions(text: &str) -> Vec<(String, u32)> {
    let constants = text.lines().filter_map(|line| line.split_once("const ")?.1.split_once(": u"));
    constants
        .filter(|(name, _)| name.ends_with("VERSION"))
        .filter_map(|(name, rest)| {
            let value = rest.split_once("= ")?.1.trim_end_matches(';').parse().ok()?;
            Some((name.to_owned(), value))
        })
        .collect()
}

/// The crates of the workspace but this one, and what is for fuzzing.
struct Workspace {
    /// Folders, from the root.
    folders: BTreeSet<String>,
    /// Other crates of the workspace that each crate needs, tests aside.
    arrows: BTreeMap<String, BTreeSet<String>>,
}

fn workspace(root: &Path) -> anyhow::Result<Workspace> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("cannot start cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("cargo metadata without packages")?;
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let folder = |package: &serde_json::Value| {
        let manifest = text(&package["manifest_path"]);
        let folder = Path::new(&manifest).parent()?.strip_prefix(root).ok()?;
        Some(folder.to_string_lossy().into_owned())
    };
    // A crate is called by its folder; its package has the project's name before it.
    let called = |folder: &str| folder.rsplit('/').next().unwrap_or_default().to_owned();
    let crates: BTreeMap<String, String> = packages
        .iter()
        .filter(|package| package["name"] != "xtask")
        .filter_map(|package| Some((text(&package["name"]), folder(package)?)))
        .filter(|(_, folder)| !folder.starts_with("fuzz/"))
        .map(|(name, folder)| (name, called(&folder)))
        .collect();
    let mut workspace = Workspace { folders: BTreeSet::new(), arrows: BTreeMap::new() };
    for package in packages {
        let Some(from) = crates.get(&text(&package["name"])) else { continue };
        workspace.folders.extend(folder(package));
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
        let to = normal.filter_map(|dependency| crates.get(&text(&dependency["name"])).cloned());
        workspace.arrows.insert(from.clone(), to.collect());
    }
    Ok(workspace)
}

/// The folders of crates that the code map names: the first word of a line, or, below a line that
/// is a folder alone, that folder with the first word of each line that is indented once.
fn named_folders(page: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let mut group = None;
    let mut depth = None;
    for line in code_blocks(page).flatten() {
        let indent = line.len() - line.trim_start().len();
        let first = line.split_whitespace().next().unwrap_or_default();
        match (&group, indent) {
            (_, 0) => {
                let crates = first.starts_with("crates/") || first.starts_with("lab/");
                let alone = crates && first.ends_with('/') && line.trim() == first;
                (group, depth) = (alone.then(|| first.to_owned()), None);
                if crates && !alone {
                    names.insert(first.trim_end_matches([',', '/']).to_owned());
                }
            }
            (Some(group), _) if indent == *depth.get_or_insert(indent) => {
                names.insert(format!("{group}{first}"));
            }
            _ => {}
        }
    }
    names
}

/// The arrows in a block that has lines `crate -> crate, crate` and nothing else.
fn arrows_of(page: &str) -> BTreeMap<String, BTreeSet<String>> {
    let is_arrow =
        |line: &&str| line.split_once(" -> ").is_some_and(|(from, _)| !from.contains(' '));
    let is_list = |block: &Vec<&str>| block.iter().all(is_arrow);
    let blocks = code_blocks(page).filter(is_list);
    let lines = blocks.flatten().filter_map(|line| line.split_once(" -> "));
    lines.map(|(from, to)| (from.to_owned(), to.split(", ").map(str::to_owned).collect())).collect()
}

/// The lines of each block of code of a page.
fn code_blocks(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let blocks = page.split("```").skip(1).step_by(2);
    blocks.map(|block| block.lines().skip(1).filter(|line| !line.trim().is_empty()).collect())
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

/// All text files of this project under version control, and new ones that are not ignored.
fn tracked_texts(root: &Path) -> anyhow::Result<Vec<(String, String)>> {
    if !root.join(".git").exists() {
        eprintln!("==> SKIP: content of files: this is not a git checkout");
        return Ok(Vec::new());
    }
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

    const PAGE: &str = "See crates/shm.\n```\ncrates/base/\n  shm      memory\n           of all kinds\n\
                        \x20 name     names\ncrates/cli  the command\nlab/a, b  two\nxtask/ tasks\n```\n\
                        a -> b\n```\nX  a path -> b\n```\n```\naccel -> shm, name\ncli -> accel\n```\n";

    #[test]
    fn crates_are_read_from_the_code_map() {
        let named: Vec<_> = named_folders(PAGE).into_iter().collect();
        assert_eq!(named, ["crates/base/name", "crates/base/shm", "crates/cli", "lab/a"]);
    }

    #[test]
    fn arrows_are_read_from_the_block_that_has_nothing_else() {
        let arrows = arrows_of(PAGE);
        let arrows_from = |from: &str| arrows[from].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(
            (arrows.len(), arrows_from("accel"), arrows_from("cli")),
            (2, vec!["name", "shm"], vec!["accel"])
        );
    }

    #[test]
    fn formats_are_read_from_their_tables_and_versions_from_the_code() {
        let page = "a\n## Formats with a version\n\n| format | page | version |\n|---|---|---|\n\
                    | trace | `t/src/a.rs`, `t/src/b.rs` | 4; of a drive: 5 |\n| study | `x.md` | 1 |\n\
                    \n## Other\n| no | `t/src/c.rs` | 9 |\n";
        let files = ["t/src/a.rs", "t/src/b.rs"].map(str::to_owned).to_vec();
        assert_eq!(formats_of(page), [(files, 4)]);
        let code = "pub const VERSION: u32 = 4;\nconst OLD: u32 = 3;\n    const ACL_VERSION: u16 = 2;\n\
                    const TEXT_VERSION: &str = \"1\";\n";
        let expected = [("VERSION", 4), ("ACL_VERSION", 2)].map(|(name, n)| (name.to_owned(), n));
        assert_eq!(versions(code), expected);
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

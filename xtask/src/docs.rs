//! `cargo xtask docs`: the pages as a site, by mdBook.
//!
//! `docs/SUMMARY.md` lists the pages by role. They are copied to `target/docs/src` with all files
//! that they link to, in the folders in which they lie here, so that each link of the repository is
//! one of the site; mdBook writes `target/docs/book`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::debian;
use crate::links;
use crate::step::Step;

/// The list of the pages.
const SUMMARY: &str = "docs/SUMMARY.md";
/// Version of mdBook that is installed where there is none.
const MDBOOK: &str = "0.4.52";

/// Builds the site.
///
/// # Errors
/// If a link leads nowhere, or mdBook fails.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = crate::root();
    let folder = std::path::absolute(crate::target())?.join("docs");
    let source = folder.join("src");
    let _ = fs::remove_dir_all(&folder);
    let summary = fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    let mut names: Vec<PathBuf> =
        links::page(SUMMARY, &summary).links.into_iter().map(|(path, _)| path).collect();
    let mut pages = BTreeMap::new();
    let mut files = BTreeSet::new();
    while let Some(name) = names.pop() {
        let name = name.to_string_lossy().into_owned();
        if pages.contains_key(&name) {
            continue;
        }
        let text = fs::read_to_string(root.join(&name)).context(name.clone())?;
        let page = links::page(&name, &text);
        files.extend(page.links.iter().map(|(path, _)| path.clone()));
        pages.insert(name, page);
    }
    let broken = links::broken(&root, &pages);
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    files.extend(pages.keys().map(PathBuf::from));
    for file in files.iter().filter(|file| root.join(file).is_file()) {
        put(&root, &source, file)?;
    }
    // Its links lead from the folder of the pages; the book's begin at the root.
    let summary = summary.replace("](", "](docs/").replace("](docs/../", "](");
    fs::write(source.join("SUMMARY.md"), summary)?;
    fs::write(folder.join("book.toml"), BOOK)?;
    let program = mdbook()?;
    Step::program(program).arg("build").arg(&folder).run()?;
    eprintln!("==> {}", folder.join("book/README.html").display());
    Ok(())
}

const BOOK: &str = "[book]\ntitle = \"Keeptime\"\nlanguage = \"en\"\nsrc = \"src\"\n\n\
                    [build]\nbuild-dir = \"book\"\ncreate-missing = false\n\n\
                    [output.html]\nno-section-label = true\n";

fn put(root: &Path, source: &Path, file: &Path) -> anyhow::Result<()> {
    let to = source.join(file);
    fs::create_dir_all(to.parent().context("a folder")?)?;
    fs::copy(root.join(file), to).with_context(|| file.display().to_string())?;
    Ok(())
}

/// The program: the machine's, or one that is installed below `target`.
fn mdbook() -> anyhow::Result<PathBuf> {
    if debian::runs(Command::new("mdbook").arg("--version")) {
        return Ok("mdbook".into());
    }
    let folder = std::path::absolute(crate::target())?.join("mdbook");
    let program = folder.join("bin/mdbook");
    if !program.exists() {
        Step::cargo("install --locked --no-default-features --features search mdbook --version")
            .arg(MDBOOK)
            .arg("--root")
            .arg(&folder)
            .run()?;
    }
    Ok(program)
}

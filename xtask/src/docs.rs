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

/// The pages of the site, by their files from the root of the repository.
struct Site {
    /// Text of [`SUMMARY`].
    summary: String,
    pages: BTreeMap<String, links::Page>,
}

impl Site {
    fn read(root: &Path) -> anyhow::Result<Site> {
        let read = |name: &str| fs::read_to_string(root.join(name)).context(name.to_owned());
        let summary = read(SUMMARY)?;
        let mut pages = BTreeMap::new();
        for (path, _) in links::page(SUMMARY, &summary).links {
            let name = path.to_string_lossy().into_owned();
            let page = links::page(&name, &read(&name)?);
            pages.insert(name, page);
        }
        Ok(Site { summary, pages })
    }
}

/// Returns a line for each page of `docs` that the site lacks, and for each link of its pages that
/// leads nowhere in it: to a page that is not in its list, or to a folder.
pub(crate) fn outside(root: &Path) -> anyhow::Result<Vec<String>> {
    let Site { pages, .. } = Site::read(root)?;
    let mut outside = Vec::new();
    for entry in fs::read_dir(root.join("docs")).context("docs")? {
        let name = format!("docs/{}", entry?.file_name().to_string_lossy());
        if name.ends_with(".md") && name != SUMMARY && !pages.contains_key(&name) {
            outside.push(format!("{name}: is not in {SUMMARY}"));
        }
    }
    for (name, page) in &pages {
        for (path, _) in &page.links {
            let is_page = path.extension().is_some_and(|end| end == "md");
            let path = path.to_string_lossy();
            if root.join(&*path).is_dir() {
                outside.push(format!("{name}: links to {path}, a folder; expected a file"));
            } else if is_page && !pages.contains_key(&*path) {
                outside.push(format!("{name}: links to {path}, which is not in {SUMMARY}"));
            }
        }
    }
    Ok(outside)
}

/// Builds the site.
///
/// # Errors
/// If a link leads nowhere, or mdBook fails.
pub(crate) fn run() -> anyhow::Result<()> {
    let root = crate::root();
    let folder = std::path::absolute(crate::target())?.join("docs");
    let source = folder.join("src");
    let _ = fs::remove_dir_all(&folder);
    let site = Site::read(&root)?;
    let mut broken = links::broken(&root, &site.pages);
    broken.extend(outside(&root)?);
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    let mut files: BTreeSet<PathBuf> = site.pages.keys().map(PathBuf::from).collect();
    files.extend(site.pages.values().flat_map(|page| &page.links).map(|(path, _)| path.clone()));
    for file in &files {
        put(&root, &source, file)?;
    }
    // Its links lead from the folder of the pages; the book's begin at the root.
    let summary = site.summary.replace("](", "](docs/").replace("](docs/../", "](");
    fs::write(source.join("SUMMARY.md"), summary)?;
    fs::write(folder.join("book.toml"), BOOK)?;
    fs::write(folder.join("wide.css"), STYLE)?;
    let program = mdbook()?;
    Step::program(program).arg("build").arg(&folder).run()?;
    let book = folder.join("book");
    let mut dead = Vec::new();
    unreachable(&book, &mut dead)?;
    if !dead.is_empty() {
        bail!("{}", dead.join("\n"));
    }
    eprintln!("==> {}", book.join("index.html").display());
    Ok(())
}

fn is_outside(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

/// The files that an attribute names in a page of HTML.
fn targets<'a>(html: &'a str, attribute: &str) -> impl Iterator<Item = &'a str> {
    let files = html.split(&format!(" {attribute}=\"")).skip(1).collect::<Vec<_>>();
    files.into_iter().filter_map(|rest| rest.split(['"', '#']).next())
}

/// Adds a line for each link or resource of the built pages below a folder that is no file there.
/// None of them may be on the network: the site and its search work without it.
fn unreachable(folder: &Path, dead: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            unreachable(&path, dead)?;
        } else if path.extension().is_some_and(|end| end == "html") {
            let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let leads = |target: &str| is_outside(target) || folder.join(target).exists();
            let wrong = targets(&text, "href").filter(|target| !leads(target));
            let resources =
                targets(&text, "src").filter(|target| is_outside(target) || !leads(target));
            dead.extend(wrong.chain(resources).map(|t| format!("{}: {t:?}", path.display())));
        }
    }
    Ok(())
}

/// A README stays a README: the preprocessor that makes it `index.html` leaves the links as they are.
const BOOK: &str = "[book]\ntitle = \"Keeptime\"\nlanguage = \"en\"\nsrc = \"src\"\n\n\
                    [build]\nbuild-dir = \"book\"\ncreate-missing = false\n\
                    use-default-preprocessors = false\n\n\
                    [output.html]\nno-section-label = true\nadditional-css = [\"wide.css\"]\n\n\
                    [output.html.fold]\nenable = true\n";
/// Lines of 100 characters of code fit.
const STYLE: &str = ":root { --content-max-width: 900px; }\n";

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

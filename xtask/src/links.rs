//! Links of the pages: each file that a page names is there, and each heading.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

/// A page in Markdown: the files that it links to, and its headings as anchors.
pub(crate) struct Page {
    /// Destination of each link within the repository: the file, from the root, and the anchor.
    pub links: Vec<(PathBuf, Option<String>)>,
    /// Anchors of its headings.
    anchors: BTreeSet<String>,
}

/// Reads a page. `path` is its place, from the root.
pub(crate) fn page(path: &str, text: &str) -> Page {
    let folder = Path::new(path).parent().unwrap_or(Path::new(""));
    let mut page = Page { links: Vec::new(), anchors: BTreeSet::new() };
    let mut heading: Option<String> = None;
    for event in Parser::new_ext(text, Options::ENABLE_TABLES) {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                if let Some(link) = within(folder, path, &dest_url) {
                    page.links.push(link);
                }
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::End(TagEnd::Heading(_)) => {
                page.anchors.extend(heading.take().map(|words| anchor(&words)));
            }
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            _ => {}
        }
    }
    page
}

/// The file and the anchor of a link, if it leads to a file of the repository.
fn within(folder: &Path, own: &str, destination: &str) -> Option<(PathBuf, Option<String>)> {
    if destination.contains("://") || destination.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = match destination.split_once('#') {
        Some((file, anchor)) => (file, Some(anchor.to_owned())),
        None => (destination, None),
    };
    let path = if file.is_empty() { PathBuf::from(own) } else { plain(&folder.join(file)) };
    Some((path, anchor))
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, part| {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
        plain
    })
}

/// The anchor of a heading, as forges and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    heading.trim().to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-")
}

/// Returns a line for each link of these pages that leads nowhere.
pub(crate) fn broken(root: &Path, pages: &BTreeMap<String, Page>) -> Vec<String> {
    let mut failures = Vec::new();
    for (name, page) in pages {
        for (path, anchor) in &page.links {
            let path = path.to_string_lossy().into_owned();
            if !root.join(&path).exists() {
                failures.push(format!("{name}: links to {path}, which is not there"));
                continue;
            }
            let target = pages.get(&path).zip(anchor.as_ref());
            let missing = target.filter(|(target, anchor)| !target.anchors.contains(*anchor));
            failures.extend(
                missing.map(|(_, anchor)| format!("{name}: {path} has no heading #{anchor}")),
            );
        }
    }
    failures
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_lead_to_files_and_headings() {
        let text =
            "# A `b` of C's\n[x](../README.md#two) [y](https://a.b/c) [z](#a-b-of-cs) ![p](p.png)";
        let page = page("docs/one.md", text);
        let links =
            [("README.md", Some("two")), ("docs/one.md", Some("a-b-of-cs")), ("docs/p.png", None)];
        let links = links.map(|(path, anchor)| (PathBuf::from(path), anchor.map(str::to_owned)));
        assert_eq!(page.links, links);
        assert_eq!(page.anchors, BTreeSet::from(["a-b-of-cs".to_owned()]));
        let pages = BTreeMap::from([("docs/one.md".to_owned(), page)]);
        let root = crate::root();
        let said = broken(&root, &pages);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said.iter().all(|line| line.ends_with("which is not there")), "{said:?}");
    }
}

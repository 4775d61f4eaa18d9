//! Properties of every page: it needs nothing else, its drawings and controls have names, and its
//! tables have captions and headers, and scroll by themselves.

/// Checks a page.
pub(crate) fn check(page: &str) {
    for outside in ["src=", "href=\"http", "@import", "url(", "<link"] {
        let within = outside == "url(" && !page.replace("url(#", "").contains(outside);
        assert!(within || !page.contains(outside), "the page needs something else: {outside}");
    }
    let tags: Vec<&str> = tags(page);
    for tag in &tags {
        match tag.split([' ', '>']).next().unwrap_or("") {
            "svg" => {
                let name = attribute(tag, "aria-label").unwrap_or("");
                let named = name.len() > 10 && tag.contains("role=\"img\"");
                assert!(named, "a drawing without a name: <{}>", &tag[..tag.len().min(200)]);
            }
            "th" => assert!(tag.contains("scope=\""), "a header of nothing: <{tag}>"),
            "input" | "canvas" => assert!(labelled(page, tag), "a control without a name: <{tag}>"),
            _ => {}
        }
    }
    for (at, _) in page.match_indices("<table") {
        let before = &page[..at];
        let container = before.rfind("<div").map_or("", |from| &before[from..]);
        assert!(container.contains("scroll"), "a table outside of a container: {container}");
        let inside = &page[at..][page[at..].find('>').unwrap_or(0) + 1..];
        let caption = inside.trim_start().strip_prefix("<caption");
        let text = caption.and_then(|caption| caption.split(['>', '<']).nth(1)).unwrap_or("");
        assert!(!text.trim().is_empty(), "a table without a caption: {}", &inside[..80]);
    }
    for (at, _) in page.match_indices("<button") {
        let button = &page[at..at + page[at..].find("</button>").expect("an end")];
        let text = &button[button.find('>').unwrap_or(0) + 1..];
        let named = text.chars().any(char::is_alphanumeric) || button.contains("aria-label=\"");
        assert!(named, "a button without a name: {button}");
    }
}

/// The tags of a page with their attributes, scripts and data left out.
fn tags(page: &str) -> Vec<&str> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("the end of a tag");
        let tag = &rest[..end];
        rest = &rest[end + 1..];
        for raw in ["script", "style"] {
            if tag.starts_with(raw) {
                rest = &rest[rest.find(&format!("</{raw}>")).expect("the end of a script")..];
            }
        }
        tags.push(tag);
    }
    tags
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let (_, value) = tag.split_once(&format!("{name}=\""))?;
    value.split('"').next()
}

/// Returns true if a control has a name of its own, stands in a label, or gets its name from the
/// script, as the drawing of a timeline does.
fn labelled(page: &str, tag: &str) -> bool {
    let own =
        attribute(tag, "aria-label").is_some() || attribute(tag, "aria-roledescription").is_some();
    let before = page.find(tag).map_or("", |at| &page[..at]);
    own || before.rfind("<label").is_some_and(|label| !before[label..].contains("</label>"))
}

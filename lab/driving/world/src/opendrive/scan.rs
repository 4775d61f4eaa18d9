//! A look over the text before the XML reader has it, in linear time: that reader compares each
//! attribute of an element with all before it, and copies all namespaces of an element to each one
//! inside that declares another.

/// More attributes than any element of OpenDRIVE has.
pub(super) const MAX_ATTRIBUTES: usize = 64;

/// More namespaces than any file declares.
pub(super) const MAX_NAMESPACES: usize = 16;

/// Excess of attributes or namespaces in an element.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Excess<'a> {
    /// Bytes before its element.
    pub at: usize,
    /// The element's name.
    pub element: &'a str,
    /// Attributes, or namespaces.
    pub found: &'static str,
    pub most: usize,
}

/// Finds the first element with too many attributes, or the one that declares one namespace too
/// many. Text that is no XML is left to the XML reader.
pub(super) fn excess(text: &str) -> Option<Excess<'_>> {
    let (mut at, mut namespaces) = (0, 0);
    while let Some(open) = text[at..].find('<') {
        at += open;
        let rest = &text[at..];
        let skipped =
            [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">"), ("</", ">")];
        at += match skipped.iter().find(|(from, _)| rest.starts_with(from)) {
            Some((from, to)) => from.len() + rest[from.len()..].find(to)? + to.len(),
            None => {
                let tag = Tag::of(rest);
                namespaces += tag.namespaces;
                let excess = |found, most| Some(Excess { at, element: tag.name, found, most });
                if tag.attributes > MAX_ATTRIBUTES {
                    return excess("attributes", MAX_ATTRIBUTES);
                }
                if namespaces > MAX_NAMESPACES {
                    return excess("namespaces", MAX_NAMESPACES);
                }
                tag.bytes
            }
        };
    }
    None
}

/// Data of an element's first tag.
struct Tag<'a> {
    name: &'a str,
    attributes: usize,
    namespaces: usize,
    /// Up to the next element, or to where the text ends.
    bytes: usize,
}

impl Tag<'_> {
    fn of(text: &str) -> Tag<'_> {
        let ends = |c: char| c.is_ascii_whitespace() || c == '>' || c == '/';
        let name = &text[1..text[1..].find(ends).map_or(text.len(), |end| 1 + end)];
        let mut tag = Tag { name, attributes: 0, namespaces: 0, bytes: text.len() };
        let mut at = 1 + name.len();
        while let Some(next) = text[at..].find(['"', '\'', '>']) {
            let quote = text.as_bytes()[at + next];
            if quote == b'>' {
                tag.bytes = at + next + 1;
                break;
            }
            let before =
                text[at..at + next].trim_end_matches(|c: char| c == '=' || c.is_ascii_whitespace());
            let name = before.trim_start();
            tag.attributes += 1;
            tag.namespaces += usize::from(name == "xmlns" || name.starts_with("xmlns:"));
            let value = at + next + 1;
            let Some(end) = text[value..].find(char::from(quote)) else { break };
            at = value + end + 1;
        }
        tag
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes(count: usize) -> String {
        (0..count).map(|n| format!(" a{n}='<\">'")).collect()
    }

    #[test]
    fn attributes_are_counted_where_they_are_and_nowhere_else() {
        for (text, expected) in [
            (format!("<a{}/>", attributes(64)), None),
            (format!("<a><b{}></b></a>", attributes(65)), Some((3, "b", "attributes"))),
            (format!("<!-- <b{}> --><?x <b{}?><a/>", attributes(65), attributes(65)), None),
            (format!("<a><![CDATA[<b{}>]]></a>", attributes(65)), None),
            (format!("<a{}><b{}/></a>", attributes(40), attributes(40)), None),
        ] {
            let found = excess(&text).map(|excess| (excess.at, excess.element, excess.found));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn namespaces_of_all_elements_are_counted() {
        let nested: String = (0..17).map(|n| format!("<a xmlns:n{n} = \"x{n}\">")).collect();
        let found = excess(&nested).unwrap();
        assert_eq!((found.element, found.found, found.most), ("a", "namespaces", 16));
        assert_eq!(excess(&nested[..nested.len() - 10]), None);
    }

    #[test]
    fn what_is_no_xml_is_left_to_the_reader() {
        for text in
            ["", "<", "<a", "<a b", "<a b='", "<!--", "<a b=\"'>", "< a>", "é<é é='é'>", "<>"]
        {
            assert_eq!(excess(text), None, "{text}");
        }
    }
}

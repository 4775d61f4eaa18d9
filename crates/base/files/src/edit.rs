//! Changes of single values in the text of a file: everything else stays as it is, byte for byte.
//!
//! A value is found by its place in the [`Tree`]; what is written is a number or a short flow value.
//! A key that is missing is put behind the first entry of its mapping, in the style of the mapping:
//! on the same line in `{...}`, on a line of its own in a block. The caller reads the new text again:
//! an alias can make a change count elsewhere too.

use crate::tree::{Entry, Mark, Node, Value};
use crate::write::{quote, quoted};
use crate::{Error, Step, Tree};

/// Changes that are collected, and then made at once.
pub struct Edits<'t> {
    tree: &'t Tree,
    text: &'t str,
    /// Byte offsets of the beginnings of lines.
    lines: Vec<usize>,
    changes: Vec<Change>,
}

struct Change {
    from: usize,
    to: usize,
    text: String,
}

impl<'t> Edits<'t> {
    /// No changes yet of the text that a tree was made of.
    pub fn new(tree: &'t Tree, text: &'t str) -> Edits<'t> {
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        Edits { tree, text, lines: std::iter::once(0).chain(ends).collect(), changes: Vec::new() }
    }

    /// Gives the key of the mapping at `path` this value.
    ///
    /// # Errors
    /// [`Error::Content`] where the value stands in a way that cannot be changed in its place.
    pub fn set(&mut self, path: &[Step<'_>], key: &str, value: &str) -> Result<(), Error> {
        let mapping = self.mapping(path)?;
        let Value::Map(entries) = &mapping.value else { return Err(self.fixed(path)) };
        let Some(entry) = entries.iter().find(|entry| entry.key == key) else {
            return self.insert(path, mapping, entries, (key, value));
        };
        let within = [path, &[Step::Key(key)]].concat();
        let (from, to) = match &entry.node.value {
            // A key without a value.
            Value::Scalar { text, plain: true } if text.is_empty() => {
                let colon = self.colon(entry).ok_or_else(|| self.fixed(&within))?;
                return self.change(&within, colon + 1, colon + 1, format!(" {value}"));
            }
            _ => self.extent(&entry.node).ok_or_else(|| self.fixed(&within))?,
        };
        self.change(&within, from, to, value.to_owned())
    }

    /// Takes a key with a short value out of the mapping at `path`, if it is there.
    ///
    /// # Errors
    /// Those of [`Edits::set`].
    pub fn remove(&mut self, path: &[Step<'_>], key: &str) -> Result<(), Error> {
        let mapping = self.mapping(path)?;
        let Value::Map(entries) = &mapping.value else { return Err(self.fixed(path)) };
        let Some(entry) = entries.iter().find(|entry| entry.key == key) else { return Ok(()) };
        let within = [path, &[Step::Key(key)]].concat();
        let (_, to) = self.extent(&entry.node).ok_or_else(|| self.fixed(&within))?;
        let key_at = self.offset(entry.key_mark);
        let before = self.text[..key_at].trim_end();
        if before.ends_with(',') {
            return self.change(&within, before.len() - 1, to, String::new());
        }
        let rest = &self.text[to..];
        if before.ends_with('{') {
            let next = rest.trim_start().strip_prefix(',').unwrap_or(rest.trim_start());
            let to = self.text.len() - next.trim_start().len();
            return self.change(&within, key_at, to, String::new());
        }
        // A block: the whole line, unless the mapping begins in it.
        let line = self.text[..key_at].rfind('\n').map_or(0, |at| at + 1);
        if !self.text[line..key_at].trim().is_empty() {
            return Err(self.fixed(&within));
        }
        let to = rest.find('\n').map_or(self.text.len(), |at| to + at + 1);
        self.change(&within, line, to, String::new())
    }

    /// The text with the changes.
    pub fn finish(mut self) -> String {
        // Those at one place stay in the order in which they were asked for.
        self.changes.sort_by_key(|change| change.from);
        let (mut text, mut at) = (String::new(), 0);
        for change in &self.changes {
            text += &self.text[at..change.from];
            text += &change.text;
            at = change.to;
        }
        text + &self.text[at..]
    }

    fn mapping(&self, path: &[Step<'_>]) -> Result<&'t Node, Error> {
        self.tree.at(path).ok_or_else(|| self.fixed(path))
    }

    fn fixed(&self, path: &[Step<'_>]) -> Error {
        self.tree.wrong(path, "a value that can be changed in its place")
    }

    /// Notes a change; two different ones of the same value (by an alias) cannot both be made.
    fn change(
        &mut self,
        path: &[Step<'_>],
        from: usize,
        to: usize,
        text: String,
    ) -> Result<(), Error> {
        let overlaps = |other: &&Change| from < other.to && other.from < to;
        match self.changes.iter().find(overlaps) {
            Some(other) if (other.from, other.to, &other.text) == (from, to, &text) => Ok(()),
            Some(_) => Err(self.fixed(path)),
            None => {
                self.changes.push(Change { from, to, text });
                Ok(())
            }
        }
    }

    /// Puts an entry behind the first one of a mapping.
    fn insert(
        &mut self,
        path: &[Step<'_>],
        mapping: &Node,
        entries: &[Entry],
        (key, value): (&str, &str),
    ) -> Result<(), Error> {
        let is_json =
            entries.iter().any(|entry| self.text[self.offset(entry.key_mark)..].starts_with('"'));
        let entry = format!("{}: {value}", name(key, is_json));
        let begin = self.offset(mapping.mark);
        let first = entries.first().and_then(|first| self.extent(&first.node));
        if self.text[begin..].starts_with('{') {
            return match first {
                Some((_, end)) => self.change(path, end, end, format!(", {entry}")),
                None if entries.is_empty() => self.change(path, begin + 1, begin + 1, entry),
                None => self.change(path, begin + 1, begin + 1, format!("{entry}, ")),
            };
        }
        let column = mapping.mark.column - 1;
        match first.and_then(|(_, end)| Some(end + self.text[end..].find('\n')?)) {
            Some(line_end) => {
                let line = format!("\n{}{entry}", " ".repeat(column));
                self.change(path, line_end, line_end, line)
            }
            None => {
                let line = format!("{entry}\n{}", " ".repeat(column));
                self.change(path, begin, begin, line)
            }
        }
    }

    /// The bytes of a scalar, if it stands in one piece.
    fn extent(&self, node: &Node) -> Option<(usize, usize)> {
        let Value::Scalar { text, plain } = &node.value else { return None };
        if text.is_empty() {
            return None;
        }
        let from = self.offset(node.mark);
        let rest = &self.text[from..];
        if *plain {
            return rest.starts_with(text).then_some((from, from + text.len()));
        }
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let inner = rest[1..].strip_prefix(text.as_str())?;
        inner.starts_with(quote).then_some((from, from + text.len() + 2))
    }

    /// The colon behind the key of an entry.
    fn colon(&self, entry: &Entry) -> Option<usize> {
        let from = self.offset(entry.key_mark);
        let rest = &self.text[from..];
        let quotes = if rest.starts_with(['"', '\'']) { 2 } else { 0 };
        let end = entry.key.len() + quotes;
        let blank = rest.get(end..)?;
        let colon = blank.len() - blank.trim_start().len();
        blank[colon..].starts_with(':').then_some(from + end + colon)
    }

    /// The byte at which something stands.
    fn offset(&self, mark: Mark) -> usize {
        let line = self.lines.get(mark.line - 1).copied().unwrap_or(self.text.len());
        let rest = &self.text[line..];
        rest.char_indices().nth(mark.column - 1).map_or(self.text.len(), |(at, _)| line + at)
    }
}

/// A name as a key: bare where YAML takes it for nothing else, quoted in JSON.
pub fn name(name: &str, is_json: bool) -> String {
    if is_json { quoted(name) } else { quote(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file in which nothing may change but the values.
    const FILE: &str = "\
# Two chains.
chains:
  - id: brake   # the urgent one
    priority: 1 # from the paper
    period: 10 ms
  -   {id: map , priority : '2', best_effort: true} # beside it
  - {priority:, id: log}
other: {\"ab\": 3}
";

    fn edited(text: &str, edit: impl FnOnce(&mut Edits<'_>) -> Result<(), Error>) -> String {
        let tree = Tree::parse(text, "t.yaml").unwrap();
        let mut edits = Edits::new(&tree, text);
        edit(&mut edits).unwrap();
        edits.finish()
    }

    fn chain(index: usize) -> [Step<'static>; 2] {
        [Step::Key("chains"), Step::Index(index)]
    }

    #[test]
    fn only_the_values_change() {
        let text = edited(FILE, |edits| {
            edits.set(&chain(0), "priority", "30")?;
            edits.set(&chain(1), "priority", "20")?;
            edits.set(&chain(2), "priority", "10")?;
            edits.set(&[Step::Key("other")], "ab", "4")
        });
        let expected = FILE
            .replace("priority: 1 #", "priority: 30 #")
            .replace("priority : '2'", "priority : 20")
            .replace("{priority:,", "{priority: 10,")
            .replace("\"ab\": 3", "\"ab\": 4");
        assert_eq!(text, expected);
    }

    #[test]
    fn missing_keys_come_behind_the_first_entry() {
        let text = edited(FILE, |edits| {
            edits.set(&chain(0), "bucket", "{gpu0: 1}")?;
            edits.set(&chain(1), "bucket", "{gpu0: 0}")?;
            edits.set(&chain(2), "wait", "spin")?;
            edits.set(&[Step::Key("other")], "c", "5")
        });
        let expected = FILE
            .replace("urgent one\n", "urgent one\n    bucket: {gpu0: 1}\n")
            .replace("{id: map ,", "{id: map, bucket: {gpu0: 0} ,")
            .replace("{priority:, id", "{wait: spin, priority:, id")
            .replace("\"ab\": 3}", "\"ab\": 3, \"c\": 5}");
        assert_eq!(text, expected);
        Tree::parse(&text, "t.yaml").unwrap();
    }

    #[test]
    fn removed_keys_leave_no_trace() {
        let text = edited(FILE, |edits| {
            edits.remove(&chain(0), "period")?;
            edits.remove(&chain(1), "best_effort")?;
            edits.remove(&chain(1), "nothing")?;
            edits.remove(&[Step::Key("other")], "ab")
        });
        let expected = FILE
            .replace("    period: 10 ms\n", "")
            .replace(", best_effort: true", "")
            .replace("{\"ab\": 3}", "{}");
        assert_eq!(text, expected);
    }

    #[test]
    fn value_of_two_places_takes_one_change() {
        let text = "a: &x {n: 1}\nb: *x\n";
        let tree = Tree::parse(text, "t.yaml").unwrap();
        let mut edits = Edits::new(&tree, text);
        edits.set(&[Step::Key("a")], "n", "2").unwrap();
        edits.set(&[Step::Key("b")], "n", "2").unwrap();
        let error = edits.set(&[Step::Key("b")], "n", "3").unwrap_err().to_string();
        assert!(error.contains("expected a value that can be changed in its place"), "{error}");
        assert_eq!(edits.finish(), "a: &x {n: 2}\nb: *x\n");
    }
}

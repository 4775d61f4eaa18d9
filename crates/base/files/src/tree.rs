//! Parser from text to a tree whose every key and value knows its line and column.
//!
//! The events of the YAML parser are folded with an explicit stack, so that a hostile file can
//! exhaust neither the call stack ([`MAX_DEPTH`]) nor, by aliases of aliases, the memory
//! ([`MAX_NODES`]). Scalars keep their text: numbers are converted by the readers, never by way
//! of a float. JSON needs no parser of its own, because YAML 1.2 contains it.

use crate::Error;
use saphyr_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, Tag};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Display;
use std::path::Path;

/// The deepest nesting of lists and mappings; a system file needs 7, a scenario 5.
const MAX_DEPTH: usize = 32;
/// The most keys of one mapping; keeps the search for a key that stands twice cheap.
const MAX_KEYS: usize = 1024;
/// The most nodes, aliases expanded.
const MAX_NODES: usize = 1_000_000;

/// A file whose every key and value knows its place.
#[derive(Debug, Clone)]
pub struct Tree {
    pub(crate) file: String,
    pub(crate) root: Node,
}

/// Line and column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    pub(crate) value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    /// Text, and whether it stood without quotes.
    Scalar {
        text: String,
        plain: bool,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_mark: Mark,
    pub(crate) node: Node,
}

/// One step of the path to a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step<'a> {
    /// Step to the value of a key.
    Key(&'a str),
    /// Step to an item of a list, from 0.
    Index(usize),
}

impl<'a> From<&'a str> for Step<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step<'_> {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// `chains[2].bucket.gpu0`
pub fn path_text(path: &[Step<'_>]) -> String {
    let mut text = String::new();
    for step in path {
        match step {
            Step::Key(key) => {
                if !text.is_empty() {
                    text.push('.');
                }
                text.extend(key.escape_debug());
            }
            Step::Index(index) => text.push_str(&format!("[{index}]")),
        }
    }
    if text.is_empty() { "the file".to_owned() } else { text }
}

impl Tree {
    /// Reads a file of at most this number of bytes.
    ///
    /// # Errors
    /// [`Error::Read`], and those of [`Tree::parse`].
    pub fn open(path: &Path, most: u64) -> Result<Tree, Error> {
        let file = path.display().to_string();
        match crate::text(path, most) {
            Ok(text) => Tree::parse(&text, &file),
            Err(reason) => Err(Error::Read { file, reason }),
        }
    }

    /// Parses `text`; a file without any content is an empty mapping. Errors name the `file`.
    ///
    /// # Errors
    /// [`Error::Content`].
    pub fn parse(text: &str, file: &str) -> Result<Tree, Error> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut builder = Builder::new(file);
        for event in Parser::new_from_str(text) {
            let (event, span) = event.map_err(|scan| scan_error(file, &scan))?;
            builder.take(event, span)?;
        }
        let empty = Node { mark: Mark { line: 1, column: 1 }, value: Value::Map(Vec::new()) };
        let root = builder.root.filter(|node| !node.is_null()).unwrap_or(empty);
        Ok(Tree { file: file.to_owned(), root })
    }

    /// Returns true if the file says something at `path`.
    pub fn has(&self, path: &[Step<'_>]) -> bool {
        self.at(path).is_some()
    }

    pub(crate) fn at(&self, path: &[Step<'_>]) -> Option<&Node> {
        path.iter().try_fold(&self.root, |node, step| node.child(*step)).filter(|at| !at.is_null())
    }

    /// An error about the value at `path`, or about its nearest parent that the file has.
    pub fn refuse(&self, path: &[Step<'_>], found: &str, expected: impl Display) -> Error {
        let message = format!("{}: found {found}, expected {expected}", path_text(path));
        error(&self.file, self.nearest(path).mark, message)
    }

    /// An error about the value at `path`, which says what stands there.
    pub fn wrong(&self, path: &[Step<'_>], expected: impl Display) -> Error {
        self.refuse(path, &self.nearest(path).shown(), expected)
    }

    /// Refuses a mapping at `path` that has other keys than the `known` ones.
    ///
    /// # Errors
    /// About the first.
    pub fn known_keys(&self, path: &[Step<'_>], known: &[&str]) -> Result<(), Error> {
        let unknown = |entry: &&Entry| !known.contains(&entry.key.as_str());
        match self.nearest(path).entries().iter().find(unknown) {
            Some(entry) => Err(self.unknown_key(path, &entry.key, known)),
            None => Ok(()),
        }
    }

    /// Refuses a mapping at `path` without this key.
    ///
    /// # Errors
    /// If it is without.
    pub fn required_key(&self, path: &[Step<'_>], key: &str) -> Result<(), Error> {
        let within = [path, &[Step::Key(key)]].concat();
        if self.has(&within) { Ok(()) } else { Err(self.missing_key(path, key)) }
    }

    pub(crate) fn missing_key(&self, path: &[Step<'_>], key: &str) -> Error {
        let message = format!("{}: missing key", path_text(&[path, &[Step::Key(key)]].concat()));
        error(&self.file, self.nearest(path).mark, message)
    }

    pub(crate) fn unknown_key(&self, path: &[Step<'_>], key: &str, known: &[&str]) -> Error {
        let within = self.nearest(path);
        let entry = within.entries().iter().find(|entry| entry.key == key);
        let path = path_text(&[path, &[Step::Key(key)]].concat());
        let message = format!("{path}: unknown key; expected one of {}", known.join(", "));
        error(&self.file, entry.map_or(within.mark, |entry| entry.key_mark), message)
    }

    fn nearest(&self, path: &[Step<'_>]) -> &Node {
        let mut node = &self.root;
        for step in path {
            match node.child(*step) {
                Some(child) => node = child,
                None => break,
            }
        }
        node
    }
}

impl Node {
    /// The value as an error message shows it: short, on one line.
    fn shown(&self) -> String {
        match &self.value {
            Value::Scalar { text, plain: true } if text.is_empty() => "nothing".to_owned(),
            Value::Scalar { text, .. } => shorten(text),
            Value::List(items) if items.len() <= 4 && items.iter().all(Node::is_scalar) => {
                let items: Vec<String> = items.iter().map(Node::shown).collect();
                format!("[{}]", items.join(", "))
            }
            Value::List(items) => format!("a list of {}", items.len()),
            Value::Map(_) => "a mapping".to_owned(),
        }
    }

    fn is_scalar(&self) -> bool {
        matches!(self.value, Value::Scalar { .. })
    }

    fn entries(&self) -> &[Entry] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    fn child(&self, step: Step<'_>) -> Option<&Node> {
        match (step, &self.value) {
            (Step::Index(index), Value::List(items)) => items.get(index),
            (Step::Index(_), _) => None,
            (Step::Key(key), _) => {
                let entry = self.entries().iter().find(|entry| entry.key == key);
                entry.map(|entry| &entry.node)
            }
        }
    }

    /// Returns true if the file says nothing here: empty, `~` or `null`.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true }
            if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }
}

/// Quotes a text from the file and cuts it at 40 characters.
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(40) {
        Some((end, _)) => format!("\"{}...\"", text[..end].escape_debug()),
        None => format!("\"{}\"", text.escape_debug()),
    }
}

fn mark(marker: &Marker) -> Mark {
    Mark { line: marker.line(), column: marker.col() + 1 }
}

fn error(file: &str, at: Mark, message: impl Into<String>) -> Error {
    let (file, message) = (file.to_owned(), message.into());
    Error::Content { file, line: at.line, column: at.column, message }
}

fn scan_error(file: &str, scan: &ScanError) -> Error {
    error(file, mark(scan.marker()), format!("not YAML or JSON: {}", scan.info()))
}

/// A list or a mapping that is still open.
struct Open {
    node: Node,
    anchor: usize,
    /// Key of a mapping that waits for its value.
    key: Option<(String, Mark)>,
    /// Its variant, if a tag names one.
    tag: Option<String>,
}

/// The name in a file's own tag, as in `!lane`.
fn variant(tag: Option<Cow<'_, Tag>>) -> Option<String> {
    tag.filter(|tag| tag.handle == "!").map(|tag| tag.suffix.clone())
}

/// A value of a variant, as the mapping `variant: value`; alone, as its name.
fn tagged(node: Node, tag: Option<String>) -> Node {
    let Some(key) = tag else { return node };
    let mark = node.mark;
    let value = match node.is_null() {
        true => Value::Scalar { text: key, plain: true },
        false => Value::Map(vec![Entry { key, key_mark: mark, node }]),
    };
    Node { mark, value }
}

struct Builder<'f> {
    file: &'f str,
    root: Option<Node>,
    open: Vec<Open>,
    anchors: HashMap<usize, (Node, usize)>,
    nodes: usize,
}

impl<'f> Builder<'f> {
    fn new(file: &'f str) -> Self {
        Self { file, root: None, open: Vec::new(), anchors: HashMap::new(), nodes: 0 }
    }

    fn take(&mut self, event: Event<'_>, span: Span) -> Result<(), Error> {
        let at = mark(&span.start);
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                let plain = style == ScalarStyle::Plain;
                let value = Value::Scalar { text: text.into_owned(), plain };
                self.count(1, at)?;
                self.place(tagged(Node { mark: at, value }, variant(tag)), anchor)
            }
            Event::SequenceStart(anchor, tag) => {
                self.begin(at, Value::List(Vec::new()), anchor, variant(tag))
            }
            Event::MappingStart(anchor, tag) => {
                self.begin(at, Value::Map(Vec::new()), anchor, variant(tag))
            }
            Event::SequenceEnd | Event::MappingEnd => match self.open.pop() {
                Some(open) => self.place(tagged(open.node, open.tag), open.anchor),
                None => {
                    Err(error(self.file, at, "the end of a list or mapping without its beginning"))
                }
            },
            Event::Alias(anchor) => self.alias(at, anchor),
            Event::DocumentStart(_) if self.root.is_some() => {
                Err(error(self.file, at, "a second document; expected one document in the file"))
            }
            _ => Ok(()),
        }
    }

    fn count(&mut self, nodes: usize, at: Mark) -> Result<(), Error> {
        self.nodes = self.nodes.saturating_add(nodes);
        if self.nodes > MAX_NODES {
            let message = format!("more than {MAX_NODES} values after the expansion of aliases");
            return Err(error(self.file, at, message));
        }
        Ok(())
    }

    fn begin(
        &mut self,
        at: Mark,
        value: Value,
        anchor: usize,
        tag: Option<String>,
    ) -> Result<(), Error> {
        self.count(1, at)?;
        if self.open.len() == MAX_DEPTH {
            return Err(error(self.file, at, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push(Open { node: Node { mark: at, value }, anchor, key: None, tag });
        Ok(())
    }

    fn alias(&mut self, at: Mark, anchor: usize) -> Result<(), Error> {
        let Some((node, nodes)) = self.anchors.get(&anchor) else {
            return Err(error(self.file, at, "an alias inside the value of its own anchor"));
        };
        let (node, nodes) = (node.clone(), *nodes);
        if self.open.len() + depth(&node) > MAX_DEPTH {
            return Err(error(self.file, at, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.count(nodes, at)?;
        self.place(node, 0)
    }

    /// Hangs a complete node into the open list or mapping.
    fn place(&mut self, node: Node, anchor: usize) -> Result<(), Error> {
        if anchor != 0 {
            let nodes = size(&node);
            self.count(nodes, node.mark)?;
            self.anchors.insert(anchor, (node.clone(), nodes));
        }
        let file = self.file;
        let Some(open) = self.open.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        match (&mut open.node.value, open.key.take()) {
            (Value::List(items), _) => items.push(node),
            (Value::Map(entries), Some((key, key_mark))) => {
                entries.push(Entry { key, key_mark, node });
            }
            (Value::Map(entries), None) => open.key = Some(new_key(file, entries, node)?),
            (Value::Scalar { .. }, _) => {}
        }
        Ok(())
    }
}

fn new_key(file: &str, entries: &[Entry], node: Node) -> Result<(String, Mark), Error> {
    let Value::Scalar { text, .. } = node.value else {
        return Err(error(file, node.mark, "a list or mapping as a key; expected a name"));
    };
    if entries.len() == MAX_KEYS {
        return Err(error(file, node.mark, format!("more than {MAX_KEYS} keys in one mapping")));
    }
    if let Some(first) = entries.iter().find(|entry| entry.key == text) {
        let message =
            format!("duplicate key {}; first on line {}", shorten(&text), first.key_mark.line);
        return Err(error(file, node.mark, message));
    }
    Ok((text, node.mark))
}

/// Number of nodes below and including this one. The depth is limited, so recursion is safe.
fn size(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 1,
        Value::List(items) => 1 + items.iter().map(size).sum::<usize>(),
        Value::Map(entries) => 1 + entries.iter().map(|entry| size(&entry.node)).sum::<usize>(),
    }
}

fn depth(node: &Node) -> usize {
    match &node.value {
        Value::Scalar { .. } => 0,
        Value::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Value::Map(entries) => 1 + entries.iter().map(|e| depth(&e.node)).max().unwrap_or(0),
    }
}

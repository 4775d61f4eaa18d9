//! One value of the tree together with its path: typed access, and errors that say where.
//!
//! [`Fields`] is a mapping whose keys were checked against the known ones when it was opened, so
//! that a misspelt key is reported as unknown and not as the absence of the right one.

use crate::Error;
use crate::quantity::{self, TimeUnit};
use crate::tree::{Mark, Node, Step, Value, path_text};
use std::ops::RangeInclusive;

/// The longest name, in bytes.
const MAX_NAME: usize = 64;

/// A value and where it stands.
#[derive(Clone)]
pub(crate) struct Field<'t> {
    pub(crate) file: &'t str,
    pub(crate) path: Vec<Step>,
    pub(crate) node: &'t Node,
}

/// A mapping whose keys are all known.
pub(crate) struct Fields<'t> {
    field: Field<'t>,
}

/// An error about the value at `path`.
pub(crate) fn refuse(
    file: &str,
    at: Mark,
    path: &[Step],
    found: impl Into<String>,
    expected: impl Into<String>,
) -> Error {
    Error::Value {
        file: file.to_owned(),
        line: at.line,
        column: at.column,
        path: path_text(path),
        found: found.into(),
        expected: expected.into(),
    }
}

impl<'t> Field<'t> {
    fn child(&self, step: impl Into<Step>, node: &'t Node) -> Self {
        let mut path = self.path.clone();
        path.push(step.into());
        Self { file: self.file, path, node }
    }

    pub(crate) fn refuse(&self, expected: impl Into<String>) -> Error {
        refuse(self.file, self.node.mark, &self.path, self.node.shown(), expected)
    }

    /// Text of a scalar that is not null, and whether it stood without quotes.
    fn scalar(&self, expected: &str) -> Result<(&'t str, bool), Error> {
        match &self.node.value {
            Value::Scalar { text, plain } if !self.node.is_null() => Ok((text, *plain)),
            _ => Err(self.refuse(expected)),
        }
    }

    pub(crate) fn text(&self, expected: &str) -> Result<&'t str, Error> {
        self.scalar(expected).map(|(text, _)| text)
    }

    /// A name: visible, on one line, of a length that tables and logs can show.
    pub(crate) fn name(&self) -> Result<String, Error> {
        let expected = "a name of 1 to 64 bytes of visible characters, without outer spaces";
        let text = self.text(expected)?;
        if text.len() <= MAX_NAME && name::check(text).is_ok() {
            return Ok(text.to_owned());
        }
        Err(self.refuse(expected))
    }

    /// A whole number in decimal digits.
    pub(crate) fn whole(&self, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let expected = match (*range.start(), *range.end()) {
            (0, u64::MAX) => "a whole number below 2^64".to_owned(),
            (start, end) => format!("a whole number from {start} to {end}"),
        };
        let text = self.text(&expected)?;
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits && range.contains(&number) => Ok(number),
            _ => Err(self.refuse(expected)),
        }
    }

    pub(crate) fn number(&self, range: RangeInclusive<u32>) -> Result<u32, Error> {
        let number = self.whole(u64::from(*range.start())..=u64::from(*range.end()))?;
        u32::try_from(number).map_err(|_| self.refuse("a whole number below 2^32"))
    }

    /// `None` where the scalar is no plain number; a quoted number is text.
    pub(crate) fn plain_number(&self) -> Option<u32> {
        match &self.node.value {
            Value::Scalar { text, plain: true } if text.bytes().all(|b| b.is_ascii_digit()) => {
                text.parse().ok()
            }
            _ => None,
        }
    }

    pub(crate) fn boolean(&self) -> Result<bool, Error> {
        self.choice(&[("true", true), ("false", false)])
    }

    pub(crate) fn choice<T: Copy>(&self, choices: &[(&str, T)]) -> Result<T, Error> {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let expected = names.join(" or ");
        let text = self.text(&expected)?;
        let found = choices.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| self.refuse(expected))
    }

    pub(crate) fn time_ns(&self, bare: TimeUnit) -> Result<u64, Error> {
        let expected = "a time such as \"10 ms\"";
        quantity::time_ns(self.text(expected)?, bare).map_err(|expected| self.refuse(expected))
    }

    pub(crate) fn bytes(&self) -> Result<u64, Error> {
        let expected = "a size such as \"64 MiB\"";
        quantity::bytes(self.text(expected)?).map_err(|expected| self.refuse(expected))
    }

    pub(crate) fn list(&self) -> Result<Vec<Field<'t>>, Error> {
        match &self.node.value {
            Value::List(items) => {
                Ok(items.iter().enumerate().map(|(i, item)| self.child(i, item)).collect())
            }
            _ => Err(self.refuse("a list")),
        }
    }

    /// A mapping with names for keys, such as `bucket`.
    pub(crate) fn entries(&self) -> Result<Vec<(String, Field<'t>)>, Error> {
        match &self.node.value {
            Value::Map(entries) => Ok(entries
                .iter()
                .map(|entry| (entry.key.clone(), self.child(entry.key.as_str(), &entry.node)))
                .collect()),
            _ => Err(self.refuse("a mapping")),
        }
    }

    /// Opens a mapping that may have the `known` keys and no others.
    pub(crate) fn fields(self, known: &[&str]) -> Result<Fields<'t>, Error> {
        let Value::Map(entries) = &self.node.value else {
            return Err(self.refuse(format!("a mapping with the keys {}", known.join(", "))));
        };
        if let Some(entry) = entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
            return Err(Error::UnknownKey {
                file: self.file.to_owned(),
                line: entry.key_mark.line,
                column: entry.key_mark.column,
                path: path_text(&self.child(entry.key.as_str(), &entry.node).path),
                expected: known.join(", "),
            });
        }
        Ok(Fields { field: self })
    }
}

impl<'t> Fields<'t> {
    /// The value of `key`; a null counts as absent.
    pub(crate) fn optional(&self, key: &str) -> Option<Field<'t>> {
        let Value::Map(entries) = &self.field.node.value else { return None };
        let entry = entries.iter().find(|entry| entry.key == key)?;
        (!entry.node.is_null()).then(|| self.field.child(key, &entry.node))
    }

    pub(crate) fn required(&self, key: &str) -> Result<Field<'t>, Error> {
        self.optional(key).ok_or_else(|| {
            let mut path = self.field.path.clone();
            path.push(key.into());
            let Mark { line, column } = self.field.node.mark;
            Error::MissingKey {
                file: self.field.file.to_owned(),
                line,
                column,
                path: path_text(&path),
            }
        })
    }

    /// Reads `key` where it stands, and otherwise takes the default.
    pub(crate) fn or<T>(
        &self,
        key: &str,
        default: T,
        read: impl FnOnce(Field<'t>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.optional(key).map_or(Ok(default), read)
    }

    /// Reads every item of the list `key`; an absent list is empty.
    pub(crate) fn each<T>(
        &self,
        key: &str,
        read: impl FnMut(Field<'t>) -> Result<T, Error>,
    ) -> Result<Vec<T>, Error> {
        match self.optional(key) {
            Some(list) => list.list()?.into_iter().map(read).collect(),
            None => Ok(Vec::new()),
        }
    }

    /// An error about the mapping itself.
    pub(crate) fn refuse(&self, expected: impl Into<String>) -> Error {
        self.field.refuse(expected)
    }
}

//! YAML as people write it.
//!
//! The emitter is written here because such files mix two styles: what fits on a line stands on
//! one, larger mappings are blocks. Emitters of YAML libraries have one style. What is absent
//! (null, an empty list) is not written, and every text that a YAML reader could take for something
//! else (`yes`, `1e3`, `a: b`) is quoted.

use serde::Serialize;
use serde_json::{Map, Value};

/// The longest line with a mapping on it; longer ones become blocks.
const MAX_COLUMNS: usize = 100;

/// Returns true for what need not be written, since reading it back gives the same.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A value as the text of a file. What cannot be written (a path that is no text, a mapping whose
/// keys are no names) gives an empty one.
pub fn to_yaml(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::Object(top)) => sections(&top),
        _ => String::new(),
    }
}

/// The keys of the file, those with mappings and lists set apart by empty lines.
fn sections(top: &Map<String, Value>) -> String {
    let mut text = String::new();
    for (key, value) in present(top) {
        let is_section = value.is_object() || value.is_array();
        if is_section && !text.is_empty() {
            text.push('\n');
        }
        text += &match value {
            Value::Object(map) if present(map).next().is_some() => {
                format!("{}:\n{}", quote(key), block(map, 2))
            }
            Value::Array(items) if items.iter().all(Value::is_object) => {
                format!("{}:\n{}", quote(key), section_items(items))
            }
            _ => entry(key, value, 0),
        };
    }
    text
}

/// The items of a section. What has lists of mappings itself is a block, set apart by empty lines.
fn section_items(items: &[Value]) -> String {
    let mut text = String::new();
    for item in items {
        match item {
            Value::Object(map) if map.values().any(is_list_of_mappings) => {
                if !text.is_empty() {
                    text.push('\n');
                }
                text += &dashed(map, 2);
            }
            _ => text += &self::item(item, 2),
        }
    }
    text
}

/// The entries of a mapping that say something.
fn present(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    map.iter()
        .filter(|(_, value)| !value.is_null() && value.as_array().is_none_or(|v| !v.is_empty()))
}

fn is_list_of_mappings(value: &Value) -> bool {
    value.as_array().is_some_and(|items| items.first().is_some_and(Value::is_object))
}

/// Returns a mapping as text, with one or more lines per entry.
fn block(map: &Map<String, Value>, indent: usize) -> String {
    present(map).map(|(key, value)| entry(key, value, indent)).collect()
}

fn entry(key: &str, value: &Value, indent: usize) -> String {
    let pad = " ".repeat(indent);
    let line = format!("{pad}{}: {}\n", quote(key), flow(value));
    match value {
        Value::Array(items) if is_list_of_mappings(value) => {
            let items: String = items.iter().map(|each| item(each, indent + 2)).collect();
            format!("{pad}{}:\n{items}", quote(key))
        }
        Value::Object(map) if !fits(&line) => {
            format!("{pad}{}:\n{}", quote(key), block(map, indent + 2))
        }
        _ => line,
    }
}

/// An item of a list: on one line where it fits, otherwise one line per entry.
fn item(value: &Value, indent: usize) -> String {
    let line = format!("{}- {}\n", " ".repeat(indent), flow(value));
    match value {
        Value::Object(map) if !fits(&line) => dashed(map, indent),
        _ => line,
    }
}

/// A block with the dash of a list item before its first line.
fn dashed(map: &Map<String, Value>, indent: usize) -> String {
    let block = block(map, indent + 2);
    format!("{}- {}", " ".repeat(indent), block.get(indent + 2..).unwrap_or_default())
}

fn fits(line: &str) -> bool {
    line.chars().count() <= MAX_COLUMNS + 1
}

/// `{id: gpu0, buckets: 6}`
fn flow(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let entry =
                |(key, value): (&String, &Value)| format!("{}: {}", quote(key), flow(value));
            format!("{{{}}}", present(map).map(entry).collect::<Vec<_>>().join(", "))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", "))
        }
        Value::String(text) => quote(text),
        other => other.to_string(),
    }
}

/// A text as a scalar: plain where every YAML reader takes it for text, otherwise in quotes.
pub(crate) fn quote(text: &str) -> String {
    if is_plain(text) || is_quantity(text) { text.to_owned() } else { quoted(text) }
}

/// A number and a unit: `10 ms`.
fn is_quantity(text: &str) -> bool {
    let is = |part: &str, of: fn(&u8) -> bool| !part.is_empty() && part.bytes().all(|b| of(&b));
    text.split_once(' ').is_some_and(|(number, unit)| {
        is(number, u8::is_ascii_digit) && is(unit, u8::is_ascii_alphabetic)
    })
}

/// Letters, digits, `_`, `-`, `.` and `/`, beginning with a letter or `_`, and no word that a
/// reader of YAML 1.1 or 1.2 takes for something else.
fn is_plain(text: &str) -> bool {
    const WORDS: [&str; 9] = ["true", "false", "yes", "no", "on", "off", "null", "y", "n"];
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '/');
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && text.chars().all(inside)
        && !WORDS.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// Returns the text in double quotes, with all invisible characters escaped.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            ' '..='~' => quoted.push(c),
            c if c.escape_debug().len() == 1 => quoted.push(c),
            c if u32::from(c) <= 0xffff => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push_str(&format!("\\U{:08x}", u32::from(c))),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_a_reader_could_mistake_are_quoted() {
        for plain in ["gpu0", "10 ms", "front-left", "_x", "models/a.onnx", "Brücke", "前方", "e1"]
        {
            assert_eq!(quote(plain), plain);
        }
        for (name, expected) in [
            ("", r#""""#),
            ("yes", r#""yes""#),
            ("No", r#""No""#),
            ("1e3", r#""1e3""#),
            ("0x10", r#""0x10""#),
            (".inf", r#"".inf""#),
            ("~", r#""~""#),
            ("a: b", r#""a: b""#),
            ("- x", r#""- x""#),
            ("a #b", r#""a #b""#),
            ("cuda:0", r#""cuda:0""#),
            (r#"say "hi" \o/"#, r#""say \"hi\" \\o/""#),
            ("🚗", "\"🚗\""),
            ("a\nb\u{7}", r#""a\nb\u0007""#),
            ("a\u{e0001}\u{301}", r#""a\U000e0001\u0301""#),
        ] {
            assert_eq!(quote(name), expected);
        }
    }
}

//! Descriptions of the kernel's trace events, as tracefs gives them.
//!
//! The kernel says in text where each field of an event lies, and the places differ between
//! kernels, so that nothing here knows an offset. One text holds the header of a page, then any
//! number of events:
//!
//! ```text
//!         field: u64 timestamp;   offset:0;       size:8; signed:0;
//! name: sched_switch
//! ID: 372
//! format:
//!         field:char prev_comm[16];       offset:8;       size:16;        signed:0;
//!         field:__data_loc char[] comm;   offset:8;       size:4;         signed:0;
//! ```
//!
//! A field declared `__data_loc` holds where its bytes are: offset, and length in the upper half.
//! Called by `events`.

use std::collections::BTreeMap;

/// The largest event and the largest page that are believed, in bytes.
pub const LARGEST: usize = 1 << 20;

/// An error in the kernel's description of its events.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trace event {event}: {what}")]
pub struct FormatError {
    /// Name of the event; `page header` for the text before the first event.
    pub event: String,
    /// Description of the error.
    pub what: String,
}

/// Position of a value in an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Offset of its first byte.
    pub offset: usize,
    /// Size in bytes.
    pub size: usize,
    signed: bool,
    elsewhere: bool,
}

impl Field {
    /// The value, sign-extended if it has a sign; `None` if the event is too short for it.
    pub fn number(self, event: &[u8]) -> Option<u64> {
        let bytes = event.get(self.offset..self.offset + self.size)?;
        let mut wide = [0; 8];
        wide.get_mut(..bytes.len())?.copy_from_slice(bytes);
        let unused = 64 - 8 * bytes.len() as u32;
        let value = u64::from_le_bytes(wide);
        match (self.signed, unused) {
            (true, 1..64) => Some((((value << unused) as i64) >> unused) as u64),
            _ => Some(value),
        }
    }

    /// The text up to its terminating zero; `None` if the event is too short for it.
    pub fn text(self, event: &[u8]) -> Option<&[u8]> {
        let bytes = if self.elsewhere {
            let place = Field { elsewhere: false, ..self }.number(event)?;
            let (from, length) = (place as usize & 0xffff, place as usize >> 16 & 0xffff);
            event.get(from..from + length)?
        } else {
            event.get(self.offset..self.offset + self.size)?
        };
        bytes.split(|byte| *byte == 0).next()
    }
}

/// The description of one event, or of the header of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Section {
    /// The event; empty for the header of a page.
    pub name: String,
    /// The number that stands for it in a page.
    pub id: Option<u16>,
    fields: BTreeMap<String, Field>,
}

impl Section {
    fn error(&self, what: impl Into<String>) -> FormatError {
        let event = if self.name.is_empty() { "page header" } else { &self.name };
        FormatError { event: event.into(), what: what.into() }
    }

    /// A field by its name.
    ///
    /// # Errors
    /// Fails if the kernel has no such field.
    pub fn field(&self, name: &str) -> Result<Field, FormatError> {
        let known = || self.fields.keys().cloned().collect::<Vec<_>>().join(", ");
        let missing = || self.error(format!("no field {name}, this kernel has: {}", known()));
        self.fields.get(name).copied().ok_or_else(missing)
    }

    /// A field that is a number.
    ///
    /// # Errors
    /// Fails if the kernel has no such field, or if the field is not a number.
    pub fn number(&self, name: &str) -> Result<Field, FormatError> {
        let field = self.field(name)?;
        if matches!(field.size, 1 | 2 | 4 | 8) && !field.elsewhere {
            return Ok(field);
        }
        Err(self.error(format!("field {name} has {} bytes, expected a number", field.size)))
    }

    fn add(&mut self, line: &str) -> Result<(), FormatError> {
        let wrong = || self.error(format!("not a description of a field: {line:?}"));
        let parts: Vec<&str> = line.split(';').map(str::trim).collect();
        let value = |key| parts.iter().find_map(|part| part.strip_prefix(key));
        let number = |key| value(key).and_then(|text| text.parse::<usize>().ok()).ok_or_else(wrong);
        let declared = value("field:").ok_or_else(wrong)?;
        let name = declared.split_whitespace().next_back().ok_or_else(wrong)?;
        let name = name.split('[').next().unwrap_or(name).to_owned();
        let (offset, size) = (number("offset:")?, number("size:")?);
        if offset > LARGEST || size > LARGEST {
            return Err(wrong());
        }
        if declared.starts_with("__rel_loc") {
            return Ok(());
        }
        let elsewhere = declared.starts_with("__data_loc");
        if elsewhere && size != 4 {
            return Err(wrong());
        }
        let field = Field { offset, size, signed: value("signed:") == Some("1"), elsewhere };
        self.fields.insert(name, field);
        Ok(())
    }
}

/// Takes a text apart into the header of a page, which comes first, and events.
///
/// # Errors
/// Fails if a line that should describe a field does not.
pub fn sections(text: &str) -> Result<Vec<Section>, FormatError> {
    let mut sections = vec![Section::default()];
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("name: ") {
            sections.push(Section { name: name.trim().into(), ..Section::default() });
            continue;
        }
        let section = sections.last_mut().expect("there is always one");
        if let Some(id) = line.strip_prefix("ID: ") {
            let wrong = |_| section.error(format!("ID {:?}, expected 1 to 65535", id.trim()));
            section.id = Some(id.trim().parse().map_err(wrong)?);
        } else if line.trim_start().starts_with("field:") {
            section.add(line)?;
        }
    }
    Ok(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(line: &str) -> Result<Section, FormatError> {
        Ok(sections(&format!("name: x\nID: 7\nformat:\n{line}\n"))?.remove(1))
    }

    #[test]
    fn signed_fields_keep_their_sign_and_others_do_not_get_one() {
        let line = "\tfield:int prio;\toffset:1;\tsize:2;\tsigned:1;\n\
                    \tfield:u16 port;\toffset:1;\tsize:2;\tsigned:0;";
        let section = section(line).unwrap();
        let event = [9, 0xfe, 0xff];
        assert_eq!(section.number("prio").unwrap().number(&event), Some(-2_i64 as u64));
        assert_eq!(section.number("port").unwrap().number(&event), Some(0xfffe));
        assert_eq!(section.number("port").unwrap().number(&event[..2]), None);
    }

    #[test]
    fn text_is_found_in_its_place_or_elsewhere_and_ends_at_zero() {
        let line = "\tfield:char here[4];\toffset:0;\tsize:4;\tsigned:0;\n\
                    \tfield:__data_loc char[] there;\toffset:4;\tsize:4;\tsigned:0;";
        let section = section(line).unwrap();
        let event = [b'a', b'b', 0, b'x', 8, 0, 3, 0, b'd', b'e', 0];
        assert_eq!(section.field("here").unwrap().text(&event), Some(&b"ab"[..]));
        assert_eq!(section.field("there").unwrap().text(&event), Some(&b"de"[..]));
        assert_eq!(section.field("there").unwrap().text(&event[..10]), None);
    }

    #[test]
    fn absent_fields_and_broken_lines_are_named() {
        let section = section("\tfield:int a;\toffset:0;\tsize:4;\tsigned:1;").unwrap();
        let error = section.number("b").unwrap_err().to_string();
        assert_eq!(error, "trace event x: no field b, this kernel has: a");
        let text = "name: y\n\tfield:int a;\toffset:-1;\tsize:4;\tsigned:1;";
        assert!(sections(text).unwrap_err().to_string().contains("offset:-1"));
        assert!(sections("name: y\nID: 70000\n").unwrap_err().to_string().contains("70000"));
    }
}

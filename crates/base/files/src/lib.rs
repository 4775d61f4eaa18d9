//! Files that people write: read up to a limit, as YAML or JSON into types of serde, and written
//! so that people can read them.
//!
//! The data path is `text ->` [`Tree`] (positions kept) `->` a type that implements
//! [`Deserialize`](serde::Deserialize). An [`Error`] names the file, the line, the column, the key,
//! the value found and what was expected. Conflicts between two values are found by the caller,
//! after the type is read; [`Tree::refuse`] and [`Tree::wrong`] say where they stand.
//!
//! - A key whose value is empty, `~` or `null` is absent. Keys that the type has not are refused.
//! - What a type says that it expected, with [`serde::de::Error::custom`], is the end of the
//!   sentence "found ..., expected ...".
//! - [`Edits`] change single values in a text, whose comments stay.
//! - [`to_yaml`] writes any type that implements [`Serialize`](serde::Serialize).
//!
//! ```
//! #[derive(Debug, serde::Deserialize)]
//! struct Door {
//!     width_mm: u32,
//! }
//!
//! let door: Door = files::Tree::parse("width_mm: 900", "door.yaml")?.read()?;
//! assert_eq!(door.width_mm, 900);
//! let error = files::Tree::parse("width_mm: wide", "door.yaml")?.read::<Door>().unwrap_err();
//! let expected = "expected a whole number from 0 to 4294967295";
//! assert_eq!(error.to_string(), format!("door.yaml:1:11: width_mm: found \"wide\", {expected}"));
//! # Ok::<(), files::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bounded;
mod edit;
mod error;
mod tree;
mod value;
mod write;

pub use bounded::{bytes, text};
pub use edit::{Edits, name};
pub use error::Error;
pub use tree::{Step, Tree, path_text, shorten};
pub use value::{checked, checked_list, checked_texts};
pub use write::{is_default, to_yaml};

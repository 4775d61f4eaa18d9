//! Files of a study's results in a folder.
//!
//! | file | what |
//! |---|---|
//! | `samples.parquet` | every repetition, one row each |
//! | `cases.json` | what there is to say of each case, and what is missing |
//! | `table.txt` | the same for reading |
//! | `figure-*.svg` | the plots |
//! | `report.html` | one page that needs no network |
//! | `report.pdf` | a paper, with the feature `pdf` |
//!
//! The page and the paper say the same ([`content`]); every sentence with a number in it is made of
//! the study's samples.

mod cases;
mod claim;
mod compare;
mod contender;
mod content;
mod error;
mod figure;
mod files;
mod machine;
mod page;
#[cfg(feature = "pdf")]
mod paper;
mod samples;
mod setup;
mod table;
mod tables;
mod unit;
mod words;

pub use cases::json;
pub use error::Error;
pub use machine::Machine;
pub use table::table;

use crate::study::Study;
use content::Content;
use files::Folder;
use std::path::{Path, PathBuf};

/// True if there is a paper.
pub const PDF: bool = cfg!(feature = "pdf");

/// Writes all files into a folder, which is made where it does not exist, and says which. A file
/// under its own name is always whole: it is written under another one first.
///
/// # Errors
/// [`Error::Folder`] and [`Error::File`] when something cannot be written; the others do not depend
/// on the machine.
pub fn write(study: &Study, machine: &Machine, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut folder = Folder::create(folder)?;
    let figures = figure::all(study)?;
    let content = Content::new(study, machine, &figures);
    folder.put("samples.parquet", &samples::write(study)?)?;
    folder.put("cases.json", json(study, machine).as_bytes())?;
    folder.put("table.txt", table(study).as_bytes())?;
    for figure in &figures {
        folder.put(&figure.file, figure.svg.as_bytes())?;
    }
    folder.put("report.html", page::html(&content, &figures)?.as_bytes())?;
    #[cfg(feature = "pdf")]
    folder.put("report.pdf", &paper::pdf(&content, &figures)?)?;
    Ok(folder.written())
}

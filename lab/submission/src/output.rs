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
//! The text, the page and the paper say the same ([`document`]); every sentence with a number in it is
//! made of the study's samples.

mod cases;
mod claim;
mod compare;
mod contender;
mod content;
mod error;
mod figures;
mod machine;
#[cfg(feature = "pdf")]
mod paper;
mod samples;
mod setup;
mod tables;
mod unit;
mod words;

pub use cases::{SCHEMA, json};
pub use error::Error;
pub use machine::Machine;

use crate::study::Study;
use content::content;
use report::document::{Document, WIDTH};
use std::path::{Path, PathBuf};

/// True if there is a paper.
pub const PDF: bool = cfg!(feature = "pdf");

/// The study as people read it.
pub fn document(study: &Study, machine: &Machine) -> Document {
    content(study, machine).document
}

/// Writes all files into a folder, which is made where it does not exist, and says which. A file
/// under its own name is always whole: it is written under another one first.
///
/// # Errors
/// [`Error::Folder`] and [`Error::File`] when something cannot be written; the others do not depend
/// on the machine.
pub fn write(study: &Study, machine: &Machine, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    std::fs::create_dir_all(folder)
        .map_err(|source| Error::Folder { path: folder.to_owned(), source })?;
    let content = content(study, machine);
    let mut written = Vec::new();
    let mut put = |name: &str, bytes: &[u8]| -> Result<(), Error> {
        let failed = |source| Error::File { path: folder.join(name), source };
        written.push(trial::write_whole(folder, name, bytes).map_err(failed)?);
        Ok(())
    };
    put("samples.parquet", &samples::write(study)?)?;
    put("cases.json", format!("{:#}\n", json(study, machine)).as_bytes())?;
    put("table.txt", content.document.text(WIDTH, false).as_bytes())?;
    let mut drawings = Vec::new();
    for (section, figure) in &content.figures {
        let Some(svg) = figure.svg()? else { continue };
        put(&figure.file, svg.as_bytes())?;
        drawings.push((section.as_str(), figure, svg));
    }
    put("report.html", content.document.html()?.as_bytes())?;
    #[cfg(feature = "pdf")]
    put("report.pdf", &paper::pdf(&content.document, &drawings)?)?;
    Ok(written)
}

//! The result as a paper. The template is `report.typ`, beside this file; it reads `content.json`
//! and the figures. Fonts come with the program, and nothing is read from the machine.

use super::Error;
use super::figures::Figure;
use report::document::Document;
use serde_json::json;
use std::collections::HashMap;
use std::sync::LazyLock;
use typst::diag::{FileError, FileResult, SourceDiagnostic};
use typst::foundations::{Bytes, Datetime, Duration};
use typst::syntax::{FileId, RootedPath, Source, VirtualPath, VirtualRoot};
use typst::text::{Font, FontBook};
use typst::utils::LazyHash;
use typst::{Library, LibraryExt, World};
use typst_layout::PagedDocument;
use typst_pdf::PdfOptions;

const TEMPLATE: &str = include_str!("report.typ");

/// A figure: title of its section, and its drawing.
type Drawn<'f> = (&'f str, &'f Figure, String);

/// The bytes of the paper.
pub(super) fn pdf(document: &Document, figures: &[Drawn<'_>]) -> Result<Vec<u8>, Error> {
    let shown = figures.iter().map(|(section, figure, _)| {
        json!({"section": section, "file": figure.file, "caption": figure.caption})
    });
    let content = json!({"document": document, "figures": shown.collect::<Vec<_>>()});
    let mut files = vec![("content.json".to_owned(), Bytes::from_string(content.to_string()))];
    let drawing =
        |(_, figure, svg): &Drawn<'_>| (figure.file.clone(), Bytes::from_string(svg.clone()));
    files.extend(figures.iter().map(drawing));
    let desk = Desk::new(files)?;
    let document = typst::compile::<PagedDocument>(&desk).output.map_err(|all| wrong(&all))?;
    typst_pdf::pdf(&document, &PdfOptions::default()).map_err(|all| wrong(&all))
}

/// Error with the typesetter's messages, in one line.
fn wrong(all: &[SourceDiagnostic]) -> Error {
    let words: Vec<&str> = all.iter().map(|one| one.message.as_str()).collect();
    Error::Paper(words.join("; "))
}

/// The fonts, read once.
static FONTS: LazyLock<(LazyHash<FontBook>, Vec<Font>)> = LazyLock::new(|| {
    let fonts = typst_assets::fonts().flat_map(|data| Font::iter(Bytes::new(data)));
    let fonts: Vec<Font> = fonts.collect();
    (LazyHash::new(FontBook::from_fonts(&fonts)), fonts)
});

/// Files that the typesetter sees.
struct Desk {
    library: LazyHash<Library>,
    template: Source,
    files: HashMap<FileId, Bytes>,
}

impl Desk {
    fn new(files: Vec<(String, Bytes)>) -> Result<Desk, Error> {
        let id = |name: &str| {
            let path = VirtualPath::new(name);
            let path = path.map_err(|error| Error::Paper(format!("{name}: {error:?}")))?;
            Ok::<_, Error>(FileId::new(RootedPath::new(VirtualRoot::Project, path)))
        };
        let files = files.into_iter().map(|(name, bytes)| Ok((id(&name)?, bytes)));
        Ok(Desk {
            library: LazyHash::new(Library::default()),
            template: Source::new(id("report.typ")?, TEMPLATE.to_owned()),
            files: files.collect::<Result<_, Error>>()?,
        })
    }
}

impl World for Desk {
    fn library(&self) -> &LazyHash<Library> {
        &self.library
    }

    fn book(&self) -> &LazyHash<FontBook> {
        &FONTS.0
    }

    fn main(&self) -> FileId {
        self.template.id()
    }

    fn source(&self, id: FileId) -> FileResult<Source> {
        if id == self.template.id() { Ok(self.template.clone()) } else { Err(FileError::NotSource) }
    }

    fn file(&self, id: FileId) -> FileResult<Bytes> {
        let name = || id.get().vpath().get_without_slash().into();
        self.files.get(&id).cloned().ok_or_else(|| FileError::NotFound(name()))
    }

    fn font(&self, index: usize) -> Option<Font> {
        FONTS.1.get(index).cloned()
    }

    fn today(&self, _offset: Option<Duration>) -> Option<Datetime> {
        None
    }
}

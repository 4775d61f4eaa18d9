//! Results as every subcommand shows them: tables or JSON on standard output, a page beside them.
//!
//! JSON has the same frame everywhere: `schema` and `version`, `partial` with a sentence or null. A result that a signal has cut short is said to be partial in each form.

use std::path::Path;
use std::process::ExitCode;

use report::document::{Document, WIDTH};
use serde_json::{Value, json};
use terminal::output;
use trial::signals::Interrupted;

/// Form in which a result is shown.
pub(crate) struct Shown<'a> {
    /// Name of the result as JSON, such as `keeptime.chains`, and its version.
    pub schema: (&'static str, u32),
    /// True for JSON instead of tables.
    pub json: bool,
    /// File of the page.
    pub html: Option<&'a Path>,
    /// End of the measurement.
    pub end: &'a End,
}

impl Shown<'_> {
    /// Writes the page and prints the document; beside a page its summary.
    ///
    /// # Errors
    /// If the page or standard output cannot be written.
    pub(crate) fn document(
        &self,
        json: impl FnOnce() -> Value,
        mut document: Document,
    ) -> anyhow::Result<()> {
        let partial = self.end.partial().filter(|partial| !document.marks.contains(partial));
        if let Some(partial) = partial {
            document.marks.insert(0, partial);
        }
        output::write("--html", self.html, || Ok(document.html()?))?;
        let words = || match self.html {
            Some(_) => document.summary(WIDTH, true),
            None => document.text(WIDTH, true),
        };
        output::print(self.json, || self.framed(json()), words)
    }

    /// Prints a result that has no page.
    ///
    /// # Errors
    /// If standard output cannot be written.
    pub(crate) fn text(
        &self,
        json: impl FnOnce() -> Value,
        text: impl FnOnce() -> String,
    ) -> anyhow::Result<()> {
        let partial = self.end.partial().map_or(String::new(), |partial| format!("! {partial}\n"));
        output::print(self.json, || self.framed(json()), || partial + &text())
    }

    /// A result, which is an object, as JSON in its frame.
    pub(crate) fn framed(&self, mut result: Value) -> Value {
        let (schema, version) = self.schema;
        let partial = self.end.partial();
        let mut framed = json!({ "schema": schema, "version": version, "partial": partial });
        if let (Some(framed), Some(result)) = (framed.as_object_mut(), result.as_object_mut()) {
            result.retain(|key, _| !framed.contains_key(key));
            framed.append(result);
        }
        framed
    }
}

/// End of a measurement that consists of units.
#[derive(Default)]
pub(crate) struct End {
    /// The signal that ended it.
    pub interrupted: Option<Interrupted>,
    /// Units that were finished, of all.
    pub units: (usize, usize),
    /// Name of the units, as in `policies`.
    pub name: &'static str,
}

impl End {
    /// Says that the result is partial, if it is.
    pub(crate) fn partial(&self) -> Option<String> {
        let (done, all) = self.units;
        let interrupted = self.interrupted?;
        Some(format!("partial, {interrupted}: {done} of {all} {} finished", self.name))
    }

    /// The answer of the command: the signal, or that of the result.
    ///
    /// # Errors
    /// [`Interrupted`].
    pub(crate) fn answer(&self, code: ExitCode) -> anyhow::Result<ExitCode> {
        self.interrupted.map_or(Ok(code), |interrupted| Err(interrupted.into()))
    }

    /// Goes on with a result that has something to show.
    ///
    /// # Errors
    /// [`Interrupted`], if nothing was finished.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        match self.interrupted {
            Some(interrupted) if self.units.0 == 0 => Err(interrupted.into()),
            _ => Ok(()),
        }
    }
}

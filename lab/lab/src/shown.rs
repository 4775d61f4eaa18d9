//! Results as every subcommand shows them: tables or JSON on standard output, a page beside them.
//!
//! JSON has the same frame everywhere: `schema` and `version`, `partial` with a sentence or null, and
//! times in nanoseconds. A result that a signal has cut short is said to be partial in each form.

use std::path::Path;
use std::process::ExitCode;

use report::document::{Document, WIDTH};
use serde_json::{Map, Value, json};
use terminal::output;
use trial::signals::Interrupted;

/// Units of times in names of keys, with their nanoseconds.
const UNITS: [(&str, f64); 3] = [("_us", 1e3), ("_ms", 1e6), ("_s", 1e9)];

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

    /// A result as JSON in its frame.
    pub(crate) fn framed(&self, result: Value) -> Value {
        let mut framed = in_nanoseconds(result);
        let (schema, version) = self.schema;
        framed["schema"] = json!(schema);
        framed["version"] = json!(version);
        framed["partial"] = json!(self.end.partial());
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

/// A value whose times are in nanoseconds, in keys that end with `_ns`.
fn in_nanoseconds(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().map(|(key, value)| {
                let value = in_nanoseconds(value);
                match unit(&key) {
                    Some((stem, unit_ns)) => (format!("{stem}_ns"), scaled(value, unit_ns)),
                    None => (key, value),
                }
            });
            Value::Object(members.collect::<Map<String, Value>>())
        }
        Value::Array(values) => values.into_iter().map(in_nanoseconds).collect(),
        other => other,
    }
}

/// A key without its unit of time, and the unit; none of a rate.
fn unit(key: &str) -> Option<(&str, f64)> {
    let known = UNITS.iter().find_map(|(unit, ns)| Some((key.strip_suffix(unit)?, *ns)));
    known.filter(|(stem, _)| !stem.ends_with("_per") && !stem.is_empty())
}

fn scaled(value: Value, factor: f64) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().map(|number| number * factor)),
        Value::Array(values) => values.into_iter().map(|value| scaled(value, factor)).collect(),
        Value::Object(members) => {
            members.into_iter().map(|(key, value)| (key, scaled(value, factor))).collect()
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_nanoseconds_and_rates_and_counts_stay() {
        let result = json!({
            "duration_s": 2, "max_us": [1.5, null], "p50_ns": 7,
            "others_per_s": 3, "jobs": 4, "chains": {"a": {"stolen_ms": 1.0}},
            "overhead_us": {"best": 198.0},
        });
        let expected = json!({
            "duration_ns": 2e9, "max_ns": [1500.0, null], "p50_ns": 7,
            "others_per_s": 3, "jobs": 4, "chains": {"a": {"stolen_ns": 1e6}},
            "overhead_ns": {"best": 198_000.0},
        });
        assert_eq!(in_nanoseconds(result), expected);
    }
}

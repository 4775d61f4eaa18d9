//! The result as one page. The template is `page.html`, beside this file.

use super::Error;
use super::content::Content;
use super::figure::Figure;
use minijinja::context;
use minijinja::value::{Serde, Value};
use std::collections::BTreeMap;

/// One self-contained page.
pub(super) fn html(content: &Content<'_>, figures: &[Figure]) -> Result<String, Error> {
    // The drawing library escapes the text of the drawings.
    let drawing = |one: &Figure| (one.file.clone(), Value::from_safe_string(one.svg.clone()));
    let drawings: BTreeMap<String, Value> = figures.iter().map(drawing).collect();
    let all = context! { drawings, ..Value::from(Serde(content)) };
    Ok(report::page::render("submission.html", include_str!("page.html"), all)?)
}

//! Pages that need nothing else: no network, no fonts of their own, and no script but for what moves.
//!
//! A page is a template beside the module that fills it. It extends `page.html`, which is beside
//! this file: the head with `style.css`, the title, notes on the validity of the results (`marks`:
//! texts, or `text` and the subject `of` it), and blocks for the rest. `parts.html` has the table that
//! all pages use. The engine escapes everything
//! that goes into a page; only the style and the plots, whose text the drawing library escapes, are
//! marked as safe.

use crate::Error;
use crate::theme::inks;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, context};

/// The names of templates decide how the engine escapes: not at all in a style.
const STYLE: &str = "style.css";

/// Fills in a template, whose name ends in `.html`, with `content` and the style.
///
/// # Errors
/// [`Error::Template`].
pub fn render(name: &'static str, source: &str, content: Value) -> Result<String, Error> {
    let wrong = |source| Error::Template { template: name, source };
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.map_err(wrong)?);
    environment.add_template(STYLE, include_str!("style.css")).map_err(wrong)?;
    environment.add_template("page.html", include_str!("page.html")).map_err(wrong)?;
    environment.add_template("parts.html", include_str!("parts.html")).map_err(wrong)?;
    environment.add_template(name, source).map_err(wrong)?;
    let colours: Vec<Value> = inks()
        .iter()
        .map(|ink| context! { name => ink.name, light => ink.light, dark => ink.dark })
        .collect();
    let template = |name| environment.get_template(name).map_err(wrong);
    let style = template(STYLE)?.render(context! { inks => colours }).map_err(wrong)?;
    let style = Value::from_safe_string(style);
    template(name)?.render(context! { style, ..content }).map_err(wrong)
}

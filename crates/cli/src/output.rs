//! What a command prints, and the files that it is asked to write.

use std::io::Write;
use std::path::Path;

use anyhow::Context;

/// Prints JSON, or else words, which may be coloured.
pub fn print(
    as_json: bool,
    json: impl FnOnce() -> serde_json::Value,
    words: impl FnOnce() -> String,
) -> anyhow::Result<()> {
    if as_json {
        writeln!(std::io::stdout(), "{}", serde_json::to_string_pretty(&json())?)?;
        return Ok(());
    }
    let mut out = anstream::stdout().lock();
    out.write_all(words().as_bytes())?;
    Ok(out.flush()?)
}

/// Writes the file that an option names, if it is given.
///
/// # Errors
/// Names the option and the file.
pub fn write(
    option: &str,
    file: Option<&Path>,
    content: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    std::fs::write(file, content()?).with_context(|| format!("{option} {}", file.display()))
}

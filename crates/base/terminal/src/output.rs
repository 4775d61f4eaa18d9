//! Output of a command, and the files that it is asked to write.

use std::borrow::Cow;
use std::fs::{OpenOptions, Permissions};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;

/// Writes a message to standard error. A command goes on without readers, so nothing is said of
/// an error; what stands in the message from files and other processes cannot move the cursor.
pub fn tell(message: std::fmt::Arguments<'_>) {
    let text = lines(&message.to_string());
    // In one piece, so that lines of several processes do not mix.
    let _ = std::io::stderr().write_all(format!("{text}\n").as_bytes());
}

/// The lines of a text, without characters that a terminal would not show.
pub fn lines(text: &str) -> String {
    let clean: Vec<Cow<'_, str>> = text.split('\n').map(name::clean).collect();
    clean.join("\n")
}

/// Prints JSON, or else words, which may be coloured.
///
/// # Errors
/// If standard output cannot be written.
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

/// Writes the file that an option names, if it is given, whole or not at all, and says so.
///
/// # Errors
/// Names the option and the file. An older file of that name is then as it was.
pub fn write(
    option: &str,
    file: Option<&Path>,
    content: impl FnOnce() -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let content = content()?;
    whole(file, content.as_bytes()).with_context(|| format!("{option} {}", file.display()))?;
    tell(format_args!("wrote {}", file.display()));
    Ok(())
}

/// Checks that the file that an option names can be written, if it is given: before minutes of
/// work, not after them. Nothing is left where no file was.
///
/// # Errors
/// Names the option and the file.
pub fn check(option: &str, file: Option<&Path>) -> anyhow::Result<()> {
    let Some(file) = file else { return Ok(()) };
    let checked = match std::fs::metadata(file) {
        Ok(found) if found.is_dir() => Err(Error::from(ErrorKind::IsADirectory)),
        Ok(_) => OpenOptions::new().append(true).open(file).map(drop),
        Err(_) => tempfile::tempfile_in(folder(file)).map(drop),
    };
    checked.with_context(|| format!("{option} {}", file.display()))
}

/// Writes a file, whole or not at all.
///
/// # Errors
/// It cannot be written. An older file of that name is then as it was.
pub fn whole(file: &Path, bytes: &[u8]) -> Result<(), Error> {
    // A device or a pipe cannot be replaced.
    if std::fs::metadata(file).is_ok_and(|found| !found.is_file()) {
        return std::fs::write(file, bytes);
    }
    // A link stays one.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let mut new = tempfile::Builder::new()
        .prefix(".keeptime.")
        .permissions(Permissions::from_mode(0o666))
        .tempfile_in(folder(&file))?;
    new.write_all(bytes)?;
    new.as_file().sync_all()?;
    new.persist(&file)?;
    Ok(())
}

/// The folder of a file.
fn folder(file: &Path) -> &Path {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// Exit status of a program whose answer this is: 2 after an error, which is written with the
/// program's name before it, unless the reader of its output has closed the pipe.
pub fn status(program: &str, answer: anyhow::Result<ExitCode>) -> ExitCode {
    answer.unwrap_or_else(|error| {
        if !is_broken_pipe(&error) {
            tell(format_args!("{program}: {error:#}"));
        }
        ExitCode::from(2)
    })
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|cause| cause.kind() == std::io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_keep_their_lines_and_nothing_else_that_moves_the_cursor() {
        assert_eq!(lines("a\n\x1b[2Jb\r\n\u{202e}c"), "a\n\u{fffd}[2Jb\u{fffd}\n\u{fffd}c");
    }
}

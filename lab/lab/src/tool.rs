//! The tool, `keeptime`, which experiments run as its users do.

use std::path::PathBuf;

use anyhow::{Context, ensure};

/// The program, beside this one.
///
/// # Errors
/// Names the file that is not there.
pub fn keeptime() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("this program's own file")?;
    let tool = own.with_file_name("keeptime");
    ensure!(
        tool.is_file(),
        "{}: expected the command keeptime beside keeptime-lab",
        tool.display()
    );
    Ok(tool)
}

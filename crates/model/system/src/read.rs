//! Reading of a file into a [`System`].

use crate::quantity::with_bare_unit;
use crate::{Error, System, check, draft};
use files::Tree;
use std::path::Path;

/// The largest file that is read.
pub(crate) const MAX_BYTES: u64 = 16 << 20;

impl System {
    /// Reads and checks the system file at `path`.
    ///
    /// # Errors
    /// [`Error::Read`], and everything that [`System::parse`] returns.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Self::from_tree(&Tree::open(path, MAX_BYTES)?, &path.display().to_string(), false)
    }

    /// Parses and checks the text of a system file; errors carry the name of the file.
    ///
    /// # Errors
    /// Names the file, the line, the key, the value and what was expected.
    pub fn parse(text: &str, name_of_file: &str) -> Result<Self, Error> {
        Self::from_tree(&Tree::parse(text, name_of_file)?, name_of_file, false)
    }

    /// In a draft, chains and executors may lack their priorities; they get any.
    pub(crate) fn from_tree(
        tree: &Tree,
        name_of_file: &str,
        is_draft: bool,
    ) -> Result<Self, Error> {
        let unit = tree.key("time_unit")?;
        let mut system: System = with_bare_unit(unit, || tree.read())?;
        system.name = name_of_file.to_owned();
        for chain in &mut system.chains {
            if chain.deadline_ns == 0 {
                chain.deadline_ns = chain.period_ns;
            }
        }
        draft::complete(&mut system, tree, is_draft)?;
        check::check(&system, tree)?;
        Ok(system)
    }
}

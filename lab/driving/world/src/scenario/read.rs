//! Scenarios as YAML.

use super::{Layout, Scenario};
use std::path::{Path, PathBuf};

/// The largest file that is read, bytes.
pub(super) const MAX_BYTES: u64 = 16 << 20;

/// Reason for which a scenario was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read, or is no scenario: a key is unknown or missing, a value has the
    /// wrong type, or it is not YAML at all.
    #[error(transparent)]
    File(#[from] files::Error),
    /// A value is out of range, or in conflict with another one.
    #[error("{file}: {key}: found {found}, expected {expected}")]
    Value {
        /// The file.
        file: String,
        /// The path to the value, as in `actors[2].speed_kmh`.
        key: String,
        /// The value.
        found: String,
        /// Description of the valid values.
        expected: String,
    },
    /// A file of roads that it names is none.
    #[error("{file}: {key}: {reason}")]
    Roads {
        /// The file.
        file: String,
        /// The path to the value.
        key: &'static str,
        /// Error in that file.
        reason: Box<crate::opendrive::Error>,
    },
}

impl Scenario {
    /// The scenario in a file.
    ///
    /// # Errors
    /// If the file cannot be read or holds no scenario.
    pub fn read(path: &Path) -> Result<Scenario, Error> {
        let file = path.display().to_string();
        let text = crate::text::read(path, MAX_BYTES);
        let text = text.map_err(|reason| files::Error::Read { file: file.clone(), reason })?;
        Scenario::from_yaml(&text, &file)
    }

    /// The scenario in a text; `file` is the name that errors give to it, and what other files are
    /// relative to.
    ///
    /// # Errors
    /// If it holds no scenario, or names a file of roads that cannot be read.
    pub fn from_yaml(text: &str, file: &str) -> Result<Scenario, Error> {
        let mut scenario: Scenario = files::Tree::parse(text, file)?.read()?;
        let folder = Path::new(file).parent().unwrap_or(Path::new(""));
        if let Some(sumo) = &mut scenario.sumo {
            for path in sumo.network.iter_mut().chain([&mut sumo.routes]) {
                *path = absolute(folder, path);
            }
        }
        if let Layout::OpenDrive(roads) = &mut scenario.road {
            let (file, key) = (file.to_owned(), "road.opendrive.file");
            roads.load(folder).map_err(|reason| Error::Roads {
                file,
                key,
                reason: Box::new(reason),
            })?;
        }
        scenario.check(file)?;
        Ok(scenario)
    }

    /// Text that [`Scenario::from_yaml`] reads.
    pub fn to_yaml(&self) -> String {
        files::to_yaml(self)
    }
}

/// A path relative to a folder, such that it means the same everywhere.
pub(super) fn absolute(folder: &Path, path: &Path) -> PathBuf {
    let path = folder.join(path);
    std::path::absolute(&path).unwrap_or(path)
}

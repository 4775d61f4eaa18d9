//! Roads from a subset of ASAM OpenDRIVE, in the plane.
//!
//! What is read: the reference line of each road (line, arc, spiral, paramPoly3), lane offsets,
//! lane sections with widths, links of roads and lanes, junctions with their connections and
//! priorities, speed limits. Each lane of a kind that vehicles drive on becomes one
//! [`Lane`](crate::Lane) for each section; its width is the mean of the section's. Heights, signals,
//! objects and road marks are left out.
//!
//! - `document` reads the XML into plain values and checks each of them;
//! - `curve` is a reference line: the pose at a distance from its beginning;
//! - `lanes` lays the lanes of a section beside it;
//! - `network` connects them.
//!
//! The file is foreign: whatever it says, the answer is a road or an [`Error`] with the line, the
//! element, what was found and what was expected. Memory is bounded by [`MAX_POINTS`].

mod curve;
mod document;
mod error;
mod lanes;
mod network;

pub use error::Error;

use crate::Road;
use std::path::Path;

/// The most points that all lanes of a file may have together.
pub const MAX_POINTS: usize = 500_000;

/// The limit where a file says none: 50 km/h, in m/s.
pub const DEFAULT_LIMIT: f64 = 50.0 / 3.6;

/// What an OpenDRIVE file describes.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Its lanes.
    pub road: Road,
    /// Which lane of the file each of them is, by the number of its [`LaneId`](crate::LaneId).
    pub origins: Vec<Origin>,
}

/// A lane of an OpenDRIVE file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The id of its road.
    pub road: String,
    /// Which of the road's lane sections, from 0.
    pub section: usize,
    /// The lane's id: below 0 right of the reference line, above 0 left of it.
    pub lane: i32,
    /// Whether its road is a way through a junction.
    pub in_junction: bool,
}

/// The largest file that is read, bytes.
pub const MAX_BYTES: u64 = 256 << 20;

/// The roads in a file.
///
/// # Errors
/// If the file cannot be read, is no OpenDRIVE, or is outside of the subset.
pub fn read(path: &Path) -> Result<Map, Error> {
    let file = path.display().to_string();
    match text(path) {
        Ok(text) => parse(&text, &file),
        Err(reason) => Err(Error::Read { file, reason }),
    }
}

/// What stands in a file; a pipe or a device, which may have no end, is none.
fn text(path: &Path) -> std::io::Result<String> {
    let about = std::fs::metadata(path)?;
    if !about.is_file() || about.len() > MAX_BYTES {
        let reason = format!("it is no ordinary file of at most {MAX_BYTES} bytes");
        return Err(std::io::Error::other(reason));
    }
    std::fs::read_to_string(path)
}

/// The roads in a text; `file` is the name that errors give to it.
///
/// # Errors
/// If it is no OpenDRIVE, or is outside of the subset.
pub fn parse(text: &str, file: &str) -> Result<Map, Error> {
    let document = document::Document::parse(text, file)?;
    network::build(&document)
}

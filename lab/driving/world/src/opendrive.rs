//! Roads from a subset of ASAM OpenDRIVE, in the plane.
//!
//! The subset has the reference line of each road (line, arc, spiral, paramPoly3), lane offsets,
//! lane sections with widths, links of roads and lanes, junctions with their connections and
//! priorities, and speed limits. Each lane of a kind that vehicles drive on becomes one
//! [`Lane`](crate::Lane) for each section; its width is the mean of the section's. Heights,
//! signals, objects and road marks are left out.
//!
//! - `document` reads the XML into plain values and checks each of them;
//! - `curve` is a reference line: the pose at a distance from its beginning;
//! - `lanes` lays the lanes of a section beside it;
//! - `network` connects them.
//!
//! The file is foreign: whatever it says, the answer is a road or an [`Error`] with the line, the
//! element, what was found and what was expected. Memory is bounded by [`MAX_POINTS`], and work by
//! [`MAX_STEPS`]; `scan` keeps from the XML reader what it takes quadratic time for.

mod curve;
mod document;
mod lane_network;
mod lanes;
mod opendrive_error;
mod scan;

pub use opendrive_error::Error;

use crate::Road;
use std::path::Path;

/// The most points that all lanes of a file may have together.
pub const MAX_POINTS: usize = 500_000;

/// The most steps of work for a file: records, widths and links that are looked at.
pub const MAX_STEPS: u64 = 50_000_000;

/// The limit where a file says none: 50 km/h, in m/s.
pub const DEFAULT_LIMIT: f64 = 50.0 / 3.6;

/// Content of an OpenDRIVE file.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Its lanes.
    pub road: Road,
    /// Lane of the file that each of them is, by the number of its [`LaneId`](crate::LaneId).
    pub origins: Vec<Origin>,
    /// Steps of work that it took to lay and connect them, of [`MAX_STEPS`].
    pub steps: u64,
}

/// Steps of [`MAX_STEPS`] that are left.
struct Work {
    left: u64,
}

impl Work {
    fn new() -> Work {
        Work { left: MAX_STEPS }
    }

    /// None if less is left.
    fn take(&mut self, steps: usize) -> Option<()> {
        self.left = self.left.checked_sub(steps as u64)?;
        Some(())
    }

    fn done(&self) -> u64 {
        MAX_STEPS - self.left
    }
}

/// A lane of an OpenDRIVE file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Origin {
    /// The id of its road.
    pub road: String,
    /// Number of the road's lane section, from 0.
    pub section: usize,
    /// The lane's id: below 0 right of the reference line, above 0 left of it.
    pub lane: i32,
    /// True if its road is a way through a junction.
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
    match crate::text::read(path, MAX_BYTES) {
        Ok(text) => parse(&text, &file),
        Err(reason) => Err(Error::Read { file, reason }),
    }
}

/// The roads in a text; `file` is the name that errors give to it.
///
/// # Errors
/// If it is no OpenDRIVE, or is outside of the subset.
pub fn parse(text: &str, file: &str) -> Result<Map, Error> {
    let document = document::Document::parse(text, file)?;
    lane_network::build(&document)
}

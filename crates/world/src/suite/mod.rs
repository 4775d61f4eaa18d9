//! The scenarios of the study: normal traffic, and corner cases.

mod corner;
mod families;
mod frozen;
mod normal;

pub use corner::{CORNER, Density, Family, Set, band, corner, density, develop, family};
pub use frozen::{Frozen, HEAD, Stale, fingerprint, read};
pub use normal::{NORMAL, normal};

//! The scenarios of the study: normal traffic, and corner cases.

mod corner;
mod families;
mod frozen;
mod normal;

pub use corner::{CONFIRM, CORNER, Density, Family, Set, corner};
pub use frozen::{Frozen, HEAD, Stale, fingerprint, read};
pub use normal::{NORMAL, normal};

//! The scenarios of the study: normal traffic, and corner cases.

mod corner;
mod families;
mod frozen;
mod normal;

pub use corner::{CORNER, Density, Family, corner, density, develop, family};
pub use frozen::{Frozen, fingerprint, frozen};
pub use normal::{NORMAL, normal};

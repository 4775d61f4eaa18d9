//! Closed-loop studies of driving stacks (COLA, figures 13 and 14, table 1).
//!
//! A [`Study`] says which scenarios are driven by which stacks under which policies. [`drive_all`]
//! drives them on several threads, each scenario under all policies by one thread, one after the
//! other; a [`Folder`] keeps each drive as soon as it is over, so that a study that was killed goes
//! on where it was, and the folders of its shards become one. [`judge::judge`] says what the drives
//! show, demand by demand, with confidence intervals over scenarios; [`DriveStudyRun::document`] is
//! that as people read it.
#![forbid(unsafe_code)]

mod around;
pub mod columns;
pub mod commute;
mod error;
mod experiment;
mod factor;
mod folder;
pub mod judge;
mod measure;
mod merge;
mod replay;
mod result;
mod row;
mod scenarios;
mod statistics;
mod study;
mod times;
mod usage;
mod work;

pub use around::{Frame, MODULES};
pub use error::Error;
pub use experiment::{Experiment, Suite};
pub use factor::{Factor, Slowness, published};
pub use folder::{Folder, Machine};
pub use merge::merge;
pub use replay::{Call, Part as WorkPart, beside};
pub use result::{Demand, DriveStudyRun, Value, Verdict};
pub use row::{Clock, Hit, Key, Reaction, Row, TIMES};
pub use scenarios::Scenarios;
pub use statistics::{Interval, exact_upper};
pub use study::{Part, Study};
pub use times::Times;
pub use trial::Shard;
pub use usage::Group;
pub use work::{Jobs, Progress, drive_all};

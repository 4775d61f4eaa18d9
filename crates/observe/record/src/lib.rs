//! Data that a recorder writes and a trace is made of.
//!
//! - [`layout`]: one [`Record`] of 32 bytes.
//! - [`clock`]: the time-stamp counter, and what turns it into nanoseconds.
//! - [`recording`]: the memory that the processes of a recorded program write to; the logs in it
//!   are [`shm::log`].
//! - [`side`]: beside the logs, the settings of the recording and the names in it.
//! - [`guard`]: how the program's locks are guarded, and what was counted.
//! - [`bandwidth`]: how the program holds the bandwidth lock, and what was counted.
//! - [`attach`]: how a process of the recorded program finds that memory; [`door`]: the socket for
//!   those that cannot open it.
//! - [`cuda`]: the functions of the CUDA driver, by number.
//!
//! ```
//! use record::{Record, Kind, Class, Action, Recording, Settings, clock};
//! use shm::log::{Cursor, Writer};
//! let recording = Recording::create(1 << 20, &Settings::default())?;
//! let (log, cursor) = (recording.log(), Cursor::default());
//! let locked = Record {
//!     time: clock::now(), subject: 0x1000, detail: 0, number: 0,
//!     kind: Kind::Lock(Class::Mutex, Action::Acquired),
//! };
//! assert!(log.append(&cursor, Writer { process: 1, thread: 42 }, locked.time, &locked.entry()));
//! let copies: Vec<_> = log.numbers().flat_map(|number| log.read(number)).collect();
//! assert_eq!(copies[0].entries, [locked.entry()]);
//! # Ok::<(), record::Error>(())
//! ```

pub mod attach;
pub mod bandwidth;
pub mod clock;
pub mod cuda;
pub mod door;
mod error;
pub mod guard;
pub mod layout;
pub mod recording;
pub mod side;

pub use error::Error;
pub use layout::{
    Action, Class, FLOW_VERSION, Flow, Hop, Kind, Raw, Record, SwitchDetail, VERSION,
};
pub use recording::Recording;
pub use side::{Flags, Name, NameKind, Settings, Side, Trouble};

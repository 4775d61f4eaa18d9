//! The interface of libloading 0.9 as far as cudarc and ort use it, by libloading 0.8.

pub use published::*;

use std::ffi::OsStr;

/// The name of a library's file.
pub trait AsFilename: AsRef<OsStr> {}

impl<P: AsRef<OsStr>> AsFilename for P {}

//! The interface of libloading 0.9 as far as cudarc uses it, by libloading 0.8.

pub use published::*;

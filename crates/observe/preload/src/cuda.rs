//! The hooks for the CUDA driver.
//!
//! A program reaches the driver in three ways, and gets the same hooks in each: it is linked with
//! `libcuda.so.1`, so that its calls bind to the symbols exported here; it asks `dlsym`; or it asks
//! `cuGetProcAddress`, as every CUDA runtime since 11.3 does. In the last two the driver's own
//! answer comes first, and the hook is chosen by the address that it returned ([`resolve`]): never
//! by name, which may stand for several versions with different arguments.
//!
//! - [`driver`] knows the addresses of the driver's functions.
//! - [`call`] is what every hook does: two records around the real function.
//! - [`arguments`] knows which argument is the stream, the size or the function.
//! - [`graph`] counts what is in a graph, and knows whether a stream is being captured.
//! - [`kernel`] names the kernels.
//! - [`cupti`] records when work ran on the GPU, if that is asked for.
//! - [`pinned`] knows which host memory is pinned.

mod arguments;
mod call;
mod cupti;
pub(crate) mod driver;
pub(crate) mod graph;
mod kernel;
pub(crate) mod pinned;
mod resolve;

pub(crate) use arguments::{CONFIGURATION_STREAM, has_suffix as is_per_thread};
pub(crate) use resolve::{look_up, look_up_version};

/// Notes that libraries were closed.
pub(crate) fn forget_closed() {
    driver::refresh();
}

use record::cuda::FUNCTIONS;

/// Number of functions that have hooks.
pub(crate) const COUNT: usize = FUNCTIONS.len();

/// Arguments of any function of the driver: six in registers, ten words of the caller's stack.
/// All of them are integers, pointers, or structures that lie in those words.
pub(crate) type Arguments = [usize; 16];

/// A hook, or a function of the driver. Called with more arguments than it has, it sees its own.
pub(crate) type Hook = unsafe extern "C-unwind" fn(
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
) -> usize;

/// The driver's result when all is well.
pub(crate) const SUCCESS: u32 = 0;
/// Result for a function that the driver does not have.
const NOT_FOUND: u32 = 500;

//! Services that a user defines: what runs, and how requests are laid out.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// A kernel that is none of Keeptime's.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Service {
    /// Name that clients ask for.
    pub name: String,
    /// Description of its computation, for people.
    pub description: String,
    /// Program that runs.
    pub program: Program,
    /// Bytes of the input.
    pub input: Bytes,
    /// Bytes of the output.
    pub output: Bytes,
}

/// Program of a service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Program {
    /// A function for the GPU.
    Kernel(Function),
    /// A shared library that puts its work into a stream, as an inference engine does; its
    /// interface is `include/keeptime_service.h`. It is trusted as the program is.
    Library {
        /// The library.
        path: PathBuf,
        /// Text with which it is opened, such as the file of an engine.
        configuration: String,
    },
}

/// A function for the GPU, and how many of its blocks a request has.
///
/// It has these parameters: `const void *input, void *output, unsigned long long *workspace`
/// (eight bytes, which the slices of a request share), `unsigned long long a0, a1, a2, a3` (the arguments of the request), `unsigned
/// first`: the number of the first thread block of this slice, to be added to `blockIdx.x`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Function {
    /// The code.
    pub code: Code,
    /// The function's name in it, as with `extern "C"`.
    pub name: String,
    /// Threads of a block: 1 to 1024.
    pub threads: u32,
    /// Items that a block works on; argument 0 is the number of items. 0: always one block.
    pub items_per_block: u32,
    /// Thread blocks of a slice, after which more urgent work may come; 0: all. If not, and unless
    /// it works in place, output and workspace are zero when a request begins.
    pub blocks_per_slice: u32,
    /// True if it works on the client's own memory, which the GPU reads over its bus each time;
    /// else input and output are copied, once for each request. The workspace is then one for each
    /// slice.
    pub in_place: bool,
}

/// Code for a GPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Code {
    /// CUDA C++, compiled at start.
    Cuda(String),
    /// PTX that nvcc or NVRTC made of it.
    Ptx(String),
}

/// Number of bytes of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Bytes {
    /// Bytes in any case.
    pub fixed: u64,
    /// Bytes for each item; argument 0 is their number.
    pub per_item: u64,
}

impl Bytes {
    /// Bytes for this many items; saturated.
    pub fn of(self, items: u64) -> u64 {
        self.per_item.saturating_mul(items).saturating_add(self.fixed)
    }
}

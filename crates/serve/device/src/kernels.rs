//! The kernels of the software accelerator.
//!
//! A kernel is written as for a GPU: a grid of blocks that know nothing of each other. A block
//! copies its tile from peer memory into the scratch of its compute thread (the shared memory of
//! a GPU), computes there, and copies the result back. No block refers to peer memory, and none
//! believes it: values decide nothing but values, never an address or the end of a loop. Where an
//! index of a sparse matrix has to ([`rows`]), it is held to what the check of the launch allowed.
//!
//! The results do not depend on the number of compute threads. Where blocks share a result
//! (`reduce`, `histogram`) they leave their part in the workspace of the launch, and the
//! thread that ran the last block combines the parts in a fixed order.
//!
//! The kernel's `plan` checks a launch, whose arguments come from a foreign process, and says how
//! many blocks it has. Everything after it relies on that check.

mod activation;
mod bfs;
mod busy;
mod convolution;
mod empty;
mod histogram;
mod lbm;
mod matmul;
mod reduce;
mod rows;
mod sad;
mod spmv;
mod stencil;
mod vecadd;
mod window;

pub use busy::{
    BLOCK_NS as BUSY_BLOCK_NS, MAX_NS as BUSY_MAX_NS, block_ns as busy_block_ns,
    blocks as busy_blocks,
};
pub use histogram::MAX_BINS as HISTOGRAM_MAX_BINS;
pub use sad::MAX_RADIUS as SAD_MAX_RADIUS;

use crate::hosted::{Plan, Task as Order};
use crate::{Error, FailureCode, KernelId, KernelInfo, Launch};
use realtime::work::Calibration;
use std::ops::Deref;

/// All kernels; a [`KernelId`] is an index into this table.
const TABLE: [&Kernel; 13] = [
    &empty::KERNEL,
    &busy::KERNEL,
    &vecadd::KERNEL,
    &matmul::KERNEL,
    &reduce::KERNEL,
    &histogram::KERNEL,
    &stencil::KERNEL,
    &convolution::KERNEL,
    &activation::KERNEL,
    &sad::KERNEL,
    &bfs::KERNEL,
    &spmv::KERNEL,
    &lbm::KERNEL,
];

/// A kernel of the software accelerator.
pub(crate) struct Kernel {
    pub name: &'static str,
    pub description: &'static str,
    /// Checks a launch and splits it in blocks.
    pub plan: fn(&Launch) -> Result<Plan, Error>,
    /// Runs one block.
    pub block: fn(&Task<'_>, u32, &mut Scratch) -> Result<(), FailureCode>,
    /// Combines the parts of all blocks, once, after the last block.
    pub finish: Option<Finish>,
}

type Finish = fn(&Task<'_>, &mut Scratch) -> Result<(), FailureCode>;

/// Launch and machine, as a block sees them.
pub(crate) struct Task<'a> {
    pub order: &'a Order<'a>,
    pub calibration: &'a Calibration,
}

impl<'a> Deref for Task<'a> {
    type Target = Order<'a>;

    fn deref(&self) -> &Order<'a> {
        self.order
    }
}

impl Task<'_> {
    /// An argument that `plan` has found to be a number of things in memory.
    fn size(&self, index: usize) -> usize {
        self.arguments[index] as usize
    }
}

/// Numbers of a tile: 48 KiB, as much shared memory as a block of a GPU has at least.
const SCRATCH_FLOATS: usize = 12 * 1024;
const SCRATCH_WORDS: usize = 12 * 1024;
const SCRATCH_BYTES: usize = 8 * 1024;

/// The private memory of one compute thread, made before it runs its first block.
pub(crate) struct Scratch {
    floats: Box<[f32]>,
    words: Box<[u32]>,
    bytes: Box<[u8]>,
}

impl Scratch {
    pub(crate) fn new() -> Scratch {
        // Not zeros: these are written now, so that no block meets a page that is not there yet,
        // and a kernel that used what it did not load would show.
        Scratch {
            floats: vec![f32::NAN; SCRATCH_FLOATS].into(),
            words: vec![u32::MAX; SCRATCH_WORDS].into(),
            bytes: vec![u8::MAX; SCRATCH_BYTES].into(),
        }
    }

    /// Three float tiles of the given lengths.
    fn tiles(&mut self, a: usize, b: usize, c: usize) -> (&mut [f32], &mut [f32], &mut [f32]) {
        let (first, rest) = self.floats.split_at_mut(a);
        let (second, rest) = rest.split_at_mut(b);
        (first, second, &mut rest[..c])
    }
}

/// Returns the list for [`crate::Device::kernels`].
pub(crate) fn list() -> Vec<KernelInfo> {
    let info = |(i, kernel): (usize, &&Kernel)| KernelInfo {
        id: KernelId(i as u32),
        name: kernel.name,
        description: kernel.description,
    };
    TABLE.iter().enumerate().map(info).collect()
}

/// Checks a launch of a kernel of this name, which another device may offer, too: its arguments,
/// and that they fit the buffers. False if there is none.
///
/// # Errors
/// [`Error::BadArgument`], [`Error::ShortBuffer`].
pub fn check(name: &str, launch: &Launch) -> Result<bool, Error> {
    match TABLE.iter().find(|kernel| kernel.name == name) {
        Some(kernel) => (kernel.plan)(launch).map(|_| true),
        None => Ok(false),
    }
}

/// Describes the kernel of this name: its computation, its arguments, and its memory.
pub fn description(name: &str) -> Option<&'static str> {
    TABLE.iter().find(|kernel| kernel.name == name).map(|kernel| kernel.description)
}

/// The kernel of that id.
pub(crate) fn get(id: KernelId) -> Result<&'static Kernel, Error> {
    TABLE.get(id.0 as usize).copied().ok_or(Error::UnknownKernel(id))
}

/// Memory that was checked turned out unreadable: the mapping's owner broke it.
fn memory(_: shm::Error) -> FailureCode {
    FailureCode::Memory
}

//! How a launch of each kernel becomes grids on the GPU.

use crate::service::{Bytes, Program, Service};
use device::hosted::Plan;
use device::{Error, Launch, kernels};

/// The code of the kernels that every device offers, as the toolkit compiled it.
pub const PTX: &str = include_str!("../kernels/builtin.ptx");
/// Their names; the functions are called `kt_NAME`.
pub const NAMES: [&str; 9] = [
    "empty",
    "busy",
    "vecadd",
    "matmul",
    "reduce",
    "histogram",
    "stencil",
    "convolution",
    "activation",
];
/// What follows the last slice of `reduce`.
pub const REDUCE_PARTS: &str = "kt_reduce_parts";

/// Threads of a block of `busy`.
pub const BUSY_THREADS: u32 = 1024;
/// The most blocks that one grid can have here.
const MOST_BLOCKS: u64 = u32::MAX as u64;

/// What a launch needs on the GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Shape {
    /// Bytes to copy in.
    pub input: u64,
    /// Bytes to copy out.
    pub output: u64,
    /// Words of workspace, zero at the start.
    pub workspace: u64,
    /// The output is zero at the start.
    pub cleared: bool,
    /// Threads of a block.
    pub threads: u32,
    /// Thread blocks.
    pub blocks: u64,
    /// Thread blocks of a slice.
    pub slice: u64,
}

impl Shape {
    /// How many slices there are.
    pub fn slices(&self) -> u64 {
        self.blocks.div_ceil(self.slice.max(1)).max(1)
    }

    /// As the host's scheduler wants it.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for more slices than can be counted.
    pub fn plan(&self, kernel: &'static str, launch: &Launch) -> Result<Plan, Error> {
        let (slices, value) = (self.slices(), launch.arguments[0]);
        match u32::try_from(slices) {
            Ok(blocks) if self.blocks <= MOST_BLOCKS => {
                Ok(Plan { blocks, workspace: 0, finishes: false })
            }
            _ => Err(Error::BadArgument { kernel, index: 0, value, least: 0, most: MOST_BLOCKS }),
        }
    }
}

/// The shape of a checked launch of a kernel of [`NAMES`] on a GPU that so many blocks of
/// [`BUSY_THREADS`] threads fill.
///
/// # Errors
/// As [`kernels::check`].
pub fn shape(name: &'static str, launch: &Launch, fill: u64) -> Result<Shape, Error> {
    kernels::check(name, launch)?;
    let [n, m, ..] = launch.arguments;
    // The check has found that the buffers hold all of it: nothing below overflows.
    let each = |blocks: u64| Shape { threads: 256, blocks, slice: MOST_BLOCKS, ..Shape::default() };
    Ok(match name {
        "vecadd" => Shape { input: 8 * n, output: 4 * n, ..each(n.div_ceil(256)) },
        "matmul" => {
            Shape { input: 8 * n * n, output: 4 * n * n, ..each(n.div_ceil(16) * n.div_ceil(16)) }
        }
        "reduce" => {
            let blocks = n.div_ceil(8192);
            Shape { input: 4 * n, output: 8, workspace: blocks, ..each(blocks) }
        }
        "histogram" => {
            Shape { input: 4 * n, output: 4 * m, cleared: true, ..each(n.div_ceil(256)) }
        }
        "stencil" => {
            let area = n.saturating_mul(m);
            Shape { input: 4 * area, output: 4 * area, ..each(area.div_ceil(256)) }
        }
        "convolution" => {
            let area = n.saturating_mul(m);
            Shape { input: 4 * (area + 9), output: 4 * area, ..each(area.div_ceil(256)) }
        }
        "activation" => {
            let area = n.saturating_mul(m);
            Shape { input: 4 * (area + n), output: 4 * area, ..each(area.div_ceil(256)) }
        }
        "busy" => {
            // Each slice fills the GPU: nothing else runs beside it.
            let blocks = kernels::busy_blocks(n) * fill;
            Shape { workspace: 1, threads: BUSY_THREADS, blocks, slice: fill, ..Shape::default() }
        }
        _ => Shape { threads: 1, blocks: 1, slice: 1, ..Shape::default() },
    })
}

/// The shape of a launch of a user's service.
///
/// # Errors
/// [`Error::ShortBuffer`].
pub fn shape_of(service: &Service, launch: &Launch) -> Result<Shape, Error> {
    let items = launch.arguments[0];
    let fits = |buffer: &'static str, bytes: Bytes, length: usize| {
        let (needed, length) = (bytes.of(items), length as u64);
        let short = Error::ShortBuffer { buffer, needed, length };
        if needed <= length { Ok(needed) } else { Err(short) }
    };
    let input = fits("input", service.input, launch.input.len())?;
    let output = fits("output", service.output, launch.output.len())?;
    let (threads, blocks, slice) = match &service.program {
        Program::Library { .. } => (1, 1, 1),
        Program::Kernel(function) => {
            let blocks = match u64::from(function.items_per_block) {
                0 => 1,
                each => items.div_ceil(each).max(1),
            };
            let slice = match u64::from(function.blocks_per_slice) {
                0 => MOST_BLOCKS,
                slice => slice,
            };
            (function.threads, blocks, slice)
        }
    };
    Ok(Shape { input, output, workspace: 1, cleared: false, threads, blocks, slice })
}

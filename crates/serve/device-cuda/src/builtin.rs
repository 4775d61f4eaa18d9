//! Division of a launch of each kernel into grids on the GPU.

use crate::service::{Bytes, Program, Service};
use device::hosted::Plan;
use device::{Error, Launch, kernels};

/// The code of the kernels that every device offers, as the toolkit compiled it.
pub(crate) const PTX: &str = include_str!("../kernels/builtin.ptx");
/// Names of the kernels; the functions are called `kt_NAME`.
pub(crate) const NAMES: [&str; 13] = [
    "empty",
    "busy",
    "vecadd",
    "matmul",
    "reduce",
    "histogram",
    "stencil",
    "convolution",
    "activation",
    "sad",
    "bfs",
    "spmv",
    "lbm",
];
/// Name of the kernel that follows the last slice of `reduce`.
pub(crate) const REDUCE_PARTS: &str = "kt_reduce_parts";

/// Threads of a block of `busy`.
pub(crate) const BUSY_THREADS: u32 = 1024;
/// The most blocks that one grid can have here.
const MOST_BLOCKS: u64 = u32::MAX as u64;

/// Memory and blocks of a launch on the GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Shape {
    /// Bytes to copy in.
    pub input: u64,
    /// Bytes to copy out.
    pub output: u64,
    /// Words of workspace.
    pub workspace: u64,
    /// Output and workspace are zero at the start.
    pub cleared: bool,
    /// True if it works on the client's own memory; else its input and output are copied.
    pub in_place: bool,
    /// Threads of a block.
    pub threads: u32,
    /// Thread blocks.
    pub blocks: u64,
    /// Thread blocks of a slice.
    pub slice: u64,
}

impl Shape {
    /// Returns the number of slices.
    pub(crate) fn slices(&self) -> u64 {
        self.blocks.div_ceil(self.slice.max(1)).max(1)
    }

    /// Returns true if its slices share memory of the GPU, which the launch has to itself.
    pub(crate) fn is_resident(&self) -> bool {
        let shared = self.cleared || self.input > 0 || self.output > 0;
        self.slices() > 1 && !self.in_place && shared
    }

    /// Plan of a launch, as the host's scheduler wants it.
    ///
    /// # Errors
    /// [`Error::BadArgument`] for more slices than can be counted.
    pub(crate) fn plan(&self, kernel: &'static str, launch: &Launch) -> Result<Plan, Error> {
        let (slices, value) = (self.slices(), launch.arguments[0]);
        match u32::try_from(slices) {
            Ok(blocks) if self.blocks <= MOST_BLOCKS => {
                let resident = self.is_resident();
                Ok(Plan { blocks, workspace: resident.into(), finishes: resident })
            }
            _ => Err(Error::BadArgument { kernel, index: 0, value, least: 0, most: MOST_BLOCKS }),
        }
    }
}

/// Thread blocks of a launch of a kernel of [`NAMES`], of 256 threads each; none for those that
/// `blocks_per_slice` is not about.
pub fn thread_blocks(name: &str, arguments: [u64; 4]) -> Option<u64> {
    let [n, m, k, _] = arguments;
    Some(match name {
        "vecadd" | "histogram" => n.div_ceil(256),
        "matmul" => n.div_ceil(16).saturating_mul(n.div_ceil(16)),
        "reduce" => n.div_ceil(8192),
        "stencil" | "convolution" | "activation" => n.saturating_mul(m).div_ceil(256),
        "sad" => sums(arguments).div_ceil(256),
        "bfs" | "spmv" => n.div_ceil(256),
        "lbm" => m.saturating_mul(k).saturating_mul(n).div_ceil(256),
        _ => return None,
    })
}

/// Returns the number of sums that `sad` computes.
fn sums([width, height, radius, _]: [u64; 4]) -> u64 {
    let side = radius.saturating_mul(2).saturating_add(1);
    (width / 4).saturating_mul(height / 4).saturating_mul(side.saturating_mul(side))
}

/// Way in which a GPU runs the kernels of [`NAMES`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// Thread blocks of a slice; 0: all.
    pub blocks_per_slice: u32,
    /// True if it works on the client's own memory.
    pub in_place: bool,
    /// Number of blocks of [`BUSY_THREADS`] threads that fill the GPU.
    pub fill: u64,
}

/// The shape of a checked launch of a kernel of [`NAMES`].
///
/// # Errors
/// As [`kernels::check`].
pub(crate) fn shape(name: &'static str, launch: &Launch, manner: Manner) -> Result<Shape, Error> {
    let Manner { blocks_per_slice, in_place, fill } = manner;
    kernels::check(name, launch)?;
    let [n, m, k, _] = launch.arguments;
    let blocks = thread_blocks(name, launch.arguments).unwrap_or(1);
    // The check has found that the buffers hold all of it: nothing below overflows.
    let each = |input: u64, output: u64| Shape {
        input,
        output,
        in_place,
        threads: 256,
        blocks,
        slice: slice_of(blocks_per_slice),
        ..Shape::default()
    };
    // Blocks that share what they write are one slice if the slices have no memory in common.
    let together = |shape: Shape| match in_place {
        true => Shape { slice: MOST_BLOCKS, ..shape },
        false => shape,
    };
    let area = n.saturating_mul(m);
    Ok(match name {
        "vecadd" => each(8 * n, 4 * n),
        "matmul" => each(8 * n * n, 4 * n * n),
        "reduce" => together(Shape { workspace: blocks, ..each(4 * n, 8) }),
        "histogram" => together(Shape { cleared: true, ..each(4 * n, 4 * m) }),
        "stencil" => each(4 * area, 4 * area),
        "convolution" => each(4 * (area + 9), 4 * area),
        "activation" => each(4 * (area + n), 4 * area),
        "sad" => each(2 * area, 4 * sums(launch.arguments)),
        "bfs" => each(4 * (2 * n + 1 + m), 4 * n),
        "spmv" => each(4 * (n + 1 + 2 * k + m), 4 * n),
        "lbm" => {
            let bytes = 4 * 19 * m.saturating_mul(k).saturating_mul(n);
            each(bytes, bytes)
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
pub(crate) fn shape_of(service: &Service, launch: &Launch) -> Result<Shape, Error> {
    let items = launch.arguments[0];
    let fits = |buffer: &'static str, bytes: Bytes, length: usize| {
        let (needed, length) = (bytes.of(items), length as u64);
        let short = Error::ShortBuffer { buffer, needed, length };
        if needed <= length { Ok(needed) } else { Err(short) }
    };
    let input = fits("input", service.input, launch.input.len())?;
    let output = fits("output", service.output, launch.output.len())?;
    let whole = Shape { input, output, workspace: 1, threads: 1, blocks: 1, ..Shape::default() };
    Ok(match &service.program {
        Program::Library { .. } => Shape { slice: 1, ..whole },
        Program::Kernel(function) => {
            let blocks = match u64::from(function.items_per_block) {
                0 => 1,
                each => items.div_ceil(each).max(1),
            };
            Shape {
                // Also in a request of one slice: the function relies on it or it does not.
                cleared: function.blocks_per_slice > 0 && !function.in_place,
                in_place: function.in_place,
                threads: function.threads,
                blocks,
                slice: slice_of(function.blocks_per_slice),
                ..whole
            }
        }
    })
}

/// Thread blocks of a slice; 0 stands for all.
fn slice_of(blocks: u32) -> u64 {
    if blocks == 0 { MOST_BLOCKS } else { blocks.into() }
}

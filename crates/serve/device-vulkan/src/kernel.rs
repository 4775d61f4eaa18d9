//! Kernels of a device, and the division of a launch of each into blocks.

use crate::{Groups, Module, Source};
use ash::vk;
use device::hosted::Plan;
use device::{Error, Launch, kernels};

/// Elements of a block of the kernels that walk through memory: half a megabyte for each array.
pub(crate) const SLICE: u64 = 1 << 17;
/// Multiplications of a block of `matmul`.
const PRODUCTS: u64 = 1 << 24;
/// Rows and columns of a work group's tile of `matmul`.
pub(crate) const TILE: u64 = 16;
/// Invocations of a work group of the other kernels.
pub(crate) const GROUP: u64 = 256;
/// Elements that a work group of `reduce` adds up.
pub(crate) const REDUCED: u64 = 4096;
/// Elements of the filter of `convolution`.
pub(crate) const FILTER: u64 = 9;

/// A kernel with what runs it.
pub(crate) struct Kernel {
    pub name: &'static str,
    pub description: &'static str,
    pub code: Code,
    pub pipeline: vk::Pipeline,
    pub direct: Direct,
}

/// Memory that a kernel may be given as it is at the client, without a copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Direct {
    /// True if the kernel does not write its input, and reads nothing beyond.
    pub input: bool,
    /// True if the kernel writes nothing beyond its output.
    pub output: bool,
}

/// Kind of a kernel, which decides how it is fed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Code {
    Empty,
    Busy,
    Vecadd,
    Matmul,
    Reduce,
    Histogram,
    Stencil,
    Convolution,
    Activation,
    User(Groups),
}

impl Kernel {
    /// The kernels that every device has.
    pub(crate) fn built_in() -> Vec<(Module, Code)> {
        let table = [
            ("empty", Code::Empty, include_str!("../shaders/empty.wgsl")),
            ("busy", Code::Busy, include_str!("../shaders/busy.wgsl")),
            ("vecadd", Code::Vecadd, include_str!("../shaders/vecadd.wgsl")),
            ("matmul", Code::Matmul, include_str!("../shaders/matmul.wgsl")),
            ("reduce", Code::Reduce, include_str!("../shaders/reduce.wgsl")),
            ("histogram", Code::Histogram, include_str!("../shaders/histogram.wgsl")),
            ("stencil", Code::Stencil, include_str!("../shaders/stencil.wgsl")),
            ("convolution", Code::Convolution, include_str!("../shaders/convolution.wgsl")),
            ("activation", Code::Activation, include_str!("../shaders/activation.wgsl")),
        ];
        let module = |(name, code, text): (&str, Code, &str)| {
            let module = Module {
                name: name.into(),
                description: kernels::description(name).unwrap_or_default().into(),
                source: Source::Wgsl(text.into()),
                entry: name.into(),
                groups: Groups::Fixed([1, 1, 1]),
            };
            (module, code)
        };
        table.into_iter().map(module).collect()
    }

    /// Checks a launch and splits it in blocks.
    ///
    /// # Errors
    /// As [`device::Device::check`].
    pub(crate) fn plan(
        &self,
        launch: &Launch,
        limits: &vk::PhysicalDeviceLimits,
    ) -> Result<Plan, Error> {
        if let Code::User(groups) = self.code {
            self.check_groups(groups, launch, limits)?;
            return Ok(Plan { blocks: 1, workspace: 0, finishes: false });
        }
        kernels::check(self.name, launch)?;
        // Below, what the check has let through fits the memory of the launch.
        let [first, second, ..] = launch.arguments;
        let blocks = match self.code {
            Code::Empty | Code::User(_) => 1,
            Code::Busy => kernels::busy_blocks(first),
            Code::Vecadd | Code::Reduce | Code::Histogram => first.div_ceil(SLICE),
            Code::Matmul => first.div_ceil(strip_rows(first)),
            Code::Stencil | Code::Convolution | Code::Activation if first == 0 => 1,
            Code::Stencil | Code::Convolution | Code::Activation => {
                second.div_ceil(slice_rows(first))
            }
        };
        let most = u64::from(u32::MAX);
        let bad =
            || Error::BadArgument { kernel: self.name, index: 0, value: first, least: 0, most };
        let blocks = u32::try_from(blocks.max(1)).map_err(|_| bad())?;
        let (workspace, finishes) = match self.code {
            Code::Reduce => (blocks as usize, true),
            Code::Histogram => (second as usize, true),
            _ => (0, false),
        };
        Ok(Plan { blocks, workspace, finishes })
    }

    fn check_groups(
        &self,
        groups: Groups,
        launch: &Launch,
        limits: &vk::PhysicalDeviceLimits,
    ) -> Result<(), Error> {
        let Groups::Elements { argument: index, per_group } = groups else { return Ok(()) };
        let value = launch.arguments[index];
        let most = u64::from(limits.max_compute_work_group_count[0]) * u64::from(per_group);
        if value <= most {
            return Ok(());
        }
        Err(Error::BadArgument { kernel: self.name, index, value, least: 0, most })
    }
}

impl Code {
    /// Checks that the device takes the work groups of this kernel.
    ///
    /// # Errors
    /// The reason why it does not.
    pub(crate) fn check(&self, limits: &vk::PhysicalDeviceLimits) -> Result<(), String> {
        let most = limits.max_compute_work_group_count;
        match *self {
            Code::User(Groups::Fixed(groups)) if groups.iter().zip(most).any(|(g, m)| *g > m) => {
                Err(format!("{groups:?} work groups, the device takes at most {most:?}"))
            }
            Code::User(Groups::Elements { argument, .. }) if argument > 3 => {
                Err(format!("its work groups depend on argument {argument}, expected 0 to 3"))
            }
            Code::User(Groups::Elements { per_group: 0, .. }) => {
                Err("its work groups have no elements".into())
            }
            _ => Ok(()),
        }
    }
}

/// Rows of C that a block of `matmul` computes.
pub(crate) fn strip_rows(n: u64) -> u64 {
    let rows = PRODUCTS / n.saturating_mul(n).max(1);
    (rows / TILE * TILE).clamp(TILE, PRODUCTS)
}

/// Rows that a block of `stencil`, `convolution` or `activation` computes.
pub(crate) fn slice_rows(width: u64) -> u64 {
    (SLICE / width.max(1)).max(1)
}

/// Work groups in two dimensions for that many in one, of which there may be too many.
pub(crate) fn spread(groups: u64) -> [u32; 3] {
    const WIDE: u64 = 32_768;
    let high = groups.div_ceil(WIDE);
    [groups.min(WIDE) as u32, high as u32, 1]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strips_are_whole_tiles_and_cover_small_matrices_at_once() {
        for n in [0, 1, 16, 100, 600, 5_000, 1 << 20] {
            let rows = strip_rows(n);
            assert!(rows >= TILE && rows.is_multiple_of(TILE), "{n}: {rows}");
            assert!(n > 256 || rows >= n, "{n}: {rows}");
        }
    }

    #[test]
    fn spread_groups_are_enough() {
        for groups in [0u64, 1, 32_768, 32_769, 1 << 24] {
            let [x, y, z] = spread(groups).map(u64::from);
            assert!(x * y * z >= groups && x.max(y) <= 65_535);
        }
    }
}

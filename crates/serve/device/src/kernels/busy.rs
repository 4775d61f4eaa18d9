//! `busy`: calibrated arithmetic of a given length, in blocks of at most 100 us.
//!
//! The blocks are equally long, so the end of each is a point where more important work can take
//! over, at most 100 us of processor time after it arrived.

use super::{Kernel, Plan, Scratch, Task};
use crate::check;
use crate::{Error, FailureCode, Launch};
use realtime::work;

/// The longest block.
pub const BLOCK_NS: u64 = 100_000;
/// The longest launch: ten minutes.
pub const MAX_NS: u64 = 600_000_000_000;

pub(super) const KERNEL: Kernel = Kernel {
    name: "busy",
    description: "calibrated work in blocks of at most 100 us; arguments: nanoseconds (at most \
                  ten minutes); no memory",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let ns = launch.arguments[0];
    check::range(KERNEL.name, 0, ns, (0, MAX_NS))?;
    check::grid(KERNEL.name, 0, ns, blocks(ns))
}

fn block(task: &Task<'_>, block: u32, _: &mut Scratch) -> Result<(), FailureCode> {
    work::run(task.calibration.iterations(block_ns(task.arguments[0], block)));
    Ok(())
}

/// Number of blocks of a launch of this length.
pub fn blocks(ns: u64) -> u64 {
    ns.div_ceil(BLOCK_NS).max(1)
}

/// Length of one block; the blocks add up to `ns` exactly, which is at most [`MAX_NS`].
pub fn block_ns(ns: u64, block: u32) -> u64 {
    // At most 6e11 * 6e6: far below what 64 bits hold.
    let end_of = |count: u64| ns * count / blocks(ns);
    end_of(u64::from(block) + 1) - end_of(block.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_short_and_add_up() {
        for ns in [0, 1, 99_999, 100_000, 100_001, 12_345_678, MAX_NS / 1000 + 1] {
            let lengths = (0..blocks(ns) as u32).map(|block| block_ns(ns, block));
            assert!(lengths.clone().all(|length| length <= BLOCK_NS));
            assert_eq!(lengths.sum::<u64>(), ns);
        }
    }
}

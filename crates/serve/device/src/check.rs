//! Checks of arguments that a foreign process chose: nothing here can overflow or panic.

use crate::Error;
use crate::hosted::Plan;
use shm::memory::PeerSlice;

/// Size of every number in the kernels' memory.
const NUMBER_BYTES: u64 = 4;

/// Argument `index` lies between `least` and `most`.
pub(crate) fn range(
    kernel: &'static str,
    index: usize,
    value: u64,
    (least, most): (u64, u64),
) -> Result<(), Error> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(Error::BadArgument { kernel, index, value, least, most })
}

/// The buffer holds this many 32-bit numbers; None is more than can be counted.
pub(crate) fn numbers(
    buffer: &'static str,
    memory: &PeerSlice,
    numbers: Option<u64>,
) -> Result<(), Error> {
    bytes(buffer, memory, numbers.and_then(|n| n.checked_mul(NUMBER_BYTES)))
}

/// The buffer holds this many bytes; None is more than can be counted.
pub(crate) fn bytes(
    buffer: &'static str,
    memory: &PeerSlice,
    bytes: Option<u64>,
) -> Result<(), Error> {
    let (needed, length) = (bytes.unwrap_or(u64::MAX), memory.len() as u64);
    if needed <= length { Ok(()) } else { Err(Error::ShortBuffer { buffer, needed, length }) }
}

/// A grid of `count` blocks, one if there is nothing to do. Which argument is to blame when that
/// is more than a grid can have is `index`.
pub(crate) fn grid(
    kernel: &'static str,
    index: usize,
    value: u64,
    count: u64,
) -> Result<Plan, Error> {
    let most = u64::from(u32::MAX);
    match u32::try_from(count) {
        Ok(count) => Ok(Plan { blocks: count.max(1), workspace: 0, finishes: false }),
        Err(_) => Err(Error::BadArgument { kernel, index, value, least: 0, most }),
    }
}

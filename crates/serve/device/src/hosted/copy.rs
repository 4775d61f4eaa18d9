//! The work of the copy engine: a block is one chunk of 64 KiB.

use super::Plan;
use crate::{Error, FailureCode, Launch, check};

/// Bytes that the copy engine moves between two looks at what is more important.
const CHUNK_BYTES: usize = 64 * 1024;

/// The copy engine's own memory.
pub(super) fn buffer() -> Box<[u8]> {
    // Not zeros: these are written now, so that no chunk meets a page that is not there yet.
    vec![u8::MAX; CHUNK_BYTES].into()
}

pub(super) fn plan(launch: &Launch) -> Result<Plan, Error> {
    let length = launch.input.len() as u64;
    check::bytes("destination", &launch.output, Some(length))?;
    check::grid("copy", 0, length, length.div_ceil(CHUNK_BYTES as u64))
}

pub(super) fn block(launch: &Launch, block: u32, buffer: &mut [u8]) -> Result<(), FailureCode> {
    let start = block as usize * CHUNK_BYTES;
    let chunk = &mut buffer[..CHUNK_BYTES.min(launch.input.len() - start)];
    // Memory that was checked turned out unreadable: the mapping's owner broke it.
    let broken = |_| FailureCode::Memory;
    launch.input.read(start, chunk).map_err(broken)?;
    launch.output.write(start, chunk).map_err(broken)
}

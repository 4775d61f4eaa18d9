//! The work of the copy engine: a block is one chunk of 64 KiB. It is not in the kernel table.

use super::{CHUNK_BYTES, Kernel, Plan, Scratch, Task, check, memory};
use crate::{Error, FailureCode, Launch};

pub(crate) const COPY: Kernel = Kernel {
    name: "copy",
    description: "copies the input to the start of the output",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let length = launch.input.len() as u64;
    check::bytes("destination", &launch.output, Some(length))?;
    check::grid(COPY.name, 0, length, length.div_ceil(CHUNK_BYTES as u64))
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let start = block as usize * CHUNK_BYTES;
    let chunk = &mut scratch.bytes[..CHUNK_BYTES.min(task.input.len() - start)];
    task.input.read(start, chunk).map_err(memory)?;
    task.output.write(start, chunk).map_err(memory)
}

//! `vecadd`: the sum of two vectors, by a graph that adds 4096 elements.

use crate::model::Loaded;
use device::FailureCode;
use device::hosted::Task;

/// Elements of the graph, and of a block of [`device::kernels`].
const TILE: usize = 4096;

/// Number of blocks for this many elements.
pub(crate) fn blocks(elements: u64) -> u64 {
    elements.div_ceil(TILE as u64).max(1)
}

/// Adds one tile. What is beyond the end of the last one is left over, and not written back.
pub(crate) fn run(graph: &mut Loaded, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
    let (memory, kernel) = (|_| FailureCode::Memory, |_| FailureCode::Kernel);
    let n = task.arguments[0] as usize;
    let start = block as usize * TILE;
    let length = TILE.min(n - start);
    for (index, at) in [(0, start), (1, n + start)] {
        let tile = &mut graph.input(index).map_err(kernel)?[..length];
        task.input.read_f32(at, tile).map_err(memory)?;
    }
    graph.run(1).map_err(kernel)?;
    let sums = &graph.output(0).map_err(kernel)?[..length];
    task.output.write_f32(start, sums).map_err(memory)
}

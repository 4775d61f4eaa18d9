//! `bfs`: one level of a breadth-first search, from the vertices that were not reached yet.
//!
//! A block looks at some vertices. One that was not reached is one level further than the level of
//! the launch if it has a neighbour on that level. Nothing else changes, so the output may lie over
//! the levels of the input: no block sees a level that another one of the same launch wrote as the
//! level of the launch. The edges of a directed graph have to be given backwards.

use super::rows::{self, LONGEST, PIECE, ROWS, Rows};
use super::{Kernel, Plan, SCRATCH_WORDS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};

const _: () = assert!(2 * ROWS + 1 + PIECE <= SCRATCH_WORDS);

/// The level of a vertex that was not reached.
const NOWHERE: u32 = u32::MAX;

pub(super) const KERNEL: Kernel = Kernel {
    name: "bfs",
    description: "one level of a breadth-first search: each vertex of level 2^32 - 1 (not \
                  reached) with a neighbour of the level gets the next one; a neighbour that is \
                  no vertex does not count; arguments: vertices, edges (below 2^32), level \
                  (below 2^32 - 2), most neighbours (up to 65536; the rest of a longer list is \
                  left out); input: u32 first[vertices + 1], neighbour[edges], level[vertices]; \
                  output: u32 level[vertices], which may be that of the input",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let [vertices, edges, level, longest] = launch.arguments;
    check::range(KERNEL.name, 1, edges, (0, u32::MAX.into()))?;
    check::range(KERNEL.name, 2, level, (0, u64::from(NOWHERE) - 2))?;
    check::range(KERNEL.name, 3, longest, (0, LONGEST))?;
    let input = vertices.checked_mul(2).and_then(|n| n.checked_add(1 + edges));
    check::numbers("input", &launch.input, input)?;
    check::numbers("output", &launch.output, Some(vertices))?;
    rows::plan(KERNEL.name, vertices, longest)
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let [vertices, edges, level, longest] = [0, 1, 2, 3].map(|index| task.size(index));
    let (first, rest) = scratch.words.split_at_mut(ROWS + 1);
    let (own, neighbours) = rest.split_at_mut(ROWS);
    let rows = Rows::load(&task.input, block, [vertices, edges, longest], first)?;
    let search = Search { task, levels: vertices + 1 + edges, level: level as u32 };
    let own = &mut own[..rows.count];
    task.input.read_u32(search.levels + rows.from, own).map_err(memory)?;
    for (row, own) in own.iter_mut().enumerate().filter(|(_, own)| **own == NOWHERE) {
        for piece in rows.pieces(row) {
            let neighbours = &mut neighbours[..piece.len()];
            task.input.read_u32(vertices + 1 + piece.start, neighbours).map_err(memory)?;
            if search.is_next_to(neighbours)? {
                *own = search.level + 1;
                break;
            }
        }
    }
    task.output.write_u32(rows.from, own).map_err(memory)
}

struct Search<'a> {
    task: &'a Task<'a>,
    /// Place of the levels in the input, in words.
    levels: usize,
    level: u32,
}

impl Search<'_> {
    /// Returns true if one of these is a vertex of the level.
    fn is_next_to(&self, neighbours: &[u32]) -> Result<bool, FailureCode> {
        let vertices = self.task.size(0);
        for neighbour in neighbours {
            let (neighbour, mut level) = (*neighbour as usize, [NOWHERE]);
            if neighbour < vertices {
                self.task.input.read_u32(self.levels + neighbour, &mut level).map_err(memory)?;
            }
            if level[0] == self.level {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

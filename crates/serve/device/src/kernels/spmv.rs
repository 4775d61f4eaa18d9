//! `spmv`: the product of a sparse matrix and a vector.
//!
//! A block computes some rows. It streams their columns and values through scratch, and picks the
//! elements of the vector that they name one by one. Products are added in the order of the row.

use super::rows::{self, LONGEST, PIECE, ROWS, Rows};
use super::{Kernel, Plan, SCRATCH_FLOATS, SCRATCH_WORDS, Scratch, Task, memory};
use crate::check;
use crate::{Error, FailureCode, Launch};

const _: () = assert!(ROWS + 1 + PIECE <= SCRATCH_WORDS && PIECE + ROWS <= SCRATCH_FLOATS);

pub(super) const KERNEL: Kernel = Kernel {
    name: "spmv",
    description: "y = A x, A sparse (CSR); an entry outside of the matrix counts as zero; \
                  arguments: rows, columns, entries (below 2^32), longest row (up to 65536; the \
                  rest of a longer one is left out); input: u32 first[rows + 1], \
                  column[entries], f32 value[entries], x[columns]; output: f32 y[rows]",
    plan,
    block,
    finish: None,
};

fn plan(launch: &Launch) -> Result<Plan, Error> {
    let [rows, columns, entries, longest] = launch.arguments;
    check::range(KERNEL.name, 2, entries, (0, u32::MAX.into()))?;
    check::range(KERNEL.name, 3, longest, (0, LONGEST))?;
    let input = rows.checked_add(1 + 2 * entries).and_then(|n| n.checked_add(columns));
    check::numbers("input", &launch.input, input)?;
    check::numbers("output", &launch.output, Some(rows))?;
    rows::plan(KERNEL.name, rows, longest)
}

fn block(task: &Task<'_>, block: u32, scratch: &mut Scratch) -> Result<(), FailureCode> {
    let [count, columns, entries, longest] = [0, 1, 2, 3].map(|index| task.size(index));
    let (first, names) = scratch.words.split_at_mut(ROWS + 1);
    let (values, sums) = scratch.floats.split_at_mut(PIECE);
    let rows = Rows::load(&task.input, block, [count, entries, longest], first)?;
    let (column, value, x) = (count + 1, count + 1 + entries, count + 1 + 2 * entries);
    for (row, sum) in sums[..rows.count].iter_mut().enumerate() {
        *sum = 0.0;
        for piece in rows.pieces(row) {
            let (names, values) = (&mut names[..piece.len()], &mut values[..piece.len()]);
            task.input.read_u32(column + piece.start, names).map_err(memory)?;
            task.input.read_f32(value + piece.start, values).map_err(memory)?;
            for (name, value) in names.iter().zip(values) {
                let name = *name as usize;
                if name < columns {
                    let mut element = [0.0];
                    task.input.read_f32(x + name, &mut element).map_err(memory)?;
                    *sum += *value * element[0];
                }
            }
        }
    }
    task.output.write_f32(rows.from, &sums[..rows.count]).map_err(memory)
}

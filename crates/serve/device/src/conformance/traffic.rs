//! The kernels that live on memory traffic against plain references, also with what no honest
//! client would send.

use super::Check;
use super::refusal::{Bad, all_refused};
use super::results::{Random, compare, numbers, read, run};
use super::scene::{Scene, Stop, ensure};
use shm::memory::PeerSlice;

pub(super) const CASES: &[(&str, Check)] = &[
    ("sad compares all squares, also beyond the edge", sad),
    ("spmv multiplies, and leaves out what its indices must not name", spmv),
    ("bfs finds the levels of a graph, and follows no edge out of it", bfs),
    ("lbm streams around the border and collides", lbm),
    ("arguments of sad that do not fit its buffers are refused", |scene| {
        all_refused(scene, BAD_SAD)
    }),
    ("arguments of spmv that do not fit its buffers are refused", |scene| {
        all_refused(scene, BAD_SPMV)
    }),
    ("arguments of bfs that do not fit its buffers are refused", |scene| {
        all_refused(scene, BAD_BFS)
    }),
    ("arguments of lbm that do not fit its buffers are refused", |scene| {
        all_refused(scene, BAD_LBM)
    }),
];

const HUGE: u64 = u64::MAX;

const BAD_SAD: &[Bad] = &[
    ("sad", [8, 4, 1, 0], 63, 72),
    ("sad", [8, 4, 1, 0], 64, 71),
    ("sad", [8, 4, 17, 0], 64, 8192),
    ("sad", [8, 4, HUGE, 0], 64, 64),
    ("sad", [1 << 32, 1 << 31, 0, 0], 64, 64),
    ("sad", [1 << 33, 1 << 31, 0, 0], 64, 64),
    ("sad", [HUGE, 1, 0, 0], 64, 64),
];

const BAD_SPMV: &[Bad] = &[
    ("spmv", [3, 2, 4, 4], 55, 12),
    ("spmv", [3, 2, 4, 4], 56, 11),
    ("spmv", [3, 2, 4, (1 << 16) + 1], 56, 12),
    ("spmv", [3, 2, 1 << 32, 4], 56, 12),
    ("spmv", [HUGE, 2, 4, 4], 64, 64),
    ("spmv", [3, HUGE, 4, 4], 64, 64),
    ("spmv", [1 << 62, 1 << 62, 4, 4], 64, 64),
];

const BAD_BFS: &[Bad] = &[
    ("bfs", [3, 4, 0, 4], 43, 12),
    ("bfs", [3, 4, 0, 4], 44, 11),
    ("bfs", [3, 4, u32::MAX as u64 - 1, 4], 44, 12),
    ("bfs", [3, 4, 0, (1 << 16) + 1], 44, 12),
    ("bfs", [3, 1 << 32, 0, 4], 44, 12),
    ("bfs", [1 << 63, 4, 0, 4], 64, 64),
    ("bfs", [HUGE, 4, 0, 4], 64, 64),
];

const BAD_LBM: &[Bad] = &[
    ("lbm", [2, 1, 1, 1], 151, 152),
    ("lbm", [2, 1, 1, 1], 152, 151),
    ("lbm", [2, 1, 1, 0], 152, 152),
    ("lbm", [2, 1, 1, 2_000_000], 152, 152),
    ("lbm", [1 << 32, 1 << 32, 1, 1], 64, 64),
    ("lbm", [1 << 32, 1 << 31, 2, 1], 64, 64),
    ("lbm", [1 << 60, 1, 1, 1], 64, 64),
    ("lbm", [HUGE, 1, 1, 1], 64, 64),
];

fn sad(scene: &Scene) -> Result<(), Stop> {
    for (w, h, radius) in [(0, 9, 2), (3, 8, 0), (4, 4, 16), (65, 9, 3), (132, 13, 1), (70, 6, 16)]
    {
        let mut random = Random(12);
        let pixels: Vec<u8> = (0..2 * w * h).map(|_| (random.next() >> 24) as u8).collect();
        let input = scene.memory(2 * w * h)?;
        input.write(0, &pixels)?;
        let (frame, other) = pixels.split_at(w * h);
        let side = 2 * radius + 1;
        let squares = (w / 4) * (h / 4);
        let output = scene.memory(squares * side * side * 4)?;
        run(scene, "sad", [w as u64, h as u64, radius as u64, 0], input, &output)?;
        let difference = |i: usize| -> u32 {
            let (square, down, right) = (i / (side * side), i / side % side, i % side);
            let (top, left) = (square / (w / 4) * 4, square % (w / 4) * 4);
            let near = |at: usize, moved: usize, size: usize| {
                (at as i64 + moved as i64 - radius as i64).clamp(0, size as i64 - 1) as usize
            };
            let pixel = |part: usize| {
                let (y, x) = (top + part / 4, left + part % 4);
                let there = near(y, down, h) * w + near(x, right, w);
                u32::from(frame[y * w + x].abs_diff(other[there]))
            };
            (0..16).map(pixel).sum()
        };
        let expected: Vec<u32> = (0..squares * side * side).map(difference).collect();
        let mut sums = vec![0; expected.len()];
        output.read_u32(0, &mut sums)?;
        ensure(sums == expected, || format!("sad of {w} x {h} with radius {radius}"))?;
    }
    Ok(())
}

/// Rows in compressed form.
struct Sparse {
    first: Vec<u32>,
    /// Column of each entry.
    column: Vec<u32>,
}

impl Sparse {
    /// Rows of up to `most` entries, some of them outside of the matrix; if `wild`, rows that begin
    /// anywhere, too.
    fn new(rows: usize, columns: usize, most: u32, wild: bool) -> Sparse {
        let mut random = Random(13);
        let mut first = vec![0];
        for row in 0..rows {
            first.push(first[row] + random.next() % (most + 1));
        }
        let entries = first[rows];
        let column = (0..entries).map(|i| match i % 7 {
            0 if wild => random.next(),
            _ => random.next() % (columns as u32 + u32::from(wild)),
        });
        let column = column.collect();
        for (row, first) in first.iter_mut().enumerate().filter(|_| wild) {
            match row % 5 {
                0 => *first = random.next(),
                1 => *first = random.next() % entries.max(1),
                _ => (),
            }
        }
        Sparse { first, column }
    }

    /// The entries of a row that a launch with that longest row sees.
    fn row(&self, row: usize, longest: usize) -> std::ops::Range<usize> {
        let place = |at: u32| (at as usize).min(self.column.len());
        let begin = place(self.first[row]);
        begin..place(self.first[row + 1]).min(begin + longest).max(begin)
    }
}

/// Words, then floats.
fn memory(scene: &Scene, words: &[&[u32]], floats: &[&[f32]]) -> Result<PeerSlice, Stop> {
    let (words, floats) = (words.concat(), floats.concat());
    let memory = scene.memory(4 * (words.len() + floats.len()))?;
    memory.write_u32(0, &words)?;
    memory.write_f32(words.len(), &floats)?;
    Ok(memory)
}

fn spmv(scene: &Scene) -> Result<(), Stop> {
    for (rows, columns, most, longest, wild) in [
        (0, 0, 0, 0, false),
        (1, 5, 3000, 65_536, false),
        (1000, 700, 9, 9, false),
        (4099, 4000, 20, 64, false),
        (300, 50, 40, 17, true),
        (5000, 7, 3, 300, true),
    ] {
        let matrix = Sparse::new(rows, columns, most, wild);
        let (value, x) = (numbers(matrix.column.len(), 14), numbers(columns, 15));
        let input = memory(scene, &[&matrix.first, &matrix.column], &[&value, &x])?;
        let output = scene.memory(4 * rows)?;
        let entries = value.len() as u64;
        let arguments = [rows as u64, columns as u64, entries, longest as u64];
        run(scene, "spmv", arguments, input, &output)?;
        let element = |row: usize| {
            let product = |i: usize| {
                let x = x.get(matrix.column[i] as usize).copied().unwrap_or(0.0);
                f64::from(value[i]) * f64::from(x)
            };
            matrix.row(row, longest).map(product).sum::<f64>() as f32
        };
        let expected: Vec<f32> = (0..rows).map(element).collect();
        // Of some hundred products, added in single precision.
        compare("spmv", rows, &expected, &read(&output)?, 1e-3)?;
    }
    Ok(())
}

fn bfs(scene: &Scene) -> Result<(), Stop> {
    for (vertices, most, longest, wild) in [
        (0, 0, 0, false),
        (1, 3, 3, false),
        (1000, 2, 2, false),
        (5003, 6, 4, false),
        (900, 9, 5, true),
    ] {
        let graph = Sparse::new(vertices, vertices, most, wild);
        let mut levels = vec![u32::MAX; vertices];
        levels.iter_mut().step_by(701).for_each(|level| *level = 0);
        let input = memory(scene, &[&graph.first, &graph.column, &levels], &[])?;
        let before = vertices + 1 + graph.column.len();
        // In place, as a search does it.
        let output = input.slice(4 * before, 4 * vertices)?;
        for level in 0..4 {
            let edges = graph.column.len() as u64;
            let arguments = [vertices as u64, edges, level.into(), longest as u64];
            run(scene, "bfs", arguments, input.clone(), &output)?;
            let reached = |vertex: usize| {
                let on_level = |i: usize| levels.get(graph.column[i] as usize) == Some(&level);
                levels[vertex] == u32::MAX && graph.row(vertex, longest).any(on_level)
            };
            let expected = |vertex| if reached(vertex) { level + 1 } else { levels[vertex] };
            levels = (0..vertices).map(expected).collect();
            let mut got = vec![0; vertices];
            output.read_u32(0, &mut got)?;
            ensure(got == levels, || format!("bfs of {vertices} vertices, level {level}"))?;
        }
    }
    Ok(())
}

fn lbm(scene: &Scene) -> Result<(), Stop> {
    for grid in [[0, 5, 2], [1, 1, 1], [2, 3, 1], [256, 2, 2], [257, 1, 3], [300, 4, 2], [5, 7, 9]]
    {
        let [x, y, z] = grid;
        let cells = x * y * z;
        // Near rest, so that no mass is near zero.
        let near = |(i, noise): (usize, f32)| {
            let rest = LbmDirection::of(i / cells.max(1)).weight as f32;
            rest * (1.0 + 0.1 * noise)
        };
        let before: Vec<f32> = numbers(19 * cells, 16).into_iter().enumerate().map(near).collect();
        let output = scene.memory(19 * cells * 4)?;
        let rate = 1_300_000;
        let arguments = [x as u64, y as u64, z as u64, rate];
        run(scene, "lbm", arguments, scene.floats(&before)?, &output)?;
        let mut expected = vec![0.0; 19 * cells];
        for cell in 0..cells {
            let densities = collided(&before, grid, cell, rate as f64 / 1e6);
            for (direction, density) in densities.into_iter().enumerate() {
                expected[direction * cells + cell] = density as f32;
            }
        }
        compare("lbm", cells, &expected, &read(&output)?, 1e-5)?;
    }
    Ok(())
}

/// A direction of the lattice, as the kernel's description numbers them.
struct LbmDirection {
    leads: [i64; 3],
    weight: f64,
}

impl LbmDirection {
    fn of(number: usize) -> LbmDirection {
        let mut leads = [0; 3];
        if (1..7).contains(&number) {
            leads[(number - 1) / 2] = if number % 2 == 1 { 1 } else { -1 };
        } else if number >= 7 {
            let (first, second) = [(0, 1), (0, 2), (1, 2)][(number - 7) / 4];
            (leads[first], leads[second]) = [(1, 1), (-1, -1), (1, -1), (-1, 1)][(number - 7) % 4];
        }
        let weight = [1.0 / 3.0, 1.0 / 18.0, 1.0 / 36.0];
        let length = leads.iter().filter(|lead| **lead != 0).count();
        LbmDirection { leads, weight: weight[length] }
    }
}

/// The densities of a cell after a step.
fn collided(before: &[f32], grid: [usize; 3], cell: usize, rate: f64) -> [f64; 19] {
    let [x, y, z] = grid;
    let cells = x * y * z;
    let place = [cell % x, cell / x % y, cell / (x * y)];
    let streamed: [f64; 19] = std::array::from_fn(|direction| {
        let LbmDirection { leads, .. } = LbmDirection::of(direction);
        let from: [usize; 3] = std::array::from_fn(|axis| {
            (place[axis] as i64 - leads[axis]).rem_euclid(grid[axis] as i64) as usize
        });
        f64::from(before[direction * cells + (from[2] * y + from[1]) * x + from[0]])
    });
    let mass: f64 = streamed.iter().sum();
    let velocity: [f64; 3] = std::array::from_fn(|axis| {
        let along = |(i, density): (usize, &f64)| LbmDirection::of(i).leads[axis] as f64 * density;
        streamed.iter().enumerate().map(along).sum::<f64>() / mass
    });
    let speed: f64 = velocity.iter().map(|v| v * v).sum();
    std::array::from_fn(|direction| {
        let LbmDirection { leads, weight } = LbmDirection::of(direction);
        let along: f64 = velocity.iter().zip(leads).map(|(v, lead)| v * lead as f64).sum();
        let even = weight * mass * (1.0 + 3.0 * along + 4.5 * along * along - 1.5 * speed);
        streamed[direction] + rate * (even - streamed[direction])
    })
}

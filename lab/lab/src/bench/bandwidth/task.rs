//! Kernels with the memory behaviour of BWLOCK++'s six benchmarks, with data.
//!
//! Each has about as much memory as it is told to, in the client's own memory, where the software
//! accelerator and a GPU that works in place find it. The data are drawn from a fixed seed.

use std::sync::Arc;

use anyhow::{Context, ensure};
use bandwidth::Hold;
use device::{Device, Event, Launch, Level, Status, StreamId};
use realtime::clock::monotonic_ns;
use shm::memory::PeerSlice;

/// Bins of the histogram.
const BINS: usize = 4096;
/// Columns of the stencil's grid.
const COLUMNS: usize = 2048;
/// The frames of block matching: their width, and the largest displacement.
const WIDTH: usize = 512;
const RADIUS: usize = 16;
/// Neighbours of a vertex, entries of a row.
const DEGREE: usize = 8;
/// Number of vertices per vertex at which the search begins.
const SOURCES: usize = 64;
/// Cells of the lattice along x and along y.
const SIDE: usize = 128;
/// Relaxation rate of the lattice, in millionths.
const RATE: u64 = 1_200_000;
/// Numbers that are written at once.
const PIECE: usize = 1 << 14;
const SEED: u64 = 1;

/// A kernel, named as in the device and, in BWLOCK++'s Table III, as histo, sad, bfs, spmv,
/// stencil, lbm.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(super) enum Kernel {
    Histogram,
    Sad,
    Bfs,
    Spmv,
    Stencil,
    Lbm,
}

/// A kernel with its memory, ready to run.
pub(super) struct Task {
    device: Arc<dyn Device>,
    stream: StreamId,
    event: Event,
    launches: Vec<Launch>,
    /// The levels of a search, which begins anew with each run.
    levels: Option<PeerSlice>,
    /// Bytes of input and output.
    pub memory_bytes: usize,
}

impl Kernel {
    /// Its name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kernel::Histogram => "histogram",
            Kernel::Sad => "sad",
            Kernel::Bfs => "bfs",
            Kernel::Spmv => "spmv",
            Kernel::Stencil => "stencil",
            Kernel::Lbm => "lbm",
        }
    }

    /// The arguments of a launch with about so much memory, its numbers in and its numbers out.
    fn shape(self, bytes: usize) -> ([u64; 4], usize, usize) {
        let wide = |numbers: [usize; 4]| numbers.map(|number| number as u64);
        match self {
            Kernel::Histogram => {
                let count = (bytes / 4).max(1);
                (wide([count, BINS, 0, 0]), count, BINS)
            }
            Kernel::Sad => {
                let sums = (2 * RADIUS + 1) * (2 * RADIUS + 1);
                let rows = (bytes / (WIDTH * (2 + sums / 4))).next_multiple_of(4).max(4);
                let frames = (2 * WIDTH * rows).div_ceil(4);
                (wide([WIDTH, rows, RADIUS, 0]), frames, WIDTH / 4 * (rows / 4) * sums)
            }
            Kernel::Bfs => {
                let count = (bytes / (4 * (DEGREE + 2))).max(2);
                (wide([count, DEGREE * count, 0, DEGREE]), count * (DEGREE + 2) + 1, count)
            }
            Kernel::Spmv => {
                let count = (bytes / (4 * (2 * DEGREE + 3))).max(2);
                let arguments = wide([count, count, DEGREE * count, DEGREE]);
                (arguments, count * (2 * DEGREE + 2) + 1, count)
            }
            Kernel::Stencil => {
                let rows = (bytes / (8 * COLUMNS)).max(1);
                (wide([COLUMNS, rows, 0, 0]), COLUMNS * rows, COLUMNS * rows)
            }
            Kernel::Lbm => {
                let slices = (bytes / (8 * 19 * SIDE * SIDE)).max(1);
                let count = 19 * SIDE * SIDE * slices;
                let [x, y, z, _] = wide([SIDE, SIDE, slices, 0]);
                ([x, y, z, RATE], count, count)
            }
        }
    }
}

impl Task {
    /// A kernel with about so many bytes of input and output; none if the device lacks it.
    pub(super) fn open(
        device: &Arc<dyn Device>,
        kernel: Kernel,
        bytes: usize,
    ) -> anyhow::Result<Option<Task>> {
        let Some(id) = device.kernel(kernel.name()) else { return Ok(None) };
        let stream = device.create_stream(device.create_context()?, Level(0))?;
        let (arguments, numbers_in, numbers_out) = kernel.shape(bytes);
        let input = PeerSlice::anonymous(4 * numbers_in).context("the memory of a kernel")?;
        let launch = |output: &PeerSlice, arguments| Launch {
            input: input.clone(),
            output: output.clone(),
            ..Launch::new(id, arguments)
        };
        let memory_bytes = 4 * (numbers_in + numbers_out);
        let parts = |launches, levels| {
            let (device, event) = (device.clone(), Event::new());
            Task { device, stream, event, launches, levels, memory_bytes }
        };
        if kernel == Kernel::Bfs {
            // The levels are a part of the input.
            let count = numbers_out;
            let levels = input.slice(4 * (numbers_in - count), 4 * count)?;
            let deepest = graph(&input, &levels, count)?;
            let step = |level| {
                let [vertices, edges, _, most] = arguments;
                launch(&levels, [vertices, edges, u64::from(level), most])
            };
            let launches = (0..deepest).map(step).collect();
            return Ok(Some(Task {
                memory_bytes: 4 * numbers_in,
                ..parts(launches, Some(levels))
            }));
        }
        let output = PeerSlice::anonymous(4 * numbers_out).context("the memory of a kernel")?;
        fill(kernel, &input, numbers_in, arguments)?;
        Ok(Some(parts(vec![launch(&output, arguments)], None)))
    }

    /// Runs it once, from before its submission until its end was known, in nanoseconds; with the
    /// lock, from before it was taken until it was given back.
    pub(super) fn run(&self, lock: Option<&Hold>) -> anyhow::Result<u64> {
        if let Some(levels) = &self.levels {
            begin_search(levels)?;
        }
        let begin = monotonic_ns();
        if let Some(lock) = lock {
            ensure!(lock.acquire(), "the lock cannot be taken");
        }
        let ran = self.launches.iter().try_for_each(|launch| {
            self.device.launch(self.stream, launch.clone(), &self.event)?;
            let status = self.event.wait().status;
            ensure!(status == Status::Done, "a kernel ended as {status:?}");
            Ok(())
        });
        if let Some(lock) = lock {
            lock.release();
        }
        ran.map(|()| monotonic_ns() - begin)
    }
}

/// Writes numbers one after the other.
fn write(
    memory: &PeerSlice,
    from: usize,
    count: usize,
    mut number: impl FnMut(usize) -> u32,
) -> anyhow::Result<()> {
    for at in (0..count).step_by(PIECE) {
        let piece: Vec<u32> = (at..count.min(at + PIECE)).map(&mut number).collect();
        memory.write_u32(from + at, &piece)?;
    }
    Ok(())
}

fn fill(
    kernel: Kernel,
    input: &PeerSlice,
    count: usize,
    arguments: [u64; 4],
) -> anyhow::Result<()> {
    let mut random = fastrand::Rng::with_seed(SEED);
    match kernel {
        Kernel::Histogram => write(input, 0, count, |_| random.u32(0..BINS as u32)),
        Kernel::Sad => write(input, 0, count, |_| random.u32(..)),
        Kernel::Stencil => write(input, 0, count, |_| random.f32().to_bits()),
        // Near rest, so that it stays stable.
        Kernel::Lbm => write(input, 0, count, |_| (0.05 + 0.01 * random.f32()).to_bits()),
        Kernel::Spmv => {
            let (rows, entries) = (arguments[0] as usize, arguments[2] as usize);
            write(input, 0, rows + 1, |row| (row * DEGREE) as u32)?;
            write(input, rows + 1, entries, |_| random.u32(0..rows as u32))?;
            let floats = count - rows - 1 - entries;
            write(input, rows + 1 + entries, floats, |_| random.f32().to_bits())
        }
        Kernel::Bfs => unreachable!("a graph is not filled in"),
    }
}

/// Makes a random graph, searches it, and returns how many levels the search takes.
fn graph(input: &PeerSlice, levels: &PeerSlice, count: usize) -> anyhow::Result<u32> {
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut neighbours = vec![0; DEGREE * count];
    neighbours.fill_with(|| random.u32(0..count as u32));
    write(input, 0, count + 1, |vertex| (vertex * DEGREE) as u32)?;
    write(input, count + 1, neighbours.len(), |edge| neighbours[edge])?;
    begin_search(levels)?;
    let mut reached: Vec<bool> = (0..count).map(|vertex| vertex % SOURCES == 0).collect();
    for level in 0.. {
        let before = reached.clone();
        for (vertex, reached) in reached.iter_mut().enumerate().filter(|(_, reached)| !**reached) {
            let from = &neighbours[vertex * DEGREE..][..DEGREE];
            *reached = from.iter().any(|neighbour| before[*neighbour as usize]);
        }
        if reached == before {
            // At least one, so that there is something to run.
            return Ok(level.max(1));
        }
    }
    unreachable!("a level reaches a vertex, or is the last one")
}

/// Begins a search that has reached only the first of each [`SOURCES`] vertices.
fn begin_search(levels: &PeerSlice) -> anyhow::Result<()> {
    write(levels, 0, levels.len() / 4, |vertex| match vertex % SOURCES {
        0 => 0,
        _ => u32::MAX,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use device::software::{Config, SoftwareDevice};
    use realtime::work::Calibration;

    const ALL: [Kernel; 6] =
        [Kernel::Histogram, Kernel::Sad, Kernel::Bfs, Kernel::Spmv, Kernel::Stencil, Kernel::Lbm];

    fn device() -> Arc<dyn Device> {
        let calibration = Some(Calibration { iterations_per_us: 300.0, spread: 0.0 });
        SoftwareDevice::on_cores(Config { calibration, ..Config::default() }).unwrap()
    }

    #[test]
    fn every_kernel_runs_on_about_the_memory_that_it_is_told() {
        let device = device();
        for kernel in ALL {
            let task = Task::open(&device, kernel, 8 << 20).unwrap().unwrap();
            let share = task.memory_bytes as f64 / f64::from(8 << 20);
            assert!((0.5..1.5).contains(&share), "{kernel:?}: {share}");
            assert!(task.run(None).unwrap() > 0);
        }
    }

    #[test]
    fn search_reaches_all_that_can_be_reached_each_time() {
        let task = Task::open(&device(), Kernel::Bfs, 1 << 16).unwrap().unwrap();
        let levels = task.levels.clone().unwrap();
        let read = || {
            let mut read = vec![0; levels.len() / 4];
            levels.read_u32(0, &mut read).unwrap();
            read
        };
        let mut found = Vec::new();
        for _ in 0..2 {
            task.run(None).unwrap();
            found.push(read());
        }
        assert_eq!(found[0], found[1]);
        let deepest = found[0].iter().filter(|level| **level != u32::MAX).max();
        assert_eq!(deepest, Some(&(task.launches.len() as u32)));
        // With eight neighbours each, next to none is out of reach.
        let missed = found[0].iter().filter(|level| **level == u32::MAX).count();
        assert!(missed * 50 < found[0].len(), "{missed}");
    }
}

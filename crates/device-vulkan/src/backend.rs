//! Blocks of the kernels: slices of client memory, in and out.

use crate::Calibration;
use crate::calibration;
use crate::config::{Config, Groups};
use crate::gpu::Gpu;
use crate::kernel::{Code, GROUP, Kernel, REDUCED, SLICE, TILE, slice_rows, spread, strip_rows};
use crate::library::Library;
use crate::worker::{Dispatch, View, Worker};
use device::hosted::{Backend, Hosted, Plan, Setup, Task, Unit};
use device::{FailureCode, KernelId, KernelInfo, Launch, Level, kernels};
use shm::memory::PeerSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A Vulkan device behind the contract. Dropping it shuts it down.
pub type VulkanDevice = Hosted<Vulkan>;

/// Runs blocks on a Vulkan device.
pub struct Vulkan {
    gpu: Arc<Gpu>,
    calibration: Calibration,
    staging_bytes: u64,
}

const WORD: u64 = 4;
const SUM_BYTES: u64 = 8;

/// Starts a Vulkan device: translates its kernels, measures its speed, starts its threads.
///
/// # Errors
/// [`device::Error::Start`] with a [`crate::Error`] as text when there is no Vulkan, no such device, or
/// something wrong with a module; otherwise as [`Hosted::start`].
pub fn start(config: Config) -> Result<Arc<VulkanDevice>, device::Error> {
    let library = Library::load()?;
    let candidate = library.select(&config.device)?;
    let gpu = Gpu::new(library, &candidate, config.levels, config.spin, &config.modules)?;
    let gpu = Arc::new(gpu);
    let staging_bytes = config.staging_bytes as u64;
    let calibration = match config.calibration {
        Some(calibration) => calibration,
        None => {
            let busy = gpu.kernels.iter().position(|kernel| kernel.code == Code::Busy);
            let mut worker = Worker::new(&gpu, 0)?;
            Calibration::measure(&mut worker, busy.unwrap_or(0))?
        }
    };
    let units = match (config.units.is_empty(), gpu.queues.len()) {
        (false, _) => config.units,
        (true, 1) => vec![Unit::default()],
        (true, _) => {
            let least = Level(config.levels / 2);
            vec![Unit::default(), Unit { least, ..Unit::default() }]
        }
    };
    let setup = Setup {
        name: format!("{}, {} units", candidate.found.name, units.len()),
        levels: config.levels,
        units,
        policy: config.policy,
        sharing: config.sharing,
        copy_core: config.copy_core,
    };
    Hosted::start(Vulkan { gpu, calibration, staging_bytes }, &setup)
}

impl Backend for Vulkan {
    type Worker = Worker;

    fn kernels(&self) -> Vec<KernelInfo> {
        let info = |(i, kernel): (usize, &Kernel)| KernelInfo {
            id: KernelId(i as u32),
            name: kernel.name,
            description: kernel.description,
        };
        self.gpu.kernels.iter().enumerate().map(info).collect()
    }

    fn plan(&self, launch: &Launch) -> Result<Plan, device::Error> {
        let unknown = device::Error::UnknownKernel(launch.kernel);
        let kernel = self.gpu.kernels.get(launch.kernel.0 as usize).ok_or(unknown)?;
        kernel.plan(launch, &self.gpu.limits)
    }

    fn worker(&self, _: usize) -> Result<Worker, String> {
        Worker::new(&self.gpu, self.staging_bytes).map_err(|error| error.to_string())
    }

    fn block(&self, worker: &mut Worker, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        if self.gpu.is_lost() {
            // Nobody knows whether the device still uses the worker's buffers.
            return Err(FailureCode::Kernel);
        }
        let place = task.kernel.0 as usize;
        let code = self.gpu.kernels.get(place).ok_or(FailureCode::Kernel)?.code;
        let number = block;
        let mut block = Block { worker, task, block: block.into() };
        match code {
            Code::Empty => block.run([0; 4], [1; 3]),
            Code::Busy => {
                let ns = kernels::busy_block_ns(task.arguments[0], number);
                let steps = self.calibration.steps(ns);
                calibration::run(block.worker, place, task.level, steps)
            }
            Code::Vecadd => block.vecadd(),
            Code::Matmul => block.matmul(),
            Code::Reduce => block.reduce(),
            Code::Histogram => block.histogram(),
            Code::Stencil => block.stencil(),
            Code::User(groups) => block.user(groups),
        }
    }

    fn finish(&self, _: &mut Worker, task: &Task<'_>) -> Result<(), FailureCode> {
        // Relaxed: the count of finished blocks has ordered all of this before.
        let words = task.workspace.iter().map(|word| word.load(Ordering::Relaxed));
        match self.gpu.kernels.get(task.kernel.0 as usize).map(|kernel| kernel.code) {
            Some(Code::Reduce) => {
                let sum: f64 = words.map(f64::from_bits).sum();
                task.output.write(0, &sum.to_ne_bytes()).map_err(memory)
            }
            Some(Code::Histogram) => {
                // Each is at most the number of values, which is below 2^32.
                let bins: Vec<u32> = words.map(|count| count as u32).collect();
                task.output.write_u32(0, &bins).map_err(memory)
            }
            _ => Ok(()),
        }
    }
}

/// A block that is being run. The launch was checked, so sizes in bytes fit 64 bits.
struct Block<'a> {
    worker: &'a mut Worker,
    task: &'a Task<'a>,
    block: u64,
}

impl Block<'_> {
    fn run(&mut self, arguments: [u64; 4], groups: [u32; 3]) -> Result<(), FailureCode> {
        let (kernel, level) = (self.task.kernel.0 as usize, self.task.level);
        let view = View::Whole;
        self.worker.run(&Dispatch { kernel, level, arguments, groups, view })
    }

    /// The first element of this block's slice of `n`, and how many it has.
    fn slice(&self, n: u64) -> (u64, u64) {
        let start = self.block * SLICE;
        (start, SLICE.min(n.saturating_sub(start)))
    }

    /// Copies elements of the launch's input to element `to` of the staging buffer.
    fn load(&mut self, from: u64, to: u64, count: u64) -> Result<(), FailureCode> {
        let bytes = self.worker.input.first((to + count) * WORD);
        let bytes = &mut bytes[(to * WORD) as usize..];
        self.task.input.read((from * WORD) as usize, bytes).map_err(memory)
    }

    /// Copies the first elements of the staging buffer to element `to` of the launch's output.
    fn store(&mut self, to: u64, count: u64) -> Result<(), FailureCode> {
        let bytes = self.worker.output.first(count * WORD);
        self.task.output.write((to * WORD) as usize, bytes).map_err(memory)
    }

    fn vecadd(&mut self) -> Result<(), FailureCode> {
        let n = self.task.arguments[0];
        let (start, count) = self.slice(n);
        if count == 0 {
            return Ok(());
        }
        self.worker.reserve(2 * count * WORD, count * WORD)?;
        self.load(start, 0, count)?;
        self.load(n + start, count, count)?;
        self.run([count, 0, 0, 0], [count.div_ceil(GROUP) as u32, 1, 1])?;
        self.store(start, count)
    }

    fn matmul(&mut self) -> Result<(), FailureCode> {
        let n = self.task.arguments[0];
        let strip = strip_rows(n);
        let first = self.block * strip;
        let rows = strip.min(n.saturating_sub(first));
        if rows == 0 {
            return Ok(());
        }
        self.worker.reserve((rows + n) * n * WORD, rows * n * WORD)?;
        self.load(first * n, 0, rows * n)?;
        self.load(n * n, rows * n, n * n)?;
        let groups = [n.div_ceil(TILE) as u32, rows.div_ceil(TILE) as u32, 1];
        self.run([n, rows, 0, 0], groups)?;
        self.store(first * n, rows * n)
    }

    fn reduce(&mut self) -> Result<(), FailureCode> {
        let (start, count) = self.slice(self.task.arguments[0]);
        if count == 0 {
            return Ok(());
        }
        let groups = count.div_ceil(REDUCED);
        self.worker.reserve(count * WORD, groups * SUM_BYTES)?;
        self.load(start, 0, count)?;
        self.run([count, 0, 0, 0], [groups as u32, 1, 1])?;
        let (sums, _) = self.worker.output.first(groups * SUM_BYTES).as_chunks::<8>();
        let sum: f64 = sums.iter().map(|sum| f64::from_ne_bytes(*sum)).sum();
        // Relaxed: `finish` runs after the count of finished blocks has ordered all of this.
        self.task.workspace[self.block as usize].store(sum.to_bits(), Ordering::Relaxed);
        Ok(())
    }

    fn histogram(&mut self) -> Result<(), FailureCode> {
        let [n, bins, ..] = self.task.arguments;
        let (start, count) = self.slice(n);
        if count == 0 {
            return Ok(());
        }
        self.worker.reserve(count * WORD, bins * WORD)?;
        self.load(start, 0, count)?;
        self.worker.output.first(bins * WORD).fill(0);
        self.run([count, bins, 0, 0], [count.div_ceil(GROUP) as u32, 1, 1])?;
        let (counts, _) = self.worker.output.first(bins * WORD).as_chunks::<4>();
        for (count, total) in counts.iter().zip(self.task.workspace) {
            // Relaxed: as for `reduce`.
            total.fetch_add(u32::from_ne_bytes(*count).into(), Ordering::Relaxed);
        }
        Ok(())
    }

    fn stencil(&mut self) -> Result<(), FailureCode> {
        let [width, height, ..] = self.task.arguments;
        let most = slice_rows(width);
        let top = self.block * most;
        let rows = most.min(height.saturating_sub(top));
        if width == 0 || rows == 0 {
            return Ok(());
        }
        let (first, last) = (top == 0, top + rows == height);
        let (above, below) = (u64::from(!first), u64::from(!last));
        let loaded = (above + rows + below) * width;
        self.worker.reserve(loaded * WORD, rows * width * WORD)?;
        self.load((top - above) * width, 0, loaded)?;
        let groups = spread((rows * width).div_ceil(GROUP));
        self.run([width, rows, first.into(), last.into()], groups)?;
        self.store(top * width, rows * width)
    }

    fn user(&mut self, groups: Groups) -> Result<(), FailureCode> {
        let Task { launch, level, .. } = *self.task;
        let Launch { kernel, arguments, ref input, ref output, .. } = *launch;
        let groups = match groups {
            Groups::Fixed(groups) => groups,
            // The plan has found that these are not too many.
            Groups::Elements { argument, per_group } => {
                [arguments[argument].div_ceil(per_group.into()) as u32, 1, 1]
            }
        };
        let (input_bytes, output_bytes) = (input.len() as u64, output.len() as u64);
        self.worker.reserve(input_bytes, output_bytes)?;
        copy_in(input, self.worker.input.first(input_bytes))?;
        // What the kernel does not write stays as it is.
        copy_in(output, self.worker.output.first(output_bytes))?;
        let view = View::Exact(input_bytes, output_bytes);
        let kernel = kernel.0 as usize;
        self.worker.run(&Dispatch { kernel, level, arguments, groups, view })?;
        output.write(0, self.worker.output.first(output_bytes)).map_err(memory)
    }
}

fn copy_in(from: &PeerSlice, to: &mut [u8]) -> Result<(), FailureCode> {
    from.read(0, to).map_err(memory)
}

/// Memory that was checked turned out unreadable.
fn memory(_: shm::Error) -> FailureCode {
    FailureCode::Memory
}

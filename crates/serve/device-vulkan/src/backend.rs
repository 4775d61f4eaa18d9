//! A device of [`device::hosted`] on Vulkan.

use crate::block::{self, Block};
use crate::config::Config;
use crate::gpu::Gpu;
use crate::imports::Imports;
use crate::kernel::{Code, FILTER, Kernel};
use crate::worker::Worker;
use crate::{Calibration, calibration};
use device::hosted::{Backend, Hosted, Plan, Setup, Task, Unit};
use device::{FailureCode, KernelId, KernelInfo, Launch, Level, kernels};
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

/// Access of a device to its clients' memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClientMemory {
    /// Mappings that the device reaches itself now.
    pub imported: usize,
    /// Bytes that the units copied to staging buffers or from them since the device was started.
    pub staged_bytes: u64,
}

/// Starts a Vulkan device: translates its kernels, measures its speed, starts its threads.
///
/// # Errors
/// [`device::Error::Start`] with a [`crate::Error`] as text when there is no Vulkan, no such device, or
/// something wrong with a module; otherwise as [`Hosted::start`].
pub fn start(config: Config) -> Result<Arc<VulkanDevice>, device::Error> {
    let gpu = Arc::new(Gpu::new(&config)?);
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
        name: format!("{}, {} units", gpu.device.found().name, units.len()),
        levels: config.levels,
        units,
        policy: config.policy,
        sharing: config.sharing,
        copy_core: config.copy_core,
    };
    Hosted::start(Vulkan { gpu, calibration, staging_bytes }, &setup)
}

impl Vulkan {
    /// Returns its access to its clients' memory, as far as it is now.
    pub fn client_memory(&self) -> ClientMemory {
        ClientMemory {
            imported: self.gpu.imports.as_ref().map_or(0, Imports::count),
            staged_bytes: self.gpu.staged_bytes.load(Ordering::Relaxed),
        }
    }
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
        kernel.plan(launch, self.gpu.device.limits())
    }

    fn worker(&self, _: usize) -> Result<Worker, String> {
        Worker::new(&self.gpu, self.staging_bytes).map_err(|error| error.to_string())
    }

    fn context_gone(&self) {
        if let Some(imports) = &self.gpu.imports {
            imports.sweep(&self.gpu);
        }
    }

    fn block(&self, worker: &mut Worker, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        if self.gpu.is_lost() {
            // It is unknown whether the device still uses the worker's buffers.
            return Err(FailureCode::Kernel);
        }
        let place = task.kernel.0 as usize;
        let kernel = self.gpu.kernels.get(place).ok_or(FailureCode::Kernel)?;
        if kernel.code == Code::Busy {
            let ns = kernels::busy_block_ns(task.arguments[0], block);
            return calibration::run(worker, place, task.level, self.calibration.steps(ns));
        }
        let mut block = Block { gpu: &self.gpu, worker, task, number: block.into() };
        match kernel.code {
            Code::Empty | Code::Busy => block.empty(),
            Code::Vecadd => block.vecadd(),
            Code::Matmul => block.matmul(),
            Code::Reduce => block.reduce(),
            Code::Histogram => block.histogram(),
            Code::Stencil => block.grid(1, 0),
            Code::Convolution => block.grid(1, FILTER),
            Code::Activation => block.grid(0, task.arguments[0]),
            Code::User(groups) => block.user(groups, kernel.direct),
        }
    }

    fn finish(&self, _: &mut Worker, task: &Task<'_>) -> Result<(), FailureCode> {
        // Relaxed: the count of finished blocks has ordered all of this before.
        let words = task.workspace.iter().map(|word| word.load(Ordering::Relaxed));
        match self.gpu.kernels.get(task.kernel.0 as usize).map(|kernel| kernel.code) {
            Some(Code::Reduce) => {
                let sum: f64 = words.map(f64::from_bits).sum();
                task.output.write(0, &sum.to_ne_bytes()).map_err(block::memory)
            }
            Some(Code::Histogram) => {
                // Each is at most the number of values, which is below 2^32.
                let bins: Vec<u32> = words.map(|count| count as u32).collect();
                task.output.write_u32(0, &bins).map_err(block::memory)
            }
            _ => Ok(()),
        }
    }
}

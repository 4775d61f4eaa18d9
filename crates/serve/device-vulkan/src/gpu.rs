//! The logical device: its queues, and the pipelines that all units share.

use crate::imports::Imports;
use crate::kernel::{Code, Direct, Kernel};
use crate::logical::{LogicalDevice, Wanted};
use crate::shader::{self, BINDINGS, Limits};
use crate::spirv;
use crate::{Config, Error, Module, Source};
use ash::vk;
use device::{FailureCode, Level};
use realtime::mutex::PiMutex;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// A started device. Dropped after all workers, which hold it.
pub(crate) struct Gpu {
    pub device: LogicalDevice,
    pub kernels: Vec<Kernel>,
    pub set_layout: vk::DescriptorSetLayout,
    pub pipeline_layout: vk::PipelineLayout,
    /// Queues by priority, the highest last. A queue is for one thread at a time.
    pub queues: Vec<PiMutex<vk::Queue>>,
    pub levels: u8,
    pub spin: bool,
    /// Clients' memory that it reaches; none if it is to copy all.
    pub imports: Option<Imports>,
    /// Bytes of clients' memory that were copied to staging buffers or from them.
    pub staged_bytes: AtomicU64,
    lost: AtomicBool,
}

impl Gpu {
    /// Makes the device and compiles all kernels.
    pub(crate) fn new(config: &Config) -> Result<Gpu, Error> {
        let wanted = Wanted { queues: config.levels.into(), robust: true };
        let device = LogicalDevice::open(&config.device, wanted)?;
        let limits = Limits {
            float64: device.has_float64(),
            invocations: device.limits().max_compute_work_group_invocations,
            size: device.limits().max_compute_work_group_size,
        };
        // From here on a failure destroys what there is: null handles are left alone.
        let mut gpu = Gpu {
            queues: device.queues().into_iter().map(PiMutex::new).collect(),
            device,
            kernels: Vec::new(),
            set_layout: vk::DescriptorSetLayout::null(),
            pipeline_layout: vk::PipelineLayout::null(),
            levels: config.levels,
            spin: config.spin,
            imports: config.import.then(Imports::new),
            staged_bytes: AtomicU64::new(0),
            lost: AtomicBool::new(false),
        };
        gpu.create_layouts()?;
        for (module, code) in Kernel::built_in() {
            if code != Code::Reduce || limits.float64 {
                gpu.add(&module, code, limits)?;
            }
        }
        for module in &config.modules {
            gpu.add(module, Code::User(module.groups), limits)?;
        }
        Ok(gpu)
    }

    /// The queue for work of this level.
    pub(crate) fn queue(&self, level: Level) -> &PiMutex<vk::Queue> {
        &self.queues[queue_of(level, self.levels, self.queues.len())]
    }

    /// Returns true if the device was lost.
    pub(crate) fn is_lost(&self) -> bool {
        // Relaxed: a worker that sees it late hears it from the driver.
        self.lost.load(Ordering::Relaxed)
    }

    /// The device is not to be used any more.
    pub(crate) fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// Returns the failure code of the launch for a failed call.
    pub(crate) fn failure(&self, result: vk::Result) -> FailureCode {
        match result {
            vk::Result::ERROR_OUT_OF_HOST_MEMORY
            | vk::Result::ERROR_OUT_OF_DEVICE_MEMORY
            | vk::Result::ERROR_OUT_OF_POOL_MEMORY
            | vk::Result::ERROR_MEMORY_MAP_FAILED => FailureCode::Memory,
            vk::Result::ERROR_DEVICE_LOST => {
                self.lose();
                FailureCode::Kernel
            }
            _ => FailureCode::Kernel,
        }
    }

    fn create_layouts(&mut self) -> Result<(), Error> {
        let binding = |index, kind| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(index)
                .descriptor_type(kind)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: [_; BINDINGS as usize] = [
            binding(0, vk::DescriptorType::STORAGE_BUFFER),
            binding(1, vk::DescriptorType::STORAGE_BUFFER),
            binding(2, vk::DescriptorType::UNIFORM_BUFFER),
        ];
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the description is complete and outlives the call.
        self.set_layout = unsafe { self.device.create_descriptor_set_layout(&info, None) }
            .map_err(Error::of("vkCreateDescriptorSetLayout"))?;
        let layouts = [self.set_layout];
        let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts);
        // SAFETY: as above.
        self.pipeline_layout = unsafe { self.device.create_pipeline_layout(&info, None) }
            .map_err(Error::of("vkCreatePipelineLayout"))?;
        Ok(())
    }

    /// Adds a kernel with its pipeline.
    fn add(&mut self, module: &Module, code: Code, limits: Limits) -> Result<(), Error> {
        let error = |reason: String| {
            let (name, description) = (module.name.clone(), module.description.clone());
            Error::Module { name, description, reason }
        };
        if self.kernels.iter().any(|kernel| kernel.name == module.name) {
            return Err(error("there is a kernel of this name already".into()));
        }
        code.check(self.device.limits()).map_err(error)?;
        let words = shader::compile(module, limits).map_err(error)?;
        let entry = CString::new(module.entry.as_str())
            .map_err(|_| error("the name of its entry point contains a zero".into()))?;

        // SAFETY: our own kernels are valid SPIR-V, as the translation makes it; a user's SPIR-V
        // is trusted as the program is, see `Module`. The entry point exists, and all bindings are
        // in the layout: `compile` checked.
        let made = unsafe { self.device.pipeline(&words, &entry, self.pipeline_layout) };
        let pipeline = made.map_err(|refused| error(refused.to_string()))?;
        // Accesses beyond a binding must not end at the client's other data.
        let confined =
            self.device.has_robust_bindings() || matches!(module.source, Source::Wgsl(_));
        self.kernels.push(Kernel {
            name: intern(&module.name),
            description: intern(&module.description),
            code,
            pipeline,
            direct: Direct { input: confined && !spirv::may_write(&words, 0), output: confined },
        });
        Ok(())
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: nobody else has the device, so its queues are nobody's, and everything that was
        // made from it here is destroyed once, when nothing runs any more. A device that was lost
        // does not run anything, whatever the wait says.
        unsafe {
            let _ = self.device.device_wait_idle();
        }
        if let Some(imports) = self.imports.take() {
            imports.clear(self);
        }
        // SAFETY: as above.
        unsafe {
            for kernel in &self.kernels {
                self.device.destroy_pipeline(kernel.pipeline, None);
            }
            self.device.destroy_pipeline_layout(self.pipeline_layout, None);
            self.device.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

/// Returns the one of `count` queues, the highest last, that work of this level gets.
fn queue_of(level: Level, levels: u8, count: usize) -> usize {
    let place = usize::from(level.0) * count / usize::from(levels.max(1));
    place.min(count - 1)
}

/// The text for as long as the program runs, as [`device::KernelInfo`] wants it: kept once, however
/// often devices are started with it.
fn intern(text: &str) -> &'static str {
    static TEXTS: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = texts.get(text) {
        return kept;
    }
    let kept: &'static str = Box::leak(text.into());
    texts.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upper_levels_get_the_queues_of_higher_priority() {
        let queues = |count| (0..6).map(|level| queue_of(Level(level), 6, count)).collect();
        let spread: [Vec<usize>; 4] = [1, 2, 4, 6].map(queues);
        assert_eq!(spread[0], [0; 6]);
        assert_eq!(spread[1], [0, 0, 0, 1, 1, 1]);
        assert_eq!(spread[2], [0, 0, 1, 2, 2, 3]);
        assert_eq!(spread[3], [0, 1, 2, 3, 4, 5]);
    }
}

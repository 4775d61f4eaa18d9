//! The logical device: its queues, and the pipelines that all units share.

use crate::kernel::{Code, Kernel};
use crate::library::{Candidate, Library};
use crate::shader::{self, BINDINGS, Limits};
use crate::{Error, Module};
use ash::vk;
use device::{FailureCode, Level};
use realtime::mutex::PiMutex;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// A started device. Dropped after all workers, which hold it.
pub(crate) struct Gpu {
    pub device: ash::Device,
    pub kernels: Vec<Kernel>,
    pub set_layout: vk::DescriptorSetLayout,
    pub pipeline_layout: vk::PipelineLayout,
    /// By priority, the highest last. A queue is for one thread at a time.
    pub queues: Vec<PiMutex<vk::Queue>>,
    pub family: u32,
    pub levels: u8,
    pub limits: vk::PhysicalDeviceLimits,
    pub memory: vk::PhysicalDeviceMemoryProperties,
    pub spin: bool,
    lost: AtomicBool,
    // Declared last: the code of the device lives in it.
    _library: Library,
}

impl Gpu {
    /// Makes the device and compiles all kernels.
    pub fn new(
        library: Library,
        candidate: &Candidate,
        levels: u8,
        spin: bool,
        modules: &[Module],
    ) -> Result<Gpu, Error> {
        let count = candidate.found.compute_queues.min(levels.max(1).into());
        let device = create_device(&library, candidate, count)?;
        let queue = |i| {
            // SAFETY: the device was made with so many queues of this family.
            PiMutex::new(unsafe { device.get_device_queue(candidate.family, i) })
        };
        let queues = (0..count).map(queue).collect();
        // SAFETY: the handle is one of the library's instance.
        let memory =
            unsafe { library.instance.get_physical_device_memory_properties(candidate.handle) };
        // From here on a failure destroys what there is: null handles are left alone.
        let mut gpu = Gpu {
            device,
            kernels: Vec::new(),
            set_layout: vk::DescriptorSetLayout::null(),
            pipeline_layout: vk::PipelineLayout::null(),
            queues,
            family: candidate.family,
            levels,
            limits: candidate.limits,
            memory,
            spin,
            lost: AtomicBool::new(false),
            _library: library,
        };
        gpu.create_layouts()?;
        let limits = Limits {
            float64: candidate.float64,
            invocations: candidate.limits.max_compute_work_group_invocations,
            size: candidate.limits.max_compute_work_group_size,
        };
        for (module, code) in Kernel::built_in() {
            if code != Code::Reduce || candidate.float64 {
                gpu.add(&module, code, limits)?;
            }
        }
        for module in modules {
            gpu.add(module, Code::User(module.groups), limits)?;
        }
        Ok(gpu)
    }

    /// The queue for work of this level.
    pub fn queue(&self, level: Level) -> &PiMutex<vk::Queue> {
        &self.queues[queue_of(level, self.levels, self.queues.len())]
    }

    /// Whether the device was lost.
    pub fn is_lost(&self) -> bool {
        // Relaxed: a worker that sees it late hears it from the driver.
        self.lost.load(Ordering::Relaxed)
    }

    /// The device is not to be used any more.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::Relaxed);
    }

    /// What a failed call means for the launch.
    pub fn failure(&self, result: vk::Result) -> FailureCode {
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
        let error = |reason: String| Error::Module { name: module.name.clone(), reason };
        if self.kernels.iter().any(|kernel| kernel.name == module.name) {
            return Err(error("there is a kernel of this name already".into()));
        }
        code.check(&self.limits).map_err(error)?;
        let words = shader::compile(module, limits).map_err(error)?;
        let entry = CString::new(module.entry.as_str())
            .map_err(|_| error("the name of its entry point contains a zero".into()))?;

        let info = vk::ShaderModuleCreateInfo::default().code(&words);
        // SAFETY: our own kernels are valid SPIR-V, as the translation makes it; a user's SPIR-V
        // is trusted as the program is, see `Module`.
        let shader = unsafe { self.device.create_shader_module(&info, None) }
            .map_err(|result| error(format!("vkCreateShaderModule: {result}")))?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(shader)
            .name(&entry);
        let info =
            vk::ComputePipelineCreateInfo::default().stage(stage).layout(self.pipeline_layout);
        let cache = vk::PipelineCache::null();
        // SAFETY: the entry point exists, and all bindings are in the layout: `compile` checked.
        let made = unsafe { self.device.create_compute_pipelines(cache, &[info], None) };
        // SAFETY: a pipeline does not need its shader module once it is made.
        unsafe { self.device.destroy_shader_module(shader, None) };
        // A pipeline that could not be made is a null handle.
        let pipelines =
            made.map_err(|(_, result)| error(format!("vkCreateComputePipelines: {result}")))?;
        self.kernels.push(Kernel {
            name: intern(&module.name),
            description: intern(&module.description),
            code,
            pipeline: pipelines[0],
        });
        Ok(())
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: nobody else has the device, so its queues are nobody's, and everything that was
        // made from it is destroyed once, in reverse order, when nothing runs any more. A device
        // that was lost does not run anything, whatever the wait says.
        unsafe {
            let _ = self.device.device_wait_idle();
            for kernel in &self.kernels {
                self.device.destroy_pipeline(kernel.pipeline, None);
            }
            self.device.destroy_pipeline_layout(self.pipeline_layout, None);
            self.device.destroy_descriptor_set_layout(self.set_layout, None);
            self.device.destroy_device(None);
        }
    }
}

fn create_device(
    library: &Library,
    candidate: &Candidate,
    count: u32,
) -> Result<ash::Device, Error> {
    // From low to high; a single queue gets 1.
    let priorities: Vec<f32> = (1..=count).map(|i| i as f32 / count as f32).collect();
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(candidate.family)
        .queue_priorities(&priorities)];
    let features = vk::PhysicalDeviceFeatures::default()
        .robust_buffer_access(true)
        .shader_float64(candidate.float64);
    let mut newer = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let mut robust =
        vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(true);
    let names = [vk::EXT_ROBUSTNESS2_NAME.as_ptr()];
    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_features(&features)
        .push_next(&mut newer);
    if candidate.robust_bindings {
        info = info.enabled_extension_names(&names).push_next(&mut robust);
    }
    // SAFETY: the description is complete and outlives the call; the device was found to have the
    // queues, the features and the extension.
    unsafe { library.instance.create_device(candidate.handle, &info, None) }
        .map_err(Error::of("vkCreateDevice"))
}

/// Which of `count` queues, the highest last, work of this level gets.
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

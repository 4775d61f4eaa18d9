//! A logical device: what it was opened with, its queues, and what is made from it.

use crate::library::{Candidate, Library};
use crate::{Error, Found, Select};
use ash::vk;
use std::ffi::CStr;
use std::ops::Deref;

/// An open device with one family of queues; gives the functions of [`ash::Device`]. Dropping it
/// waits for whatever runs on it, and destroys it.
pub struct LogicalDevice {
    device: ash::Device,
    candidate: Candidate,
    queues: u32,
    memory: vk::PhysicalDeviceMemoryProperties,
    importer: Option<Importer>,
    // Declared last: the code of the device lives in it.
    _library: Library,
}

/// Functions and alignment with which a device reaches memory of the host.
pub(crate) struct Importer {
    pub calls: ash::ext::external_memory_host::Device,
    /// The memory begins and ends at a multiple of this.
    pub alignment: u64,
}

/// Requirements for the opening of a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// Largest number of queues, at least one; there may be fewer.
    pub queues: u32,
    /// True if accesses beyond a buffer are to be caught, and beyond a binding, where the device
    /// can. This may make each access slower.
    pub robust: bool,
}

impl LogicalDevice {
    /// Opens a device. Its timeline semaphores are enabled, and double precision where it has it.
    ///
    /// # Errors
    /// There is no Vulkan, or no such device; or the driver refuses.
    pub fn open(select: &Select, wanted: Wanted) -> Result<LogicalDevice, Error> {
        let library = Library::load()?;
        let candidate = library.select(select)?;
        let queues = candidate.found.compute_queues.min(wanted.queues.max(1));
        let device = create(&library, &candidate, queues, wanted.robust)?;
        // SAFETY: the handle is one of the library's instance.
        let memory =
            unsafe { library.instance.get_physical_device_memory_properties(candidate.handle) };
        let importer = candidate.import_alignment.map(|alignment| {
            let calls = ash::ext::external_memory_host::Device::new(&library.instance, &device);
            Importer { calls, alignment }
        });
        Ok(LogicalDevice { device, candidate, queues, memory, importer, _library: library })
    }

    /// Description of the device.
    pub fn found(&self) -> &Found {
        &self.candidate.found
    }

    /// The family of all its queues, whose work is computing and copying.
    pub fn family(&self) -> u32 {
        self.candidate.family
    }

    /// All its queues, by priority, the highest last. A queue is for one thread at a time.
    pub fn queues(&self) -> Vec<vk::Queue> {
        let queue = |i| {
            // SAFETY: the device was made with so many queues of this family.
            unsafe { self.device.get_device_queue(self.candidate.family, i) }
        };
        (0..self.queues).map(queue).collect()
    }

    /// Limits of the memory that it can hold, and of the work that it can run.
    pub fn limits(&self) -> &vk::PhysicalDeviceLimits {
        &self.candidate.limits
    }

    /// Returns true if its kernels may compute with double precision.
    pub fn has_float64(&self) -> bool {
        self.candidate.float64
    }

    /// Returns true if accesses beyond a binding, and not only beyond its buffer, are caught where
    /// the device was opened for that.
    pub(crate) fn has_robust_bindings(&self) -> bool {
        self.candidate.robust_bindings
    }

    /// Returns the functions with which it reaches memory of the host, if it does.
    pub(crate) fn importer(&self) -> Option<&Importer> {
        self.importer.as_ref()
    }

    /// The kinds of memory that it reaches.
    pub(crate) fn memory(&self) -> &vk::PhysicalDeviceMemoryProperties {
        &self.memory
    }

    /// Makes a semaphore that counts, from 0. The caller destroys it.
    ///
    /// # Errors
    /// There is no memory.
    pub fn timeline(&self) -> Result<vk::Semaphore, Error> {
        let mut kind = vk::SemaphoreTypeCreateInfo::default()
            .semaphore_type(vk::SemaphoreType::TIMELINE)
            .initial_value(0);
        let info = vk::SemaphoreCreateInfo::default().push_next(&mut kind);
        // SAFETY: the description is complete and outlives the call.
        unsafe { self.device.create_semaphore(&info, None) }.map_err(Error::of("vkCreateSemaphore"))
    }

    /// Makes a pipeline of a compute shader. The caller destroys it.
    ///
    /// # Errors
    /// The driver refuses it.
    ///
    /// # Safety
    /// The words are valid SPIR-V with this entry point. The layout was made from this device, and
    /// has all that the shader binds.
    pub unsafe fn pipeline(
        &self,
        words: &[u32],
        entry: &CStr,
        layout: vk::PipelineLayout,
    ) -> Result<vk::Pipeline, Error> {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the caller vouches for the words.
        let shader = unsafe { self.device.create_shader_module(&info, None) }
            .map_err(Error::of("vkCreateShaderModule"))?;
        let stage = vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(shader)
            .name(entry);
        let infos = [vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout)];
        let cache = vk::PipelineCache::null();
        // SAFETY: the caller vouches for the entry point and the layout.
        let made = unsafe { self.device.create_compute_pipelines(cache, &infos, None) };
        // SAFETY: a pipeline does not need its shader module once it is made.
        unsafe { self.device.destroy_shader_module(shader, None) };
        // A pipeline that could not be made is a null handle.
        let refused = |(_, result)| Error::Call { call: "vkCreateComputePipelines", result };
        Ok(made.map_err(refused)?[0])
    }
}

impl Deref for LogicalDevice {
    type Target = ash::Device;

    fn deref(&self) -> &ash::Device {
        &self.device
    }
}

impl Drop for LogicalDevice {
    fn drop(&mut self) {
        // SAFETY: nobody else has the device, so its queues are nobody's, and whoever made
        // something from it has destroyed that. A device that was lost does not run anything,
        // whatever the wait says.
        unsafe {
            let _ = self.device.device_wait_idle();
            self.device.destroy_device(None);
        }
    }
}

fn create(
    library: &Library,
    candidate: &Candidate,
    count: u32,
    robust: bool,
) -> Result<ash::Device, Error> {
    // From low to high; a single queue gets 1.
    let priorities: Vec<f32> = (1..=count).map(|i| i as f32 / count as f32).collect();
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(candidate.family)
        .queue_priorities(&priorities)];
    let features = vk::PhysicalDeviceFeatures::default()
        .robust_buffer_access(robust)
        .shader_float64(candidate.float64);
    let mut newer = vk::PhysicalDeviceVulkan12Features::default().timeline_semaphore(true);
    let mut bindings =
        vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(true);
    let mut names = Vec::new();
    if robust && candidate.robust_bindings {
        names.push(vk::EXT_ROBUSTNESS2_NAME.as_ptr());
    }
    if candidate.import_alignment.is_some() {
        names.push(vk::EXT_EXTERNAL_MEMORY_HOST_NAME.as_ptr());
    }
    let mut info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_features(&features)
        .enabled_extension_names(&names)
        .push_next(&mut newer);
    if robust && candidate.robust_bindings {
        info = info.push_next(&mut bindings);
    }
    // SAFETY: the description is complete and outlives the call; the device was found to have the
    // queues, the features and the extensions.
    unsafe { library.instance.create_device(candidate.handle, &info, None) }
        .map_err(Error::of("vkCreateDevice"))
}

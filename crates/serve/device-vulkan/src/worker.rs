//! State of a unit: command buffers, staging buffers, a semaphore.

use crate::Error;
use crate::binding::{Binding, Bound, LEAST_RANGE};
use crate::gpu::Gpu;
use crate::staging::Staging;
use ash::vk;
use device::{FailureCode, Level};
use std::sync::Arc;

/// Place of the number of work groups in the control buffer, after the arguments.
const GROUPS_AT: u64 = 256;
const CONTROL_BYTES: u64 = 512;
/// Size of the four arguments.
const ARGUMENTS_BYTES: u64 = 32;
/// Staging buffers grow to a power of two, of at least as many bytes.
const LEAST_CAPACITY: u64 = 64 << 10;

const USAGE: vk::BufferUsageFlags = vk::BufferUsageFlags::STORAGE_BUFFER;

/// A unit's part of the device. One dispatch is in flight at most, and none between its methods.
pub struct Worker {
    gpu: Arc<Gpu>,
    command_pool: vk::CommandPool,
    descriptor_pool: vk::DescriptorPool,
    semaphore: vk::Semaphore,
    /// Value of the semaphore when everything submitted has ended.
    value: u64,
    /// One for each kernel.
    recorded: Vec<Recorded>,
    /// Arguments and the number of work groups.
    control: Staging,
    pub(crate) input: Staging,
    pub(crate) output: Staging,
    /// Counts replaced staging buffers.
    generation: u64,
    /// The level of a dispatch that the device may still run.
    pending: Option<Level>,
}

/// A kernel's commands, and what they were recorded with.
struct Recorded {
    commands: vk::CommandBuffer,
    set: vk::DescriptorSet,
    /// Bindings of the input and of the output.
    bindings: Option<[Binding; 2]>,
}

/// One dispatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dispatch {
    pub kernel: usize,
    pub level: Level,
    pub arguments: [u64; 4],
    pub groups: [u32; 3],
    pub input: Bound,
    pub output: Bound,
}

impl Worker {
    /// A worker with staging buffers of that size.
    pub(crate) fn new(gpu: &Arc<Gpu>, staging_bytes: u64) -> Result<Worker, Error> {
        // From here on a failure destroys what there is: null handles are left alone.
        let mut worker = Worker {
            gpu: gpu.clone(),
            command_pool: vk::CommandPool::null(),
            descriptor_pool: vk::DescriptorPool::null(),
            semaphore: vk::Semaphore::null(),
            value: 0,
            recorded: Vec::new(),
            control: Staging::NONE,
            input: Staging::NONE,
            output: Staging::NONE,
            generation: 0,
            pending: None,
        };
        worker.create_pools()?;
        worker.semaphore = gpu.device.timeline()?;
        worker.create_sets()?;
        let usage = vk::BufferUsageFlags::UNIFORM_BUFFER | vk::BufferUsageFlags::INDIRECT_BUFFER;
        worker.control = Staging::new(gpu, CONTROL_BYTES, usage).map_err(Error::Trial)?;
        let bytes =
            staging_bytes.min(u64::from(gpu.device.limits().max_storage_buffer_range) / 4 * 4);
        worker.reserve(bytes, bytes).map_err(Error::Trial)?;
        Ok(worker)
    }

    fn create_pools(&mut self) -> Result<(), Error> {
        let gpu = &*self.gpu;
        let kernels = gpu.kernels.len() as u32;
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(gpu.device.family());
        // SAFETY: the description is complete and outlives the call.
        self.command_pool = unsafe { gpu.device.create_command_pool(&info, None) }
            .map_err(Error::of("vkCreateCommandPool"))?;
        let size = |kind, count| {
            vk::DescriptorPoolSize::default().ty(kind).descriptor_count(count * kernels)
        };
        let sizes = [
            size(vk::DescriptorType::STORAGE_BUFFER, 2),
            size(vk::DescriptorType::UNIFORM_BUFFER, 1),
        ];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(kernels).pool_sizes(&sizes);
        // SAFETY: as above.
        self.descriptor_pool = unsafe { gpu.device.create_descriptor_pool(&info, None) }
            .map_err(Error::of("vkCreateDescriptorPool"))?;
        Ok(())
    }

    fn create_sets(&mut self) -> Result<(), Error> {
        let gpu = &*self.gpu;
        let layouts = vec![gpu.set_layout; gpu.kernels.len()];
        let info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(self.descriptor_pool)
            .set_layouts(&layouts);
        // SAFETY: the pool is ours alone and has room for a set of each kernel.
        let sets = unsafe { gpu.device.allocate_descriptor_sets(&info) }
            .map_err(Error::of("vkAllocateDescriptorSets"))?;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.command_pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(layouts.len() as u32);
        // SAFETY: the pool is ours alone.
        let commands = unsafe { gpu.device.allocate_command_buffers(&info) }
            .map_err(Error::of("vkAllocateCommandBuffers"))?;
        let pairs = sets.into_iter().zip(commands);
        self.recorded =
            pairs.map(|(set, commands)| Recorded { commands, set, bindings: None }).collect();
        Ok(())
    }

    /// Sees to it that the staging buffers have at least as many bytes. What is in them may be
    /// gone.
    ///
    /// # Errors
    /// [`FailureCode::Memory`] when a binding cannot be so large, or there is no memory.
    pub(crate) fn reserve(&mut self, input: u64, output: u64) -> Result<(), FailureCode> {
        let most = u64::from(self.gpu.device.limits().max_storage_buffer_range);
        for (staging, bytes) in [(&mut self.input, input), (&mut self.output, output)] {
            // Bindings are whole words.
            let exact = bytes.next_multiple_of(4).max(LEAST_CAPACITY);
            if exact > most.max(LEAST_CAPACITY) {
                return Err(FailureCode::Memory);
            }
            if exact <= staging.capacity {
                continue;
            }
            self.generation += 1;
            staging.destroy(&self.gpu);
            let ample = exact.next_power_of_two().min(most / 4 * 4).max(exact);
            *staging = Staging::new(&self.gpu, ample, USAGE)
                .or_else(|_| Staging::new(&self.gpu, exact, USAGE))?;
        }
        Ok(())
    }

    /// Runs a kernel on what it is bound to, and waits for its end.
    ///
    /// # Errors
    /// [`FailureCode::Kernel`] when the device is lost, now or before; [`FailureCode::Memory`]
    /// when it has none.
    pub(crate) fn run(&mut self, dispatch: &Dispatch) -> Result<(), FailureCode> {
        if self.gpu.is_lost() {
            return Err(FailureCode::Kernel);
        }
        // A launch without memory finds some, too.
        self.reserve(0, 0)?;
        self.bind(dispatch).map_err(|result| self.gpu.failure(result))?;
        let [a, b, c, d] = dispatch.arguments;
        let half = |shift: u32| [a, b, c, d].map(|argument| (argument >> shift) as u32);
        let (low, high) = self.control.first(ARGUMENTS_BYTES).split_at_mut(16);
        copy_words(low, &half(0));
        copy_words(high, &half(32));
        let groups = &mut self.control.first(CONTROL_BYTES)[GROUPS_AT as usize..];
        copy_words(groups, &dispatch.groups);
        self.submit(dispatch).map_err(|result| self.gpu.failure(result))?;
        self.wait()
    }

    /// Returns the bindings of a kernel.
    fn bindings(&mut self, dispatch: &Dispatch) -> [Binding; 2] {
        let most = u64::from(self.gpu.device.limits().max_storage_buffer_range);
        let input = dispatch.input.binding(&mut self.input, self.generation, most);
        let output = dispatch.output.binding(&mut self.output, self.generation, most);
        if dispatch.output == Bound::Whole {
            // `busy` writes a word that is never read; for all others the host says what it reads.
            self.output.soil(LEAST_RANGE);
        }
        [input, output]
    }

    /// Records the commands of a kernel, unless that was done with the same bindings.
    fn bind(&mut self, dispatch: &Dispatch) -> Result<(), vk::Result> {
        let bindings = self.bindings(dispatch);
        let recorded = &mut self.recorded[dispatch.kernel];
        if recorded.bindings == Some(bindings) {
            return Ok(());
        }
        recorded.bindings = None;
        let control = vk::DescriptorBufferInfo::default()
            .buffer(self.control.handle())
            .range(ARGUMENTS_BYTES);
        let infos = [[bindings[0].info()], [bindings[1].info()], [control]];
        let kinds = [
            vk::DescriptorType::STORAGE_BUFFER,
            vk::DescriptorType::STORAGE_BUFFER,
            vk::DescriptorType::UNIFORM_BUFFER,
        ];
        let writes: Vec<_> = (0..infos.len())
            .map(|i| {
                vk::WriteDescriptorSet::default()
                    .dst_set(recorded.set)
                    .dst_binding(i as u32)
                    .descriptor_type(kinds[i])
                    .buffer_info(&infos[i])
            })
            .collect();
        let gpu = &*self.gpu;
        let (commands, pipeline) = (recorded.commands, gpu.kernels[dispatch.kernel].pipeline);
        let point = vk::PipelineBindPoint::COMPUTE;
        let barrier = [vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::SHADER_WRITE)
            .dst_access_mask(vk::AccessFlags::HOST_READ)];
        // SAFETY: nothing of this worker runs, so its set and its commands may change; everything
        // that they name lives as long as they may be submitted: a new staging buffer has a new
        // generation, an import a new number. The ranges lie in the buffers, and begin where the
        // device lets them; the number of groups lies in the control buffer.
        unsafe {
            gpu.device.update_descriptor_sets(&writes, &[]);
            gpu.device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
            gpu.device.cmd_bind_pipeline(commands, point, pipeline);
            let sets = [recorded.set];
            let layout = gpu.pipeline_layout;
            gpu.device.cmd_bind_descriptor_sets(commands, point, layout, 0, &sets, &[]);
            gpu.device.cmd_dispatch_indirect(commands, self.control.handle(), GROUPS_AT);
            gpu.device.cmd_pipeline_barrier(
                commands,
                vk::PipelineStageFlags::COMPUTE_SHADER,
                vk::PipelineStageFlags::HOST,
                vk::DependencyFlags::empty(),
                &barrier,
                &[],
                &[],
            );
            gpu.device.end_command_buffer(commands)?;
        }
        recorded.bindings = Some(bindings);
        Ok(())
    }

    fn submit(&mut self, dispatch: &Dispatch) -> Result<(), vk::Result> {
        let (commands, semaphores) = ([self.recorded[dispatch.kernel].commands], [self.semaphore]);
        let values = [self.value + 1];
        let mut timeline =
            vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = [vk::SubmitInfo::default()
            .command_buffers(&commands)
            .signal_semaphores(&semaphores)
            .push_next(&mut timeline)];
        let queue = self.gpu.queue(dispatch.level).lock();
        // SAFETY: the queue is locked; commands and semaphore are ours, and nothing of this worker
        // runs. What the host wrote before is visible to what is submitted.
        unsafe { self.gpu.device.queue_submit(*queue, &info, vk::Fence::null()) }?;
        self.value += 1;
        self.pending = Some(dispatch.level);
        Ok(())
    }

    /// Waits for the end of what was submitted.
    fn wait(&mut self) -> Result<(), FailureCode> {
        let waited = if self.gpu.spin { self.spin() } else { self.sleep() };
        match waited {
            Ok(()) => self.pending = None,
            Err(result) => {
                // Without knowing its end nothing may be touched any more.
                self.gpu.lose();
                if result == vk::Result::ERROR_DEVICE_LOST {
                    self.pending = None;
                }
            }
        }
        waited.map_err(|_| FailureCode::Kernel)
    }

    fn sleep(&self) -> Result<(), vk::Result> {
        let (semaphores, values) = ([self.semaphore], [self.value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is a timeline, and ours.
        unsafe { self.gpu.device.wait_semaphores(&info, u64::MAX) }
    }

    fn spin(&self) -> Result<(), vk::Result> {
        // SAFETY: the semaphore is a timeline, and ours.
        while unsafe { self.gpu.device.get_semaphore_counter_value(self.semaphore) }? < self.value {
            std::hint::spin_loop();
        }
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let gpu = self.gpu.clone();
        if let Some(level) = self.pending {
            let queue = gpu.queue(level).lock();
            // SAFETY: the queue is locked. If this fails, too, the device is lost.
            let _ = unsafe { gpu.device.queue_wait_idle(*queue) };
        }
        // SAFETY: nothing of this worker runs, and all of it is its own; a pool takes what came
        // from it along.
        unsafe {
            gpu.device.destroy_command_pool(self.command_pool, None);
            gpu.device.destroy_descriptor_pool(self.descriptor_pool, None);
            gpu.device.destroy_semaphore(self.semaphore, None);
        }
        for staging in [&mut self.control, &mut self.input, &mut self.output] {
            staging.destroy(&gpu);
        }
    }
}

fn copy_words(bytes: &mut [u8], words: &[u32]) {
    for (place, word) in bytes.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::kernel::Code;

    fn gpu() -> Option<Arc<Gpu>> {
        let started = Gpu::new(&Config::default());
        started.map(Arc::new).inspect_err(|error| println!("SKIP: {error}")).ok()
    }

    fn empty(gpu: &Gpu) -> Dispatch {
        let kernel = gpu.kernels.iter().position(|kernel| kernel.code == Code::Empty).unwrap();
        let (input, output) = (Bound::Whole, Bound::Whole);
        Dispatch { kernel, level: Level(0), arguments: [0; 4], groups: [1; 3], input, output }
    }

    #[test]
    fn lost_device_fails_all_later_launches_of_all_workers() {
        let Some(gpu) = gpu() else { return };
        let mut workers = [Worker::new(&gpu, 0).unwrap(), Worker::new(&gpu, 0).unwrap()];
        for worker in &mut workers {
            assert_eq!(worker.run(&empty(&gpu)), Ok(()));
        }
        assert_eq!(gpu.failure(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY), FailureCode::Memory);
        assert_eq!(workers[0].run(&empty(&gpu)), Ok(()));
        assert_eq!(gpu.failure(vk::Result::ERROR_DEVICE_LOST), FailureCode::Kernel);
        for worker in &mut workers {
            assert_eq!(worker.run(&empty(&gpu)), Err(FailureCode::Kernel));
        }
    }

    #[test]
    fn commands_are_recorded_again_only_when_buffers_change() {
        let Some(gpu) = gpu() else { return };
        let mut worker = Worker::new(&gpu, 0).unwrap();
        let mut dispatch = empty(&gpu);
        let mut bindings = |dispatch: &Dispatch, bytes| {
            worker.reserve(bytes, 0).unwrap();
            worker.run(dispatch).unwrap();
            worker.recorded[dispatch.kernel].bindings
        };
        let first = bindings(&dispatch, 100);
        dispatch.arguments = [7; 4];
        dispatch.groups = [2, 3, 4];
        assert_eq!(bindings(&dispatch, LEAST_CAPACITY), first);
        assert_ne!(bindings(&dispatch, LEAST_CAPACITY + 1), first);
    }

    #[test]
    fn buffers_that_no_binding_can_have_are_refused_and_leave_what_there_is() {
        let Some(gpu) = gpu() else { return };
        let mut worker = Worker::new(&gpu, 0).unwrap();
        let most = u64::from(gpu.device.limits().max_storage_buffer_range);
        for bytes in [most + 1, 1 << 40] {
            assert_eq!(worker.reserve(0, bytes), Err(FailureCode::Memory));
            assert_eq!(worker.run(&empty(&gpu)), Ok(()));
        }
    }
}

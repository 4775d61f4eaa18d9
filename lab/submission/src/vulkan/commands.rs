//! The command buffer of a network.

use super::data::{Data, Transfer};
use super::failed;
use super::pipelines::Pipelines;
use crate::Error;
use crate::network::Shape;
use ash::vk;
use device_vulkan::raw::LogicalDevice;

type Stage = vk::PipelineStageFlags;
type Access = vk::AccessFlags;

/// Recorded commands.
pub(super) struct Commands<'a> {
    device: &'a LogicalDevice,
    pool: vk::CommandPool,
    pub buffer: vk::CommandBuffer,
}

impl<'a> Commands<'a> {
    /// Records a network: the uploads, all layers, the downloads.
    pub(super) fn new(
        device: &'a LogicalDevice,
        pipelines: &Pipelines<'_>,
        data: &Data<'_>,
        shape: Shape,
    ) -> Result<Commands<'a>, Error> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(device.family());
        // SAFETY: the description is complete and outlives the call.
        let pool = unsafe { device.create_command_pool(&info, None) }
            .map_err(failed("vkCreateCommandPool"))?;
        // From here on a failure destroys the pool.
        let mut commands = Commands { device, pool, buffer: vk::CommandBuffer::null() };
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(pool)
            .level(vk::CommandBufferLevel::PRIMARY)
            .command_buffer_count(1);
        // SAFETY: the pool is ours alone.
        commands.buffer = unsafe { device.allocate_command_buffers(&info) }
            .map_err(failed("vkAllocateCommandBuffers"))?[0];
        // Without flags: it is submitted again and again, but not twice at once.
        let info = vk::CommandBufferBeginInfo::default();
        // SAFETY: the buffer is new, and there is no other reference to it.
        unsafe { device.begin_command_buffer(commands.buffer, &info) }
            .map_err(failed("vkBeginCommandBuffer"))?;
        commands.copies(&data.uploads);
        commands.barrier(
            (Stage::TRANSFER, Access::TRANSFER_WRITE),
            (Stage::COMPUTE_SHADER, Access::SHADER_READ | Access::SHADER_WRITE),
        );
        commands.layers(pipelines, data, shape);
        commands.barrier(
            (Stage::COMPUTE_SHADER, Access::SHADER_WRITE),
            (Stage::TRANSFER, Access::TRANSFER_READ),
        );
        commands.copies(&data.downloads);
        commands
            .barrier((Stage::TRANSFER, Access::TRANSFER_WRITE), (Stage::HOST, Access::HOST_READ));
        // SAFETY: the buffer is being recorded.
        unsafe { device.end_command_buffer(commands.buffer) }
            .map_err(failed("vkEndCommandBuffer"))?;
        Ok(commands)
    }

    fn layers(&self, pipelines: &Pipelines<'_>, data: &Data<'_>, shape: Shape) {
        let (device, buffer, layout) = (self.device, self.buffer, pipelines.layout);
        let (point, compute) = (vk::PipelineBindPoint::COMPUTE, vk::ShaderStageFlags::COMPUTE);
        let (side, groups) = (shape.side() as u32, shape.k as u32);
        // SAFETY: the buffer is being recorded; the layout has a constant of this size.
        unsafe { device.cmd_push_constants(buffer, layout, compute, 0, &side.to_ne_bytes()) };
        for kernel in 0..shape.kernels() {
            if kernel > 0 {
                self.barrier(
                    (Stage::COMPUTE_SHADER, Access::SHADER_WRITE),
                    (Stage::COMPUTE_SHADER, Access::SHADER_READ | Access::SHADER_WRITE),
                );
            }
            let place = kernel % pipelines.kernels.len();
            let sets = [data.sets[place]];
            // SAFETY: the buffer is being recorded; pipelines and sets have the same layout, and
            // live until nothing runs any more. The groups cover the matrices, not more: what a
            // kernel reads and writes is inside its buffers.
            unsafe {
                device.cmd_bind_pipeline(buffer, point, pipelines.kernels[place]);
                device.cmd_bind_descriptor_sets(buffer, point, layout, 0, &sets, &[]);
                device.cmd_dispatch(buffer, groups, groups, 1);
            }
        }
    }

    fn copies(&self, copies: &[Transfer]) {
        for copy in copies {
            let regions = [copy.region()];
            // SAFETY: the buffer is being recorded; both buffers are as large as the region, and
            // live until nothing runs any more.
            unsafe { self.device.cmd_copy_buffer(self.buffer, copy.from, copy.to, &regions) };
        }
    }

    /// Records a barrier: `after` sees everything that `before` has written.
    fn barrier(&self, before: (Stage, Access), after: (Stage, Access)) {
        let memory =
            [vk::MemoryBarrier::default().src_access_mask(before.1).dst_access_mask(after.1)];
        let flags = vk::DependencyFlags::empty();
        // SAFETY: the buffer is being recorded, outside of a render pass.
        unsafe {
            self.device.cmd_pipeline_barrier(
                self.buffer,
                before.0,
                after.0,
                flags,
                &memory,
                &[],
                &[],
            );
        }
    }
}

impl Drop for Commands<'_> {
    fn drop(&mut self) {
        // SAFETY: the submitter keeps them until nothing runs any more; the pool takes the
        // buffer along.
        unsafe { self.device.destroy_command_pool(self.pool, None) };
    }
}

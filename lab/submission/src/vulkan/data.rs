//! The network's data: buffers of the device, the host's beside them, and what each kernel takes.

use super::failed;
use super::pipelines::{BINDINGS, Pipelines};
use crate::Error;
use crate::network::{FILTER, Network, Output};
use ash::vk;
use device_vulkan::raw::{Buffer, LogicalDevice, MemoryPlace};

const FLOAT: usize = size_of::<f32>();
/// Descriptor sets: one for each kernel of a layer.
const SETS: usize = 3;

/// All buffers of a network, and the descriptor sets of a layer's kernels.
pub(super) struct Data<'a> {
    device: &'a LogicalDevice,
    buffers: Vec<Buffer>,
    pool: vk::DescriptorPool,
    /// Sets in the order of a layer.
    pub sets: Vec<vk::DescriptorSet>,
    /// Copies before the first layer.
    pub uploads: Vec<Transfer>,
    /// Copies after the last layer: of the activated and of the convolved matrix.
    pub downloads: [Transfer; 2],
}

/// A copy of the whole of a buffer between the host's memory and the device's.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub from: vk::Buffer,
    pub to: vk::Buffer,
    floats: usize,
    /// The host's side.
    mapped: *mut f32,
}

impl<'a> Data<'a> {
    /// Takes the memory, and writes what is uploaded to the host's side.
    pub(super) fn new(
        device: &'a LogicalDevice,
        pipelines: &Pipelines<'_>,
        network: &Network,
    ) -> Result<Data<'a>, Error> {
        let nothing = Transfer {
            from: vk::Buffer::null(),
            to: vk::Buffer::null(),
            floats: 0,
            mapped: std::ptr::null_mut(),
        };
        // From here on a failure destroys what there is.
        let mut data = Data {
            device,
            buffers: Vec::new(),
            pool: vk::DescriptorPool::null(),
            sets: Vec::new(),
            uploads: Vec::new(),
            downloads: [nothing; 2],
        };
        let (side, area) = (network.shape.side(), network.shape.area());
        let activated = data.computed(area)?;
        let weights = data.computed(area)?;
        let product = data.computed(area)?;
        let filter = data.computed(FILTER * FILTER)?;
        let convolved = data.computed(area)?;
        let bias = data.computed(side)?;
        data.upload(&network.input, activated)?;
        data.upload(&network.weights, weights)?;
        data.upload(&network.filter, filter)?;
        data.upload(&network.bias, bias)?;
        data.downloads = [data.download(activated, area)?, data.download(convolved, area)?];
        data.describe(
            pipelines,
            [
                [activated, weights, product],
                [product, filter, convolved],
                [convolved, bias, activated],
            ],
        )?;
        Ok(data)
    }

    /// A buffer that kernels compute with.
    fn computed(&mut self, floats: usize) -> Result<vk::Buffer, Error> {
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST;
        Ok(self.buffer(floats, usage, MemoryPlace::Device)?.0)
    }

    fn upload(&mut self, from: &[f32], to: vk::Buffer) -> Result<(), Error> {
        let floats = from.len();
        let (buffer, mapped) =
            self.buffer(floats, vk::BufferUsageFlags::TRANSFER_SRC, MemoryPlace::Host)?;
        // SAFETY: so many floats are mapped, aligned as Vulkan maps memory, and not in use.
        unsafe { mapped.copy_from_nonoverlapping(from.as_ptr(), floats) };
        self.uploads.push(Transfer { from: buffer, to, floats, mapped });
        Ok(())
    }

    fn download(&mut self, from: vk::Buffer, floats: usize) -> Result<Transfer, Error> {
        let (to, mapped) =
            self.buffer(floats, vk::BufferUsageFlags::TRANSFER_DST, MemoryPlace::Host)?;
        // SAFETY: as in `upload`.
        unsafe { mapped.write_bytes(0, floats) };
        Ok(Transfer { from, to, floats, mapped })
    }

    fn buffer(
        &mut self,
        floats: usize,
        usage: vk::BufferUsageFlags,
        place: MemoryPlace,
    ) -> Result<(vk::Buffer, *mut f32), Error> {
        let buffer = Buffer::new(self.device, (floats * FLOAT) as u64, usage, place)
            .map_err(failed("taking memory"))?;
        let made = (buffer.handle(), buffer.mapped().cast());
        self.buffers.push(buffer);
        Ok(made)
    }

    /// Makes the descriptor sets of the kernels with these buffers.
    fn describe(
        &mut self,
        pipelines: &Pipelines<'_>,
        buffers: [[vk::Buffer; BINDINGS]; SETS],
    ) -> Result<(), Error> {
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count((SETS * BINDINGS) as u32)];
        let info = vk::DescriptorPoolCreateInfo::default().max_sets(SETS as u32).pool_sizes(&sizes);
        // SAFETY: the description is complete and outlives the call.
        self.pool = unsafe { self.device.create_descriptor_pool(&info, None) }
            .map_err(failed("vkCreateDescriptorPool"))?;
        let layouts = [pipelines.set_layout; SETS];
        let info = vk::DescriptorSetAllocateInfo::default()
            .descriptor_pool(self.pool)
            .set_layouts(&layouts);
        // SAFETY: the pool is ours alone and has room for these sets.
        self.sets = unsafe { self.device.allocate_descriptor_sets(&info) }
            .map_err(failed("vkAllocateDescriptorSets"))?;
        let whole =
            |buffer| vk::DescriptorBufferInfo::default().buffer(buffer).range(vk::WHOLE_SIZE);
        let infos = buffers.map(|kernel| kernel.map(whole));
        let writes = self.sets.iter().zip(&infos).map(|(set, infos)| {
            vk::WriteDescriptorSet::default()
                .dst_set(*set)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                // One binding after the other.
                .buffer_info(infos)
        });
        let writes: Vec<_> = writes.collect();
        // SAFETY: nothing uses the sets yet; the buffers live as long as they do.
        unsafe { self.device.update_descriptor_sets(&writes, &[]) };
        Ok(())
    }

    /// Output that was downloaded.
    ///
    /// # Safety
    /// The device does not write it now, and what it has written is visible to the host.
    pub(super) unsafe fn output(&self) -> Output {
        let read = |copy: &Transfer| {
            // SAFETY: so many floats are mapped and were written at least once; the caller vouches
            // for the rest.
            unsafe { std::slice::from_raw_parts(copy.mapped, copy.floats) }.to_vec()
        };
        let [activated, convolved] = &self.downloads;
        Output { activated: read(activated), convolved: read(convolved) }
    }
}

impl Transfer {
    /// Region of the whole buffer.
    pub(super) fn region(&self) -> vk::BufferCopy {
        vk::BufferCopy::default().size((self.floats * FLOAT) as u64)
    }
}

impl Drop for Data<'_> {
    fn drop(&mut self) {
        // SAFETY: the submitter of commands with them keeps them until nothing runs any more.
        unsafe {
            self.device.destroy_descriptor_pool(self.pool, None);
            for buffer in &mut self.buffers {
                buffer.destroy(self.device);
            }
        }
    }
}

//! Memory that both sides see: the host as bytes, the device as a buffer.

use crate::gpu::Gpu;
use ash::vk;
use device::FailureCode;

/// A buffer in host memory that the device reads and writes. Whoever has it sees to it that the
/// device does not use it while the bytes are borrowed.
pub(crate) struct Staging {
    pub buffer: vk::Buffer,
    memory: vk::DeviceMemory,
    /// Null without memory.
    mapped: *mut u8,
    pub capacity: u64,
    /// Bytes beyond this one are zero.
    dirty: u64,
}

impl Staging {
    /// No memory.
    pub const NONE: Staging = Staging {
        buffer: vk::Buffer::null(),
        memory: vk::DeviceMemory::null(),
        mapped: std::ptr::null_mut(),
        capacity: 0,
        dirty: 0,
    };

    /// Zeroed memory.
    ///
    /// # Errors
    /// [`FailureCode::Memory`] when there is not as much.
    pub fn new(
        gpu: &Gpu,
        capacity: u64,
        usage: vk::BufferUsageFlags,
    ) -> Result<Staging, FailureCode> {
        let mut staging = Staging { capacity, ..Staging::NONE };
        match staging.create(gpu, usage) {
            Ok(()) => {
                staging.mapped().fill(0);
                Ok(staging)
            }
            Err(result) => {
                staging.destroy(gpu);
                Err(gpu.failure(result))
            }
        }
    }

    fn create(&mut self, gpu: &Gpu, usage: vk::BufferUsageFlags) -> Result<(), vk::Result> {
        let info = vk::BufferCreateInfo::default()
            .size(self.capacity)
            .usage(usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: the descriptions are complete; the buffer gets memory of its own, of a type and
        // a size that it asks for, which is mapped once, as a whole, and is host-visible.
        unsafe {
            self.buffer = gpu.device.create_buffer(&info, None)?;
            let needs = gpu.device.get_buffer_memory_requirements(self.buffer);
            let kind = memory_type(&gpu.memory, needs.memory_type_bits)
                .filter(|kind| needs.size <= heap_bytes(&gpu.memory, *kind))
                .ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind);
            self.memory = gpu.device.allocate_memory(&info, None)?;
            gpu.device.bind_buffer_memory(self.buffer, self.memory, 0)?;
            let flags = vk::MemoryMapFlags::empty();
            let mapped = gpu.device.map_memory(self.memory, 0, vk::WHOLE_SIZE, flags)?;
            self.mapped = mapped.cast();
        }
        Ok(())
    }

    /// The first bytes, of which there are at least as many, for whatever comes there.
    pub fn first(&mut self, length: u64) -> &mut [u8] {
        self.dirty = self.dirty.max(length);
        &mut self.mapped()[..length as usize]
    }

    /// Notes that the device may write to the first bytes.
    pub fn soil(&mut self, length: u64) {
        self.dirty = self.dirty.max(length.min(self.capacity));
    }

    /// Zeroes everything from this byte on.
    pub fn clear_from(&mut self, start: u64) {
        let dirty = self.dirty;
        if start < dirty {
            self.mapped()[start as usize..dirty as usize].fill(0);
            self.dirty = start;
        }
    }

    fn mapped(&mut self) -> &mut [u8] {
        if self.mapped.is_null() {
            return &mut [];
        }
        // SAFETY: so many bytes are mapped until `destroy`; the device does not use them now (see
        // the type), and no other reference exists while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.mapped, self.capacity as usize) }
    }

    /// Frees the memory. The device must not use it any more.
    pub fn destroy(&mut self, gpu: &Gpu) {
        // SAFETY: both are ours, or null, and nobody uses them; freeing memory unmaps it.
        unsafe {
            gpu.device.destroy_buffer(self.buffer, None);
            gpu.device.free_memory(self.memory, None);
        }
        *self = Staging::NONE;
    }
}

/// Memory that the host reads fast, or at least reads.
fn memory_type(memory: &vk::PhysicalDeviceMemoryProperties, allowed: u32) -> Option<u32> {
    let needed = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    let find = |flags: vk::MemoryPropertyFlags| {
        let types = memory.memory_types_as_slice();
        let fits = |i: &usize| allowed >> i & 1 != 0 && types[*i].property_flags.contains(flags);
        (0..types.len()).find(fits).map(|i| i as u32)
    };
    find(needed | vk::MemoryPropertyFlags::HOST_CACHED).or_else(|| find(needed))
}

/// Size of the heap of a memory type, which no allocation may exceed.
fn heap_bytes(memory: &vk::PhysicalDeviceMemoryProperties, kind: u32) -> u64 {
    let heap = memory.memory_types_as_slice()[kind as usize].heap_index;
    memory.memory_heaps_as_slice()[heap as usize].size
}

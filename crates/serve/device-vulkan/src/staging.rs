//! Memory that both sides see: the host as bytes, the device as a buffer.

use crate::gpu::Gpu;
use crate::memory::{Buffer, MemoryPlace};
use ash::vk;
use device::FailureCode;

/// A buffer in host memory that the device reads and writes. Its owner sees to it that the
/// device does not use it while the bytes are borrowed.
pub(crate) struct Staging {
    buffer: Buffer,
    pub capacity: u64,
    /// Bytes beyond this one are zero.
    dirty: u64,
}

impl Staging {
    /// The absence of memory.
    pub(crate) const NONE: Staging = Staging { buffer: Buffer::NONE, capacity: 0, dirty: 0 };

    /// Zeroed memory.
    ///
    /// # Errors
    /// [`FailureCode::Memory`] when there is not as much.
    pub(crate) fn new(
        gpu: &Gpu,
        capacity: u64,
        usage: vk::BufferUsageFlags,
    ) -> Result<Staging, FailureCode> {
        let buffer = Buffer::new(&gpu.device, capacity, usage, MemoryPlace::Host);
        let buffer = buffer.map_err(|result| gpu.failure(result))?;
        let mut staging = Staging { buffer, capacity, dirty: 0 };
        staging.mapped().fill(0);
        Ok(staging)
    }

    /// The device's name for it.
    pub(crate) fn handle(&self) -> vk::Buffer {
        self.buffer.handle()
    }

    /// The first bytes, of which there are at least as many, for whatever comes there.
    pub(crate) fn first(&mut self, length: u64) -> &mut [u8] {
        self.dirty = self.dirty.max(length);
        &mut self.mapped()[..length as usize]
    }

    /// Notes that the device may write to the first bytes.
    pub(crate) fn soil(&mut self, length: u64) {
        self.dirty = self.dirty.max(length.min(self.capacity));
    }

    /// Zeroes everything from this byte on.
    pub(crate) fn clear_from(&mut self, start: u64) {
        let dirty = self.dirty;
        if start < dirty {
            self.mapped()[start as usize..dirty as usize].fill(0);
            self.dirty = start;
        }
    }

    fn mapped(&mut self) -> &mut [u8] {
        let mapped = self.buffer.mapped();
        if mapped.is_null() {
            return &mut [];
        }
        // SAFETY: so many bytes are mapped until `destroy`; the device does not use them now (see
        // the type), and no other reference exists while `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(mapped, self.capacity as usize) }
    }

    /// Frees the memory. The device must not use it any more.
    pub(crate) fn destroy(&mut self, gpu: &Gpu) {
        // SAFETY: it was made from this device, which does not use it, and nobody has borrowed it.
        unsafe { self.buffer.destroy(&gpu.device) };
        *self = Staging::NONE;
    }
}

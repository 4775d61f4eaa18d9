//! Buffers, with memory of their own or in memory that the host has already.

use crate::raw::LogicalDevice;
use ash::vk;

/// Place of a buffer's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MemoryPlace {
    /// Memory that the host writes, and reads fast if there is such memory; it need not be flushed.
    Host,
    /// Memory in which the device is fastest.
    Device,
}

/// Size of the smallest page of Linux.
const LEAST_PAGE: u64 = 4096;

/// Handle type of memory of the host that was not allocated by Vulkan.
const HOST_ALLOCATION: vk::ExternalMemoryHandleTypeFlags =
    vk::ExternalMemoryHandleTypeFlags::HOST_ALLOCATION_EXT;

/// A buffer with its memory, or none. Its owner destroys it.
pub struct Buffer {
    handle: vk::Buffer,
    memory: vk::DeviceMemory,
    /// Null without memory, or with memory of the device, or with memory that the host had before.
    mapped: *mut u8,
}

// SAFETY: these are handles and an address; the owner of the buffer uses what is behind them.
unsafe impl Send for Buffer {}

impl Buffer {
    /// The absence of a buffer.
    pub const NONE: Buffer = Buffer {
        handle: vk::Buffer::null(),
        memory: vk::DeviceMemory::null(),
        mapped: std::ptr::null_mut(),
    };

    /// A buffer of this number of bytes, at least one, whatever is in them.
    ///
    /// # Errors
    /// There is not as much memory.
    pub fn new(
        device: &LogicalDevice,
        bytes: u64,
        usage: vk::BufferUsageFlags,
        place: MemoryPlace,
    ) -> Result<Buffer, vk::Result> {
        let mut buffer = Buffer::NONE;
        match buffer.create(device, bytes, usage, place) {
            Ok(()) => Ok(buffer),
            Err(result) => {
                // SAFETY: it was made from this device, as far as it was, and never used.
                unsafe { buffer.destroy(device) };
                Err(result)
            }
        }
    }

    /// A buffer in memory that the host has already: so many bytes, at least one.
    ///
    /// # Errors
    /// [`vk::Result::ERROR_EXTENSION_NOT_PRESENT`] if the device reaches no such memory,
    /// [`vk::Result::ERROR_INVALID_EXTERNAL_HANDLE`] if not this memory; or the driver refuses.
    ///
    /// # Safety
    /// The bytes begin at a page, and are mapped for reading and writing until the buffer is
    /// destroyed, to the end of the page that has the last one.
    pub unsafe fn import(
        device: &LogicalDevice,
        base: *mut u8,
        bytes: u64,
        usage: vk::BufferUsageFlags,
    ) -> Result<Buffer, vk::Result> {
        let mut buffer = Buffer::NONE;
        // SAFETY: the caller vouches for the memory.
        match unsafe { buffer.create_in(device, base, bytes, usage) } {
            Ok(()) => Ok(buffer),
            Err(result) => {
                // SAFETY: it was made from this device, as far as it was, and never used.
                unsafe { buffer.destroy(device) };
                Err(result)
            }
        }
    }

    /// # Safety
    /// As for `import`.
    unsafe fn create_in(
        &mut self,
        device: &LogicalDevice,
        base: *mut u8,
        bytes: u64,
        usage: vk::BufferUsageFlags,
    ) -> Result<(), vk::Result> {
        let importer = device.importer().ok_or(vk::Result::ERROR_EXTENSION_NOT_PRESENT)?;
        let pages = whole_pages(base.addr() as u64, bytes, importer.alignment)
            .ok_or(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE)?;
        let mut external =
            vk::ExternalMemoryBufferCreateInfo::default().handle_types(HOST_ALLOCATION);
        let info = vk::BufferCreateInfo::default()
            .size(bytes)
            .usage(usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE)
            .push_next(&mut external);
        let mut host = vk::MemoryHostPointerPropertiesEXT::default();
        let mut import = vk::ImportMemoryHostPointerInfoEXT::default()
            .handle_type(HOST_ALLOCATION)
            .host_pointer(base.cast());
        // SAFETY: the descriptions are complete; the device has the extension, and was found to
        // take such memory for such buffers. The pages are mapped (the caller vouches for it) and
        // aligned; they are of a type that both the memory and the buffer allow, and suffice.
        unsafe {
            self.handle = device.create_buffer(&info, None)?;
            let needs = device.get_buffer_memory_requirements(self.handle);
            let properties = importer.calls.fp().get_memory_host_pointer_properties_ext;
            properties(importer.calls.device(), HOST_ALLOCATION, base.cast(), &raw mut host)
                .result()?;
            let allowed = needs.memory_type_bits & host.memory_type_bits;
            let kind = memory_type(device.memory(), allowed, MemoryPlace::Host)
                .filter(|kind| pages <= heap_bytes(device.memory(), *kind) && needs.size <= pages)
                .ok_or(vk::Result::ERROR_INVALID_EXTERNAL_HANDLE)?;
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(pages)
                .memory_type_index(kind)
                .push_next(&mut import);
            self.memory = device.allocate_memory(&info, None)?;
            device.bind_buffer_memory(self.handle, self.memory, 0)
        }
    }

    fn create(
        &mut self,
        device: &LogicalDevice,
        bytes: u64,
        usage: vk::BufferUsageFlags,
        place: MemoryPlace,
    ) -> Result<(), vk::Result> {
        let info = vk::BufferCreateInfo::default()
            .size(bytes)
            .usage(usage)
            .sharing_mode(vk::SharingMode::EXCLUSIVE);
        // SAFETY: the descriptions are complete; the buffer gets memory of its own, of a type and
        // a size that it asks for, which is mapped once, as a whole, if it is host-visible.
        unsafe {
            self.handle = device.create_buffer(&info, None)?;
            let needs = device.get_buffer_memory_requirements(self.handle);
            let kind = memory_type(device.memory(), needs.memory_type_bits, place)
                .filter(|kind| needs.size <= heap_bytes(device.memory(), *kind))
                .ok_or(vk::Result::ERROR_OUT_OF_DEVICE_MEMORY)?;
            let info = vk::MemoryAllocateInfo::default()
                .allocation_size(needs.size)
                .memory_type_index(kind);
            self.memory = device.allocate_memory(&info, None)?;
            device.bind_buffer_memory(self.handle, self.memory, 0)?;
            if place == MemoryPlace::Host {
                let flags = vk::MemoryMapFlags::empty();
                let mapped = device.map_memory(self.memory, 0, vk::WHOLE_SIZE, flags)?;
                self.mapped = mapped.cast();
            }
        }
        Ok(())
    }

    /// Its handle; null if it is none.
    pub fn handle(&self) -> vk::Buffer {
        self.handle
    }

    /// All its bytes, mapped until it is destroyed; null unless it is in the host's memory.
    pub fn mapped(&self) -> *mut u8 {
        self.mapped
    }

    /// Destroys the buffer and frees its memory; then it is none.
    ///
    /// # Safety
    /// It was made from this device, which does not use it any more; nor does the host its bytes.
    pub unsafe fn destroy(&mut self, device: &LogicalDevice) {
        // SAFETY: both are ours, or null, and not in use; freeing memory unmaps it.
        unsafe {
            device.destroy_buffer(self.handle, None);
            device.free_memory(self.memory, None);
        }
        *self = Buffer::NONE;
    }
}

/// Returns the size of the pages that these bytes lie in, if they begin and end as they have to.
fn whole_pages(base: u64, bytes: u64, alignment: u64) -> Option<u64> {
    let pages = bytes.checked_next_multiple_of(LEAST_PAGE)?;
    (base.is_multiple_of(alignment) && pages.is_multiple_of(alignment)).then_some(pages)
}

/// The best of the allowed memory types for a place.
fn memory_type(
    memory: &vk::PhysicalDeviceMemoryProperties,
    allowed: u32,
    place: MemoryPlace,
) -> Option<u32> {
    let find = |flags: vk::MemoryPropertyFlags| {
        let types = memory.memory_types_as_slice();
        let fits = |i: &usize| allowed >> i & 1 != 0 && types[*i].property_flags.contains(flags);
        (0..types.len()).find(fits).map(|i| i as u32)
    };
    let seen = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
    match place {
        MemoryPlace::Host => {
            find(seen | vk::MemoryPropertyFlags::HOST_CACHED).or_else(|| find(seen))
        }
        MemoryPlace::Device => find(vk::MemoryPropertyFlags::DEVICE_LOCAL)
            .or_else(|| find(vk::MemoryPropertyFlags::empty())),
    }
}

/// Size of the heap of a memory type, which no allocation may exceed.
fn heap_bytes(memory: &vk::PhysicalDeviceMemoryProperties, kind: u32) -> u64 {
    let heap = memory.memory_types_as_slice()[kind as usize].heap_index;
    memory.memory_heaps_as_slice()[heap as usize].size
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imported_memory_ends_with_its_last_page() {
        assert_eq!(whole_pages(0x7000, 1, 4096), Some(4096));
        assert_eq!(whole_pages(0x7000, 4097, 64), Some(8192));
        assert_eq!(whole_pages(0x7004, 4096, 4096), None);
        // It is unknown if more is mapped than the smallest page.
        assert_eq!(whole_pages(0x10_0000, 4096, 65_536), None);
        assert_eq!(whole_pages(0x10_0000, 65_000, 65_536), Some(65_536));
        assert_eq!(whole_pages(0, u64::MAX, 4096), None);
    }

    #[test]
    fn each_place_gets_the_memory_that_suits_it_best() {
        let device = vk::MemoryPropertyFlags::DEVICE_LOCAL;
        let host = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let cached = host | vk::MemoryPropertyFlags::HOST_CACHED;
        let mut memory =
            vk::PhysicalDeviceMemoryProperties { memory_type_count: 4, ..Default::default() };
        let flags = [vk::MemoryPropertyFlags::empty(), device, host, cached];
        for (kind, flags) in memory.memory_types.iter_mut().zip(flags) {
            kind.property_flags = flags;
        }
        let chosen = |allowed, place| memory_type(&memory, allowed, place);
        assert_eq!(chosen(0b1111, MemoryPlace::Host), Some(3));
        assert_eq!(chosen(0b0111, MemoryPlace::Host), Some(2));
        assert_eq!(chosen(0b0011, MemoryPlace::Host), None);
        assert_eq!(chosen(0b1111, MemoryPlace::Device), Some(1));
        assert_eq!(chosen(0b1101, MemoryPlace::Device), Some(0));
        assert_eq!(chosen(0, MemoryPlace::Device), None);
    }
}

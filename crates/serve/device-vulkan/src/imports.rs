//! Client memory that the device reaches itself.
//!
//! A mapping is imported whole, when it is first seen, and kept alive until it is forgotten: its
//! address may belong to other memory as soon as it is gone. It is forgotten when a context goes
//! and it has no other holder, never on the way of a launch: the driver may wait for the
//! device then. Memory that the driver refuses stays usable, by copies.

use crate::gpu::Gpu;
use crate::memory::Buffer;
use ash::vk;
use realtime::mutex::PiMutex;
use shm::Mapping;
use shm::memory::PeerSlice;
use std::sync::Arc;

/// The mappings that were seen; there are as many as clients.
pub(crate) struct Imports(PiMutex<Known>);

#[derive(Default)]
struct Known {
    imports: Vec<Import>,
    /// Number of all imports that there ever were.
    count: u64,
}

struct Import {
    /// Never given twice.
    number: u64,
    mapping: Arc<Mapping>,
    /// None when the driver refused.
    buffer: Buffer,
}

/// A part of a mapping, as a binding has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Piece {
    /// The number of its mapping, which no other mapping has or gets.
    pub number: u64,
    pub buffer: vk::Buffer,
    /// Place of its start in the mapping, aligned as the device wants it.
    pub offset: u64,
    pub range: u64,
}

impl Imports {
    pub(crate) fn new() -> Imports {
        Imports(PiMutex::new(Known::default()))
    }

    /// Finds some bytes of client memory, the first and the one after the last, whose mapping is
    /// imported when it is seen first. The piece may begin up to an alignment before them: so many
    /// bytes come with it. `None` if the device does not reach them.
    pub(crate) fn reach(
        &self,
        gpu: &Gpu,
        memory: &PeerSlice,
        (from, to): (u64, u64),
    ) -> Option<(Piece, u64)> {
        let (mapping, offset) = memory.mapping()?;
        let limits = gpu.device.limits();
        let start = offset as u64 + from;
        // Of words at least, which a device may leave to the kernel.
        let before = start % limits.min_storage_buffer_offset_alignment.max(4);
        let range = before + to.checked_sub(from).filter(|bytes| *bytes > 0)?;
        if range > limits.max_storage_buffer_range.into() {
            return None;
        }
        let (number, buffer) = self.import(gpu, mapping)?;
        Some((Piece { number, buffer, offset: start - before, range }, before))
    }

    fn import(&self, gpu: &Gpu, mapping: &Arc<Mapping>) -> Option<(u64, vk::Buffer)> {
        let mut known = self.0.lock();
        let Known { imports, count } = &mut *known;
        let found = imports.iter().position(|import| Arc::ptr_eq(&import.mapping, mapping));
        let at = found.unwrap_or_else(|| {
            *count += 1;
            imports.push(Import::new(gpu, *count, mapping));
            imports.len() - 1
        });
        let Import { number, buffer, .. } = &imports[at];
        Some((*number, buffer.handle())).filter(|(_, handle)| *handle != vk::Buffer::null())
    }

    /// Returns the number of mappings that the device reaches now.
    pub(crate) fn count(&self) -> usize {
        let known = self.0.lock();
        known.imports.iter().filter(|one| one.buffer.handle() != vk::Buffer::null()).count()
    }

    /// Forgets memory that has no other holder.
    pub(crate) fn sweep(&self, gpu: &Gpu) {
        let gone: Vec<Import> = {
            let mut known = self.0.lock();
            // It is unknown what a device that is lost still uses. The loss is asked for last: a
            // thread that let go of the memory after the loss has told of the loss before.
            let unused = |one: &mut Import| one.is_unused() && !gpu.is_lost();
            known.imports.extract_if(.., unused).collect()
        };
        // The driver is told without the lock: launches need not wait for it.
        for import in gone {
            import.end(gpu);
        }
    }

    /// Forgets all, when nothing runs any more.
    pub(crate) fn clear(&self, gpu: &Gpu) {
        let all = std::mem::take(&mut self.0.lock().imports);
        for import in all {
            import.end(gpu);
        }
    }
}

impl Import {
    fn new(gpu: &Gpu, number: u64, mapping: &Arc<Mapping>) -> Import {
        let (base, bytes) = (mapping.base().as_ptr(), mapping.size() as u64);
        let usage = vk::BufferUsageFlags::STORAGE_BUFFER;
        // SAFETY: a mapping consists of whole pages for reading and writing, and is kept until
        // `end` destroys the buffer.
        let made = unsafe { Buffer::import(&gpu.device, base, bytes, usage) };
        Import { number, mapping: mapping.clone(), buffer: made.unwrap_or(Buffer::NONE) }
    }

    /// Returns true if the mapping has no other holder, so that no launch uses it and none will.
    fn is_unused(&mut self) -> bool {
        // Unlike the count, this is ordered after what the others did before they let go.
        Arc::get_mut(&mut self.mapping).is_some()
    }

    fn end(mut self, gpu: &Gpu) {
        // SAFETY: it was made from this device. No launch uses the mapping, see `is_unused`, or
        // nothing runs any more; commands that were recorded with it are not submitted again.
        unsafe { self.buffer.destroy(&gpu.device) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;

    /// A device that reaches memory itself; says why if there is none.
    fn gpu() -> Option<Gpu> {
        let started = Gpu::new(&Config::default()).inspect_err(|error| println!("SKIP: {error}"));
        started.ok().filter(|gpu| {
            if gpu.device.importer().is_none() {
                println!("SKIP: {} does not import memory", gpu.device.found().name);
            }
            gpu.device.importer().is_some()
        })
    }

    #[test]
    fn pieces_begin_as_the_device_wants_it_and_are_never_too_large() {
        let Some(gpu) = gpu() else { return };
        let imports = gpu.imports.as_ref().unwrap();
        let limits = gpu.device.limits();
        let alignment = limits.min_storage_buffer_offset_alignment.max(4);
        let most = u64::from(limits.max_storage_buffer_range);
        let memory = PeerSlice::anonymous(most as usize + 4096).unwrap();
        let reach = |from, to| imports.reach(&gpu, &memory, (from, to));
        let (first, _) = reach(0, 100).unwrap();
        for from in [0, 1, alignment - 1, alignment, alignment + 4, 1000 * alignment + 1] {
            let (piece, before) = reach(from, from + 10).unwrap();
            assert_eq!((piece.number, piece.buffer), (first.number, first.buffer));
            assert!(piece.offset.is_multiple_of(alignment) && before < alignment);
            assert_eq!((piece.offset + before, piece.range), (from, before + 10));
        }
        assert_eq!(reach(0, most).map(|(piece, _)| piece.range), Some(most));
        for (from, to) in [(0, most + 1), (1, most + 1), (10, 10), (10, 9)] {
            assert_eq!(reach(from, to), None, "{from} to {to}");
        }
        assert_eq!(imports.reach(&gpu, &PeerSlice::empty(), (0, 1)), None);
        assert_eq!(imports.count(), 1);
    }

    #[test]
    fn what_a_lost_device_may_still_use_is_kept() {
        let Some(gpu) = gpu() else { return };
        let imports = gpu.imports.as_ref().unwrap();
        for lost in [false, true] {
            let memory = PeerSlice::anonymous(100).unwrap();
            assert!(imports.reach(&gpu, &memory, (0, 100)).is_some());
            imports.sweep(&gpu);
            assert_eq!(imports.count(), 1);
            drop(memory);
            if lost {
                gpu.lose();
            }
            imports.sweep(&gpu);
            assert_eq!(imports.count(), usize::from(lost));
        }
    }
}

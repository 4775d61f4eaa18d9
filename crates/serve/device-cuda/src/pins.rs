//! Host memory that the driver knows, so that the GPU can reach it.
//!
//! A mapping is registered whole, when it is first seen, and kept alive until it is forgotten: its
//! address may belong to other memory as soon as it is gone. It is forgotten when a context goes
//! and it has no other holder, never on the way of a launch: the driver may wait for the GPU
//! then. Memory that the driver refuses stays usable, by copies through the driver's own buffers.

use cudarc::driver::sys;
use shm::Mapping;
use shm::memory::PeerSlice;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// The mappings that were seen; there are as many as clients.
#[derive(Default)]
pub(crate) struct Pins(Mutex<Known>);

#[derive(Default)]
struct Known {
    pins: Vec<Pin>,
    /// Number of all pins that there ever were.
    count: u64,
}

/// A piece of client memory that was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reached {
    /// The number of its mapping, which no other mapping has or gets.
    pub number: u64,
    /// Place of its start in the mapping, in bytes.
    pub offset: usize,
    /// Address at which the GPU sees it; none if the driver did not take its mapping.
    pub device: Option<sys::CUdeviceptr>,
}

/// Memory that only the driver still holds.
pub(crate) struct Unused(Vec<Pin>);

impl Unused {
    /// Returns true if there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

struct Pin {
    /// Never given twice.
    number: u64,
    mapping: Arc<Mapping>,
    base: usize,
    /// Address at which the GPU sees it; `None` when the driver refused.
    device: Option<sys::CUdeviceptr>,
}

impl Known {
    fn take_out(&mut self, is_taken: impl Fn(&Pin) -> bool) -> Unused {
        let (taken, kept) = self.pins.drain(..).partition(is_taken);
        self.pins = kept;
        Unused(taken)
    }
}

impl Pins {
    /// Finds a piece of memory, whose mapping is registered when it is seen first; none if it has
    /// no mapping. The calling thread has the GPU's context.
    pub(crate) fn reach(&self, memory: &PeerSlice) -> Option<Reached> {
        let (mapping, offset) = memory.mapping()?;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Known { pins, count } = &mut *known;
        let found = pins.iter().position(|pin| Arc::ptr_eq(&pin.mapping, mapping));
        let at = found.unwrap_or_else(|| {
            let base = memory.as_ptr().addr() - offset;
            let device = register(base, mapping.size());
            *count += 1;
            pins.push(Pin { number: *count, mapping: mapping.clone(), base, device });
            pins.len() - 1
        });
        let (number, device) = (pins[at].number, pins[at].device);
        Some(Reached { number, offset, device: device.map(|device| device + offset as u64) })
    }

    /// Takes out memory without another holder, to be dropped by a thread that has the GPU's
    /// context and may wait: not under the lock, and no launch's.
    pub(crate) fn unused(&self) -> Unused {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.take_out(|pin| !pin.is_used())
    }

    /// Takes out a mapping that only the caller has, too; as [`Pins::unused`].
    pub(crate) fn take(&self, memory: &Arc<Mapping>) -> Unused {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_last =
            |pin: &Pin| Arc::ptr_eq(&pin.mapping, memory) && Arc::strong_count(memory) == 2;
        known.take_out(is_last)
    }

    /// Forgets all, before the context goes.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pins.clear();
    }

    /// Leaks the memory, since the GPU may still use it.
    pub(crate) fn leak(&self) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.pins.drain(..).for_each(std::mem::forget);
    }
}

impl Pin {
    fn is_used(&self) -> bool {
        Arc::strong_count(&self.mapping) > 1
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if self.device.is_some() {
            let base = std::ptr::with_exposed_provenance_mut(self.base);
            // SAFETY: it was registered here, and its mapping still lives.
            let _ = unsafe { sys::cuMemHostUnregister(base) };
        }
    }
}

fn register(base: usize, bytes: usize) -> Option<sys::CUdeviceptr> {
    const DEVICE_MAP: u32 = 2;
    let pointer = std::ptr::with_exposed_provenance_mut::<c_void>(base);
    let mut device = 0;
    // SAFETY: the range is a mapping that lives now; the driver holds its pages itself.
    unsafe {
        sys::cuMemHostRegister_v2(pointer, bytes, DEVICE_MAP).result().ok()?;
        match sys::cuMemHostGetDevicePointer_v2(&raw mut device, pointer, 0).result() {
            Ok(()) => Some(device),
            Err(_) => {
                let _ = sys::cuMemHostUnregister(pointer);
                None
            }
        }
    }
}

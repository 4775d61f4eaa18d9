//! Host memory that the driver knows, so that the GPU can reach it.
//!
//! A mapping is registered whole, when it is first seen, and kept alive until it is forgotten: its
//! address may belong to other memory as soon as it is gone. It is forgotten when a context goes
//! and nobody else has it any more, never on the way of a launch: the driver may wait for the GPU
//! then. Memory that the driver refuses stays usable, by copies through the driver's own buffers.

use cudarc::driver::sys;
use shm::Mapping;
use shm::memory::PeerSlice;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// The mappings that were seen; there are as many as clients.
#[derive(Default)]
pub struct Pins(Mutex<Vec<Pin>>);

struct Pin {
    mapping: Arc<Mapping>,
    base: usize,
    /// Where the GPU sees it; `None` when the driver refused.
    device: Option<sys::CUdeviceptr>,
}

impl Pins {
    /// Where the GPU sees a piece of memory, once its mapping is registered. The calling thread
    /// has the GPU's context.
    pub fn reach(&self, memory: &PeerSlice) -> Option<sys::CUdeviceptr> {
        let (mapping, offset) = memory.mapping()?;
        let mut pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = pins.iter().find(|pin| Arc::ptr_eq(&pin.mapping, mapping));
        let device = match known {
            Some(pin) => pin.device,
            None => {
                let base = memory.as_ptr().addr() - offset;
                let device = register(base, mapping.size());
                pins.push(Pin { mapping: mapping.clone(), base, device });
                device
            }
        };
        device.map(|device| device + offset as u64)
    }

    /// Forgets what nobody else has. The calling thread has the GPU's context.
    pub fn sweep(&self) {
        let mut pins = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone: Vec<Pin> = pins.extract_if(.., |pin| !pin.is_used()).collect();
        // The driver is told without the lock: launches need not wait for it.
        drop(pins);
        drop(gone);
    }

    /// Forgets all, before the context goes.
    pub fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
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

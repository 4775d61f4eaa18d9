//! The network's memory: what lies on the GPU, and the pinned memory of the host beside it.

use super::driver::{Stream, check, guarded};
use crate::Error;
use crate::network::{FILTER, Network, Output};
use cudarc::driver::{result, sys};
use std::ffi::c_void;

const FLOAT: usize = size_of::<f32>();
const LINE: usize = 64;

/// Memory of the GPU.
pub(super) struct DeviceMemory {
    pub pointer: sys::CUdeviceptr,
}

impl DeviceMemory {
    pub(super) fn new(bytes: usize) -> Result<DeviceMemory, Error> {
        // SAFETY: it is freed once, when this is dropped.
        let pointer = guarded("taking GPU memory", || unsafe { result::malloc_sync(bytes) })?;
        Ok(DeviceMemory { pointer })
    }

    /// Memory that is zero for whatever comes later in the stream.
    pub(super) fn zeroed(bytes: usize, stream: &Stream) -> Result<DeviceMemory, Error> {
        let memory = DeviceMemory::new(bytes)?;
        guarded("clearing GPU memory", || {
            // SAFETY: the memory was taken just now, and is so long; the stream is drained before
            // it is freed.
            unsafe { result::memset_d8_async(memory.pointer, 0, bytes, stream.0) }
        })?;
        stream.drain()?;
        Ok(memory)
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        // SAFETY: taken in `new`; all that uses it has ended.
        let _ = guarded("freeing GPU memory", || unsafe { result::free_sync(self.pointer) });
    }
}

/// Pinned memory of the host that the GPU can reach, too. It begins at a cache line, and is zero at
/// first.
pub(super) struct Pinned {
    pub start: *mut c_void,
    /// Address for the GPU.
    pub pointer: sys::CUdeviceptr,
    pub bytes: usize,
}

impl Pinned {
    pub(super) fn new(bytes: usize) -> Result<Pinned, Error> {
        let start = guarded("taking pinned memory", || {
            // SAFETY: it is freed once, when this is dropped.
            unsafe { result::malloc_host(bytes, sys::CU_MEMHOSTALLOC_DEVICEMAP) }
        })?;
        let mut pinned = Pinned { start, pointer: 0, bytes };
        if start.addr() % LINE != 0 {
            return Err(Error::failed("taking pinned memory", "it begins within a cache line"));
        }
        // SAFETY: the memory is so long, and there is no other reference to it.
        unsafe { start.cast::<u8>().write_bytes(0, bytes) };
        guarded("mapping pinned memory", || {
            // SAFETY: it was taken just now, to be mapped.
            unsafe { sys::cuMemHostGetDevicePointer_v2(&raw mut pinned.pointer, start, 0).result() }
        })?;
        Ok(pinned)
    }

    /// Numbers in it.
    fn holding(values: &[f32]) -> Result<Pinned, Error> {
        let pinned = Pinned::new(values.len() * FLOAT)?;
        // SAFETY: the memory is as long, it begins at a line, and there is no other reference to
        // it.
        unsafe {
            pinned.start.cast::<f32>().copy_from_nonoverlapping(values.as_ptr(), values.len());
        }
        Ok(pinned)
    }

    /// The numbers in it. Nothing that the GPU does writes them now.
    fn floats(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.bytes / FLOAT];
        // SAFETY: the memory is as long as the vector, begins at a line, and does not change.
        unsafe {
            self.start.cast::<f32>().copy_to_nonoverlapping(values.as_mut_ptr(), values.len());
        }
        values
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: taken in `new`; all that uses it has ended.
        let _ = guarded("freeing pinned memory", || unsafe { result::free_host(self.start) });
    }
}

/// Error number that kernels leave, and which only they write.
pub(super) struct Failure(Pinned);

impl Failure {
    pub(super) fn new() -> Result<Failure, Error> {
        Pinned::new(size_of::<i32>()).map(Failure)
    }

    /// Address for the GPU.
    pub(super) fn pointer(&self) -> sys::CUdeviceptr {
        self.0.pointer
    }

    /// An error if there was one.
    pub(super) fn check(&self, doing: &'static str) -> Result<(), Error> {
        // SAFETY: it holds a number, and begins at a line.
        match unsafe { self.0.start.cast::<i32>().read_volatile() } {
            0 => Ok(()),
            code => Err(Error::failed(doing, format!("the device runtime's error {code}"))),
        }
    }
}

/// Addresses of the matrices on the GPU; as in `kernels/network.cuh`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Buffers {
    pub activated: sys::CUdeviceptr,
    pub weights: sys::CUdeviceptr,
    pub product: sys::CUdeviceptr,
    pub filter: sys::CUdeviceptr,
    pub convolved: sys::CUdeviceptr,
    pub bias: sys::CUdeviceptr,
}

/// Host memory and its place on the GPU.
pub(super) struct Copy {
    pub host: Pinned,
    pub device: sys::CUdeviceptr,
}

/// All memory of a network.
pub(super) struct Memory {
    pub at: Buffers,
    /// The input, the weights, the filter and the bias.
    pub uploads: [Copy; 4],
    /// The activated and the convolved matrix of the last layer.
    pub downloads: [Copy; 2],
    _device: [DeviceMemory; 6],
}

impl Memory {
    pub(super) fn new(network: &Network) -> Result<Memory, Error> {
        let (side, area) = (network.shape.side(), network.shape.area());
        let take = |floats: usize| DeviceMemory::new(floats * FLOAT);
        let device = [
            take(area)?,
            take(area)?,
            take(area)?,
            take(FILTER * FILTER)?,
            take(area)?,
            take(side)?,
        ];
        let [activated, weights, product, filter, convolved, bias] =
            device.each_ref().map(|memory| memory.pointer);
        let upload = |values: &[f32], device| {
            Ok::<_, Error>(Copy { host: Pinned::holding(values)?, device })
        };
        let download = |device| Ok::<_, Error>(Copy { host: Pinned::new(area * FLOAT)?, device });
        Ok(Memory {
            at: Buffers { activated, weights, product, filter, convolved, bias },
            uploads: [
                upload(&network.input, activated)?,
                upload(&network.weights, weights)?,
                upload(&network.filter, filter)?,
                upload(&network.bias, bias)?,
            ],
            downloads: [download(activated)?, download(convolved)?],
            _device: device,
        })
    }

    /// Puts the four uploads into a stream.
    pub(super) fn upload(&self, stream: &Stream) -> Result<(), Error> {
        for Copy { host, device } in &self.uploads {
            // SAFETY: both are so long, and live until the stream is drained.
            let code =
                unsafe { sys::cuMemcpyHtoDAsync_v2(*device, host.start, host.bytes, stream.0) };
            check("uploading", code)?;
        }
        Ok(())
    }

    /// Puts the two downloads into a stream.
    pub(super) fn download(&self, stream: &Stream) -> Result<(), Error> {
        for Copy { host, device } in &self.downloads {
            // SAFETY: as above.
            let code =
                unsafe { sys::cuMemcpyDtoHAsync_v2(host.start, *device, host.bytes, stream.0) };
            check("downloading", code)?;
        }
        Ok(())
    }

    /// Output that was downloaded. The submission has ended.
    pub(super) fn output(&self) -> Output {
        let [activated, convolved] = &self.downloads;
        Output { activated: activated.host.floats(), convolved: convolved.host.floats() }
    }
}

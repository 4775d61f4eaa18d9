//! Memory on the GPU that grows.

use cudarc::driver::{DriverError, result, sys};

/// The least that is allocated.
const LEAST_BYTES: u64 = 1 << 16;

/// Memory on the GPU that grows. What it has outgrown is kept: graphs may refer to it, and the
/// driver waits for whatever runs when memory is freed. As it doubles each time, that is never
/// more than the memory itself.
#[derive(Default)]
pub(crate) struct Buffer {
    pointer: sys::CUdeviceptr,
    bytes: u64,
    outgrown: Vec<sys::CUdeviceptr>,
}

impl Buffer {
    /// Buffer of the least size.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn new() -> Result<Buffer, DriverError> {
        let mut buffer = Buffer::default();
        buffer.room(LEAST_BYTES)?;
        Ok(buffer)
    }

    /// Room for `bytes` bytes; its content is lost if it grows.
    ///
    /// # Errors
    /// The driver's error; it is as it was then.
    pub(crate) fn room(&mut self, bytes: u64) -> Result<sys::CUdeviceptr, DriverError> {
        if bytes > self.bytes {
            let bytes = bytes.checked_next_power_of_two().unwrap_or(bytes).max(LEAST_BYTES);
            // SAFETY: it is freed once, in `free`.
            let pointer = unsafe { result::malloc_sync(bytes as usize)? };
            if self.bytes > 0 {
                self.outgrown.push(self.pointer);
            }
            (self.pointer, self.bytes) = (pointer, bytes);
        }
        Ok(self.pointer)
    }

    /// Gives all of it back. Nothing uses it any more.
    pub(crate) fn free(&mut self) {
        let last = (self.bytes > 0).then_some(self.pointer);
        for pointer in self.outgrown.drain(..).chain(last) {
            // SAFETY: allocated in `room`; the caller's promise.
            let _ = unsafe { result::free_sync(pointer) };
        }
        self.bytes = 0;
    }
}

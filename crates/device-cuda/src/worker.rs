//! What a unit has on the GPU, and how it runs a slice.

use crate::builtin::Shape;
use crate::gpu::{Function, describe};
use crate::pins::Pins;
use cudarc::driver::{DriverError, result, sys};
use device::hosted::Task;
use std::ffi::c_void;

/// Streams, an event and memory of one unit. Used by its thread alone, which has the context.
pub struct Worker {
    /// By level.
    streams: Vec<sys::CUstream>,
    event: sys::CUevent,
    input: Buffer,
    output: Buffer,
    workspace: Buffer,
    spins: bool,
}

/// Memory on the GPU that grows.
#[derive(Default)]
struct Buffer {
    pointer: sys::CUdeviceptr,
    bytes: u64,
}

impl Buffer {
    /// Room for so many bytes; what was in it is lost.
    fn room(&mut self, bytes: u64) -> Result<sys::CUdeviceptr, DriverError> {
        if bytes > self.bytes {
            let bytes = bytes.next_power_of_two().max(1 << 16);
            self.free();
            // SAFETY: it is freed once, in `free`.
            self.pointer = unsafe { result::malloc_sync(bytes as usize)? };
            self.bytes = bytes;
        }
        Ok(self.pointer)
    }

    fn free(&mut self) {
        if self.bytes > 0 {
            // SAFETY: allocated in `room`; the unit's last slice has ended.
            let _ = unsafe { result::free_sync(self.pointer) };
            self.bytes = 0;
        }
    }
}

impl Worker {
    /// For the calling thread, which has the context.
    ///
    /// # Errors
    /// What the driver says.
    pub fn new(levels: u8, spins: bool) -> Result<Worker, String> {
        let made = || {
            let (least, greatest) = result::stream::get_priority_range()?;
            let stream = |level| {
                let kind = result::stream::StreamKind::NonBlocking;
                let priority = priority(level, levels, least, greatest);
                result::stream::create_with_priority(kind, priority)
            };
            let streams = (0..levels.max(1)).map(stream).collect::<Result<_, _>>()?;
            let flags = if spins { sys::CUevent_flags::CU_EVENT_DISABLE_TIMING } else { SLEEPING };
            let event = result::event::create(flags)?;
            let empty = Buffer::default;
            Ok(Worker {
                streams,
                event,
                input: empty(),
                output: empty(),
                workspace: empty(),
                spins,
            })
        };
        made().map_err(|error: DriverError| describe(&error))
    }

    /// Runs one slice of a launch and waits for its end.
    ///
    /// # Errors
    /// What the driver says.
    #[expect(clippy::too_many_arguments, reason = "what a slice is made of")]
    pub fn run(
        &mut self,
        function: Function,
        then: Option<Function>,
        shape: &Shape,
        slice: u32,
        arguments: [u64; 4],
        task: &Task<'_>,
        pins: &Pins,
    ) -> Result<(), DriverError> {
        let stream = self.streams[usize::from(task.level.0).min(self.streams.len() - 1)];
        // From now on copies are straight from it and to it, too.
        let reached = [&task.input, &task.output].map(|memory| pins.reach(memory));
        let workspace = self.workspace.room(8 * shape.workspace.max(1))?;
        // A launch of several slices has one memory for all: the client's own.
        let direct = shape.slices() > 1 && shape.output > 0;
        let (input, output) = match (direct, reached) {
            (false, _) => (self.input.room(shape.input)?, self.output.room(shape.output)?),
            (true, [input, Some(output)]) if input.is_some() || shape.input == 0 => {
                (input.unwrap_or(0), output)
            }
            (true, _) => return Err(DriverError(UNREACHABLE)),
        };
        let first = u64::from(slice) * shape.slice;
        let blocks = shape.slice.min(shape.blocks.saturating_sub(first));
        let submit = || {
            // SAFETY: the client's memory lives as long as the launch, and is long enough, which
            // was checked; no reference to it is formed. The unit's own memory is large enough,
            // and no other thread uses it. All is over before this function returns.
            unsafe {
                if !direct && shape.input > 0 {
                    let from = task.input.as_ptr().cast::<c_void>();
                    sys::cuMemcpyHtoDAsync_v2(input, from, shape.input as usize, stream)
                        .result()?;
                }
                if shape.cleared && shape.output > 0 {
                    result::memset_d8_async(output, 0, shape.output as usize, stream)?;
                }
                if blocks > 0 {
                    let grid = (blocks as u32, shape.threads);
                    // The first block's number is below 2^32, as that of all blocks is.
                    let place = (input, output, workspace, first as u32);
                    start(function, grid, place, arguments, stream)?;
                }
                if let Some(then) = then {
                    start(then, (1, 1), (input, output, workspace, 0), arguments, stream)?;
                }
                if !direct && shape.output > 0 {
                    let to = task.output.as_ptr().cast::<c_void>();
                    sys::cuMemcpyDtoHAsync_v2(to, output, shape.output as usize, stream)
                        .result()?;
                }
            }
            Ok(())
        };
        let submitted = submit();
        // Also when something was refused: what was put into the stream before it may still use
        // the client's memory.
        let ended = self.wait(stream);
        submitted.and(ended)
    }

    /// Runs `busy` for so many cycles.
    ///
    /// # Errors
    /// What the driver says.
    pub fn run_busy(&mut self, busy: Function, cycles: u64) -> Result<(), DriverError> {
        let workspace = self.workspace.room(8)?;
        let stream = self.streams[0];
        // SAFETY: the kernel writes one word of the workspace.
        unsafe { start(busy, (1, 1), (0, 0, workspace, 0), [cycles, 0, 0, 0], stream)? };
        self.wait(stream)
    }

    fn wait(&self, stream: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: both are this unit's and live.
        unsafe {
            result::event::record(self.event, stream)?;
            if !self.spins {
                return result::event::synchronize(self.event);
            }
            loop {
                match result::event::query(self.event) {
                    Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => {
                        std::hint::spin_loop();
                    }
                    result => return result,
                }
            }
        }
    }
}

/// Memory that the GPU would have to reach, but the driver did not take.
pub const UNREACHABLE: sys::CUresult = sys::CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;

/// Of an event whose waiters sleep.
const SLEEPING: sys::CUevent_flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;

/// The hardware's priority for a level: the levels are spread over what there is.
fn priority(level: u8, levels: u8, least: i32, greatest: i32) -> i32 {
    let steps = i32::from(levels.max(2)) - 1;
    least - (least - greatest) * i32::from(level) / steps
}

/// Puts a kernel into a stream.
///
/// # Safety
/// The kernel has the parameters of a service; memory is large enough for what it does.
unsafe fn start(
    function: Function,
    (blocks, threads): (u32, u32),
    (mut input, mut output, mut workspace, mut first): (u64, u64, u64, u32),
    mut arguments: [u64; 4],
    stream: sys::CUstream,
) -> Result<(), DriverError> {
    let [a, b, c, d] = &mut arguments;
    let mut parameters: [*mut c_void; 8] = [
        (&raw mut input).cast(),
        (&raw mut output).cast(),
        (&raw mut workspace).cast(),
        std::ptr::from_mut(a).cast(),
        std::ptr::from_mut(b).cast(),
        std::ptr::from_mut(c).cast(),
        std::ptr::from_mut(d).cast(),
        (&raw mut first).cast(),
    ];
    let (grid, block) = ((blocks, 1, 1), (threads, 1, 1));
    // SAFETY: the caller's promise; the driver copies the parameters now.
    unsafe { result::launch_kernel(function.0, grid, block, 0, stream, &mut parameters) }
}

impl Drop for Worker {
    fn drop(&mut self) {
        for buffer in [&mut self.input, &mut self.output, &mut self.workspace] {
            buffer.free();
        }
        // SAFETY: this unit's own, and nothing is in them: each slice was waited for.
        unsafe {
            let _ = result::event::destroy(self.event);
            for stream in self.streams.drain(..) {
                let _ = result::stream::destroy(stream);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_spread_over_the_priorities() {
        let all = |levels| (0..levels).map(|l| priority(l, levels, 0, -5)).collect::<Vec<_>>();
        assert_eq!(all(6), [0, -1, -2, -3, -4, -5]);
        assert_eq!(all(3), [0, -2, -5]);
        assert_eq!(all(1), [0]);
        assert_eq!(priority(3, 4, 0, 0), 0);
    }
}

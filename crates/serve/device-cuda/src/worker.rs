//! State of a unit on the GPU, and the run of a slice.

use crate::buffer::Buffer;
use crate::builtin::Shape;
use crate::context::Context;
use crate::driver::describe;
use crate::library::Opened;
use crate::nap::Naps;
use crate::pins::Reached;
use crate::replay::{Advice, Graph, Replays};
use crate::residence::Residence;
use crate::slice::{Part, Program, Slice, SliceAddresses, key, start};
use cudarc::driver::{DriverError, result, sys};
use realtime::clock::monotonic_ns;
use std::ffi::c_void;

/// Memory that the GPU would have to reach, but the driver did not take.
pub(crate) const UNREACHABLE: sys::CUresult = sys::CUresult::CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
/// A library did not take the request.
pub(crate) const REFUSED: sys::CUresult = sys::CUresult::CUDA_ERROR_EXTERNAL_DEVICE;

/// Flags of an event whose waiters sleep.
const SLEEPING: sys::CUevent_flags = sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC;

/// Streams, an event and memory of one unit. Used by its thread, which has the context, and dropped
/// when no unit runs anything any more.
pub(crate) struct Worker {
    /// Streams by level, from the lowest that this unit runs.
    streams: Vec<sys::CUstream>,
    least: u8,
    event: sys::CUevent,
    input: Buffer,
    output: Buffer,
    workspace: Buffer,
    spins: bool,
    naps: Naps,
    replays: Replays,
    /// A service for each that is a library, by its number among the users'.
    libraries: Vec<Option<Opened>>,
}

// SAFETY: handles of the driver, which any thread may use that has made the context its own; and
// services, which are used by one thread at a time.
unsafe impl Send for Worker {}

impl Worker {
    /// Worker of the calling thread, whose current context this is.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn new(
        (least, levels): (u8, u8),
        spins: bool,
        libraries: Vec<Option<Opened>>,
    ) -> Result<Worker, String> {
        let made = || {
            let range = result::stream::get_priority_range()?;
            let stream = |level| {
                let kind = result::stream::StreamKind::NonBlocking;
                let priority = priority(level, levels, range.0, range.1);
                result::stream::create_with_priority(kind, priority)
            };
            let streams =
                (least..levels.max(least + 1)).map(stream).collect::<Result<Vec<_>, _>>()?;
            let flags = if spins { sys::CUevent_flags::CU_EVENT_DISABLE_TIMING } else { SLEEPING };
            Ok((streams, result::event::create(flags)?))
        };
        let (streams, event) = made().map_err(|error: DriverError| describe(&error))?;
        // Memory that most requests find large enough: allocating it takes as long as a small one
        // runs, and longer beside others.
        let buffer = || Buffer::new().map_err(|error| describe(&error));
        Ok(Worker {
            streams,
            least,
            event,
            input: buffer()?,
            output: buffer()?,
            workspace: buffer()?,
            spins,
            naps: Naps::new(),
            replays: Replays::default(),
            libraries,
        })
    }

    /// Runs a part of a launch and waits for its end.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn run(&mut self, context: &Context, slice: &Slice<'_>) -> Result<(), DriverError> {
        let task = slice.task;
        let rank = usize::from(task.level.0.saturating_sub(self.least));
        let stream = self.streams[rank.min(self.streams.len() - 1)];
        // From now on copies are straight from it and to it, too.
        let reached = [&task.input, &task.output].map(|memory| context.pins.reach(memory));
        let submitted = match slice.residence {
            Some(residence) => self.submit_resident(slice, residence, stream),
            None => {
                let place = self.place(&slice.shape, reached);
                place.and_then(|place| self.submit(slice, place, reached, stream))
            }
        };
        // Also when something was refused: what was put into the stream before it may still use
        // the client's memory. That it does so for ever is worse news than the refusal.
        let ended = self.wait(stream).and(submitted);
        if let (Ok(()), Some(residence), Part::Slices(_, count)) =
            (&ended, slice.residence, slice.part)
        {
            residence.leave(count.into());
        }
        ended
    }

    /// Returns the addresses that a slice reads and writes.
    fn place(
        &mut self,
        shape: &Shape,
        reached: [Option<Reached>; 2],
    ) -> Result<SliceAddresses, DriverError> {
        let workspace = self.workspace.room(8 * shape.workspace.max(1))?;
        let direct = shape.in_place;
        if !direct {
            let (input, output) = (self.input.room(shape.input)?, self.output.room(shape.output)?);
            return Ok(SliceAddresses { input, output, workspace, direct });
        }
        let device = |memory: Option<Reached>, bytes| match memory.and_then(|memory| memory.device)
        {
            Some(device) => Ok(device),
            None if bytes == 0 => Ok(0),
            None => Err(DriverError(UNREACHABLE)),
        };
        let [input, output] = reached;
        let (input, output) = (device(input, shape.input)?, device(output, shape.output)?);
        Ok(SliceAddresses { input, output, workspace, direct })
    }

    /// Puts a part of a launch that has its own memory into a stream.
    fn submit_resident(
        &mut self,
        slice: &Slice<'_>,
        residence: &Residence,
        stream: sys::CUstream,
    ) -> Result<(), DriverError> {
        let Part::Slices(_, count) = slice.part else {
            let place = residence.conclude(&slice.shape)?;
            // SAFETY: as in `submit_parts`, with the launch's memory; its slices have ended.
            return unsafe { conclude(slice, place, stream) };
        };
        // SAFETY: as in `submit_parts`, with the launch's memory: whatever else uses it is put into
        // streams behind this.
        let fill = |place| unsafe { fill(slice, place, stream) };
        let (place, last) = residence.enter(stream, &slice.shape, count.into(), fill)?;
        // SAFETY: as there. The last one was told that all others have ended.
        unsafe {
            self.compute(slice, place, stream)?;
            if last { conclude(slice, place, stream) } else { Ok(()) }
        }
    }

    /// Puts a slice into a stream: as one graph if it was there before.
    fn submit(
        &mut self,
        slice: &Slice<'_>,
        place: SliceAddresses,
        reached: [Option<Reached>; 2],
        stream: sys::CUstream,
    ) -> Result<(), DriverError> {
        let key = key(slice, reached);
        let advice = key.as_ref().map_or(Advice::Submit, |key| self.replays.advise(key));
        let graph = match (advice, key) {
            (Advice::Launch(graph), _) => graph,
            (Advice::Capture, Some(key)) => {
                // SAFETY: the stream is this unit's. The unit's memory that the graph uses lives as
                // long as the unit, outgrown or not; the client's until its number is forgotten,
                // after which no request asks for the graph.
                let captured =
                    unsafe { Graph::capture(stream, || self.submit_parts(slice, place, stream)) };
                match captured {
                    Ok(graph) => {
                        let handle = graph.handle();
                        self.replays.keep(key, graph);
                        handle
                    }
                    Err(_) => {
                        let submitted = self.submit_parts(slice, place, stream);
                        // Else it was not the capture that it was refused for.
                        if submitted.is_ok() {
                            self.replays.refuse(key.kernel);
                        }
                        return submitted;
                    }
                }
            }
            (Advice::Submit | Advice::Capture, _) => {
                return self.submit_parts(slice, place, stream);
            }
        };
        // SAFETY: the graph is kept, and its memory lives, as said where it was captured.
        unsafe { sys::cuGraphLaunch(graph, stream).result() }
    }

    /// Puts copies and kernels into a stream, one by one.
    fn submit_parts(
        &mut self,
        slice: &Slice<'_>,
        place: SliceAddresses,
        stream: sys::CUstream,
    ) -> Result<(), DriverError> {
        // SAFETY: the client's memory lives as long as the launch, and is long enough, which was
        // checked; no reference to it is formed. The unit's own memory is large enough, and no
        // other thread uses it. All is over before the slice ends.
        unsafe {
            fill(slice, place, stream)?;
            self.compute(slice, place, stream)?;
            conclude(slice, place, stream)
        }
    }

    /// Puts the kernel of a slice into a stream.
    ///
    /// # Safety
    /// As [`start`].
    unsafe fn compute(
        &mut self,
        slice: &Slice<'_>,
        place: SliceAddresses,
        stream: sys::CUstream,
    ) -> Result<(), DriverError> {
        let Slice { shape, program, part, arguments, .. } = slice;
        let SliceAddresses { input, output, workspace, .. } = place;
        let Part::Slices(first, count) = part else { return Ok(()) };
        let first = u64::from(*first) * shape.slice;
        let blocks = shape.slice.saturating_mul(u64::from(*count));
        let blocks = blocks.min(shape.blocks.saturating_sub(first));
        match program {
            Program::Kernel(kernel, _) if blocks > 0 => {
                let grid = (blocks as u32, shape.threads);
                // The first block's number is below 2^32, as that of all blocks is.
                let place = (input, output, workspace, first as u32);
                // SAFETY: the caller's promise.
                unsafe { start(*kernel, grid, place, *arguments, stream) }
            }
            Program::Kernel(..) => Ok(()),
            Program::Library(number) => {
                let opened = self.libraries.get_mut(*number).and_then(Option::as_mut);
                // SAFETY: the caller's promise.
                let done = opened.is_some_and(|service| unsafe {
                    service.enqueue(stream, input, output, arguments)
                });
                if done { Ok(()) } else { Err(DriverError(REFUSED)) }
            }
        }
    }

    /// Waits until the GPU has done what is in a stream.
    fn wait(&mut self, stream: sys::CUstream) -> Result<(), DriverError> {
        // SAFETY: both are this unit's and live.
        unsafe {
            result::event::record(self.event, stream)?;
            if !self.spins {
                return result::event::synchronize(self.event);
            }
            spin(self.event, &mut self.naps)
        }
    }

    /// The context is broken: nothing of it can be destroyed any more.
    pub(crate) fn forget(&mut self) {
        self.streams.clear();
        self.event = std::ptr::null_mut();
        for buffer in [&mut self.input, &mut self.output, &mut self.workspace] {
            *buffer = Buffer::default();
        }
        self.replays.forget();
        // Closing a library would use the context.
        self.libraries.drain(..).for_each(std::mem::forget);
    }
}

/// Puts into a stream what comes before the kernel: the input, and zeros.
///
/// # Safety
/// The client's memory and the place are as long as the shape says, and live until all is over.
unsafe fn fill(
    slice: &Slice<'_>,
    place: SliceAddresses,
    stream: sys::CUstream,
) -> Result<(), DriverError> {
    let Slice { task, shape, .. } = slice;
    // SAFETY: the caller's promise.
    unsafe {
        if !place.direct && shape.input > 0 {
            let from = task.input.as_ptr().cast::<c_void>();
            sys::cuMemcpyHtoDAsync_v2(place.input, from, shape.input as usize, stream).result()?;
        }
        if shape.cleared && shape.output > 0 {
            result::memset_d8_async(place.output, 0, shape.output as usize, stream)?;
        }
        if shape.cleared && shape.workspace > 0 {
            result::memset_d8_async(place.workspace, 0, 8 * shape.workspace as usize, stream)?;
        }
    }
    Ok(())
}

/// Puts into a stream what comes after the kernel: the one that follows, and the output.
///
/// # Safety
/// As [`fill`] and [`start`].
unsafe fn conclude(
    slice: &Slice<'_>,
    place: SliceAddresses,
    stream: sys::CUstream,
) -> Result<(), DriverError> {
    let Slice { task, shape, program, arguments, .. } = slice;
    let SliceAddresses { input, output, workspace, direct } = place;
    // SAFETY: the caller's promise.
    unsafe {
        if let Program::Kernel(_, Some(then)) = program {
            start(*then, (1, 1), (input, output, workspace, 0), *arguments, stream)?;
        }
        if !direct && shape.output > 0 {
            let to = task.output.as_ptr().cast::<c_void>();
            sys::cuMemcpyDtoHAsync_v2(to, output, shape.output as usize, stream).result()?;
        }
    }
    Ok(())
}

/// Looks for an event without sleeping.
///
/// # Safety
/// The event lives.
unsafe fn spin(event: sys::CUevent, naps: &mut Naps) -> Result<(), DriverError> {
    naps.begin(monotonic_ns());
    loop {
        // SAFETY: the caller's promise.
        match unsafe { result::event::query(event) } {
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NOT_READY => naps.rest(),
            result => {
                naps.end(monotonic_ns());
                return result;
            }
        }
        std::hint::spin_loop();
    }
}

/// Returns true if the GPU has at least this number of priorities.
///
/// # Errors
/// The driver's error.
pub(crate) fn has_priorities(levels: u8) -> Result<bool, DriverError> {
    let (least, greatest) = result::stream::get_priority_range()?;
    Ok(i32::from(levels) <= least - greatest + 1)
}

/// The hardware's priority for a level: the levels are spread over what there is.
fn priority(level: u8, levels: u8, least: i32, greatest: i32) -> i32 {
    let steps = i32::from(levels.max(2)) - 1;
    least - (least - greatest) * i32::from(level) / steps
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.replays = Replays::default();
        self.libraries.clear();
        for buffer in [&mut self.input, &mut self.output, &mut self.workspace] {
            buffer.free();
        }
        // SAFETY: this unit's own, and nothing is in them: each slice was waited for.
        unsafe {
            if !self.event.is_null() {
                let _ = result::event::destroy(self.event);
            }
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

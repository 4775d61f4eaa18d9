//! A slice of a launch: what runs, where, and what makes it the same as another one.

use crate::builtin::Shape;
use crate::context::Entry;
use crate::pins::Reached;
use crate::replay::Key;
use crate::residence::Residence;
use cudarc::driver::{DriverError, result, sys};
use device::hosted::Task;
use std::ffi::c_void;

/// Program that a slice runs.
#[derive(Clone, Copy)]
pub(crate) enum Program {
    /// A kernel, and perhaps one thread block of another one after it.
    Kernel(Entry, Option<Entry>),
    /// A library, by its number.
    Library(usize),
}

/// A part of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// Slices that follow each other, as one grid: the first one's number, and how many.
    Slices(u32, u32),
    /// Work that follows the slices, once all have ended.
    Conclusion,
}

/// Slices of a launch, or what follows them.
pub(crate) struct Slice<'a> {
    /// The request that it is a slice of.
    pub task: &'a Task<'a>,
    /// Program that runs.
    pub program: Program,
    /// Memory and blocks of the launch.
    pub shape: Shape,
    /// Part of the launch that runs.
    pub part: Part,
    /// The memory of a launch that is resident.
    pub residence: Option<&'a Residence>,
    /// Arguments of the kernel.
    pub arguments: [u64; 4],
}

/// Addresses on the GPU that a slice reads and writes.
#[derive(Clone, Copy)]
pub(crate) struct SliceAddresses {
    /// Address of the input.
    pub input: sys::CUdeviceptr,
    /// Address of the output.
    pub output: sys::CUdeviceptr,
    /// Eight bytes or more.
    pub workspace: sys::CUdeviceptr,
    /// The client's memory itself; else it is copied.
    pub direct: bool,
}

/// Returns the key that tells a request from others; none for one that is one launch without a
/// graph, or cannot be a graph: it has several slices or memory that the driver did not take.
pub(crate) fn key(slice: &Slice<'_>, reached: [Option<Reached>; 2]) -> Option<Key> {
    let Slice { task, shape, arguments, .. } = slice;
    let part = |bytes: u64, memory: Option<Reached>| match (bytes, memory) {
        (0, _) => Some((0, 0, 0)),
        (_, Some(Reached { number, offset, device: Some(_) })) => {
            Some((number, offset, bytes as usize))
        }
        _ => None,
    };
    let [input, output] = reached;
    let is_one_launch =
        matches!(slice.program, Program::Kernel(_, None)) && shape.input == 0 && shape.output == 0;
    (shape.slices() == 1 && !is_one_launch).then_some(())?;
    Some(Key {
        kernel: task.kernel.0,
        level: task.level.0,
        arguments: *arguments,
        input: part(shape.input, input)?,
        output: part(shape.output, output)?,
    })
}

/// Puts a kernel into a stream.
///
/// # Errors
/// The driver's error.
///
/// # Safety
/// The kernel has the parameters of a service; memory is large enough for what it does.
pub(crate) unsafe fn start(
    kernel: Entry,
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
    unsafe { result::launch_kernel(kernel.0, grid, block, 0, stream, &mut parameters) }
}

//! A kernel that never ends, and takes requests out of a ring in pinned memory.
//!
//! While it runs, nothing else of the context must wait for all of the GPU's work: memory is taken
//! before it starts, and freed when it has ended.

use super::driver::{Gpu, Module, Stream, guarded};
use super::memory::{DeviceMemory, Memory, Pinned};
use crate::method::Steps;
use crate::network::{BLOCK, Network, Output, Shape};
use crate::{Error, Run};
use cudarc::driver::sys;
use realtime::clock::monotonic_ns;
use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PTX: &str = include_str!("../../kernels/persistent.ptx");
const ENTRIES: usize = 64;
/// Size of the memory by which the blocks synchronise; the kernel alone knows its content.
const SHARED_BYTES: usize = 128;
/// Longest time in which the kernel must begin, and longest time in which it must end.
const PATIENCE_NS: u64 = 5_000_000_000;
/// Between two looks at the ring of a thread that sleeps.
const NAP: Duration = Duration::from_micros(20);
/// Looks at the ring between two questions to the driver whether the kernel still runs.
const LOOKS: u64 = 1 << 14;

/// Request as in `kernels/persistent.cu`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Request {
    uploads: [sys::CUdeviceptr; 4],
    downloads: [sys::CUdeviceptr; 2],
    k: u32,
    /// None ends the kernel.
    layers: u32,
    unused: u64,
}

/// Ring as in `kernels/persistent.cu`.
#[repr(C)]
struct Ring {
    /// Number of requests that were put there. The host's.
    head: AtomicU64,
    unused: [u64; 7],
    /// Number of requests that the kernel has done, plus one as soon as it runs. The kernel's.
    done: AtomicU64,
    unused_too: [u64; 7],
    entries: [UnsafeCell<Request>; ENTRIES],
}

const _: () = assert!(size_of::<Request>() == 64 && size_of::<Ring>() == 128 + ENTRIES * 64);

pub(super) fn build<'a>(
    gpu: &'a Gpu,
    network: &Network,
    steps: &mut Steps,
) -> Result<Box<dyn Run + 'a>, Error> {
    let module = steps.step("compile", || Module::from_ptx(PTX))?;
    let function = module.function("ks_persistent")?;
    let blocks = blocks(gpu, function, network.shape)?;
    let (stream, memory, ring, shared) = steps.step("allocate", || {
        let stream = Stream::new()?;
        let shared = DeviceMemory::zeroed(SHARED_BYTES, &stream)?;
        let (memory, ring) = (Memory::new(network)?, Pinned::new(size_of::<Ring>())?);
        Ok::<_, Error>((stream, memory, ring, shared))
    })?;
    let kernel = Kernel { stream, ring, memory, shared, _module: module };
    steps.step("start", || Persistent::start(gpu, kernel, function, blocks, network.shape))
}

/// Number of blocks: that of tiles, but no more than can run at once.
fn blocks(gpu: &Gpu, function: sys::CUfunction, shape: Shape) -> Result<u32, Error> {
    let mut each = 0;
    guarded("asking how many blocks run at once", || {
        let threads = (BLOCK * BLOCK) as i32;
        // SAFETY: the kernel is loaded; it writes the number.
        unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&raw mut each, function, threads, 0)
                .result()
        }
    })?;
    let most = gpu.processors * each.max(0).cast_unsigned();
    if most == 0 {
        return Err(Error::failed("starting the kernel", "not even one block of it fits"));
    }
    Ok(most.min((shape.k * shape.k) as u32))
}

/// Resources that the kernel uses.
struct Kernel {
    // Dropped first, which waits for its end.
    stream: Stream,
    ring: Pinned,
    memory: Memory,
    shared: DeviceMemory,
    _module: Module,
}

impl Kernel {
    fn ring(&self) -> &Ring {
        // SAFETY: the memory is as long, begins at a line, and lives as long as this; the kernel
        // changes nothing but `done`.
        unsafe { &*self.ring.start.cast::<Ring>() }
    }

    fn launch(&mut self, function: sys::CUfunction, blocks: u32) -> Result<(), Error> {
        let mut at = self.memory.at;
        let (mut ring, mut shared) = (self.ring.pointer, self.shared.pointer);
        let mut parameters: [*mut c_void; 3] =
            [(&raw mut at).cast(), (&raw mut ring).cast(), (&raw mut shared).cast()];
        let side = BLOCK as u32;
        guarded("starting the kernel", || {
            // SAFETY: what the kernel takes, which lives until it has ended; so many blocks run at
            // once.
            unsafe {
                sys::cuLaunchCooperativeKernel(
                    function,
                    blocks,
                    1,
                    1,
                    side,
                    side,
                    1,
                    0,
                    self.stream.0,
                    parameters.as_mut_ptr(),
                )
                .result()
            }
        })
    }
}

struct Persistent<'a> {
    gpu: &'a Gpu,
    /// Taken when the kernel has ended; left if it does not.
    kernel: ManuallyDrop<Kernel>,
    request: Request,
    /// Requests put into the ring.
    head: u64,
    /// Number of submissions that are known to be done.
    done: u64,
    /// Number of looks at the ring.
    looks: u64,
}

impl<'a> Persistent<'a> {
    /// Starts the kernel, and waits until it looks for requests.
    fn start(
        gpu: &'a Gpu,
        mut kernel: Kernel,
        function: sys::CUfunction,
        blocks: u32,
        shape: Shape,
    ) -> Result<Box<dyn Run + 'a>, Error> {
        kernel.launch(function, blocks)?;
        let request = Request {
            uploads: kernel.memory.uploads.each_ref().map(|copy| copy.host.pointer),
            downloads: kernel.memory.downloads.each_ref().map(|copy| copy.host.pointer),
            k: shape.k as u32,
            layers: shape.l as u32,
            unused: 0,
        };
        let kernel = ManuallyDrop::new(kernel);
        let mut started = Persistent { gpu, kernel, request, head: 0, done: 0, looks: 0 };
        let begin = monotonic_ns();
        while !started.is_finished()? {
            if monotonic_ns() - begin > PATIENCE_NS {
                return Err(Error::failed("starting the kernel", "it does not begin"));
            }
            std::hint::spin_loop();
        }
        Ok(Box::new(started))
    }

    fn put(&mut self, request: Request) -> Result<(), Error> {
        if self.head - self.done >= ENTRIES as u64 {
            return Err(Error::failed("submitting to the kernel", "the ring is full"));
        }
        let ring = self.kernel.ring();
        let entry = &ring.entries[self.head as usize % ENTRIES];
        // SAFETY: the kernel has done with this entry, and does not read it before the head says
        // that it may.
        unsafe { entry.get().write(request) };
        self.head += 1;
        ring.head.store(self.head, Ordering::Release);
        Ok(())
    }

    /// An error if the kernel has ended, which it must not.
    fn still_runs(&self) -> Result<(), Error> {
        match self.kernel.stream.has_ended()? {
            false => Ok(()),
            true => Err(Error::failed("running on the GPU", "the kernel has ended")),
        }
    }

    /// Ends the kernel; false if it does not end.
    fn stop(&mut self) -> bool {
        let stop = Request { layers: 0, ..self.request };
        // A full ring is one of a kernel that does nothing.
        if self.put(stop).is_err() {
            return false;
        }
        let begin = monotonic_ns();
        while let Ok(false) = self.kernel.stream.has_ended() {
            if monotonic_ns() - begin > PATIENCE_NS {
                return false;
            }
            std::thread::sleep(NAP);
        }
        // It has ended, by itself or by an error.
        true
    }
}

impl Run for Persistent<'_> {
    fn submit(&mut self) -> Result<(), Error> {
        self.put(self.request)
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        let done = self.kernel.ring().done.load(Ordering::Acquire);
        self.looks += 1;
        if self.looks.is_multiple_of(LOOKS) {
            self.still_runs()?;
        }
        // It has not even begun.
        let Some(done) = done.checked_sub(1) else { return Ok(false) };
        self.done = done;
        Ok(done == self.head)
    }

    fn wait(&mut self) -> Result<(), Error> {
        while !self.is_finished()? {
            std::thread::sleep(NAP);
        }
        Ok(())
    }

    fn output(&mut self) -> Result<Output, Error> {
        if self.head == 0 || !self.is_finished()? {
            return Err(Error::failed("reading the output", "no submission has ended"));
        }
        Ok(self.kernel.memory.output())
    }
}

impl Drop for Persistent<'_> {
    fn drop(&mut self) {
        // The resources that the fields give back are of this context.
        let _ = self.gpu.enter();
        if self.stop() {
            // SAFETY: it is used no more.
            unsafe { ManuallyDrop::drop(&mut self.kernel) };
        } else {
            self.gpu.keep_context();
        }
    }
}

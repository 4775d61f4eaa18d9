//! The contract between the accelerator server and a device.
//!
//! A device runs *launches* and *copies* that are put into *streams*. A stream belongs to a
//! *context* (one client process in the eyes of a driver) and has a *level*. The contract in
//! words:
//!
//! - The operations of a stream run one after the other, in the order of their submission; the
//!   next one starts only when the event of the one before was signalled and its observer has
//!   returned. Operations of different streams may overlap.
//! - A launch is a grid of blocks. With [`Preemption::BlockBoundary`] the device decides at each
//!   block boundary anew what runs: the highest level that has work, and inside a level the work
//!   that was submitted first. A device with [`Properties::time_slices`] ignores levels and
//!   shares itself among the contexts, slice by slice.
//! - Nothing that the caller passes is trusted: a launch is checked before it is queued.
//! - Submitting never waits for work. Every accepted operation completes its event exactly once,
//!   also when it is cancelled or its stream, its context or the device goes away.
//!
//! The server calls this trait; the crate's conformance suite checks an implementation of it.

use crate::{Error, Event};
use shm::Mapping;
use shm::memory::PeerSlice;
use std::sync::Arc;

/// A priority level of a device: larger is more important, 0 is the lowest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Level(pub u8);

/// A kernel that a device offers; found by name with [`Device::kernel`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct KernelId(pub u32);

/// A stream of a device. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct StreamId(pub u64);

/// A context of a device: one client process in the eyes of a time-slicing driver. Never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct ContextId(pub u64);

/// Point at which more important work can take the device from running work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Preemption {
    /// Preemption at the end of a running thread block.
    BlockBoundary,
    /// No preemption before the running operation ends.
    None,
}

/// Properties and abilities of a device. They do not change while the device lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Properties {
    /// A name for people.
    pub name: String,
    /// Number of levels; valid are `Level(0)` to `Level(levels - 1)`.
    pub levels: u8,
    /// Number of blocks that run at once.
    pub units: u16,
    /// Number of copies that run at once, beside the blocks.
    pub copy_engines: u16,
    /// Point at which running work gives way.
    pub preemption: Preemption,
    /// True if the device ignores levels and shares itself by time slices of contexts.
    pub time_slices: bool,
}

/// A kernel as [`Device::kernels`] lists it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelInfo {
    /// Id by which a [`Launch`] names it.
    pub id: KernelId,
    /// The name that [`Device::kernel`] looks up.
    pub name: &'static str,
    /// Description of its computation, its arguments, and the layout of its input and output.
    pub description: &'static str,
}

/// One run of a kernel.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel.
    pub kernel: KernelId,
    /// Its arguments; the kernel's description says what they mean.
    pub arguments: [u64; 4],
    /// Memory that it reads.
    pub input: PeerSlice,
    /// Memory that it writes.
    pub output: PeerSlice,
    /// Longest time of its blocks in sum before it counts as overrun; it is not stopped then.
    pub budget_ns: Option<u64>,
}

impl Launch {
    /// A launch without memory and without a budget.
    pub fn new(kernel: KernelId, arguments: [u64; 4]) -> Launch {
        let (input, output) = (PeerSlice::empty(), PeerSlice::empty());
        Launch { kernel, arguments, input, output, budget_ns: None }
    }
}

/// Reason why accepted work failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum FailureCode {
    /// Memory could not be read or written.
    Memory = 1,
    /// The kernel itself went wrong; the fault is the device's.
    Kernel = 2,
    /// The device broke down while it ran, by it or by other work, and is set up anew.
    Lost = 3,
    /// The launch ran so much longer than its budget that it counts as endless; the device is set
    /// up anew.
    Endless = 4,
}

/// Way in which an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// All of it ran.
    Done,
    /// The launch was cancelled before all of it had run; the output may be written in part.
    Cancelled,
    /// The launch failed, with a [`FailureCode`]; the output may be written in part.
    Failed(u32),
}

/// Result of an operation, as its event tells it. Times are of `CLOCK_MONOTONIC`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OperationOutcome {
    /// Status of its end.
    pub status: Status,
    /// Time at which its first block started; `finished_ns` when none did.
    pub started_ns: u64,
    /// Time at which its last block ended, or its cancellation took effect.
    pub finished_ns: u64,
    /// Execution time of its blocks, summed over all units: processor time where the device's own
    /// threads compute them, so without the time in which something else had the core.
    pub busy_ns: u64,
    /// True if `busy_ns` was larger than the budget at the end of some block.
    pub overrun: bool,
}

/// Receiver of the end of work. Called on a thread of the device, which does nothing else
/// meanwhile: return soon. May call the device, also to submit work.
pub trait Observer: Send + Sync {
    /// The operation has ended; its event is signalled already and may be used again.
    fn completed(&self, token: u64, outcome: &OperationOutcome);

    /// The operation has run for longer than its budget. At most once per launch, and always
    /// before `completed`.
    fn overrun(&self, token: u64) {
        let _ = token;
    }
}

/// Counts since the device was started.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Statistics {
    /// Launches accepted.
    pub launches: u64,
    /// Copies accepted.
    pub copies: u64,
    /// Blocks run, without the chunks of copies.
    pub blocks: u64,
    /// Number of times that a unit left an operation that still had blocks to run for another one.
    pub preemptions: u64,
    /// Time that blocks ran, summed over all units.
    pub busy_ns: u64,
    /// The longest block by the wall clock, so with whatever held the unit up meanwhile: what more
    /// important work had to wait for at most.
    pub longest_block_ns: u64,
    /// Time that the copy engines copied.
    pub copy_busy_ns: u64,
    /// Thread ids of the compute threads, where the device has such; their run-queue delay tells
    /// whether the device itself was kept from running.
    pub compute_threads: Vec<u32>,
    /// True if the device's threads got the real-time policy they were configured with.
    pub realtime: bool,
    /// Number of times that the device was set up anew, because it had broken down.
    pub resets: u64,
    /// Reason why it could not be set up anew: nothing runs on it any more.
    pub fault: Option<String>,
}

/// An accelerator. All methods may be called from any thread at once, also from an [`Observer`].
pub trait Device: Send + Sync {
    /// Properties and abilities of the device.
    fn properties(&self) -> &Properties;

    /// All kernels of the device.
    fn kernels(&self) -> Vec<KernelInfo>;

    /// The kernel of that name.
    fn kernel(&self, name: &str) -> Option<KernelId>;

    /// Checks that the arguments fit the kernel and the buffers; [`Device::launch`] does this too.
    /// Cheap and without effects.
    ///
    /// # Errors
    /// [`Error::UnknownKernel`], [`Error::BadArgument`], [`Error::ShortBuffer`].
    fn check(&self, launch: &Launch) -> Result<(), Error>;

    /// Makes a context.
    ///
    /// # Errors
    /// [`Error::Exhausted`] or [`Error::Closed`].
    fn create_context(&self) -> Result<ContextId, Error>;

    /// Destroys a context with all its streams, as [`Device::destroy_stream`] does.
    ///
    /// # Errors
    /// [`Error::UnknownContext`].
    fn destroy_context(&self, context: ContextId) -> Result<(), Error>;

    /// Makes a stream.
    ///
    /// # Errors
    /// [`Error::UnknownContext`], [`Error::UnknownLevel`], [`Error::Exhausted`].
    fn create_stream(&self, context: ContextId, level: Level) -> Result<StreamId, Error>;

    /// Destroys a stream: its id is unknown from now on, and its work is cancelled. Does not
    /// wait for the running block.
    ///
    /// # Errors
    /// [`Error::UnknownStream`].
    fn destroy_stream(&self, stream: StreamId) -> Result<(), Error>;

    /// Moves a stream to another level, from the next block boundary on, running work included.
    ///
    /// # Errors
    /// [`Error::UnknownStream`], [`Error::UnknownLevel`].
    fn set_stream_level(&self, stream: StreamId, level: Level) -> Result<(), Error>;

    /// Puts a launch into a stream and arms the event for it. Never waits for work.
    ///
    /// # Errors
    /// As [`Device::check`], and [`Error::UnknownStream`], [`Error::EventBusy`],
    /// [`Error::Exhausted`]. The event stays as it was then.
    fn launch(&self, stream: StreamId, launch: Launch, event: &Event) -> Result<(), Error>;

    /// Puts a copy of all bytes of `from` to the start of `to` into a stream and arms the event
    /// for it. It runs on the copy engine, beside kernels of other streams. When the ranges
    /// overlap, what arrives is not specified.
    ///
    /// # Errors
    /// [`Error::ShortBuffer`] when `to` is shorter than `from`; [`Error::UnknownStream`],
    /// [`Error::EventBusy`], [`Error::Exhausted`].
    fn copy(
        &self,
        stream: StreamId,
        from: PeerSlice,
        to: PeerSlice,
        event: &Event,
    ) -> Result<(), Error>;

    /// Cancels everything that is in the stream now, running work at its next block boundary.
    /// Does not wait. Each event still completes, in stream order: with [`Status::Cancelled`],
    /// unless the work ended at this very moment.
    ///
    /// # Errors
    /// [`Error::UnknownStream`].
    fn cancel(&self, stream: StreamId) -> Result<(), Error>;

    /// Lets go of memory of launches that have ended, if the device keeps it for the next ones and
    /// the caller is its only holder. Does not wait; the caller sees by the count of its holders
    /// when the device has done so.
    fn let_go(&self, memory: &Arc<Mapping>) {
        let _ = memory;
    }

    /// Counts since the device was started.
    fn statistics(&self) -> Statistics;
}

//! Interface to the part that runs the blocks of a hosted device.

use crate::{Error, FailureCode, KernelInfo, Launch, Level};
use shm::Mapping;
use std::ops::{Deref, Range};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Kernels, and what they run on. Methods are called by any thread, blocks by the device's own.
pub trait Backend: Send + Sync + 'static {
    /// State with which a thread of the device runs blocks; made and used by it alone.
    type Worker;

    /// All kernels.
    fn kernels(&self) -> Vec<KernelInfo>;

    /// Checks a launch, whose arguments come from a foreign process, and splits it in blocks.
    /// Everything after it relies on that.
    ///
    /// # Errors
    /// As [`crate::Device::check`].
    fn plan(&self, launch: &Launch) -> Result<Plan, Error>;

    /// Prepares the calling thread, which is a unit of the device, for blocks.
    ///
    /// # Errors
    /// The reason why it cannot run any; the device does not start then.
    fn worker(&self, unit: usize) -> Result<Self::Worker, String>;

    /// A context was destroyed: what was kept for its memory may go. Work of it may still run.
    fn context_gone(&self) {}

    /// Returns true if a unit's thread keeps its core busy while it runs a block. A real-time
    /// thread that does is made to rest between blocks, for which it gives up its priority now and
    /// then; one that does not, or sees to its rest itself, keeps it.
    fn is_busy(&self) -> bool {
        true
    }

    /// Returns true if a unit's thread computes its blocks itself. Their execution time is then that
    /// of the thread's clock, else the wall clock.
    fn computes(&self) -> bool {
        false
    }

    /// See [`crate::Device::let_go`].
    fn let_go(&self, memory: &Arc<Mapping>) {
        let _ = memory;
    }

    /// Number of times that it was set up anew, because it had broken down.
    fn resets(&self) -> u64 {
        0
    }

    /// Reason why it cannot be set up anew, if it has broken down for good.
    fn fault(&self) -> Option<String> {
        None
    }

    /// Runs one block to its end.
    ///
    /// # Errors
    /// The failure of the block. The launch ends as failed.
    fn block(
        &self,
        worker: &mut Self::Worker,
        task: &Task<'_>,
        block: u32,
    ) -> Result<(), FailureCode>;

    /// Number of blocks of a launch that a unit takes at once, at least one. More than one is for
    /// backends that let more urgent work come in between these blocks, too.
    fn burst(&self) -> u32 {
        1
    }

    /// Runs consecutive blocks to their end, no more than [`Backend::burst`] says.
    ///
    /// # Errors
    /// As [`Backend::block`].
    fn blocks(
        &self,
        worker: &mut Self::Worker,
        task: &Task<'_>,
        mut blocks: Range<u32>,
    ) -> Result<(), FailureCode> {
        blocks.try_for_each(|block| self.block(worker, task, block))
    }

    /// Combines the parts of all blocks, once, after the last block, if the plan says so.
    ///
    /// # Errors
    /// As [`Backend::block`].
    fn finish(&self, worker: &mut Self::Worker, task: &Task<'_>) -> Result<(), FailureCode> {
        let _ = (worker, task);
        Ok(())
    }

    /// A launch with a workspace is over, in whatever way: nothing of it runs, or will. Called
    /// once for each, perhaps before any block, by a thread of the device that need not be a unit,
    /// right before the end is told; it must not wait for blocks.
    fn over(&self, workspace: &[AtomicU64]) {
        let _ = workspace;
    }
}

/// Division of a launch into blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Number of blocks, at least one.
    pub blocks: u32,
    /// Words of workspace that the blocks share.
    pub workspace: usize,
    /// True if something follows the last block.
    pub finishes: bool,
}

/// Launch as a block sees it: all of it, and the additions of the device.
pub struct Task<'a> {
    /// The launch, as the plan has checked it.
    pub launch: &'a Launch,
    /// The level of its stream when the block was taken.
    pub level: Level,
    /// Private to the device, zero at the start of the launch.
    pub workspace: &'a [AtomicU64],
}

impl Deref for Task<'_> {
    type Target = Launch;

    fn deref(&self) -> &Launch {
        self.launch
    }
}

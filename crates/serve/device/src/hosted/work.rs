//! One operation as its blocks see it, outside the scheduler's lock.
//!
//! The counters are atomic, so that the end of a block needs no lock: a unit adds the time of its
//! block, then counts `remaining` down. Who counts it to zero ends the operation, be it the unit
//! that ran the last block or, when the rest was struck off by a cancellation, the thread that
//! delivers the outcome. The count is the one synchronisation of a grid: whatever a block wrote
//! before its countdown is visible to the thread that reaches zero.

use super::unit::Runner;
use super::{Backend, Task, copy};
use crate::{Event, FailureCode, Launch, Level, OperationOutcome, Status};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Operation as ordered: it stays the same from submission to retirement.
pub(super) struct Order {
    pub launch: Launch,
    pub event: Event,
    /// Zeroed words that the blocks share.
    pub workspace: Vec<AtomicU64>,
    /// True if something is left to compute after the last block.
    pub finishes: bool,
}

/// An order and how far it is. Pooled: without an order it waits for the next operation.
#[derive(Default)]
pub(super) struct Work {
    order: Option<Order>,
    /// Blocks that have not ended and were not struck off.
    remaining: AtomicU32,
    /// Zero until the first block was taken.
    started_ns: AtomicU64,
    finished_ns: AtomicU64,
    busy_ns: AtomicU64,
    overrun: AtomicBool,
    cancelled: AtomicBool,
    /// Zero or a failure code.
    failure: AtomicU32,
}

impl Work {
    /// Begins a new operation of that many blocks.
    pub(super) fn begin(&mut self, order: Order, blocks: u32) {
        let remaining = AtomicU32::new(blocks);
        *self = Work { order: Some(order), remaining, ..Work::default() };
    }

    /// Gives the order back, so that it can be dropped without a lock.
    pub(super) fn end(&mut self) -> Option<Order> {
        self.order.take()
    }

    /// The first block was taken. Called once, under the scheduler's lock.
    pub(super) fn start(&self, now_ns: u64) {
        self.started_ns.store(now_ns, Ordering::Relaxed);
    }

    /// Asks for an early end.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Counts `blocks` as ended or struck off. True for the caller that has to end the operation.
    pub(super) fn count_down(&self, blocks: u32) -> bool {
        // Release hands over what the block wrote; acquire takes over what all blocks wrote.
        self.remaining.fetch_sub(blocks, Ordering::AcqRel) == blocks
    }

    /// Runs blocks or, without any, what follows the last block.
    ///
    /// # Errors
    /// If the kernel failed or panicked.
    pub(super) fn run<B: Backend>(
        &self,
        (blocks, level): (Option<Range<u32>>, Level),
        backend: &B,
        runner: &mut Runner<B::Worker>,
    ) -> Result<(), FailureCode> {
        let Order { launch, workspace, .. } = self.order();
        let task = Task { launch, level, workspace };
        // A worker stays valid memory whatever a kernel left in it.
        let run = AssertUnwindSafe(|| match (runner, blocks) {
            (Runner::Copy(buffer), blocks) => {
                copy::block(launch, blocks.map_or(0, |blocks| blocks.start), buffer)
            }
            (Runner::Compute(worker), Some(blocks)) => backend.blocks(worker, &task, blocks),
            (Runner::Compute(worker), None) => backend.finish(worker, &task),
        });
        catch_unwind(run).unwrap_or(Err(FailureCode::Kernel))
    }

    /// Returns true if the blocks went well and something is left to compute after the last one.
    pub(super) fn has_finish(&self) -> bool {
        self.order().finishes && self.status() == Status::Done
    }

    /// Adds the execution time of a block that has ended, and tells the observer if that was too
    /// much; not of what has failed, for which nothing can be done any more.
    pub(super) fn account(&self, block_ns: u64, end_ns: u64) {
        let busy_ns = self.busy_ns.fetch_add(block_ns, Ordering::Relaxed) + block_ns;
        self.finished_ns.fetch_max(end_ns, Ordering::Relaxed);
        let Order { launch, event, .. } = self.order();
        if launch.budget_ns.is_some_and(|budget| busy_ns > budget)
            && !self.overrun.swap(true, Ordering::Relaxed)
            && self.failure.load(Ordering::Relaxed) == 0
        {
            event.overrun();
        }
    }

    /// Remembers why the operation failed.
    pub(super) fn fail(&self, code: FailureCode) {
        self.failure.store(code as u32, Ordering::Relaxed);
    }

    /// Ends what the backend has for it. Called once, right before [`Work::complete`].
    pub(super) fn close<B: Backend>(&self, backend: &B) {
        let Order { workspace, .. } = self.order();
        if !workspace.is_empty() {
            backend.over(workspace);
        }
    }

    /// Tells the end. Called once, by the thread that counted down to zero or was handed that duty.
    pub(super) fn complete(&self, now_ns: impl FnOnce() -> u64) {
        let started_ns = self.started_ns.load(Ordering::Relaxed);
        let status = self.status();
        let finished_ns = match status {
            Status::Cancelled => now_ns(),
            _ => self.finished_ns.load(Ordering::Relaxed),
        };
        self.order().event.signal(&OperationOutcome {
            status,
            started_ns: if started_ns == 0 { finished_ns } else { started_ns },
            finished_ns,
            busy_ns: self.busy_ns.load(Ordering::Relaxed),
            overrun: self.overrun.load(Ordering::Relaxed),
        });
    }

    fn status(&self) -> Status {
        match self.failure.load(Ordering::Relaxed) {
            0 if self.is_cancelled() => Status::Cancelled,
            0 => Status::Done,
            code => Status::Failed(code),
        }
    }

    fn order(&self) -> &Order {
        self.order.as_ref().expect("work is handed out between its begin and its end")
    }
}

//! A GPU behind the device contract: this process's own, or another process's.

use crate::local::{Local, UnitState};
use crate::remote::{Remote, Seat};
use device::hosted::{Backend, Plan, Task};
use device::{Error, FailureCode, KernelInfo, Launch};
use shm::Mapping;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A GPU.
pub enum Gpu {
    /// A GPU of this process.
    Local(Local),
    /// Another process has it.
    Remote(Remote),
}

/// State of a unit's thread.
pub enum Keep {
    /// State of a unit of a GPU of this process.
    Local(Box<UnitState>),
    /// Seat of a unit of another process's GPU.
    Remote(Seat),
}

impl Gpu {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Gpu::Local(gpu) => gpu.name(),
            Gpu::Remote(gpu) => gpu.name(),
        }
    }
}

impl Backend for Gpu {
    type Worker = Keep;

    fn kernels(&self) -> Vec<KernelInfo> {
        match self {
            Gpu::Local(gpu) => gpu.kernels(),
            Gpu::Remote(gpu) => gpu.kernels(),
        }
    }

    fn plan(&self, launch: &Launch) -> Result<Plan, Error> {
        match self {
            Gpu::Local(gpu) => gpu.plan(launch),
            Gpu::Remote(gpu) => gpu.plan(launch),
        }
    }

    fn is_busy(&self) -> bool {
        false
    }

    fn worker(&self, unit: usize) -> Result<Keep, String> {
        match self {
            Gpu::Local(gpu) => gpu.worker(unit).map(|held| Keep::Local(Box::new(held))),
            Gpu::Remote(gpu) => gpu.worker(unit).map(Keep::Remote),
        }
    }

    fn context_gone(&self) {
        match self {
            Gpu::Local(gpu) => gpu.context_gone(),
            Gpu::Remote(gpu) => gpu.context_gone(),
        }
    }

    fn let_go(&self, memory: &Arc<Mapping>) {
        match self {
            Gpu::Local(gpu) => gpu.let_go(memory),
            Gpu::Remote(gpu) => gpu.let_go(memory),
        }
    }

    fn resets(&self) -> u64 {
        match self {
            Gpu::Local(gpu) => gpu.resets(),
            Gpu::Remote(gpu) => gpu.resets(),
        }
    }

    fn fault(&self) -> Option<String> {
        match self {
            Gpu::Local(gpu) => gpu.fault(),
            Gpu::Remote(gpu) => gpu.fault(),
        }
    }

    fn block(&self, keep: &mut Keep, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        self.blocks(keep, task, block..block + 1)
    }

    fn burst(&self) -> u32 {
        match self {
            Gpu::Local(gpu) => gpu.burst(),
            Gpu::Remote(gpu) => gpu.burst(),
        }
    }

    fn blocks(
        &self,
        keep: &mut Keep,
        task: &Task<'_>,
        blocks: Range<u32>,
    ) -> Result<(), FailureCode> {
        match (self, keep) {
            (Gpu::Local(gpu), Keep::Local(held)) => gpu.blocks(held, task, blocks),
            (Gpu::Remote(gpu), Keep::Remote(seat)) => gpu.blocks(seat, task, blocks),
            // Each unit keeps what its own GPU gave it.
            _ => Err(FailureCode::Kernel),
        }
    }

    fn finish(&self, keep: &mut Keep, task: &Task<'_>) -> Result<(), FailureCode> {
        match (self, keep) {
            (Gpu::Local(gpu), Keep::Local(held)) => gpu.finish(held, task),
            (Gpu::Remote(gpu), Keep::Remote(seat)) => gpu.finish(seat, task),
            _ => Err(FailureCode::Kernel),
        }
    }

    fn over(&self, workspace: &[AtomicU64]) {
        match self {
            Gpu::Local(gpu) => gpu.over(workspace),
            Gpu::Remote(gpu) => gpu.over(workspace),
        }
    }
}

//! The software accelerator: a device on processor cores.
//!
//! Each unit is a thread, kept on a core, that runs thread blocks of the crate's [`kernels`]
//! itself; see [`crate::hosted`] for who runs when.

mod config;

pub use config::Config;

pub use crate::hosted::Sharing;
use crate::hosted::{Backend, Hosted, Plan, Setup, Task, Unit};
use crate::kernels::{self, Scratch};
use crate::{Error, FailureCode, KernelInfo, Launch};
use realtime::work::Calibration;
use std::sync::Arc;

/// A device on processor cores. Dropping it shuts it down.
pub type SoftwareDevice = Hosted<Processor>;

/// Runs blocks where it is called.
pub struct Processor {
    calibration: Calibration,
}

/// The private memory of a unit.
pub struct Worker(Scratch);

impl SoftwareDevice {
    /// Starts the threads of a device and waits until all are ready.
    ///
    /// # Errors
    /// As [`Hosted::start`].
    pub fn on_cores(config: Config) -> Result<Arc<SoftwareDevice>, Error> {
        let unit = |core| Unit { core, ..Unit::default() };
        let units: Vec<Unit> = match config.cores.is_empty() {
            true => vec![Unit::default()],
            false => config.cores.iter().map(|core| unit(Some(*core))).collect(),
        };
        let setup = Setup {
            name: format!("software accelerator, {} units", units.len()),
            levels: config.levels,
            units,
            policy: config.policy,
            sharing: config.sharing,
            copy_core: config.copy_core,
        };
        let calibration = config.calibration.unwrap_or_else(Calibration::measure);
        Hosted::start(Processor { calibration }, &setup)
    }
}

impl Backend for Processor {
    type Worker = Worker;

    fn computes(&self) -> bool {
        true
    }

    fn kernels(&self) -> Vec<KernelInfo> {
        kernels::list()
    }

    fn plan(&self, launch: &Launch) -> Result<Plan, Error> {
        let kernel = kernels::get(launch.kernel)?;
        let plan = (kernel.plan)(launch)?;
        Ok(Plan { finishes: kernel.finish.is_some(), ..plan })
    }

    fn worker(&self, _: usize) -> Result<Worker, String> {
        Ok(Worker(Scratch::new()))
    }

    fn block(&self, worker: &mut Worker, order: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        let kernel = kernels::get(order.kernel).map_err(|_| FailureCode::Kernel)?;
        let task = kernels::Task { order, calibration: &self.calibration };
        (kernel.block)(&task, block, &mut worker.0)
    }

    fn finish(&self, worker: &mut Worker, order: &Task<'_>) -> Result<(), FailureCode> {
        let kernel = kernels::get(order.kernel).map_err(|_| FailureCode::Kernel)?;
        let task = kernels::Task { order, calibration: &self.calibration };
        kernel.finish.map_or(Ok(()), |finish| finish(&task, &mut worker.0))
    }
}

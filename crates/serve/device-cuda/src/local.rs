//! A GPU that this process has.
//!
//! If a kernel of it breaks the context, all of this process's contexts are broken, and the driver
//! gives it no other: every later launch ends as lost. A server therefore leaves its GPUs to
//! processes of their own ([`crate::remote`]), in which this runs.

use crate::Config;
use crate::builtin::{self, NAMES};
use crate::calibration::Calibration;
use crate::catalog::Catalog;
use crate::context::Context;
use crate::driver::{self, describe};
use crate::kernel::{self, Ready};
use crate::library::{Interface, Opened};
use crate::residence::{Residence, Residences};
use crate::service::{Program, Service};
use crate::slice::{self, Part, Slice};
use crate::worker::{UNREACHABLE, Worker, has_priorities};
use cudarc::driver::{DriverError, sys};
use device::hosted::{Backend, Plan, Task};
use device::{Error, FailureCode, KernelInfo, Launch, kernels};
use shm::Mapping;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};

/// A GPU that this process has.
pub struct Local {
    name: String,
    ordinal: usize,
    catalog: Catalog,
    /// Libraries of the users' kernels, in their order.
    libraries: Vec<Option<Arc<Interface>>>,
    context: Context,
    residences: Residences,
    levels: u8,
    /// Slices that a unit gives the GPU at once.
    burst: u32,
    /// The least level that each unit runs.
    least: Vec<u8>,
    spins: bool,
    calibration: Calibration,
    /// Workers of units whose thread has ended.
    retired: Arc<Mutex<Vec<Worker>>>,
}

/// Slices of a launch; none: what follows them.
type Parts = Option<Range<u32>>;

/// State of a unit's thread. The thread ends while other units may still run something, for which
/// the driver would wait when memory is freed: so its worker is kept until the GPU goes.
pub struct UnitState {
    worker: Option<Worker>,
    retired: Arc<Mutex<Vec<Worker>>>,
}

impl Drop for UnitState {
    fn drop(&mut self) {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).extend(self.worker.take());
    }
}

impl Local {
    /// Opens a GPU and loads the kernels.
    ///
    /// # Errors
    /// A text that names the missing or wrong item, and its place.
    pub fn open(config: &Config) -> Result<Local, String> {
        let found = driver::device(config.ordinal)?;
        // Names first: they cost nothing.
        Catalog::new(config, 1)?;
        let (mut sources, mut libraries) = (Vec::new(), Vec::new());
        for service in &config.services {
            let (source, library) = match kernel::read(service)? {
                Ready::Code(source) => (Some(source), None),
                Ready::Library(library) => (None, Some(library)),
            };
            sources.push(source);
            libraries.push(library);
        }
        let context = Context::open(config.ordinal, &sources)?;
        let fill = driver::resident_blocks(context.gpu(), builtin::BUSY_THREADS)?;
        let is_ranked = has_priorities(config.levels).map_err(|error| describe(&error))?;
        let calibration = Calibration::measure(&context, fill)?;
        Ok(Local {
            name: found.name,
            ordinal: config.ordinal,
            catalog: Catalog::new(config, fill)?,
            libraries,
            residences: Residences::default(),
            levels: config.levels,
            burst: if is_ranked { config.slices_at_once.max(1) } else { 1 },
            least: crate::units(config).iter().map(|unit| unit.least.0).collect(),
            spins: config.spins,
            calibration,
            retired: Arc::default(),
            context,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Number of blocks of `busy` that fill it.
    pub fn fill(&self) -> u64 {
        self.catalog.fill()
    }

    /// Slices that a unit gives the GPU at once.
    pub fn burst(&self) -> u32 {
        self.burst
    }

    fn run(&self, worker: &mut Worker, task: &Task<'_>, parts: Parts) -> Result<(), DriverError> {
        // It was checked when it was submitted, and has not changed since.
        let unknown = DriverError(sys::CUresult::CUDA_ERROR_UNKNOWN);
        let (kernel, shape) = self.catalog.shape(task.launch).map_err(|_| unknown)?;
        let index = task.kernel.0 as usize;
        let arguments = |part: Part| {
            let mut arguments = task.arguments;
            if let Part::Slices(first, _) = part {
                if kernel.is("busy") {
                    let ns = match shape.slices() {
                        // As many times as many blocks as fill the GPU run one after the other.
                        1 => arguments[0] / kernels::busy_blocks(arguments[0]).max(1),
                        _ => kernels::busy_block_ns(arguments[0], first),
                    };
                    arguments[0] = self.calibration.steps(ns);
                }
            }
            arguments
        };
        let context = &self.context;
        let program = match context.entries[index] {
            Some(entry) => {
                let then = kernel.is("reduce").then_some(context.reduce_parts);
                slice::Program::Kernel(entry, then)
            }
            None => slice::Program::Library(index - NAMES.len()),
        };
        // Its first word is there if, and only if, the launch is resident.
        let residence = task.workspace.first().map(|word| self.residences.of(word, &shape));
        let residence = residence.as_deref();
        let part = match parts {
            Some(Range { start, end }) => Part::Slices(start, end.saturating_sub(start)),
            None if residence.is_some_and(Residence::is_concluded) => return Ok(()),
            None => Part::Conclusion,
        };
        let arguments = arguments(part);
        worker.run(context, &Slice { task, program, shape, part, residence, arguments })
    }

    fn run_parts(
        &self,
        held: &mut UnitState,
        task: &Task<'_>,
        parts: Parts,
    ) -> Result<(), FailureCode> {
        // It is taken away only when the thread ends.
        let worker = held.worker.as_mut().ok_or(FailureCode::Lost)?;
        if self.context.is_broken() {
            return Err(FailureCode::Lost);
        }
        self.run(worker, task, parts).map_err(|error| self.failure(error))
    }

    /// Makes a unit's worker in the context; the calling thread enters it.
    fn equip(&self, unit: usize) -> Result<Worker, String> {
        self.context.enter()?;
        let open = |(service, library): (&Service, &Option<Arc<Interface>>)| {
            let (Some(library), Program::Library { configuration, .. }) =
                (library, &service.program)
            else {
                return Ok(None);
            };
            let opened: Result<Opened, String> = library.open(configuration, self.ordinal);
            opened.map(Some).map_err(|why| format!("service {}: {why}", service.name))
        };
        let libraries = self.catalog.services().zip(&self.libraries).map(open);
        let libraries = libraries.collect::<Result<_, String>>()?;
        let least = self.least.get(unit).copied().unwrap_or(0);
        Worker::new((least, self.levels), self.spins, libraries)
    }

    /// Returns the failure code of an error; finds out if the context is broken by it.
    fn failure(&self, error: DriverError) -> FailureCode {
        if self.context.is_broken() || self.context.find_out() {
            return FailureCode::Lost;
        }
        match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY | UNREACHABLE => FailureCode::Memory,
            _ => FailureCode::Kernel,
        }
    }
}

impl Backend for Local {
    type Worker = UnitState;

    fn kernels(&self) -> Vec<KernelInfo> {
        self.catalog.infos()
    }

    fn plan(&self, launch: &Launch) -> Result<Plan, Error> {
        self.catalog.plan(launch)
    }

    fn worker(&self, unit: usize) -> Result<UnitState, String> {
        let worker = Some(self.equip(unit)?);
        Ok(UnitState { worker, retired: self.retired.clone() })
    }

    fn context_gone(&self) {
        if !self.context.is_broken() {
            self.context.sweep();
        }
    }

    fn let_go(&self, memory: &Arc<Mapping>) {
        if !self.context.is_broken() {
            self.context.let_go(memory);
        }
    }

    fn fault(&self) -> Option<String> {
        let why = "a kernel broke the CUDA context, and this process cannot get another one";
        self.context.is_broken().then(|| why.into())
    }

    fn block(&self, held: &mut UnitState, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        self.blocks(held, task, block..block + 1)
    }

    fn burst(&self) -> u32 {
        Local::burst(self)
    }

    fn blocks(
        &self,
        held: &mut UnitState,
        task: &Task<'_>,
        blocks: Range<u32>,
    ) -> Result<(), FailureCode> {
        self.run_parts(held, task, Some(blocks))
    }

    fn finish(&self, held: &mut UnitState, task: &Task<'_>) -> Result<(), FailureCode> {
        self.run_parts(held, task, None)
    }

    fn over(&self, workspace: &[AtomicU64]) {
        workspace.first().inspect(|word| self.residences.end(word));
    }
}

impl Drop for Local {
    fn drop(&mut self) {
        // The device has ended its threads: nothing runs any more, unless the context is broken.
        let retired = &mut *self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        if self.context.is_broken() {
            retired.iter_mut().for_each(Worker::forget);
            return self.context.abandon();
        }
        self.context.with(|| {
            retired.clear();
            self.residences.free();
        });
        self.context.close();
    }
}

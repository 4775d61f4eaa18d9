//! One GPU: its kernels, and the lives of its context.
//!
//! Units run slices under a shared lock on the context. When one finds that the context is broken,
//! the next one that wants to run something takes the lock for itself, resets the context and
//! loads everything anew; the units then make what they had in it again, each for itself.

use crate::Config;
use crate::builtin::{self, NAMES, Shape};
use crate::context::{Context, Source};
use crate::driver::{self, describe};
use crate::kernel::{self, Kernel};
use crate::library::Opened;
use crate::patience::{ENDLESS, LOST};
use crate::residence::{Residence, Residences};
use crate::service::Program;
use crate::slice::{self, Part, Slice};
use crate::worker::{UNREACHABLE, Worker};
use cudarc::driver::{DriverError, sys};
use device::hosted::{Backend, Plan, Task};
use device::{Error, FailureCode, KernelInfo, Launch, kernels};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{
    Arc, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};
use std::time::{Duration, Instant};

/// A request that takes so many times what it declared never ends.
const PATIENCE_FACTOR: u32 = 10;
/// But not before this.
const LEAST_PATIENCE: Duration = Duration::from_millis(500);
/// How long the units that still run something have to stop before a reset.
const QUIET: Duration = Duration::from_secs(5);

/// One GPU.
pub struct Gpu {
    name: String,
    ordinal: usize,
    kernels: Vec<Kernel>,
    /// Of the users' kernels, in their order.
    sources: Vec<Option<Source>>,
    context: RwLock<Context>,
    residences: Residences,
    /// Of the kernels that every device offers, but `busy`; 0: all.
    blocks_per_slice: u32,
    levels: u8,
    spins: bool,
    /// How many blocks of `busy` fill it.
    fill: u64,
    /// Cycles of the clock that `busy` counts, in a millisecond.
    cycles_per_ms: u64,
    /// Lives of the context that ended because it broke.
    resets: AtomicU64,
    /// Why it could not be reset: nothing works any more.
    lost: OnceLock<String>,
    /// Held by the one that resets it.
    resetting: Mutex<()>,
    /// Of units whose thread has ended.
    retired: Arc<Mutex<Vec<Worker>>>,
}

/// What a unit's thread holds. It ends while other units may still run something, for which the
/// driver would wait when memory is freed: so what it had is kept until the GPU goes.
pub struct Held {
    worker: Option<Worker>,
    retired: Arc<Mutex<Vec<Worker>>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.retired.lock().unwrap_or_else(PoisonError::into_inner).extend(self.worker.take());
    }
}

impl Gpu {
    /// Opens a GPU and loads the kernels.
    ///
    /// # Errors
    /// What is missing or wrong, and where.
    pub fn open(config: &Config) -> Result<Gpu, String> {
        let found = driver::device(config.ordinal)?;
        let mut kernels = kernel::built_in();
        let mut sources = Vec::new();
        for service in &config.services {
            let (kernel, source) = kernel::read(service, &kernels)?;
            kernels.push(kernel);
            sources.push(source);
        }
        let context = Context::open(config.ordinal, 0, &sources)?;
        let mut gpu = Gpu {
            name: found.name,
            ordinal: config.ordinal,
            kernels,
            sources,
            residences: Residences::default(),
            blocks_per_slice: config.blocks_per_slice,
            levels: config.levels,
            spins: config.spins,
            fill: driver::resident_blocks(context.gpu(), builtin::BUSY_THREADS)?,
            cycles_per_ms: 1_000_000,
            resets: AtomicU64::new(0),
            lost: OnceLock::new(),
            resetting: Mutex::default(),
            retired: Arc::default(),
            context: RwLock::new(context),
        };
        gpu.calibrate()?;
        Ok(gpu)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Finds out how fast the clock of `busy` goes.
    fn calibrate(&mut self) -> Result<(), String> {
        const CYCLES: u64 = 4_000_000;
        let context = self.context.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(busy) = context.entries[1] else { unreachable!("busy is built in") };
        let mut worker = Worker::new(context, 1, self.spins, Vec::new())?;
        let mut run = |cycles| {
            let begin = Instant::now();
            worker.run_busy(context, busy, cycles).map_err(|error| describe(&error))?;
            Ok::<u64, String>(begin.elapsed().as_nanos() as u64)
        };
        let (mut fastest_ns, mut beside_ns) = (u64::MAX, u64::MAX);
        for _ in 0..5 {
            fastest_ns = fastest_ns.min(run(CYCLES)?);
            // What a launch takes beside its kernel.
            beside_ns = beside_ns.min(run(1)?);
        }
        // On a disturbed machine the difference may be nothing; most of it is the kernel.
        let kernel_ns = fastest_ns.saturating_sub(beside_ns).max(fastest_ns / 2).max(1);
        self.cycles_per_ms = (u128::from(CYCLES) * 1_000_000 / u128::from(kernel_ns)) as u64;
        Ok(())
    }

    fn shape(&self, launch: &Launch) -> Result<(&Kernel, Shape), Error> {
        let unknown = Error::UnknownKernel(launch.kernel);
        let kernel = self.kernels.get(launch.kernel.0 as usize).ok_or(unknown)?;
        let shape = match &kernel.service {
            Some(service) => builtin::shape_of(service, launch),
            None => builtin::shape(kernel.info.name, launch, self.blocks_per_slice, self.fill),
        };
        Ok((kernel, shape?))
    }

    fn run(
        &self,
        context: &Context,
        worker: &mut Worker,
        task: &Task<'_>,
        part: Part,
    ) -> Result<(), DriverError> {
        // It was checked when it was submitted, and has not changed since.
        let unknown = DriverError(sys::CUresult::CUDA_ERROR_UNKNOWN);
        let (kernel, shape) = self.shape(task.launch).map_err(|_| unknown)?;
        let index = task.kernel.0 as usize;
        let is = |name: &str| kernel.service.is_none() && kernel.info.name == name;
        let mut arguments = task.arguments;
        if let Part::Slice(number) = part
            && is("busy")
        {
            let ns = u128::from(kernels::busy_block_ns(arguments[0], number));
            arguments[0] = (ns * u128::from(self.cycles_per_ms) / 1_000_000) as u64;
        }
        let program = match context.entries[index] {
            Some(entry) => {
                slice::Program::Kernel(entry, is("reduce").then_some(context.reduce_parts))
            }
            None => slice::Program::Library(index - NAMES.len()),
        };
        let patience = task.budget_ns.map(|budget| {
            Duration::from_nanos(budget).saturating_mul(PATIENCE_FACTOR).max(LEAST_PATIENCE)
        });
        // Its first word is there if, and only if, the launch is resident.
        let residence = match task.workspace.first() {
            Some(word) => {
                let found = self.residences.of(context.life, word, &shape);
                Some(found.ok_or(DriverError(LOST))?)
            }
            None => None,
        };
        let residence = residence.as_deref();
        if part == Part::Conclusion && residence.is_some_and(Residence::is_concluded) {
            return Ok(());
        }
        worker.run(context, &Slice { task, program, shape, part, residence, arguments, patience })
    }

    fn run_part(&self, held: &mut Held, task: &Task<'_>, part: Part) -> Result<(), FailureCode> {
        let context = self.sound()?;
        // It is taken away only when the thread ends.
        let worker = held.worker.as_mut().ok_or(FailureCode::Lost)?;
        if worker.life != context.life {
            worker.forget();
            *worker = self.equip(&context).map_err(|_| FailureCode::Lost)?;
        }
        let ran = self.run(&context, worker, task, part);
        ran.map_err(|error| {
            let code = self.failure(&context, error);
            if context.is_broken() {
                // What was made in it must not be destroyed any more, and it may still be in use.
                worker.forget();
                task.workspace.first().inspect(|word| self.residences.spoil(word));
            }
            code
        })
    }

    /// What a unit has in a context; the calling thread enters it.
    fn equip(&self, context: &Context) -> Result<Worker, String> {
        context.enter()?;
        let open = |kernel: &Kernel| -> Result<Option<Opened>, String> {
            let (Some(service), Some(library)) = (&kernel.service, &kernel.library) else {
                return Ok(None);
            };
            let Program::Library { configuration, .. } = &service.program else { return Ok(None) };
            let opened = library.open(configuration, self.ordinal);
            opened.map(Some).map_err(|why| format!("service {}: {why}", service.name))
        };
        let libraries = self.kernels[NAMES.len()..].iter().map(open);
        Worker::new(context, self.levels, self.spins, libraries.collect::<Result<_, _>>()?)
    }

    fn is_lost(&self) -> bool {
        self.lost.get().is_some()
    }

    fn context(&self) -> RwLockReadGuard<'_, Context> {
        self.context.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The context as it is now, sound; reset if it was broken.
    fn sound(&self) -> Result<RwLockReadGuard<'_, Context>, FailureCode> {
        loop {
            if self.is_lost() {
                return Err(FailureCode::Lost);
            }
            let context = self.context();
            if !context.is_broken() {
                return Ok(context);
            }
            drop(context);
            self.reset();
        }
    }

    /// Begins a new life of the context if it is broken; if that fails, the GPU is lost.
    fn reset(&self) {
        // Whoever comes second finds what the first one has made of it.
        let _turn = self.resetting.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_lost() || !self.context().is_broken() {
            return;
        }
        if let Err(why) = self.renew() {
            // Nobody else writes it: this is the only turn.
            let _ = self.lost.set(why);
        }
    }

    /// Begins a new life of the context, once no unit uses it.
    fn renew(&self) -> Result<(), String> {
        let mut context = self.unused()?;
        context.reset()?;
        self.residences.forget(context.life + 1);
        *context = Context::open(self.ordinal, context.life + 1, &self.sources)?;
        self.resets.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// The context, once no unit uses it: they stop when they see that it is broken.
    fn unused(&self) -> Result<RwLockWriteGuard<'_, Context>, String> {
        let end = Instant::now() + QUIET;
        loop {
            match self.context.try_write() {
                Ok(context) => return Ok(context),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() > end => {
                    return Err("a unit does not stop".into());
                }
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// What went wrong, and whether the context is broken by it.
    fn failure(&self, context: &Context, error: DriverError) -> FailureCode {
        if error.0 == ENDLESS {
            context.break_down();
            return FailureCode::Endless;
        }
        if context.is_broken() || context.find_out() {
            return FailureCode::Lost;
        }
        match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY | UNREACHABLE => FailureCode::Memory,
            // Of a launch between two slices, when the context was reset.
            LOST => FailureCode::Lost,
            _ => FailureCode::Kernel,
        }
    }
}

impl Backend for Gpu {
    type Worker = Held;

    fn kernels(&self) -> Vec<KernelInfo> {
        self.kernels.iter().map(|kernel| kernel.info).collect()
    }

    fn plan(&self, launch: &Launch) -> Result<Plan, Error> {
        let (kernel, shape) = self.shape(launch)?;
        shape.plan(kernel.info.name, launch)
    }

    fn worker(&self, _: usize) -> Result<Held, String> {
        let worker = Some(self.equip(&self.context())?);
        Ok(Held { worker, retired: self.retired.clone() })
    }

    fn context_gone(&self) {
        // While it is reset there is nothing to do: all of it goes.
        if let Ok(context) = self.context.try_read()
            && !context.is_broken()
        {
            context.sweep();
        }
    }

    fn resets(&self) -> u64 {
        self.resets.load(Ordering::Relaxed)
    }

    fn fault(&self) -> Option<String> {
        self.lost.get().cloned()
    }

    fn block(&self, held: &mut Held, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        self.run_part(held, task, Part::Slice(block))
    }

    fn finish(&self, held: &mut Held, task: &Task<'_>) -> Result<(), FailureCode> {
        self.run_part(held, task, Part::Conclusion)
    }

    fn over(&self, workspace: &[AtomicU64]) {
        workspace.first().inspect(|word| self.residences.end(word));
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // The device has ended its threads: nothing runs any more, unless the context is broken.
        let context = self.context.get_mut().unwrap_or_else(PoisonError::into_inner);
        let retired = &mut *self.retired.lock().unwrap_or_else(PoisonError::into_inner);
        for worker in retired.iter_mut() {
            if context.is_broken() || worker.life != context.life {
                worker.forget();
            }
        }
        if self.lost.get().is_some() {
            return context.abandon();
        }
        let is_sound = !context.is_broken();
        context.with(|| {
            retired.clear();
            if is_sound {
                self.residences.free();
            }
        });
        context.close();
    }
}

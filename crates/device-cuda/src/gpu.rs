//! One GPU: its context, its kernels, and the memory it knows.

use crate::Config;
use crate::builtin::{self, NAMES, PTX, REDUCE_PARTS, Shape};
use crate::pins::Pins;
use crate::service::{Code, Service};
use crate::worker::{UNREACHABLE, Worker};
use cudarc::driver::{DriverError, result, sys};
use cudarc::nvrtc;
use device::hosted::{Backend, Plan, Task};
use device::{Error, FailureCode, KernelId, KernelInfo, Launch, kernels};
use std::ffi::{CString, c_void};
use std::panic::catch_unwind;
use std::sync::atomic::{AtomicBool, Ordering};

/// A GPU as the driver lists it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// What [`Config::ordinal`] takes.
    pub ordinal: usize,
    /// Its name.
    pub name: String,
    /// Bytes of its memory.
    pub memory: u64,
    /// Compute capability, as in (9, 0).
    pub capability: (u32, u32),
}

/// All GPUs.
///
/// # Errors
/// There is no driver, or it does not start.
pub fn devices() -> Result<Vec<Found>, String> {
    init()?;
    let count = guarded(result::device::get_count)?;
    (0..count).map(found).collect()
}

fn found(ordinal: i32) -> Result<Found, String> {
    guarded(|| {
        use sys::CUdevice_attribute as Attribute;
        let gpu = result::device::get(ordinal)?;
        // SAFETY: the driver named this GPU just now.
        let attribute = |which| unsafe { result::device::get_attribute(gpu, which) };
        let major = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Ok(Found {
            ordinal: ordinal as usize,
            name: result::device::get_name(gpu)?,
            // SAFETY: as above.
            memory: unsafe { result::device::total_mem(gpu)? } as u64,
            capability: (major.cast_unsigned(), minor.cast_unsigned()),
        })
    })
}

/// How many blocks of `busy` run at once.
fn fill(gpu: sys::CUdevice) -> Result<u64, DriverError> {
    use sys::CUdevice_attribute as Attribute;
    // SAFETY: the driver named this GPU.
    let attribute = |which| unsafe { result::device::get_attribute(gpu, which) };
    let processors = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let threads = attribute(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?;
    let each = threads.cast_unsigned() / builtin::BUSY_THREADS;
    Ok(u64::from(processors.cast_unsigned()).max(1) * u64::from(each).max(1))
}

fn init() -> Result<(), String> {
    // SAFETY: it loads the driver, whose constructors are its own affair.
    if !unsafe { sys::is_culib_present() } {
        return Err("there is no libcuda.so.1 on this machine".into());
    }
    guarded(result::init)
}

/// Calls the driver. cudarc panics where the driver lacks a function.
fn guarded<T>(call: impl FnOnce() -> Result<T, DriverError>) -> Result<T, String> {
    let call = std::panic::AssertUnwindSafe(call);
    match catch_unwind(call) {
        Ok(result) => result.map_err(|error| describe(&error)),
        Err(_) => Err("the driver lacks a function that is needed".into()),
    }
}

/// An error in the driver's words.
pub fn describe(error: &DriverError) -> String {
    let name = error.error_name().map(|name| name.to_string_lossy().into_owned());
    format!("the driver says {}", name.unwrap_or_else(|_| format!("{:?}", error.0)))
}

/// A kernel on the GPU.
#[derive(Clone, Copy)]
pub struct Function(pub sys::CUfunction);

// SAFETY: handles of the driver, which any thread may use.
unsafe impl Send for Function {}
// SAFETY: as above.
unsafe impl Sync for Function {}

struct Kernel {
    info: KernelInfo,
    function: Function,
    service: Option<Service>,
}

/// One GPU.
pub struct Gpu {
    name: String,
    gpu: sys::CUdevice,
    context: sys::CUcontext,
    kernels: Vec<Kernel>,
    reduce_parts: Function,
    pins: Pins,
    levels: u8,
    spins: bool,
    /// How many blocks of `busy` fill it.
    fill: u64,
    /// Cycles of the clock that `busy` counts, in a millisecond.
    cycles_per_ms: u64,
    /// Its context is broken: nothing works any more.
    lost: AtomicBool,
}

// SAFETY: handles of the driver, which any thread may use that has made the context its own.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Opens a GPU and loads the kernels.
    ///
    /// # Errors
    /// What is missing or wrong, and where.
    pub fn open(config: &Config) -> Result<Gpu, String> {
        init()?;
        let count = guarded(result::device::get_count)?;
        if config.ordinal as i64 >= i64::from(count) {
            return Err(format!("GPU {}: the driver has {count}", config.ordinal));
        }
        let found = found(config.ordinal as i32)?;
        let (gpu, context) = guarded(|| {
            let gpu = result::device::get(config.ordinal as i32)?;
            // SAFETY: the driver named this GPU just now.
            let context = unsafe { result::primary_ctx::retain(gpu)? };
            // SAFETY: it was retained just now.
            unsafe { result::ctx::set_current(context)? };
            Ok((gpu, context))
        })?;
        let mut opened = Gpu {
            name: found.name,
            gpu,
            context,
            kernels: Vec::new(),
            reduce_parts: Function(std::ptr::null_mut()),
            pins: Pins::default(),
            levels: config.levels,
            spins: config.spins,
            fill: guarded(|| fill(gpu))?,
            cycles_per_ms: 1_000_000,
            lost: AtomicBool::new(false),
        };
        opened.load_builtin()?;
        for service in &config.services {
            opened.load(service)?;
        }
        opened.calibrate()?;
        Ok(opened)
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn load_builtin(&mut self) -> Result<(), String> {
        let module = module("Keeptime's kernels", PTX)?;
        for name in NAMES {
            let description = kernels::description(name).unwrap_or_default();
            let function = function(module, "Keeptime's kernels", &format!("kt_{name}"))?;
            self.add(name, description, function, None);
        }
        self.reduce_parts = function(module, "Keeptime's kernels", REDUCE_PARTS)?;
        Ok(())
    }

    fn load(&mut self, service: &Service) -> Result<(), String> {
        let name = &service.name;
        if self.kernels.iter().any(|kernel| kernel.info.name == name) {
            return Err(format!("service {name}: there is a kernel of this name already"));
        }
        if !(1..=1024).contains(&service.threads) {
            let threads = service.threads;
            return Err(format!("service {name}: {threads} threads of a block; 1 to 1024"));
        }
        let what = format!("service {name}");
        let module = match &service.code {
            Code::Ptx(ptx) => module(&what, ptx)?,
            Code::Cuda(source) => module(&what, &compile(&what, source)?)?,
        };
        let function = function(module, &what, &service.function)?;
        // Once for each start, and there are few.
        let leaked = |text: &String| -> &'static str { Box::leak(text.clone().into_boxed_str()) };
        let (name, description) = (leaked(name), leaked(&service.description));
        self.add(name, description, function, Some(service.clone()));
        Ok(())
    }

    fn add(
        &mut self,
        name: &'static str,
        description: &'static str,
        function: Function,
        service: Option<Service>,
    ) {
        let id = KernelId(self.kernels.len() as u32);
        self.kernels.push(Kernel { info: KernelInfo { id, name, description }, function, service });
    }

    /// Finds out how fast the clock of `busy` goes.
    fn calibrate(&mut self) -> Result<(), String> {
        let mut worker = Worker::new(1, self.spins)?;
        let busy = self.kernels[1].function;
        let mut fastest_ns = u64::MAX;
        const CYCLES: u64 = 4_000_000;
        for _ in 0..5 {
            let begin = std::time::Instant::now();
            worker.run_busy(busy, CYCLES).map_err(|error| describe(&error))?;
            fastest_ns = fastest_ns.min(begin.elapsed().as_nanos() as u64);
        }
        // What a launch takes beside its kernel.
        let begin = std::time::Instant::now();
        worker.run_busy(busy, 1).map_err(|error| describe(&error))?;
        let beside_ns = begin.elapsed().as_nanos() as u64;
        let kernel_ns = fastest_ns.saturating_sub(beside_ns).max(1);
        self.cycles_per_ms = (u128::from(CYCLES) * 1_000_000 / u128::from(kernel_ns)) as u64;
        Ok(())
    }

    fn kernel(&self, id: KernelId) -> Result<&Kernel, Error> {
        self.kernels.get(id.0 as usize).ok_or(Error::UnknownKernel(id))
    }

    fn shape(&self, launch: &Launch) -> Result<(&Kernel, Shape), Error> {
        let kernel = self.kernel(launch.kernel)?;
        let shape = match &kernel.service {
            Some(service) => builtin::shape_of(service, launch),
            None => builtin::shape(kernel.info.name, launch, self.fill),
        };
        Ok((kernel, shape?))
    }

    fn run(&self, worker: &mut Worker, task: &Task<'_>, slice: u32) -> Result<(), DriverError> {
        // It was checked when it was submitted, and has not changed since.
        let (kernel, shape) =
            self.shape(task.launch).map_err(|_| DriverError(sys::CUresult::CUDA_ERROR_UNKNOWN))?;
        let is = |name: &str| kernel.service.is_none() && kernel.info.name == name;
        let mut arguments = task.arguments;
        if is("busy") {
            let ns = u128::from(kernels::busy_block_ns(arguments[0], slice));
            arguments[0] = (ns * u128::from(self.cycles_per_ms) / 1_000_000) as u64;
        }
        let then = is("reduce").then_some(self.reduce_parts);
        worker.run(kernel.function, then, &shape, slice, arguments, task, &self.pins)
    }
}

impl Backend for Gpu {
    type Worker = Worker;

    fn kernels(&self) -> Vec<KernelInfo> {
        self.kernels.iter().map(|kernel| kernel.info).collect()
    }

    fn plan(&self, launch: &Launch) -> Result<Plan, Error> {
        let (kernel, shape) = self.shape(launch)?;
        shape.plan(kernel.info.name, launch)
    }

    fn worker(&self, _: usize) -> Result<Worker, String> {
        guarded(|| {
            // SAFETY: it lives as long as this GPU.
            unsafe { result::ctx::set_current(self.context) }
        })?;
        Worker::new(self.levels, self.spins)
    }

    fn context_gone(&self) {
        self.with_context(|| self.pins.sweep());
    }

    fn block(&self, worker: &mut Worker, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        if self.lost.load(Ordering::Relaxed) {
            return Err(FailureCode::Kernel);
        }
        self.run(worker, task, block).map_err(|error| match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY | UNREACHABLE => FailureCode::Memory,
            _ => {
                self.lost.store(true, Ordering::Relaxed);
                FailureCode::Kernel
            }
        })
    }
}

impl Gpu {
    /// Does something with the context current to the calling thread, whichever that is.
    fn with_context(&self, act: impl FnOnce()) {
        let _ = guarded(|| {
            let before = result::ctx::get_current()?;
            // SAFETY: it lives as long as this GPU.
            unsafe { result::ctx::set_current(self.context)? };
            act();
            // SAFETY: it was current just now.
            unsafe { result::ctx::set_current(before.unwrap_or(std::ptr::null_mut())) }
        });
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // Its workers are gone: the device has ended its threads.
        self.with_context(|| self.pins.clear());
        // SAFETY: it was retained when the GPU was opened.
        let _ = guarded(|| unsafe { result::primary_ctx::release(self.gpu) });
    }
}

/// Loads code for the current context.
fn module(what: &str, ptx: &str) -> Result<sys::CUmodule, String> {
    let text = CString::new(ptx).map_err(|_| format!("{what}: a zero byte in its code"))?;
    // SAFETY: text that ends with a zero byte, as the driver wants it.
    let loaded = guarded(|| unsafe { result::module::load_data(text.as_ptr().cast::<c_void>()) });
    loaded.map_err(|error| format!("{what}: {error}"))
}

fn function(module: sys::CUmodule, what: &str, name: &str) -> Result<Function, String> {
    let text = CString::new(name).map_err(|_| format!("{what}: a zero byte in {name:?}"))?;
    // SAFETY: the module was loaded and is not unloaded before its context goes.
    let found = guarded(|| unsafe { result::module::get_function(module, text) });
    found.map(Function).map_err(|error| format!("{what}: function {name:?}: {error}"))
}

/// Compiles CUDA source.
fn compile(what: &str, source: &str) -> Result<String, String> {
    let compiled = catch_unwind(|| nvrtc::compile_ptx(source));
    match compiled {
        Ok(Ok(ptx)) => Ok(ptx.to_src()),
        Ok(Err(nvrtc::CompileError::CompileError { log, .. })) => {
            Err(format!("{what}: it does not compile:\n{}", log.to_string_lossy().trim()))
        }
        Ok(Err(error)) => Err(format!("{what}: {error:?}")),
        Err(_) => Err(format!("{what}: CUDA source needs libnvrtc.so; give PTX instead")),
    }
}

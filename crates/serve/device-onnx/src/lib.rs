//! ONNX Runtime behind the device contract: a model is a kernel.
//!
//! [`start`] loads the runtime's library and some models, and gives an [`OnnxDevice`] that offers
//! each model as a kernel of its name:
//!
//! - **Input and output**: the model's inputs lie one after the other in the launch's `input`,
//!   in the order of the model, its outputs likewise in `output`: little-endian numbers, row by
//!   row, without gaps. Tensors of f32, f64, i32, i64 and u8 are taken, all their sizes known but
//!   the first, which may be the size of a batch: then `arguments[0]` tells it, 1 to
//!   [`Model::most`].
//! - **One at a time**: the device has one unit, and a run of a model is one block. Nothing
//!   preempts or cancels it between its start and its end, so the longest model bounds how long
//!   the most important request waits for a less important one. This is how accelerators with a
//!   single context behave (a TPU, an NPU), for which such a device stands in. Between runs, the
//!   levels decide, as on any [`Hosted`] device.
//! - **`empty`, `busy` and `vecadd`** are as in [`device::kernels`], and small graphs of this
//!   crate, so that their work is runs of models, too: `empty` runs an identity; `busy` a loop of
//!   calibrated length in blocks of at most 100 us; `vecadd` an addition in blocks of 4096
//!   elements. Between two of these blocks they can be preempted and cancelled, inside one they
//!   cannot. No block of `busy` is shorter than a run of the smallest loop, which takes some
//!   microseconds.
//! - **Memory** for inputs and outputs is taken once, at the start, for each size of batch, and
//!   each is run once then with zeros: what the runtime allocates at a first run it has by then,
//!   and a model whose outputs do not have the shapes that it declares is found out. A model must
//!   accept zeros.
//!
//! Models are trusted, unlike launches: what one does with the values of its input is up to the
//! runtime, in the process of the device. Values may also decide how long a run takes, by loops of
//! the model or by very small (subnormal) numbers. A run that fails ends its launch as failed, and
//! nothing else. ONNX Runtime makes further threads only if [`Config::threads`] is more than one.
//!
//! ```no_run
//! use device::{Device, Event, Launch, Level};
//! use device_onnx::{Config, Model};
//!
//! let digits = Model::new("digits", "examples/digits/model.onnx");
//! let config = Config { models: vec![digits], ..Config::default() };
//! let device = device_onnx::start(&config)?;
//! for kernel in device.kernels() {
//!     println!("{}: {}", kernel.name, kernel.description);
//! }
//! # Ok::<(), device::Error>(())
//! ```
#![forbid(unsafe_code)]

mod busy;
mod config;
mod library;
mod model;
mod signature;
mod vecadd;

pub use config::{Config, LIBRARY_VARIABLE, Model, Provider};

use busy::Busy;
use device::hosted::{Backend, Hosted, Plan, Setup, Sharing, Task, Unit};
use device::kernels;
use device::{Error, FailureCode, KernelId, KernelInfo, Launch};
use model::{Loaded, Loader};
use shm::memory::PeerSlice;
use signature::Signature;
use std::any::Any;
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

// Tensors are copied as they lie in memory.
const _: () = assert!(cfg!(target_endian = "little"), "the layout of buffers is little-endian");

/// A device whose kernels are models. Dropping it shuts it down.
pub type OnnxDevice = Hosted<Runtime>;

const EMPTY: KernelId = KernelId(0);
const BUSY: KernelId = KernelId(1);
const VECADD: KernelId = KernelId(2);
/// Kernels before the first model.
const BUILT_IN: [&str; 3] = ["empty", "busy", "vecadd"];

/// Loads the library and the models, measures `busy`, and starts the threads of the device.
/// Takes 100 ms and a run of each model for each size of its batch.
///
/// # Errors
/// [`Error::Start`], with the file and what was expected of it, when the library or a model
/// cannot be loaded or run, or has inputs or outputs that are not tensors as described above; when
/// a name is empty or taken, or a number in `config` is out of range; and as
/// [`Hosted::start`].
pub fn start(config: &Config) -> Result<Arc<OnnxDevice>, Error> {
    let runtime = no_panic("ONNX Runtime", || Runtime::load(config))?;
    let setup = Setup {
        name: format!("ONNX Runtime ({})", config.provider),
        levels: config.levels,
        units: vec![Unit { core: config.core, ..Unit::default() }],
        policy: config.policy,
        sharing: Sharing::Levels,
        copy_core: config.copy_core,
    };
    Hosted::start(runtime, &setup)
}

/// Runs models where it is called.
pub struct Runtime {
    /// Kernels by id.
    kernels: Vec<Kernel>,
    /// The worker, until the one unit takes it.
    worker: Mutex<Option<Worker>>,
}

struct Kernel {
    info: KernelInfo,
    signature: Signature,
}

/// All sessions with the runtime, used by one thread.
pub struct Worker {
    empty: Loaded,
    busy: Busy,
    vecadd: Loaded,
    models: Vec<Loaded>,
}

impl Runtime {
    fn load(config: &Config) -> Result<Runtime, Error> {
        config.check()?;
        let loader = Loader::new(config)?;
        let empty = loader.built_in("empty", include_bytes!("../models/empty.onnx"))?;
        let busy = loader.built_in("busy", include_bytes!("../models/busy.onnx"))?;
        let vecadd = loader.built_in("vecadd", include_bytes!("../models/vecadd.onnx"))?;
        let models = config
            .models
            .iter()
            .map(|model| no_panic(&model.path.display().to_string(), || loader.file(model)))
            .collect::<Result<Vec<_>, _>>()?;

        let known = |name| kernels::description(name).unwrap_or_default().to_owned();
        let built_in = BUILT_IN.into_iter().zip([&empty, &busy, &vecadd]);
        let built_in = built_in.map(|(name, loaded)| (name, known(name), loaded));
        let models_described = config.models.iter().zip(&models).map(|(model, loaded)| {
            let file = model.path.file_name().unwrap_or_default().to_string_lossy();
            (model.name.as_str(), format!("{file}; {}", loaded.signature()), loaded)
        });
        let kernel = |(id, (name, description, loaded)): (usize, (&str, String, &Loaded))| Kernel {
            info: KernelInfo {
                id: KernelId(id as u32),
                name: keep(name),
                description: keep(&description),
            },
            signature: loaded.signature().clone(),
        };
        let kernels = built_in.chain(models_described).enumerate().map(kernel);
        let kernels = kernels.collect();
        let busy = Busy::new(busy, config.provider);
        Ok(Runtime { kernels, worker: Mutex::new(Some(Worker { empty, busy, vecadd, models })) })
    }
}

impl Backend for Runtime {
    type Worker = Worker;

    fn kernels(&self) -> Vec<KernelInfo> {
        self.kernels.iter().map(|kernel| kernel.info).collect()
    }

    fn plan(&self, launch: &Launch) -> Result<Plan, Error> {
        let kernel = self.kernels.get(launch.kernel.0 as usize);
        let Kernel { info, signature } = kernel.ok_or(Error::UnknownKernel(launch.kernel))?;
        let mut blocks = 1;
        match launch.kernel {
            EMPTY => {}
            BUSY => {
                kernels::check(info.name, launch)?;
                // At most ten minutes of them.
                blocks = kernels::busy_blocks(launch.arguments[0]) as u32;
            }
            VECADD => {
                kernels::check(info.name, launch)?;
                // As many as in that check, which has found them to fit.
                blocks = vecadd::blocks(launch.arguments[0]) as u32;
            }
            _ => {
                let batch = signature.batch(info.name, &launch.arguments)?;
                holds("input", &launch.input, signature.input_bytes(batch))?;
                holds("output", &launch.output, signature.output_bytes(batch))?;
            }
        }
        Ok(Plan { blocks, workspace: 0, finishes: false })
    }

    fn worker(&self, _: usize) -> Result<Worker, String> {
        let mut seat = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let mut worker = seat.take().ok_or("the only context is in use")?;
        drop(seat);
        // Here, where the blocks will run: on their core.
        worker.busy.calibrate()?;
        Ok(worker)
    }

    fn block(&self, worker: &mut Worker, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        match task.kernel {
            EMPTY => worker.empty.run(1).map_err(|_| FailureCode::Kernel),
            BUSY => worker.busy.run(kernels::busy_block_ns(task.arguments[0], block)),
            VECADD => vecadd::run(&mut worker.vecadd, task, block),
            KernelId(id) => {
                let index = id as usize;
                let kernel = self.kernels.get(index).ok_or(FailureCode::Kernel)?;
                let batch = kernel.signature.batch(kernel.info.name, &task.arguments);
                let batch = batch.map_err(|_| FailureCode::Kernel)?;
                worker.models[index - BUILT_IN.len()].compute(batch, &task.input, &task.output)
            }
        }
    }
}

/// The buffer has this many bytes.
fn holds(buffer: &'static str, memory: &PeerSlice, needed: u64) -> Result<(), Error> {
    let length = memory.len() as u64;
    if needed <= length { Ok(()) } else { Err(Error::ShortBuffer { buffer, needed, length }) }
}

/// Runs `act` on `file`, where the binding to the runtime may panic at something that it does not
/// expect of a file.
fn no_panic<T>(file: &str, act: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    catch_unwind(AssertUnwindSafe(act)).unwrap_or_else(|panic| {
        Err(Error::Start(format!(
            "{file}: the binding to ONNX Runtime panicked: {}",
            said(&*panic)
        )))
    })
}

fn said(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no reason")
}

/// The same text, kept as long as the process, once: names of kernels are shared that way.
fn keep(text: &str) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(kept) = kept.get(text) {
        return kept;
    }
    let text: &'static str = Box::leak(text.into());
    kept.insert(text);
    text
}

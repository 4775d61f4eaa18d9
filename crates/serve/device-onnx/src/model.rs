//! A model in memory, with tensors for each size of its batch.

use crate::library;
use crate::signature::{Signature, Tensor};
use crate::{Config, Model, Provider};
use device::{Error, FailureCode};
use ort::environment::{Environment, ThreadManager};
use ort::ep;
use ort::logging::LogLevel;
use ort::memory::Allocator;
use ort::session::builder::SessionBuilder;
use ort::session::{IoBinding, Session};
use ort::value::{DynTensor, PrimitiveTensorElementType};
use realtime::thread::{self, Scheduling};
use shm::memory::PeerSlice;
use std::path::PathBuf;
use std::thread::JoinHandle;

/// Loads models as a configuration says.
pub(crate) struct Loader {
    library: PathBuf,
    environment: Environment,
    provider: Provider,
    threads: usize,
    policy: Scheduling,
}

/// A model that is ready to run.
pub(crate) struct Loaded {
    signature: Signature,
    session: Session,
    /// Frames by the size of the batch, from one on.
    frames: Vec<Frame>,
    /// True if the provider computes in memory of its own, so that inputs are copied when they are
    /// bound.
    remote: bool,
}

/// Tensors of one size, bound to the session.
struct Frame {
    inputs: Vec<DynTensor>,
    outputs: Vec<DynTensor>,
    binding: IoBinding,
}

impl Loader {
    pub(crate) fn new(config: &Config) -> Result<Loader, Error> {
        let (library, environment) = library::load(config.library.as_deref())?;
        let Config { provider, threads, policy, .. } = *config;
        Ok(Loader { library, environment, provider, threads, policy })
    }

    /// Loads a model of this crate, for one thread.
    pub(crate) fn built_in(&self, name: &str, model: &[u8]) -> Result<Loaded, Error> {
        let session = self.builder(1)?.commit_from_memory(model);
        self.prepare(session, 1)
            .map_err(|why| Error::Start(format!("{}: graph {name}: {why}", self.library.display())))
    }

    /// Loads a model from its file.
    pub(crate) fn file(&self, model: &Model) -> Result<Loaded, Error> {
        let Model { name, path, most } = model;
        let wrong =
            |why: String| Error::Start(format!("model {name:?}, {}: {why}", path.display()));
        if let Err(error) = std::fs::File::open(path) {
            return Err(wrong(format!("{error}; expected a model in an .onnx file")));
        }
        let session = self.builder(self.threads)?.commit_from_file(path);
        self.prepare(session, *most).map_err(wrong)
    }

    fn builder(&self, threads: usize) -> Result<SessionBuilder, Error> {
        self.try_builder(threads).map_err(|error| {
            let (library, provider) = (self.library.display(), self.provider);
            Error::Start(format!("{library}: {error}; expected a library with provider {provider}"))
        })
    }

    fn try_builder(&self, threads: usize) -> ort::Result<SessionBuilder> {
        let mut builder = Session::builder(&self.environment)?
            // An error is told to the caller, who may ask for it again and again.
            .with_log_level(LogLevel::Fatal)?
            .with_intra_threads(threads)?
            .with_inter_threads(1)?
            .with_intra_op_spinning(false)?;
        if threads > 1 {
            builder = builder.with_thread_manager(Threads(self.policy))?;
        }
        Ok(match self.provider {
            Provider::Cpu => builder,
            Provider::Cuda { device } => {
                let cuda = ep::CUDA::default().with_device_id(device.into());
                builder.with_execution_providers([cuda.build().error_on_failure()])?
            }
        })
    }

    fn prepare(&self, session: ort::Result<Session>, most: u32) -> Result<Loaded, String> {
        let session =
            session.map_err(|error| format!("cannot be loaded: {error}; expected a model"))?;
        let signature = Signature::of(&session, most)?;
        let mut loaded = Loaded {
            signature,
            session,
            frames: Vec::new(),
            remote: self.provider != Provider::Cpu,
        };
        for batch in 1..=loaded.signature.most {
            let frame = Frame::new(&loaded.session, &loaded.signature, batch);
            let run = frame.and_then(|frame| {
                loaded.frames.push(frame);
                loaded.run(batch)
            });
            run.map_err(|error| {
                let what = "expected a model that takes zeros and gives what it declares";
                format!("a run with a batch of {batch} failed: {error}; {what}")
            })?;
        }
        Ok(loaded)
    }
}

impl Loaded {
    pub(crate) fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Runs the model on a batch of inputs that lie in peer memory.
    pub(crate) fn compute(
        &mut self,
        batch: u32,
        input: &PeerSlice,
        output: &PeerSlice,
    ) -> Result<(), FailureCode> {
        let frame = frame(&mut self.frames, batch);
        let mut at = 0;
        for (tensor, value) in self.signature.inputs.iter().zip(&mut frame.inputs) {
            let bytes = tensor.kind.bytes_of(value).map_err(|_| FailureCode::Kernel)?;
            input.read(at, bytes).map_err(|_| FailureCode::Memory)?;
            at += bytes.len();
        }
        self.run(batch).map_err(|_| FailureCode::Kernel)?;
        let frame = self::frame(&mut self.frames, batch);
        let mut at = 0;
        for (tensor, value) in self.signature.outputs.iter().zip(&mut frame.outputs) {
            let bytes = tensor.kind.bytes_of(value).map_err(|_| FailureCode::Kernel)?;
            output.write(at, bytes).map_err(|_| FailureCode::Memory)?;
            at += bytes.len();
        }
        Ok(())
    }

    /// Runs the model on what is in the tensors of a batch.
    pub(crate) fn run(&mut self, batch: u32) -> ort::Result<()> {
        let frame = frame(&mut self.frames, batch);
        if self.remote {
            for (tensor, value) in self.signature.inputs.iter().zip(&frame.inputs) {
                frame.binding.bind_input(tensor.name.as_str(), value)?;
            }
        }
        self.session.run_binding(&frame.binding)?;
        if self.remote {
            frame.binding.synchronize_outputs()?;
        }
        Ok(())
    }

    /// The numbers of an input of a graph of this crate.
    pub(crate) fn input<T: PrimitiveTensorElementType>(
        &mut self,
        index: usize,
    ) -> ort::Result<&mut [T]> {
        let value = &mut frame(&mut self.frames, 1).inputs[index];
        Ok(value.try_extract_tensor_mut()?.1)
    }

    /// The numbers of an output of a graph of this crate.
    pub(crate) fn output<T: PrimitiveTensorElementType>(&self, index: usize) -> ort::Result<&[T]> {
        Ok(self.frames[0].outputs[index].try_extract_tensor()?.1)
    }
}

/// The frame of a batch that a signature has found to be in range.
fn frame(frames: &mut [Frame], batch: u32) -> &mut Frame {
    &mut frames[batch as usize - 1]
}

impl Frame {
    fn new(session: &Session, signature: &Signature, batch: u32) -> ort::Result<Frame> {
        // Filled with zeros.
        let new = |tensor: &Tensor| {
            DynTensor::new(&Allocator::default(), tensor.kind.element(), tensor.shape(batch))
        };
        let inputs = signature.inputs.iter().map(new).collect::<ort::Result<Vec<_>>>()?;
        let mut outputs = signature.outputs.iter().map(new).collect::<ort::Result<Vec<_>>>()?;
        let mut binding = session.create_binding()?;
        for (tensor, value) in signature.inputs.iter().zip(&inputs) {
            binding.bind_input(tensor.name.as_str(), value)?;
        }
        for (tensor, value) in signature.outputs.iter().zip(&mut outputs) {
            binding.bind_output(tensor.name.as_str(), value)?;
        }
        Ok(Frame { inputs, outputs, binding })
    }
}

/// Makes the further threads of a model, with the policy of the device.
struct Threads(Scheduling);

impl ThreadManager for Threads {
    type Thread = JoinHandle<()>;

    fn create(&self, work: impl FnOnce() + Send + 'static) -> ort::Result<JoinHandle<()>> {
        let policy = self.0;
        let thread = std::thread::Builder::new().spawn(move || {
            thread::set_name("unit-helper");
            // A refusal is told by the unit's own.
            let _ = thread::set_policy(policy);
            work();
        });
        thread.map_err(|error| ort::Error::new(error.to_string()))
    }

    fn join(thread: JoinHandle<()>) -> ort::Result<()> {
        // It has ended, in whatever way.
        let _ = thread.join();
        Ok(())
    }
}

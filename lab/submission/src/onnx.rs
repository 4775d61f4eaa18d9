//! ONNX Runtime: the network as a model, run by one launch of a device whose kernel it is.
//!
//! The uploads and downloads are the copies between the launch's memory and the model's tensors,
//! which the device makes before and after the run. What the step `load` took has in it that the
//! device measures its own speed for 100 ms when it starts.

mod message;
mod model;

use crate::method::Steps;
use crate::network::{Network, Output};
use crate::{About, Accelerator, Built, Error, Method, Run};
use device::{ContextId, Device, Event, Launch, Level, Status, StreamId};
use device_onnx::{Config, LIBRARY_VARIABLE, Model, OnnxDevice};
use shm::memory::PeerSlice;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;

/// The name of the model's kernel.
const KERNEL: &str = "network";

pub(crate) fn open(core: Option<usize>) -> Result<Box<dyn Accelerator>, Error> {
    // Without a model, to find out whether it works.
    let device =
        device_onnx::start(&Config { core, ..Config::default() }).map_err(|error| match error {
            device::Error::Start(why) => Error::Unavailable(why),
            other => Error::Unavailable(other.to_string()),
        })?;
    let about = About {
        id: "onnx".into(),
        name: device.properties().name.clone(),
        driver: library().unwrap_or_else(|| "of unknown version".into()),
    };
    Ok(Box::new(Onnx { core, about }))
}

/// The file name of the runtime's library, which ends with its version.
fn library() -> Option<String> {
    let path = PathBuf::from(std::env::var_os(LIBRARY_VARIABLE)?).canonicalize().ok()?;
    Some(path.file_name()?.to_string_lossy().into_owned())
}

struct Onnx {
    core: Option<usize>,
    about: About,
}

impl Accelerator for Onnx {
    fn about(&self) -> &About {
        &self.about
    }

    fn methods(&self) -> Vec<(Method, Result<(), String>)> {
        vec![(Method::Model, Ok(()))]
    }

    fn build(&mut self, method: Method, network: &Network) -> Result<Built<'_>, Error> {
        if method != Method::Model {
            return Err(Error::Unavailable(format!("{} with ONNX Runtime", method.name())));
        }
        let mut steps = Steps::default();
        let (folder, file) = steps.step("write", || write(network))?;
        let config =
            Config { models: vec![Model::new(KERNEL, file)], core: self.core, ..Config::default() };
        let device = steps
            .step("load", || device_onnx::start(&config))
            .map_err(|error| Error::failed("loading the model", error))?;
        // The runtime has read it.
        drop(folder);
        let run = steps.step("allocate", || Launched::new(device, network))?;
        Ok(Built { run: Box::new(run), steps: steps.all() })
    }
}

/// Writes the network as a model. The file lives as long as its folder.
fn write(network: &Network) -> Result<(TempDir, PathBuf), Error> {
    let failed = |error: std::io::Error| Error::failed("writing the model", error);
    let folder = tempfile::tempdir().map_err(failed)?;
    let file = folder.path().join("network.onnx");
    std::fs::write(&file, model::encode(network.shape)).map_err(failed)?;
    Ok((folder, file))
}

/// A network as launches of a device that has its model.
struct Launched {
    device: Arc<OnnxDevice>,
    context: ContextId,
    stream: StreamId,
    launch: Launch,
    event: Event,
}

fn refused(error: device::Error) -> Error {
    Error::failed("submitting to ONNX Runtime", error)
}

fn memory(error: shm::Error) -> Error {
    Error::failed("taking memory", error)
}

impl Launched {
    fn new(device: Arc<OnnxDevice>, network: &Network) -> Result<Launched, Error> {
        let parts = [&network.input, &network.weights, &network.filter, &network.bias];
        let values = parts.map(Vec::as_slice).concat();
        let input = PeerSlice::anonymous(size_of_val(values.as_slice())).map_err(memory)?;
        input.write_f32(0, &values).map_err(memory)?;
        let output = PeerSlice::anonymous(2 * network.shape.area() * size_of::<f32>());
        let output = output.map_err(memory)?;
        let none = || Error::failed("loading the model", "the device does not have it");
        let kernel = device.kernel(KERNEL).ok_or_else(none)?;
        let launch = Launch { input, output, ..Launch::new(kernel, [0; 4]) };
        let context = device.create_context().map_err(refused)?;
        let stream = device.create_stream(context, Level(0)).map_err(refused)?;
        Ok(Launched { device, context, stream, launch, event: Event::new() })
    }
}

impl Run for Launched {
    fn submit(&mut self) -> Result<(), Error> {
        self.device.launch(self.stream, self.launch.clone(), &self.event).map_err(refused)
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(self.event.query().is_some())
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.event.wait();
        Ok(())
    }

    fn output(&mut self) -> Result<Output, Error> {
        let status = self.event.query().map(|outcome| outcome.status);
        if status != Some(Status::Done) {
            return Err(Error::failed("running the model", format!("{status:?}")));
        }
        let memory = &self.launch.output;
        let read = |from: usize| {
            let mut values = vec![0.0; memory.len() / size_of::<f32>() / 2];
            memory.read_f32(from * values.len(), &mut values).map_err(self::memory)?;
            Ok::<_, Error>(values)
        };
        Ok(Output { activated: read(0)?, convolved: read(1)? })
    }
}

impl Drop for Launched {
    fn drop(&mut self) {
        // It was made here, and takes its stream along.
        let _ = self.device.destroy_context(self.context);
    }
}

//! The software accelerator: each copy and each kernel a request into one stream, as the server
//! submits them.

use crate::method::Steps;
use crate::network::{FILTER, Network, Output};
use crate::{About, Accelerator, Built, Error, Method, Run};
use device::software::{Config, SoftwareDevice};
use device::{ContextId, Device, Event, KernelId, Launch, Level, Status, StreamId};
use shm::memory::PeerSlice;
use std::sync::Arc;

pub(crate) fn open(cores: &[usize]) -> Result<Box<dyn Accelerator>, Error> {
    // A copy engine of its own, as a GPU has; it shares the first unit's core.
    let config =
        Config { cores: cores.to_vec(), copy_core: cores.first().copied(), ..Config::default() };
    let device = SoftwareDevice::on_cores(config)
        .map_err(|error| Error::Unavailable(format!("the software accelerator: {error}")))?;
    let about = About {
        id: "cpu".into(),
        name: device.properties().name.clone(),
        driver: format!("Keeptime {}", env!("CARGO_PKG_VERSION")),
    };
    Ok(Box::new(Software { device, about }))
}

struct Software {
    device: Arc<SoftwareDevice>,
    about: About,
}

impl Accelerator for Software {
    fn about(&self) -> &About {
        &self.about
    }

    fn methods(&self) -> Vec<(Method, Result<(), String>)> {
        vec![(Method::Streams, Ok(()))]
    }

    fn build(&mut self, method: Method, network: &Network) -> Result<Built<'_>, Error> {
        if method != Method::Streams {
            return Err(Error::Unavailable(format!("{} on processor cores", method.name())));
        }
        let mut steps = Steps::default();
        let run = steps.step("allocate", || Streams::new(self.device.as_ref(), network))?;
        Ok(Built { run: Box::new(run), steps: steps.all() })
    }
}

/// The network as launches into one stream of a device.
struct Streams<'a> {
    device: &'a dyn Device,
    context: ContextId,
    stream: StreamId,
    copies: [Copy; 4],
    layer: [Launch; 3],
    layers: usize,
    downloads: [Copy; 2],
    /// Events, one for each operation, in order.
    events: Vec<Event>,
}

/// Copy from one place to another.
struct Copy {
    from: PeerSlice,
    to: PeerSlice,
}

/// Memory as the kernels expect it: what a kernel takes lies in one piece.
struct Memory {
    whole: PeerSlice,
    next: usize,
}

impl Memory {
    fn new(floats: usize) -> Result<Memory, Error> {
        let whole = PeerSlice::anonymous(4 * floats).map_err(memory)?;
        Ok(Memory { whole, next: 0 })
    }

    fn take(&mut self, floats: usize) -> Result<PeerSlice, Error> {
        let slice = self.whole.slice(4 * self.next, 4 * floats).map_err(memory)?;
        self.next += floats;
        Ok(slice)
    }

    /// Memory of two neighbours together.
    fn both(&self, first: usize, floats: usize) -> Result<PeerSlice, Error> {
        self.whole.slice(4 * first, 4 * floats).map_err(memory)
    }
}

fn memory(error: shm::Error) -> Error {
    Error::failed("taking memory", error)
}

fn refused(error: device::Error) -> Error {
    Error::failed("submitting to the software accelerator", error)
}

impl<'a> Streams<'a> {
    fn new(device: &'a dyn Device, network: &Network) -> Result<Streams<'a>, Error> {
        let (side, area) = (network.shape.side(), network.shape.area());
        let filter = FILTER * FILTER;
        // The device's: input and weights, product and filter, convolved and bias.
        let mut memory = Memory::new(4 * area + filter + side)?;
        let activated = memory.take(area)?;
        let weights = memory.take(area)?;
        let product = memory.take(area)?;
        let filters = memory.take(filter)?;
        let convolved = memory.take(area)?;
        let bias = memory.take(side)?;
        let kernel = |name: &str| {
            let none = || Error::Unavailable(format!("the device has no kernel {name}"));
            device.kernel(name).ok_or_else(none)
        };
        let launch = |kernel: KernelId, input, output| Launch {
            input,
            output,
            ..Launch::new(kernel, [side as u64, side as u64, 0, 0])
        };
        let layer = [
            launch(kernel("matmul")?, memory.both(0, 2 * area)?, product.clone()),
            launch(
                kernel("convolution")?,
                memory.both(2 * area, area + filter)?,
                convolved.clone(),
            ),
            launch(
                kernel("activation")?,
                memory.both(3 * area + filter, area + side)?,
                activated.clone(),
            ),
        ];
        // The host's.
        let upload = |data: &[f32], to: &PeerSlice| {
            let from = PeerSlice::anonymous(4 * data.len()).map_err(self::memory)?;
            from.write_f32(0, data).map_err(self::memory)?;
            Ok::<_, Error>(Copy { from, to: to.clone() })
        };
        let download = |from: &PeerSlice| {
            let to = PeerSlice::anonymous(from.len()).map_err(self::memory)?;
            Ok::<_, Error>(Copy { from: from.clone(), to })
        };
        let copies = [
            upload(&network.input, &activated)?,
            upload(&network.weights, &weights)?,
            upload(&network.filter, &filters)?,
            upload(&network.bias, &bias)?,
        ];
        let downloads = [download(&activated)?, download(&convolved)?];
        let layers = network.shape.l;
        let operations = copies.len() + 3 * layers + downloads.len();
        let events = (0..operations).map(|_| Event::new()).collect();
        let context = device.create_context().map_err(refused)?;
        let stream = device.create_stream(context, Level(0)).map_err(refused)?;
        Ok(Streams { device, context, stream, copies, layer, layers, downloads, events })
    }

    fn last(&self) -> &Event {
        self.events.last().unwrap_or_else(|| unreachable!("there are six copies"))
    }

    /// Checks each operation: all run in order, but each could have failed by itself.
    fn check(&self) -> Result<(), Error> {
        let failed =
            |event: &&Event| event.query().is_none_or(|outcome| outcome.status != Status::Done);
        match self.events.iter().find(failed) {
            None => Ok(()),
            Some(event) => {
                let why = format!("{:?}", event.query().map(|outcome| outcome.status));
                Err(Error::failed("running on the software accelerator", why))
            }
        }
    }
}

impl Run for Streams<'_> {
    fn submit(&mut self) -> Result<(), Error> {
        let mut events = self.events.iter();
        let mut event = || events.next().unwrap_or_else(|| unreachable!("one for each operation"));
        let copy = |copy: &Copy, event: &Event| {
            self.device.copy(self.stream, copy.from.clone(), copy.to.clone(), event)
        };
        for upload in &self.copies {
            copy(upload, event()).map_err(refused)?;
        }
        for _ in 0..self.layers {
            for launch in &self.layer {
                self.device.launch(self.stream, launch.clone(), event()).map_err(refused)?;
            }
        }
        for download in &self.downloads {
            copy(download, event()).map_err(refused)?;
        }
        Ok(())
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        Ok(self.last().query().is_some())
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.last().wait();
        Ok(())
    }

    fn output(&mut self) -> Result<Output, Error> {
        self.check()?;
        let read = |copy: &Copy| {
            let mut values = vec![0.0; copy.to.len() / 4];
            copy.to.read_f32(0, &mut values).map_err(memory)?;
            Ok::<_, Error>(values)
        };
        let [activated, convolved] = &self.downloads;
        Ok(Output { activated: read(activated)?, convolved: read(convolved)? })
    }
}

impl Drop for Streams<'_> {
    fn drop(&mut self) {
        // It was made here, and takes its stream along.
        let _ = self.device.destroy_context(self.context);
    }
}

//! NVIDIA GPUs, through the driver alone: no toolkit is needed to build, nor to run, but for the
//! device runtime ([`library`]) of the methods in which the GPU itself says what runs next.
//!
//! All methods run the same code for the kernels (`kernels/network.cuh`), copy between the same
//! buffers, and wait for each operation before the next one begins.

mod conditional;
mod device_graph;
mod driver;
mod graph;
mod layer;
mod library;
mod link;
mod memory;
mod parallelism;
mod persistent;
mod session;
mod streams;

use crate::method::Steps;
use crate::network::Network;
use crate::{About, Accelerator, Built, Error, Method};
use driver::Gpu;
use link::Image;

/// The first driver interface that takes the committed code, PTX 8.2.
const OLDEST: i32 = 12_020;
/// The first one with loops in graphs as they are used here.
const LOOPS: i32 = 12_040;
/// The GPU that the committed code is for, or a newer one.
const CAPABILITY: (i32, i32) = (7, 5);

pub(crate) fn open(ordinal: usize) -> Result<Box<dyn Accelerator>, Error> {
    let gpu = Gpu::open(ordinal)?;
    let about =
        About { id: format!("cuda:{ordinal}"), name: gpu.name.clone(), driver: gpu.driver() };
    let usable = usable(&gpu);
    let linked = |name: &str, ptx: &str| {
        usable.clone()?;
        link::link(name, ptx, gpu.version)
    };
    let images = Images {
        parallelism: linked("parallelism", parallelism::PTX),
        launcher: linked("launcher", device_graph::PTX),
        // The driver is asked first: an old one could not even link it.
        count: loops(&gpu).and_then(|()| linked("loop", conditional::PTX)),
    };
    Ok(Box::new(Cuda { gpu, about, usable, images }))
}

struct Cuda {
    gpu: Gpu,
    about: About,
    /// Reason why none of the methods works.
    usable: Result<(), String>,
    images: Images,
}

/// Code that was linked with the device runtime, or why it was not.
struct Images {
    parallelism: Result<Image, String>,
    launcher: Result<Image, String>,
    count: Result<Image, String>,
}

/// Written as 12.2 is, from 12020.
fn version(number: i32) -> String {
    format!("{}.{}", number / 1000, number % 1000 / 10)
}

fn usable(gpu: &Gpu) -> Result<(), String> {
    if gpu.version < OLDEST {
        let (has, needs) = (version(gpu.version), version(OLDEST));
        return Err(format!("the driver is of CUDA {has}, the kernels need {needs} or later"));
    }
    if gpu.capability < CAPABILITY {
        let ((a, b), (c, d)) = (gpu.capability, CAPABILITY);
        return Err(format!("the GPU has compute capability {a}.{b}, the kernels need {c}.{d}"));
    }
    Ok(())
}

fn loops(gpu: &Gpu) -> Result<(), String> {
    if gpu.version >= LOOPS {
        return Ok(());
    }
    let (has, needs) = (version(gpu.version), version(LOOPS));
    Err(format!("the driver is of CUDA {has}, loops in graphs came with {needs}"))
}

fn cooperative(gpu: &Gpu) -> Result<(), String> {
    if gpu.cooperative {
        return Ok(());
    }
    Err("the GPU cannot promise that all blocks of a kernel run at once (cooperative launch)"
        .into())
}

impl Cuda {
    fn works(&self, method: Method) -> Result<(), String> {
        self.usable.clone()?;
        let linked =
            |image: &Result<Image, String>| image.as_ref().map(|_| ()).map_err(Clone::clone);
        match method {
            Method::Streams | Method::Graph => Ok(()),
            Method::DynamicParallelism => linked(&self.images.parallelism),
            Method::DeviceGraph => linked(&self.images.launcher),
            Method::ConditionalGraph => linked(&self.images.count),
            Method::PersistentKernel => cooperative(&self.gpu),
            Method::CommandBuffer | Method::Model => Err("CUDA has no such method".into()),
        }
    }
}

const METHODS: [Method; 6] = [
    Method::Streams,
    Method::Graph,
    Method::DynamicParallelism,
    Method::DeviceGraph,
    Method::ConditionalGraph,
    Method::PersistentKernel,
];

impl Accelerator for Cuda {
    fn about(&self) -> &About {
        &self.about
    }

    fn methods(&self) -> Vec<(Method, Result<(), String>)> {
        METHODS.iter().map(|method| (*method, self.works(*method))).collect()
    }

    fn build(&mut self, method: Method, network: &Network) -> Result<Built<'_>, Error> {
        self.works(method).map_err(Error::Unavailable)?;
        self.gpu.enter()?;
        let mut steps = Steps::default();
        let (gpu, images) = (&self.gpu, &self.images);
        let image = |image: &'_ Result<Image, String>| image.clone().map_err(Error::Unavailable);
        let run = match method {
            Method::Streams => streams::build(gpu, network, &mut steps),
            Method::Graph => graph::build(gpu, network, &mut steps),
            Method::DynamicParallelism => {
                parallelism::build(gpu, network, &image(&images.parallelism)?, &mut steps)
            }
            Method::DeviceGraph => {
                device_graph::build(gpu, network, &image(&images.launcher)?, &mut steps)
            }
            Method::ConditionalGraph => {
                conditional::build(gpu, network, &image(&images.count)?, &mut steps)
            }
            Method::PersistentKernel => persistent::build(gpu, network, &mut steps),
            Method::CommandBuffer | Method::Model => {
                unreachable!("refused above")
            }
        }?;
        Ok(Built { run, steps: steps.all() })
    }
}

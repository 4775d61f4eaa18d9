//! Kernels of a GPU, and the division of their launches into slices: the knowledge that a server
//! has of a GPU without having it.

use crate::Config;
use crate::builtin::{self, Manner, NAMES, Shape};
use crate::service::Service;
use device::hosted::Plan;
use device::{Error, KernelId, KernelInfo, Launch, kernels};

/// The kernels of a GPU: built in, then the users'.
pub(crate) struct Catalog {
    kernels: Vec<Kernel>,
    manner: Manner,
    /// Nothing is cut into slices.
    whole: bool,
}

/// A kernel, or a library in place of one.
pub(crate) struct Kernel {
    /// Entry in the list that clients see.
    pub info: KernelInfo,
    /// None for the built-in ones.
    pub service: Option<Service>,
}

impl Kernel {
    /// Returns true if it is the built-in one of this name.
    pub(crate) fn is(&self, name: &str) -> bool {
        self.service.is_none() && self.info.name == name
    }
}

impl Catalog {
    /// The built-in kernels and these services.
    ///
    /// # Errors
    /// Two have one name.
    pub(crate) fn new(config: &Config, fill: u64) -> Result<Catalog, String> {
        let mut kernels: Vec<Kernel> = NAMES.into_iter().enumerate().map(built_in).collect();
        for service in &config.services {
            if kernels.iter().any(|kernel| kernel.info.name == service.name) {
                let name = &service.name;
                return Err(format!("service {name}: there is a kernel of this name already"));
            }
            // Once for each start, and there are few.
            let leaked =
                |text: &String| -> &'static str { Box::leak(text.clone().into_boxed_str()) };
            let info = KernelInfo {
                id: KernelId(kernels.len() as u32),
                name: leaked(&service.name),
                description: leaked(&service.description),
            };
            kernels.push(Kernel { info, service: Some(service.clone()) });
        }
        let Config { blocks_per_slice, in_place, whole, .. } = *config;
        Ok(Catalog { kernels, manner: Manner { blocks_per_slice, in_place, fill }, whole })
    }

    /// Returns the number of blocks of `busy` that fill the GPU.
    pub(crate) fn fill(&self) -> u64 {
        self.manner.fill
    }

    /// All of them, as clients see them.
    pub(crate) fn infos(&self) -> Vec<KernelInfo> {
        self.kernels.iter().map(|kernel| kernel.info).collect()
    }

    /// The users'.
    pub(crate) fn services(&self) -> impl Iterator<Item = &Service> {
        self.kernels.iter().filter_map(|kernel| kernel.service.as_ref())
    }

    /// The kernel of a launch, and its shape.
    ///
    /// # Errors
    /// As [`device::Device::check`].
    pub(crate) fn shape(&self, launch: &Launch) -> Result<(&Kernel, Shape), Error> {
        let unknown = Error::UnknownKernel(launch.kernel);
        let kernel = self.kernels.get(launch.kernel.0 as usize).ok_or(unknown)?;
        let shape = match &kernel.service {
            Some(service) => builtin::shape_of(service, launch),
            None => builtin::shape(kernel.info.name, launch, self.manner),
        };
        let shape = shape?;
        let slice = if self.whole { shape.blocks.max(1) } else { shape.slice };
        Ok((kernel, Shape { slice, ..shape }))
    }

    /// Divides a launch into slices.
    ///
    /// # Errors
    /// As [`device::Device::check`].
    pub(crate) fn plan(&self, launch: &Launch) -> Result<Plan, Error> {
        let (kernel, shape) = self.shape(launch)?;
        shape.plan(kernel.info.name, launch)
    }
}

fn built_in((number, name): (usize, &'static str)) -> Kernel {
    let description = kernels::description(name).unwrap_or_default();
    let info = KernelInfo { id: KernelId(number as u32), name, description };
    Kernel { info, service: None }
}

//! Vulkan devices: one command buffer, recorded before.
//!
//! All copies and kernels of a network are recorded once into a primary command buffer, with a
//! barrier after each kernel. A submission is one `vkQueueSubmit` of it, whose end a timeline
//! semaphore tells. There is one queue, with the highest priority that a queue can have.

mod commands;
mod data;
mod pipelines;
mod submission;

use crate::method::Steps;
use crate::network::Network;
use crate::{About, Accelerator, Built, Error, Method};
use ash::vk;
use commands::Commands;
use data::Data;
use device_vulkan::Select;
use device_vulkan::raw::{LogicalDevice, Wanted};
use pipelines::Pipelines;
use std::cell::Cell;
use std::mem::ManuallyDrop;
use submission::Submission;

pub(crate) fn open(index: usize) -> Result<Box<dyn Accelerator>, Error> {
    // The kernels are this crate's own, and stay inside their buffers.
    let wanted = Wanted { queues: 1, robust: false };
    let device = LogicalDevice::open(&Select::Index(index), wanted)
        .map_err(|error| Error::Unavailable(format!("Vulkan device {index}: {error}")))?;
    let found = device.found();
    let [major, minor, patch] = found.vulkan;
    let about = About {
        id: format!("vulkan:{index}"),
        name: found.name.clone(),
        driver: format!("Vulkan {major}.{minor}.{patch}, {}", found.driver),
    };
    Ok(Box::new(Vulkan { device: ManuallyDrop::new(device), about, stuck: Cell::new(false) }))
}

struct Vulkan {
    device: ManuallyDrop<LogicalDevice>,
    about: About,
    /// Something that was submitted does not end: nothing that it may use is ever destroyed.
    stuck: Cell<bool>,
}

impl Accelerator for Vulkan {
    fn about(&self) -> &About {
        &self.about
    }

    fn methods(&self) -> Vec<(Method, Result<(), String>)> {
        vec![(Method::CommandBuffer, Ok(()))]
    }

    fn build(&mut self, method: Method, network: &Network) -> Result<Built<'_>, Error> {
        if method != Method::CommandBuffer {
            return Err(Error::Unavailable(format!("{} with Vulkan", method.name())));
        }
        if self.stuck.get() {
            return Err(Error::failed("building", "an earlier submission has not ended"));
        }
        let device = &*self.device;
        let mut steps = Steps::default();
        let pipelines = steps.step("compile", || Pipelines::new(device))?;
        let data = steps.step("allocate", || Data::new(device, &pipelines, network))?;
        let commands =
            steps.step("record", || Commands::new(device, &pipelines, &data, network.shape))?;
        let submission = Submission::new(device, pipelines, data, commands, &self.stuck)?;
        Ok(Built { run: Box::new(submission), steps: steps.all() })
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        if !self.stuck.get() {
            // SAFETY: it is dropped once, here.
            unsafe { ManuallyDrop::drop(&mut self.device) };
        }
    }
}

/// Makes a function for `map_err` that names the failed call.
fn failed(call: &'static str) -> impl FnOnce(vk::Result) -> Error {
    move |result| Error::failed(call, result)
}

/// A failure of what `device_vulkan` does.
fn refused(doing: &'static str) -> impl FnOnce(device_vulkan::Error) -> Error {
    move |error| Error::failed(doing, error)
}

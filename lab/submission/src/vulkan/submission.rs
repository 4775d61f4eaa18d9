//! Recorded commands, submitted again and again.

use super::commands::Commands;
use super::data::Data;
use super::pipelines::Pipelines;
use super::{failed, refused};
use crate::network::Output;
use crate::{Error, Run};
use ash::vk;
use device_vulkan::raw::LogicalDevice;
use std::cell::Cell;
use std::mem::ManuallyDrop;

/// Time in nanoseconds after which a submission that has not ended is taken to hang.
const PATIENCE_NS: u64 = 120_000_000_000;
/// Time for which it is awaited before it is given up, when no thread waits for it.
const PARTING_NS: u64 = 10_000_000_000;

/// A network that is submitted by one call.
pub(super) struct Submission<'a> {
    device: &'a LogicalDevice,
    queue: vk::Queue,
    /// Destroyed when nothing runs any more.
    parts: ManuallyDrop<Parts<'a>>,
    /// Value of the semaphore when everything submitted has ended.
    value: u64,
    /// True while it is not known that everything submitted has ended.
    pending: bool,
    /// Told when something does not end.
    stuck: &'a Cell<bool>,
}

/// Objects that the device uses while it runs. Dropped in this order.
struct Parts<'a> {
    commands: Commands<'a>,
    semaphore: Semaphore<'a>,
    data: Data<'a>,
    _pipelines: Pipelines<'a>,
}

struct Semaphore<'a>(&'a LogicalDevice, vk::Semaphore);

impl Drop for Semaphore<'_> {
    fn drop(&mut self) {
        // SAFETY: it was made from this device, and nothing that signals it is pending.
        unsafe { self.0.destroy_semaphore(self.1, None) };
    }
}

impl<'a> Submission<'a> {
    pub(super) fn new(
        device: &'a LogicalDevice,
        pipelines: Pipelines<'a>,
        data: Data<'a>,
        commands: Commands<'a>,
        stuck: &'a Cell<bool>,
    ) -> Result<Submission<'a>, Error> {
        let semaphore = device.timeline().map_err(refused("making a semaphore"))?;
        let semaphore = Semaphore(device, semaphore);
        let queue = device.queues().pop();
        let queue = queue.ok_or_else(|| Error::failed("submitting", "there is no queue"))?;
        let parts = ManuallyDrop::new(Parts { commands, semaphore, data, _pipelines: pipelines });
        Ok(Submission { device, queue, parts, value: 0, pending: false, stuck })
    }

    /// Sleeps until the end, this number of nanoseconds at most.
    fn wait_for(&mut self, ns: u64) -> Result<(), Error> {
        let (semaphores, values) = ([self.parts.semaphore.1], [self.value]);
        let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
        // SAFETY: the semaphore is a timeline, and ours.
        let waited = unsafe { self.device.wait_semaphores(&info, ns) };
        self.note(waited, "vkWaitSemaphores")
    }

    /// Nothing is pending when all has ended, nor when the device is lost.
    fn note(&mut self, result: Result<(), vk::Result>, call: &'static str) -> Result<(), Error> {
        if matches!(result, Ok(()) | Err(vk::Result::ERROR_DEVICE_LOST)) {
            self.pending = false;
        }
        result.map_err(failed(call))
    }
}

impl Run for Submission<'_> {
    fn submit(&mut self) -> Result<(), Error> {
        if self.pending {
            return Err(Error::failed("submitting", "the last submission has not ended"));
        }
        let (buffers, semaphores) = ([self.parts.commands.buffer], [self.parts.semaphore.1]);
        let values = [self.value + 1];
        let mut timeline =
            vk::TimelineSemaphoreSubmitInfo::default().signal_semaphore_values(&values);
        let info = [vk::SubmitInfo::default()
            .command_buffers(&buffers)
            .signal_semaphores(&semaphores)
            .push_next(&mut timeline)];
        // SAFETY: the queue is used by this thread only; the commands are recorded, nothing of
        // them runs, and all that they use lives until they have ended.
        unsafe { self.device.queue_submit(self.queue, &info, vk::Fence::null()) }
            .map_err(failed("vkQueueSubmit"))?;
        self.value += 1;
        self.pending = true;
        Ok(())
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        // SAFETY: the semaphore is a timeline, and ours.
        match unsafe { self.device.get_semaphore_counter_value(self.parts.semaphore.1) } {
            Ok(value) => {
                self.pending = value < self.value;
                Ok(!self.pending)
            }
            Err(error) => {
                self.note(Err(error), "vkGetSemaphoreCounterValue")?;
                Ok(false)
            }
        }
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.wait_for(PATIENCE_NS)
    }

    fn output(&mut self) -> Result<Output, Error> {
        if self.pending || self.value == 0 {
            return Err(Error::failed("reading the output", "nothing was submitted and has ended"));
        }
        // SAFETY: nothing runs, as the semaphore has told; the last barrier made what was copied
        // visible to the host, whose memory is coherent.
        Ok(unsafe { self.parts.data.output() })
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        if self.pending {
            // If that fails something still runs, or may.
            let _ = self.wait_for(PARTING_NS);
        }
        if self.pending {
            self.stuck.set(true);
        } else {
            // SAFETY: it is dropped once, here, and the device uses none of it.
            unsafe { ManuallyDrop::drop(&mut self.parts) };
        }
    }
}

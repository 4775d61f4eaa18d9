//! Parts for a program that speaks Vulkan itself, below the device contract: this crate itself
//! stands on them.
//!
//! A [`LogicalDevice`] is found and opened as a [`crate::VulkanDevice`] is, and gives `ash`'s own
//! functions. Beside them there are a [`Buffer`] with memory of its own, pipelines, timeline
//! semaphores, and [`translate`], which makes SPIR-V of WGSL.

pub use crate::logical::{LogicalDevice, Wanted};
pub use crate::memory::{Buffer, MemoryPlace};
pub use crate::shader::{Checks, translate};

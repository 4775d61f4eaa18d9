//! The three kernels of a layer.

use super::{failed, refused};
use crate::Error;
use ash::vk;
use device_vulkan::raw::{Checks, LogicalDevice, translate};
use std::ffi::CStr;

/// Buffers that a kernel binds: two that it reads, one that it writes.
pub(super) const BINDINGS: usize = 3;
/// Bytes of the push constant: the side of the matrices.
pub(super) const SIDE_BYTES: u32 = 4;

/// Kernels in the order of a layer, with the names of their entry points.
const KERNELS: [(&CStr, &str); 3] = [
    (c"matmul", include_str!("../../shaders/matmul.wgsl")),
    (c"convolution", include_str!("../../shaders/convolution.wgsl")),
    (c"activation", include_str!("../../shaders/activation.wgsl")),
];

/// A layer's pipelines, which all have the same layout.
pub(super) struct Pipelines<'a> {
    device: &'a LogicalDevice,
    pub set_layout: vk::DescriptorSetLayout,
    pub layout: vk::PipelineLayout,
    /// Pipelines in the order of a layer.
    pub kernels: [vk::Pipeline; KERNELS.len()],
}

impl<'a> Pipelines<'a> {
    /// Translates the kernels and makes their pipelines.
    pub(super) fn new(device: &'a LogicalDevice) -> Result<Pipelines<'a>, Error> {
        // From here on a failure destroys what there is: null handles are left alone.
        let mut pipelines = Pipelines {
            device,
            set_layout: vk::DescriptorSetLayout::null(),
            layout: vk::PipelineLayout::null(),
            kernels: [vk::Pipeline::null(); KERNELS.len()],
        };
        pipelines.create_layouts()?;
        for (pipeline, (entry, text)) in pipelines.kernels.iter_mut().zip(KERNELS) {
            let name = entry.to_string_lossy();
            let words = translate(text, &name, Checks::Omitted)
                .map_err(|why| Error::failed(format!("translating {name}"), why))?;
            // SAFETY: the translation gives valid SPIR-V with this entry point, and the layout has
            // the three buffers and the constant that each of the kernels has.
            let made = unsafe { device.pipeline(&words, entry, pipelines.layout) };
            *pipeline = made.map_err(refused("making a pipeline"))?;
        }
        Ok(pipelines)
    }

    fn create_layouts(&mut self) -> Result<(), Error> {
        let bindings: [_; BINDINGS] = std::array::from_fn(|i| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(i as u32)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        });
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: the description is complete and outlives the call.
        self.set_layout = unsafe { self.device.create_descriptor_set_layout(&info, None) }
            .map_err(failed("vkCreateDescriptorSetLayout"))?;
        let layouts = [self.set_layout];
        let constants = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(SIDE_BYTES)];
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&layouts)
            .push_constant_ranges(&constants);
        // SAFETY: as above.
        self.layout = unsafe { self.device.create_pipeline_layout(&info, None) }
            .map_err(failed("vkCreatePipelineLayout"))?;
        Ok(())
    }
}

impl Drop for Pipelines<'_> {
    fn drop(&mut self) {
        // SAFETY: the submitter keeps them until nothing runs any more.
        unsafe {
            for pipeline in self.kernels {
                self.device.destroy_pipeline(pipeline, None);
            }
            self.device.destroy_pipeline_layout(self.layout, None);
            self.device.destroy_descriptor_set_layout(self.set_layout, None);
        }
    }
}

//! Kernels that the system file brings along, as each device wants them.
//!
//! Functions give none for a kernel that is another device's, which the file's reader has refused.

use crate::{Error, config_error};
use std::path::{Path, PathBuf};
#[cfg(feature = "vulkan")]
use system::Groups;
use system::{Kernel, Source};

/// The largest kernel that is read.
const MAX_BYTES: u64 = 256 << 20;

/// A model, for ONNX Runtime.
#[cfg(feature = "onnx")]
pub(super) fn model(
    kernel: &Kernel,
    file: impl Fn(&Path) -> PathBuf,
) -> Option<device_onnx::Model> {
    let Source::Model { path, batch } = &kernel.source else { return None };
    Some(device_onnx::Model { name: kernel.name.clone(), path: file(path), most: *batch })
}

/// A kernel or a library, for a GPU.
pub(super) fn service(
    kernel: &Kernel,
    file: impl Fn(&Path) -> PathBuf,
) -> Option<Result<device_cuda::Service, Error>> {
    let (program, description, [input, output]) = match &kernel.source {
        Source::Code {
            path,
            function,
            threads,
            items_per_block,
            blocks_per_slice,
            in_place,
            input,
            output,
        } => {
            let path = file(path);
            let text = match read(kernel, "code", &path, text) {
                Ok(text) => text,
                Err(error) => return Some(Err(error)),
            };
            let is_ptx = path.extension().is_some_and(|extension| extension == "ptx");
            let code =
                if is_ptx { device_cuda::Code::Ptx(text) } else { device_cuda::Code::Cuda(text) };
            let program = device_cuda::Program::Kernel(device_cuda::Function {
                code,
                name: function.clone(),
                threads: *threads,
                items_per_block: *items_per_block,
                blocks_per_slice: *blocks_per_slice,
                in_place: *in_place,
            });
            (program, format!("{function} of {}", path.display()), [input, output])
        }
        Source::Library { path, configuration, input, output } => {
            let (path, configuration) = (file(path), configuration.clone());
            let description = format!("{} {configuration}", path.display());
            (device_cuda::Program::Library { path, configuration }, description, [input, output])
        }
        Source::Model { .. } | Source::Shader { .. } => return None,
    };
    let bytes = |[fixed, per_item]: [u64; 2]| device_cuda::Bytes { fixed, per_item };
    Some(Ok(device_cuda::Service {
        name: kernel.name.clone(),
        description,
        program,
        input: bytes(*input),
        output: bytes(*output),
    }))
}

/// A compute shader, for a Vulkan device.
#[cfg(feature = "vulkan")]
pub(super) fn module(
    kernel: &Kernel,
    file: impl Fn(&Path) -> PathBuf,
) -> Option<Result<device_vulkan::Module, Error>> {
    let Source::Shader { path, entry, groups } = &kernel.source else { return None };
    let path = file(path);
    let is_spirv = path.extension().is_some_and(|extension| extension == "spv");
    let source = match is_spirv {
        true => read(kernel, "shader", &path, words).map(device_vulkan::Source::Spirv),
        false => read(kernel, "shader", &path, text).map(device_vulkan::Source::Wgsl),
    };
    let groups = match *groups {
        Groups::Fixed(groups) => device_vulkan::Groups::Fixed(groups),
        Groups::Items(per_group) => device_vulkan::Groups::Elements { argument: 0, per_group },
    };
    Some(source.map(|source| device_vulkan::Module {
        name: kernel.name.clone(),
        description: format!("{entry} of {}", path.display()),
        source,
        entry: entry.clone(),
        groups,
    }))
}

/// Reads a kernel's file; an error names the key of the kernel.
fn read<T>(
    kernel: &Kernel,
    key: &str,
    path: &Path,
    read: impl Fn(PathBuf) -> std::io::Result<T>,
) -> Result<T, Error> {
    read(path.to_owned()).map_err(|error| {
        let key = format!("kernels.{}.{key}", kernel.name);
        let expected = format!("expected a file that can be read: {error}");
        config_error(&key, &path.display().to_string(), &expected)
    })
}

fn text(path: PathBuf) -> std::io::Result<String> {
    files::text(&path, MAX_BYTES)
}

/// SPIR-V is words; the first one tells in which order their bytes are, which is this machine's
/// on all that are supported.
#[cfg(feature = "vulkan")]
fn words(path: PathBuf) -> std::io::Result<Vec<u32>> {
    let bytes = files::bytes(&path, MAX_BYTES)?;
    if bytes.is_empty() || bytes.len() % 4 != 0 {
        let what = format!("{} bytes are no SPIR-V", bytes.len());
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
    }
    let word = |bytes: &[u8]| u32::from_ne_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    Ok(bytes.chunks_exact(4).map(word).collect())
}

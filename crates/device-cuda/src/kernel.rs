//! The kernels of a GPU: built in, or what a user's service brings along.

use crate::builtin::NAMES;
use crate::context::Source;
use crate::library::Interface;
use crate::service::{Code, Function, Program, Service};
use cudarc::nvrtc;
use device::{KernelId, KernelInfo, kernels};
use std::panic::catch_unwind;
use std::sync::Arc;

/// A kernel, or a library in place of one.
pub struct Kernel {
    /// What clients see.
    pub info: KernelInfo,
    /// None for the built-in ones.
    pub service: Option<Service>,
    /// Of a service that is one.
    pub library: Option<Arc<Interface>>,
}

/// What every device offers.
pub fn built_in() -> Vec<Kernel> {
    let kernel = |(number, name): (usize, &'static str)| {
        let description = kernels::description(name).unwrap_or_default();
        let info = KernelInfo { id: KernelId(number as u32), name, description };
        Kernel { info, service: None, library: None }
    };
    NAMES.into_iter().enumerate().map(kernel).collect()
}

/// A user's service: compiled, or its library loaded.
///
/// # Errors
/// What is wrong with it.
pub fn read(service: &Service, known: &[Kernel]) -> Result<(Kernel, Option<Source>), String> {
    let name = &service.name;
    let what = format!("service {name}");
    if known.iter().any(|kernel| kernel.info.name == name) {
        return Err(format!("{what}: there is a kernel of this name already"));
    }
    let (source, library) = match &service.program {
        Program::Kernel(function) => (Some(source(&what, function)?), None),
        Program::Library { path, .. } => {
            let loaded = Interface::load(path).map_err(|why| format!("{what}: {why}"))?;
            (None, Some(loaded))
        }
    };
    // Once for each start, and there are few.
    let leaked = |text: &String| -> &'static str { Box::leak(text.clone().into_boxed_str()) };
    let info = KernelInfo {
        id: KernelId(known.len() as u32),
        name: leaked(name),
        description: leaked(&service.description),
    };
    Ok((Kernel { info, service: Some(service.clone()), library }, source))
}

fn source(what: &str, function: &Function) -> Result<Source, String> {
    if !(1..=1024).contains(&function.threads) {
        return Err(format!("{what}: {} threads of a block; 1 to 1024", function.threads));
    }
    let ptx = match &function.code {
        Code::Ptx(ptx) => ptx.clone(),
        Code::Cuda(source) => compile(what, source)?,
    };
    Ok(Source { what: what.to_owned(), ptx, function: function.name.clone() })
}

/// Compiles CUDA source.
fn compile(what: &str, source: &str) -> Result<String, String> {
    match catch_unwind(|| nvrtc::compile_ptx(source)) {
        Ok(Ok(ptx)) => Ok(ptx.to_src()),
        Ok(Err(nvrtc::CompileError::CompileError { log, .. })) => {
            Err(format!("{what}: it does not compile:\n{}", log.to_string_lossy().trim()))
        }
        Ok(Err(error)) => Err(format!("{what}: {error:?}")),
        Err(_) => Err(format!("{what}: CUDA source needs libnvrtc.so; give PTX instead")),
    }
}

//! The code of the users' kernels: compiled, or a library loaded.

use crate::context::Source;
use crate::library::Interface;
use crate::service::{Code, Function, Program, Service};
use cudarc::nvrtc;
use std::panic::catch_unwind;
use std::sync::Arc;

/// Program of a service, ready to be loaded into a context or opened.
pub(crate) enum Ready {
    /// Code of a kernel.
    Code(Source),
    /// A library in place of one.
    Library(Arc<Interface>),
}

/// Reads a service.
///
/// # Errors
/// The fault of the service.
pub(crate) fn read(service: &Service) -> Result<Ready, String> {
    let what = format!("service {}", service.name);
    match &service.program {
        Program::Kernel(function) => source(&what, function).map(Ready::Code),
        Program::Library { path, .. } => {
            Interface::load(path).map(Ready::Library).map_err(|why| format!("{what}: {why}"))
        }
    }
}

fn source(what: &str, function: &Function) -> Result<Source, String> {
    if !(1..=1024).contains(&function.threads) {
        return Err(format!("{what}: {} threads of a block, expected 1 to 1024", function.threads));
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

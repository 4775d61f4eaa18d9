//! Links code with the device runtime, by the driver, for the GPU whose context is current.

use super::driver::guarded;
use super::library;
use cudarc::driver::sys::CUjit_option::{
    CU_JIT_ERROR_LOG_BUFFER as LOG, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES as LOG_BYTES,
};
use cudarc::driver::sys::{self, CUjitInputType as Input};
use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::null_mut;
use std::sync::Arc;

/// Code for the GPU that it was linked for.
pub(super) type Image = Arc<[u8]>;

/// Links PTX with the device runtime of this machine.
///
/// # Errors
/// There is no device runtime, or none that the driver could link with, in the linker's words.
pub(super) fn link(name: &str, ptx: &str, driver: i32) -> Result<Image, String> {
    let mut refusals = Vec::new();
    for path in library::find(driver)? {
        match Linker::link(name, ptx, &path) {
            Ok(image) => return Ok(image),
            Err(why) => refusals.push(format!("with {}: {why}", path.display())),
        }
    }
    Err(refusals.join("; "))
}

struct Linker {
    state: sys::CUlinkState,
    /// Errors that the linker reports, as text; it ends with a zero.
    log: Vec<u8>,
}

impl Linker {
    fn link(name: &str, ptx: &str, runtime: &Path) -> Result<Image, String> {
        let linker = Linker::new()?;
        let linked = linker.add_all(name, ptx, runtime).and_then(|()| linker.complete());
        linked.map_err(|error| match linker.complaint() {
            complaint if complaint.is_empty() => error,
            complaint => format!("{error}: {complaint}"),
        })
    }

    fn new() -> Result<Linker, String> {
        let mut log = vec![0_u8; 4096];
        let mut options = [LOG, LOG_BYTES];
        // The size goes where a pointer would.
        let bytes = std::ptr::without_provenance_mut(log.len());
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), bytes];
        let mut state = null_mut();
        guarded("starting the linker", || {
            // SAFETY: as many values as options; the log lives as long as the linker.
            unsafe {
                let (names, values) = (options.as_mut_ptr(), values.as_mut_ptr());
                sys::cuLinkCreate_v2(2, names, values, &raw mut state).result()
            }
        })
        .map_err(|error| error.to_string())?;
        Ok(Linker { state, log })
    }

    fn add_all(&self, name: &str, ptx: &str, runtime: &Path) -> Result<(), String> {
        let text = |bytes: &[u8]| CString::new(bytes).map_err(|error| error.to_string());
        let (name, ptx) = (text(name.as_bytes())?, text(ptx.as_bytes())?);
        let runtime = text(runtime.as_os_str().as_bytes())?;
        let none = null_mut();
        guarded("linking code", || {
            let code = ptx.as_bytes_with_nul();
            // SAFETY: text that ends with a zero, of which the linker takes a copy; it only reads.
            unsafe {
                let start = code.as_ptr().cast_mut().cast();
                let (kind, bytes) = (Input::CU_JIT_INPUT_PTX, code.len());
                sys::cuLinkAddData_v2(
                    self.state,
                    kind,
                    start,
                    bytes,
                    name.as_ptr(),
                    0,
                    null_mut(),
                    none,
                )
                .result()
            }
        })
        .map_err(|error| error.to_string())?;
        guarded("linking the device runtime", || {
            // SAFETY: text that ends with a zero.
            unsafe {
                let kind = Input::CU_JIT_INPUT_LIBRARY;
                sys::cuLinkAddFile_v2(self.state, kind, runtime.as_ptr(), 0, null_mut(), none)
                    .result()
            }
        })
        .map_err(|error| error.to_string())
    }

    fn complete(&self) -> Result<Image, String> {
        let (mut start, mut bytes) = (null_mut(), 0);
        guarded("linking", || {
            // SAFETY: it writes where the code is.
            unsafe { sys::cuLinkComplete(self.state, &raw mut start, &raw mut bytes).result() }
        })
        .map_err(|error| error.to_string())?;
        // SAFETY: the code is so long, and is the linker's until it is destroyed.
        Ok(unsafe { std::slice::from_raw_parts(start.cast::<u8>(), bytes) }.into())
    }

    /// Error log in one line.
    fn complaint(&self) -> String {
        // SAFETY: the vector's own memory, which the linker wrote through the pointer it was given,
        // and does not write now.
        let byte = |i: usize| unsafe { self.log.as_ptr().add(i).read_volatile() };
        let bytes = (0..self.log.len()).map(byte).take_while(|byte| *byte != 0).collect();
        let text = String::from_utf8(bytes).unwrap_or_default();
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Linker {
    fn drop(&mut self) {
        // SAFETY: it was made here.
        let _ = guarded("ending the linker", || unsafe { sys::cuLinkDestroy(self.state).result() });
    }
}

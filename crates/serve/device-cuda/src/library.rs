//! Services that are shared libraries: `include/keeptime_service.h`.

use cudarc::driver::sys;
use libloading::{Library, Symbol};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::Arc;

/// The version of the interface.
const VERSION: u32 = 1;
/// Room for a library's words.
const ERROR_BYTES: usize = 1024;

type Open =
    unsafe extern "C" fn(u32, *const c_char, i32, *mut *mut c_void, *mut c_char, usize) -> c_int;
type Enqueue = unsafe extern "C" fn(*mut c_void, *mut c_void, u64, u64, *const [u64; 4]) -> c_int;
type Close = unsafe extern "C" fn(*mut c_void);

/// A library with the interface.
pub(crate) struct Interface {
    open: Open,
    enqueue: Enqueue,
    close: Close,
    // The functions live in it.
    _library: Library,
}

impl Interface {
    /// Loads a library.
    ///
    /// # Errors
    /// It cannot be loaded, or lacks one of the functions.
    pub(crate) fn load(path: &Path) -> Result<Arc<Interface>, String> {
        let file = path.display();
        // SAFETY: the author of the system file vouches for the library and its constructors.
        let library = unsafe { Library::new(path) }.map_err(|error| format!("{file}: {error}"))?;
        // SAFETY: the interface says what the functions of these names are.
        let interface = unsafe {
            Interface {
                open: *function::<Open>(&library, path, c"keeptime_service_open")?,
                enqueue: *function::<Enqueue>(&library, path, c"keeptime_service_enqueue")?,
                close: *function::<Close>(&library, path, c"keeptime_service_close")?,
                _library: library,
            }
        };
        Ok(Arc::new(interface))
    }

    /// Opens a service. The calling thread has the GPU's primary context.
    ///
    /// # Errors
    /// The library's own words.
    pub(crate) fn open(
        self: &Arc<Self>,
        configuration: &str,
        ordinal: usize,
    ) -> Result<Opened, String> {
        let zero = |_| "a zero byte in its configuration".to_owned();
        let configuration = CString::new(configuration).map_err(zero)?;
        let mut service = std::ptr::null_mut();
        let mut error = [0u8; ERROR_BYTES];
        // SAFETY: as the interface says; all memory outlives the call.
        let answer = unsafe {
            (self.open)(
                VERSION,
                configuration.as_ptr(),
                ordinal as i32,
                &raw mut service,
                error.as_mut_ptr().cast(),
                error.len(),
            )
        };
        if answer == 0 {
            return Ok(Opened { interface: self.clone(), service });
        }
        error[ERROR_BYTES - 1] = 0;
        let words = CStr::from_bytes_until_nul(&error).map(CStr::to_string_lossy);
        Err(format!("cannot be opened (code {answer}): {}", words.unwrap_or_default()))
    }
}

/// # Safety
/// `T` is the type of the function of that name.
unsafe fn function<'a, T>(
    library: &'a Library,
    path: &Path,
    name: &CStr,
) -> Result<Symbol<'a, T>, String> {
    // SAFETY: the caller's promise.
    let found = unsafe { library.get(name.to_bytes_with_nul()) };
    found.map_err(|error| format!("{}: {error}", path.display()))
}

/// A service of one unit.
pub(crate) struct Opened {
    interface: Arc<Interface>,
    service: *mut c_void,
}

impl Opened {
    /// Puts the work of a request into a stream. False if the library refuses.
    ///
    /// # Safety
    /// The memory is as long as the service needs, and stays until the work has ended; the stream
    /// is one of the context in which the service was opened, which is current.
    pub(crate) unsafe fn enqueue(
        &mut self,
        stream: sys::CUstream,
        input: sys::CUdeviceptr,
        output: sys::CUdeviceptr,
        arguments: &[u64; 4],
    ) -> bool {
        // SAFETY: the caller's promise; the service is this unit's own.
        unsafe {
            (self.interface.enqueue)(self.service, stream.cast(), input, output, arguments) == 0
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        // SAFETY: it was opened once, and its work has ended.
        unsafe { (self.interface.close)(self.service) }
    }
}

//! A GPU's context: what was loaded into it, and the memory it knows.
//!
//! A kernel that goes wrong breaks the context, and with it everything that was made in it and in
//! any other context of the process: the driver refuses all that is asked of it from then on.

use crate::builtin::{NAMES, PTX, REDUCE_PARTS};
use crate::driver::guarded;
use crate::pins::{Pins, Unused};
use cudarc::driver::{result, sys};
use shm::Mapping;
use std::ffi::{CString, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A kernel on the GPU.
#[derive(Clone, Copy)]
pub(crate) struct Entry(pub sys::CUfunction);

/// Code of a user's kernel: the PTX, and the name of the function in it.
pub(crate) struct Source {
    /// Name of its owner, for messages.
    pub what: String,
    /// The code.
    pub ptx: String,
    /// The function.
    pub function: String,
}

/// A context with what is loaded.
pub(crate) struct Context {
    gpu: sys::CUdevice,
    handle: sys::CUcontext,
    /// The built-in kernels in the order of [`NAMES`], then the users'; libraries have none.
    pub entries: Vec<Option<Entry>>,
    /// The kernel that follows `reduce`.
    pub reduce_parts: Entry,
    /// The clients' memory.
    pub pins: Pins,
    broken: AtomicBool,
}

// SAFETY: handles of the driver, which any thread may use that has made the context its own.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    /// Takes the primary context of a GPU and loads all kernels. It is the calling thread's
    /// current one then.
    ///
    /// # Errors
    /// The driver's error, and the thing that it is about.
    pub(crate) fn open(ordinal: usize, sources: &[Option<Source>]) -> Result<Context, String> {
        let (gpu, handle) = guarded(|| {
            let gpu = result::device::get(ordinal as i32)?;
            // SAFETY: the driver named this GPU just now.
            let handle = unsafe { result::primary_ctx::retain(gpu)? };
            // SAFETY: it was retained just now.
            unsafe { result::ctx::set_current(handle)? };
            Ok((gpu, handle))
        })?;
        let mut context = Context {
            gpu,
            handle,
            entries: Vec::new(),
            reduce_parts: Entry(std::ptr::null_mut()),
            pins: Pins::default(),
            broken: AtomicBool::new(false),
        };
        context.load(sources)?;
        Ok(context)
    }

    fn load(&mut self, sources: &[Option<Source>]) -> Result<(), String> {
        const OWN: &str = "Keeptime's kernels";
        let built_in = module(OWN, PTX)?;
        for name in NAMES {
            self.entries.push(Some(entry(built_in, OWN, &format!("kt_{name}"))?));
        }
        self.reduce_parts = entry(built_in, OWN, REDUCE_PARTS)?;
        for source in sources {
            let load = |source: &Source| {
                entry(module(&source.what, &source.ptx)?, &source.what, &source.function)
            };
            self.entries.push(source.as_ref().map(load).transpose()?);
        }
        Ok(())
    }

    /// The GPU's number in the driver's words.
    pub(crate) fn gpu(&self) -> sys::CUdevice {
        self.gpu
    }

    /// Makes it the calling thread's current context.
    ///
    /// # Errors
    /// The driver's error.
    pub(crate) fn enter(&self) -> Result<(), String> {
        // SAFETY: it was retained, and is released only when this goes.
        guarded(|| unsafe { result::ctx::set_current(self.handle) })
    }

    /// Runs `act` with the context current to the calling thread, whichever thread that is.
    pub(crate) fn with(&self, act: impl FnOnce()) {
        let _ = guarded(|| {
            let before = result::ctx::get_current()?;
            // SAFETY: as in `enter`.
            unsafe { result::ctx::set_current(self.handle)? };
            act();
            // SAFETY: it was current just now.
            unsafe { result::ctx::set_current(before.unwrap_or(std::ptr::null_mut())) }
        });
    }

    /// Returns true if nothing can run in it any more.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Finds out if the driver refuses everything after an error; then it is broken.
    pub(crate) fn find_out(&self) -> bool {
        // Not by waiting for anything: something else may never end.
        // SAFETY: the stream that every context has.
        let answer = guarded(|| unsafe { Ok(sys::cuStreamQuery(std::ptr::null_mut())) });
        use sys::CUresult::{CUDA_ERROR_NOT_READY, CUDA_SUCCESS};
        let sound = matches!(answer, Ok(CUDA_SUCCESS | CUDA_ERROR_NOT_READY));
        if !sound {
            self.broken.store(true, Ordering::Relaxed);
        }
        !sound
    }

    /// Lets go of the memory that only the driver still holds. Not by the calling thread, for the
    /// driver may wait for what runs.
    pub(crate) fn sweep(&self) {
        self.drop_aside(self.pins.unused());
    }

    /// Lets go of memory that only the driver and the caller still hold, likewise.
    pub(crate) fn let_go(&self, memory: &Arc<Mapping>) {
        self.drop_aside(self.pins.take(memory));
    }

    fn drop_aside(&self, unused: Unused) {
        if unused.is_empty() {
            return;
        }
        let context = Current(self.handle);
        let sweep = move || {
            let Current(handle) = { context };
            // SAFETY: a context that has gone meanwhile is refused.
            let _ = guarded(|| unsafe { result::ctx::set_current(handle) });
            drop(unused);
        };
        // Without a thread this one tells the driver, which refuses if it has no context.
        let _ = std::thread::Builder::new().name("cuda-sweep".into()).spawn(sweep);
    }

    /// Gives the context back. Nothing of it runs any more, and it is not broken.
    pub(crate) fn close(&self) {
        self.with(|| self.pins.clear());
        // SAFETY: it was retained when this was opened.
        let _ = guarded(|| unsafe { result::primary_ctx::release(self.gpu) });
    }

    /// Lets go of a context that is broken: it goes with the process.
    pub(crate) fn abandon(&self) {
        self.pins.leak();
    }
}

/// A context for another thread.
struct Current(sys::CUcontext);

// SAFETY: a handle of the driver, which any thread may use.
unsafe impl Send for Current {}

/// Loads code for the current context.
fn module(what: &str, ptx: &str) -> Result<sys::CUmodule, String> {
    let text = CString::new(ptx).map_err(|_| format!("{what}: a zero byte in its code"))?;
    // SAFETY: text that ends with a zero byte, as the driver wants it.
    let loaded = guarded(|| unsafe { result::module::load_data(text.as_ptr().cast::<c_void>()) });
    loaded.map_err(|error| format!("{what}: {error}"))
}

fn entry(module: sys::CUmodule, what: &str, name: &str) -> Result<Entry, String> {
    let text = CString::new(name).map_err(|_| format!("{what}: a zero byte in {name:?}"))?;
    // SAFETY: the module was loaded and is not unloaded before its context goes.
    let found = guarded(|| unsafe { result::module::get_function(module, text) });
    found.map(Entry).map_err(|error| format!("{what}: function {name:?}: {error}"))
}

//! The kernels of a layer, launched from the host.

use super::driver::{Module, check};
use super::memory::Buffers;
use crate::Error;
use crate::network::{BLOCK, Shape};
use cudarc::driver::sys;
use std::ffi::c_void;

const PTX: &str = include_str!("../../kernels/network.ptx");
const TILE: u32 = BLOCK as u32;

/// A kernel with how many blocks and threads it is launched.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    pub function: sys::CUfunction,
    /// Blocks in both directions.
    pub grid: u32,
    /// Threads of a block in both directions.
    pub block: u32,
}

impl Kernel {
    /// Kernel of one thread.
    pub(super) fn single(function: sys::CUfunction) -> Kernel {
        Kernel { function, grid: 1, block: 1 }
    }

    /// Puts it into a stream.
    ///
    /// # Safety
    /// The parameters are those of the kernel, in order, and what they point to lives until it has
    /// ended.
    pub(super) unsafe fn launch(
        &self,
        stream: sys::CUstream,
        parameters: &mut [*mut c_void],
    ) -> Result<(), Error> {
        let Kernel { function, grid, block } = *self;
        let parameters = parameters.as_mut_ptr();
        // SAFETY: the caller's promise; the driver copies the parameters now.
        let code = unsafe {
            sys::cuLaunchKernel(
                function,
                grid,
                grid,
                1,
                block,
                block,
                1,
                0,
                stream,
                parameters,
                std::ptr::null_mut(),
            )
        };
        check("launching a kernel", code)
    }
}

/// The three kernels, and what they take.
pub(super) struct Layer {
    pub kernels: [Kernel; 3],
    at: Buffers,
    k: u32,
    _module: Module,
}

impl Layer {
    /// Loads the kernels into the current context, for matrices of this size.
    pub(super) fn new(shape: Shape) -> Result<Layer, Error> {
        let module = Module::from_ptx(PTX)?;
        let k = shape.k as u32;
        let kernel =
            |name| module.function(name).map(|function| Kernel { function, grid: k, block: TILE });
        let kernels = [kernel("ks_multiply")?, kernel("ks_convolve")?, kernel("ks_activate")?];
        let none =
            Buffers { activated: 0, weights: 0, product: 0, filter: 0, convolved: 0, bias: 0 };
        Ok(Layer { kernels, at: none, k, _module: module })
    }

    /// Says where the matrices lie.
    pub(super) fn place(&mut self, at: Buffers) {
        self.at = at;
    }

    /// Parameters of each of the kernels. The pointers are into this layer.
    pub(super) fn parameters(&mut self) -> [*mut c_void; 2] {
        [(&raw mut self.at).cast(), (&raw mut self.k).cast()]
    }
}

//! Kernel that launches all others from the GPU.

use super::driver::{Gpu, Module, guarded};
use super::layer::Kernel;
use super::link::Image;
use super::memory::{Buffers, Failure};
use super::session::{Handover, InStream, Session};
use crate::method::Steps;
use crate::network::{Network, Shape};
use crate::{Error, Run};
use cudarc::driver::result;
use cudarc::driver::sys::{self, CUlimit::CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT as PENDING};

pub(super) const PTX: &str = include_str!("../../kernels/parallelism.ptx");

pub(super) fn build<'a>(
    gpu: &'a Gpu,
    network: &Network,
    image: &Image,
    steps: &mut Steps,
) -> Result<Box<dyn Run + 'a>, Error> {
    let room = Room::for_launches(network.shape.kernels())?;
    let module = steps.step("compile", || Module::from_image(image))?;
    let parent = Kernel::single(module.function("ks_parent")?);
    let (session, failure) =
        steps.step("allocate", || Ok::<_, Error>((Session::new(network)?, Failure::new()?)))?;
    let Shape { k, l } = network.shape;
    let (at, k, layers) = (session.memory.at, k as u32, l as u32);
    let parent = Parent { parent, at, k, layers, failure, _module: module, _room: room };
    Ok(InStream::boxed(gpu, session, parent))
}

struct Parent {
    parent: Kernel,
    at: Buffers,
    k: u32,
    layers: u32,
    failure: Failure,
    _module: Module,
    _room: Room,
}

impl Handover for Parent {
    fn submit(&mut self, session: &Session) -> Result<(), Error> {
        session.memory.upload(&session.stream)?;
        let mut failure: sys::CUdeviceptr = self.failure.pointer();
        let mut parameters = [
            (&raw mut self.at).cast(),
            (&raw mut self.k).cast(),
            (&raw mut self.layers).cast(),
            (&raw mut failure).cast(),
        ];
        // SAFETY: what the kernel takes; the memory lives until the stream is drained.
        unsafe { self.parent.launch(session.stream.0, &mut parameters)? };
        session.memory.download(&session.stream)
    }

    fn check(&self) -> Result<(), Error> {
        self.failure.check("launching the kernels from the GPU")
    }
}

/// Room in the context for launches from the GPU that have not ended, if more was needed.
struct Room {
    before: Option<usize>,
}

impl Room {
    /// Beside those of the network, some of the runtime's own.
    const SPARE: usize = 64;

    fn for_launches(launches: usize) -> Result<Room, Error> {
        let doing = "reserving launches from the GPU";
        let before = guarded(doing, || result::ctx::get_limit(PENDING))?;
        let needed = launches + Room::SPARE;
        if needed <= before {
            return Ok(Room { before: None });
        }
        guarded(doing, || result::ctx::set_limit(PENDING, needed))?;
        Ok(Room { before: Some(before) })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = guarded("releasing launches from the GPU", || {
                result::ctx::set_limit(PENDING, before)
            });
        }
    }
}

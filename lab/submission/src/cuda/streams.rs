//! Each copy and each kernel by a call of its own, into one stream.

use super::driver::Gpu;
use super::layer::Layer;
use super::session::{Handover, InStream, Session};
use crate::method::Steps;
use crate::network::Network;
use crate::{Error, Run};

pub(super) fn build<'a>(
    gpu: &'a Gpu,
    network: &Network,
    steps: &mut Steps,
) -> Result<Box<dyn Run + 'a>, Error> {
    let mut layer = steps.step("compile", || Layer::new(network.shape))?;
    let session = steps.step("allocate", || Session::new(network))?;
    layer.place(session.memory.at);
    Ok(InStream::boxed(gpu, session, Streams { layer, layers: network.shape.l }))
}

struct Streams {
    layer: Layer,
    layers: usize,
}

impl Handover for Streams {
    fn submit(&mut self, session: &Session) -> Result<(), Error> {
        session.memory.upload(&session.stream)?;
        let mut parameters = self.layer.parameters();
        for _ in 0..self.layers {
            for kernel in &self.layer.kernels {
                // SAFETY: the kernels take these, and the memory lives until the stream is drained.
                unsafe { kernel.launch(session.stream.0, &mut parameters)? };
            }
        }
        session.memory.download(&session.stream)
    }
}

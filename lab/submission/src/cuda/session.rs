//! Common part of all methods that hand over through a stream.

use super::driver::{Event, Gpu, Stream};
use super::memory::Memory;
use crate::network::{Network, Output};
use crate::{Error, Run};

/// A stream and the network's memory.
pub(super) struct Session {
    // Dropped first, which waits for all that is in it.
    pub stream: Stream,
    event: Event,
    pub memory: Memory,
}

impl Session {
    /// Session in the current context.
    pub(super) fn new(network: &Network) -> Result<Session, Error> {
        let (stream, event) = (Stream::new()?, Event::new()?);
        Ok(Session { stream, event, memory: Memory::new(network)? })
    }
}

/// Way in which a network is put into the stream.
pub(super) trait Handover {
    /// Puts all of it there.
    fn submit(&mut self, session: &Session) -> Result<(), Error>;

    /// Says what went wrong on the GPU that the stream does not know of.
    fn check(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// A network that is submitted through a stream.
pub(super) struct InStream<'a, H: Handover> {
    gpu: &'a Gpu,
    // Dropped before the code and the graphs that are in the stream.
    session: Session,
    handover: H,
    submitted: bool,
}

impl<'a, H: Handover + 'a> InStream<'a, H> {
    pub(super) fn boxed(gpu: &'a Gpu, session: Session, handover: H) -> Box<dyn Run + 'a> {
        Box::new(InStream { gpu, session, handover, submitted: false })
    }
}

impl<H: Handover> Run for InStream<'_, H> {
    fn submit(&mut self) -> Result<(), Error> {
        self.submitted = true;
        self.handover.submit(&self.session)
    }

    fn is_finished(&mut self) -> Result<bool, Error> {
        self.session.stream.has_ended()
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.session.event.wait_for(&self.session.stream)
    }

    fn output(&mut self) -> Result<Output, Error> {
        if !self.submitted || !self.is_finished()? {
            return Err(Error::failed("reading the output", "no submission has ended"));
        }
        self.handover.check()?;
        Ok(self.session.memory.output())
    }
}

impl<H: Handover> Drop for InStream<'_, H> {
    fn drop(&mut self) {
        // The resources that the fields give back are of this context.
        let _ = self.gpu.enter();
    }
}

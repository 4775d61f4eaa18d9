//! Modules whose types are forgotten, as the executors keep them.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::cx::{Host, Run, Work, erase};
use crate::graph::GroupId;
use crate::input::Ports;
use crate::mailbox::Mailbox;
use crate::message::Envelope;
use crate::middleware::Sent;
use crate::{Cx, Input, Load, Message, Module, Path, Stop, WorkCx};

/// Result of a run: the value that it sends, or the reason for which it stopped.
pub(crate) type Ran = Result<Sent, Stop>;

/// A [`Module`] of any input and output.
pub(crate) trait Erased: Send {
    /// Takes the input out of the mailboxes; `None`, and nothing taken, if it is incomplete.
    fn gather(&self, boxes: &mut [Mailbox]) -> Option<Box<dyn Any + Send>>;
    /// Returns true if the input is complete.
    fn complete(&self, boxes: &mut [Mailbox]) -> bool;
    fn estimate(&self, input: &dyn Any, path: Path) -> Load;
    fn run(&mut self, host: &mut dyn Host, run: &mut Run, input: &dyn Any, path: Path) -> Ran;
}

impl<M: Module> Erased for M {
    fn gather(&self, boxes: &mut [Mailbox]) -> Option<Box<dyn Any + Send>> {
        self.complete(boxes).then(|| {
            let input: Box<dyn Any + Send> = Box::new(M::In::gather(&mut Ports { boxes, next: 0 }));
            input
        })
    }

    fn complete(&self, boxes: &mut [Mailbox]) -> bool {
        M::In::complete(&mut Ports { boxes, next: 0 })
    }

    fn estimate(&self, input: &dyn Any, path: Path) -> Load {
        Module::estimate(self, read(input), path)
    }

    fn run(&mut self, host: &mut dyn Host, run: &mut Run, input: &dyn Any, path: Path) -> Ran {
        let mut cx = Cx { host, run, publishes: PhantomData };
        let out = Module::run(self, &mut cx, read(input), path)?;
        if let Some(stop) = run.unsent.take() {
            return Err(stop);
        }
        Sent::pack(host, run, Arc::new(out))
    }
}

fn read<I: 'static>(input: &dyn Any) -> &I {
    input.downcast_ref().expect("a module gathers its own input")
}

/// Work to be done ahead of time whenever a message arrives on a topic.
pub(crate) struct Arrival {
    pub(crate) topic: u16,
    pub(crate) group: GroupId,
    pub(crate) key: &'static str,
    pub(crate) begin: Box<dyn Fn(Envelope) -> Work + Send>,
}

impl Arrival {
    pub(crate) fn new<T, V, F>(topic: u16, group: GroupId, key: &'static str, work: F) -> Self
    where
        T: Send + Sync + 'static,
        V: Send + 'static,
        F: Fn(&Message<T>, &mut WorkCx<'_>) -> Result<V, Stop> + Send + Sync + 'static,
    {
        let work = Arc::new(work);
        let begin = Box::new(move |envelope: Envelope| {
            let work = work.clone();
            erase(move |cx: &mut WorkCx<'_>| {
                envelope.unseal().map_err(Stop::Failed)?;
                work(&envelope.open::<T>(), cx)
            })
        });
        Arrival { topic, group, key, begin }
    }
}

//! Input of a module: one message, the newest one, all that wait, or several of these; and the
//! wires by which they come.

use std::marker::PhantomData;

use crate::Message;
use crate::mailbox::{Keep, Mailbox};

/// One input of a module as the graph keeps it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Feed {
    pub(crate) topic: u16,
    pub(crate) keep: Keep,
    pub(crate) active: bool,
    pub(crate) urgent: bool,
}

/// A topic on its way into a module, with the mailbox that messages wait in. Made by
/// [`crate::Topic::latest`] and [`crate::Topic::fifo`].
#[derive(Debug)]
pub struct Wire<T> {
    pub(crate) feed: Feed,
    pub(crate) carries: PhantomData<fn(T)>,
}

impl<T> Wire<T> {
    /// The same, but a message that arrives does not trigger the module: it is read when something
    /// else has.
    pub fn passive(mut self) -> Self {
        self.feed.active = false;
        self
    }

    /// The same, but with the fast path on ([`crate::Settings::fast_path`]) a message of a newer
    /// frame than what was read starts the module at once, if its deadline does not allow waiting
    /// for what triggers the module otherwise: the next tick of its timer, or, of a passive wire, the
    /// next message on the others (COLA, section 3.2, observation 1: a static execution
    /// pattern cannot achieve the ideal reaction time). The next tick does nothing then, unless
    /// something has come meanwhile. At most one run more for each frame; none without deadlines.
    pub fn urgent(mut self) -> Self {
        self.feed.urgent = true;
        self
    }
}

/// The mailboxes of a module while its input is gathered.
#[doc(hidden)]
pub struct Ports<'a> {
    pub(crate) boxes: &'a mut [Mailbox],
    pub(crate) next: usize,
}

impl Ports<'_> {
    fn mailbox(&mut self) -> &mut Mailbox {
        self.next += 1;
        &mut self.boxes[self.next - 1]
    }
}

/// Input that a module reads. Implemented for `Message<T>`, `Option<Message<T>>`,
/// `Vec<Message<T>>`, for tuples of up to six of these, and for `()`.
pub trait Input: Sized + Send + 'static {
    /// The wires that it comes by, one [`Wire`] for each message type.
    type Wires;
    #[doc(hidden)]
    const PORTS: usize;
    #[doc(hidden)]
    fn feeds(wires: Self::Wires, feeds: &mut Vec<Feed>);
    /// Returns true if every message that must be there is there.
    #[doc(hidden)]
    fn complete(ports: &mut Ports<'_>) -> bool;
    /// Takes it out of the mailboxes, which are complete.
    #[doc(hidden)]
    fn gather(ports: &mut Ports<'_>) -> Self;
}

macro_rules! port {
    ($input:ty, $ports:ident, $complete:expr, $gather:expr) => {
        impl<T: Send + Sync + 'static> Input for $input {
            type Wires = Wire<T>;
            const PORTS: usize = 1;

            fn feeds(wire: Wire<T>, feeds: &mut Vec<Feed>) {
                feeds.push(wire.feed);
            }

            fn complete($ports: &mut Ports<'_>) -> bool {
                $complete
            }

            fn gather($ports: &mut Ports<'_>) -> Self {
                $gather
            }
        }
    };
}

port!(
    Message<T>,
    ports,
    ports.mailbox().holds(),
    ports.mailbox().take().expect("the mailbox holds a message").open()
);
port!(
    Option<Message<T>>,
    ports,
    {
        ports.next += 1;
        true
    },
    ports.mailbox().take().map(|envelope| envelope.open())
);
port!(
    Vec<Message<T>>,
    ports,
    {
        ports.next += 1;
        true
    },
    ports.mailbox().drain().into_iter().map(|envelope| envelope.open()).collect()
);

macro_rules! several {
    ($($name:ident)*) => {
        impl<$($name: Input),*> Input for ($($name,)*) {
            type Wires = ($($name::Wires,)*);
            const PORTS: usize = 0 $(+ $name::PORTS)*;

            #[allow(non_snake_case, unused_variables)]
            fn feeds(wires: Self::Wires, feeds: &mut Vec<Feed>) {
                let ($($name,)*) = wires;
                $($name::feeds($name, feeds);)*
            }

            #[allow(unused_variables)]
            fn complete(ports: &mut Ports<'_>) -> bool {
                true $(& $name::complete(ports))*
            }

            #[allow(unused_variables, clippy::unused_unit)]
            fn gather(ports: &mut Ports<'_>) -> Self {
                ($($name::gather(ports),)*)
            }
        }
    };
}

several!();
several!(A);
several!(A B);
several!(A B C);
several!(A B C D);
several!(A B C D E);
several!(A B C D E F);

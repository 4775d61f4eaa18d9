//! Options of a module of a graph: trigger, deadline, fast path, cancellation, guests, extra
//! worker.

use std::marker::PhantomData;

use crate::graph::{Cancel, Erased, Graph, GroupId, ModuleId, Trigger};
use crate::input::Feed;
use crate::{Module, NO_DEADLINE};

/// A module in its graph.
pub(crate) struct Spec {
    pub(crate) name: String,
    pub(crate) group: GroupId,
    pub(crate) module: Box<dyn Erased>,
    pub(crate) feeds: Vec<Feed>,
    pub(crate) publishes: u16,
    pub(crate) trigger: Trigger,
    pub(crate) deadline_ns: u64,
    pub(crate) fast_path: bool,
    pub(crate) cancel: Cancel,
    pub(crate) guest: bool,
    pub(crate) guest_pieces: bool,
    pub(crate) extra: Option<(GroupId, Box<dyn Erased>)>,
}

impl Spec {
    pub(crate) fn new(
        name: &str,
        group: GroupId,
        module: Box<dyn Erased>,
        feeds: Vec<Feed>,
        publishes: u16,
    ) -> Self {
        Spec {
            name: name.into(),
            group,
            module,
            feeds,
            publishes,
            trigger: Trigger::Message,
            deadline_ns: NO_DEADLINE,
            fast_path: false,
            cancel: Cancel::Never,
            guest: false,
            guest_pieces: false,
            extra: None,
        }
    }
}

/// A module that was just added, to say more of it.
pub struct ModuleRef<'a, M> {
    id: ModuleId,
    graph: &'a mut Graph,
    of: PhantomData<fn(M)>,
}

impl<'a, M: Module> ModuleRef<'a, M> {
    pub(crate) fn new(id: ModuleId, graph: &'a mut Graph) -> Self {
        ModuleRef { id, graph, of: PhantomData }
    }

    fn spec(&mut self) -> &mut Spec {
        &mut self.graph.modules[self.id.index()]
    }

    /// Sets the condition that starts its runs; [`Trigger::Message`] by default.
    pub fn trigger(mut self, trigger: Trigger) -> Self {
        self.spec().trigger = trigger;
        self
    }

    /// Its own deadline, counted from what triggered it. The cores of a group go to the run with the
    /// earliest deadline: this one or its message's.
    pub fn deadline_ns(mut self, deadline_ns: u64) -> Self {
        self.spec().deadline_ns = deadline_ns;
        self
    }

    /// Lets it be asked for the fast path when the budget is short. Not for perception: it may miss
    /// what matters (COLA, section 4.1). A run on the normal path that has published nothing
    /// is cancelled when the budget holds no more than the fast path, and begun anew on that one: what
    /// a module remembers, it changes when a run ends.
    pub fn fast_path(mut self) -> Self {
        self.spec().fast_path = true;
        self
    }

    /// Sets the condition that cancels its runs; [`Cancel::Never`] by default.
    pub fn cancel(mut self, cancel: Cancel) -> Self {
        self.spec().cancel = cancel;
        self
    }

    /// Lets its runs go to idle cores of other groups, when that delays no module there (COLA,
    /// section 4.3: nice guests).
    pub fn guest(mut self) -> Self {
        self.spec().guest = true;
        self
    }

    /// Lets the pieces of its runs ([`crate::Cx::divide`]) go to idle cores of other groups, when
    /// that delays no module there.
    pub fn guest_pieces(mut self) -> Self {
        self.spec().guest_pieces = true;
        self
    }

    /// A second instance, on the cores of `group`, for what parts trigger while the first instance is
    /// busy. Only for modules that keep no state from run to run (COLA, section 4.1: the
    /// extra worker).
    pub fn extra_worker(mut self, group: GroupId, instance: M) -> Self {
        self.spec().extra = Some((group, Box::new(instance)));
        self
    }

    /// The module's number.
    pub fn id(&self) -> ModuleId {
        self.id
    }
}

//! The model that is analysed, made from claims.
//!
//! The model contains: every chain of the configuration that a client has registered for, whole, as
//! the configuration describes it; every chain of the configuration without segments, which nobody
//! registers and which runs all the same; and every declared chain, as far as its registrations are
//! known. Of a chain that declares nothing, only its bucket is known: it is there as a chain of
//! next to no load, so that the analysis sees that its bucket is in use and that requests of other
//! buckets preempt it.
//!
//! An executor of the model is an executor of the configuration, or one session: a client is one
//! thread. A session that registers for a chain of the configuration, and declares the core and
//! the priority of one of that chain's executors, is that executor.

use super::claim::{Claim, Declaration, Source};
use super::spread::Spread;
use accel::snapshot::Origin;
use analysis::{Callback, Chain, Executor, MAX_TIME_NS, Segment, Span, Wait};
use std::collections::{BTreeMap, HashMap};

/// The configuration, and what of it is analysed.
pub(crate) struct File {
    pub system: system::System,
    pub model: analysis::System,
}

/// A model, and what its chains are called.
pub(super) struct Model {
    pub system: analysis::System,
    pub chains: Vec<Modelled>,
    /// Names two executors at the same place, if there are any: then nothing can be analysed.
    pub contradiction: Option<String>,
}

/// A chain of the model, at the same index.
#[derive(Clone, Debug)]
pub(super) struct Modelled {
    pub name: String,
    pub origin: Origin,
    pub callbacks: u32,
    pub positions: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum ExecutorOf {
    File(usize),
    Session(u64),
    /// The client of undeclared chains of this priority.
    Unknown(u32),
}

/// The model of these claims, with these buckets.
pub(super) fn build(file: &File, claims: &[Claim], spreads: &[Spread]) -> Model {
    let mut builder = Builder { file, claims, executors: Vec::new(), places: HashMap::new() };
    let mut model = Model {
        system: analysis::System {
            accelerators: file.model.accelerators.clone(),
            executors: Vec::new(),
            chains: Vec::new(),
            ..file.model
        },
        chains: Vec::new(),
        contradiction: None,
    };
    for index in builder.configured() {
        model.chains.push(Modelled {
            name: file.system.chains[index].id.clone(),
            origin: Origin::File,
            callbacks: file.system.chains[index].callbacks.len() as u32,
            positions: file.system.chains[index].callbacks.len() as u32,
        });
        let chain = builder.configured_chain(index, spreads);
        model.system.chains.push(chain);
    }
    for (name, claims) in builder.declared() {
        let (modelled, chain) = builder.declared_chain(name, &claims, spreads);
        model.chains.push(modelled);
        model.system.chains.push(chain);
    }
    model.contradiction = builder.contradiction();
    for (priority, chain) in builder.undeclared(&model.system.chains, spreads) {
        let name = format!("priority {priority}");
        model.chains.push(Modelled { name, origin: Origin::Nobody, callbacks: 0, positions: 0 });
        model.system.chains.push(chain);
    }
    model.system.executors = builder.executors.iter().map(|(_, executor)| *executor).collect();
    model
}

struct Builder<'a> {
    file: &'a File,
    claims: &'a [Claim],
    executors: Vec<(ExecutorOf, Executor)>,
    places: HashMap<ExecutorOf, usize>,
}

impl<'a> Builder<'a> {
    /// The chains of the configuration that run.
    fn configured(&self) -> Vec<usize> {
        let registered =
            |index: usize| self.claims.iter().any(|claim| claim.source == Source::File(index));
        let chains = self.file.system.chains.iter().enumerate();
        chains
            .filter(|(index, chain)| chain.segments().next().is_none() || registered(*index))
            .map(|(index, _)| index)
            .collect()
    }

    fn configured_chain(&mut self, index: usize, spreads: &[Spread]) -> Chain {
        let mut chain = self.file.model.chains[index].clone();
        chain.buckets = buckets(chain.priority, spreads);
        for callback in &mut chain.callbacks {
            callback.executor = self.executor(ExecutorOf::File(callback.executor));
        }
        chain
    }

    /// The declared chains in the order of their coming, each with its claims.
    fn declared(&self) -> Vec<(&'a str, Vec<(&'a Claim, &'a Declaration)>)> {
        let mut chains: Vec<(&str, Vec<_>)> = Vec::new();
        for claim in self.claims {
            let Source::Declared(declaration) = &claim.source else { continue };
            match chains.iter_mut().find(|(name, _)| *name == claim.chain) {
                Some((_, claims)) => claims.push((claim, declaration)),
                None => chains.push((&claim.chain, vec![(claim, declaration)])),
            }
        }
        chains
    }

    fn declared_chain(
        &mut self,
        name: &str,
        claims: &[(&Claim, &Declaration)],
        spreads: &[Spread],
    ) -> (Modelled, Chain) {
        let mut callbacks: BTreeMap<u32, Callback> = BTreeMap::new();
        for (claim, declaration) in claims {
            let executor = self.executor(self.place(claim));
            let callback = callbacks.entry(declaration.position).or_insert_with(|| Callback {
                executor,
                cpu: declaration.cpu,
                segments: Vec::new(),
            });
            let segment = Segment {
                accelerator: claim.accelerator,
                exec: declaration.exec,
                cpu_before_ns: 0,
            };
            let requests = declaration.requests as usize;
            callback.segments.extend(std::iter::repeat_n(segment, requests));
        }
        let (first, declaration) = claims[0];
        let terms = declaration.terms;
        let chain = Chain {
            priority: first.priority,
            period_ns: terms.period_ns,
            deadline_ns: terms.deadline_ns,
            jitter_ns: terms.jitter_ns,
            wait: terms.wait,
            best_effort: terms.best_effort,
            buckets: buckets(first.priority, spreads),
            callbacks: callbacks.values().cloned().collect(),
        };
        let modelled = Modelled {
            name: name.into(),
            origin: Origin::Clients,
            callbacks: callbacks.len() as u32,
            positions: callbacks.keys().next_back().map_or(0, |last| last + 1),
        };
        (modelled, chain)
    }

    /// One chain for each priority of undeclared ones that no other chain has: where one has it,
    /// their bucket is in use already.
    fn undeclared(&mut self, others: &[Chain], spreads: &[Spread]) -> Vec<(u32, Chain)> {
        let mut uses: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for claim in self.claims.iter().filter(|claim| claim.source == Source::Nobody) {
            if !others.iter().any(|chain| chain.priority == claim.priority) {
                uses.entry(claim.priority).or_default().push(claim.accelerator);
            }
        }
        let segment =
            |&accelerator: &usize| Segment { accelerator, exec: Span::up_to(1), cpu_before_ns: 0 };
        let chain = |(priority, mut accelerators): (u32, Vec<usize>)| {
            accelerators.sort_unstable();
            accelerators.dedup();
            let callback = Callback {
                executor: self.executor(ExecutorOf::Unknown(priority)),
                cpu: Span::default(),
                segments: accelerators.iter().map(segment).collect(),
            };
            let chain = Chain {
                priority,
                period_ns: MAX_TIME_NS,
                deadline_ns: MAX_TIME_NS,
                jitter_ns: 0,
                wait: Wait::Suspend,
                best_effort: true,
                buckets: buckets(priority, spreads),
                callbacks: vec![callback],
            };
            (priority, chain)
        };
        uses.into_iter().map(chain).collect()
    }

    /// Finds the executor that runs a claim's callback.
    fn place(&self, claim: &Claim) -> ExecutorOf {
        let own = self.claims.iter().filter(|other| other.session == claim.session);
        let configured = own.filter_map(|other| match other.source {
            Source::File(index) => Some(&self.file.model.chains[index]),
            _ => None,
        });
        let mut executors = configured.flat_map(|chain| &chain.callbacks).map(|c| c.executor);
        let same = executors.find(|&executor| {
            let Executor { core, priority } = self.file.model.executors[executor];
            claim.executor == Some((core, priority))
        });
        same.map_or(ExecutorOf::Session(claim.session), ExecutorOf::File)
    }

    fn executor(&mut self, place: ExecutorOf) -> usize {
        if let Some(&index) = self.places.get(&place) {
            return index;
        }
        let executor = match place {
            ExecutorOf::File(index) => self.file.model.executors[index],
            ExecutorOf::Session(session) => {
                let own = self.claims.iter().filter(|claim| claim.session == session);
                let declared = own.filter_map(|claim| claim.executor).next();
                let (core, priority) = declared.unwrap_or_default();
                Executor { core, priority }
            }
            // No core has such a number.
            ExecutorOf::Unknown(priority) => Executor { core: u32::MAX - priority, priority: 0 },
        };
        self.executors.push((place, executor));
        self.places.insert(place, self.executors.len() - 1);
        self.executors.len() - 1
    }

    /// Two real-time threads of one core have an order.
    fn contradiction(&self) -> Option<String> {
        let mut seen: HashMap<(u32, u32), ExecutorOf> = HashMap::new();
        for (place, Executor { core, priority }) in &self.executors {
            if *priority == 0 {
                continue;
            }
            if let Some(other) = seen.insert((*core, *priority), *place) {
                return Some(format!(
                    "{} and {} both have priority {priority} on core {core}: expected an order",
                    self.name(other),
                    self.name(*place)
                ));
            }
        }
        None
    }

    fn name(&self, place: ExecutorOf) -> String {
        match place {
            ExecutorOf::File(index) => {
                format!("executor {:?}", self.file.system.executors[index].id)
            }
            ExecutorOf::Session(session) => {
                let own = self.claims.iter().find(|claim| claim.session == session);
                own.map_or("?".into(), |claim| format!("process {}", claim.pid))
            }
            ExecutorOf::Unknown(priority) => format!("the client of priority {priority}"),
        }
    }
}

fn buckets(priority: u32, spreads: &[Spread]) -> Vec<u32> {
    spreads.iter().map(|spread| spread.get(&priority).copied().unwrap_or(0)).collect()
}

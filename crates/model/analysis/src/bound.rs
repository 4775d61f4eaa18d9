//! Response-time bounds of chains: Theorem 1 of PAAM as printed, repaired, and refined.
//!
//! A system is laid out flat (`view`), a variant computes handling, blocking and response times
//! of every part (`theorem`, `tight`), `status` says which of them are guarantees, and `explain`
//! says what they are made of. [`analyze`] does all of it and gives a report; an [`Analyzer`]
//! keeps its memory and gives verdicts by the million.

mod explain;
pub(crate) mod jobs;
mod status;
mod theorem;
mod tight;
mod view;

use crate::{Error, System, Watch};
use jobs::{Budget, NONE, some};
use std::ops::Range;
use theorem::Theorem;
use tight::Tight;
use view::View;

/// The analysis to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Variant {
    /// Theorem 1 of PAAM as printed. Unsound where a lower-priority callback of the same executor
    /// waits for an accelerator: for comparison only.
    Published,
    /// Theorem 1, repaired.
    Sound,
    /// The refined bound.
    #[default]
    Tight,
}

/// The bounds of a system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analysis {
    /// The analysis that was made.
    pub variant: Variant,
    /// True if every chain that is not best effort is [`Status::Ok`].
    pub schedulable: bool,
    /// One entry per chain, in the order of the system.
    pub chains: Vec<ChainBound>,
}

/// Result of the analysis of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Status {
    /// The bound holds and is within the deadline.
    Ok,
    /// A bound within the deadline was computed, but a chain that it relies on is not ok.
    Dependent,
    /// The chain has no bound within the deadline.
    Miss,
}

/// The bound of one chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainBound {
    /// Status of the bound: a guarantee or not.
    pub status: Status,
    /// The response time from nominal release to end, where it exists. A guarantee only where
    /// `status` is [`Status::Ok`].
    pub response_ns: Option<u64>,
    /// The parts, in order.
    pub parts: Vec<PartBound>,
    /// The chains whose own deadlines the bound relies on, ascending.
    pub relies_on: Vec<usize>,
    /// Reason why the chain is not ok.
    pub refusal: Option<Refusal>,
}

/// The bound of one part of a chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartBound {
    /// Its executor.
    pub executor: usize,
    /// Its callbacks, as a range of [`crate::Chain::callbacks`].
    pub callbacks: Range<usize>,
    /// `B`: blocking by a lower-priority callback of the executor.
    pub blocking_ns: Option<u64>,
    /// `E`: processor time of the part, without `epsilon`.
    pub cpu_ns: u64,
    /// Handling time of each of its segments (Lemma 2), in order.
    pub segment_handling_ns: Vec<Option<u64>>,
    /// Sum of those.
    pub handling_l2_ns: Option<u64>,
    /// Handling time of all segments together (Lemma 3), at the part's response time.
    pub handling_l3_ns: Option<u64>,
    /// `H*`: handling time with `epsilon`, as it enters the response time.
    pub handling_ns: Option<u64>,
    /// `R`: response time of the part, where it is within the deadline.
    pub response_ns: Option<u64>,
    /// Addends of the response time, largest first. Where there is none, those of the time at which
    /// it passed the deadline.
    pub terms: Vec<Term>,
}

/// One addend of a response time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Term {
    /// Its kind.
    pub kind: TermKind,
    /// The chain that causes it; the chain itself for its own work.
    pub chain: usize,
    /// Its duration.
    pub ns: u64,
}

/// Cause of a part of a response time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TermKind {
    /// Own processor time.
    Cpu,
    /// Own accelerator time, with `2 kappa + sigma`.
    Accelerator,
    /// Own `epsilon`.
    Epsilon,
    /// A lower-priority callback that holds the executor.
    Blocking,
    /// Lower-priority requests that hold the bucket.
    BucketBlocking,
    /// Higher-priority requests on the accelerator.
    AcceleratorInterference,
    /// Higher-priority chains on the same executor.
    ExecutorInterference,
    /// Executors of higher process priority on the same core.
    CoreInterference,
}

/// Reason why a chain has no guarantee.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The chain's bound passes the deadline.
    Late {
        /// The part whose bound passed it; None when only the sum of the parts does.
        part: Option<usize>,
        /// Time by which the bound passes the deadline, at least.
        missing_ns: u64,
        /// The largest addend that another chain causes, or the chain's own largest.
        largest: Option<Term>,
    },
    /// Higher-priority chains ask for all of an accelerator, so that nothing is left.
    Overload {
        /// The accelerator.
        accelerator: usize,
        /// The chain that cannot be handled; another one where its handling is needed.
        chain: usize,
    },
    /// The bound relies on this chain, which has no guarantee.
    Relies {
        /// The chain.
        chain: usize,
    },
    /// A segment is in a bucket that runs requests beside each other.
    Concurrent {
        /// The accelerator.
        accelerator: usize,
    },
}

/// Bounds every chain of a system, and says what each bound is made of.
///
/// ```
/// use analysis::{Callback, Chain, Executor, Span, Status, System, Variant, Wait};
///
/// let chain = |priority, cpu_ns| Chain {
///     priority,
///     period_ns: 100,
///     deadline_ns: 100,
///     jitter_ns: 0,
///     wait: Wait::Suspend,
///     best_effort: false,
///     buckets: vec![],
///     callbacks: vec![Callback { executor: 0, cpu: Span::up_to(cpu_ns), segments: vec![] }],
/// };
/// let system = System {
///     executors: vec![Executor { core: 0, priority: 90 }],
///     chains: vec![chain(2, 20), chain(1, 30)],
///     ..System::default()
/// };
/// let analysis = analysis::analyze(&system, Variant::Tight)?;
/// assert!(analysis.schedulable);
/// assert_eq!(analysis.chains[0].response_ns, Some(50), "20 and the 30 that run already");
/// # Ok::<(), analysis::Error>(())
/// ```
///
/// # Errors
/// [`Error`] when the model contradicts itself.
pub fn analyze(system: &System, variant: Variant) -> Result<Analysis, Error> {
    let mut analyzer = Analyzer::new();
    analyzer.load(system)?;
    Ok(analyzer.analyze(variant))
}

/// Bounds every chain of a system, as [`analyze`] does, as long as a watch lets it go on.
///
/// # Errors
/// [`Error`] when the model contradicts itself; [`Error::Stopped`] when the watch ended it.
pub fn analyze_watched(
    system: &System,
    variant: Variant,
    watch: &Watch,
) -> Result<Analysis, Error> {
    let mut analyzer = Analyzer::watched(watch);
    analyzer.load(system)?;
    let analysis = analyzer.analyze(variant);
    analyzer.ensure_complete()?;
    Ok(analysis)
}

/// Bounds one system after the other in the same memory.
#[derive(Debug, Default)]
pub struct Analyzer {
    view: View,
    variant: Variant,
    theorem: Theorem,
    tight: Tight,
    relies: status::Relies,
    chains: Vec<(Status, Option<u64>)>,
}

/// The short answer of an [`Analyzer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict<'a> {
    /// True if every chain that is not best effort is [`Status::Ok`].
    pub schedulable: bool,
    /// Status and response time of each chain, in the order of the system.
    pub chains: &'a [(Status, Option<u64>)],
}

impl Analyzer {
    /// An analyzer without a system.
    pub fn new() -> Analyzer {
        Analyzer::default()
    }

    /// An analyzer whose watch may end each analysis. Its answers count only if
    /// [`Analyzer::ensure_complete`] says so.
    pub fn watched(watch: &Watch) -> Analyzer {
        let mut analyzer = Analyzer::default();
        analyzer.view.budget = Budget::watched(watch.clone());
        analyzer
    }

    /// Says that the last answer is that of a whole analysis.
    ///
    /// # Errors
    /// [`Error::Stopped`] when the watch ended it.
    pub fn ensure_complete(&self) -> Result<(), Error> {
        if self.view.budget.is_stopped() { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Takes a system.
    ///
    /// # Errors
    /// [`Error`] when the model contradicts itself; the analyzer then holds no system.
    pub fn load(&mut self, system: &System) -> Result<(), Error> {
        let loaded = self.view.load(system);
        if loaded.is_err() {
            let budget = std::mem::take(&mut self.view.budget);
            self.view = View::default();
            self.view.budget = budget;
        }
        loaded
    }

    /// Decides which chains of the system have a bound. Under [`Variant::Tight`] the cheapest
    /// refinements that suffice are used: a response time may be smaller in [`Analyzer::analyze`],
    /// a status may not differ.
    pub fn run(&mut self, variant: Variant) -> Verdict<'_> {
        self.begin(variant);
        match variant {
            Variant::Published | Variant::Sound => self.run_theorem(variant == Variant::Sound),
            Variant::Tight => {
                self.run_tight(false);
                if self.chains.iter().any(|&(status, _)| status != Status::Ok) {
                    self.run_tight(true);
                }
            }
        }
        self.verdict()
    }

    fn begin(&mut self, variant: Variant) {
        self.variant = variant;
        self.view.budget.begin();
        self.relies.load(&self.view, variant != Variant::Published);
    }

    fn verdict(&self) -> Verdict<'_> {
        let counts = self.view.chains.iter().zip(&self.chains);
        let schedulable =
            counts.clone().all(|(chain, &(status, _))| chain.best_effort || status == Status::Ok);
        Verdict { schedulable, chains: &self.chains }
    }

    fn run_theorem(&mut self, sound: bool) {
        self.view.budget.fill(self.view.parts.len());
        self.view.budget.begin_pass(self.view.chains.len());
        self.theorem.run(&self.view, sound);
        let (view, theorem) = (&self.view, &self.theorem);
        let response = |chain| status::chain_response(view, &theorem.response, chain);
        self.relies.decide(view, response, &mut self.chains);
    }

    fn run_tight(&mut self, fine: bool) {
        if self.view.budget.is_stopped() {
            return;
        }
        self.view.budget.fill(self.view.parts.len());
        self.tight.run(&self.view, fine);
        loop {
            let (view, tight) = (&self.view, &self.tight);
            let response = |chain| status::chain_response(view, &tight.response, chain);
            self.relies.decide(view, response, &mut self.chains);
            // Only a chain with a guarantee may limit how often it blocks others.
            let uncounted = self.chains.iter().map(|&(status, _)| status != Status::Ok);
            if !self.tight.distrust(uncounted) {
                return;
            }
            self.tight.run_again(&self.view);
        }
    }

    /// Bounds every chain for an admission decision: where all are ok by the cheapest refinements,
    /// that is the answer, without parts and terms; otherwise that of [`Analyzer::analyze`].
    pub fn decide(&mut self, variant: Variant) -> Analysis {
        if self.run(variant).chains.iter().any(|&(status, _)| status != Status::Ok) {
            return self.analyze(variant);
        }
        let bound = |(chain, &(status, response_ns)): (usize, &(Status, Option<u64>))| ChainBound {
            status,
            response_ns,
            parts: Vec::new(),
            relies_on: self.relies.of(chain),
            refusal: None,
        };
        let chains = self.chains.iter().enumerate().map(bound).collect();
        Analysis { variant, schedulable: true, chains }
    }

    /// Bounds every chain, with the terms of each bound.
    pub fn analyze(&mut self, variant: Variant) -> Analysis {
        self.analyze_by(variant, true)
    }

    /// [`Variant::Tight`] without what relies on the order of the callbacks inside a part. Only the
    /// last callback of each part has to be the last one.
    pub fn analyze_unordered(&mut self) -> Analysis {
        self.analyze_by(Variant::Tight, false)
    }

    fn analyze_by(&mut self, variant: Variant, fine: bool) -> Analysis {
        self.begin(variant);
        let chains = match variant {
            Variant::Published | Variant::Sound => {
                self.run_theorem(variant == Variant::Sound);
                self.theorem_chains(variant)
            }
            Variant::Tight => {
                // If tight has no bound that holds, the sound one may still be a dependent one.
                self.run_theorem(true);
                let fallback = self.theorem_chains(Variant::Sound);
                self.run_tight(fine);
                let tight = self.tight_chains();
                tight.into_iter().zip(fallback).map(|(t, s)| better(t, s)).collect()
            }
        };
        Analysis { variant, schedulable: self.verdict().schedulable, chains }
    }

    fn theorem_chains(&mut self, variant: Variant) -> Vec<ChainBound> {
        self.bound_chains(|analyzer, chain| analyzer.theorem_chain(variant, chain))
    }

    /// Spells out the bound of one chain after the other; of some only where the watch ends it.
    fn bound_chains(
        &mut self,
        bound: impl Fn(&mut Analyzer, usize) -> ChainBound,
    ) -> Vec<ChainBound> {
        let chains = self.view.chains.len();
        self.view.budget.begin_pass(chains);
        let mut bounds = Vec::with_capacity(chains);
        for chain in 0..chains {
            if self.view.budget.is_stopped() {
                break;
            }
            bounds.push(bound(self, chain));
            self.view.budget.end_chain();
        }
        bounds
    }

    fn theorem_chain(&mut self, variant: Variant, chain: usize) -> ChainBound {
        let parts = self.view.chains[chain].parts.clone();
        let parts = parts
            .map(|index| {
                let terms = self.theorem.terms(&self.view, index, variant == Variant::Sound);
                let l3 = self.theorem.lemma_3_at(&self.view, index);
                let Theorem { segment_handling, l2, blocking, handling, response, .. } =
                    &self.theorem;
                let segments = self.view.parts[index].segments.clone();
                PartBound {
                    executor: self.view.parts[index].executor,
                    callbacks: self.callbacks(chain, index),
                    blocking_ns: some(blocking[index]),
                    cpu_ns: self.view.parts[index].cpu,
                    segment_handling_ns: segment_handling[segments]
                        .iter()
                        .map(|&h| some(h))
                        .collect(),
                    handling_l2_ns: some(l2[index]),
                    handling_l3_ns: some(l3),
                    handling_ns: some(handling[index]),
                    response_ns: some(response[index]),
                    terms,
                }
            })
            .collect();
        self.chain_bound(chain, parts)
    }

    fn tight_chains(&mut self) -> Vec<ChainBound> {
        self.bound_chains(Analyzer::tight_chain)
    }

    fn tight_chain(&mut self, chain: usize) -> ChainBound {
        let parts = self.view.chains[chain].parts.clone();
        let parts = parts
            .map(|index| {
                let part = &self.view.parts[index];
                let epsilon = part.segments.len() as u64 * self.view.epsilon;
                let terms = self.tight.terms(&self.view, index);
                let Tight { segment_handling, blocking, handling, response, .. } = &self.tight;
                let segments = &segment_handling[part.segments.clone()];
                let together = match response[index] {
                    NONE => NONE,
                    _ => handling[index] - epsilon,
                };
                PartBound {
                    executor: part.executor,
                    callbacks: self.callbacks(chain, index),
                    blocking_ns: some(blocking[index]),
                    cpu_ns: part.cpu,
                    segment_handling_ns: segments.iter().map(|&h| some(h)).collect(),
                    handling_l2_ns: some(segments.iter().fold(0, |sum, &h| sum.saturating_add(h))),
                    handling_l3_ns: some(together),
                    handling_ns: some(handling[index]),
                    response_ns: some(response[index]),
                    terms,
                }
            })
            .collect();
        self.chain_bound(chain, parts)
    }

    fn callbacks(&self, chain: usize, part: usize) -> Range<usize> {
        let first = self.view.parts[self.view.chains[chain].parts.start].callbacks.start;
        let callbacks = &self.view.parts[part].callbacks;
        callbacks.start - first..callbacks.end - first
    }

    fn chain_bound(&self, chain: usize, parts: Vec<PartBound>) -> ChainBound {
        let (status, response_ns) = self.chains[chain];
        let refusal = (status != Status::Ok).then(|| self.refusal(chain, &parts));
        ChainBound { status, response_ns, parts, relies_on: self.relies.of(chain), refusal }
    }
}

/// A bound that is no guarantee may be the smaller of two.
fn better(tight: ChainBound, sound: ChainBound) -> ChainBound {
    let value = |bound: &ChainBound| bound.response_ns.unwrap_or(NONE);
    if tight.status != Status::Ok && value(&sound) < value(&tight) {
        ChainBound { status: tight.status.min_of(sound.status), ..sound }
    } else {
        tight
    }
}

impl Status {
    /// The less certain of two; a number without a guarantee is never called one.
    fn min_of(self, other: Status) -> Status {
        match (self, other) {
            (Status::Miss, Status::Miss) => Status::Miss,
            _ => Status::Dependent,
        }
    }
}

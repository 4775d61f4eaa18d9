//! Model of the analysis: chains of callbacks on executors, and the accelerators they share.
//!
//! Plain integers and indices, no names: accelerators, executors and chains are known by their
//! place in their list. All times are in nanoseconds, and larger numbers mean higher priority.

use crate::Error;

/// A system of chains.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct System {
    /// `kappa`: preemption cost of a device, charged twice to every segment.
    pub kappa_ns: u64,
    /// `epsilon`: what one request costs its client, on the processor and in transport.
    pub epsilon_ns: u64,
    /// `sigma`: what one request costs that occupies its bucket.
    pub sigma_ns: u64,
    /// Communication between two consecutive parts of a chain.
    pub hop_ns: u64,
    /// The accelerators.
    pub accelerators: Vec<Accelerator>,
    /// The processes that run callbacks.
    pub executors: Vec<Executor>,
    /// The chains.
    pub chains: Vec<Chain>,
}

/// One accelerator: buckets that preempt each other, requests of one bucket that do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accelerator {
    /// Number of buckets; the largest index is served first.
    pub buckets: u32,
    /// True if the lowest bucket runs its requests beside each other; nothing in it has a bound.
    pub concurrent_lowest: bool,
}

/// One single-threaded process, kept on one core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Executor {
    /// Its core.
    pub core: u32,
    /// Process priority, unique on the core. Executors at 0 share the core in any order.
    pub priority: u32,
}

/// One chain: callbacks that run one after the other, released every period.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    /// Unique.
    pub priority: u32,
    /// Least distance between two releases.
    pub period_ns: u64,
    /// Relative deadline, at most the period.
    pub deadline_ns: u64,
    /// Longest delay of a release after the nominal one. Responses count from the nominal release.
    pub jitter_ns: u64,
    /// Behaviour of its callbacks while an accelerator works for them.
    pub wait: Wait,
    /// True if its own deadline stays out of the verdict.
    pub best_effort: bool,
    /// Bucket on each accelerator, in the order of [`System::accelerators`]; must not fall as
    /// priority rises. Entries of accelerators that the chain does not use mean nothing.
    pub buckets: Vec<u32>,
    /// The callbacks, never empty.
    pub callbacks: Vec<Callback>,
}

/// Behaviour of a callback while an accelerator works for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Wait {
    /// Gives up its core.
    #[default]
    Suspend,
    /// Keeps its core busy.
    Spin,
}

/// One callback, not preempted by other callbacks of its executor. It may use its processor time
/// before, between and after its segments as it likes, but for [`Segment::cpu_before_ns`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Callback {
    /// The executor, an index.
    pub executor: usize,
    /// Processor time, without `epsilon`.
    pub cpu: Span,
    /// Its requests, in order. It waits for each before it goes on.
    pub segments: Vec<Segment>,
}

/// One request to an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The accelerator, an index.
    pub accelerator: usize,
    /// Time on the accelerator, without `kappa`, `sigma` and `epsilon`.
    pub exec: Span,
    /// Processor time that the callback always spends before this request, since its start or
    /// since the request before; 0 where that is not known.
    pub cpu_before_ns: u64,
}

/// Least and greatest duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Span {
    /// Never shorter.
    pub min_ns: u64,
    /// Never longer.
    pub max_ns: u64,
}

impl Span {
    /// Between nothing and `max_ns`.
    pub const fn up_to(max_ns: u64) -> Span {
        Span { min_ns: 0, max_ns }
    }

    /// Always `ns`.
    pub const fn exactly(ns: u64) -> Span {
        Span { min_ns: ns, max_ns: ns }
    }
}

impl Chain {
    /// Cuts the chain where the executor changes: the ranges of its parts in
    /// [`Chain::callbacks`], in order.
    pub fn parts(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        let mut begin = 0;
        self.callbacks.chunk_by(|a, b| a.executor == b.executor).map(move |part| {
            let range = begin..begin + part.len();
            begin = range.end;
            range
        })
    }

    /// Every segment of the chain, in order.
    pub fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.callbacks.iter().flat_map(|callback| &callback.segments)
    }

    /// Returns true if a segment of the chain runs on this accelerator.
    pub fn uses(&self, accelerator: usize) -> bool {
        self.segments().any(|segment| segment.accelerator == accelerator)
    }
}

/// The longest time that a model may contain: about 104 days, the integers that a float is exact
/// for.
pub const MAX_TIME_NS: u64 = 1 << 53;

/// The greatest sum of all execution times and overheads of a model: 36 years. Sums of a few jobs
/// of every chain then fit 64 bits.
pub const MAX_WORK_NS: u64 = 1 << 60;

impl System {
    /// Checks what the bounds rely on.
    ///
    /// # Errors
    /// [`Error::Model`] names the chain, what was found and what was expected.
    pub fn check(&self) -> Result<(), Error> {
        self.check_executors()?;
        self.check_work()?;
        for index in 0..self.chains.len() {
            self.check_chain(index)?;
        }
        let by_priority = self.chains_by_priority();
        for pair in by_priority.windows(2) {
            self.check_order(pair[0], pair[1])?;
        }
        for accelerator in 0..self.accelerators.len() {
            self.check_buckets(accelerator, &by_priority)?;
        }
        Ok(())
    }

    /// Indices of the chains, the highest priority first.
    pub fn chains_by_priority(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.chains.len()).collect();
        order.sort_by_key(|&chain| std::cmp::Reverse(self.chains[chain].priority));
        order
    }

    fn check_executors(&self) -> Result<(), Error> {
        let mut places: Vec<(u32, u32)> =
            self.executors.iter().map(|e| (e.core, e.priority)).filter(|p| p.1 > 0).collect();
        places.sort_unstable();
        match places.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(Error::Executors { core: pair[0].0, priority: pair[0].1 }),
            None => Ok(()),
        }
    }

    fn check_work(&self) -> Result<(), Error> {
        let overheads = [self.kappa_ns, self.kappa_ns, self.sigma_ns, self.epsilon_ns];
        let overhead: u128 = overheads.into_iter().map(u128::from).sum();
        let callbacks = self.chains.iter().flat_map(|chain| &chain.callbacks);
        let work = callbacks.map(|callback| {
            let segments = callback.segments.iter();
            let requests = segments.map(|s| u128::from(s.exec.max_ns) + overhead).sum::<u128>();
            requests + u128::from(callback.cpu.max_ns) + u128::from(self.hop_ns)
        });
        let work_ns = work.fold(0u128, u128::saturating_add);
        if work_ns > u128::from(MAX_WORK_NS) {
            return Err(Error::Work { work_ns });
        }
        Ok(())
    }

    fn check_order(&self, higher: usize, lower: usize) -> Result<(), Error> {
        if self.chains[higher].priority != self.chains[lower].priority {
            return Ok(());
        }
        let found = self.chains[lower].priority;
        Err(Error::model(lower, "priority", found, format!("not that of chain {higher}")))
    }

    fn check_buckets(&self, accelerator: usize, by_priority: &[usize]) -> Result<(), Error> {
        let mut above: Option<(usize, u32)> = None;
        for &index in by_priority {
            let chain = &self.chains[index];
            if !chain.uses(accelerator) {
                continue;
            }
            let bucket = chain.buckets[accelerator];
            if let Some((higher, limit)) = above {
                if bucket > limit {
                    let expected =
                        format!("at most {limit}, the bucket of chain {higher} above it");
                    return Err(Error::model(index, "bucket", bucket, expected));
                }
            }
            above = Some((index, bucket));
        }
        Ok(())
    }

    fn check_chain(&self, index: usize) -> Result<(), Error> {
        let chain = &self.chains[index];
        let refuse = |what, found: u64, expected: &str| {
            Err(Error::model(index, what, found, expected.to_owned()))
        };
        if chain.period_ns == 0 || chain.period_ns > MAX_TIME_NS {
            return refuse("period", chain.period_ns, "1 ns to 2^53 ns");
        }
        if chain.deadline_ns == 0 || chain.deadline_ns > chain.period_ns {
            return refuse("deadline", chain.deadline_ns, "above 0 and at most the period");
        }
        if chain.jitter_ns > chain.period_ns {
            return refuse("jitter", chain.jitter_ns, "at most the period");
        }
        if chain.callbacks.is_empty() {
            return refuse("callbacks", 0, "at least one");
        }
        if chain.buckets.len() != self.accelerators.len() {
            return refuse("buckets", chain.buckets.len() as u64, "one for each accelerator");
        }
        for callback in &chain.callbacks {
            if callback.executor >= self.executors.len() {
                return refuse("executor", callback.executor as u64, "an index of an executor");
            }
            let mut before_ns = 0u64;
            for segment in &callback.segments {
                let Some(accelerator) = self.accelerators.get(segment.accelerator) else {
                    let found = segment.accelerator as u64;
                    return refuse("accelerator", found, "an index of an accelerator");
                };
                let bucket = chain.buckets[segment.accelerator];
                if bucket >= accelerator.buckets {
                    return refuse("bucket", bucket.into(), "below the number of buckets");
                }
                if !is_span(segment.exec) {
                    return refuse("exec", segment.exec.max_ns, "at least its least time");
                }
                before_ns = before_ns.saturating_add(segment.cpu_before_ns);
            }
            if !is_span(callback.cpu) {
                return refuse("cpu", callback.cpu.max_ns, "at least its least time");
            }
            if before_ns > callback.cpu.max_ns {
                return refuse("cpu_before", before_ns, "at most the callback's cpu in all");
            }
        }
        Ok(())
    }
}

fn is_span(span: Span) -> bool {
    span.min_ns <= span.max_ns && span.max_ns <= MAX_TIME_NS
}

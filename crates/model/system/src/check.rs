//! Conflicts between two values: references, duplicates, orders.
//!
//! The checks read the finished [`System`]; the tree only tells where a value stands. Every check
//! is linear (or sorts), so that a generated file of thousands of chains is no burden.

use crate::field::refuse;
use crate::quantity::format_time;
use crate::tree::{Node, Step, shorten};
use crate::{Accelerator, Callback, Chain, Error, Segment, System};
use analysis::MAX_WORK_NS;
use std::collections::{HashMap, HashSet};

/// Checks the system against itself.
pub(crate) fn check(system: &System, tree: &Node) -> Result<(), Error> {
    let checker = Checker { system, tree };
    checker.unique_names()?;
    checker.executors()?;
    checker.services()?;
    checker.access()?;
    checker.chain_priorities()?;
    let index = Index::new(system);
    for (i, chain) in system.chains.iter().enumerate() {
        checker.chain(i, chain, &index)?;
    }
    for accelerator in &system.accelerators {
        checker.monotone_buckets(accelerator)?;
    }
    if let Some(graph) = &system.graph {
        checker.graph(graph, &index)?;
    }
    checker.work()
}

pub(crate) struct Checker<'s> {
    system: &'s System,
    tree: &'s Node,
}

/// Everything that a chain may refer to.
pub(crate) struct Index<'s> {
    pub(crate) executors: HashSet<&'s str>,
    buckets: HashMap<&'s str, u32>,
    /// Service to accelerator.
    services: HashMap<&'s str, &'s str>,
}

impl<'s> Index<'s> {
    fn new(system: &'s System) -> Self {
        Self {
            executors: system.executors.iter().map(|e| e.id.as_str()).collect(),
            buckets: system.accelerators.iter().map(|a| (a.id.as_str(), a.buckets)).collect(),
            services: system
                .services
                .iter()
                .map(|s| (s.name.as_str(), s.accelerator.as_str()))
                .collect(),
        }
    }
}

/// `path!["chains", 2, "bucket"]`
macro_rules! path {
    ($($step:expr),+) => { &[$(Step::from($step)),+] };
}

impl Checker<'_> {
    pub(crate) fn refuse(
        &self,
        path: &[Step],
        found: impl Into<String>,
        expected: impl Into<String>,
    ) -> Error {
        refuse(&self.system.name, self.tree.mark_at(path), path, found, expected)
    }

    fn unique_names(&self) -> Result<(), Error> {
        let system = self.system;
        self.unique("accelerators", "id", system.accelerators.iter().map(|a| a.id.as_str()))?;
        self.unique("executors", "id", system.executors.iter().map(|e| e.id.as_str()))?;
        self.unique("chains", "id", system.chains.iter().map(|c| c.id.as_str()))?;
        self.unique("services", "name", system.services.iter().map(|s| s.name.as_str()))
    }

    fn unique<'n>(
        &self,
        section: &str,
        key: &str,
        names: impl Iterator<Item = &'n str>,
    ) -> Result<(), Error> {
        let mut seen = HashMap::new();
        for (i, name) in names.enumerate() {
            if let Some(first) = seen.insert(name, i) {
                let expected = format!("a name of its own; {section}[{first}] has it");
                return Err(self.refuse(path![section, i, key], shorten(name), expected));
            }
        }
        Ok(())
    }

    /// Two real-time processes on one core must have an order; normal ones (0) need none.
    fn executors(&self) -> Result<(), Error> {
        let mut seen = HashMap::new();
        for (i, executor) in self.system.executors.iter().enumerate() {
            let place = (executor.core, executor.priority);
            if executor.priority == 0 {
                continue;
            }
            if let Some(other) = seen.insert(place, &executor.id) {
                let expected = format!(
                    "a priority of its own on core {}; {} has it",
                    executor.core,
                    shorten(other)
                );
                let found = executor.priority.to_string();
                return Err(self.refuse(path!["executors", i, "priority"], found, expected));
            }
        }
        Ok(())
    }

    fn services(&self) -> Result<(), Error> {
        for (i, service) in self.system.services.iter().enumerate() {
            if self.system.accelerator(&service.accelerator).is_none() {
                let path = path!["services", i, "accelerator"];
                return Err(self.unknown(path, &service.accelerator, "accelerators"));
            }
        }
        Ok(())
    }

    fn access(&self) -> Result<(), Error> {
        for (i, rule) in self.system.server.access.iter().enumerate() {
            for id in rule.declare.iter().flat_map(|percents| percents.keys()) {
                if self.system.accelerator(id).is_none() {
                    let path = path!["server", "access", i, "declare", id.as_str()];
                    return Err(self.unknown(path, id, "accelerators"));
                }
            }
        }
        Ok(())
    }

    fn chain_priorities(&self) -> Result<(), Error> {
        let mut seen = HashMap::new();
        for (i, chain) in self.system.chains.iter().enumerate() {
            if let Some(other) = seen.insert(chain.priority, &chain.id) {
                let expected = format!("a priority of its own; {} has it", shorten(other));
                let found = chain.priority.to_string();
                return Err(self.refuse(path!["chains", i, "priority"], found, expected));
            }
        }
        Ok(())
    }

    fn chain(&self, i: usize, chain: &Chain, index: &Index<'_>) -> Result<(), Error> {
        if chain.deadline_ns > chain.period_ns {
            let expected = format!("at most the period, {}", format_time(chain.period_ns));
            let found = format_time(chain.deadline_ns);
            return Err(self.refuse(path!["chains", i, "deadline"], found, expected));
        }
        let path = path!["chains", i, "jitter"];
        self.at_most(path, Some(chain.jitter_ns), "the period", chain.period_ns)?;
        for (accelerator, bucket) in &chain.bucket {
            let path = path!["chains", i, "bucket", accelerator.as_str()];
            match index.buckets.get(accelerator.as_str()) {
                None => return Err(self.unknown(path, accelerator, "accelerators")),
                Some(buckets) if bucket >= buckets => {
                    let expected =
                        format!("a bucket from 0 to {} of {}", buckets - 1, shorten(accelerator));
                    return Err(self.refuse(path, bucket.to_string(), expected));
                }
                Some(_) => {}
            }
        }
        let mut seen = HashSet::new();
        for (j, callback) in chain.callbacks.iter().enumerate() {
            if !seen.insert(&callback.id) {
                let path = path!["chains", i, "callbacks", j, "id"];
                let expected = "a name of its own in the chain";
                return Err(self.refuse(path, shorten(&callback.id), expected));
            }
            self.callback((i, j), callback, index)?;
        }
        Ok(())
    }

    fn callback(
        &self,
        (i, j): (usize, usize),
        callback: &Callback,
        index: &Index<'_>,
    ) -> Result<(), Error> {
        if !index.executors.contains(callback.executor.as_str()) {
            let path = path!["chains", i, "callbacks", j, "executor"];
            return Err(self.unknown(path, &callback.executor, "executors"));
        }
        let path = path!["chains", i, "callbacks", j, "cpu_min"];
        self.at_most(path, callback.cpu_min_ns, "cpu", callback.cpu_ns)?;
        self.cpu_before((i, j), callback)?;
        for (k, segment) in callback.segments.iter().enumerate() {
            let path = path!["chains", i, "callbacks", j, "segments", k];
            self.segment(path, segment, index)?;
        }
        Ok(())
    }

    /// Checks that the CPU time which is always spent before the requests is part of the least CPU
    /// time, or of the worst-case CPU time if the least one is not given.
    fn cpu_before(&self, (i, j): (usize, usize), callback: &Callback) -> Result<(), Error> {
        let (key, most_ns) = match callback.cpu_min_ns {
            Some(cpu_min_ns) => ("cpu_min", cpu_min_ns),
            None => ("cpu", callback.cpu_ns),
        };
        let mut before_ns = 0u64;
        for (k, segment) in callback.segments.iter().enumerate() {
            before_ns = before_ns.saturating_add(segment.cpu_before_ns);
            if before_ns > most_ns {
                let path = path!["chains", i, "callbacks", j, "segments", k, "cpu_before"];
                let found = match k {
                    0 => format_time(before_ns),
                    _ => format!("{} up to here", format_time(before_ns)),
                };
                let expected = format!("at most {key}, {}", format_time(most_ns));
                return Err(self.refuse(path, found, expected));
            }
        }
        Ok(())
    }

    /// Checks the segment that stands at `path`.
    pub(crate) fn segment(
        &self,
        path: &[Step],
        segment: &Segment,
        index: &Index<'_>,
    ) -> Result<(), Error> {
        let at = |key: &str| -> Vec<Step> { path.iter().cloned().chain([key.into()]).collect() };
        if !index.buckets.contains_key(segment.accel.as_str()) {
            return Err(self.unknown(&at("accel"), &segment.accel, "accelerators"));
        }
        self.at_most(&at("exec_min"), segment.exec_min_ns, "exec", segment.exec_ns)?;
        let Some(service) = &segment.service else { return Ok(()) };
        match index.services.get(service.as_str()) {
            None => Err(self.unknown(&at("service"), service, "services")),
            Some(accelerator) if *accelerator != segment.accel => {
                let expected = format!(
                    "a service of {}; this one belongs to {}",
                    shorten(&segment.accel),
                    shorten(accelerator)
                );
                Err(self.refuse(&at("service"), shorten(service), expected))
            }
            Some(_) => Ok(()),
        }
    }

    fn at_most(
        &self,
        path: &[Step],
        least_ns: Option<u64>,
        key: &str,
        most_ns: u64,
    ) -> Result<(), Error> {
        match least_ns {
            Some(least_ns) if least_ns > most_ns => {
                let expected = format!("at most {key}, {}", format_time(most_ns));
                Err(self.refuse(path, format_time(least_ns), expected))
            }
            _ => Ok(()),
        }
    }

    /// Explicit buckets of one accelerator must be those of its priorities, if it has such, and not
    /// fall as the chain priority rises.
    fn monotone_buckets(&self, accelerator: &Accelerator) -> Result<(), Error> {
        let id = accelerator.id.as_str();
        let mut explicit: Vec<(usize, &Chain, u32)> = self
            .system
            .chains
            .iter()
            .enumerate()
            .filter_map(|(i, chain)| Some((i, chain, *chain.bucket.get(id)?)))
            .collect();
        for (i, chain, bucket) in &explicit {
            let other = accelerator.bucket_of(chain.priority).filter(|from| from != bucket);
            if let Some(from) = other {
                let expected = format!("{from}, which bucket_from of {} says", shorten(id));
                return Err(self.refuse(
                    path!["chains", *i, "bucket", id],
                    bucket.to_string(),
                    expected,
                ));
            }
        }
        explicit.sort_by_key(|(_, chain, _)| chain.priority);
        for pair in explicit.windows(2) {
            let ((_, lower, floor), (i, chain, bucket)) = (pair[0], pair[1]);
            if bucket < floor {
                let expected = format!(
                    "at least {floor}, the bucket of {}, whose priority {} is below {}",
                    shorten(&lower.id),
                    lower.priority,
                    chain.priority
                );
                let path = path!["chains", i, "bucket", id];
                return Err(self.refuse(path, bucket.to_string(), expected));
            }
        }
        Ok(())
    }

    /// All times together must leave room for the sums of the analysis.
    fn work(&self) -> Result<(), Error> {
        let system = self.system;
        let costs_ns = [system.kappa_ns, system.kappa_ns, system.sigma_ns, system.epsilon_ns];
        let overhead_ns: u128 = costs_ns.into_iter().map(u128::from).sum();
        let of_callback = |callback: &Callback| {
            let requests = callback.segments.iter().map(|s| u128::from(s.exec_ns) + overhead_ns);
            requests.sum::<u128>() + u128::from(callback.cpu_ns) + u128::from(system.hop_ns)
        };
        let callbacks = system.chains.iter().flat_map(|chain| &chain.callbacks);
        let work_ns: u128 = callbacks.map(of_callback).sum();
        if work_ns <= u128::from(MAX_WORK_NS) {
            return Ok(());
        }
        let found = format!("execution times and overheads of {work_ns} ns in all");
        let expected = format!("at most {MAX_WORK_NS} ns (36 years)");
        Err(self.refuse(path!["chains"], found, expected))
    }

    /// An error about a reference to something that its section does not have.
    pub(crate) fn unknown(&self, path: &[Step], name: &str, section: &str) -> Error {
        let names: Vec<String> = match section {
            "accelerators" => self.system.accelerators.iter().map(|a| shorten(&a.id)).collect(),
            "executors" => self.system.executors.iter().map(|e| shorten(&e.id)).collect(),
            _ => self.system.services.iter().map(|s| shorten(&s.name)).collect(),
        };
        let expected = match names.len() {
            0 => format!("one of the {section}, but the file has none"),
            1..=12 => format!("one of the {section}: {}", names.join(", ")),
            count => format!("one of the {count} {section}"),
        };
        self.refuse(path, shorten(name), expected)
    }
}

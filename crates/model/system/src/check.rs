//! Conflicts between two values: references, duplicates, orders.
//!
//! The checks read the finished [`System`]; the tree only tells where a value stands. Every check
//! is linear (or sorts), so that a generated file of thousands of chains is no burden.

use crate::quantity::format_time;
use crate::{Accelerator, Callback, Chain, DeviceKind, Error, Segment, System, kernel};
use analysis::MAX_WORK_NS;
use files::{Step, Tree, shorten};
use std::collections::{HashMap, HashSet};

/// `steps!["chains", 2, "bucket"]`
macro_rules! steps {
    ($($step:expr),+) => { &[$(files::Step::from($step)),+] };
}
pub(crate) use steps;

/// Checks the system against itself.
pub(crate) fn check(system: &System, tree: &Tree) -> Result<(), Error> {
    let checker = Checker { system, tree };
    for (i, accelerator) in system.accelerators.iter().enumerate() {
        checker.accelerator(i, accelerator)?;
    }
    checker.distinct(steps!["server", "cores"], &system.server.cores)?;
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
    pub(crate) tree: &'s Tree,
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

impl Checker<'_> {
    /// Checks what an accelerator may say with its device and its buckets.
    fn accelerator(&self, i: usize, accelerator: &Accelerator) -> Result<(), Error> {
        let device = accelerator.device;
        let is_cuda = matches!(device, DeviceKind::Cuda(_));
        let is_gpu = is_cuda || matches!(device, DeviceKind::Vulkan(_));
        for (key, fits, devices) in [
            ("spin", is_gpu, "cuda:N or vulkan:N"),
            ("blocks_per_slice", is_cuda, "cuda:N"),
            ("slices_at_once", is_cuda, "cuda:N"),
            ("provider", device == DeviceKind::Onnx, "onnx"),
        ] {
            let path = steps!["accelerators", i, key];
            if !fits && self.tree.has(path) {
                return Err(self.tree.wrong(path, format!("{key} only with device {devices}")));
            }
        }
        kernel::check(accelerator, self.tree, steps!["accelerators", i])?;
        self.bucket_from(i, accelerator)?;
        self.distinct(steps!["accelerators", i, "cores"], &accelerator.cores)
    }

    /// A priority for each bucket: 0, and each above the one before.
    fn bucket_from(&self, i: usize, accelerator: &Accelerator) -> Result<(), Error> {
        let (from, buckets) = (&accelerator.bucket_from, accelerator.buckets);
        let path = steps!["accelerators", i, "bucket_from"];
        if self.tree.has(path) && from.len() != buckets as usize {
            return Err(self
                .tree
                .wrong(path, format!("one priority for each of {buckets} buckets")));
        }
        for (j, priority) in from.iter().enumerate() {
            let expected = match j.checked_sub(1).map(|below| from[below]) {
                None if *priority != 0 => "0, so that all have a bucket".to_owned(),
                Some(below) if *priority <= below => {
                    format!("more than {below}, from which the bucket below is")
                }
                _ => continue,
            };
            return Err(self.tree.wrong(steps!["accelerators", i, "bucket_from", j], expected));
        }
        Ok(())
    }

    fn distinct(&self, path: &[Step<'_>], cores: &[u32]) -> Result<(), Error> {
        match (1..cores.len()).find(|&j| cores[..j].contains(&cores[j])) {
            Some(j) => Err(self.tree.wrong(&[path, steps![j]].concat(), "every core once")),
            None => Ok(()),
        }
    }

    fn unique_names(&self) -> Result<(), Error> {
        let system = self.system;
        self.unique(steps!["accelerators"], "id", system.accelerators.iter().map(|a| &a.id))?;
        self.unique(steps!["executors"], "id", system.executors.iter().map(|e| &e.id))?;
        self.unique(steps!["chains"], "id", system.chains.iter().map(|c| &c.id))?;
        self.unique(steps!["services"], "name", system.services.iter().map(|s| &s.name))
    }

    pub(crate) fn unique<'n>(
        &self,
        section: &[Step<'_>],
        key: &'static str,
        names: impl Iterator<Item = &'n String>,
    ) -> Result<(), Error> {
        let mut seen = HashMap::new();
        for (i, name) in names.enumerate() {
            if let Some(first) = seen.insert(name, i) {
                let section_text = files::path_text(section);
                let expected = format!("a name of its own; {section_text}[{first}] has it");
                return Err(self.tree.wrong(&[section, steps![i, key]].concat(), expected));
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
                return Err(self.tree.wrong(steps!["executors", i, "priority"], expected));
            }
        }
        Ok(())
    }

    fn services(&self) -> Result<(), Error> {
        for (i, service) in self.system.services.iter().enumerate() {
            if self.system.accelerator(&service.accelerator).is_none() {
                let path = steps!["services", i, "accelerator"];
                return Err(self.unknown(path, &service.accelerator, "accelerators"));
            }
        }
        Ok(())
    }

    fn access(&self) -> Result<(), Error> {
        for (i, rule) in self.system.server.access.iter().enumerate() {
            if rule.user.is_some() == rule.group.is_some() {
                let path = steps!["server", "access", i];
                return Err(self.tree.wrong(path, "either a user or a group"));
            }
            for (id, percent) in rule.percents().iter().flatten() {
                let path = steps!["server", "access", i, "declare", id.as_str()];
                if *percent > 100 {
                    return Err(self.tree.wrong(path, "a whole number from 0 to 100"));
                }
                if self.system.accelerator(id).is_none() {
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
                return Err(self.tree.wrong(steps!["chains", i, "priority"], expected));
            }
        }
        Ok(())
    }

    fn chain(&self, i: usize, chain: &Chain, index: &Index<'_>) -> Result<(), Error> {
        if chain.callbacks.is_empty() {
            let path = steps!["chains", i, "callbacks"];
            return Err(self.tree.wrong(path, "at least one callback"));
        }
        if chain.deadline_ns > chain.period_ns {
            let expected = format!("at most the period, {}", format_time(chain.period_ns));
            return Err(self.tree.wrong(steps!["chains", i, "deadline"], expected));
        }
        let path = steps!["chains", i, "jitter"];
        self.at_most(path, Some(chain.jitter_ns), "the period", chain.period_ns)?;
        for (accelerator, bucket) in &chain.bucket {
            let path = steps!["chains", i, "bucket", accelerator.as_str()];
            match index.buckets.get(accelerator.as_str()) {
                None => return Err(self.unknown(path, accelerator, "accelerators")),
                Some(buckets) if bucket >= buckets => {
                    let expected =
                        format!("a bucket from 0 to {} of {}", buckets - 1, shorten(accelerator));
                    return Err(self.tree.wrong(path, expected));
                }
                Some(_) => {}
            }
        }
        let mut seen = HashSet::new();
        for (j, callback) in chain.callbacks.iter().enumerate() {
            if !seen.insert(&callback.id) {
                let path = steps!["chains", i, "callbacks", j, "id"];
                let expected = "a name of its own in the chain";
                return Err(self.tree.wrong(path, expected));
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
        if callback.cpu_ns == 0 && callback.segments.is_empty() {
            let path = steps!["chains", i, "callbacks", j];
            let expected = "a cpu time above 0 or at least one segment";
            return Err(self.tree.wrong(path, expected));
        }
        if !index.executors.contains(callback.executor.as_str()) {
            let path = steps!["chains", i, "callbacks", j, "executor"];
            return Err(self.unknown(path, &callback.executor, "executors"));
        }
        let path = steps!["chains", i, "callbacks", j, "cpu_min"];
        self.at_most(path, callback.cpu_min_ns, "cpu", callback.cpu_ns)?;
        self.cpu_before((i, j), callback)?;
        for (k, segment) in callback.segments.iter().enumerate() {
            let path = steps!["chains", i, "callbacks", j, "segments", k];
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
                let path = steps!["chains", i, "callbacks", j, "segments", k, "cpu_before"];
                let found = match k {
                    0 => format_time(before_ns),
                    _ => format!("{} up to here", format_time(before_ns)),
                };
                let expected = format!("at most {key}, {}", format_time(most_ns));
                return Err(self.tree.refuse(path, &found, expected));
            }
        }
        Ok(())
    }

    /// Checks the segment that stands at `path`.
    pub(crate) fn segment(
        &self,
        path: &[Step<'_>],
        segment: &Segment,
        index: &Index<'_>,
    ) -> Result<(), Error> {
        let at = |key: &'static str| [path, steps![key]].concat();
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
                Err(self.tree.refuse(&at("service"), &shorten(service), expected))
            }
            Some(_) => Ok(()),
        }
    }

    fn at_most(
        &self,
        path: &[Step<'_>],
        least_ns: Option<u64>,
        key: &str,
        most_ns: u64,
    ) -> Result<(), Error> {
        match least_ns {
            Some(least_ns) if least_ns > most_ns => {
                let expected = format!("at most {key}, {}", format_time(most_ns));
                Err(self.tree.refuse(path, &format_time(least_ns), expected))
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
                return Err(self.tree.wrong(steps!["chains", *i, "bucket", id], expected));
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
                let path = steps!["chains", i, "bucket", id];
                return Err(self.tree.wrong(path, expected));
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
        Err(self.tree.refuse(steps!["chains"], &found, expected))
    }

    /// An error about a reference to something that its section does not have.
    pub(crate) fn unknown(&self, path: &[Step<'_>], name: &str, section: &str) -> Error {
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
        self.tree.refuse(path, &shorten(name), expected)
    }
}

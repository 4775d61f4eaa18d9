//! The system laid out flat, as the recurrences walk it: parts, callbacks and segments in three
//! lists, and for each accelerator the chains that use it, the highest priority first.
//!
//! Everything here depends on the system alone. A loaded view keeps its memory, so that a study
//! of a million systems allocates for the largest of them only.

use crate::bound::jobs::{Budget, Period};
use crate::{Error, System, Wait};
use std::ops::Range;

#[derive(Debug, Default)]
pub(super) struct View {
    pub chains: Vec<ChainView>,
    pub parts: Vec<PartView>,
    pub callbacks: Vec<CallbackView>,
    pub segments: Vec<SegmentView>,
    /// Users by accelerator, the highest priority first.
    pub users: Vec<Vec<User>>,
    /// Number of users that the accelerators before it have, by accelerator.
    pub users_before: Vec<usize>,
    /// Indices into `segments`, each user's in a row.
    pub user_segments: Vec<usize>,
    /// Number of users of higher priority, by chain and accelerator.
    above: Vec<usize>,
    /// Indices into `parts`: the ranges `hp`, `hpp` and `lp` of each part.
    pub others: Vec<usize>,
    /// The parts in an order in which each comes after those of its `hp` and `hpp`.
    pub order: Vec<usize>,
    /// The chains, the highest priority first.
    pub by_priority: Vec<usize>,
    /// True, for each accelerator, if a lower-priority request of its lowest bucket runs beside
    /// others.
    pub concurrent_lowest: Vec<bool>,
    pub epsilon: u64,
    pub hop: u64,
    /// Steps that the analysis of this system may make.
    pub budget: Budget,
    /// The greatest deadline: no handling time above it can be part of a bound.
    pub horizon: u64,
}

#[derive(Debug, Clone)]
pub(super) struct ChainView {
    pub priority: u32,
    pub period: Period,
    pub deadline: u64,
    pub jitter: u64,
    pub spin: bool,
    pub best_effort: bool,
    pub parts: Range<usize>,
    /// An accelerator on which it is in a bucket that runs requests beside each other.
    pub concurrent: Option<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct PartView {
    pub chain: usize,
    pub executor: usize,
    pub core: u32,
    pub process_priority: u32,
    pub callbacks: Range<usize>,
    pub segments: Range<usize>,
    /// `E`: sum of processor times.
    pub cpu: u64,
    /// Least time from the chain's release to the release of this part.
    pub head_min: u64,
    /// Parts of higher-priority chains on the same executor, in [`View::others`].
    pub hp: Range<usize>,
    /// Parts of other executors of the core that preempt this one, in [`View::others`].
    pub hpp: Range<usize>,
    /// Parts of lower-priority chains on the same executor, in [`View::others`].
    pub lp: Range<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct CallbackView {
    pub cpu: u64,
    pub segments: Range<usize>,
}

#[derive(Debug, Clone)]
pub(super) struct SegmentView {
    pub chain: usize,
    pub part: usize,
    pub executor: usize,
    pub accelerator: usize,
    pub bucket: u32,
    /// `A* = A + 2 kappa + sigma`.
    pub demand: u64,
    /// `A*` without `kappa` where the accelerator has one bucket in use, which nothing preempts.
    pub exact_demand: u64,
    /// Least time from the chain's release to this request.
    pub head_min: u64,
    /// Least time from this request's end to the end of its part.
    pub tail_min: u64,
}

/// A chain on an accelerator.
#[derive(Debug, Clone)]
pub(super) struct User {
    pub chain: usize,
    pub bucket: u32,
    /// Its segments there, in [`View::user_segments`].
    pub segments: Range<usize>,
    /// Sum of `A*`.
    pub demand: u64,
    /// Greatest `A*`.
    pub largest: u64,
    /// Sum of the exact `A*`.
    pub exact_demand: u64,
    /// The executor that all of its requests come from, where it is one.
    pub executor: Option<usize>,
    /// Time after the request's end in which the device may be busy: `kappa` where buckets preempt.
    pub after: u64,
}

impl View {
    /// Lays out a system.
    pub(super) fn load(&mut self, system: &System) -> Result<(), Error> {
        system.check()?;
        self.epsilon = system.epsilon_ns;
        self.hop = system.hop_ns;
        self.horizon = system.chains.iter().map(|chain| chain.deadline_ns).max().unwrap_or(0);
        self.concurrent_lowest.clear();
        self.concurrent_lowest.extend(system.accelerators.iter().map(|a| a.concurrent_lowest));
        self.chains.clear();
        self.parts.clear();
        self.callbacks.clear();
        self.segments.clear();
        for index in 0..system.chains.len() {
            self.add_chain(system, index);
        }
        self.add_users(system);
        self.rank_users();
        self.relate_parts();
        Ok(())
    }

    fn add_chain(&mut self, system: &System, index: usize) {
        let chain = &system.chains[index];
        let first_part = self.parts.len();
        let mut clock = 0;
        for range in chain.parts() {
            if self.parts.len() > first_part {
                clock += system.hop_ns;
            }
            clock = self.add_part(system, index, range, clock);
        }
        let concurrent = chain
            .segments()
            .map(|segment| segment.accelerator)
            .find(|&a| system.accelerators[a].concurrent_lowest && chain.buckets[a] == 0);
        self.chains.push(ChainView {
            priority: chain.priority,
            period: Period::new(chain.period_ns),
            deadline: chain.deadline_ns,
            jitter: chain.jitter_ns,
            spin: chain.wait == Wait::Spin,
            best_effort: chain.best_effort,
            parts: first_part..self.parts.len(),
            concurrent,
        });
    }

    /// Adds one part that is released `clock` after its chain at the earliest, and returns the
    /// earliest end.
    fn add_part(
        &mut self,
        system: &System,
        index: usize,
        range: Range<usize>,
        head_min: u64,
    ) -> u64 {
        let chain = &system.chains[index];
        let executor = chain.callbacks[range.start].executor;
        let (first_callback, first_segment) = (self.callbacks.len(), self.segments.len());
        let (mut clock, mut cpu) = (head_min, 0);
        for callback in &chain.callbacks[range] {
            let begin = self.segments.len();
            let mut left = callback.cpu.min_ns;
            for segment in &callback.segments {
                let exec = segment.exec.max_ns + system.sigma_ns;
                clock += segment.cpu_before_ns;
                left = left.saturating_sub(segment.cpu_before_ns);
                let request = clock;
                clock += segment.exec.min_ns;
                self.segments.push(SegmentView {
                    chain: index,
                    part: self.parts.len(),
                    executor,
                    accelerator: segment.accelerator,
                    bucket: chain.buckets[segment.accelerator],
                    demand: exec + 2 * system.kappa_ns,
                    exact_demand: exec,
                    head_min: request,
                    tail_min: clock,
                });
            }
            clock += left;
            // The time that is left may be used before or after any of the requests.
            for segment in &mut self.segments[begin..] {
                segment.tail_min += left;
            }
            cpu += callback.cpu.max_ns;
            let segments = begin..self.segments.len();
            self.callbacks.push(CallbackView { cpu: callback.cpu.max_ns, segments });
        }
        for segment in &mut self.segments[first_segment..] {
            // Until here the end of the request.
            segment.tail_min = clock - segment.tail_min;
        }
        self.parts.push(PartView {
            chain: index,
            executor,
            core: system.executors[executor].core,
            process_priority: system.executors[executor].priority,
            callbacks: first_callback..self.callbacks.len(),
            segments: first_segment..self.segments.len(),
            cpu,
            head_min,
            hp: 0..0,
            hpp: 0..0,
            lp: 0..0,
        });
        clock
    }

    fn add_users(&mut self, system: &System) {
        for users in &mut self.users {
            users.clear();
        }
        self.users.resize_with(system.accelerators.len(), Vec::new);
        self.user_segments.clear();
        self.by_priority.clear();
        self.by_priority.extend(0..self.chains.len());
        self.by_priority
            .sort_unstable_by_key(|&chain| std::cmp::Reverse(self.chains[chain].priority));
        for place in 0..self.by_priority.len() {
            self.add_user(self.by_priority[place]);
        }
        let mut count = 0;
        self.users_before.clear();
        for users in &mut self.users {
            self.users_before.push(count);
            count += users.len();
            let preempts = users.windows(2).any(|pair| pair[0].bucket != pair[1].bucket);
            if !preempts {
                continue;
            }
            for user in users.iter_mut() {
                user.after = system.kappa_ns;
                for &segment in &self.user_segments[user.segments.clone()] {
                    let segment = &mut self.segments[segment];
                    segment.exact_demand = segment.demand;
                }
                user.exact_demand = user.demand;
            }
        }
    }

    fn rank_users(&mut self) {
        let accelerators = self.users.len();
        self.above.clear();
        self.above.resize(self.chains.len() * accelerators, 0);
        for (accelerator, users) in self.users.iter().enumerate() {
            for (chain, view) in self.chains.iter().enumerate() {
                let higher =
                    users.partition_point(|user| self.chains[user.chain].priority > view.priority);
                self.above[chain * accelerators + accelerator] = higher;
            }
        }
    }

    fn add_user(&mut self, chain: usize) {
        let parts = self.chains[chain].parts.clone();
        let Some(first) = parts.clone().next() else { return };
        let segments = self.parts[first].segments.start..self.parts[parts.end - 1].segments.end;
        for accelerator in 0..self.users.len() {
            let begin = self.user_segments.len();
            let mut user = User {
                chain,
                bucket: 0,
                segments: 0..0,
                demand: 0,
                largest: 0,
                exact_demand: 0,
                executor: None,
                after: 0,
            };
            let mut several = false;
            for index in segments.clone() {
                let segment = &self.segments[index];
                if segment.accelerator != accelerator {
                    continue;
                }
                self.user_segments.push(index);
                several |= user.executor.is_some_and(|executor| executor != segment.executor);
                user.executor = Some(segment.executor);
                user.bucket = segment.bucket;
                user.demand += segment.demand;
                user.exact_demand += segment.exact_demand;
                user.largest = user.largest.max(segment.demand);
            }
            user.segments = begin..self.user_segments.len();
            if several {
                user.executor = None;
            }
            if !user.segments.is_empty() {
                self.users[accelerator].push(user);
            }
        }
    }

    fn relate_parts(&mut self) {
        self.others.clear();
        for index in 0..self.parts.len() {
            let part = &self.parts[index];
            let priority = self.chains[part.chain].priority;
            let begin = self.others.len();
            let mut push = |wanted: &dyn Fn(&PartView) -> bool| {
                for (other, view) in self.parts.iter().enumerate() {
                    if view.chain != part.chain && view.core == part.core && wanted(view) {
                        self.others.push(other);
                    }
                }
                self.others.len()
            };
            let same = |other: &PartView| other.executor == part.executor;
            let above = |other: &PartView| self.chains[other.chain].priority > priority;
            let hp = push(&|other| same(other) && above(other));
            let lp = push(&|other| same(other) && !above(other));
            // Only executors at normal priority are equal: each may run before the other.
            let hpp =
                push(&|other| !same(other) && other.process_priority >= part.process_priority);
            let part = &mut self.parts[index];
            (part.hp, part.lp, part.hpp) = (begin..hp, hp..lp, lp..hpp);
        }
        self.order.clear();
        self.order.extend(0..self.parts.len());
        self.order.sort_unstable_by_key(|&part| {
            let view = &self.parts[part];
            let priority = self.chains[view.chain].priority;
            std::cmp::Reverse((view.core, view.process_priority, priority, part))
        });
    }

    /// The users of an accelerator with higher priority than a chain.
    pub(super) fn users_above(&self, accelerator: usize, chain: usize) -> &[User] {
        &self.users[accelerator][..self.above[chain * self.users.len() + accelerator]]
    }

    /// Returns the place of a chain among the users of an accelerator.
    pub(super) fn user_of(&self, accelerator: usize, chain: usize) -> Option<usize> {
        let place = self.above[chain * self.users.len() + accelerator];
        let user = self.users[accelerator].get(place);
        user.is_some_and(|user| user.chain == chain).then_some(place)
    }

    /// The users of an accelerator with lower priority than a chain.
    pub(super) fn users_below(&self, accelerator: usize, chain: usize) -> &[User] {
        let place = self.above[chain * self.users.len() + accelerator];
        let users = &self.users[accelerator][place..];
        match users.first() {
            Some(user) if user.chain == chain => &users[1..],
            _ => users,
        }
    }
}

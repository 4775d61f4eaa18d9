//! Search for priorities, buckets and devices with which every chain meets its deadline.
//!
//! An order of the chains gives everything else: chain priorities by rank, executors by their most
//! critical chain (as PiCAS does), buckets by a monotone cut of each accelerator's chains. Orders
//! are tried from the cheapest: deadline monotonic, Audsley's assignment from the lowest level up,
//! then a local search over orders and cuts. Segments of interchangeable devices are placed first,
//! worst fit with decreasing utilisation (PAAM, section IV-E3).
//!
//! Chains and executors may be [`Held`]: no search lowers one of them below another one that it was
//! above. Priorities are the numbers that the system has, given out in the new order.
//!
//! Audsley's assignment is exact where the test of a chain depends only on which chains are above
//! it and which below: [`Variant::Sound`], one chain for each executor, all suspending. Elsewhere
//! it is a heuristic; whatever is found is checked by the full analysis in the end.

use crate::bound::{Analyzer, Status, Variant};
use crate::{Error, Step, System, Watch};
use fastrand::Rng;

/// Options of a search: its analysis, its scope and its effort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AssignOptions {
    /// The analysis that must accept the result.
    pub variant: Variant,
    /// Analyses that the local search may spend.
    pub effort: u32,
    /// Seed of its random choices.
    pub seed: u64,
}

impl Default for AssignOptions {
    fn default() -> AssignOptions {
        AssignOptions { variant: Variant::Tight, effort: 4000, seed: 1 }
    }
}

/// Chains and executors that keep their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Held {
    /// Chains (indices): none of them comes below another one that it is above now.
    pub chains: Vec<usize>,
    /// Executors (indices) that keep their process priorities.
    pub executors: Vec<usize>,
}

/// Result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The system with its priorities, buckets and devices.
    pub system: System,
    /// True if it is schedulable; if not, it is the one with the most chains that are ok.
    pub schedulable: bool,
    /// Method that found it.
    pub method: Method,
    /// Number of systems that were analysed.
    pub analyses: u32,
    /// Chains, best-effort ones left out, that are ok.
    pub ok: usize,
    /// Chains that are not best effort.
    pub of: usize,
}

/// Method that found an order of priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// The order that the chains had.
    Given,
    /// The shorter the deadline, the higher.
    DeadlineMonotonic,
    /// Audsley's assignment, the lowest first.
    Audsley,
    /// Changes of the best order so far.
    LocalSearch,
}

/// New process priorities are given out from here down: the server's threads are above.
const HIGHEST_PROCESS_PRIORITY: u32 = 90;

/// Searches for an assignment of priorities, buckets and devices. Cores and executors stay.
///
/// `units` are groups of accelerators (indices) that may do each other's work; segments are
/// spread over a group, whichever of it they name. Best-effort chains come after all others. A
/// deadline that cannot be met with any order is not proof that none exists: the search is not
/// exhaustive. `watch` is told how many systems were analysed, and how far the analysis of the
/// next one is; if it returns false, the best so far is the result.
///
/// # Errors
/// [`Error`] when the model contradicts itself other than in what is assigned here, and where
/// more real-time executors share a core than there are process priorities; [`Error::Stopped`]
/// when `watch` ended the first analysis.
pub fn assign(
    system: &System,
    units: &[Vec<usize>],
    held: &Held,
    options: &AssignOptions,
    watch: &Watch,
) -> Result<Assignment, Error> {
    let mut placed = system.clone();
    worst_fit_decreasing(&mut placed, units);
    let mut kept = held.chains.clone();
    kept.sort_by_key(|&chain| std::cmp::Reverse(system.chains[chain].priority));
    let mut search = Search {
        system: placed,
        held: Held { chains: kept, executors: held.executors.clone() },
        options,
        watch,
        analyzer: Analyzer::watched(watch),
        analyses: 0,
        is_over: false,
        best: None,
    };
    search.run()?;
    let analyses = search.analyses;
    let Tried { candidate, method, ok, of } = search.best.take().ok_or(Error::Stopped)?;
    let system = apply(&search.system, &search.held, &candidate)?;
    Ok(Assignment { system, schedulable: ok == of, method, analyses, ok, of })
}

/// Places segments on interchangeable accelerators: the segment of the greatest utilisation first,
/// each on the unit with the least so far (worst fit decreasing).
pub fn worst_fit_decreasing(system: &mut System, units: &[Vec<usize>]) {
    for group in units {
        let mut segments = Vec::new();
        for (c, chain) in system.chains.iter().enumerate() {
            for (i, callback) in chain.callbacks.iter().enumerate() {
                for (k, segment) in callback.segments.iter().enumerate() {
                    if group.contains(&segment.accelerator) {
                        let load = segment.exec.max_ns as f64 / chain.period_ns as f64;
                        segments.push((load, c, i, k));
                    }
                }
            }
        }
        segments.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2, a.3).cmp(&(b.1, b.2, b.3))));
        let mut loads = vec![0.0; group.len()];
        for (load, c, i, k) in segments {
            let least = (0..group.len()).min_by(|&a, &b| f64::total_cmp(&loads[a], &loads[b]));
            let Some(unit) = least else { continue };
            loads[unit] += load;
            system.chains[c].callbacks[i].segments[k].accelerator = group[unit];
        }
    }
}

/// Division of the chains of an accelerator into buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cut {
    /// Those that the chains have.
    Kept,
    /// The same number in each bucket, by rank.
    Even,
    /// One for each of the highest chains, all others in the lowest.
    Top,
    /// One for each of the lowest chains, all others in the highest.
    Bottom,
    /// Number of chains in the upper one of two buckets; 0 is a single bucket.
    Two(usize),
}

/// An order of the chains and a cut for each accelerator.
#[derive(Debug, Clone)]
struct Candidate {
    order: Vec<usize>,
    cuts: Vec<Cut>,
}

struct Tried {
    candidate: Candidate,
    method: Method,
    ok: usize,
    of: usize,
}

struct Search<'s> {
    system: System,
    /// Its chains with the highest priority first.
    held: Held,
    options: &'s AssignOptions,
    watch: &'s Watch,
    analyzer: Analyzer,
    analyses: u32,
    /// True when the rest is not wanted.
    is_over: bool,
    best: Option<Tried>,
}

impl Search<'_> {
    fn run(&mut self) -> Result<(), Error> {
        let given = by_key(&self.system, |chain| std::cmp::Reverse(chain.priority));
        let deadlines = by_key(&self.system, |chain| (chain.deadline_ns, chain.period_ns));
        let deadlines = self.keep(deadlines);
        if self.attempt(self.kept(&given), Method::Given)? {
            return Ok(());
        }
        let orders = match self.is_free() {
            true => vec![(deadlines.clone(), Method::DeadlineMonotonic), (given, Method::Given)],
            false => vec![(given, Method::Given)],
        };
        for (order, method) in orders {
            for cut in self.cuts() {
                if self.attempt(self.alike(order.clone(), cut), method)? {
                    return Ok(());
                }
            }
        }
        if self.is_free() {
            for cut in [Cut::Even, Cut::Top, Cut::Two(0)] {
                if let Some(order) = self.audsley(&deadlines, cut)? {
                    if self.attempt(self.alike(order, cut), Method::Audsley)? {
                        return Ok(());
                    }
                }
            }
        }
        self.climb()
    }

    /// The given order with the given buckets, or even ones where best-effort chains move below
    /// others.
    fn kept(&self, given: &[usize]) -> Candidate {
        let is_same = *given == self.system.chains_by_priority();
        self.alike(given.to_vec(), if is_same { Cut::Kept } else { Cut::Even })
    }

    /// The chains that are not best effort: those whose order counts.
    fn real_time(&self) -> usize {
        self.system.chains.iter().filter(|chain| !chain.best_effort).count()
    }

    /// Returns true if there is more than one order.
    fn is_free(&self) -> bool {
        self.real_time() > self.held.chains.len().max(1)
    }

    /// The order with the held chains, on the places that they have in it, in the order that they
    /// keep.
    fn keep(&self, mut order: Vec<usize>) -> Vec<usize> {
        let mut kept = self.held.chains.iter();
        for chain in &mut order {
            if self.held.chains.contains(chain) {
                *chain = *kept.next().expect("as many as in the order");
            }
        }
        order
    }

    fn cuts(&self) -> Vec<Cut> {
        let most = self.system.chains.len();
        let two = (0..most).map(Cut::Two);
        [Cut::Even, Cut::Top, Cut::Bottom].into_iter().chain(two).collect()
    }

    fn alike(&self, order: Vec<usize>, cut: Cut) -> Candidate {
        Candidate { order, cuts: vec![cut; self.system.accelerators.len()] }
    }

    /// Analyses a candidate and keeps the best; whether it is schedulable.
    fn attempt(&mut self, candidate: Candidate, method: Method) -> Result<bool, Error> {
        if self.is_over {
            return Ok(true);
        }
        let Some(statuses) = self.analyse(&candidate)? else { return Ok(true) };
        let counts = |chain: &usize| !self.system.chains[*chain].best_effort;
        let of = (0..self.system.chains.len()).filter(counts).count();
        let ok = |chain: &usize| statuses[*chain] == Status::Ok;
        let ok = (0..self.system.chains.len()).filter(counts).filter(ok).count();
        let better = self.best.as_ref().is_none_or(|best| ok > best.ok);
        if better {
            self.best = Some(Tried { candidate, method, ok, of });
        }
        Ok(ok == of)
    }

    /// Returns the statuses of the chains; none if the analysis is no longer wanted.
    fn analyse(&mut self, candidate: &Candidate) -> Result<Option<Vec<Status>>, Error> {
        self.analyzer.load(&apply(&self.system, &self.held, candidate)?)?;
        let verdict = self.analyzer.run(self.options.variant);
        let statuses = verdict.chains.iter().map(|&(status, _)| status).collect();
        if self.analyzer.ensure_complete().is_err() {
            self.is_over = true;
            return Ok(None);
        }
        self.analyses += 1;
        let step = Step::Analyses { done: self.analyses.into(), most: self.most() };
        self.is_over |= !self.watch.goes_on(step);
        Ok(Some(statuses))
    }

    /// The largest number of analyses.
    fn most(&self) -> u64 {
        let cuts = self.cuts().len() as u64;
        let levels = self.real_time() as u64;
        let audsley = 3 * (levels * (levels + 1) / 2 + 1);
        let orders = if self.is_free() { 2 * cuts + audsley } else { cuts };
        1 + orders + u64::from(self.options.effort)
    }

    /// Fills the levels from the lowest: any chain that meets its deadline there may stay there. Of
    /// the held chains, that is the lowest one that has no level yet.
    fn audsley(&mut self, start: &[usize], cut: Cut) -> Result<Option<Vec<usize>>, Error> {
        let mut order = start.to_vec();
        // Best-effort chains are at the end already, in any order.
        let best_effort = |chain: &usize| self.system.chains[*chain].best_effort;
        let levels = order.iter().position(best_effort).unwrap_or(order.len());
        for level in (0..levels).rev() {
            let mut found = false;
            for from in (0..=level).rev() {
                if self.is_over || !self.may_be_next(order[from], &order[..=level]) {
                    continue;
                }
                let chain = order.remove(from);
                order.insert(level, chain);
                let candidate = self.alike(order.clone(), cut);
                let Some(statuses) = self.analyse(&candidate)? else { return Ok(None) };
                // The chains above have no place yet: a bound that depends on them counts, too.
                if statuses[chain] != Status::Miss {
                    found = true;
                    break;
                }
                let chain = order.remove(level);
                order.insert(from, chain);
            }
            if !found {
                return Ok(None);
            }
        }
        Ok(Some(order))
    }

    /// Returns true if no other held chain among `open` has to be below this chain.
    fn may_be_next(&self, chain: usize, open: &[usize]) -> bool {
        let lowest = self.held.chains.iter().rev().find(|held| open.contains(held));
        !self.held.chains.contains(&chain) || lowest == Some(&chain)
    }

    /// Changes the best candidate a little, again and again, and keeps what is not worse.
    fn climb(&mut self) -> Result<(), Error> {
        let mut rng = Rng::with_seed(self.options.seed);
        let Some(best) = &self.best else { return Ok(()) };
        let (mut current, mut ok) = (best.candidate.clone(), best.ok);
        let cuts = self.cuts();
        for _ in 0..self.options.effort {
            if self.is_over {
                break;
            }
            let mut next = current.clone();
            let chains = next.order.len();
            let real_time = next.order.iter().position(|&c| self.system.chains[c].best_effort);
            let real_time = real_time.unwrap_or(chains);
            if self.is_free() && rng.u8(..4) > 0 {
                let from = rng.usize(..real_time);
                let to = rng.usize(..real_time);
                let chain = next.order.remove(from);
                next.order.insert(to, chain);
                next.order = self.keep(next.order);
                // The given buckets are those of the given order.
                let kept = next.cuts.iter_mut().filter(|cut| **cut == Cut::Kept);
                kept.for_each(|cut| *cut = Cut::Even);
            } else if !next.cuts.is_empty() {
                let accelerator = rng.usize(..next.cuts.len());
                next.cuts[accelerator] = cuts[rng.usize(..cuts.len())];
            }
            let Some(statuses) = self.analyse(&next)? else { break };
            let counts = |&(chain, status): &(usize, &Status)| {
                *status == Status::Ok && !self.system.chains[chain].best_effort
            };
            let now = statuses.iter().enumerate().filter(counts).count();
            if now < ok {
                continue;
            }
            (current, ok) = (next, now);
            if let Some(best) = &mut self.best {
                if now > best.ok {
                    let candidate = current.clone();
                    *best = Tried { candidate, method: Method::LocalSearch, ok, of: best.of };
                    if ok == best.of {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}

/// The chains in the order of a key, best effort last.
fn by_key<K: Ord>(system: &System, key: impl Fn(&crate::Chain) -> K) -> Vec<usize> {
    let mut order: Vec<usize> = (0..system.chains.len()).collect();
    order.sort_by_key(|&chain| (system.chains[chain].best_effort, key(&system.chains[chain])));
    order
}

/// The system with the priorities and buckets of a candidate.
fn apply(system: &System, held: &Held, candidate: &Candidate) -> Result<System, Error> {
    let mut numbers: Vec<u32> = system.chains.iter().map(|chain| chain.priority).collect();
    numbers.sort_unstable_by_key(|&number| std::cmp::Reverse(number));
    let mut system = system.clone();
    for (&chain, &priority) in candidate.order.iter().zip(&numbers) {
        system.chains[chain].priority = priority;
    }
    for (accelerator, &cut) in
        candidate.cuts.iter().enumerate().filter(|(_, cut)| **cut != Cut::Kept)
    {
        cut_buckets(&mut system, accelerator, &candidate.order, cut);
    }
    order_executors(&mut system, held)?;
    Ok(system)
}

fn cut_buckets(system: &mut System, accelerator: usize, order: &[usize], cut: Cut) {
    let device = system.accelerators[accelerator];
    let users: Vec<usize> =
        order.iter().copied().filter(|&chain| system.chains[chain].uses(accelerator)).collect();
    // Nothing in a bucket that runs its requests beside each other has a bound.
    let apart = device.concurrent_lowest && device.buckets > 1;
    let lowest = u32::from(apart);
    let bound = users.iter().filter(|&&chain| !apart || !system.chains[chain].best_effort).count();
    let buckets = (device.buckets - lowest) as usize;
    for (rank, &chain) in users.iter().enumerate() {
        let bucket = match cut {
            Cut::Kept => return,
            _ if rank >= bound => None,
            Cut::Even => Some(buckets - 1 - rank * buckets / bound),
            Cut::Top => Some((buckets - 1).saturating_sub(rank)),
            Cut::Bottom => Some((bound - 1 - rank).min(buckets - 1)),
            Cut::Two(upper) => Some(usize::from(rank < upper && buckets > 1)),
        };
        let chain = &mut system.chains[chain];
        chain.buckets[accelerator] = bucket.map_or(0, |bucket| bucket as u32 + lowest);
    }
}

/// The executors of each core are ordered by their most critical chain, except those that are held.
/// They share the numbers that they have, as far as these suffice.
fn order_executors(system: &mut System, held: &Held) -> Result<(), Error> {
    let mut top = vec![0; system.executors.len()];
    for chain in &system.chains {
        for callback in &chain.callbacks {
            let rank: &mut u32 = &mut top[callback.executor];
            *rank = (*rank).max(chain.priority);
        }
    }
    let mut cores: Vec<u32> = system.executors.iter().map(|executor| executor.core).collect();
    cores.sort_unstable();
    cores.dedup();
    cores.into_iter().try_for_each(|core| order_core(system, held, &top, core))
}

fn order_core(system: &mut System, held: &Held, top: &[u32], core: u32) -> Result<(), Error> {
    let on_core = (0..system.executors.len()).filter(|&e| system.executors[e].core == core);
    let (fixed, mut free): (Vec<usize>, Vec<usize>) =
        on_core.partition(|executor| held.executors.contains(executor));
    free.sort_by_key(|&executor| std::cmp::Reverse(top[executor]));
    let fixed: Vec<(u32, u32)> = fixed
        .iter()
        .map(|&executor| (top[executor], system.executors[executor].priority))
        .collect();
    let mut numbers: Vec<u32> = free.iter().map(|&e| system.executors[e].priority).collect();
    numbers.sort_unstable_by_key(|&number| std::cmp::Reverse(number));
    numbers.extend((1..=HIGHEST_PROCESS_PRIORITY).rev());
    let mut below = u32::MAX;
    for executor in free {
        let above = fixed.iter().filter(|(of, number)| *of > top[executor] && *number > 0);
        let below_held = above.map(|&(_, number)| number).min().unwrap_or(u32::MAX);
        let fits = |number: &u32| {
            let is_taken = fixed.iter().any(|(_, taken)| taken == number);
            (1..below.min(below_held)).contains(number) && !is_taken
        };
        let number = numbers.iter().copied().find(fits);
        let number = number.ok_or(Error::Executors { core, priority: 1 })?;
        system.executors[executor].priority = number;
        below = number;
    }
    Ok(())
}

//! Bounds of a graph: how long after the nominal release of its roots a callback has ended.
//!
//! [`mod@unit`] makes units of callbacks, [`line`] chains of units, and the analysis bounds these as
//! chains with release jitter: a line is released at the latest when what it waits for has ended,
//! and that is what the analysis says of other lines. So it is asked again and again, with the
//! jitters of its last answer, until they stay. They only grow, from 0; a line whose predecessor
//! has no bound, or that passes its period, gets a whole period, which is none. The first job that
//! exceeded its bound would need another one that did so before.
//!
//! Quantities that the model makes larger than they are, so that the bound holds:
//! - A message comes when its callback has ended, so that the executor may begin something less
//!   urgent before it takes the next one of the line: each step but the last of a part has, beside
//!   `hop`, the longest that such a callback holds the executor.
//! - `hop` is counted twice: on the way of a message, and as processor time of who receives it.
//! - A chain has one bucket on each accelerator, the callbacks of a line may have several. So the
//!   analysis sees a bucket for each line, and each request takes longer by the longest less urgent
//!   one of its real bucket, which may have begun before it.
//! - Executions of a unit that only has a rate are shared out to as many copies as make each of them
//!   a chain with releases a period apart; each copy counts as late as the slowest of them.

#![forbid(unsafe_code)]

mod bounds;
mod line;
mod margin;
mod unit;

pub use bounds::{CallbackBound, GraphBounds, PathBound};
pub use margin::{MarginSource, TimeMargin};
pub use unit::callback_name;

use std::collections::{BTreeMap, BTreeSet};

use analysis::{Analysis, Analyzer, Refusal, Span, Status, Watch};
use system::{Graph, KeyPath, NodeKind, System};

use line::{Line, lines};
use unit::{Pace, Unit, buckets, units};

/// Analyses after which jitters that still grow are given up.
const MAX_ROUNDS: usize = 1_000;

/// Bounds a graph whose executors have one thread each and are on these cores, as long as `watch`
/// lets it go on.
///
/// # Errors
/// Says why nothing can be bounded.
pub fn bounds(
    system: &System,
    graph: &Graph,
    cores: &[u32],
    watch: &Watch,
) -> Result<GraphBounds, String> {
    let units = units(system, graph)?;
    let lines = lines(&units);
    let mut search = Search::new(system, graph, cores, &units, &lines);
    let analysis = search.settle(watch)?;
    let found = Found { system, graph, search: &search, analysis: &analysis };
    Ok(GraphBounds {
        callbacks: (0..units.len()).map(|unit| found.callback(unit)).collect(),
        paths: graph.paths.iter().map(|path| found.path(path)).collect(),
    })
}

/// Input of the analysis, with the jitters of its last answer.
struct Search<'a> {
    units: &'a [Unit],
    lines: &'a [Line],
    /// The system without chains.
    base: analysis::System,
    /// Bucket in the model, by line and accelerator.
    buckets: Vec<Vec<u32>>,
    /// Longest less urgent request that may be in its way, by line, unit and segment.
    in_the_way_ns: Vec<Vec<Vec<u64>>>,
    /// The line and the place of each unit; copies are all the same.
    places: BTreeMap<usize, (usize, usize)>,
    jitter_ns: Vec<u64>,
    /// Time for which something less urgent may hold the executor before the next one, by line and
    /// unit.
    gaps_ns: Vec<Vec<u64>>,
    /// The thing that it waits for and that has no bound, by line.
    lost: Vec<Option<Lost>>,
}

/// Reason why a line's release, or its way through its executor, has no bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    /// The line comes after this unit, which has no bound.
    After(usize),
    /// Something less urgent on its executor waits for an accelerator for an unknown time.
    Held,
}

impl<'a> Search<'a> {
    fn new(
        system: &System,
        graph: &Graph,
        cores: &[u32],
        units: &'a [Unit],
        lines: &'a [Line],
    ) -> Search<'a> {
        let executors = system.executors.iter().zip(cores);
        let executors =
            executors.map(|(e, &core)| analysis::Executor { core, priority: e.priority });
        let accelerators = system.accelerators.iter().map(|a| analysis::Accelerator {
            buckets: u32::try_from(lines.len() + 1).unwrap_or(u32::MAX),
            concurrent_lowest: a.concurrent_lowest,
        });
        let own: Vec<BTreeMap<u32, u32>> =
            system.accelerators.iter().map(|accelerator| buckets(graph, accelerator)).collect();
        let base = analysis::System {
            kappa_ns: system.kappa_ns,
            epsilon_ns: system.epsilon_ns,
            sigma_ns: system.sigma_ns,
            // On the way of each message, whatever its executors: in the time of the units.
            hop_ns: 0,
            accelerators: accelerators.collect(),
            executors: executors.collect(),
            chains: Vec::new(),
        };
        let mut places = BTreeMap::new();
        for (number, line) in lines.iter().enumerate() {
            places.extend(line.units.iter().enumerate().map(|(at, &unit)| (unit, (number, at))));
        }
        let requests = Requests { system, units, lines, buckets: &own };
        let of_line = |line: usize| {
            (0..own.len()).map(|accelerator| requests.bucket(line, accelerator)).collect()
        };
        let in_the_way = |line: usize| {
            let units = lines[line].units.iter();
            units.map(|&unit| requests.in_the_way(line, unit)).collect()
        };
        Search {
            units,
            lines,
            base,
            buckets: (0..lines.len()).map(of_line).collect(),
            in_the_way_ns: (0..lines.len()).map(in_the_way).collect(),
            places,
            jitter_ns: vec![0; lines.len()],
            gaps_ns: lines.iter().map(|line| vec![0; line.units.len()]).collect(),
            lost: vec![None; lines.len()],
        }
    }

    /// Asks until the jitters stay.
    fn settle(&mut self, watch: &Watch) -> Result<Analysis, String> {
        let mut analyzer = Analyzer::watched(watch);
        for _ in 0..MAX_ROUNDS {
            let model = self.model();
            analyzer.load(&model).map_err(|error| self.named(error))?;
            let analysis = analyzer.analyze_unordered();
            analyzer.ensure_complete().map_err(|error| self.named(error))?;
            if !self.grow(&analysis) {
                return Ok(analysis);
            }
        }
        Err(format!("the analysis does not converge in {MAX_ROUNDS} rounds"))
    }

    fn named(&self, error: analysis::Error) -> String {
        match error {
            analysis::Error::Model { chain, what, found, expected } => {
                let name = self.name(chain);
                format!("{name}: {what}: found {found}, expected {expected}")
            }
            error => error.to_string(),
        }
    }

    /// Returns the name of a line: its first and its last callback.
    fn name(&self, line: usize) -> String {
        let name = |unit: &usize| self.units[*unit].name.as_str();
        match self.lines[line].units.as_slice() {
            [one] => name(one).to_owned(),
            [first, .., last] => format!("{} to {}", name(first), name(last)),
            [] => String::new(),
        }
    }

    fn period_ns(&self, line: usize) -> u64 {
        self.units[self.lines[line].units[0]].period_ns
    }

    fn model(&self) -> analysis::System {
        let chains = (0..self.lines.len()).map(|line| self.chain(line)).collect();
        analysis::System { chains, ..self.base.clone() }
    }

    fn chain(&self, number: usize) -> analysis::Chain {
        let line = &self.lines[number];
        let callback = |(at, unit): (usize, &usize)| {
            let unit = &self.units[*unit];
            let in_the_way = &self.in_the_way_ns[number][at];
            let segments = unit.segments.iter().zip(in_the_way).map(|(segment, other_ns)| {
                let exec_ns = segment.exec.max_ns.saturating_add(*other_ns);
                analysis::Segment { exec: Span::up_to(exec_ns), ..*segment }
            });
            analysis::Callback {
                executor: unit.executor,
                cpu: Span::up_to(unit.cpu_ns.saturating_add(self.gaps_ns[number][at])),
                segments: segments.collect(),
            }
        };
        analysis::Chain {
            priority: u32::try_from(number + 1).unwrap_or(u32::MAX),
            period_ns: self.period_ns(number),
            deadline_ns: self.period_ns(number),
            jitter_ns: self.jitter_ns[number],
            wait: analysis::Wait::Suspend,
            best_effort: false,
            buckets: self.buckets[number].clone(),
            callbacks: line.units.iter().enumerate().map(callback).collect(),
        }
    }

    /// Takes over what an answer says of jitters and gaps; whether anything grew.
    fn grow(&mut self, analysis: &Analysis) -> bool {
        // All from the jitters that this is the answer to.
        let now: Vec<(u64, Option<Lost>, Option<Vec<u64>>)> = (0..self.lines.len())
            .map(|line| {
                let (jitter_ns, lost) = match self.lines[line].copy {
                    None => self.released(analysis, line),
                    Some(_) => (self.slowest(analysis, line), None),
                };
                match self.blocked(analysis, line) {
                    Some(gaps_ns) => (jitter_ns, lost, Some(gaps_ns)),
                    None => (self.period_ns(line), lost.or(Some(Lost::Held)), None),
                }
            })
            .collect();
        let mut grew = false;
        for (line, (jitter_ns, lost, gaps_ns)) in now.into_iter().enumerate() {
            grew |=
                jitter_ns > self.jitter_ns[line] || (lost.is_some() && self.lost[line].is_none());
            self.jitter_ns[line] = self.jitter_ns[line].max(jitter_ns);
            self.lost[line] = self.lost[line].or(lost);
            for (gap_ns, now_ns) in self.gaps_ns[line].iter_mut().zip(gaps_ns.unwrap_or_default()) {
                grew |= now_ns > *gap_ns;
                *gap_ns = now_ns.max(*gap_ns);
            }
        }
        grew
    }

    /// Returns the latest time at which all that a line waits for has ended; or a period, and the
    /// unit that has no bound.
    fn released(&self, analysis: &Analysis, line: usize) -> (u64, Option<Lost>) {
        let own = &self.lines[line].units;
        let mut latest_ns = 0;
        for &before in own.iter().flat_map(|&unit| &self.units[unit].after) {
            if own.contains(&before) {
                continue;
            }
            match self.end_ns(analysis, before) {
                Some(end_ns) => latest_ns = end_ns.max(latest_ns),
                None => return (self.period_ns(line), Some(Lost::After(before))),
            }
        }
        (latest_ns, None)
    }

    /// Returns the time from the release of its roots to the end of a periodic unit, if it is
    /// bounded.
    fn end_ns(&self, analysis: &Analysis, unit: usize) -> Option<u64> {
        let &(line, at) = self.places.get(&unit)?;
        let bound = &analysis.chains[line];
        let bounded = bound.status == Status::Ok && self.lost[line].is_none();
        if self.lines[line].copy.is_some() || !bounded {
            return None;
        }
        let parts = bound.parts.iter().filter(|part| part.callbacks.start <= at);
        let responses = parts.map(|part| part.response_ns).sum::<Option<u64>>()?;
        Some(self.jitter_ns[line] + responses)
    }

    /// The longest response of the copies of a unit.
    fn slowest(&self, analysis: &Analysis, line: usize) -> u64 {
        let copies =
            self.lines.iter().enumerate().filter(|(_, l)| l.units == self.lines[line].units);
        let responses = copies.map(|(copy, _)| analysis.chains[copy].parts[0].response_ns);
        let slowest_ns = responses.map(|ns| ns.unwrap_or(u64::MAX)).max().unwrap_or(0);
        slowest_ns.min(self.period_ns(line))
    }

    /// Returns the longest time for which something less urgent may hold the executor after each
    /// unit of a line, before the next one of the same part; none if that has no bound.
    fn blocked(&self, analysis: &Analysis, line: usize) -> Option<Vec<u64>> {
        let units = &self.lines[line].units;
        let longest_hold = |at: usize| {
            let executor = self.units[units[at]].executor;
            match units.get(at + 1) {
                Some(&next) if self.units[next].executor == executor => {
                    let below = (0..line).map(|lower| self.held(analysis, lower, executor));
                    below
                        .collect::<Option<Vec<u64>>>()
                        .map(|all| all.into_iter().max().unwrap_or(0))
                }
                _ => Some(0),
            }
        };
        (0..units.len()).map(longest_hold).collect()
    }

    /// The longest time for which a callback of a line holds an executor.
    fn held(&self, analysis: &Analysis, line: usize, executor: usize) -> Option<u64> {
        let parts = analysis.chains[line].parts.iter().filter(|part| part.executor == executor);
        let mut longest_ns = 0;
        for part in parts {
            let mut handling = part.segment_handling_ns.iter();
            for at in part.callbacks.clone() {
                let unit = &self.units[self.lines[line].units[at]];
                let requests = unit.segments.len();
                let own_ns = unit.cpu_ns + requests as u64 * self.base.epsilon_ns;
                let waits = handling.by_ref().take(requests).copied().sum::<Option<u64>>()?;
                longest_ns = longest_ns.max(own_ns.saturating_add(waits));
            }
        }
        Some(longest_ns)
    }
}

/// Requests that are in the way of other requests.
struct Requests<'a> {
    system: &'a System,
    units: &'a [Unit],
    lines: &'a [Line],
    /// Bucket of each callback priority, by accelerator.
    buckets: &'a [BTreeMap<u32, u32>],
}

impl Requests<'_> {
    /// The bucket of the model: one for each line, and 0 for all in a bucket that runs requests
    /// beside each other.
    fn bucket(&self, line: usize, accelerator: usize) -> u32 {
        let lowest = |unit: &usize| {
            let unit = &self.units[*unit];
            let uses = unit.segments.iter().any(|segment| segment.accelerator == accelerator);
            uses.then(|| self.buckets[accelerator].get(&unit.priority.0).copied().unwrap_or(0))
        };
        let bucket = self.lines[line].units.iter().filter_map(lowest).min();
        match (bucket, self.system.accelerators[accelerator].concurrent_lowest) {
            (None | Some(0), true) => 0,
            _ => u32::try_from(line + 1).unwrap_or(u32::MAX),
        }
    }

    /// Longest request of a line below in the same real bucket, from another executor, by segment
    /// of a unit.
    fn in_the_way(&self, line: usize, unit: usize) -> Vec<u64> {
        let own = &self.units[unit];
        let longest = |segment: &analysis::Segment| {
            let bucket_of = |unit: &Unit| {
                let (lowest, highest) = unit.priority;
                let buckets = &self.buckets[segment.accelerator];
                [buckets.get(&lowest).copied(), buckets.get(&highest).copied()]
            };
            let below = self.lines[..line].iter().flat_map(|line| &line.units);
            let below = below.map(|&other| &self.units[other]).filter(|other| {
                let same = bucket_of(own).iter().any(|bucket| bucket_of(other).contains(bucket));
                same && other.executor != own.executor
            });
            let segments = below.flat_map(|other| &other.segments);
            let there = segments.filter(|other| other.accelerator == segment.accelerator);
            let overheads_ns = 2 * self.system.kappa_ns + self.system.sigma_ns;
            there.map(|other| other.exec.max_ns + overheads_ns).max().unwrap_or(0)
        };
        own.segments.iter().map(longest).collect()
    }
}

/// Last answer of the analysis.
struct Found<'a> {
    system: &'a System,
    graph: &'a Graph,
    search: &'a Search<'a>,
    analysis: &'a Analysis,
}

impl Found<'_> {
    fn callback(&self, number: usize) -> CallbackBound {
        let unit = &self.search.units[number];
        let bound = self.bound(number);
        CallbackBound {
            name: unit.name.clone(),
            executor: self.system.executors[unit.executor].id.clone(),
            priority: unit.priority.1,
            period_ns: unit.period_ns,
            bound_ns: bound.as_ref().ok().copied(),
            reason: bound.err(),
        }
    }

    /// The end of a unit after the release of its roots, or why it has no bound.
    fn bound(&self, number: usize) -> Result<u64, String> {
        let unit = &self.search.units[number];
        if let Pace::Rate { why, .. } = &unit.pace {
            return Err(why.clone());
        }
        let end_ns = self.search.end_ns(self.analysis, number);
        end_ns.ok_or_else(|| match self.search.places.get(&number) {
            Some(&(line, _)) => self.reason(line),
            None => "not analysed".into(),
        })
    }

    fn reason(&self, line: usize) -> String {
        match self.search.lost[line] {
            Some(Lost::After(before)) => {
                return format!(
                    "comes after {}, which has no bound",
                    self.search.units[before].name
                );
            }
            Some(Lost::Held) => {
                return "less urgent callbacks may hold its executor without end".into();
            }
            None => {}
        }
        match &self.analysis.chains[line].refusal {
            Some(Refusal::Late { .. }) => {
                let period_ms = self.search.period_ns(line) as f64 / 1e6;
                format!("may take longer than its period of {period_ms} ms")
            }
            Some(Refusal::Overload { accelerator, .. }) => {
                format!("{} is overloaded", self.system.accelerators[*accelerator].id)
            }
            Some(Refusal::Relies { chain }) => {
                format!("relies on {}, which has no bound", self.search.name(*chain))
            }
            Some(Refusal::Concurrent { .. }) => "its bucket runs requests concurrently".into(),
            None => "no bound".into(),
        }
    }

    fn path(&self, path: &KeyPath) -> PathBound {
        let bound = self.path_ns(path);
        PathBound {
            id: path.id.clone(),
            bound_ns: bound.as_ref().ok().copied(),
            reason: bound.err(),
        }
    }

    /// Time from the oldest release of a path's roots to the end of its sink. What a cyclic node
    /// keeps is used at its next release.
    fn path_ns(&self, path: &KeyPath) -> Result<u64, String> {
        let units = self.search.units;
        let id = |unit: &Unit| self.graph.nodes[unit.node].id.as_str();
        let mut reached: BTreeSet<usize> = BTreeSet::new();
        for (number, unit) in units.iter().enumerate() {
            let root = unit.timer && path.roots.iter().any(|root| root == id(unit));
            if root || unit.after.iter().any(|before| reached.contains(before)) {
                reached.insert(number);
            }
        }
        let of_sink = || (0..units.len()).filter(|&number| id(&units[number]) == path.sink);
        let mut longest_ns = 0;
        for number in of_sink().filter(|number| reached.contains(number)) {
            longest_ns = longest_ns.max(self.bound(number)?);
        }
        let sink = self.graph.node(&path.sink).filter(|node| node.kind == NodeKind::Cyclic);
        if sink.is_some() && !path.roots.contains(&path.sink) {
            for number in of_sink().filter(|&number| units[number].timer) {
                longest_ns += units[number].period_ns + self.bound(number)?;
            }
        }
        Ok(longest_ns)
    }
}

#[cfg(test)]
mod tests;

//! Units that the nodes of a graph become for the analysis, each released by one event.
//!
//! A unit is a callback, or all input callbacks of a fusion together. Most units are *periodic*:
//! they run once for each release of the timers that they descend from, all of one period and
//! released together. Of the others only the *rate* is known, whatever their response: a timer
//! that is late leaves releases out, and an input keeps as many messages as its depth says, so that
//! nothing piles up. In a window of length `t` a callback ends at most `ceil(t / T) + b` times; `b`
//! counts what was under way or waiting when the window began:
//!
//! - a timer: the execution and the release that were pending, `b = 2`;
//! - an input: `b` of its messages, one more message on the way, its depth, and the execution;
//! - a fusion: `b` of any of its inputs, and the message that it kept.

use std::collections::{BTreeMap, BTreeSet};

use analysis::Span;
use system::{Graph, Input, Node, NodeKind, Segment, System};

/// Returns the name of a callback: its node, and the input that it waits for.
pub fn callback_name(node: &Node, input: Option<&Input>) -> String {
    match input {
        None => format!("{} (timer)", node.id),
        Some(_) if node.inputs.len() == 1 && node.timer.is_none() => node.id.clone(),
        Some(input) => format!("{} < {}", node.id, input.from),
    }
}

/// Something that is released, runs on an executor, and ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unit {
    /// Its callbacks, as results call them.
    pub name: String,
    /// Its node, by number in the file.
    pub node: usize,
    /// True if it is the callback of the node's timer.
    pub timer: bool,
    /// The lowest and the highest priority of its callbacks.
    pub priority: (u32, u32),
    /// Its executor, by number in the file.
    pub executor: usize,
    /// Its processor time: its work, what its messages cost to receive, and `hop` for the way of
    /// what it publishes.
    pub cpu_ns: u64,
    /// Its requests.
    pub segments: Vec<analysis::Segment>,
    /// The units whose end releases it.
    pub after: Vec<usize>,
    /// The shortest distance of the releases that it comes from.
    pub period_ns: u64,
    /// Pace of its executions.
    pub pace: Pace,
}

/// Pace of a unit's executions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Once for each release of its roots.
    Periodic,
    /// A rate: at most `ceil(t / period) + burst` times in a window of length `t`.
    Rate {
        /// Number of executions beyond those that the period gives.
        burst: u64,
        /// Reason why nothing more is known.
        why: String,
    },
}

/// Properties of a topic's messages.
#[derive(Debug, Clone)]
struct Publication {
    units: Vec<usize>,
    period: Result<u64, String>,
    rate: Rate,
}

/// A rate: at most `ceil(t / period) + burst` in any window of length `t`.
#[derive(Debug, Clone, Copy)]
struct Rate {
    period_ns: u64,
    burst: u64,
}

impl Rate {
    /// Returns the number of executions in 100 ms, the usual wait of callbacks, to compare rates.
    fn weight(self) -> u64 {
        self.burst + 100_000_000_u64.div_ceil(self.period_ns)
    }
}

/// The units of a graph, each after those that release it.
///
/// # Errors
/// Names a node whose processor time the file does not say.
pub(crate) fn units(system: &System, graph: &Graph) -> Result<Vec<Unit>, String> {
    let mut builder = Builder { system, graph, units: Vec::new(), topics: BTreeMap::new() };
    for (number, node) in graph.nodes.iter().enumerate() {
        builder.timer(number, node)?;
    }
    let mut open: Vec<usize> = (0..graph.nodes.len()).collect();
    while !open.is_empty() {
        let known = |node: &usize| {
            graph.nodes[*node].inputs.iter().all(|input| builder.topics.contains_key(&input.from))
        };
        let (now, later): (Vec<usize>, Vec<usize>) = open.iter().partition(|node| known(node));
        if now.is_empty() {
            return Err("the messages form a cycle".into());
        }
        for number in now {
            builder.inputs(number)?;
        }
        open = later;
    }
    Ok(builder.units)
}

/// The bucket of each callback priority on an accelerator, as the server gives them.
pub(crate) fn buckets(graph: &Graph, accelerator: &system::Accelerator) -> BTreeMap<u32, u32> {
    let uses = |segments: &[Segment]| segments.iter().any(|s| s.accel == accelerator.id);
    let mut priorities = BTreeSet::new();
    for node in &graph.nodes {
        let timers = node.timer.iter().filter(|timer| uses(&timer.segments));
        priorities.extend(timers.map(|timer| timer.priority));
        let inputs = node.inputs.iter().filter(|input| uses(&input.segments));
        priorities.extend(inputs.map(|input| input.priority));
    }
    let explicit: Vec<Option<u32>> =
        priorities.iter().rev().map(|priority| accelerator.bucket_of(*priority)).collect();
    let spread = system::spread_buckets(&explicit, accelerator.buckets);
    priorities.into_iter().rev().zip(spread).collect()
}

struct Builder<'a> {
    system: &'a System,
    graph: &'a Graph,
    units: Vec<Unit>,
    topics: BTreeMap<String, Publication>,
}

impl Builder<'_> {
    fn timer(&mut self, number: usize, node: &Node) -> Result<(), String> {
        let Some(timer) = &node.timer else { return Ok(()) };
        let unit = Unit {
            name: callback_name(node, None),
            node: number,
            timer: true,
            priority: (timer.priority, timer.priority),
            executor: self.executor(node),
            cpu_ns: self.work(node)? + self.sends(&node.id),
            segments: self.segments(&timer.segments),
            after: Vec::new(),
            period_ns: timer.period_ns,
            pace: Pace::Periodic,
        };
        self.units.push(unit);
        let rate = Rate { period_ns: timer.period_ns, burst: 2 };
        let units = vec![self.units.len() - 1];
        let publication = Publication { units, period: Ok(timer.period_ns), rate };
        self.topics.insert(node.id.clone(), publication);
        Ok(())
    }

    fn inputs(&mut self, number: usize) -> Result<(), String> {
        let node = &self.graph.nodes[number];
        if node.kind == NodeKind::Fusion {
            return self.fusion(number, node);
        }
        for input in &node.inputs {
            let from = self.topics[&input.from].clone();
            let unit = self.serve(number, node, input, &from)?;
            self.units.push(unit);
            if let Some(topic) = node.forwarded(input) {
                let units = vec![self.units.len() - 1];
                let rate = self.served(input, from.rate);
                let publication = Publication { units, rate, period: from.period };
                self.topics.insert(topic.to_owned(), publication);
            }
        }
        Ok(())
    }

    /// One unit for all inputs, where all messages have one period and no other priority
    /// comes between; else one for each input, each of which may be the one that computes.
    fn fusion(&mut self, number: usize, node: &Node) -> Result<(), String> {
        let from: Vec<Publication> =
            node.inputs.iter().map(|input| self.topics[&input.from].clone()).collect();
        let rates = node.inputs.iter().zip(&from).map(|(input, from)| {
            let Rate { period_ns, burst } = self.served(input, from.rate);
            // The message that it kept.
            Rate { period_ns, burst: burst + 1 }
        });
        let rate = rates.min_by_key(|rate| rate.weight()).ok_or("a fusion without inputs")?;
        let period = self.one_period(node, &from);
        let first = self.units.len();
        match &period {
            Ok(period_ns) => {
                let priorities = || node.inputs.iter().map(|input| input.priority);
                let received = self.system.hop_ns.saturating_mul(node.inputs.len() as u64);
                let lowest = node.inputs.iter().min_by_key(|input| input.priority);
                let segments = lowest.map_or(&[][..], |input| &input.segments);
                self.units.push(Unit {
                    name: node.id.clone(),
                    node: number,
                    timer: false,
                    priority: (priorities().min().unwrap_or(0), priorities().max().unwrap_or(0)),
                    executor: self.executor(node),
                    cpu_ns: self.work(node)? + received + self.sends(&node.id),
                    segments: self.segments(segments),
                    after: from.iter().flat_map(|from| &from.units).copied().collect(),
                    period_ns: *period_ns,
                    pace: Pace::Periodic,
                });
            }
            Err(why) => {
                for (input, from) in node.inputs.iter().zip(&from) {
                    let from = Publication { period: Err(why.clone()), ..from.clone() };
                    let unit = self.serve(number, node, input, &from)?;
                    self.units.push(unit);
                }
            }
        }
        let units = (first..self.units.len()).collect();
        self.topics.insert(node.id.clone(), Publication { units, period, rate });
        Ok(())
    }

    /// The period of a fusion's messages, if it is one that a bound can count on.
    fn one_period(&self, node: &Node, from: &[Publication]) -> Result<u64, String> {
        let periods = from.iter().map(|from| from.period.clone());
        let periods = periods.collect::<Result<BTreeSet<u64>, String>>()?;
        let (Some(&period_ns), 1) = (periods.first(), periods.len()) else {
            return Err(format!("{} fuses messages of different periods", node.id));
        };
        let own: BTreeSet<u32> = node.inputs.iter().map(|input| input.priority).collect();
        let (Some(&low), Some(&high)) = (own.first(), own.last()) else { return Ok(period_ns) };
        let all = self.graph.nodes.iter().flat_map(|node| {
            let timer = node.timer.iter().map(|timer| timer.priority);
            timer.chain(node.inputs.iter().map(|input| input.priority))
        });
        if all.into_iter().any(|other| (low..high).contains(&other) && !own.contains(&other)) {
            return Err(format!(
                "{}: other callbacks have priorities between those of its inputs",
                node.id
            ));
        }
        if node.inputs.windows(2).any(|pair| pair[0].segments != pair[1].segments) {
            return Err(format!("{}: its inputs have different segments", node.id));
        }
        let used = node.inputs.iter().flat_map(|input| &input.segments);
        for accelerator in used.filter_map(|segment| self.system.accelerator(&segment.accel)) {
            let buckets = buckets(self.graph, accelerator);
            if buckets.get(&low) != buckets.get(&high) {
                return Err(format!("{}: its inputs have different buckets", node.id));
            }
        }
        Ok(period_ns)
    }

    fn serve(
        &self,
        number: usize,
        node: &Node,
        input: &Input,
        from: &Publication,
    ) -> Result<Unit, String> {
        let computes = node.kind != NodeKind::Cyclic;
        let work_ns = if computes { self.work(node)? } else { 0 };
        let sends = node.forwarded(input).map_or(0, |topic| self.sends(topic));
        let segments = if computes { self.segments(&input.segments) } else { Vec::new() };
        let (period_ns, pace) = match &from.period {
            Ok(period_ns) => (*period_ns, Pace::Periodic),
            Err(why) => {
                let Rate { period_ns, burst } = self.arrivals(from.rate);
                (period_ns, Pace::Rate { burst, why: why.clone() })
            }
        };
        Ok(Unit {
            name: callback_name(node, Some(input)),
            node: number,
            timer: false,
            priority: (input.priority, input.priority),
            executor: self.executor(node),
            cpu_ns: work_ns + self.system.hop_ns + sends,
            segments,
            after: from.units.clone(),
            period_ns,
            pace,
        })
    }

    /// The messages that come; one more may have been on the way.
    fn arrivals(&self, sent: Rate) -> Rate {
        Rate { burst: sent.burst + u64::from(self.system.hop_ns > 0), ..sent }
    }

    /// The ends of executions for these messages.
    fn served(&self, input: &Input, sent: Rate) -> Rate {
        let arrivals = self.arrivals(sent);
        Rate { burst: arrivals.burst + u64::from(input.depth) + 1, ..arrivals }
    }

    fn executor(&self, node: &Node) -> usize {
        self.system.executors.iter().position(|e| e.id == node.executor).unwrap_or(usize::MAX)
    }

    fn work(&self, node: &Node) -> Result<u64, String> {
        let missing = || format!("the file does not say how long the primes of {} take", node.id);
        node.work.cpu_ns().ok_or_else(missing)
    }

    fn sends(&self, topic: &str) -> u64 {
        if self.graph.subscriptions(topic) > 0 { self.system.hop_ns } else { 0 }
    }

    fn segments(&self, segments: &[Segment]) -> Vec<analysis::Segment> {
        let number = |id: &str| self.system.accelerators.iter().position(|a| a.id == id);
        let to_segment = |segment: &Segment| analysis::Segment {
            accelerator: number(&segment.accel).unwrap_or(usize::MAX),
            exec: Span::up_to(segment.exec_ns),
            cpu_before_ns: 0,
        };
        segments.iter().map(to_segment).collect()
    }
}

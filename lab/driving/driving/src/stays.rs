//! Use of the cores over time, as a trace tells it.

use dataflow::trace::{Class, Core, Event, Point};
use std::collections::HashMap;

/// Period in which a run, a piece of one, or work ahead had a core without a break.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stay {
    /// The core.
    pub core: Core,
    /// Class of the run.
    pub class: Class,
    /// Start, ns.
    pub from_ns: u64,
    /// End, ns.
    pub to_ns: u64,
}

/// The stays that ended, in the order of their ends.
pub fn stays(events: &[Event]) -> Vec<Stay> {
    let mut homes: HashMap<u64, (Core, Class)> = HashMap::new();
    let mut since: HashMap<u64, u64> = HashMap::new();
    let mut found = Vec::new();
    for event in events {
        match event.point {
            Point::Start { core, class, .. } | Point::Piece { core, class, .. } => {
                homes.insert(event.job, (core, class));
            }
            Point::Returned { core } => {
                let before = homes.insert(event.job, (core, Class::Host));
                // On the wall clock it has a core all the time, as far as the trace knows.
                let begun = since.get_mut(&event.job).zip(before);
                found.extend(begun.map(|(from_ns, (core, class))| Stay {
                    core,
                    class,
                    from_ns: std::mem::replace(from_ns, event.at_ns),
                    to_ns: event.at_ns,
                }));
            }
            Point::Resumed => {
                since.insert(event.job, event.at_ns);
            }
            Point::Paused => {
                let begun = since.remove(&event.job).zip(homes.get(&event.job));
                found.extend(begun.map(|(from_ns, (core, class))| Stay {
                    core: *core,
                    class: *class,
                    from_ns,
                    to_ns: event.at_ns,
                }));
            }
            Point::End { .. } => {
                homes.remove(&event.job);
            }
            _ => {}
        }
    }
    found
}

/// Spans of time, ns, as their union: in order and apart from one another.
pub fn union(mut spans: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    spans.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (from, to) in spans {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => joined.push((from, to)),
        }
    }
    joined
}

/// Time of a span that lies in a union, ns.
pub fn inside((from, to): (u64, u64), union: &[(u64, u64)]) -> u64 {
    let first = union.partition_point(|span| span.1 <= from);
    let meeting = union[first..].iter().take_while(|span| span.0 < to);
    meeting.map(|span| span.1.min(to) - span.0.max(from)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::drive::run;
    use crate::stack::Stack;
    use world::suite::normal;

    #[test]
    fn stays_add_up_to_what_the_executor_counted_and_no_two_share_a_core() {
        let mut scenario = normal(7200);
        scenario.duration_s = 2.0;
        for policy in [Policy::Base, Policy::All] {
            let costs = policy.costs(7.0);
            let outcome = run(&scenario, Stack::A, &policy.features(), costs).unwrap();
            let mut found = stays(&outcome.events);
            let sum = |class: Class| -> u64 {
                let of = found.iter().filter(|stay| stay.class == class);
                of.map(|stay| stay.to_ns - stay.from_ns).sum()
            };
            let groups = &outcome.statistics.groups;
            let guests: u64 = groups.iter().map(|group| group.guest_ns).sum();
            assert_eq!(guests > 0, policy == Policy::All, "{policy}");
            // Runs that have not ended are not counted there yet.
            assert!(sum(Class::Guest) >= guests, "{policy}");
            let hosts: u64 = groups.iter().map(|group| group.host_ns).sum();
            let more = sum(Class::Host) as f64 / hosts as f64;
            assert!((1.0..1.15).contains(&more), "{policy}: {more}");
            found.sort_by_key(|stay| (stay.core, stay.from_ns, stay.to_ns));
            for pair in found.windows(2).filter(|pair| pair[0].core == pair[1].core) {
                assert!(pair[0].to_ns <= pair[1].from_ns, "{policy}: {pair:?}");
            }
        }
    }

    #[test]
    fn a_union_counts_what_overlaps_once() {
        let joined = union(vec![(5, 9), (0, 2), (8, 12), (2, 3)]);
        assert_eq!(joined, [(0, 3), (5, 12)]);
        let inside_span = |from, to| inside((from, to), &joined);
        assert_eq!(
            [
                inside_span(0, 20),
                inside_span(3, 5),
                inside_span(1, 6),
                inside_span(11, 30),
                inside_span(12, 13)
            ],
            [10, 0, 3, 1, 0]
        );
    }
}

//! Chooses the worst calls of each group, for the second pass.

use super::calls::Candidate;
use super::summary::{Places, Tables};
use crate::Options;
use crate::function::{Group, Role};
use crate::result::{self, Target};
use std::collections::HashMap;

impl Tables<'_> {
    /// The worst calls of each group, and where the second pass finds them.
    pub(super) fn worst(
        &self,
        places: &Places,
        usual: &[u64],
        options: &Options,
    ) -> (Vec<result::WorstCall>, Vec<Target>) {
        let mut chosen = Vec::new();
        for group in [Group::Launch, Group::Copy, Group::Sync, Group::Other] {
            let all = self.world.kinds.iter().flat_map(|kind| kind.longest.kept());
            let is_of_group =
                |call: &&Candidate| self.world.functions.of(call.kind).0.group == group;
            let mut calls: Vec<(Candidate, u64)> = all
                .filter(is_of_group)
                .map(|call| (*call, call.ticks.saturating_sub(usual[call.kind as usize])))
                .collect();
            let place = |call: &Candidate| (call.enter, call.stream, call.depth);
            calls.sort_by_key(|(call, _)| (std::cmp::Reverse(call.ticks), place(call)));
            let longest: HashMap<(u64, u32, u32), u32> = (0u32..)
                .zip(&calls)
                .take(options.worst)
                .map(|(rank, (call, _))| (place(call), rank))
                .collect();
            calls.sort_by_key(|(call, late)| (std::cmp::Reverse(*late), place(call)));
            for (rank, (call, late)) in (0u32..).zip(calls) {
                let by_lateness = Some(rank).filter(|rank| (*rank as usize) < options.worst);
                let by_duration = longest.get(&place(&call)).copied();
                if by_lateness.or(by_duration).is_some() {
                    chosen.push((call, late, by_lateness, by_duration));
                }
            }
        }
        let targets = chosen.iter().map(|(call, ..)| Target {
            stream: call.stream,
            kind: call.kind,
            enter: call.enter,
            ticks: call.ticks,
            depth: call.depth,
            outstanding: call.outstanding,
        });
        let targets = targets.collect();
        let worst = chosen.iter().map(|(call, late, by_lateness, by_duration)| {
            let ranks = (*by_lateness, *by_duration);
            self.worst_call(places, call, usual[call.kind as usize], *late, ranks)
        });
        (worst.collect(), targets)
    }

    fn worst_call(
        &self,
        places: &Places,
        call: &Candidate,
        usual: u64,
        late: u64,
        ranks: (Option<u32>, Option<u32>),
    ) -> result::WorstCall {
        let stream = &self.trace.streams()[call.stream as usize];
        let launches = self.world.functions.of(call.kind).0.role == Role::Launch;
        let symbols = &self.trace.metadata().functions;
        let ns = |ticks| places.clock.duration_ns(ticks);
        result::WorstCall {
            kind: places.kinds[call.kind as usize],
            thread: places.threads[call.stream as usize],
            at_ns: places.at(call.enter),
            duration_ns: ns(call.ticks),
            usual_ns: ns(usual),
            lateness_ns: ns(late),
            lock_wait_ns: ns(call.waited),
            locks: call.acquisitions,
            rank_by_lateness: ranks.0,
            rank_by_duration: ranks.1,
            symbol: symbols.get(call.function as usize).cloned().unwrap_or_default(),
            handle: call.subject,
            detail: call.detail,
            kernel: launches.then(|| self.kernel(stream.process, call.detail)).flatten(),
            result: call.result,
            captured: call.captured,
            outstanding: call.outstanding,
            depth: call.depth,
        }
    }
}

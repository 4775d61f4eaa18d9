//! Makes plain data of the sequences that repeat, with what a graph would save of each.

use super::sequence::{Described, Unit};
use super::summary::{Places, Tables};
use crate::Options;
use crate::function::Role;
use crate::graph::{Cut, GraphAdvice, GraphLaunch, Kernel, Sequence, Source};
use std::cmp::Reverse;

/// Launches of graphs from which their median is taken; the first one of each graph is slow.
const ENOUGH: u64 = 3;

impl Tables<'_> {
    /// Returns the trace's findings about graphs, apart from the sequences.
    pub(super) fn graph_advice(&self, places: &Places) -> GraphAdvice {
        let units = &self.world.units;
        let cuts: Vec<(u32, u64)> =
            units.cuts.iter().map(|(kind, times)| (*kind, *times)).collect();
        GraphAdvice {
            own: self.own_graphs(places),
            cuts: self.cuts(places, &cuts),
            forgotten: units.forgotten,
        }
    }

    /// The usual cost of the program's own launches of graphs, if there are enough.
    fn own_graphs(&self, places: &Places) -> Option<GraphLaunch> {
        let is_graph = |kind: &usize| {
            self.world.functions.of(*kind as u32).0.role == Role::GraphLaunch
                && self.world.kinds[*kind].durations.count() >= ENOUGH
        };
        let kinds = (0..self.world.kinds.len()).filter(is_graph);
        let kind = kinds.max_by_key(|kind| self.world.kinds[*kind].durations.count())?;
        let state = &self.world.kinds[kind];
        let totals = &self.world.work.totals;
        let nodes = totals.graph_kernels + totals.graph_copies + totals.graph_memsets;
        let known = totals.graph_launches - totals.unknown_graphs;
        let locks = state.acquisitions.quantile(0.5);
        Some(GraphLaunch {
            duration_ns: places.clock.duration_ns(state.durations.quantile(0.5)),
            locks: (!self.trace.metadata().settings.contended_only).then_some((locks, locks)),
            nodes: nodes.checked_div(known),
            source: Source::Trace { launches: state.durations.count() },
        })
    }

    fn cuts(&self, places: &Places, cuts: &[(u32, u64)]) -> Vec<Cut> {
        let one = |(kind, times): &(u32, u64)| {
            let reason = self.world.functions.of(*kind).0.cut?;
            Some(Cut { kind: places.kind(*kind)?, reason, times: *times })
        };
        let mut cuts: Vec<Cut> = cuts.iter().filter_map(one).collect();
        cuts.sort_by_key(|cut| (Reverse(cut.times), cut.kind));
        cuts
    }

    /// The sequences of which a graph would save most.
    pub(super) fn sequences(&self, places: &Places, options: &Options) -> Vec<Sequence> {
        let own = self.own_graphs(places);
        let units = self.world.units.repeated();
        let mut sequences: Vec<Sequence> =
            units.map(|(unit, described)| self.sequence(places, unit, described, own)).collect();
        sequences.sort_by_key(|sequence| {
            let saved = sequence.estimated_saving_ns.saturating_mul(sequence.repeats);
            (
                (!sequence.is_worth_a_graph(), Reverse(saved)),
                (sequence.process, sequence.thread),
                sequence.calls.clone(),
            )
        });
        let mut listed: Vec<Sequence> = Vec::new();
        for sequence in sequences {
            if listed.len() < options.sequences && !is_fragment(&sequence, &listed) {
                listed.push(sequence);
            }
        }
        listed
    }

    fn sequence(
        &self,
        places: &Places,
        unit: &Unit,
        described: &Described,
        own: Option<GraphLaunch>,
    ) -> Sequence {
        let ns = |ticks| places.clock.duration_ns(ticks);
        let process = unit.whose.process;
        let graph = own.unwrap_or_else(|| GraphLaunch::measured(unit.length as u64));
        let replaced_ns = ns(described.replaced.quantile(0.5));
        let saved = replaced_ns.saturating_sub(graph.duration_ns);
        let duration = places.at(self.trace.end()).max(1);
        // A median may be longer than most; no more is saved than there is.
        let all = ns(described.replaced.sum());
        let saved_in_all = saved.saturating_mul(unit.repeats).min(all);
        let per_second = u128::from(saved_in_all) * 1_000_000_000 / u128::from(duration);
        let shown = described.shown.iter().zip(&described.launches);
        let kernel = |(call, launches): (&(u32, u64), &bool)| {
            launches.then(|| self.kernel(process, call.1)).flatten()
        };
        let named = |handle: u64| Kernel { handle, name: self.kernel(process, handle) };
        Sequence {
            process,
            thread: places.threads[unit.whose.stream as usize],
            length: unit.length as u64,
            repeats: unit.repeats,
            runs: unit.runs,
            calls: described
                .shown
                .iter()
                .map(|(kind, detail)| (places.kinds[*kind as usize], *detail))
                .collect(),
            kernels: shown.map(kernel).collect(),
            first_kernel: described.first_kernel.map(named),
            frequent: described.frequent.iter().map(|(of, times)| (named(*of), *times)).collect(),
            work: described.work,
            default_stream: described.default_stream,
            launching_ns: ns(described.times.quantile(0.5)),
            replaced_ns,
            mean_ns: ns(described.times.mean()),
            waited_ns: ns(unit.waited / unit.repeats),
            locks: unit.acquisitions as f64 / unit.repeats as f64,
            cuts: self.cuts(places, &unit.cuts),
            graph,
            estimated_saving_ns: saved,
            saving_per_second_ns: u64::try_from(per_second).unwrap_or(u64::MAX),
        }
    }
}

/// Returns true if a sequence is a part of a longer one whose first repetition was cut in its
/// midst, as the first inference of a network of equal layers is by the loading of its kernels.
fn is_fragment(sequence: &Sequence, listed: &[Sequence]) -> bool {
    let calls = &sequence.calls[..];
    let whole = sequence.length == calls.len() as u64;
    let within = |longer: &Sequence| {
        longer.process == sequence.process
            && longer.length > sequence.length
            && longer.calls.windows(calls.len()).any(|part| part == calls)
    };
    whole && sequence.runs == 1 && listed.iter().any(within)
}

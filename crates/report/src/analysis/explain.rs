//! The derivation of one chain's bound: every quantity of the theorem, part by part, and all that
//! the bound is made of.

use super::table::made_of;
use super::{Bounds, WIDTH};
use crate::number::{Unit, listed};
use analysis::PartBound;
use terminal::page::{Cell, FAINT, PLAIN, Page};

/// Explains the bound of one chain, part by part.
pub fn explain(bounds: &Bounds, chain: usize, color: bool) -> String {
    let mut page = Page::new(WIDTH, color);
    made_of(&mut page, bounds, chain, usize::MAX - 1);
    let parts = &bounds.analysis.chains[chain].parts;
    for (i, part) in parts.iter().enumerate() {
        page.end();
        page.line(FAINT, &format!("  {}", heading(bounds, chain, part, (i, parts.len()))));
        page.table(&[true, false, true].map(|left| ("", left)), &quantities(bounds, chain, part));
    }
    page.line(PLAIN, "");
    for sentence in relations(bounds, chain) {
        page.paragraph(PLAIN, &sentence, 0, 2);
    }
    page.finish()
}

fn heading(bounds: &Bounds, chain: usize, part: &PartBound, (i, of): (usize, usize)) -> String {
    let executor = &bounds.system.executors[part.executor];
    let callbacks = match (part.callbacks.start + 1, part.callbacks.end) {
        (first, last) if first == last => format!("callback {first}"),
        (first, last) => format!("callbacks {first} to {last}"),
    };
    format!(
        "part {} of {of}: {callbacks} of {} on executor {} (core {}, priority {})",
        i + 1,
        bounds.system.chains[chain].callbacks.len(),
        bounds.names.executors[part.executor],
        executor.core,
        executor.priority
    )
}

/// Symbol, value and meaning, in the order of the derivation.
fn quantities(bounds: &Bounds, chain: usize, part: &PartBound) -> Vec<Vec<Cell>> {
    let unit = Unit::of(&bounds.system);
    let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| unit.up(ns));
    let row = |symbol: &str, value: String, meaning: String| {
        vec![(symbol.to_owned(), PLAIN), (value, PLAIN), (meaning, FAINT)]
    };
    let requests = part.segment_handling_ns.len();
    let mut rows = vec![
        row("B", time(part.blocking_ns), "longest blocking by a lower-priority callback".into()),
        row("E", time(Some(part.cpu_ns)), "own processor time".into()),
    ];
    let callbacks = &bounds.system.chains[chain].callbacks[part.callbacks.clone()];
    let segments = callbacks.iter().flat_map(|callback| &callback.segments);
    for (i, (handling, segment)) in part.segment_handling_ns.iter().zip(segments).enumerate() {
        let accelerator = &bounds.names.accelerators[segment.accelerator];
        let meaning = format!("handling of request {} on {accelerator} alone (Lemma 2)", i + 1);
        rows.push(row(&format!("H[{}]", i + 1), time(*handling), meaning));
    }
    if requests > 0 {
        rows.extend([
            row(
                "H2",
                time(part.handling_l2_ns),
                "all requests, one by one (sum of Lemma 2)".into(),
            ),
            row("H3", time(part.handling_l3_ns), "all requests within R (Lemma 3)".into()),
            row("H*", time(part.handling_ns), format!("min(H2, H3) + {requests} epsilon")),
        ]);
    }
    rows.push(row("R", time(part.response_ns), "response time of the part".into()));
    rows
}

/// Chains that the bound relies on, and the overheads that went in.
fn relations(bounds: &Bounds, chain: usize) -> Vec<String> {
    let (model, bound, name) = bounds.chain(chain);
    let names = |wanted: bool| {
        let chains = bound.relies_on.iter().filter(|&&other| bounds.is_ok(other) == wanted);
        chains.map(|&other| bounds.names.chains[other].as_str()).collect::<Vec<_>>()
    };
    let (kept, open) = (names(true), names(false));
    let mut sentences = Vec::new();
    if kept.is_empty() && open.is_empty() {
        sentences.push(format!("{name} relies on no other chain's deadline."));
    }
    if !kept.is_empty() {
        let are = if kept.len() == 1 { "it is" } else { "they are" };
        sentences.push(format!("{name} relies on {} being in time, and {are}.", listed(&kept)));
    }
    if !open.is_empty() {
        sentences.push(format!(
            "{name} relies on {} being in time, which is not guaranteed.",
            listed(&open)
        ));
    }
    let buckets = (0..bounds.system.accelerators.len()).filter(|&index| model.uses(index));
    for accelerator in buckets {
        sentences.push(format!(
            "{name} is in bucket {} of {} ({} is served first).",
            model.buckets[accelerator],
            bounds.names.accelerators[accelerator],
            bounds.system.accelerators[accelerator].buckets - 1
        ));
    }
    sentences
}

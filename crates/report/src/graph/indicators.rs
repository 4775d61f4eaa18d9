//! Key indicators of a graph, as people read them.

use super::graph_conclusion::sentences;
use super::{
    CycleInfo, CycleResult, GraphRun, MethodRun, PathInfo, PathResult, Times, above, ms, words,
};
use crate::document::{Cell, Chart, Class, Document, Limit, Section, Series, Shape, Table, facts};
use crate::number::time;
use stats::Summary;

/// Conclusion, key paths, cyclic nodes and callbacks.
pub fn document(run: &GraphRun) -> Document {
    let margin = run.margin.iter().map(|margin| format!(", {margin}")).collect::<String>();
    let each = format!("{}, {}, {}{margin}", time(run.duration_ns), run.threads, run.transport);
    let of_methods = run.methods.iter().flat_map(|method| {
        method.marks.iter().map(move |mark| format!("{}: {mark}", method.method))
    });
    let paths = run.paths.iter().map(|path| path_section(run, path));
    let cycles = run.cycles.iter().map(|cycle| cycle_section(run, cycle));
    let callbacks = run.methods.iter().map(callback_section);
    Document {
        kind: "keeptime-lab graph".into(),
        title: run.system_name.clone(),
        conclusion: sentences(run),
        command: run.command.clone(),
        date: run.date.clone(),
        facts: facts([("Machine", &run.machine), ("Each method ran", &each)]),
        marks: run.marks.iter().cloned().chain(of_methods).collect(),
        sections: paths.chain(cycles).chain(callbacks).collect(),
        notes: vec![
            "The latency of a path counts from the oldest nominal release of its roots to the end \
             of the callback of its last node, that callback included, on the monotonic clock. \
             Dropped are the messages that were sent to nodes of the path and that these never \
             used. p50 and p99 are nearest-rank percentiles; the maximum is a percentile of its \
             own. A bound is the longest latency that the file's times and priorities allow on a \
             machine that does nothing else."
                .into(),
        ],
        ..Document::default()
    }
}

/// The distribution of a path's latency under each method, with its period.
fn latencies(run: &GraphRun, path: &PathInfo) -> Chart {
    let series = run.methods.iter().map(|method| {
        let latency_ns = method.path(&path.id).map_or(&[][..], |result| &result.latency_ns);
        let ms: Vec<f64> = latency_ns.iter().map(|ns| *ns as f64 / 1e6).collect();
        Series::distribution(&method.method, &ms)
    });
    let name = format!("period {}", words(path.period_ns));
    let limits = vec![Limit { name, at: path.period_ns as f64 / 1e6, class: Class::Bad }];
    let labels = ("latency, ms", "% of the instances");
    Chart {
        limits,
        ..Chart::new("Distribution of the latency", labels, Shape::Distribution, series)
    }
}

/// The distribution of the distance of a node's periods from the nominal one under each method: beside
/// the periods themselves it could not be seen.
fn jitter(run: &GraphRun, cycle: &CycleInfo) -> Chart {
    let series = run.methods.iter().map(|method| {
        let period_ns = method.cycle(&cycle.id).map_or(&[][..], |result| &result.period_ns);
        let distance_ns = period_ns.iter().map(|ns| ns.abs_diff(cycle.period_ns));
        let us: Vec<f64> = distance_ns.map(|ns| ns as f64 / 1e3).collect();
        Series::distribution(&method.method, &us)
    });
    let title = format!("Distance of the period from {}", words(cycle.period_ns));
    let labels = ("distance from the nominal period, us", "% of the periods");
    Chart::new(title, labels, Shape::Distribution, series)
}

fn summary_cells(summary: Option<Summary<u64>>) -> [Cell; 4] {
    let cell = |pick: fn(Summary<u64>) -> u64| summary.map(|summary| ms(pick(summary))).into();
    [cell(|s| s.min), cell(|s| s.p50), cell(|s| s.p99), cell(|s| s.max)]
}

fn path_section(run: &GraphRun, path: &PathInfo) -> Section {
    let rows = run.methods.iter().enumerate().map(|(ink, method)| {
        let result = method.path(&path.id);
        let [min, p50, p99, max] = summary_cells(result.and_then(PathResult::summary));
        let (all, most) = result.map_or((0, 0), PathResult::drops);
        let reported = path.reported.iter().find(|reported| reported.method == method.method);
        let (bound_ns, over) = (run.bound_ns(path, &method.method), run.over(path, method));
        vec![
            Class::Series(ink).cell(&method.method),
            format!("{} of {}", result.map_or(0, |r| r.latency_ns.len()), path.releases).into(),
            min,
            p50,
            p99,
            Class::Bad.when(over > 0).cell(max.text),
            bound_ns.map(above).into(),
            bound_ns.map(|_| over.to_string()).into(),
            if all > 0 { Class::Bad } else { Class::Good }.cell(all.to_string()),
            most.to_string().into(),
            reported.map_or(String::new(), |reported| ms(reported.max_ns)).into(),
        ]
    });
    let head =
        "method|instances|min|p50|p99|max|bound|over it|dropped|most|reported max".split('|');
    let no_bound = path.no_bound.iter().map(|reason| format!(" No bound: {reason}."));
    let title = format!("Path {}: {} to {}", path.id, path.roots.join(" and "), path.sink);
    let no_bound: String = no_bound.collect();
    let about = format!("Latency in ms. Nodes: {}.{no_bound}", path.nodes.join(", "));
    Section::new(title, about).charts([latencies(run, path)]).table(Table::new("", head, rows))
}

fn cycle_section(run: &GraphRun, cycle: &CycleInfo) -> Section {
    let rows = run.methods.iter().enumerate().map(|(ink, method)| {
        let result = method.cycle(&cycle.id);
        let [min, p50, p99, max] = summary_cells(result.and_then(CycleResult::summary));
        let share = result.and_then(|result| result.deviation(cycle.period_ns));
        vec![
            Class::Series(ink).cell(&method.method),
            result.map_or(0, |result| result.period_ns.len()).into(),
            min,
            p50,
            p99,
            max,
            share.map(|share| format!("{:.1} %", 100.0 * share)).into(),
        ]
    });
    let head = "method|periods|min|p50|p99|max|farthest from nominal".split('|');
    let nominal = words(cycle.period_ns);
    let about = format!("From one start of its callback to the next in ms, nominally {nominal}.");
    let section = Section::new(format!("Period of {}", cycle.id), about);
    section.charts([jitter(run, cycle)]).table(Table::new("", head, rows))
}

fn callback_section(method: &MethodRun) -> Section {
    let rows = method.callbacks.iter().map(|callback| {
        let times = |times: Option<Times>| {
            let cell = |pick: fn(Times) -> u64| Cell::from(times.map(|times| ms(pick(times))));
            [cell(|t| t.p50), cell(|t| t.p99), cell(|t| t.max)]
        };
        let mut row = vec![
            callback.id.as_str().into(),
            callback.executor.as_str().into(),
            callback.priority.to_string().into(),
            callback.count.into(),
            Class::Warn.when(callback.dropped > 0).cell(callback.dropped.to_string()),
        ];
        row.extend(times(callback.response_ns));
        row.extend(times(callback.execution_ns));
        row
    });
    let head =
        "callback|executor|prio|count|dropped|p50|p99|max|own p50|own p99|own max".split('|');
    let about = "Times in ms: of the response, from the release or the arrival of the message, and \
                 the callback's own, from its start.";
    let section = Section::new(format!("Callbacks under {}", method.method), about);
    let section = section.table(Table::new("", head, rows).left(&[1]));
    Section { facts: method.facts.clone(), ..section }
}

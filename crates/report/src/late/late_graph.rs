//! Savings by CUDA graphs: a section on repeated sequences that are worth one.
//!
//! The estimate is [`late::graph`]'s. Here it gets words: what the sequence is, what one
//! launch of a graph would cost and where that number comes from, what would be saved, and what
//! stands in the way. A trace knows no arguments of kernels, so that only the program's
//! author can say whether they stay the same; the section says that too.

use super::Findings;
use super::advice::times;
use super::kernel::kernel_name;
use super::name::kind_name;
use crate::number::{count, counted, listed, percent, time};
use late::graph::{Cut, GraphLaunch, Kernel, Reason, Sequence, Source};
use minijinja::context;
use minijinja::value::Value as Shown;
use serde_json::{Value, json};
use terminal::page::Page;
use terminal::page::{FAINT, HEAD, PLAIN, WARN};

/// Sequences that are told.
const TOLD: usize = 5;
/// Kinds of calls in the way that are named.
const CUTS: usize = 3;

/// Limits of every estimate.
const ABOUT: &str = "Estimates from the recorded calls; nothing was captured. A graph repeats the \
    same arguments, which are not recorded: either they stay the same, or the graph is updated.";

/// A sequence in words.
struct Row {
    title: String,
    /// Present cost of the sequence, and the saving by a graph.
    saving: String,
    kernels: Option<String>,
    obstacles: String,
}

impl Findings<'_> {
    /// The sequences that are worth a graph, the most to be saved first.
    fn graphs(&self) -> impl Iterator<Item = &Sequence> {
        self.survey.sequences.iter().filter(|sequence| sequence.is_worth_a_graph())
    }

    /// Locks of a sequence, unless only contended ones were recorded.
    pub(super) fn locks_of(&self, sequence: &Sequence) -> Option<f64> {
        (!self.survey.contended_only).then_some(sequence.locks)
    }

    fn row(&self, sequence: &Sequence) -> Row {
        let thread = self.thread(sequence.thread);
        let row = match sequence.repeats / sequence.runs.max(1) {
            0 | 1 => String::new(),
            in_a_row => format!(" (about {} in a row)", count(in_a_row)),
        };
        Row {
            title: format!("{thread}, {}{row}: {}", times(sequence.repeats), work(sequence)),
            saving: format!("{} {}", self.now(sequence), instead(sequence)),
            kernels: kernels(sequence),
            obstacles: self.obstacles(sequence),
        }
    }

    /// Present cost of one repetition.
    fn now(&self, sequence: &Sequence) -> String {
        let locks = match self.locks_of(sequence) {
            Some(locks) => format!("and {} locks", few(locks)),
            None => "(how many locks is unknown: only contended ones were recorded)".to_owned(),
        };
        let waited = match sequence.waited_ns {
            0 => "They do not wait for locks.".to_owned(),
            waited => format!(
                "On average they take {}, and {} of that is waiting for locks.",
                time(sequence.mean_ns),
                time(waited)
            ),
        };
        format!("They take {} {locks} each time (median). {waited}", time(sequence.launching_ns))
    }

    fn obstacles(&self, sequence: &Sequence) -> String {
        let mut words: Vec<String> = sequence.cuts.iter().take(CUTS).map(|c| self.cut(c)).collect();
        if sequence.default_stream {
            words.push("its work is in the default stream, which cannot be captured".to_owned());
        }
        if sequence.work.pageable > 0 {
            let number = counted(sequence.work.pageable, "copy", "copies");
            words.push(format!("{number} of pageable memory would take as long in a graph"));
        }
        if words.is_empty() {
            words.push("nothing that was recorded".to_owned());
        }
        format!("Obstacles: {}.", words.join("; "))
    }

    /// `it ends at cuStreamSynchronize (12 times), which waits for the device`.
    fn cut(&self, cut: &Cut) -> String {
        let name = self.call(cut.kind);
        format!("it ends at {name} ({}), which {}", times(cut.times), reason(cut.reason))
    }

    /// Share of the work that goes through graphs already.
    fn share(&self) -> Option<String> {
        let launches = &self.survey.launches;
        if launches.graphs == 0 {
            return None;
        }
        let all = launches.direct + launches.kernels_in_graphs;
        let unknown = match launches.unknown_graphs {
            0 => String::new(),
            unknown => format!(
                ", besides those of {} of graphs made before recording began",
                counted(unknown, "launch", "launches")
            ),
        };
        let graphs = counted(launches.graphs, "graph launch", "graph launches");
        let share = percent(launches.kernels_in_graphs, all);
        Some(format!(
            "The program makes {graphs} already: {share} of {} go through them{unknown}.",
            counted(all, "kernel", "kernels")
        ))
    }
}

/// A mean of numbers of locks: with a digit after the point where it is small.
pub(super) fn few(mean: f64) -> String {
    if mean < 10.0 && mean.fract() > 0.0 { format!("{mean:.1}") } else { format!("{mean:.0}") }
}

/// `150 launches, 12 memory sets and 2 copies`.
fn work(sequence: &Sequence) -> String {
    let work = &sequence.work;
    let parts = [
        (work.launches, "launch", "launches"),
        (work.graphs, "graph launch", "graph launches"),
        (work.memsets, "memory set", "memory sets"),
        (work.copies, "copy", "copies"),
    ];
    let parts = parts.into_iter().filter(|(number, ..)| *number > 0);
    listed(&parts.map(|(number, one, many)| counted(number, one, many)).collect::<Vec<_>>())
}

/// `One graph launch instead of 164 calls: about 6.43 us, ...`.
fn instead(sequence: &Sequence) -> String {
    let calls = counted(sequence.length, "call", "calls");
    format!(
        "One graph launch instead of {calls}: about {}; saves about {} each time, {} in each \
         second of the trace.",
        cost(&sequence.graph),
        time(sequence.estimated_saving_ns),
        time(sequence.saving_per_second_ns)
    )
}

/// `6.43 us and 70 to 123 locks, measured on an H200 for 174 nodes`.
fn cost(graph: &GraphLaunch) -> String {
    let locks = match graph.locks {
        Some((least, most)) if least == most => format!(" and {}", counted(most, "lock", "locks")),
        Some((least, most)) => format!(" and {} to {} locks", count(least), count(most)),
        None => String::new(),
    };
    let nodes = graph.nodes.map(|nodes| counted(nodes, "node", "nodes"));
    let source = match graph.source {
        Source::Trace { launches } => {
            let of = nodes.map_or(String::new(), |nodes| format!(" of {nodes} on average"));
            format!("the median of its own {}{of}", counted(launches, "launch", "launches"))
        }
        Source::Measured => {
            let nodes = nodes.map_or(String::new(), |nodes| format!(" for {nodes}"));
            format!("measured on an H200{nodes}")
        }
    };
    format!("{}{locks}, {source}", time(graph.duration_ns))
}

/// Names the kernels that it launches.
fn kernels(sequence: &Sequence) -> Option<String> {
    let first = kernel_name(sequence.first_kernel.as_ref()?);
    let often = sequence.frequent.iter();
    let often = often.map(|(of, times)| format!("{} ({})", kernel_name(of), count(*times)));
    let often: Vec<String> = often.collect();
    Some(format!("First {first}; most often {}.", listed(&often)))
}

fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::Wait => "waits for the device",
        Reason::Blocking => "comes back only when its work is done",
        Reason::Memory => "allocates, frees or registers memory outside of stream order",
        Reason::Code => "loads or unloads code",
        Reason::Callback => "calls back in a way that no graph can contain",
    }
}

/// The section in a terminal; nothing where nothing is worth a graph.
pub(super) fn section(page: &mut Page, findings: &Findings<'_>) {
    if findings.graphs().next().is_none() {
        return;
    }
    page.heading("CUDA graphs");
    page.paragraph(FAINT, ABOUT, 2, 2);
    for (number, sequence) in findings.graphs().take(TOLD).enumerate() {
        let Row { title, saving, kernels, obstacles } = findings.row(sequence);
        page.paint(FAINT, &format!("{:>3}  ", number + 1));
        page.wrapped(HEAD, &title, 5, 5);
        page.paragraph(PLAIN, &saving, 5, 5);
        if let Some(kernels) = kernels {
            page.paragraph(FAINT, &kernels, 5, 5);
        }
        page.paragraph(WARN, &obstacles, 5, 5);
    }
    let more = findings.graphs().count().saturating_sub(TOLD) as u64;
    if more > 0 {
        let more = counted(more, "other sequence", "other sequences");
        page.paragraph(FAINT, &format!("and {more}, which --json lists"), 2, 2);
    }
    if let Some(share) = findings.share() {
        page.paragraph(PLAIN, &share, 2, 2);
    }
}

/// The same on a page.
pub(super) fn table(findings: &Findings<'_>) -> Shown {
    let rows = findings.graphs().take(TOLD).map(|sequence| {
        let row = findings.row(sequence);
        context! {
            thread => findings.thread(sequence.thread),
            times => count(sequence.repeats),
            work => work(sequence),
            kernels => row.kernels,
            time => time(sequence.launching_ns),
            mean => time(sequence.mean_ns),
            waiting => time(sequence.waited_ns),
            locks => findings.locks_of(sequence).map(few),
            graph => time(sequence.graph.duration_ns),
            cost => cost(&sequence.graph),
            saved => time(sequence.estimated_saving_ns),
            per_second => time(sequence.saving_per_second_ns),
            obstacles => row.obstacles,
        }
    });
    context! { rows => rows.collect::<Vec<_>>(), about => ABOUT, share => findings.share() }
}

/// The same for machines.
pub(super) fn value(findings: &Findings<'_>) -> Value {
    let (launches, advice) = (&findings.survey.launches, &findings.survey.graph_advice);
    let all = launches.direct + launches.kernels_in_graphs;
    let share = (all > 0).then(|| launches.kernels_in_graphs as f64 / all as f64);
    let cuts = |cuts: &[Cut]| {
        let one = |cut: &Cut| {
            let name = findings.survey.kinds.get(cut.kind as usize).map(kind_name);
            json!({ "call": name, "reason": cut.reason, "times": cut.times })
        };
        cuts.iter().map(one).collect::<Vec<_>>()
    };
    let sequence = |sequence: &Sequence| {
        let frequent = sequence.frequent.iter().map(|(kernel, times)| {
            let mut value = named(kernel);
            value["times"] = json!(times);
            value
        });
        let row = findings.row(sequence);
        let words = [Some(row.title + "."), Some(row.saving), row.kernels, Some(row.obstacles)];
        json!({
            "sequence": findings.survey.sequences.iter().position(|other| other == sequence),
            "thread": findings.survey.threads.get(sequence.thread as usize)
                .map(|thread| json!({ "tid": thread.tid, "name": thread.name })),
            "repeats": sequence.repeats,
            "runs": sequence.runs,
            "length": sequence.length,
            "work": sequence.work,
            "first_kernel": sequence.first_kernel.as_ref().map(named),
            "frequent_kernels": frequent.collect::<Vec<_>>(),
            "launching_ns": sequence.launching_ns,
            "mean_ns": sequence.mean_ns,
            "replaced_ns": sequence.replaced_ns,
            "waited_ns": sequence.waited_ns,
            "locks": findings.locks_of(sequence),
            "graph_launch": sequence.graph,
            "saved_ns": sequence.estimated_saving_ns,
            "saved_per_second_ns": sequence.saving_per_second_ns,
            "default_stream": sequence.default_stream,
            "cuts": cuts(&sequence.cuts),
            "words": words.into_iter().flatten().collect::<Vec<_>>().join(" "),
        })
    };
    json!({
        "sequences": findings.graphs().map(sequence).collect::<Vec<_>>(),
        "own_graph_launch": advice.own,
        "share_of_kernels_in_graphs": share,
        "cuts": cuts(&advice.cuts),
        "forgotten": advice.forgotten,
        "about": ABOUT,
    })
}

fn named(kernel: &Kernel) -> Value {
    json!({ "name": kernel.name, "handle": format!("{:#x}", kernel.handle) })
}

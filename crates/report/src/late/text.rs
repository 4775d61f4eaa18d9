//! The report in a terminal: the answer first, then the numbers, then what is not known.

use super::advice::{self, Told};
use super::help::{brought, of_guard, remedy_words};
use super::late_headline::{beside, command, headline};
use super::unknown::unknown;
use super::{Findings, calls, late_graph, locks, open, pattern, worst};
use crate::number::{bytes, count, counted, percent, time};
use terminal::page::Page;
use terminal::page::{BAD, FAINT, GOOD, HEAD, PLAIN, WARN};
use trace::metadata::{Guard, ProgramEnd, Tier};

/// Verdicts that are told; the rest is counted.
const VERDICTS: usize = 8;

/// Look of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal; fewer than 40 are taken as 40.
    pub width: usize,
    /// True if the text uses colours.
    pub color: bool,
}

/// The whole report.
pub fn text(findings: &Findings<'_>, look: Look) -> String {
    let mut page = Page::new(look.width, look.color);
    page.paragraph(HEAD, &headline(findings), 0, 2);
    for line in beside(findings) {
        page.paragraph(PLAIN, &line, 0, 2);
    }
    if let Some(command) = command(findings) {
        page.paragraph(PLAIN, "To try:", 0, 2);
        page.command(GOOD, &command, 2);
    }
    page.paragraph(FAINT, &about(findings), 0, 2);
    open_waits(&mut page, findings);
    calls::table(&mut page, findings);
    device(&mut page, findings);
    worst::blocks(&mut page, findings);
    locks::tables(&mut page, findings);
    verdicts(&mut page, findings);
    late_graph::section(&mut page, findings);
    pattern::blocks(&mut page, findings);
    calls::locks_table(&mut page, findings);
    unknowns(&mut page, findings);
    page.finish()
}

/// `t.kt: algorithm2 --copy-threads 2, 3.2 s, 120 345 records, 8 threads on 2 processors, ...`.
pub(super) fn about(findings: &Findings<'_>) -> String {
    let (survey, metadata) = (&findings.survey, findings.metadata);
    let mut facts = vec![metadata.command.join(" "), time(survey.duration_ns)];
    facts.push(counted(survey.records, "record", "records"));
    let threads = counted(survey.threads.len() as u64, "thread", "threads");
    let processors = counted(u64::from(survey.processors), "processor", "processors");
    facts.push(format!("{threads} on {processors}"));
    facts.push(format!("tier {}", tier(survey.tier)));
    facts.extend(metadata.guard.as_ref().map(guarded));
    match metadata.outcome {
        ProgramEnd::Exited(0) | ProgramEnd::Unknown => {}
        ProgramEnd::Exited(status) => facts.push(format!("exit status {status}")),
        ProgramEnd::Killed(signal) => facts.push(format!("killed by signal {signal}")),
    }
    facts.retain(|fact| !fact.is_empty());
    format!("{}: {}", findings.file, facts.join(", "))
}

/// `guard fair+inherit (1 076 hand-overs, 1 076 waits lent a priority)`.
fn guarded(guard: &Guard) -> String {
    let done = brought(guard);
    let done = if done.is_empty() { "nothing was to be done".into() } else { done.join(", ") };
    format!("guard {} ({done})", guard.mutexes)
}

/// `scheduler`.
pub(super) fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Preload => "preload",
        Tier::Switches => "switches",
        Tier::Scheduler => "scheduler",
    }
}

/// Work that was given to the device, and its execution there, in sentences.
pub(super) fn work(findings: &Findings<'_>) -> Vec<String> {
    let launches = &findings.survey.launches;
    let mut facts = Vec::new();
    let mut fact = |number: u64, one: &str, many: &str| {
        if number > 0 {
            facts.push(counted(number, one, many));
        }
    };
    fact(launches.direct, "kernel launched by itself", "kernels launched one by one");
    fact(launches.graphs, "graph launch", "graph launches");
    fact(launches.kernels_in_graphs, "kernel in graphs", "kernels in graphs");
    fact(launches.copies, "copy", "copies");
    fact(launches.memsets, "memory set", "memory sets");
    fact(launches.syncs, "wait for the device", "waits for the device");
    let mut sentences = Vec::new();
    if !facts.is_empty() {
        let copied = match launches.copied_bytes {
            0 => String::new(),
            copied => format!(" ({} copied)", bytes(copied)),
        };
        sentences.push(format!("Given to the device: {}{copied}.", facts.join(", ")));
    }
    if let Some(load) = &findings.survey.load {
        sentences.push(format!(
            "More threads than processors wanted to run in {} of the time, at most {}.",
            percent(load.over_ns, load.observed_ns),
            count(u64::from(load.most))
        ));
    }
    if let Some(gpu) = &findings.survey.gpu {
        let kinds =
            [("kernels", &gpu.kernels), ("copies", &gpu.copies), ("memory sets", &gpu.memsets)];
        let ran = kinds.into_iter().filter(|(_, times)| times.count > 0);
        let ran = ran.map(|(name, times)| {
            let number = count(times.count);
            format!("{number} {name}, p50 {}, max {}", time(times.p50), time(times.max))
        });
        let ran: Vec<String> = ran.collect();
        if !ran.is_empty() {
            sentences.push(format!("On the GPU itself: {}.", ran.join("; ")));
        }
    }
    sentences
}

fn open_waits(page: &mut Page, findings: &Findings<'_>) {
    let sentences = open::sentences(findings);
    if sentences.is_empty() {
        return;
    }
    page.heading("Waits that did not end");
    if open::is_usual(findings) {
        page.paragraph(FAINT, open::USUAL, 2, 2);
    }
    let style = if open::is_usual(findings) { PLAIN } else { BAD };
    for sentence in sentences {
        page.paragraph(style, &format!("- {sentence}"), 2, 4);
    }
}

fn device(page: &mut Page, findings: &Findings<'_>) {
    for sentence in work(findings) {
        page.paragraph(FAINT, &sentence, 2, 2);
    }
}

fn verdicts(page: &mut Page, findings: &Findings<'_>) {
    page.heading("Findings and remedies");
    if let Some(guard) = &findings.metadata.guard {
        page.paragraph(PLAIN, &of_guard(guard), 2, 2);
    }
    let none = findings.judged().next().is_none();
    if none && !findings.survey.circles.is_empty() {
        page.paragraph(BAD, "Threads wait for one another: see above.", 2, 2);
    } else if none {
        page.paragraph(GOOD, &advice::nothing(findings), 2, 2);
    }
    let told = advice::told(findings);
    for (number, told) in told.iter().take(VERDICTS).enumerate() {
        let Told { advice, fresh, again, command, first_of_others } = told;
        if *first_of_others {
            page.paragraph(FAINT, "Other calls:", 2, 2);
        }
        let number = format!("{:>3}  ", number + 1);
        page.paint(FAINT, &number);
        page.wrapped(if number.trim() == "1" { BAD } else { HEAD }, &advice.title, 5, 5);
        let facts: Vec<&str> =
            [&advice.evidence].into_iter().chain(&advice.worst).map(String::as_str).collect();
        page.paragraph(PLAIN, &facts.join(" "), 5, 5);
        if let Some(applied) = &advice.help.applied {
            page.paragraph(FAINT, applied, 5, 5);
        }
        for remedy in fresh {
            page.paragraph(GOOD, &format!("- {}", remedy_words(*remedy)), 5, 7);
        }
        if let Some(again) = again {
            page.paragraph(GOOD, &format!("- {again}"), 5, 7);
        }
        if let Some(command) = command {
            page.command(GOOD, command, 7);
        }
    }
    let more = (findings.judged().count() - told.len().min(VERDICTS)) as u64;
    if more > 0 {
        let more = counted(more, "smaller one", "smaller ones");
        page.paragraph(FAINT, &format!("and {more}, which --json lists"), 2, 2);
    }
}

fn unknowns(page: &mut Page, findings: &Findings<'_>) {
    let sentences = unknown(findings);
    if sentences.is_empty() {
        return;
    }
    page.heading("Limits of the recording");
    for sentence in sentences {
        page.paragraph(WARN, &format!("- {sentence}"), 2, 4);
    }
}

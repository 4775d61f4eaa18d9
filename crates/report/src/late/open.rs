//! Waits that did not end: circles first, then threads that waited for a lock with a holder, then
//! those that waited for a signal, which threads without work do.

use super::Findings;
use crate::number::{counted, instant, listed, time};
use late::Family;
use late::result::{OpenHolder, OpenWait};
use serde_json::{Value, json};
use trace::metadata::ProgramEnd;

/// Threads of a circle, and waits, that are told; the rest is counted.
const TOLD: usize = 8;

/// Said where only waits for signals did not end.
pub(super) const USUAL: &str =
    "Only waits for signals, as threads have that are without work when the program ends.";

/// The sentence about what stood still, if that is the answer: a circle, or a wait for a lock that
/// is longer than everything that ended. If only some calls were asked for, it is the answer only
/// if one of them stood still.
pub(super) fn headline(findings: &Findings<'_>) -> Option<String> {
    let (words, asked) = stood_still(findings)?;
    asked.then_some(words)
}

/// The same where it is not the answer.
pub(super) fn aside(findings: &Findings<'_>) -> Option<String> {
    let (words, asked) = stood_still(findings)?;
    (!asked).then_some(words)
}

fn stood_still(findings: &Findings<'_>) -> Option<(String, bool)> {
    let survey = &findings.survey;
    let asked = |wait: &OpenWait| {
        findings.focus.is_open() || wait.kind.is_some_and(|kind| findings.asks(kind))
    };
    if let Some(circle) = survey.circles.first() {
        let mut waits = circle.iter().filter_map(|at| survey.open_waits.get(*at as usize));
        return Some((deadlock(findings, circle), waits.any(asked)));
    }
    let ended = survey
        .locks
        .iter()
        .filter(|lock| lock.family.held())
        .map(|lock| lock.readers.wait.max.max(lock.others.wait.max).max(lock.in_vain.max));
    let call = survey.worst.iter().map(|call| call.duration_ns);
    let longest = ended.chain(call).max().unwrap_or(0);
    let held = survey.open_waits.iter().filter(|wait| wait.family.held());
    let open = held.max_by_key(|wait| wait.until_end_ns)?;
    (open.until_end_ns > longest).then(|| (lock_wait(findings, open), asked(open)))
}

/// All that did not end, one sentence each, in the order of importance.
pub(super) fn sentences(findings: &Findings<'_>) -> Vec<String> {
    let survey = &findings.survey;
    let mut sentences: Vec<String> = Vec::new();
    let mut add = |all: Vec<String>, one: &str, many: &str| {
        let more = all.len().saturating_sub(TOLD) as u64;
        sentences.extend(all.into_iter().take(TOLD));
        sentences.extend(
            (more > 0).then(|| format!("{}, which --json lists", counted(more, one, many))),
        );
    };
    let circles = survey.circles.iter().map(|circle| deadlock(findings, circle));
    add(circles.collect(), "more circle", "more circles");
    let in_no_circle = || survey.open_waits.iter().filter(|wait| wait.circle.is_none());
    let held = in_no_circle().filter(|wait| wait.family.held());
    add(held.map(|wait| lock_wait(findings, wait)).collect(), "more wait", "more waits");
    let signals = in_no_circle().filter(|wait| !wait.family.held());
    add(signals.map(|wait| begun(findings, wait)).collect(), "more wait", "more waits");
    sentences
}

/// Returns true if only waits for signals did not end, as is usual for threads without work.
pub(super) fn is_usual(findings: &Findings<'_>) -> bool {
    !findings.survey.open_waits.iter().any(|wait| wait.family.held())
}

/// `main (100) waits for mutex M2, which worker (101) has, who waits for ...`
fn deadlock(findings: &Findings<'_>, circle: &[u32]) -> String {
    let waits: Vec<&OpenWait> =
        circle.iter().filter_map(|at| findings.survey.open_waits.get(*at as usize)).collect();
    let Some(first) = waits.first() else { return "deadlock".to_owned() };
    let since = waits.iter().map(|wait| wait.at_ns).max().unwrap_or(0);
    let mut words = format!("deadlock: {}", findings.thread(first.thread));
    for (at, wait) in waits.iter().enumerate().take(TOLD) {
        let next = waits[(at + 1) % waits.len()];
        let holder = match next.thread == wait.thread {
            true => "it holds itself".to_owned(),
            false => format!("{} has", findings.thread(next.thread)),
        };
        let who = if at == 0 { "" } else { ", who" };
        words += &format!("{who} waits for {}, which {holder}", what(findings, wait));
    }
    let more = waits.len().saturating_sub(TOLD) as u64;
    if more > 0 {
        words += &format!(", and so on over {}", counted(more, "more thread", "more threads"));
    }
    let length = first.at_ns.saturating_add(first.until_end_ns).saturating_sub(since);
    format!("{words}; since {} after the start, {}", instant(since), to_the_end(findings, length))
}

/// `main (100) waits for mutex M2 since 200 ms after the start, 2.3 s ...; worker (101) has it`
fn lock_wait(findings: &Findings<'_>, wait: &OpenWait) -> String {
    let holders: Vec<String> =
        wait.holders.iter().take(TOLD).map(|holder| has(findings, holder)).collect();
    let holders = match holders.is_empty() {
        true => "its holder is not known".to_owned(),
        false => listed(&holders),
    };
    format!("{}; {holders}", begun(findings, wait))
}

fn begun(findings: &Findings<'_>, wait: &OpenWait) -> String {
    format!(
        "{} waits for {} since {} after the start, {}",
        findings.thread(wait.thread),
        what(findings, wait),
        instant(wait.at_ns),
        to_the_end(findings, wait.until_end_ns)
    )
}

/// `worker (101) has it since 1 ms after the start, and waits for mutex M1`
fn has(findings: &Findings<'_>, holder: &OpenHolder) -> String {
    let survey = &findings.survey;
    let thread = holder.thread.and_then(|at| Some((at, survey.threads.get(at as usize)?)));
    let mut words = match thread {
        Some((at, _)) => format!("{} has it", findings.thread(at)),
        None => format!("thread {} has it", holder.tid),
    };
    if let Some(since) = holder.since_ns {
        words += &format!(" since {} after the start", instant(since));
    }
    let waits = holder.waits.and_then(|at| survey.open_waits.get(at as usize));
    match (waits, thread) {
        (Some(waits), _) => words += &format!(", and waits for {}", what(findings, waits)),
        (None, Some((_, thread))) => {
            words += &format!(", whose last record is of {}", instant(thread.last_at_ns));
        }
        (None, None) => {}
    }
    words
}

/// `read-write lock R1 for reading`
fn what(findings: &Findings<'_>, wait: &OpenWait) -> String {
    let lock = findings.lock(wait.lock);
    match (wait.family, wait.read) {
        (Family::ReadWrite, true) => format!("{lock} for reading"),
        (Family::ReadWrite, false) => format!("{lock} for writing"),
        _ => lock,
    }
}

/// `2.3 s until the program was killed by signal 9`
fn to_the_end(findings: &Findings<'_>, ns: u64) -> String {
    let end = match findings.metadata.outcome {
        ProgramEnd::Killed(signal) => format!("the program was killed by signal {signal}"),
        ProgramEnd::Exited(_) => "the program ended".to_owned(),
        ProgramEnd::Unknown => "recording ended".to_owned(),
    };
    format!("{} until {end}", time(ns))
}

/// The waits for machines.
pub(super) fn values(findings: &Findings<'_>) -> Vec<Value> {
    let thread = |at: Option<u32>| {
        let thread = at.and_then(|at| findings.survey.threads.get(at as usize));
        thread.map(|thread| thread.name.clone())
    };
    let one = |wait: &OpenWait| {
        let tid = findings.survey.threads.get(wait.thread as usize).map(|thread| thread.tid);
        let holders = wait.holders.iter().map(|holder| {
            json!({
                "tid": holder.tid,
                "name": thread(holder.thread),
                "since_ns": holder.since_ns,
                "waits": holder.waits,
            })
        });
        json!({
            "thread": { "tid": tid, "name": thread(Some(wait.thread)) },
            "lock": findings.lock_name(Some(wait.lock)),
            "family": wait.family,
            "read": wait.read,
            "call": wait.kind.map(|kind| findings.call(kind)),
            "at_ns": wait.at_ns,
            "until_end_ns": wait.until_end_ns,
            "holders": holders.collect::<Vec<_>>(),
            "circle": wait.circle,
        })
    };
    findings.survey.open_waits.iter().map(one).collect()
}

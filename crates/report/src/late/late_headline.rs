//! The answer in one sentence, and what has to be said beside it.

use super::advice::advice;
use super::help::{help, remedy_name};
use super::share::{Share, shares};
use super::{Findings, Focus, Late, What, main_group, open, plural};
use crate::number::{count, counted, instant, listed, percent, time};
use late::result::{Instance, Unfinished};
use late::{Group, Verdict};

/// A share is the main one alone if it is so large, in percent.
const MAIN_PERCENT: u64 = 50;

/// The sentence that answers the question: what stood still; or else the worst of the calls that
/// were asked for, how long it took and how long it usually takes, and what most of that time was.
pub fn headline(findings: &Findings<'_>) -> String {
    if let Some(words) = open::headline(findings) {
        return words;
    }
    let late = findings.latest().first().copied();
    if let Some(open) = hanging(findings) {
        return never_returned(findings, open);
    }
    let mut kinds = findings.survey.kinds.iter();
    match late {
        None if kinds.any(|kind| findings.focus.asks(&findings.survey, kind)) => {
            "no call returned while its records are whole: which was late is not known".to_owned()
        }
        None if !findings.survey.kinds.is_empty() => {
            format!("no {} was recorded", findings.one())
        }
        None => no_calls(findings),
        Some(late) if !late.call.is_late() => format!(
            "no {} was late: the worst took {} (usual {})",
            findings.one(),
            time(late.call.duration_ns),
            time(late.call.usual_ns)
        ),
        Some(late) => worst(findings, late),
    }
}

fn worst(findings: &Findings<'_>, late: Late<'_>) -> String {
    format!(
        "worst {}: {} (usual {}): {}",
        findings.one(),
        time(late.call.duration_ns),
        time(late.call.usual_ns),
        main_causes(&shares(findings, late.explained), late.call.duration_ns)
    )
}

/// `96 % waiting for mutex M4, held by ...`; two shares where none is most of it.
fn main_causes(shares: &[Share], whole_ns: u64) -> String {
    let words = |share: &Share| format!("{} {}", percent(share.ns, whole_ns), share.words);
    match shares {
        [] => "nothing is known of it".to_owned(),
        [first, second, ..] if first.ns * 100 < whole_ns * MAIN_PERCENT => {
            format!("{}; {}", words(first), words(second))
        }
        [first, ..] => words(first),
    }
}

/// A call that had not returned, and took longer than all that had.
fn hanging<'f>(findings: &'f Findings<'_>) -> Option<&'f Unfinished> {
    let longest = findings.latest().first().map_or(0, |late| late.call.duration_ns);
    let asked = findings.survey.unfinished.iter().filter(|open| findings.asks(open.kind));
    asked.max_by_key(|open| open.until_end_ns).filter(|open| open.until_end_ns > longest)
}

fn never_returned(findings: &Findings<'_>, open: &Unfinished) -> String {
    format!(
        "worst {}: {} by {} had not returned when its records ended, {} after it began",
        findings.one(),
        findings.call(open.kind),
        findings.thread(open.thread),
        time(open.until_end_ns)
    )
}

/// Programs that do not use the device, or whose use of it was not seen.
fn no_calls(findings: &Findings<'_>) -> String {
    let survey = &findings.survey;
    let waits = survey.locks.iter().enumerate().filter(|(_, lock)| lock.family.held());
    let longest = waits.filter_map(|(place, lock)| {
        let waits = [&lock.readers.longest_wait, &lock.others.longest_wait, &lock.longest_in_vain];
        let longest = waits.into_iter().flatten().max_by_key(|wait| wait.duration_ns)?;
        let in_vain = lock.longest_in_vain.as_ref() == Some(longest);
        Some((place as u32, longest, in_vain))
    });
    let start = "no call of the CUDA driver was recorded";
    match longest.max_by_key(|(_, wait, _)| wait.duration_ns) {
        Some((lock, wait, in_vain)) => {
            let got = if in_vain { ", which gave up without it" } else { "" };
            format!("{start}; {}{got}", longest_wait(findings, lock, wait))
        }
        None if survey.records == 0 => "the trace is empty: nothing was recorded".to_owned(),
        None => format!("{start}, and no wait for a lock: there is nothing to explain"),
    }
}

fn longest_wait(findings: &Findings<'_>, lock: u32, wait: &Instance) -> String {
    let mut words = format!(
        "the longest wait for a lock was {} for {} by {}",
        time(wait.duration_ns),
        findings.lock(lock),
        findings.thread(wait.thread)
    );
    if wait.others > 0 {
        words += &format!(", while others got it {}", counted(wait.others, "time", "times"));
    }
    words
}

/// Lines below the headline: the part of the trace that it is about if that is not all, then place
/// and time of its worst call, and notes on it.
pub(super) fn beside(findings: &Findings<'_>) -> Vec<String> {
    let aside = open::aside(findings).map(|words| format!("Beside these calls: {words}."));
    partial(findings).into_iter().chain(of_worst(findings)).chain(aside).collect()
}

/// The part of the trace that an interrupted report is about.
pub(super) fn partial(findings: &Findings<'_>) -> Option<String> {
    let (read, all) = (count(findings.interrupted?), count(findings.survey.records));
    Some(format!("PARTIAL: interrupted after {read} of {all} records; the report is of these."))
}

fn of_worst(findings: &Findings<'_>) -> Vec<String> {
    let group = main_group(&findings.survey);
    let latest = findings.latest();
    let mut lines = Vec::new();
    if open::headline(findings).is_some() {
        let Some(worst) = latest.first().filter(|late| late.call.is_late()) else { return lines };
        let words = self::worst(findings, *worst);
        lines.push(format!("Of the calls that returned, the {words}."));
        return lines;
    }
    if findings.focus == Focus::Launches && group != Group::Launch && !latest.is_empty() {
        lines.push(format!("No launch was recorded, so this is about {}.", plural(group)));
    }
    let Some(worst) = latest.first() else { return lines };
    if hanging(findings).is_some() {
        let words = self::worst(findings, *worst);
        lines.push(format!("Of those that returned, the {words}."));
    }
    lines.push(format!("It was {}.", place(findings, *worst)));
    lines.extend(why(findings, *worst));
    // A call that executed for long is often the first of its kind, which loads what it needs:
    // then the question is mostly about others.
    let main = |late: &Late<'_>| shares(findings, late.explained).first().map(|share| share.what);
    if main(worst) == Some(What::Executing) {
        let waited = latest[1..].iter().find(|late| main(late) != Some(What::Executing));
        let waited = waited.filter(|late| late.call.is_late());
        lines.extend(waited.map(|late| {
            let words = self::worst(findings, *late);
            let words = words.strip_prefix("worst ").unwrap_or(&words);
            format!(
                "The worst one that did not mostly execute: {words}; {}.",
                place(findings, *late)
            )
        }));
    }
    lines
}

/// The verdict that says most of why a call was late.
fn reason<'f>(findings: &'f Findings<'_>, late: Late<'_>) -> Option<&'f Verdict> {
    let worst = late.call.is_late().then_some(late.explained.worst)?;
    late::reason(&findings.survey, &findings.verdicts, worst)
}

/// The command that helps against the cause of the worst call, if Keeptime has one, word by word.
pub(super) fn command(findings: &Findings<'_>) -> Option<Vec<String>> {
    let verdict = reason(findings, *findings.latest().first()?)?;
    help(findings, verdict).command
}

/// The verdict in words, and what would help.
fn why(findings: &Findings<'_>, late: Late<'_>) -> Option<String> {
    let verdict = reason(findings, late)?;
    let open = help(findings, verdict).open;
    let remedies = open.iter().map(|remedy| remedy_name(*remedy).to_owned());
    let remedies: Vec<String> = remedies.take(2).collect();
    let title = advice(findings, verdict).title;
    Some(match remedies.is_empty() {
        true => format!("Why: {title}."),
        false => format!("Why: {title}. What would help: {}.", listed(&remedies)),
    })
}

/// `cuLaunchKernel in infer (4712), 1.234 s after the start`.
pub(super) fn place(findings: &Findings<'_>, late: Late<'_>) -> String {
    format!(
        "{} in {}, {} after the start",
        findings.call(late.call.kind),
        findings.thread(late.call.thread),
        instant(late.call.at_ns)
    )
}

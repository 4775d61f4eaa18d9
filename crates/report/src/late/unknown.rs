//! Facts that the trace does not contain, and ways to record more of them.

use super::Findings;
use crate::number::{count, counted, time};
use trace::metadata::{ProgramEnd, Tier};

/// Everything that is missing, one sentence each; the most important first.
pub(super) fn unknown(findings: &Findings<'_>) -> Vec<String> {
    let mut sentences = losses(findings);
    sentences.extend(tier(findings));
    sentences.extend(settings(findings));
    sentences.extend(unfinished(findings));
    sentences.extend(troubles(findings));
    sentences
}

/// Records that are not there, and what is not counted for it.
fn losses(findings: &Findings<'_>) -> Vec<String> {
    let losses = &findings.survey.losses;
    let mut sentences = Vec::new();
    let lost = losses.lost + losses.lost_without_stream;
    let threads = findings.survey.threads.iter();
    let of_threads =
        losses.lost_without_stream > 0 || threads.flat_map(|t| &t.unknown_ns).count() > 0;
    if lost > 0 && of_threads {
        sentences.push(format!(
            "{} lost for want of memory: record again with more --memory, or with --contended.",
            counted(lost, "record was", "records were")
        ));
    } else if lost > 0 {
        sentences.push(format!(
            "{} lost: the threads on the processors at that time are unknown.",
            counted(lost, "record of the scheduler was", "records of the scheduler were")
        ));
    }
    if losses.overwritten > 0 {
        sentences.push(format!(
            "{} overwritten by later ones (--keep last): what came before is unknown.",
            counted(losses.overwritten, "record was", "records were")
        ));
    }
    if losses.torn > 0 {
        sentences.push(format!(
            "{} not finished by a thread that was killed.",
            counted(losses.torn, "record was", "records were")
        ));
    }
    let open = [
        (losses.unknown_calls, "call", "calls"),
        (losses.unknown_waits, "wait", "waits"),
        (losses.unknown_holds, "hold of a lock", "holds of locks"),
    ];
    let open = open.into_iter().filter(|(number, ..)| *number > 0);
    let open: Vec<String> = open.map(|(number, one, many)| counted(number, one, many)).collect();
    if !open.is_empty() {
        sentences.push(format!(
            "{} reached into a time whose records are missing: no number counts them, and one of \
             them may have been the worst.",
            crate::number::listed(&open)
        ));
    }
    if losses.unknown_kinds > 0 {
        sentences.push(format!(
            "{} of kinds that this version of Keeptime does not know.",
            counted(losses.unknown_kinds, "record is", "records are")
        ));
    }
    sentences
}

/// Facts that the tier leaves open, and the way to a better tier.
fn tier(findings: &Findings<'_>) -> Vec<String> {
    let metadata = findings.metadata;
    let mut sentences = Vec::new();
    match metadata.tier {
        Tier::Scheduler => {}
        Tier::Switches => sentences.push(
            "Tier switches: the trace says when the program's threads were off a processor, but \
             neither the threads that ran instead nor those that woke them. As root, `keeptime run \
             --record` gets the tier scheduler."
                .to_owned(),
        ),
        Tier::Preload => sentences.push(
            "Tier preload: the trace does not say when threads were on a processor, so that \
             executing and being suspended cannot be told apart. `keeptime run` takes the \
             best tier that it can have: switches needs no privilege, scheduler needs root."
                .to_owned(),
        ),
    }
    if metadata.tier != Tier::Scheduler {
        let reasons = metadata.tier_reasons.iter();
        sentences.extend(reasons.map(|reason| format!("Reason for this tier: {reason}.")));
    }
    sentences
}

/// Records that were left out by choice.
fn settings(findings: &Findings<'_>) -> Vec<String> {
    let settings = &findings.metadata.settings;
    let mut sentences = Vec::new();
    if settings.contended_only {
        sentences.push(
            "Only locks that had to be waited for were recorded (--contended): numbers of \
             acquisitions and holds are of those only, holders may be missing, and there are no \
             locking patterns."
                .to_owned(),
        );
    }
    if !settings.all_locks && !settings.libraries.is_empty() {
        sentences.push(format!(
            "Only locks taken by {} were recorded; --all-locks records the program's own too.",
            settings.libraries.join(", ")
        ));
    }
    sentences
}

fn unfinished(findings: &Findings<'_>) -> Vec<String> {
    let open = &findings.survey.unfinished;
    let Some(longest) = open.iter().max_by_key(|open| open.until_end_ns) else { return Vec::new() };
    let killed = match findings.metadata.outcome {
        ProgramEnd::Killed(signal) => format!("; the program was killed by signal {signal}"),
        _ => String::new(),
    };
    vec![format!(
        "{} not returned when records ended, the longest {} by {} after {}{killed}.",
        counted(open.len() as u64, "call had", "calls had"),
        findings.call(longest.kind),
        findings.thread(longest.thread),
        time(longest.until_end_ns)
    )]
}

/// Troubles of the recorder itself.
fn troubles(findings: &Findings<'_>) -> Vec<String> {
    let troubles = findings.metadata.troubles.iter().filter(|trouble| trouble.count > 0);
    let one = |trouble: &trace::metadata::TroubleCount| match trouble.count {
        1 => format!("The recorder noted: {}.", trouble.trouble),
        times => format!("The recorder noted {} times: {}.", count(times), trouble.trouble),
    };
    troubles.map(one).collect()
}

//! Faults in words, with the numbers that show them, and remedies.

use super::Findings;
use super::help::{Help, help, remedy_name};
use super::late_gpu;
use super::late_graph::few;
use super::name::task;
use crate::number::{count, counted, instant, listed, percent, time};
use late::Task;
use late::result::Sequence;
use late::{Evidence, Remedy, Verdict};

/// A verdict that cost less than this part of the worst one is not told.
const LEAST_PART: u64 = 100;

/// A verdict in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Advice {
    /// `Convoy at mutex M4`.
    pub(super) title: String,
    /// The numbers.
    pub(super) evidence: String,
    /// Sentence on the worst occurrence.
    pub(super) worst: Option<String>,
    /// `up to 4.4 ms of one launch`: what it cost at most.
    pub(super) cost: String,
    pub(super) help: Help,
}

/// A verdict as a report tells it.
pub(super) struct Told {
    pub(super) advice: Advice,
    /// Remedies that no verdict before it has.
    pub(super) fresh: Vec<Remedy>,
    /// A command that no verdict before it has, word by word.
    pub(super) command: Option<Vec<String>>,
    /// The names of the others.
    pub(super) again: Option<String>,
    /// True for the first one that is not on calls that were asked for, behind one that is.
    pub(super) first_of_others: bool,
}

/// The verdicts that matter beside the worst one on such calls, each with its remedies told once.
pub(super) fn told(findings: &Findings<'_>) -> Vec<Told> {
    let most = [false, true].map(|asked| {
        let of = findings.judged().filter(|verdict| verdict.asked == asked);
        of.map(|verdict| verdict.severity_ns).max().unwrap_or(0)
    });
    let matters = |verdict: &&Verdict| {
        let repeated = matches!(verdict.evidence, Evidence::RepeatedLaunches { .. });
        repeated || verdict.severity_ns >= most[usize::from(verdict.asked)] / LEAST_PART
    };
    let mut told: Vec<Remedy> = Vec::new();
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut asked = false;
    let one = |verdict: &Verdict| {
        let advice = advice(findings, verdict);
        let (again, fresh): (Vec<Remedy>, Vec<Remedy>) =
            advice.help.open.iter().partition(|remedy| told.contains(remedy));
        told.extend(&fresh);
        let command = advice.help.command.clone().filter(|command| !commands.contains(command));
        commands.extend(command.clone());
        let names: Vec<String> = again.into_iter().map(|r| remedy_name(r).to_owned()).collect();
        let also = if fresh.is_empty() { "" } else { "also " };
        let again = (!names.is_empty()).then(|| format!("{also}{}, as above", listed(&names)));
        let first_of_others = std::mem::replace(&mut asked, verdict.asked) && !verdict.asked;
        Told { advice, fresh, command, again, first_of_others }
    };
    findings.judged().filter(matters).map(one).collect()
}

/// Said where there is no verdict to tell.
pub(super) fn nothing(findings: &Findings<'_>) -> String {
    let known = "no convoy, no starvation, no inversion, no long hold with waiters, no full queue";
    match findings.verdicts.len() as u64 {
        0 => format!("Nothing that Keeptime knows of: {known}."),
        others => format!(
            "Nothing that Keeptime knows of on these calls: {known}. --call all has {} on other \
             calls.",
            count(others)
        ),
    }
}

/// A verdict in words.
pub(super) fn advice(findings: &Findings<'_>, verdict: &Verdict) -> Advice {
    let lock = verdict.lock.map_or(String::new(), |lock| format!(" at {}", findings.lock(lock)));
    Advice {
        title: format!("{}{lock}", title(&verdict.evidence)),
        evidence: evidence(findings, verdict),
        worst: worst(findings, verdict),
        cost: cost(findings, verdict),
        help: help(findings, verdict),
    }
}

fn title(evidence: &Evidence) -> &'static str {
    match evidence {
        Evidence::LockConvoy { .. } => "Convoy",
        Evidence::ReaderStarvation { .. } => "Readers starve",
        Evidence::WriterStarvation { .. } => "Writers starve",
        Evidence::UnfairHandOver { .. } => "Unfair hand-over",
        Evidence::PriorityInversion { .. } => "Priority inversion",
        Evidence::PreemptedHolder { .. } => "Preempted holder",
        Evidence::Oversubscription { .. } => "More threads than processors",
        Evidence::LongCriticalSection { .. } => "Long hold",
        Evidence::DeviceQueueFull { .. } => "Device queue full",
        Evidence::BlockedElsewhere { .. } => "Launches off the processor, and not for a lock",
        Evidence::SharedGpu { .. } => "GPU shared or slow",
        Evidence::RepeatedLaunches { .. } => "The same launches again and again",
    }
}

/// `once`, `12 times`.
pub(super) fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{} times", count(number)) }
}

/// `(SCHED_FIFO or RR, priority 50)`: the kernel counts the other way round.
fn urgency(task: &Task) -> String {
    match task.priority {
        Some(priority @ 0..100) => format!(" (real-time priority {})", 99 - priority),
        Some(priority) => format!(" (nice {})", i32::from(priority) - 120),
        None => String::new(),
    }
}

fn by(task: Option<&Task>) -> String {
    task.map_or("another thread".to_owned(), |by| format!("{}{}", self::task(by), urgency(by)))
}

fn self_task(who: &Task) -> String {
    format!("{}{}", task(who), urgency(who))
}

/// `5 of the 12 launches looked at`: the calls that lost time by a cause, and of how many.
fn losers(findings: &Findings<'_>, verdict: &Verdict) -> String {
    let (lost, of) = (verdict.lost.calls.len() as u64, verdict.lost.looked_at);
    let many = if verdict.asked { findings.many() } else { "other calls".to_owned() };
    match (lost, of) {
        (1, 1) if verdict.asked => format!("The {} looked at", findings.one()),
        (1, 1) => "The other call looked at".to_owned(),
        _ => format!("{} of the {} {many} looked at", count(lost), count(of)),
    }
}

fn evidence(findings: &Findings<'_>, verdict: &Verdict) -> String {
    let evidence = &verdict.evidence;
    let losers = || losers(findings, verdict);
    let lost = || time(verdict.lost.total_ns());
    match evidence {
        Evidence::LockConvoy { .. } => convoy(evidence),
        Evidence::ReaderStarvation { times: number, most_writers, waits, wait_max_ns } => format!(
            "In {} of {}, two or more writers got it first, up to {} during one wait; the longest \
             such wait was {}.",
            count(*number),
            counted(*waits, "wait by readers", "waits by readers"),
            count(*most_writers),
            time(*wait_max_ns)
        ),
        Evidence::WriterStarvation { times: number, most_readers, waits, wait_max_ns } => format!(
            "In {} of {}, readers came later and got it first, up to {} during one wait; the \
             longest such wait was {}.",
            count(*number),
            counted(*waits, "wait by writers", "waits by writers"),
            count(*most_readers),
            time(*wait_max_ns)
        ),
        Evidence::UnfairHandOver { .. } => unfair(evidence),
        Evidence::PriorityInversion { waiter, holder, by: third } => format!(
            "{} waited for {}, which held it and could not run because {} did. {} waited {} in \
             this way.",
            self_task(waiter),
            self_task(holder),
            by(third.as_ref()),
            losers(),
            lost()
        ),
        Evidence::PreemptedHolder { holder, by: third } => format!(
            "{} held it and was preempted by {}. {} waited {} for holders that could not run.",
            self_task(holder),
            by(third.as_ref()),
            losers(),
            lost()
        ),
        Evidence::Oversubscription { over_ns, observed_ns, most, processors, .. } => {
            let waited = match verdict.lost.calls.len() {
                0 => String::new(),
                _ => format!(" {} waited {} for a processor.", losers(), lost()),
            };
            format!(
                "In {} of the time more threads wanted to run than there are processors, up to \
                 {most} for {processors}.{waited}",
                percent(*over_ns, *observed_ns)
            )
        }
        Evidence::LongCriticalSection { hold_ns, hold_p50_ns, waiting, wait_max_ns, kind } => {
            format!(
                "It was held for {} {} while others waited, {} of them at its end; half of all \
                 holds take at most {}. The longest wait for it was {}.",
                time(*hold_ns),
                findings.inside(*kind),
                count(*waiting),
                time(*hold_p50_ns),
                time(*wait_max_ns)
            )
        }
        Evidence::DeviceQueueFull { most_outstanding, executing } => {
            let doubt = if *executing {
                "executed or yielded all the time, as a driver does that waits for room"
            } else {
                "may have waited for something else, since the scheduler was not recorded"
            };
            format!(
                "{} spent {} more than usual with up to {} launches outstanding in the stream, and \
                 {doubt}.",
                losers(),
                lost(),
                count(u64::from(*most_outstanding))
            )
        }
        Evidence::BlockedElsewhere {} => format!(
            "{} spent {} in page faults or system calls that no lock explains.",
            losers(),
            lost()
        ),
        Evidence::SharedGpu {} => format!(
            "{} spent {} waiting for a GPU {}, while it did other work or theirs for longer than \
             usual.",
            losers(),
            lost(),
            late_gpu::reason(findings)
        ),
        Evidence::RepeatedLaunches { sequence, .. } => {
            let sequence = findings.survey.sequences.get(*sequence as usize);
            sequence.map_or(String::new(), |sequence| repeated(findings, sequence))
        }
    }
}

fn convoy(evidence: &Evidence) -> String {
    let Evidence::LockConvoy {
        waits,
        acquisitions,
        queue_p50,
        queue_max,
        wait_p50_ns,
        wait_max_ns,
        hold_p50_ns,
        hold_max_ns,
    } = evidence
    else {
        return String::new();
    };
    format!(
        "Half of its holds take at most {} (the longest {}), yet half of its waits take {} or \
         more (the longest {}): {} of {} had to wait. At half of all waits for it {} or more \
         threads waited, at most {}.",
        time(*hold_p50_ns),
        time(*hold_max_ns),
        time(*wait_p50_ns),
        time(*wait_max_ns),
        percent(*waits, *acquisitions),
        counted(*acquisitions, "acquisition", "acquisitions"),
        count(*queue_p50),
        count(*queue_max)
    )
}

fn unfair(evidence: &Evidence) -> String {
    let Evidence::UnfairHandOver {
        overtaken,
        most_overtaken,
        reacquired,
        barged,
        wait_p50_ns,
        wait_p99_9_ns: _,
        wait_max_ns,
    } = evidence
    else {
        return String::new();
    };
    let mut facts = Vec::new();
    if *overtaken > 0 {
        facts.push(format!(
            "in {} a thread that came later got it first, up to {} during one of them",
            counted(*overtaken, "wait", "waits"),
            times(*most_overtaken)
        ));
    }
    if *reacquired > 0 {
        facts.push(format!(
            "{} the thread that had just released it took it again while others waited",
            times(*reacquired)
        ));
    }
    if *barged > 0 {
        facts.push(format!("{} a thread took it without waiting while others did", times(*barged)));
    }
    format!(
        "It goes to the first thread that comes: {}. Half of its waits take at most {}, the \
         longest took {}.",
        facts.join("; "),
        time(*wait_p50_ns),
        time(*wait_max_ns)
    )
}

/// A sequence of launches and copies, and what a graph would save.
pub(super) fn repeated(findings: &Findings<'_>, sequence: &Sequence) -> String {
    let locks = findings.locks_of(sequence);
    let locks = locks.map_or(String::new(), |locks| format!(" and {} locks", few(locks)));
    format!(
        "{} makes the same {} {}: {} of launching{locks} each time, by the median. As one graph \
         that would be about {} less (an estimate).",
        findings.thread(sequence.thread),
        counted(sequence.length, "call", "calls"),
        times(sequence.repeats),
        time(sequence.launching_ns),
        time(sequence.estimated_saving_ns)
    )
}

/// Sentence on the worst occurrence of a verdict.
fn worst(findings: &Findings<'_>, verdict: &Verdict) -> Option<String> {
    let worst = verdict.worst.as_ref()?;
    let (lost, whole) = (time(worst.lost_ns), time(worst.duration_ns));
    let place = match worst.kind {
        Some(kind) if lost != whole => format!("of the {whole} of {}", findings.call(kind)),
        kind => findings.inside(kind),
    };
    Some(format!(
        "Worst: {lost} {place} by {}, {} after the start.",
        findings.thread(worst.thread),
        instant(worst.at_ns)
    ))
}

/// What a cause cost at most, and which calls it is about.
fn cost(findings: &Findings<'_>, verdict: &Verdict) -> String {
    let most = time(verdict.severity_ns);
    match &verdict.worst {
        None if matches!(verdict.evidence, Evidence::RepeatedLaunches { .. }) => {
            format!("about {most} each time")
        }
        None => String::new(),
        Some(worst) if worst.explained.is_some() && verdict.asked => {
            format!("up to {most} of one {}", findings.one())
        }
        Some(worst) if worst.explained.is_some() => format!("up to {most} of one other call"),
        Some(_) => format!("up to {most} in one wait"),
    }
}

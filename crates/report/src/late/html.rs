//! The report as one page. The template is `page.html`, beside this file.

use super::advice;
use super::calls::{self, Calls};
use super::help::{of_guard, remedy_words};
use super::late_headline::{beside, command, headline};
use super::locks::{UseRow, given_up, groups_words, use_rows, waited_ns};
use super::name::{attributes, kind_name};
use super::plot::{Curve, panel};
use super::share::shares;
use super::text::{about, tier, work};
use super::unknown::unknown;
use super::{Findings, Focus, Late, What, diagram, late_graph, open, pattern, plural, worst};
use crate::Error;
use crate::number::{count, counted, time};
use crate::page::render;
use crate::theme::{BOUND, Ink, LIMIT, MUTED, SERIES};
use late::Group;
use late::result::{CallKind, Lock, Thread};
use minijinja::context;
use minijinja::value::Value;
use terminal::command_line::quoted;

/// Kinds of calls and locks with a plot, and patterns with a picture.
const PLOTS: usize = 6;
/// Values from which a distribution has a shape.
const ENOUGH: u64 = 8;
/// Locks with a row.
const LOCKS: usize = 60;
/// Threads with a row.
const THREADS: usize = 40;
/// Tiles at the top.
const TILES: usize = 4;

/// One self-contained page. `timeline` is a section that stands between the worst calls and the
/// numbers, as it is.
///
/// # Errors
/// [`Error::Plot`] and [`Error::Template`], neither of which depends on the trace.
pub fn html(findings: &Findings<'_>, timeline: Option<String>) -> Result<String, Error> {
    let content = page(findings)?;
    let timeline = timeline.map(Value::from_safe_string);
    render("late.html", include_str!("page.html"), context! { timeline, ..content })
}

fn page(findings: &Findings<'_>) -> Result<Value, Error> {
    let survey = &findings.survey;
    let lists = findings.lists().into_iter().map(|(heading, list)| {
        let none = list.is_empty().then(|| worst::none(findings));
        let calls: Vec<Value> = list.into_iter().map(|late| of_worst(findings, late)).collect();
        context! { heading, calls, none }
    });
    let verdicts = advice::told(findings).into_iter().map(|told| {
        let fresh = told.fresh.into_iter().map(|remedy| pieces(remedy_words(remedy)));
        context! {
            title => told.advice.title,
            evidence => told.advice.evidence,
            worst => told.advice.worst,
            cost => told.advice.cost,
            others => told.first_of_others,
            remedies => fresh.collect::<Vec<_>>(),
            again => told.again,
            applied => told.advice.help.applied.as_deref(),
            command => told.command.map(|words| quoted(words.into_iter())),
        }
    });
    let shown = findings.main_patterns();
    let inks = What::ALL.map(|what| context! { name => what.words(), ink => cause_ink(what).name });
    Ok(context! {
        question => format!("Why was this {} late?", findings.one()),
        headline => sentence(&headline(findings)),
        beside => beside(findings),
        try_command => command(findings).map(|words| quoted(words.into_iter())),
        guard => findings.metadata.guard.as_ref().map(of_guard),
        about => about(findings),
        open_waits => open::sentences(findings),
        open_usual => open::is_usual(findings).then_some(open::USUAL),
        file => findings.file.as_str(),
        command => findings.metadata.command.join(" "),
        machine => machine(findings),
        tier => tier(survey.tier),
        duration => time(survey.duration_ns),
        records => count(survey.records),
        threads_count => survey.threads.len(),
        marks => unknown(findings),
        work => work(findings),
        tiles => tiles(findings),
        verdicts => verdicts.collect::<Vec<_>>(),
        nothing => advice::nothing(findings),
        graphs => late_graph::table(findings),
        lists => lists.collect::<Vec<_>>(),
        causes => inks.to_vec(),
        calls => call_rows(findings),
        distributions => distributions(findings)?,
        audit => findings.audit().into_iter().chain(given_up(findings)).collect::<Vec<_>>(),
        locks => lock_rows(findings),
        lock_plots => lock_plots(findings)?,
        patterns => patterns(findings)?,
        shared => pattern::legend(findings, &shown),
        locks_per_call => locks_per_call(findings),
        threads => threads(findings),
    })
}

/// Text, and in every second place what stood between backticks.
fn pieces(text: &str) -> Vec<&str> {
    text.split('`').collect()
}

/// A sentence of its own.
fn sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().map(char::to_uppercase).into_iter().flatten();
    format!("{}{}.", first.collect::<String>(), letters.as_str())
}

/// The colour of a cause: green is work, warm colours are other threads' doing.
pub(super) fn cause_ink(what: What) -> Ink {
    match what {
        What::Executing => SERIES[2],
        What::Lock => SERIES[1],
        What::HandOver => SERIES[4],
        What::Preempted => SERIES[0],
        What::WokenLate => SERIES[3],
        What::Signal => MUTED,
        What::Blocked => BOUND,
        What::QueueFull => LIMIT,
        What::Gpu => SERIES[6],
        What::GpuBeyond => SERIES[7],
        What::Unexplained => SERIES[5],
    }
}

fn machine(findings: &Findings<'_>) -> String {
    let machine = &findings.metadata.machine;
    let processors = counted(u64::from(machine.processors), "processor", "processors");
    let mut facts = vec![machine.processor.clone(), processors];
    facts.push(format!("Linux {}", machine.kernel));
    facts.extend(machine.gpu_driver.as_ref().map(|driver| format!("GPU driver {driver}")));
    facts.retain(|fact| !fact.is_empty() && fact != "Linux ");
    facts.join(", ")
}

/// The kinds of calls that matter most, at the top.
fn tiles(findings: &Findings<'_>) -> Vec<Value> {
    let Calls { listed, .. } = findings.calls();
    let shown = |kind: &CallKind| match findings.focus {
        Focus::Launches | Focus::All => kind.group != Group::Other,
        _ => findings.focus.asks(&findings.survey, kind),
    };
    let mut main: Vec<&CallKind> =
        listed.into_iter().filter(|kind| shown(kind) && kind.count > 0).collect();
    main.sort_by_key(|kind| std::cmp::Reverse(kind.count));
    main.truncate(TILES);
    main.sort_by_key(|kind| kind.group);
    let tile = |(at, kind): (usize, &CallKind)| {
        let row = calls::row(kind, findings.survey.contended_only);
        context! {
            ink => at % SERIES.len(),
            name => row.name,
            max => row.max,
            p50 => row.p50,
            p99 => row.p99,
            p99_9 => row.p99_9,
            count => counted(kind.count, "call", "calls"),
            waiting => row.waiting,
            locks => row.locks,
        }
    };
    main.into_iter().enumerate().map(tile).collect()
}

fn of_worst(findings: &Findings<'_>, late: Late<'_>) -> Value {
    let whole = late.call.duration_ns.max(1);
    let shares = shares(findings, late.explained);
    let bars = shares.iter().flat_map(|share| share.details.iter().map(move |d| (share, d)));
    let bars = bars.map(|(share, detail)| {
        let percent = 100.0 * detail.ns as f64 / whole as f64;
        let of = if share.details.len() > 1 { format!("{}: ", share.head) } else { String::new() };
        let title = format!("{}: {of}{}", time(detail.ns), detail.words);
        let (ink, off) = (cause_ink(detail.what).name, detail.kept_off);
        context! { ink, off, width => format!("{percent:.2}"), title }
    });
    let lines = worst::lines(findings, late).into_iter().map(|line| {
        context! {
            ink => cause_ink(line.what).name,
            detail => line.detail,
            time => line.time,
            percent => line.percent,
            words => line.words,
        }
    });
    context! {
        title => worst::title(findings, late),
        particulars => findings.particulars(late.call).join(", "),
        bars => bars.collect::<Vec<_>>(),
        lines => lines.collect::<Vec<_>>(),
    }
}

fn call_rows(findings: &Findings<'_>) -> Value {
    let Calls { listed, left_out } = findings.calls();
    let rows = listed.into_iter().map(|kind| {
        let row = calls::row(kind, findings.survey.contended_only);
        context! {
            name => row.name,
            group => row.group,
            count => row.count,
            p50 => row.p50,
            p99 => row.p99,
            p99_9 => row.p99_9,
            max => row.max,
            locks => row.locks,
            waiting => row.waiting,
            waits_much => row.waits_much,
            notes => row.notes,
        }
    });
    let more = counted(left_out as u64, "other kind of call", "other kinds of calls");
    context! { rows => rows.collect::<Vec<_>>(), left_out => (left_out > 0).then_some(more) }
}

/// Plots of the durations of calls, and of the time in them that is waiting for locks.
fn distributions(findings: &Findings<'_>) -> Result<Vec<Value>, Error> {
    let Calls { listed, .. } = findings.calls();
    let main = listed.into_iter().filter(|kind| kind.group != Group::Other && kind.count >= ENOUGH);
    let mut panels = Vec::new();
    for kind in main.take(PLOTS) {
        let curves = [
            ("calls", &kind.duration, SERIES[0]),
            ("waiting for locks", &kind.lock_wait, SERIES[1]),
        ];
        let curves = curves.map(|(name, of, ink)| Curve { name, of, whole: kind.count, ink });
        let name = kind_name(kind);
        let svg = panel(&name, &curves)?.map(Value::from_safe_string);
        panels.extend(svg.map(|svg| context! { name, svg, group => plural(kind.group) }));
    }
    Ok(panels)
}

fn lock_rows(findings: &Findings<'_>) -> Value {
    let notable = findings.notable_locks(LOCKS);
    let left_out = findings.survey.locks.len() - notable.len();
    let rows = notable.into_iter().map(|(_, lock)| {
        let uses = use_rows(lock).into_iter().map(use_value);
        context! {
            name => lock.name.as_str(),
            shared => findings.is_shared(lock).then(|| groups_words(&findings.groups_of(lock))),
            attributes => attributes(lock),
            address => format!("{:#x}", lock.address),
            takers => findings.takers(lock, usize::MAX),
            callers => callers(lock),
            uses => uses.collect::<Vec<_>>(),
        }
    });
    let more = counted(left_out as u64, "other lock", "other locks");
    context! { rows => rows.collect::<Vec<_>>(), left_out => (left_out > 0).then_some(more) }
}

fn use_value(row: UseRow) -> Value {
    context! {
        mode => row.mode,
        taken => row.taken,
        waited => row.waited,
        share => row.waited_share,
        wait => row.wait.to_vec(),
        hold => row.hold.to_vec(),
        contended => row.contended,
    }
}

/// Places in libraries that take a lock, three at most.
fn callers(lock: &Lock) -> String {
    let caller = |caller: &late::result::Caller| {
        let module = caller.module.as_deref().map(|file| file.rsplit('/').next().unwrap_or(file));
        format!("{}+{:#x}", module.unwrap_or("?"), caller.offset)
    };
    lock.callers.iter().take(3).map(caller).collect::<Vec<_>>().join(", ")
}

/// Plots of the times for which locks are waited for and held.
fn lock_plots(findings: &Findings<'_>) -> Result<Vec<Value>, Error> {
    let mut waited: Vec<(u32, &Lock)> = findings.notable_locks(usize::MAX);
    let waits = |lock: &Lock| lock.readers.wait.count + lock.others.wait.count;
    let most = waited.iter().map(|(_, lock)| waited_ns(lock)).max().unwrap_or(0);
    waited.retain(|(_, lock)| {
        let matters = waits(lock) >= ENOUGH || waited_ns(lock) >= most / 10;
        lock.family.held() && waited_ns(lock) > 0 && matters
    });
    waited.sort_by_key(|(place, lock)| (std::cmp::Reverse(waited_ns(lock)), *place));
    let mut panels = Vec::new();
    for (place, lock) in waited.into_iter().take(PLOTS) {
        for (mode, of) in [("for readers", &lock.readers), ("", &lock.others)] {
            let curves = [("held", &of.hold, SERIES[2]), ("waited for", &of.wait, SERIES[1])];
            let curves = curves.map(|(name, of, ink)| Curve { name, of, whole: 0, ink });
            let name = format!("{} {mode}", findings.lock(place));
            let svg = panel(&name, &curves)?.map(Value::from_safe_string);
            panels.extend(svg.map(|svg| context! { name => name.trim(), svg }));
        }
    }
    Ok(panels)
}

/// The patterns of the most frequent kinds of launches, copies and synchronisations.
fn patterns(findings: &Findings<'_>) -> Result<Vec<Value>, Error> {
    let groups = [(Group::Launch, 2), (Group::Copy, 3), (Group::Sync, 1)];
    let kinds = groups.into_iter().flat_map(|(group, most)| {
        let kinds = findings.patterned(group).into_iter().enumerate();
        let kinds = kinds.filter(|(at, kind)| *at == 0 || kind.patterns.calls >= ENOUGH);
        kinds.map(|(_, kind)| kind).take(most).collect::<Vec<_>>()
    });
    let mut pictures = Vec::new();
    for shown in kinds.filter_map(|kind| findings.pattern_of(kind)).take(PLOTS) {
        let svg = Value::from_safe_string(diagram::diagram(findings, &shown)?);
        pictures.push(context! {
            name => kind_name(shown.kind),
            about => shown.about.as_str(),
            svg,
        });
    }
    Ok(pictures)
}

fn locks_per_call(findings: &Findings<'_>) -> Vec<Value> {
    if findings.survey.contended_only {
        return Vec::new();
    }
    let rows = calls::locks_rows(findings).into_iter().map(|row| {
        context! {
            role => row.role,
            name => row.name,
            count => row.count,
            p50 => row.p50,
            max => row.max,
            mutex => row.mutex,
            read => row.read,
            write => row.write,
            other => row.other,
            nested => row.nested,
            share => row.share,
            patterns => row.patterns,
        }
    });
    rows.collect()
}

/// The threads that made calls or waited, those with the longest waits first.
fn threads(findings: &Findings<'_>) -> Value {
    let mut threads: Vec<(u32, &Thread)> = (0u32..).zip(&findings.survey.threads).collect();
    threads.sort_by_key(|(place, thread)| {
        (std::cmp::Reverse((thread.waited_ns, thread.in_calls_ns)), *place)
    });
    let left_out = threads.len().saturating_sub(THREADS);
    let rows = threads.into_iter().take(THREADS).map(|(place, thread)| {
        let wait = thread.processor_wait;
        context! {
            name => findings.thread(place),
            calls => count(thread.calls),
            in_calls => time(thread.in_calls_ns),
            waited => time(thread.waited_ns),
            locks => count(thread.acquisitions),
            processor => wait.map(|wait| time(wait.total_ns)),
            longest => wait.map(|wait| time(wait.longest_ns)),
        }
    });
    let more = counted(left_out as u64, "other thread", "other threads");
    context! { rows => rows.collect::<Vec<_>>(), left_out => (left_out > 0).then_some(more) }
}

//! The report for machines: one object that says all that the text says.
//!
//! `schema` is [`SCHEMA`] and `version` is [`SCHEMA_VERSION`], which grows when a key changes its
//! meaning or goes; keys may be added without that. All times are in nanoseconds and end in `_ns`;
//! `at_ns` counts from the start of the trace. Null stands where nothing is known.
//!
//! | key | what |
//! |---|---|
//! | `partial` | the part of the trace that an interrupted report is about; null: all of it |
//! | `headline`, `beside` | the answer in words, and what has to be said beside it |
//! | `command_to_try` | the command of Keeptime's that helps against the cause of the worst call; null: none |
//! | `file`, `command`, `outcome`, `machine`, `tier`, `settings` | where the trace came from |
//! | `duration_ns`, `records` | of the trace |
//! | `unknown`, `losses` | what is not known, in words and in numbers |
//! | `calls` | kinds of calls: `name`, `function`, `group`, `host`, `bytes_class`, `count`, `failed`, `captured`, `unknown`, `duration`, `lock_wait`, `waiting_share`, `locks_per_call`, `patterns` |
//! | `worst` | calls taken apart: `call`, `thread`, `at_ns`, `duration_ns`, `usual_ns`, `lateness_ns`, `parts`, `sums` |
//! | `worst[].parts` | what it spent its time with, the longest first; their `duration_ns` add up to the call's |
//! | `worst[].parts[].details` | what a part was in turn, which add up to it: `words`, `who` |
//! | `worst[].timeline` | the same in the order of time; without `from_ns` what was added up |
//! | `open_waits` | waits that did not end: `thread`, `lock`, `family`, `read`, `call`, `at_ns`, `until_end_ns`, `circle`, and `holders`, of which `waits` is a place in `open_waits` |
//! | `circles` | threads that wait for one another: places in `open_waits`, each one's holder is the next |
//! | `locks` | those in launches, the most waited for and the most taken, and all that the report refers to: `number`, `name`, `family`, `attributes`, `shared`, `takers`, `read`, `other` with `wait` and `hold`, and so on |
//! | `locks_left_out` | the others: `locks`, `acquisitions`, `contended` |
//! | `verdicts` | `verdict`, its numbers, `lock`, `asked` (calls that were asked for lost time by it), `severity_ns`, `calls` of the `looked_at` ones that lost `total_ns` by it, `worst`, `words`, `remedies` that were not applied, `command` of Keeptime's that applies some of them, `applied` already and what that brought |
//! | `sequences` | launches, copies and memory sets that repeat; what `verdicts` refer to |
//! | `graph_advice` | what CUDA graphs would save, an estimate: `sequences`, `own_graph_launch`, `share_of_kernels_in_graphs`, `cuts`, `forgotten` (sequences for which there was no room), `about` |
//! | `graph_advice.sequences` | those of at least 5 calls that came at least 10 times, the most to be saved first: `sequence` (its place in `sequences`), `thread`, `repeats`, `runs` (rows without anything between), `length`, `work` (calls by kind), `first_kernel`, `frequent_kernels`, `launching_ns` (median of one repetition), `mean_ns` (its mean), `replaced_ns` (median without copies of pageable memory), `waited_ns` (mean, for locks; a part of `mean_ns`), `locks` (mean; null where only contended ones were recorded), `graph_launch`, `saved_ns`, `saved_per_second_ns`, `default_stream`, `cuts`, `words` |
//! | `graph_advice...graph_launch` | `duration_ns`, `locks` (fewest, most), `nodes`, `source`: `measured` on an H200, or `trace` with the number of `launches` |
//! | `graph_advice...cuts` | calls that ended sequences, since no graph can contain them: `call`, `reason` (`wait`, `blocking`, `memory`, `code`, `callback`), `times` |
//! | `threads`, `launches`, `load`, `gpu` | as their names say |
//!
//! In `cause` and among the numbers of a verdict, a `call` or `kind`, `thread` and `sequence` that
//! is a number is a place in `calls`, `threads` and `sequences`; a `lock` is the `number` of one of
//! `locks`.
//!
//! A distribution has `count`, `total_ns`, `mean_ns`, `min_ns`, `p50_ns`, `p90_ns`, `p99_ns`,
//! `p99_9_ns`, `max_ns` and `buckets` (upper edge in nanoseconds, count). `p99_ns` is null for
//! fewer than 100 values, `p99_9_ns` for fewer than 1000, all of them for none.

use super::advice::{advice, repeated};
use super::calls::quantile;
use super::help::remedy_words;
use super::late_headline::{beside, command, headline, partial};
use super::name::{kind_name, task};
use super::share::{Detail, Share, shares};
use super::text::tier;
use super::unknown::unknown;
use super::{Findings, Late, late_graph, open};
use late::Distribution;
use late::Task;
use late::Verdict;
use late::result::{CallKind, Gpu, GpuWork, Instance, Lock, Pattern, Sequence, Tally, Thread, Use};
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use terminal::command_line::quoted;

/// Works on the GPU that are listed.
const WORKS: usize = 20;

/// Name of the object's format.
pub const SCHEMA: &str = "keeptime.late";
/// Version of what its keys mean.
pub const SCHEMA_VERSION: u32 = 1;

/// The whole report as one object; see this module.
pub fn json(findings: &Findings<'_>) -> Value {
    let (survey, metadata) = (&findings.survey, findings.metadata);
    let lists = findings.lists();
    let worst = lists.iter().flat_map(|(_, list)| list).map(|late| of_worst(findings, *late));
    let worst = Value::from_iter(worst);
    let verdicts = findings.judged().map(|verdict| of_verdict(findings, verdict));
    let verdicts = Value::from_iter(verdicts);
    let calls = survey.kinds.iter().map(|kind| of_kind(findings, kind));
    let calls = Value::from_iter(calls);
    let mut referred = Referred::default();
    let open_waits = json!(open::values(findings));
    for part in [&worst, &verdicts, &calls, &open_waits] {
        referred.add(part);
    }
    let (locks, left_out) = locks(findings, &referred);
    json!({
        "schema": SCHEMA,
        "version": SCHEMA_VERSION,
        "partial": partial(findings),
        "headline": headline(findings),
        "beside": beside(findings),
        "command_to_try": command(findings).map(|words| quoted(words.into_iter())),
        "file": findings.file,
        "command": metadata.command,
        "outcome": metadata.outcome,
        "machine": metadata.machine,
        "tier": tier(survey.tier),
        "tier_reasons": metadata.tier_reasons,
        "settings": metadata.settings,
        "guard": metadata.guard,
        "duration_ns": survey.duration_ns,
        "records": survey.records,
        "unknown": unknown(findings),
        "losses": survey.losses,
        "calls": calls,
        "worst": worst,
        "unfinished": survey.unfinished.iter().map(|open| json!({
            "call": findings.call(open.kind),
            "thread": of_thread_place(findings, open.thread),
            "at_ns": open.at_ns,
            "until_end_ns": open.until_end_ns,
        })).collect::<Vec<_>>(),
        "open_waits": open_waits,
        "circles": survey.circles,
        "audit": findings.audit(),
        "locks": locks,
        "locks_left_out": left_out,
        "forgotten_locks": survey.forgotten,
        "verdicts": verdicts,
        "sequences": survey.sequences.iter().map(|s| of_sequence(findings, s)).collect::<Vec<_>>(),
        "graph_advice": late_graph::value(findings),
        "threads": survey.threads.iter().map(of_thread).collect::<Vec<_>>(),
        "launches": survey.launches,
        "load": survey.load,
        "gpu": survey.gpu.as_ref().map(|gpu| json!({
            "kernels": durations(&gpu.kernels),
            "copies": durations(&gpu.copies),
            "memsets": durations(&gpu.memsets),
            "works": works(gpu),
            "users": &findings.metadata.machine.gpus,
        })),
    })
}

/// The works that took most of the time.
fn works(gpu: &Gpu) -> Value {
    let mut works: Vec<&GpuWork> = gpu.works.iter().collect();
    works.sort_by_key(|work| Reverse(work.durations.total));
    let value = |work: &&GpuWork| {
        json!({
            "kind": work.kind,
            "name": work.name,
            "bytes": work.bytes,
            "usual_ns": work.usual_ns,
            "durations": durations(&work.durations),
        })
    };
    works.iter().take(WORKS).map(value).collect()
}

/// The locks that are listed, and what the others come to.
fn locks(findings: &Findings<'_>, referred: &Referred) -> (Value, Value) {
    let locks = &findings.survey.locks;
    let count = |lock: &Lock, of: fn(&Use) -> u64| of(&lock.readers) + of(&lock.others);
    let mut order: Vec<usize> = (0..locks.len()).collect();
    order.sort_by_key(|place| {
        let lock = &locks[*place];
        let (contended, taken) = (count(lock, |u| u.contended), count(lock, |u| u.acquisitions));
        Reverse((referred.has(*place, lock), lock.in_launches, contended, taken))
    });
    let has = |place: &usize| referred.has(*place, &locks[*place]);
    let listed = findings.locks.max(order.iter().take_while(|place| has(place)).count());
    let (listed, others) = order.split_at_mut(listed.min(locks.len()));
    listed.sort_unstable();
    let listed = listed.iter().map(|place| of_lock(findings, *place, &locks[*place]));
    let sum = |of| others.iter().map(|place| count(&locks[*place], of)).sum::<u64>();
    let left_out = json!({
        "locks": others.len(),
        "acquisitions": sum(|usage| usage.acquisitions),
        "contended": sum(|usage| usage.contended),
    });
    (Value::from_iter(listed), left_out)
}

/// Locks that other parts of the report refer to.
#[derive(Default)]
struct Referred {
    numbers: BTreeSet<u64>,
    names: BTreeSet<String>,
}

impl Referred {
    fn add(&mut self, part: &Value) {
        match part {
            Value::Array(parts) => parts.iter().for_each(|part| self.add(part)),
            Value::Object(parts) => {
                match parts.get("lock") {
                    Some(Value::String(name)) => _ = self.names.insert(name.clone()),
                    Some(Value::Number(number)) => self.numbers.extend(number.as_u64()),
                    _ => {}
                }
                parts.values().for_each(|part| self.add(part));
            }
            _ => {}
        }
    }

    fn has(&self, place: usize, lock: &Lock) -> bool {
        self.numbers.contains(&(place as u64)) || self.names.contains(&lock.name)
    }
}

/// Times. Quantiles of too few values are null, since they would be the maximum.
fn durations(of: &Distribution) -> Value {
    let some = |value: u64| quantile(of, value, 1);
    json!({
        "count": of.count,
        "total_ns": of.total,
        "mean_ns": some(of.mean),
        "min_ns": some(of.min),
        "p50_ns": some(of.p50),
        "p90_ns": some(of.p90),
        "p99_ns": quantile(of, of.p99, 100),
        "p99_9_ns": quantile(of, of.p99_9, 1_000),
        "max_ns": some(of.max),
        "buckets": of.buckets,
    })
}

/// Numbers of things.
fn numbers(of: &Distribution) -> Value {
    let some = |value: u64| quantile(of, value, 1);
    json!({
        "count": of.count,
        "mean": some(of.mean),
        "min": some(of.min),
        "p50": some(of.p50),
        "p99": quantile(of, of.p99, 100),
        "max": some(of.max),
    })
}

fn of_kind(findings: &Findings<'_>, kind: &CallKind) -> Value {
    let (waited, all) = (kind.lock_wait.total, kind.duration.total);
    json!({
        "name": kind_name(kind),
        "function": kind.function,
        "group": kind.group,
        "direction": kind.direction,
        "host": kind.host,
        "host_memory": kind.host,
        "bytes_class": kind.bytes_class,
        "bytes": kind.bytes,
        "count": kind.count,
        "failed": kind.failed,
        "captured": kind.captured,
        "unknown": kind.unknown,
        "duration": durations(&kind.duration),
        "lock_wait": durations(&kind.lock_wait),
        "waiting_share": if all == 0 { None } else { Some(waited as f64 / all as f64) },
        "locks_per_call": numbers(&kind.locks_per_call),
        "patterns": {
            "calls": kind.patterns.calls,
            "distinct": kind.patterns.distinct,
            "distinct_is_least": kind.patterns.distinct_is_least,
            "too_long": kind.patterns.too_long,
            "most_frequent": kind.patterns.most_frequent.iter()
                .map(|pattern| of_pattern(findings, pattern)).collect::<Vec<_>>(),
        },
    })
}

fn of_pattern(findings: &Findings<'_>, pattern: &Pattern) -> Value {
    let steps = pattern.steps.iter().map(|step| {
        json!({
            "lock": findings.lock_name(step.lock),
            "read": step.read,
            "acquired": step.acquired,
            "depth": step.depth,
            "at_ns": step.median_ns,
        })
    });
    json!({ "count": pattern.count, "steps": steps.collect::<Vec<_>>() })
}

fn of_worst(findings: &Findings<'_>, late: Late<'_>) -> Value {
    let Late { call, explained } = late;
    let shares = shares(findings, explained);
    let timeline = explained.parts.iter().map(|part| {
        json!({
            "from_ns": part.from_ns,
            "duration_ns": part.duration_ns,
            "times": part.times,
            "cause": part.cause,
        })
    });
    json!({
        "call": findings.call(call.kind),
        "symbol": call.symbol,
        "thread": of_thread_place(findings, call.thread),
        "at_ns": call.at_ns,
        "duration_ns": call.duration_ns,
        "usual_ns": call.usual_ns,
        "lateness_ns": call.lateness_ns,
        "lock_wait_ns": call.lock_wait_ns,
        "locks": call.locks,
        "handle": format!("{:#x}", call.handle),
        "kernel": call.kernel,
        "particulars": findings.particulars(call),
        "result": call.result,
        "captured": call.captured,
        "outstanding": call.outstanding,
        "parts": shares.iter().map(|share| of_share(findings, share)).collect::<Vec<_>>(),
        "sums": explained.sums,
        "timeline": timeline.collect::<Vec<_>>(),
    })
}

fn of_share(findings: &Findings<'_>, share: &Share) -> Value {
    json!({
        "what": share.what,
        "words": share.words,
        "duration_ns": share.ns,
        "times": share.times,
        "lock": share.lock.map(|lock| findings.lock_name(Some(lock))),
        "details": share.details.iter().map(of_detail).collect::<Vec<_>>(),
    })
}

fn of_detail(detail: &Detail) -> Value {
    let who = detail.who.iter().map(|(who, ns)| {
        let mut value = of_task(who);
        value["duration_ns"] = json!(ns);
        value
    });
    json!({
        "what": detail.what,
        "words": detail.words,
        "duration_ns": detail.ns,
        "times": detail.times,
        "who": who.collect::<Vec<_>>(),
    })
}

fn of_task(who: &Task) -> Value {
    json!({ "tid": who.tid, "name": who.name, "priority": who.priority, "words": task(who) })
}

fn of_thread_place(findings: &Findings<'_>, place: u32) -> Value {
    let thread = findings.survey.threads.get(place as usize);
    thread.map_or(Value::Null, |thread| json!({ "tid": thread.tid, "name": thread.name }))
}

fn of_thread(thread: &Thread) -> Value {
    json!({
        "tid": thread.tid,
        "name": thread.name,
        "pid": thread.pid,
        "priority": thread.priority,
        "first_at_ns": thread.first_at_ns,
        "last_at_ns": thread.last_at_ns,
        "calls": thread.calls,
        "in_calls_ns": thread.in_calls_ns,
        "waited_ns": thread.waited_ns,
        "acquisitions": thread.acquisitions,
        "processor_wait": thread.processor_wait,
        "unknown_ns": thread.unknown_ns,
    })
}

fn of_lock(findings: &Findings<'_>, number: usize, lock: &Lock) -> Value {
    let takers = lock.kinds.iter().map(
        |(kind, times)| json!({ "call": kind.map(|kind| findings.call(kind)), "times": times }),
    );
    let tally = |tally: &Tally| json!({ "count": tally.count, "worst": of_instance(findings, tally.worst.as_ref()) });
    json!({
        "number": number,
        "name": lock.name,
        "family": lock.family,
        "process": lock.process,
        "address": format!("{:#x}", lock.address),
        "generation": lock.generation,
        "attributes": lock.attributes,
        "in_launches": lock.in_launches,
        "shared": findings.is_shared(lock),
        "takers": takers.collect::<Vec<_>>(),
        "callers": lock.callers,
        "read": of_use(findings, &lock.readers),
        "other": of_use(findings, &lock.others),
        "relock": durations(&lock.relock),
        "busy": lock.busy,
        "gave_up": lock.gave_up,
        "timed_out": lock.timed_out,
        "in_vain": durations(&lock.in_vain),
        "longest_in_vain": of_instance(findings, lock.longest_in_vain.as_ref()),
        "handed_over": lock.handed_over,
        "signals": lock.signals,
        "queue": numbers(&lock.queue),
        "got_meanwhile": numbers(&lock.got_meanwhile),
        "overtaken": tally(&lock.overtaken),
        "reacquired": tally(&lock.reacquired),
        "starved_readers": tally(&lock.starved_readers),
        "starved_writers": tally(&lock.starved_writers),
        "barged": lock.barged,
        "longest_blocking": of_instance(findings, lock.longest_blocking.as_ref()),
        "unknown_waits": lock.unknown_waits,
        "unknown_holds": lock.unknown_holds,
    })
}

fn of_use(findings: &Findings<'_>, of: &Use) -> Value {
    json!({
        "acquisitions": of.acquisitions,
        "contended": of.contended,
        "wait": durations(&of.wait),
        "hold": durations(&of.hold),
        "longest_wait": of_instance(findings, of.longest_wait.as_ref()),
        "longest_hold": of_instance(findings, of.longest_hold.as_ref()),
    })
}

fn of_instance(findings: &Findings<'_>, instance: Option<&Instance>) -> Value {
    instance.map_or(Value::Null, |instance| {
        json!({
            "at_ns": instance.at_ns,
            "duration_ns": instance.duration_ns,
            "thread": of_thread_place(findings, instance.thread),
            "call": instance.kind.map(|kind| findings.call(kind)),
            "owner_tid": instance.owner_tid,
            "others": instance.others,
        })
    })
}

/// A verdict with its numbers, which are named as in [`late::Evidence`].
fn of_verdict(findings: &Findings<'_>, verdict: &Verdict) -> Value {
    let advice = advice(findings, verdict);
    let worst = verdict.worst.as_ref().map(|worst| {
        json!({
            "at_ns": worst.at_ns,
            "duration_ns": worst.duration_ns,
            "lost_ns": worst.lost_ns,
            "thread": of_thread_place(findings, worst.thread),
            "call": worst.kind.map(|kind| findings.call(kind)),
        })
    });
    let open = advice.help.open.iter();
    let remedies = open.map(|remedy| json!({ "remedy": remedy, "words": remedy_words(*remedy) }));
    let mut value = json!(verdict.evidence);
    value["lock"] = json!(verdict.lock.map(|lock| findings.lock_name(Some(lock))));
    value["asked"] = json!(verdict.asked);
    value["severity_ns"] = json!(verdict.severity_ns);
    value["calls"] = json!(verdict.lost.calls.len());
    value["looked_at"] = json!(verdict.lost.looked_at);
    value["total_ns"] = json!(verdict.lost.total_ns());
    value["worst"] = json!(worst);
    value["title"] = json!(advice.title);
    value["words"] = json!(advice.evidence);
    value["remedies"] = remedies.collect::<Vec<_>>().into();
    value["command"] = json!(advice.help.command_line());
    value["applied"] = json!(advice.help.applied);
    value
}

fn of_sequence(findings: &Findings<'_>, sequence: &Sequence) -> Value {
    let calls = sequence.calls.iter().map(
        |(kind, detail)| json!({ "call": findings.call(*kind), "detail": format!("{detail:#x}") }),
    );
    json!({
        "thread": of_thread_place(findings, sequence.thread),
        "length": sequence.length,
        "repeats": sequence.repeats,
        "calls": calls.collect::<Vec<_>>(),
        "kernels": sequence.kernels,
        "launching_ns": sequence.launching_ns,
        "mean_ns": sequence.mean_ns,
        "locks": sequence.locks,
        "estimated_saving_ns": sequence.estimated_saving_ns,
        "words": repeated(findings, sequence),
    })
}

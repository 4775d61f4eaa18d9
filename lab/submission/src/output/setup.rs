//! Setup of a study: the machine, the protocol, the methods, and the limits of all results.

use super::Machine;
use super::contender::{contenders, shapes};
use super::unit::{count, list, shape as size, time};
use crate::Method;
use crate::measure::Wait;
use crate::study::Study;
use serde::Serialize;

/// A name and a value.
#[derive(Serialize)]
pub(super) struct Fact {
    name: &'static str,
    value: String,
}

/// A method that took part.
#[derive(Serialize)]
pub(super) struct MethodRow {
    name: &'static str,
    on: String,
    description: &'static str,
}

/// Something that could not be measured.
#[derive(Serialize)]
pub(super) struct Gap {
    name: String,
    at: String,
    why: String,
}

/// The machine.
pub(super) fn machine(machine: &Machine) -> Vec<Fact> {
    let cores = count(machine.cores, "core");
    let kind = if machine.is_virtual { ", virtual" } else { "" };
    let clock = machine.clock_source.clone().unwrap_or_else(|| "unknown".into());
    let facts = [
        ("Host", machine.host.clone()),
        ("Processor", format!("{}, {cores}{kind}", machine.processor)),
        ("Kernel", format!("Linux {}", machine.kernel)),
        ("Clock", format!("CLOCK_MONOTONIC, clock source {clock}")),
        ("Date", machine.date.clone()),
        ("Command", machine.command.clone()),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(name, value)| Fact { name, value }).collect()
}

/// The protocol, in sentences.
pub(super) fn protocol(study: &Study, machine: &Machine) -> Vec<String> {
    let plan = &study.plan;
    let numbers = |all: &[usize]| list(&all.iter().map(usize::to_string).collect::<Vec<_>>());
    let wait = match plan.protocol.wait {
        Wait::Poll => "asks for the end without a pause",
        Wait::Block => "sleeps until the end, as far as the interface can sleep",
    };
    let core = match machine.core {
        Some(core) => format!("kept on core {core}"),
        None => "free to run on any core".into(),
    };
    let priority = match machine.priority {
        Some(priority) => format!("at SCHED_FIFO priority {priority}"),
        None => "at the ordinary priority, as a real-time one was refused or not asked for".into(),
    };
    vec![
        format!(
            "A network of l layers is submitted again and again; a layer is three kernels (a \
             matrix product, a convolution and an activation) over square matrices of side 16 k. \
             Here k is {} and l is {}. Each submission uploads four matrices, computes all layers \
             and downloads two.",
            numbers(&plan.k),
            numbers(&plan.l)
        ),
        "Two times are taken of each repetition, for every method at the same two points and by the \
         same clock: the submission, from before the first call until all is handed over, and the \
         completion, from the same beginning until the thread knows that the outputs are in its \
         memory."
            .into(),
        format!(
            "Each case has {} that do not count and then up to {} that do; after {} no further one \
             begins. The 99th percentile is the nearest-rank one, of fewer than 100 repetitions the \
             longest; jitter is the longest less the shortest. What is built once is counted apart.",
            count(plan.protocol.warm_up as usize, "repetition"),
            plan.protocol.repetitions,
            time(plan.protocol.limit_ns as f64)
        ),
        format!("The measuring thread is {core}, {priority}; it {wait}."),
        "All methods are measured one after the other at each size, so that they meet the same \
         machine, and each one's result is compared with the processor's, in double precision."
            .into(),
    ]
}

/// The methods that took part.
pub(super) fn methods(study: &Study) -> Vec<MethodRow> {
    let contenders = contenders(study);
    let row = |method: Method| {
        let on = contenders.iter().filter(|one| one.method == method);
        let on: Vec<String> =
            on.map(|one| study.accelerators[one.accelerator].id.clone()).collect();
        let (name, description) = (method.name(), method.description());
        (!on.is_empty()).then(|| MethodRow { name, on: list(&on), description })
    };
    Method::ALL.into_iter().filter_map(row).collect()
}

/// Methods and sizes that could not be measured, with the reasons.
pub(super) fn gaps(study: &Study) -> Vec<Gap> {
    let gap = |one: &crate::study::Missing| Gap {
        name: study.contender(one.accelerator, one.method),
        at: one.shape.map_or("all sizes".into(), size),
        why: one.why.clone(),
    };
    study.missing.iter().map(gap).collect()
}

/// Limits of the results.
pub(super) fn limits(study: &Study, machine: &Machine) -> Vec<String> {
    let mut limits = machine.marks.clone();
    if machine.is_virtual {
        limits.push("The machine is virtual: a hypervisor can stop its cores at any time.".into());
    }
    if machine.priority.is_none() {
        limits.push(
            "The measuring thread had no real-time priority: other threads delay it, which shows in \
             the 99th percentiles and the jitter."
                .into(),
        );
    }
    let counted =
        |case: &crate::study::Case| case.samples.iter().filter(|sample| !sample.warm_up).count();
    let wanted = study.plan.protocol.repetitions as usize;
    let short = study.cases.iter().filter(|case| counted(case) < wanted).count();
    if short > 0 {
        let cases = count(short, "case");
        limits.push(format!("The time limit cut {cases} short of {wanted} repetitions."));
    }
    if study.cases.iter().any(|case| counted(case) < 100) {
        limits.push(
            "Cases of fewer than 100 repetitions have no 99th percentile of their own: it is the \
             longest time."
                .into(),
        );
    }
    if study.accelerators.len() == 1 && shapes(study).len() < 2 {
        limits.push("One accelerator and one size say nothing about others.".into());
    }
    limits.push(
        "Submissions do not overlap: each one begins after the end of the one before. A program \
         that keeps several in flight hides some of these times."
            .into(),
    );
    limits
}

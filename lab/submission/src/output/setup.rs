//! Setup of a study: the machine, the protocol, the methods, and the limits of all results.

use super::Machine;
use super::contender::{contenders, shapes};
use super::unit::{count, shape as size, time};
use crate::measure::Wait;
use crate::study::Study;
use crate::{About, Method};
use report::document::{Fact, Table, facts};
use report::number::listed;

/// The machine.
pub(super) fn machine(study: &Study, machine: &Machine) -> Vec<Fact> {
    let cores = count(machine.cores, "core");
    let kind = if machine.is_virtual { ", virtual" } else { "" };
    let clock = machine.clock_source.as_deref().unwrap_or("unknown");
    let mut facts = facts([
        ("Host", &machine.host),
        ("Processor", &format!("{}, {cores}{kind}", machine.processor)),
        ("Kernel", &format!("Linux {}", machine.kernel)),
        ("Clock", &format!("CLOCK_MONOTONIC, clock source {clock}")),
    ]);
    let device = |one: &About| (one.id.clone(), format!("{}, {}", one.name, one.driver));
    facts.extend(study.accelerators.iter().map(device));
    facts
}

/// The protocol, in sentences.
pub(super) fn protocol(study: &Study, machine: &Machine) -> Vec<String> {
    let plan = &study.plan;
    let numbers = |all: &[usize]| listed(&all.iter().map(usize::to_string).collect::<Vec<_>>());
    let wait = match plan.protocol.wait {
        Wait::Poll => "polls for the end without a pause",
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
pub(super) fn methods(study: &Study) -> Table {
    let contenders = contenders(study);
    let row = |method: Method| {
        let on = contenders.iter().filter(|one| one.method == method);
        let on: Vec<String> =
            on.map(|one| study.accelerators[one.accelerator].id.clone()).collect();
        (!on.is_empty())
            .then(|| [method.name().to_owned(), listed(&on), method.description().to_owned()])
    };
    let rows = Method::ALL.into_iter().filter_map(row);
    Table::new("Methods", ["method", "on", "content and time of the submission"], rows)
        .left(&[1, 2])
}

/// Methods and sizes that could not be measured, with the reasons; none where all could be.
pub(super) fn gaps(study: &Study) -> Option<Table> {
    let row = |one: &crate::study::Missing| {
        let name = study.contender(one.accelerator, one.method);
        [name, one.shape.map_or("all sizes".into(), size), one.why.clone()]
    };
    let rows = study.missing.iter().map(row);
    let table = || Table::new("Not measured", ["method", "at", "why"], rows).left(&[1, 2]);
    (!study.missing.is_empty()).then(table)
}

/// Limits of the results.
pub(super) fn limits(study: &Study, machine: &Machine) -> Vec<String> {
    let mut limits = Vec::new();
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

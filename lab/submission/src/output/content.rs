//! Content of the page and the paper.

use super::Machine;
use super::claim::{Claim, claims};
use super::contender::contenders;
use super::figure::{Figure, Kind};
use super::setup::{self, Fact, Gap, MethodRow};
use super::tables::{self, Table};
use super::words::Words;
use crate::About;
use crate::study::Study;
use crate::summary::Time;
use serde::Serialize;

/// Content of the page and the paper, in order.
#[derive(Serialize)]
pub(super) struct Content<'s> {
    title: &'static str,
    summary: Vec<String>,
    date: String,
    machine: Vec<Fact>,
    devices: &'s [About],
    protocol: Vec<String>,
    methods: Vec<MethodRow>,
    results: Vec<Section>,
    claims: Vec<Claim>,
    right: String,
    gaps: Vec<Gap>,
    marks: Vec<String>,
    limits: Vec<String>,
    cases: Table,
}

/// A part of the results.
#[derive(Serialize)]
struct Section {
    title: &'static str,
    sentences: Vec<String>,
    figures: Vec<Shown>,
    tables: Vec<Table>,
}

/// A figure by its file.
#[derive(Serialize)]
struct Shown {
    file: String,
    caption: String,
}

impl<'s> Content<'s> {
    pub(super) fn new(study: &'s Study, machine: &Machine, figures: &[Figure]) -> Content<'s> {
        let contenders = contenders(study);
        let words = Words::new(study, &contenders);
        let claims = claims(study);
        let section = |title, kinds: &[Kind], sentences, tables: Vec<Option<Table>>| Section {
            title,
            sentences,
            figures: figures
                .iter()
                .filter(|figure| kinds.contains(&figure.kind))
                .map(|one| Shown { file: one.file.clone(), caption: one.caption.clone() })
                .collect(),
            tables: tables.into_iter().flatten().collect(),
        };
        let of_time = |time| vec![tables::of_time(study, time)];
        let mut completion = of_time(Time::Completion);
        completion.push(tables::of_gains(study));
        let results = vec![
            section(
                "Submission",
                &[Kind::Submission],
                words.time(Time::Submission),
                of_time(Time::Submission),
            ),
            section(
                "Completion",
                &[Kind::Completion, Kind::SpeedUp],
                words.time(Time::Completion),
                completion,
            ),
            section("Jitter", &[Kind::Jitter], words.jitter(), Vec::new()),
            section(
                "What is done once",
                &[Kind::Once],
                words.once(),
                vec![tables::of_steps(study)],
            ),
            section("Warm-up", &[Kind::WarmUp], words.warm_up(), Vec::new()),
        ];
        Content {
            title: "What it costs to hand work to an accelerator",
            summary: words.summary(&claims, &machine.processor),
            date: machine.date.clone(),
            machine: setup::machine(machine),
            devices: &study.accelerators,
            protocol: setup::protocol(study, machine),
            methods: setup::methods(study),
            results,
            right: words.right(),
            claims,
            gaps: setup::gaps(study),
            marks: machine.marks.clone(),
            limits: setup::limits(study, machine),
            cases: tables::of_cases(study),
        }
    }
}

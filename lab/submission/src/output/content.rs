//! The study as people read it.

use super::Machine;
use super::claim::{self, claims};
use super::contender::{contenders, shapes};
use super::figures::{self, Figure};
use super::setup;
use super::tables;
use super::words::Words;
use crate::study::Study;
use crate::summary::Time;
use report::document::{Document, Section, Table};

/// The document, and the figures of its sections by their titles.
pub(super) struct Content {
    pub(super) document: Document,
    pub(super) figures: Vec<(String, Figure)>,
}

/// Content of a study's report.
pub(super) fn content(study: &Study, machine: &Machine) -> Content {
    let contenders = contenders(study);
    let words = Words::new(study, &contenders);
    let claims = claims(study);
    let section = |title: &str, sentences: &[String], tables: Vec<Option<Table>>| {
        let section = Section::new(title, sentences.join(" "));
        tables.into_iter().flatten().fold(section, Section::table)
    };
    let mut sections = vec![section(
        "Set-up",
        &setup::protocol(study, machine),
        vec![Some(setup::methods(study))],
    )];
    let mut shown = Vec::new();
    let mut results = |title: &str, sentences: Vec<String>, tables, figures: Vec<Figure>| {
        let charts = figures.iter().flat_map(|figure| figure.charts.clone()).collect();
        let captions = figures.iter().map(|figure| figure.caption.clone());
        let sentences: Vec<String> = sentences.into_iter().chain(captions).collect();
        sections.push(Section { charts, ..section(title, &sentences, tables) });
        shown.extend(figures.into_iter().map(|figure| (title.to_owned(), figure)));
    };
    let at_sizes = |time| tables::of_time(study, time);
    results(
        "Submission",
        words.time(Time::Submission),
        vec![at_sizes(Time::Submission)],
        vec![figures::over_depth(study, Time::Submission)],
    );
    results(
        "Completion",
        words.time(Time::Completion),
        vec![at_sizes(Time::Completion), tables::of_gains(study)],
        vec![figures::over_depth(study, Time::Completion), figures::speed_up(study)],
    );
    results("Jitter", words.jitter(), Vec::new(), vec![figures::jitter(study)]);
    let steps = vec![tables::of_steps(study)];
    results("One-time costs", words.once(), steps, vec![figures::once(study)]);
    results("Warm-up", words.warm_up(), Vec::new(), vec![figures::warm_up(study)]);
    let about = "Cavicchioli, Capodieci, Solieri and Bertogna, DARTS 5.1.4 (2019), on a Jetson AGX \
                 Xavier. The criteria were fixed before anything was measured; what is not even in \
                 part confirmed is refuted.";
    let mut limits = vec![words.right()];
    limits.extend(setup::limits(study, machine));
    let of_sizes = shapes(study).into_iter().map(|shape| Some(tables::of_size(study, shape)));
    sections.extend([
        section(
            "Comparison with the published study",
            &[about.to_owned()],
            vec![Some(claim::table(&claims))],
        ),
        section("Correctness and limits", &limits, vec![setup::gaps(study)]),
        section(
            "All numbers",
            &["Every repetition is in samples.parquet, every case in cases.json.".to_owned()],
            of_sizes.collect(),
        ),
    ]);
    let document = Document {
        kind: "keeptime-lab bench submission".into(),
        title: "Cost of submitting work to an accelerator".into(),
        conclusion: words.summary(&claims, &machine.processor),
        command: machine.command.clone(),
        date: machine.date.clone(),
        facts: setup::machine(study, machine),
        marks: machine.marks.clone(),
        sections,
        ..Document::default()
    };
    Content { document, figures: shown }
}

//! Latencies, and what each mechanism does for them (COLA, figures 13a to c, e and g).

use super::sample::{Sample, Statistic};
use super::{Findings, Found, Limit, cell, demand, stacks};
use crate::result::Demand;
use crate::statistics::bootstrap;
use crate::{Experiment, Interval, Part, Row, Times};
use report::document::{Chart, Section, Series, Shape, Table};

pub(super) fn found(findings: &Findings) -> Found {
    // The experiment of its own, or whatever else was driven.
    let order = [Experiment::Latency, Experiment::Normal, Experiment::Corner, Experiment::Confirm];
    let part = order.into_iter().find_map(|experiment| findings.part(experiment));
    let mut demands = Vec::new();
    for (stack, _) in stacks(findings.study, 0.0, 0.0) {
        demands.extend(of_stack(&Measured { findings, part, stack }));
    }
    let section = part.map(|part| section(findings, part));
    (demands, section)
}

/// The drives of a stack.
struct Measured<'a> {
    findings: &'a Findings<'a>,
    part: Option<&'a Part>,
    stack: &'a str,
}

impl<'a> Measured<'a> {
    fn pairs(&self, policy: &str) -> Vec<[&'a Row; 2]> {
        let together = |part| self.findings.drives.together(part, self.stack, ["base", policy]);
        self.part.map(together).unwrap_or_default()
    }

    /// A statistic of durations with base, and with a policy, in one number.
    fn compare(
        &self,
        policy: &str,
        name: &str,
        statistic: Statistic,
        number: fn(f64, f64) -> f64,
    ) -> Option<Interval> {
        let sample_of = |row: &Row| row.times.get(name).map(Sample::new).unwrap_or_default();
        let pairs: Vec<[Sample; 2]> =
            self.pairs(policy).iter().map(|pair| pair.map(sample_of)).collect();
        bootstrap(&pairs, |drawn| {
            let statistic_of = |place: usize| statistic.of(drawn.iter().map(|pair| &pair[place]));
            let (base, other) = (statistic_of(0)?, statistic_of(1)?);
            (base.min(other) > 0.0).then(|| number(base, other))
        })
    }
}

fn merged<'a>(times: impl Iterator<Item = &'a Times>) -> Times {
    times.fold(Times::default(), |mut all, times| {
        all.merge(times);
        all
    })
}

fn times_better(base: f64, other: f64) -> f64 {
    base / other
}

fn percent_less(base: f64, other: f64) -> f64 {
    100.0 * (1.0 - other / base)
}

fn percent_more(base: f64, other: f64) -> f64 {
    100.0 * (other / base - 1.0)
}

fn of_stack(measured: &Measured) -> Vec<Demand> {
    let stack = measured.stack;
    let (worst, mean) = if stack == "a" { (1.64, 1.41) } else { (1.32, 1.23) };
    let one = |what: &str, found, limit: Limit, unit: &str, note: &str| {
        demand(what, stack, found, (limit, unit), note.to_owned())
    };
    let frames = |statistic| measured.compare("all", "frames", statistic, times_better);
    let whole = utilisation(measured, |row| (row.busy_s, row.driven_s));
    let whole = format!(
        "While a run of segmentation or prediction is under way, the only time in which work can \
         be stolen. Over the whole drive: {}.",
        cell(whole, "%")
    );
    let tails = frames(Statistic::Tail)
        .map_or(String::new(), |found| format!("p99.9: {:.2} times.", found.value));
    vec![
        one(
            "Frame to command, longest: better",
            frames(Statistic::Longest),
            Limit::Least(worst),
            "times",
            &tails,
        ),
        one(
            "Frame to command, mean: better",
            frames(Statistic::Mean),
            Limit::Least(mean),
            "times",
            "",
        ),
        one(
            "Frames on the fast path that miss 125 ms",
            missed(measured),
            Limit::Most(0.1),
            "%",
            &format!(
                "Eligible: frames for which a module took its fast path. {}",
                lost_in_perception(measured)
            ),
        ),
        one(
            "Proactive processing: prediction's mean time better",
            measured.compare("proactive", "prediction", Statistic::Mean, times_better),
            Limit::Least(1.7),
            "times",
            "",
        ),
        one(
            "Work stealing: the guest's mean latency better",
            measured.compare("stealing", "guest", Statistic::Mean, percent_less),
            Limit::Least(7.8),
            "%",
            "The guest: segmentation.",
        ),
        one(
            "Work stealing: utilisation higher",
            utilisation(measured, |row| (row.sends_busy_s, row.sends_s)),
            Limit::Least(15.0),
            "%",
            &whole,
        ),
        one(
            "Work stealing: hosts' p99.9 longer",
            measured.compare("stealing", "hosts", Statistic::Tail, percent_more),
            Limit::Most(1.0),
            "%",
            "",
        ),
        one(
            "Work stealing: hosts that had to wait for a guest",
            violations(measured),
            Limit::Most(0.0),
            "",
            "Only where guests were admitted; the table has their number.",
        ),
    ]
}

fn missed(measured: &Measured) -> Option<Interval> {
    let pairs = measured.pairs("all");
    share(pairs.iter().map(|pair| (pair[1].late_fast, pair[1].count("frames_fast"))))
}

/// The frames among those that missed which no path could have saved.
fn lost_in_perception(measured: &Measured) -> String {
    let pairs = measured.pairs("all");
    let lost: usize = pairs.iter().map(|pair| pair[1].late_perception).sum();
    let all: u64 = pairs.iter().map(|pair| pair[1].count("frames_fast")).sum();
    let share = 100.0 * lost as f64 / all.max(1) as f64;
    format!(
        "For {lost} of them, {share:.3} %, perception alone, which has no fast path, left too \
         little time."
    )
}

/// Returns the share of some that are of a kind, %, from their numbers in each scenario.
pub(super) fn share(scenarios: impl Iterator<Item = (usize, u64)>) -> Option<Interval> {
    let scenarios: Vec<(usize, u64)> = scenarios.collect();
    bootstrap(&scenarios, |drawn| {
        let all: u64 = drawn.iter().map(|scenario| scenario.1).sum();
        let some: usize = drawn.iter().map(|scenario| scenario.0).sum();
        (all > 0).then(|| 100.0 * some as f64 / all as f64)
    })
}

/// Returns the increase of the cores' use by work stealing, %, from the times that they computed
/// and that passed.
fn utilisation(measured: &Measured, of: fn(&Row) -> (f64, f64)) -> Option<Interval> {
    bootstrap(&measured.pairs("stealing"), |drawn| {
        let busy_share = |place: usize| busy(drawn.iter().map(|pair| pair[place]), of);
        Some(percent_more(busy_share(0)?, busy_share(1)?))
    })
}

/// The share of their time that all cores computed; none without time.
fn busy<'a>(rows: impl Iterator<Item = &'a Row>, of: impl Fn(&Row) -> (f64, f64)) -> Option<f64> {
    let (busy, cores) = rows.fold((0.0, 0.0), |(busy, cores), row| {
        let (computed_s, passed_s) = of(row);
        (busy + computed_s, cores + passed_s * row.cores as f64)
    });
    (cores > 0.0).then(|| busy / cores)
}

/// None if no guest was admitted: then no host could have waited for one.
fn violations(measured: &Measured) -> Option<Interval> {
    let pairs = measured.pairs("stealing");
    let sum = |count: fn(&Row) -> u64| pairs.iter().map(|pair| count(pair[1])).sum::<u64>();
    let count = sum(|row| row.host_violations) as f64;
    (sum(|row| row.guests) > 0).then_some(Interval { value: count, low: count, high: count })
}

fn section(findings: &Findings, part: &Part) -> Section {
    let mut section = Section {
        title: "Latency (figures 13a to c, e and g)".to_owned(),
        about: format!(
            "From a frame's capture to the first command that takes it into account, of the \
             scenarios of the experiment {}. Fast: frames for which a module took its fast path.",
            part.experiment.name()
        ),
        ..Section::default()
    };
    for stack in &findings.study.stacks {
        let merged_times = |policy: &str, name: &str| {
            let rows = findings.drives.scenarios(part, stack, &[policy]);
            let all: Vec<Times> = rows.iter().flatten().map(|row| row.times(name)).collect();
            merged(all.iter())
        };
        let plot = |title: &str, series: [Series; 2]| {
            let title = format!("{title}, stack {}", stack.to_uppercase());
            Chart::new(title, ("time, ms", "cumulative share, %"), Shape::Distribution, series)
        };
        let frames =
            ["base", "all"].map(|policy| distribution(policy, &merged_times(policy, "frames")));
        section.charts.push(plot("Frame to command", frames));
        let paths = [("fast", "frames_fast"), ("normal", "frames_normal")];
        let paths = paths.map(|(name, times)| distribution(name, &merged_times("all", times)));
        section.charts.push(plot("Fast and normal frames of all", paths));
        let runs = ["base", "proactive"]
            .map(|policy| distribution(policy, &merged_times(policy, "prediction")));
        section.charts.push(plot("A run of prediction", runs));
        let guests =
            ["base", "stealing"].map(|policy| distribution(policy, &merged_times(policy, "guest")));
        section.charts.push(plot("Segmentation, from scan to end", guests));
        section.tables.push(table(findings, part, stack));
    }
    section
}

fn table(findings: &Findings, part: &Part, stack: &str) -> Table {
    let row = |policy: &String| {
        let rows: Vec<&Row> =
            findings.drives.scenarios(part, stack, &[policy]).into_iter().flatten().collect();
        let of =
            |name: &str| merged(rows.iter().map(|row| row.times(name)).collect::<Vec<_>>().iter());
        let (frames, fast) = (of("frames"), of("frames_fast").count());
        let used = |of: fn(&Row) -> (f64, f64)| {
            let share = busy(rows.iter().copied(), of);
            share.map_or("-".to_owned(), |share| format!("{:.1} %", 100.0 * share))
        };
        let sum =
            |count: fn(&Row) -> u64| rows.iter().map(|row| count(row)).sum::<u64>().to_string();
        vec![
            policy.clone(),
            frames.count().to_string(),
            sum(|row| row.unanswered as u64),
            fast.to_string(),
            millis(frames.mean_ms()),
            millis(frames.quantile_ms(0.5)),
            millis(frames.quantile_ms(0.99)),
            millis(frames.quantile_ms(0.999)),
            millis(frames.max_ms()),
            millis(of("prediction").mean_ms()),
            millis(of("prediction").max_ms()),
            millis(of("guest").mean_ms()),
            millis(of("hosts").quantile_ms(0.999)),
            used(|row| (row.busy_s, row.driven_s)),
            used(|row| (row.sends_busy_s, row.sends_s)),
            sum(|row| row.guests),
            sum(|row| row.host_violations),
        ]
    };
    let head = "policy|frames|unanswered|fast|mean, ms|p50|p99|p99.9|longest|prediction, mean|\
        longest|segmentation, mean|hosts, p99.9|utilisation, whole drive|\
        utilisation, while guests' work is under way|guests|violations"
        .split('|');
    Table::new(format!("Stack {}", stack.to_uppercase()), head, part.policies.iter().map(row))
}

/// A distribution as a series of a plot, %.
pub(super) fn distribution(name: &str, times: &Times) -> Series {
    Series::new(name, times.shares().into_iter().map(|(ms, share)| (ms, 100.0 * share)))
}

/// Milliseconds as a cell of a table.
pub(super) fn millis(ms: Option<f64>) -> String {
    ms.map_or("-".to_owned(), |ms| format!("{ms:.1}"))
}

//! The result as one page. The template is `page.html`, beside this file.

use super::conclusion::sentences;
use super::table::{critical_misses, jobs};
use super::theme::policy_inks;
use super::unit::{Unit, count};
use super::{ChainInfo, ChainsRun, PRIORITY, PolicyRun, over_bound, plot};
use crate::Error;
use crate::page::render;
use minijinja::context;
use minijinja::value::Value;
use stats::Summary;

/// One self-contained page: what was won, what qualifies it, every number, and the distributions.
///
/// # Errors
/// [`Error::Plot`] and [`Error::Template`], neither of which depends on the measured values.
pub fn html(run: &ChainsRun) -> Result<String, Error> {
    render("chains.html", include_str!("page.html"), page(run)?)
}

fn page(run: &ChainsRun) -> Result<Value, Error> {
    let unit = Unit::of(run);
    let marks = run.marks.iter().map(|mark| (String::new(), mark.clone()));
    let of_policy = run
        .policies
        .iter()
        .flat_map(|policy| policy.marks.iter().map(|mark| (policy.policy.clone(), mark.clone())));
    let distributions = run
        .chains
        .iter()
        .map(|chain| {
            let svg = Value::from_safe_string(plot::distribution(run, chain)?);
            Ok(context! { id => chain.id.as_str(), best_effort => chain.best_effort, svg })
        })
        .collect::<Result<Vec<Value>, Error>>()?;
    let left_out =
        run.policies.iter().flat_map(|policy| &policy.chains).any(|r| r.left_out().is_some());
    Ok(context! {
        system => run.system_name.as_str(),
        machine => run.machine.as_str(),
        command => run.command.as_str(),
        date => run.date.as_str(),
        duration_s => format!("{:.0}", run.duration_s),
        conclusion => unbroken(&sentences(run), unit),
        marks => marks.chain(of_policy).map(|(policy, text)| context! { of => policy, text }).collect::<Vec<_>>(),
        unit => unit.name(),
        critical => run.most_critical().map(|chain| chain.id.clone()),
        policies => policies(run, unit),
        overview => Value::from_safe_string(plot::overview(run)?),
        chains => run.chains.iter().map(|chain| rows(run, chain, unit)).collect::<Vec<_>>(),
        any_left_out => left_out,
        distributions,
    })
}

/// Keeps a number and its unit on one line.
fn unbroken(sentences: &[String], unit: Unit) -> Vec<String> {
    let unit = unit.name();
    let spaced = format!(" {unit}");
    sentences.iter().map(|s| s.replace(&spaced, &format!("\u{a0}{unit}"))).collect()
}

/// One tile per policy: the most critical chain, and all that missed.
fn policies(run: &ChainsRun, unit: Unit) -> Vec<Value> {
    let critical = run.most_critical();
    let of_policy = |(policy, ink): (&PolicyRun, usize)| {
        let result = critical.and_then(|chain| policy.chain(&chain.id));
        let summary = result.and_then(|result| result.summary());
        let (missed, done) = critical_misses(run, policy);
        let slowest = result.and_then(|result| result.slowest);
        let parts = slowest.iter().flat_map(|slowest| slowest.parts());
        let parts = parts.filter(|(_, time_us)| *time_us > 0.0);
        let parts = parts.map(|(name, time_us)| (format!("longest: {name}"), unit.words(time_us)));
        context! {
            name => policy.policy.as_str(),
            ink,
            max => summary.map(|s| unit.words(s.max)),
            p50 => summary.map(|s| unit.words(s.p50)),
            p99 => summary.map(|s| unit.words(s.p99)),
            missed => count(missed),
            any_missed => missed > 0,
            jobs => jobs(done),
            facts => parts.chain(policy.facts.clone()).collect::<Vec<_>>(),
        }
    };
    run.policies.iter().zip(policy_inks(run)).map(of_policy).collect()
}

/// One chain of the table, with a row per policy.
fn rows(run: &ChainsRun, chain: &ChainInfo, unit: Unit) -> Value {
    let row = |(policy, ink): (&PolicyRun, usize)| {
        let result = policy.chain(&chain.id);
        let summary = result.and_then(|result| result.summary());
        let cell = |pick: fn(Summary) -> f64| summary.map(|s| unit.cell(pick(s)));
        let missed = result.map_or(0, |result| result.misses);
        context! {
            policy => policy.policy.as_str(),
            ink,
            jobs => result.map(|result| count(result.jobs)),
            p50 => cell(|s| s.p50),
            p99 => cell(|s| s.p99),
            max => cell(|s| s.max),
            share => summary.map(|s| share(s.max, chain.period_us)),
            missed => result.map(|result| count(result.misses)),
            any_missed => missed > 0,
            // The bound is one of the priority policy, and stands in its row.
            bound => chain.bound_us.filter(|_| policy.policy == PRIORITY).map(|us| unit.cell(us)),
            over_bound => over_bound(&policy.policy, chain, summary),
            left_out => result.and_then(|result| result.left_out()),
        }
    };
    context! {
        id => chain.id.as_str(),
        priority => chain.priority,
        period => unit.cell(chain.period_us),
        deadline => unit.cell(chain.deadline_us),
        own_deadline => (chain.deadline_us - chain.period_us).abs() > 1e-9,
        best_effort => chain.best_effort,
        rows => run.policies.iter().zip(policy_inks(run)).map(row).collect::<Vec<_>>(),
    }
}

/// Width of a bar in percent: the whole bar is two periods.
fn share(time_us: f64, period_us: f64) -> String {
    let percent = if period_us > 0.0 { 50.0 * time_us / period_us } else { 0.0 };
    format!("{:.1}", percent.clamp(0.0, 100.0))
}

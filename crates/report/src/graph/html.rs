//! The result as one page. The template is `page.html`, beside this file.

use super::conclusion::sentences;
use super::{GraphRun, MethodRun, above, ms, plot, words};
use crate::Error;
use crate::page::render;
use minijinja::context;
use minijinja::value::Value;
use stats::Summary;

/// One self-contained page: what was won, what qualifies it, distributions and every number.
///
/// # Errors
/// [`Error::Plot`] and [`Error::Template`], neither of which depends on the measured values.
pub fn html(run: &GraphRun) -> Result<String, Error> {
    render("graph.html", include_str!("page.html"), page(run)?)
}

fn page(run: &GraphRun) -> Result<Value, Error> {
    let marks = run.marks.iter().map(|mark| (String::new(), mark.clone()));
    let of_methods = run
        .methods
        .iter()
        .flat_map(|method| method.marks.iter().map(|mark| (method.method.clone(), mark.clone())));
    let methods: Vec<Value> = run
        .methods
        .iter()
        .enumerate()
        .map(|(ink, method)| context! { name => method.method.as_str(), ink })
        .collect();
    Ok(context! {
        system => run.system_name.as_str(),
        machine => run.machine.as_str(),
        command => run.command.as_str(),
        date => run.date.as_str(),
        duration_s => format!("{:.0}", run.duration_s),
        threads => run.threads.as_str(),
        transport => run.transport.as_str(),
        margin => run.margin.as_deref(),
        conclusion => sentences(run),
        marks => marks.chain(of_methods).map(|(method, text)| context! { of => method, text }).collect::<Vec<_>>(),
        methods,
        paths => paths(run)?,
        cycles => cycles(run)?,
        callbacks => run.methods.iter().map(callbacks).collect::<Vec<_>>(),
    })
}

fn cells(summary: Option<Summary>) -> Value {
    let cell = |pick: fn(Summary) -> f64| summary.map(|s| ms(pick(s)));
    context! {
        min => cell(|s| s.min), p50 => cell(|s| s.p50), p99 => cell(|s| s.p99),
        max => cell(|s| s.max),
    }
}

fn paths(run: &GraphRun) -> Result<Vec<Value>, Error> {
    run.paths
        .iter()
        .map(|path| {
            let rows: Vec<Value> = run
                .methods
                .iter()
                .enumerate()
                .map(|(ink, method)| {
                    let result = method.path(&path.id);
                    let summary = result.and_then(|result| result.summary());
                    let (all, most) = result.map_or((0, 0), |result| result.drops());
                    let reported = path.reported.iter().find(|r| r.method == method.method);
                    context! {
                        method => method.method.as_str(), ink,
                        instances => result.map_or(0, |result| result.latency_us.len()),
                        releases => path.releases,
                        longest => summary.map(|s| words(s.max)),
                        median => summary.map(|s| words(s.p50)),
                        p99 => summary.map(|s| words(s.p99)),
                        dropped => all, most,
                        reported => reported.map(|reported| words(reported.max_us)),
                        bound => run.bound_us(path, &method.method).map(above),
                        over => run.over(path, method),
                        ..cells(summary)
                    }
                })
                .collect();
            let samples: Vec<&[f64]> = run
                .methods
                .iter()
                .map(|method| method.path(&path.id).map_or(&[][..], |r| &r.latency_us))
                .collect();
            let svg = plot::shares(&path.id, &samples, (path.period_us, "period"), "latency")?;
            let nodes = path.nodes.join(", ");
            Ok(context! {
                id => path.id.as_str(), nodes, rows,
                no_bound => path.no_bound.as_deref(),
                svg => Value::from_safe_string(svg),
            })
        })
        .collect()
}

fn cycles(run: &GraphRun) -> Result<Vec<Value>, Error> {
    run.cycles
        .iter()
        .map(|(id, nominal_us)| {
            let rows: Vec<Value> = run
                .methods
                .iter()
                .enumerate()
                .map(|(ink, method)| {
                    let result = method.cycle(id);
                    let share = result.and_then(|result| result.deviation(*nominal_us));
                    context! {
                        method => method.method.as_str(), ink,
                        count => result.map_or(0, |result| result.period_us.len()),
                        share => share.map(|share| format!("{:.1} %", 100.0 * share)),
                        ..cells(result.and_then(|result| result.summary()))
                    }
                })
                .collect();
            let samples: Vec<&[f64]> = run
                .methods
                .iter()
                .map(|method| method.cycle(id).map_or(&[][..], |r| &r.period_us))
                .collect();
            let svg = plot::shares(id, &samples, (*nominal_us, "nominal"), "period")?;
            let nominal = words(*nominal_us);
            Ok(context! { id => id.as_str(), nominal, rows, svg => Value::from_safe_string(svg) })
        })
        .collect()
}

fn callbacks(method: &MethodRun) -> Value {
    let rows: Vec<Value> = method
        .callbacks
        .iter()
        .map(|callback| {
            let of = |times: Option<super::Times>| {
                times.map(|t| context! { p50 => ms(t.p50), p99 => ms(t.p99), max => ms(t.max) })
            };
            context! {
                id => callback.id.as_str(),
                executor => callback.executor.as_str(),
                priority => callback.priority,
                count => callback.count,
                dropped => callback.dropped,
                response => of(callback.response_us),
                own => of(callback.execution_us),
            }
        })
        .collect();
    context! { method => method.method.as_str(), rows, facts => method.facts.clone() }
}

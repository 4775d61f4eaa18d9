//! The result as one page. The template is `page.html`, beside this file.

use super::plot::{bars, inks};
use super::{Cell, PAAM_US, STEP, TransportRun, size, us, way};
use crate::Error;
use crate::page::render;
use minijinja::context;
use minijinja::value::Value;

/// One self-contained page: the steps as stacked bars, and every number.
///
/// # Errors
/// [`Error::Plot`] and [`Error::Template`], neither of which depends on the results.
pub fn html(run: &TransportRun) -> Result<String, Error> {
    render("transport.html", include_str!("page.html"), page(run)?)
}

fn page(run: &TransportRun) -> Result<Value, Error> {
    let mut sizes: Vec<u64> = run.cells.iter().map(|cell| cell.bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let figures = sizes
        .into_iter()
        .map(|bytes| {
            let cells: Vec<&Cell> = run.cells.iter().filter(|cell| cell.bytes == bytes).collect();
            let name = format!("Input of {}", size(bytes));
            let svg = Value::from_safe_string(bars(&name, &cells)?);
            Ok(context! { name, svg })
        })
        .collect::<Result<Vec<Value>, Error>>()?;
    let names = STEP.into_iter().chain([("unexplained", "the whole without all of these")]);
    let steps: Vec<Value> = names
        .zip(inks())
        .map(|((name, about), ink)| context! { name, about, ink => ink.name })
        .collect();
    Ok(context! {
        command => run.command.as_str(),
        date => run.date.as_str(),
        device => run.device.as_str(),
        delay => us(run.delay_ns as f64),
        loss => run.loss * 100.0,
        machine => run.machine.clone(),
        marks => run.marks.clone(),
        document => PAAM_US.map(|us| format!("{us:.0}")),
        steps,
        figures,
        rows => run.cells.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(cell: &Cell) -> Value {
    let latency = cell.latency();
    let number = |ns: Option<f64>| ns.map(us);
    let p99 = latency.filter(|_| cell.samples.len() >= 100).map(|latency| latency.p99);
    let shares = cell.shares();
    let parts: Vec<String> = shares
        .iter()
        .flat_map(|shares| {
            let rest = shares.mean.unexplained_ns();
            shares.mean.steps_ns.into_iter().chain([rest]).map(us)
        })
        .collect();
    let overheads: Vec<String> = shares
        .iter()
        .flat_map(|shares| {
            [shares.best, shares.mean, shares.worst].map(|sample| us(sample.overhead_ns()))
        })
        .collect();
    context! {
        way => way(&cell.way),
        size => size(cell.bytes),
        answers => cell.samples.len(),
        first => number(cell.warm_up_ns.first().copied()),
        median => number(latency.map(|latency| latency.p50)),
        p99 => number(p99),
        max => number(latency.map(|latency| latency.max)),
        mean => number(shares.as_ref().map(|shares| shares.mean.whole_ns)),
        repeated => cell.repeated,
        unanswered => cell.unanswered,
        parts,
        overheads,
    }
}

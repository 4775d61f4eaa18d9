//! The result as one page. The template is `page.html`, beside this file.

use super::{Demand, DriveStudyRun, Plot, Section, Verdict, plot};
use crate::Error;
use crate::page::render;
use minijinja::context;
use minijinja::value::Value;

/// One self-contained page: every demand with its value, its interval and its verdict, then each
/// experiment.
///
/// # Errors
/// [`Error::Plot`] and [`Error::Template`], neither of which depends on the results.
pub fn html(run: &DriveStudyRun) -> Result<String, Error> {
    let sections = run.sections.iter().map(section).collect::<Result<Vec<Value>, Error>>()?;
    let content = context! {
        conclusion => run.conclusion(),
        command => run.command.as_str(),
        date => run.date.as_str(),
        machine => run.machine.clone(),
        marks => run.marks.clone(),
        demands => run.demands.iter().map(demand).collect::<Vec<_>>(),
        sections,
    };
    render("drive_study.html", include_str!("page.html"), content)
}

fn demand(one: &Demand) -> Value {
    let value = one.value.as_ref();
    let class = match one.verdict {
        Verdict::Met => "zero",
        Verdict::Missed => "bad",
        Verdict::NotMeasured => "none",
    };
    context! {
        what => one.what.as_str(),
        stack => one.stack.to_uppercase(),
        value => value.map(super::Value::shown),
        interval => value.and_then(super::Value::interval_shown),
        demand => one.demand.as_str(),
        verdict => one.verdict.name(),
        class,
        note => one.note.as_str(),
    }
}

fn section(section: &Section) -> Result<Value, Error> {
    let figure = |one: &Plot| -> Option<Result<Value, Error>> {
        let svg = plot::plot(one).transpose()?;
        let keys = (plot::inks(one).into_iter())
            .map(|(name, ink)| context! { name, ink => ink.name })
            .collect::<Vec<_>>();
        Some(svg.map(|svg| {
            let svg = Value::from_safe_string(svg);
            context! { title => one.title.as_str(), x => one.x.as_str(), y => one.y.as_str(), keys, svg }
        }))
    };
    let plots = section.plots.iter().filter_map(figure).collect::<Result<Vec<Value>, Error>>()?;
    let tables: Vec<Value> = section
        .tables
        .iter()
        .map(|table| {
            context! { title => table.title.as_str(), head => table.head.clone(), rows => table.rows.clone() }
        })
        .collect();
    Ok(context! { title => section.title.as_str(), about => section.about.as_str(), plots, tables })
}

//! The result as one page. The template is `page.html`, beside this file.

use super::plot::{Look, panel};
use super::{Outcome, Point, StudyRun};
use crate::Error;
use crate::chains::unit::count;
use crate::page::render;
use minijinja::context;
use minijinja::value::Value;

/// One self-contained page: what each method accepts in all, point by point in plots, and every
/// number.
///
/// # Errors
/// [`Error::Plot`] and [`Error::Template`], neither of which depends on the results.
pub fn html(run: &StudyRun) -> Result<String, Error> {
    render("study.html", include_str!("page.html"), page(run)?)
}

fn page(run: &StudyRun) -> Result<Value, Error> {
    let panels = run
        .groups()
        .into_iter()
        .map(|group| {
            let svg = Value::from_safe_string(panel(run, group)?);
            Ok(context! { name => run.group.at(group), svg })
        })
        .collect::<Result<Vec<Value>, Error>>()?;
    let groups = run.groups().into_iter();
    Ok(context! {
        experiment => run.experiment.as_str(),
        title => run.title.as_str(),
        about => run.about.as_str(),
        command => run.command.as_str(),
        date => run.date.as_str(),
        parameters => run.parameters.clone(),
        marks => run.marks.clone(),
        seed => run.seed,
        sets => count(run.sets),
        points => run.points.len(),
        scaled => run.scaled.clone(),
        x => run.x.label(),
        methods => methods(run),
        panels,
        groups => groups.map(|group| rows(run, group)).collect::<Vec<_>>(),
    })
}

/// One tile per method: what it accepts in all.
fn methods(run: &StudyRun) -> Vec<Value> {
    let of_method = |(index, method): (usize, &String)| {
        let total = run.total(index);
        let look = Look::of(method);
        context! {
            name => method.as_str(),
            ink => look.ink,
            line => look.line.class(),
            shown => cell(run, &total),
            accepted => count(total.accepted),
            sets => count(total.sets),
            chains => total.chains_percent().map(|percent| format!("{percent:.1}")),
            low => total.scale(100).map(|scale| format!("{scale:.3}")),
            high => total.scale(900).map(|scale| format!("{scale:.3}")),
        }
    };
    run.methods.iter().enumerate().map(of_method).collect()
}

/// The rows of the table of one group.
fn rows(run: &StudyRun, group: f64) -> Value {
    let row = |point: &Point| {
        let cells = point.outcomes.iter().map(|outcome| {
            context! {
                shown => cell(run, outcome),
                chains => outcome.chains_percent().map(|percent| format!("{percent:.1}")),
            }
        });
        context! {
            number => point.number,
            x => run.x.value(point.x),
            cells => cells.collect::<Vec<_>>(),
        }
    };
    context! {
        name => run.group.at(group),
        rows => run.in_group(group).map(row).collect::<Vec<_>>(),
    }
}

/// The number that the page is about.
fn cell(run: &StudyRun, outcome: &Outcome) -> Option<String> {
    let digits = if run.scaled.is_some() { 3 } else { 1 };
    run.shown(outcome).map(|number| format!("{number:.digits$}"))
}

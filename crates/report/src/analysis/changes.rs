//! Changes that a search for priorities and buckets made.

use super::{Names, WIDTH};
use crate::number::listed;
use analysis::System;
use analysis::assign::{Assignment, Method};
use terminal::page::{Cell, FAINT, HEAD, PLAIN, Page, WARN};

/// Every priority, bucket and place that the assignment changed, old and new, and how it was found.
pub fn changes(before: &System, assignment: &Assignment, names: &Names, color: bool) -> String {
    let mut page = Page::new(WIDTH, color);
    let after = &assignment.system;
    page.line(HEAD, &found(assignment));
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut change = |who: String, what: String, old: String, new: String| {
        if old != new {
            let cells = [(who, PLAIN), (what, FAINT), (old, FAINT), ("->".to_owned(), FAINT)];
            rows.push(cells.into_iter().chain([(new, PLAIN)]).collect());
        }
    };
    for (index, name) in names.executors.iter().enumerate() {
        let (old, new) = (before.executors[index].priority, after.executors[index].priority);
        let who = format!("executor {name}");
        change(who, "priority".to_owned(), old.to_string(), new.to_string());
    }
    for (index, name) in names.chains.iter().enumerate() {
        let (old, new) = (&before.chains[index], &after.chains[index]);
        let who = format!("chain {name}");
        let priorities = (old.priority.to_string(), new.priority.to_string());
        change(who.clone(), "priority".to_owned(), priorities.0, priorities.1);
        for (accelerator, device) in names.accelerators.iter().enumerate() {
            let bucket = |chain: &analysis::Chain| match chain.uses(accelerator) {
                true => chain.buckets[accelerator].to_string(),
                false => "-".to_owned(),
            };
            change(who.clone(), format!("bucket of {device}"), bucket(old), bucket(new));
        }
        let devices = |chain: &analysis::Chain| {
            let names: Vec<&str> =
                chain.segments().map(|s| names.accelerators[s.accelerator].as_str()).collect();
            listed(&names)
        };
        change(who, "requests on".to_owned(), devices(old), devices(new));
    }
    if rows.is_empty() {
        page.line(PLAIN, "  nothing had to change");
    }
    page.table(&[true, true, false, true, true].map(|left| ("", left)), &rows);
    if !assignment.schedulable {
        let Assignment { ok, of, .. } = assignment;
        let words = format!(
            "! {ok} of {of} chains are guaranteed: this is the best that was found, and no proof that \
             there is nothing better"
        );
        page.paragraph(WARN, &words, 0, 2);
    }
    page.finish()
}

fn found(assignment: &Assignment) -> String {
    let how = match assignment.method {
        Method::Given => "with the given order of priorities",
        Method::DeadlineMonotonic => "by deadline-monotonic priorities",
        Method::Audsley => "by Audsley's assignment",
        Method::LocalSearch => "by local search",
    };
    format!("Assignment found {how}, after {} analyses:", assignment.analyses)
}

/// `given`, `deadline-monotonic`, `audsley` or `local-search`, for machines.
pub fn method_name(method: Method) -> &'static str {
    match method {
        Method::Given => "given",
        Method::DeadlineMonotonic => "deadline-monotonic",
        Method::Audsley => "audsley",
        Method::LocalSearch => "local-search",
    }
}

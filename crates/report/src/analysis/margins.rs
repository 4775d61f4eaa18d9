//! Factors by which times may grow before the verdict changes, and the chain that fails first.

use super::words::status_name;
use super::{Bounds, WIDTH};
use analysis::sensitivity::{MAX_PERMILLE, Margin, Scale};
use serde_json::{Value, json};
use terminal::page::{BAD, Cell, FAINT, GOOD, HEAD, PLAIN, Page, WARN};

/// One line per kind of time, all others being as they are.
pub fn margins(bounds: &Bounds, margins: &[Margin], color: bool) -> String {
    let mut page = Page::new(WIDTH, color);
    page.line(HEAD, "Factors by which times may grow, all others unchanged:");
    let rows: Vec<Vec<Cell>> = margins.iter().map(|margin| row(bounds, margin)).collect();
    page.table(&[true, false, true].map(|left| ("", left)), &rows);
    page.finish()
}

fn row(bounds: &Bounds, margin: &Margin) -> Vec<Cell> {
    let fails = margin.first.as_ref().map(|(chain, bound)| {
        let name = &bounds.names.chains[*chain];
        match &bound.refusal {
            Some(refusal) => format!("{name}: {}", bounds.refusal_words(*chain, refusal)),
            None => format!("{name} fails"),
        }
    });
    let (factor, style) = match margin.permille {
        None => ("never".to_owned(), BAD),
        Some(MAX_PERMILLE) if fails.is_none() => {
            (format!("more than x {}", MAX_PERMILLE / 1_000), GOOD)
        }
        Some(permille) => {
            let style = if permille < 1_000 { BAD } else { GOOD };
            (format!("x {}", factor(permille)), style)
        }
    };
    let then = match (margin.permille, fails) {
        (None, Some(fails)) => format!("even without them {fails}"),
        (Some(_), Some(fails)) => format!("then {fails}"),
        (_, None) => String::new(),
    };
    let style =
        if margin.permille.is_some_and(|permille| permille == 1_000) { WARN } else { style };
    vec![(scale_words(bounds, margin.scale), PLAIN), (factor, style), (then, FAINT)]
}

fn scale_words(bounds: &Bounds, scale: Scale) -> String {
    match scale {
        Scale::Execution => "all execution times".to_owned(),
        Scale::Cpu => "processor times".to_owned(),
        Scale::Accelerator => "accelerator times".to_owned(),
        Scale::Overhead => "epsilon and sigma".to_owned(),
        Scale::Chain(chain) => format!("{}: its execution times", bounds.names.chains[chain]),
    }
}

/// `1.284`
fn factor(permille: u64) -> String {
    format!("{}.{:03}", permille / 1_000, permille % 1_000)
}

/// The same for machines, as a list.
pub fn margins_json(bounds: &Bounds, margins: &[Margin]) -> Value {
    margins.iter().map(|margin| of_margin(bounds, margin)).collect()
}

fn of_margin(bounds: &Bounds, margin: &Margin) -> Value {
    let (scale, chain) = match margin.scale {
        Scale::Execution => ("execution", None),
        Scale::Cpu => ("cpu", None),
        Scale::Accelerator => ("accelerator", None),
        Scale::Overhead => ("overhead", None),
        Scale::Chain(chain) => ("chain", Some(bounds.names.chains[chain].as_str())),
    };
    let first = margin.first.as_ref().map(|(chain, bound)| {
        json!({
            "chain": bounds.names.chains[*chain],
            "status": status_name(bound.status),
            "R_star_ns": bound.response_ns,
        })
    });
    json!({
        "scale": scale,
        "chain": chain,
        "factor": margin.permille.map(|permille| permille as f64 / 1e3),
        "first": first,
    })
}

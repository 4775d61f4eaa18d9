//! Response times under the memory-bandwidth lock (BWLOCK++, equation 4).

use super::{Names, WIDTH};
use crate::number::Unit;
use analysis::{LockBound, System};
use serde_json::{Value, json};
use terminal::page::{BAD, Cell, FAINT, GOOD, HEAD, PLAIN, Page};

/// Returns true if every chain whose deadline counts keeps it.
pub fn lock_schedulable(system: &System, bounds: &[LockBound]) -> bool {
    let counted = system.chains.iter().zip(bounds).filter(|(chain, _)| !chain.best_effort);
    counted.into_iter().all(|(_, bound)| bound.response_ns.is_some())
}

/// One line per chain: execution, blocking, response.
pub fn lock(names: &Names, system: &System, bounds: &[LockBound], color: bool) -> String {
    let mut page = Page::new(WIDTH, color);
    let verdict = match lock_schedulable(system, bounds) {
        true => (GOOD, "schedulable under the bandwidth lock"),
        false => (BAD, "not schedulable under the bandwidth lock"),
    };
    page.line(verdict.0, verdict.1);
    let unit = Unit::of(system);
    let model = "one core, accelerator segments not preempted (BWLOCK++, equation 4)";
    page.line(FAINT, &format!("{model}; times in {}", unit.name()));
    let row = |((name, chain), bound): ((&String, &analysis::Chain), &LockBound)| -> Vec<Cell> {
        let (response, style) = match bound.response_ns {
            Some(ns) => (unit.up(ns), GOOD),
            None => ("above".to_owned(), if chain.best_effort { FAINT } else { BAD }),
        };
        vec![
            (name.clone(), HEAD),
            (unit.down(chain.deadline_ns), PLAIN),
            (unit.up(bound.execution_ns), PLAIN),
            (unit.up(bound.blocking_ns), PLAIN),
            (response, style),
        ]
    };
    let rows: Vec<Vec<Cell>> =
        names.chains.iter().zip(&system.chains).zip(bounds).map(row).collect();
    let columns = [
        ("chain", true),
        ("deadline", false),
        ("execution", false),
        ("blocking", false),
        ("response", false),
    ];
    page.table(&columns, &rows);
    page.finish()
}

/// The same for machines: times in nanoseconds.
pub fn lock_json(names: &Names, system: &System, bounds: &[LockBound]) -> Value {
    let bound_json = |bound: &LockBound| {
        json!({
            "E_ns": bound.execution_ns,
            "B_ns": bound.blocking_ns,
            "R_ns": bound.response_ns,
        })
    };
    let chains = names.chains.iter().zip(bounds).map(|(name, bound)| (&**name, bound_json(bound)));
    let chains = Value::from_iter(chains);
    json!({
        "schema": "keeptime.bandwidth-lock-analysis",
        "version": 1,
        "schedulable": lock_schedulable(system, bounds),
        "chains": chains,
    })
}

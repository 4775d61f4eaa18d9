//! `keeptime analyze --assign`: searches for priorities and buckets, and writes them as a file.

use std::path::PathBuf;

use analysis::Variant;
use analysis::assign::{AssignOptions, Assignment, assign};
use anyhow::{Context, ensure};
use report::analysis::Names;
use system::System;

use super::named;

/// Options of the search.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Search for priorities and buckets with which every chain meets its deadline, and write the
    /// system file with them to this file
    #[arg(long, value_name = "FILE")]
    assign: Option<PathBuf>,
    /// Keep the order of the chains' priorities: search for buckets (and devices) only
    #[arg(long, requires = "assign")]
    keep_order: bool,
    /// Interchangeable accelerators, as in gpu0,gpu1; may be repeated
    #[arg(long, requires = "assign", value_name = "ACCELERATOR,...")]
    units: Vec<String>,
    /// Largest number of analyses that the local search may spend
    #[arg(long, requires = "assign", default_value_t = AssignOptions::default().effort)]
    effort: u32,
    /// Seed of the random choices of the search
    #[arg(long, requires = "assign", default_value_t = AssignOptions::default().seed)]
    seed: u64,
}

impl Options {
    /// Returns true if a search was asked for.
    pub(super) fn wanted(&self) -> bool {
        self.assign.is_some()
    }
}

/// Result of a search.
pub(super) struct Assigned {
    pub assignment: Assignment,
    /// The file that was written.
    pub file: String,
    before: analysis::System,
}

/// Searches where the options say so, and writes the file.
pub(super) fn run(
    args: &Options,
    system: &System,
    model: &analysis::System,
    variant: Variant,
) -> anyhow::Result<Option<Assigned>> {
    let Some(file) = &args.assign else { return Ok(None) };
    ensure!(
        variant != Variant::Published,
        "--assign: found --variant published, expected tight or sound: a search against an \
         unsound analysis finds its errors"
    );
    let units: Vec<Vec<usize>> =
        args.units.iter().map(|group| unit(group, system)).collect::<anyhow::Result<_>>()?;
    let options = AssignOptions {
        variant,
        keep_order: args.keep_order,
        effort: args.effort,
        seed: args.seed,
    };
    let assignment = assign(model, &units, &options).map_err(|error| named(error, system))?;
    let mut assigned = system.clone();
    assigned.adopt(&assignment.system);
    std::fs::write(file, assigned.to_yaml())
        .with_context(|| format!("--assign {}", file.display()))?;
    let file = file.display().to_string();
    Ok(Some(Assigned { assignment, file, before: model.clone() }))
}

/// A group of accelerators that may do each other's work.
fn unit(group: &str, system: &System) -> anyhow::Result<Vec<usize>> {
    let index = |id: &str| {
        let found = system.accelerators.iter().position(|accelerator| accelerator.id == id);
        found.with_context(|| {
            let ids: Vec<&str> = system.accelerators.iter().map(|a| a.id.as_str()).collect();
            format!("--units: found {id:?}, expected accelerators: {}", ids.join(", "))
        })
    };
    let group: Vec<usize> = group.split(',').map(index).collect::<anyhow::Result<_>>()?;
    for (place, member) in group.iter().enumerate() {
        let id = &system.accelerators[*member].id;
        ensure!(!group[..place].contains(member), "--units: found {id} twice, expected it once");
    }
    Ok(group)
}

impl Assigned {
    /// Returns the changes that the search made, for a terminal.
    pub(super) fn changes(&self, names: &Names) -> String {
        report::analysis::changes(&self.before, &self.assignment, names, true)
    }

    /// Returns the result of the search and its method, for machines.
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "file": self.file,
            "schedulable": self.assignment.schedulable,
            "method": report::analysis::method_name(self.assignment.method),
            "analyses": self.assignment.analyses,
        })
    }
}

//! `keeptime analyze --assign`: searches for priorities and buckets, and writes them as a file.

use std::path::PathBuf;

use analysis::Variant;
use analysis::assign::{AssignOptions, Assignment, Held, assign};
use anyhow::{Context, ensure};
use report::analysis::Names;
use system::{System, SystemText};
use terminal::output;
use terminal::signals::Interrupted;

use super::{analyze, is_wanted, named};
use crate::progress::LateProgress;

/// Options of the search.
#[derive(clap::Args)]
pub(super) struct Options {
    /// Search for priorities and buckets with which every chain meets its deadline, and write the
    /// system file with them to this file; its comments and its order stay. No critical chain gets
    /// below another one that it is above
    #[arg(long, value_name = "FILE")]
    assign: Option<PathBuf>,
    /// Let the search lower critical chains, and the processes of executors
    #[arg(long, requires = "assign")]
    lower_critical: bool,
    /// Interchangeable accelerators, as in gpu0,gpu1; may be repeated
    #[arg(long, requires = "assign", value_name = "ACCELERATOR,...")]
    units: Vec<String>,
    /// Largest number of analyses that the local search may spend
    #[arg(long, requires = "assign", default_value_t = AssignOptions::default().effort)]
    effort: u32,
    /// Search with a tenth of the effort
    #[arg(long, requires = "assign", conflicts_with = "effort")]
    quick: bool,
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

/// Reason for which no file is written: the answer of the command is no.
#[derive(Debug)]
pub(super) struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// Result of a search.
pub(super) struct Assigned {
    pub assignment: Assignment,
    /// The file that was written.
    pub file: String,
    before: analysis::System,
    /// True if a signal ended the search.
    pub is_partial: bool,
}

/// Searches where the options say so, and writes the file.
pub(super) fn run(
    args: &Options,
    source: Option<&SystemText>,
    model: &analysis::System,
    variant: Variant,
) -> anyhow::Result<Option<Assigned>> {
    let (Some(file), Some(source)) = (&args.assign, source) else { return Ok(None) };
    ensure!(
        variant != Variant::Published,
        "--assign: found --variant published, expected tight or sound: a search against an \
         unsound analysis finds its errors"
    );
    output::check("--assign", Some(file))?;
    let system = &source.system;
    let units = args.units.iter().map(|group| unit(group, system));
    let effort = if args.quick { args.effort / 10 } else { args.effort };
    let options = AssignOptions { variant, effort, seed: args.seed };
    let search = Search { system, model, units: units.collect::<Result<_, _>>()?, options };
    let kept = if args.lower_critical { Held::default() } else { held(source) };
    let assignment = search.run(&kept)?;
    if !assignment.schedulable && is_wanted() && kept != Held::default() {
        match search.ensure_lowering_does_not_help(file, &assignment) {
            Err(error) if error.is::<Interrupted>() => {}
            checked => checked?,
        }
    }
    let is_partial = !is_wanted();
    let text = source.assigned(&assignment.system)?;
    output::write("--assign", Some(file), || Ok(text))?;
    let file = file.display().to_string();
    Ok(Some(Assigned { assignment, file, before: model.clone(), is_partial }))
}

/// Critical chains with a priority in the file keep their order, and executors with one keep it.
fn held(source: &SystemText) -> Held {
    let system = &source.system;
    let is_critical = |chain: &usize| !system.chains[*chain].best_effort;
    let chains = (0..system.chains.len()).filter(is_critical);
    let executors = 0..system.executors.len();
    Held {
        chains: chains.filter(|&chain| source.has_priority(chain)).collect(),
        executors: executors.filter(|&executor| source.has_process_priority(executor)).collect(),
    }
}

/// A search for an assignment.
struct Search<'a> {
    system: &'a System,
    model: &'a analysis::System,
    units: Vec<Vec<usize>>,
    options: AssignOptions,
}

impl Search<'_> {
    fn run(&self, held: &Held) -> anyhow::Result<Assignment> {
        let watch = LateProgress::start("keeptime analyze").watch(is_wanted);
        assign(self.model, &self.units, held, &self.options, &watch)
            .map_err(|error| named(error, self.system))
    }

    /// Refuses to write a file for chains that are late only because critical ones keep their order.
    fn ensure_lowering_does_not_help(
        &self,
        file: &std::path::Path,
        kept: &Assignment,
    ) -> anyhow::Result<()> {
        let other = self.run(&Held::default())?;
        if !other.schedulable {
            return Ok(());
        }
        let progress = LateProgress::start("keeptime analyze");
        let late = analyze(self.system, &kept.system, self.options.variant, progress, is_wanted)?;
        let id = |chain: usize| self.system.chains[chain].id.as_str();
        let is_late = |chain: &usize| {
            late.chains[*chain].status != analysis::Status::Ok
                && !self.model.chains[*chain].best_effort
        };
        let late: Vec<&str> = (0..self.model.chains.len()).filter(is_late).map(id).collect();
        let lowered = lowered(self.model, &other.system);
        let lowered: Vec<String> = lowered
            .iter()
            .map(|&(chain, below)| format!("{} below {}", id(chain), id(below)))
            .collect();
        let change = match lowered.is_empty() {
            true => "other process priorities".to_owned(),
            false => lowered.join(", "),
        };
        let (file, late) = (file.display(), late.join(", "));
        anyhow::bail!(Refused(format!(
            "{file} is not written: no guarantee for {late} unless a critical chain gets a lower \
             priority ({change}); --lower-critical permits that"
        )))
    }
}

/// Critical chains that come below another critical one that they were above, each with the first
/// such one.
fn lowered(before: &analysis::System, after: &analysis::System) -> Vec<(usize, usize)> {
    let critical: Vec<usize> =
        (0..before.chains.len()).filter(|&chain| !before.chains[chain].best_effort).collect();
    let above = |system: &analysis::System, one: usize, other: usize| {
        system.chains[one].priority > system.chains[other].priority
    };
    let passed = |&chain: &usize| {
        let by = |&&other: &&usize| above(before, chain, other) && above(after, other, chain);
        critical.iter().find(by).map(|&other| (chain, other))
    };
    critical.iter().filter_map(passed).collect()
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
    /// Notes on the validity of what is computed for the file.
    pub(super) fn marks(&self) -> Vec<String> {
        let mut marks = vec![format!("priorities and buckets are those of {}", self.file)];
        if self.is_partial {
            let tried = self.assignment.analyses;
            marks.push(format!("PARTIAL: the search was interrupted after {tried} analyses"));
        }
        marks
    }

    /// Prints the result of the search alone, where a signal came before there were bounds.
    pub(super) fn print(
        &self,
        json: bool,
        names: &Names,
        file: &str,
        mut marks: Vec<String>,
    ) -> anyhow::Result<()> {
        marks.push(format!("PARTIAL: no bounds yet; keeptime analyze {} has them", self.file));
        output::print(
            json,
            || {
                let mut json = report::analysis::unbounded_json(file, &marks);
                json["schedulable"] = self.assignment.schedulable.into();
                json["assignment"] = self.json();
                json
            },
            || report::analysis::unbounded(file, &marks, true) + "\n" + &self.changes(names),
        )
    }

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
            "guaranteed": self.assignment.ok,
            "of": self.assignment.of,
            "partial": self.is_partial,
        })
    }
}

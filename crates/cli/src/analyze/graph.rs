//! The bounds of a graph: its key paths and its callbacks.

use std::process::ExitCode;

use analysis::Variant;
use graph_bounds::bounds;
use report::document::WIDTH;
use report::graph::bounds::{document, json};
use system::System;
use terminal::signals;

use super::{Args, is_wanted, no_result};
use crate::progress::LateProgress;

/// Bounds the graph of a file on the cores of the file.
///
/// # Errors
/// Names an option that a graph has no use for, or says why nothing can be bounded.
pub(super) fn run(args: &Args, system: &System) -> anyhow::Result<ExitCode> {
    let chains_only = [
        ("--variant", args.variant != Variant::Tight),
        ("--explain", !args.explain.is_empty()),
        ("--exec-scale", args.exec_scale.is_some()),
        ("--sensitivity", args.sensitivity),
        ("--bandwidth-lock", args.bandwidth_lock),
        ("--assign", args.assign.wanted()),
    ];
    for (option, given) in chains_only {
        let file = &system.name;
        anyhow::ensure!(!given, "{option}: found a graph in {file}, expected chains");
    }
    let cores: Vec<u32> = system.executors.iter().map(|executor| executor.core).collect();
    let graph = args.margin.lengthen(system.require_graph()?);
    signals::catch()?;
    let watch = LateProgress::start("keeptime analyze").watch(is_wanted);
    let bounds = bounds(system, &graph, &cores, &watch).map_err(|reason| {
        let reason = || anyhow::anyhow!("{}: no bounds: {reason}", system.name);
        signals::interrupted().map_or_else(reason, |signal| no_result(signal, system))
    })?;
    drop(watch);
    let words = || {
        let margin = args.margin.words().map_or(String::new(), |words| format!("{words}\n"));
        format!("{margin}{}", document(&system.name, &bounds).text(WIDTH, true))
    };
    terminal::output::print(args.json, || json(&system.name, &bounds), words)?;
    Ok(if bounds.complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

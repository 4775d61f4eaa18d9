//! Factor by which work takes longer on this machine than declared: `--margin measured`.
//!
//! A rehearsal is the graph once before, as long as a method runs, under a method that has bounds:
//! the longest processor time of each node, as long as others run beside it. What a request takes on
//! an accelerator cannot be read from it, for there others delay it. So each is made for itself, at
//! the highest priority, on a server without other clients.

use std::collections::BTreeMap;
use std::time::Duration;

use accel::{Client, Request};
use anyhow::Context;
use system::{ArbitrationPolicy, Node};
use terminal::progress::Progress;

use super::trial::{Method, Trial};
use crate::chains::access::registration;
use crate::chains::chains_plan::{RequestPlan, request_plan};
use crate::chains::server;
use graph_bounds::TimeMargin;

/// Requests of each length.
const COUNT: usize = 200;
/// Longest time that one request may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Rehearses under a method and returns the margin of bounds.
///
/// # Errors
/// Whatever fails takes everything down with it.
pub(super) fn margin(
    trial: &Trial<'_>,
    method: Method,
    progress: &Progress,
) -> anyhow::Result<TimeMargin> {
    let accelerators = match method {
        Method::Keeptime => requests(trial, progress)?,
        Method::Picas | Method::Ros2 => BTreeMap::new(),
    };
    let processor = trial.longest_work(method, progress)?;
    TimeMargin::measured(processor, accelerators).map_err(anyhow::Error::msg)
}

/// Longest time of a request of each accelerator as a multiple of what is declared.
fn requests(trial: &Trial<'_>, progress: &Progress) -> anyhow::Result<BTreeMap<String, f64>> {
    let mut lengths: Vec<(u64, RequestPlan)> = Vec::new();
    for segment in trial.graph.nodes.iter().flat_map(Node::segments) {
        let request = request_plan(trial.placement.system, segment);
        if !lengths.iter().any(|(_, known)| *known == request) {
            lengths.push((segment.exec_ns, request));
        }
    }
    if lengths.is_empty() {
        return Ok(BTreeMap::new());
    }
    progress.stage("accelerator requests by themselves");
    let folder = server::private_folder()?;
    let process = trial.placement.server(folder.path());
    let mut server = process.start(ArbitrationPolicy::Priority)?;
    let mut client = Client::connect(server::socket(folder.path()))?;
    let priority = trial.graph.nodes.iter().flat_map(Node::priorities).max().unwrap_or(0);
    let mut longest = BTreeMap::new();
    for (number, (declared_ns, plan)) in lengths.iter().enumerate() {
        let what = || format!("{} {}", plan.accelerator, plan.service);
        let chain = ("graph rehearsal", priority);
        let registration = registration(chain, number as u64, plan);
        let id = client.register(&registration).with_context(what)?;
        let request = Request::new().arguments(&[plan.argument]);
        for _ in 0..COUNT {
            let mut ticket = client.submit(id, &request).with_context(what)?;
            let outcome = client.wait(&mut ticket, Some(PATIENCE))?.ok().with_context(what)?;
            let ran_ns = outcome.finished_ns.saturating_sub(outcome.started_ns);
            let share: &mut f64 = longest.entry(plan.accelerator.clone()).or_default();
            *share = share.max(ran_ns as f64 / (*declared_ns).max(1) as f64);
        }
    }
    drop(client);
    process.stop(&mut server);
    Ok(longest)
}

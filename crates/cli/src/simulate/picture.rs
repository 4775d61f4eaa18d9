//! Picture of a piece of a schedule, and the files that have it.
//!
//! The schedule is simulated again, up to the end of the piece, since all that happens is kept for a
//! picture.

use std::path::Path;
use std::time::Duration;

use analysis::System;
use analysis::simulate::{ChainOutcome, Scenario, Simulator, Trace};
use anyhow::Context;
use report::simulation::{Gantt, Simulation};
use terminal::{output, signals};

/// Most periods of the chain with the longest one that a picture shows unless it is told to.
const PERIODS: u64 = 2;

/// A schedule that may be drawn.
pub(super) struct Schedule {
    pub scenario: Scenario,
    /// Responses of the chain whose worst job the picture is around; without them it is of the
    /// beginning.
    pub focus: Option<ChainOutcome>,
}

/// The files that options ask for.
pub(super) struct Files<'a> {
    pub svg: Option<&'a Path>,
    pub html: Option<&'a Path>,
    /// Length of the piece.
    pub window: Option<Duration>,
}

impl Files<'_> {
    /// Writes them. A signal that leaves no time for the picture leaves it out.
    pub(super) fn write(
        &self,
        model: &System,
        simulation: &Simulation,
        schedule: &Schedule,
    ) -> anyhow::Result<()> {
        if self.svg.is_none() && self.html.is_none() {
            return Ok(());
        }
        let trace = self.trace(model, schedule)?;
        let gantt = trace.as_ref().map(|(trace, from_ns, to_ns)| Gantt {
            names: &simulation.names,
            system: model,
            trace,
            from_ns: *from_ns,
            to_ns: *to_ns,
        });
        match (self.svg, &gantt) {
            (Some(file), Some(gantt)) => {
                write("--svg", file, || report::simulation::gantt(gantt))?;
            }
            (Some(file), None) => tell!("--svg {}: not written: interrupted", file.display()),
            (None, _) => {}
        }
        if let Some(file) = self.html {
            write("--html", file, || {
                report::simulation::document(simulation, gantt.as_ref())?.html()
            })?;
        }
        Ok(())
    }

    /// The piece with its first and its last instant.
    fn trace(
        &self,
        model: &System,
        schedule: &Schedule,
    ) -> anyhow::Result<Option<(Trace, u64, u64)>> {
        let longest_ns = model.chains.iter().map(|chain| chain.period_ns).max().unwrap_or(1);
        let asked_ns = self.window.map(|window| window.as_nanos() as u64);
        let worst =
            schedule.focus.and_then(|focus| Some((focus.worst_release_ns, focus.worst_ns?)));
        let (from_ns, length_ns) = match worst {
            Some((release_ns, response_ns)) => {
                let margin_ns = response_ns / 5 + 1;
                let from_ns = release_ns.saturating_sub(margin_ns);
                (from_ns, release_ns + response_ns + margin_ns - from_ns)
            }
            None => (0, PERIODS.saturating_mul(longest_ns)),
        };
        let to_ns = from_ns.saturating_add(asked_ns.unwrap_or(length_ns).max(1));
        // Jobs that run at the end of the piece end in time, or are late by then.
        let until_ns = to_ns.saturating_add(PERIODS.saturating_mul(longest_ns));
        let mut is_whole = true;
        let trace = Simulator::new(model)?.trace(&schedule.scenario, &mut |now_ns| {
            is_whole = !signals::is_overdue();
            is_whole && now_ns < until_ns
        });
        let ends = trace.jobs.iter().map(|job| job.end_ns).filter(|ns| *ns != u64::MAX);
        let to_ns = match (worst, asked_ns) {
            (None, None) => ends.max().unwrap_or(1).clamp(1, to_ns),
            _ => to_ns,
        };
        Ok(is_whole.then_some((trace, from_ns, to_ns)))
    }
}

/// Writes what a report gives; an error names the option, and how to ask for less.
fn write(
    option: &str,
    file: &Path,
    make: impl FnOnce() -> Result<String, report::Error>,
) -> anyhow::Result<()> {
    let text = make().map_err(|error| match error {
        report::Error::Plot { message, .. } => {
            anyhow::anyhow!("the picture has {message}; choose a shorter --window")
        }
        error => error.into(),
    });
    let text = text.with_context(|| format!("{option} {}", file.display()))?;
    output::write(option, Some(file), || Ok(text))
}

//! `keeptime analyze --sensitivity`: by how much times may grow.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use analysis::sensitivity::{Margin, Scale, sensitivity};
use analysis::{Variant, Watch};
use system::System;

use super::{is_wanted, named};
use crate::progress::LateProgress;

/// Computes the growth that each kind of time, and the times of each chain, allow; until a signal
/// comes.
pub(super) fn margins(
    variant: Variant,
    system: &System,
    model: &analysis::System,
    marks: &mut Vec<String>,
) -> anyhow::Result<Vec<Margin>> {
    let kinds = [Scale::Execution, Scale::Cpu, Scale::Accelerator, Scale::Overhead];
    let chains = (0..model.chains.len()).map(Scale::Chain);
    let scales: Vec<Scale> = kinds.into_iter().chain(chains).collect();
    let (all, done) = (scales.len() as u64, Arc::new(AtomicU64::new(0)));
    let progress = LateProgress::start("keeptime analyze");
    let shown = done.clone();
    let watch = Watch::new(move |_| {
        progress.at(shown.load(Ordering::Relaxed), all, "margins");
        is_wanted()
    });
    let mut margins = Vec::new();
    for scale in scales {
        match sensitivity(model, variant, scale, &watch) {
            Ok(margin) => margins.push(margin),
            Err(analysis::Error::Stopped) => {
                let done = margins.len();
                marks.push(format!("PARTIAL: interrupted after {done} of {all} margins"));
                break;
            }
            Err(error) => return Err(named(error, system)),
        }
        done.store(margins.len() as u64, Ordering::Relaxed);
    }
    Ok(margins)
}

//! Colours of the policies: `priority` is always the blue one.

use super::{ChainsRun, PRIORITY};
use crate::theme::SERIES;

/// The place of each policy in [`SERIES`], in the order of the run.
pub(super) fn policy_inks(run: &ChainsRun) -> Vec<usize> {
    let known = [PRIORITY, "fifo", "timeslice", "direct"];
    let mut next = known.len();
    let mut place = |policy: &str| {
        known.iter().position(|name| *name == policy).unwrap_or_else(|| {
            next += 1;
            (next - 1 - known.len()) % (SERIES.len() - known.len()) + known.len()
        })
    };
    run.policies.iter().map(|run| place(&run.policy)).collect()
}

//! A GPU that did other work, or did this program's work slower than usual, while a call waited for
//! it: another process has the GPU by turns, or its clocks are lowered.

use super::case::Case;
use super::{Evidence, Remedy, Verdict};
use crate::explain::part::Explained;

pub(super) fn judge(case: &Case<'_>) -> Option<Verdict> {
    let beyond = |call: &Explained| {
        let ns = call.sums.gpu_beyond_ns;
        if ns >= case.options.long_hold_ns { ns } else { 0 }
    };
    let loss = case.loss(beyond)?;
    Some(case.verdict(loss, None, Evidence::SharedGpu {}, vec![Remedy::ArbitratedGpu]))
}

//! Prediction and planning as anytime tasks: a base result that is refined until a budget is
//! spent, which is the same for every input (Copper's `CuAnytimeTask`).

use super::modules::{going_on, with};
use crate::predict::Surroundings;
use crate::{Planner, Prediction, Predictor, Stopped, Track};
use dataflow::{Cx, Stop};

/// Objects that are predicted before the clock is looked at again.
const BATCH: usize = 4;

/// Predictions, in this order, until the budget is spent; the remaining objects go on as they do.
pub(super) fn predict<O: Send + Sync + 'static>(
    cx: &mut Cx<'_, O>,
    budget_ns: u64,
    predictor: &Predictor,
    (at, tracks, order): (f64, &[Track], &[usize]),
    around: &Surroundings,
) -> Result<Vec<Prediction>, Stop> {
    let end_ns = cx.now_ns().saturating_add(budget_ns);
    let mut found = Vec::with_capacity(order.len());
    for batch in order.chunks(BATCH) {
        cx.go_on()?;
        if cx.now_ns() >= end_ns {
            break;
        }
        found.extend(with(cx, |go| predictor.predict(at, tracks, batch, around, go))?);
    }
    found.extend(order[found.len()..].iter().map(|index| going_on(&tracks[*index], at)));
    Ok(found)
}

/// The planners from the shortest to the longest, in equal steps.
pub(super) fn levels(short: &Planner, long: &Planner) -> Vec<Planner> {
    let between = |share: f64, from: f64, to: f64| from + share * (to - from);
    let level = |share: f64| {
        long.fast(
            between(share, short.lookahead, long.lookahead),
            between(share, short.horizon, long.horizon),
        )
    };
    [0.0, 0.5, 1.0].map(level).to_vec()
}

/// Result of the longest planner that the budget holds; the shortest always runs. The time of the
/// next one is known from the last: its work grows with lookahead and horizon.
pub(super) fn plan<O: Send + Sync + 'static, V>(
    cx: &mut Cx<'_, O>,
    budget_ns: u64,
    levels: &[Planner],
    mut choose: impl FnMut(&Planner, crate::Checkpoint) -> Result<V, Stopped>,
) -> Result<V, Stop> {
    let begun_ns = cx.now_ns();
    let mut best = None;
    let mut last: Option<(f64, u64)> = None;
    for planner in levels {
        let work = planner.lookahead * planner.horizon;
        let from_ns = cx.now_ns();
        let takes_ns = last.map_or(0.0, |(before, ns)| work / before * ns as f64);
        if best.is_some() && (from_ns - begun_ns) as f64 + takes_ns > budget_ns as f64 {
            break;
        }
        best = Some(with(cx, |go| choose(planner, go))?);
        cx.go_on()?;
        last = Some((work, cx.now_ns() - from_ns));
    }
    best.ok_or(Stop::Nothing)
}

//! Distribution of totals over chains, and of periods.

use super::{Error, Rng};

/// Number of draws of a vector before [`uunifast_discard`] gives up.
const MAX_DRAWS: u32 = 100_000;

/// Uniform in [0, 1), in steps of 2^-53. Made from whole numbers here, so that it does not change
/// with the way the random library makes its own.
pub(super) fn unit(rng: &mut Rng) -> f64 {
    (rng.u64(..) >> 11) as f64 / (1u64 << 53) as f64
}

/// True with this probability.
pub(super) fn chance(rng: &mut Rng, probability: f64) -> bool {
    unit(rng) < probability
}

/// UUniFast (Bini and Buttazzo, 2005): `count` shares of `total`, uniform over all vectors of
/// shares that sum to it.
///
/// ```
/// use analysis::generate::{stream, uunifast};
///
/// let shares = uunifast(&mut stream(1, 0, 0), 5, 0.8);
/// assert!((shares.iter().sum::<f64>() - 0.8).abs() < 1e-12);
/// ```
pub fn uunifast(rng: &mut Rng, count: usize, total: f64) -> Vec<f64> {
    let mut left = total;
    let mut shares = Vec::with_capacity(count);
    for others in (1..count).rev() {
        let rest = left * unit(rng).powf(1.0 / others as f64);
        shares.push(left - rest);
        left = rest;
    }
    if count > 0 {
        shares.push(left);
    }
    shares
}

/// UUniFast-discard (Davis and Burns, 2009): [`uunifast`], drawn again while a share is above
/// `cap`. The result is uniform over the vectors that are left.
///
/// # Errors
/// [`Error::Discarded`] where there is no such vector, or none was drawn for very long.
pub fn uunifast_discard(
    rng: &mut Rng,
    count: usize,
    total: f64,
    cap: f64,
) -> Result<Vec<f64>, Error> {
    let refuse = |draws| Err(Error::Discarded { chains: count, total, cap, draws });
    if total > cap * count as f64 {
        return refuse(0);
    }
    for _ in 0..MAX_DRAWS {
        let shares = uunifast(rng, count, total);
        if shares.iter().all(|share| *share <= cap) {
            return Ok(shares);
        }
    }
    refuse(MAX_DRAWS)
}

/// A multiple of `grid` from `low` to `high`, its logarithm uniform: each octave is as likely as
/// the next (Emberson, Stafford and Davis, 2010). `low` and `high` are multiples of `grid`.
pub fn log_uniform(rng: &mut Rng, low: u64, high: u64, grid: u64) -> u64 {
    let (from, to) = ((low as f64).ln(), ((high + grid) as f64).ln());
    let drawn = (from + (to - from) * unit(rng)).exp() as u64;
    (drawn / grid * grid).clamp(low, high)
}

/// Cuts `total` into `parts` whole numbers of at least `least`, uniform over all ways to do so up
/// to rounding. Where `total` is too small for that, all parts are `least`.
pub fn split(rng: &mut Rng, total: u64, parts: usize, least: u64) -> Vec<u64> {
    let free = total.saturating_sub(least * parts as u64);
    let mut cuts: Vec<u64> = (1..parts).map(|_| rng.u64(0..=free)).collect();
    cuts.sort_unstable();
    cuts.push(free);
    let mut before = 0;
    cuts.truncate(parts);
    cuts.into_iter().map(|cut| least + cut - std::mem::replace(&mut before, cut)).collect()
}

//! Growth of execution times until a chain fails, and the chain that fails first.

use crate::bound::{Analyzer, ChainBound, Status, Variant};
use crate::{Error, System, Watch};

/// The times that grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scale {
    /// Processor and accelerator times.
    Execution,
    /// Processor times.
    Cpu,
    /// Accelerator times.
    Accelerator,
    /// `epsilon` and `sigma`.
    Overhead,
    /// Processor and accelerator times of one chain.
    Chain(usize),
}

/// Limit of the growth of one kind of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Margin {
    /// The times that grow.
    pub scale: Scale,
    /// The greatest factor, in thousandths, at which the system is still schedulable; None where
    /// it is not even at 0. At most [`MAX_PERMILLE`].
    pub permille: Option<u64>,
    /// The chain of highest priority that fails one thousandth above, with its bound there; None
    /// where nothing fails up to [`MAX_PERMILLE`].
    pub first: Option<(usize, ChainBound)>,
}

/// The greatest factor that is looked at, in thousandths.
pub const MAX_PERMILLE: u64 = 100_000;

/// Finds by bisection how far times may grow. Bounds are monotone in every execution time, so
/// that the bisection finds the one factor where the verdict changes.
///
/// # Errors
/// [`Error`] when the model contradicts itself; [`Error::Stopped`] when `watch` ended it.
pub fn sensitivity(
    system: &System,
    variant: Variant,
    scale: Scale,
    watch: &Watch,
) -> Result<Margin, Error> {
    system.check()?;
    let mut analyzer = Analyzer::watched(watch);
    let mut schedulable = |permille: u64| {
        // A system whose times are too long to be summed is not schedulable.
        if analyzer.load(&scaled(system, scale, permille)).is_err() {
            return Ok(false);
        }
        let verdict = analyzer.run(variant).schedulable;
        analyzer.ensure_complete().map(|()| verdict)
    };
    let (permille, failed) = if !schedulable(0)? {
        (None, 0)
    } else if schedulable(MAX_PERMILLE)? {
        return Ok(Margin { scale, permille: Some(MAX_PERMILLE), first: None });
    } else {
        let (mut good, mut bad) = (0, MAX_PERMILLE);
        while bad - good > 1 {
            let middle = good + (bad - good) / 2;
            if schedulable(middle)? { good = middle } else { bad = middle }
        }
        (Some(good), bad)
    };
    let first = failing(&mut analyzer, &scaled(system, scale, failed), variant);
    analyzer.ensure_complete()?;
    Ok(Margin { scale, permille, first })
}

/// The chain that fails by itself first in the order of priority.
fn failing(
    analyzer: &mut Analyzer,
    system: &System,
    variant: Variant,
) -> Option<(usize, ChainBound)> {
    analyzer.load(system).ok()?;
    let analysis = analyzer.analyze(variant);
    analyzer.ensure_complete().ok()?;
    let first_with_status = |wanted: Status| {
        let lost = |&chain: &usize| {
            !system.chains[chain].best_effort && analysis.chains[chain].status == wanted
        };
        system.chains_by_priority().into_iter().find(lost)
    };
    let chain = first_with_status(Status::Miss).or_else(|| first_with_status(Status::Dependent))?;
    Some((chain, analysis.chains[chain].clone()))
}

/// The system with some of its times multiplied, rounded up.
pub fn scaled(system: &System, scale: Scale, permille: u64) -> System {
    let times = |ns: &mut u64| {
        let scaled = (u128::from(*ns) * u128::from(permille)).div_ceil(1000);
        *ns = u64::try_from(scaled).unwrap_or(u64::MAX);
    };
    let mut system = system.clone();
    if scale == Scale::Overhead {
        times(&mut system.epsilon_ns);
        times(&mut system.sigma_ns);
        return system;
    }
    for (index, chain) in system.chains.iter_mut().enumerate() {
        if matches!(scale, Scale::Chain(only) if only != index) {
            continue;
        }
        for callback in &mut chain.callbacks {
            if scale != Scale::Accelerator {
                times(&mut callback.cpu.max_ns);
                callback.cpu.min_ns = callback.cpu.min_ns.min(callback.cpu.max_ns);
            }
            let mut left = callback.cpu.max_ns;
            for segment in &mut callback.segments {
                if scale != Scale::Cpu {
                    times(&mut segment.exec.max_ns);
                    segment.exec.min_ns = segment.exec.min_ns.min(segment.exec.max_ns);
                }
                segment.cpu_before_ns = segment.cpu_before_ns.min(left);
                left -= segment.cpu_before_ns;
            }
        }
    }
    system
}

//! Admission: may a chain join without breaking what was promised to others?
//! (Document: PAAM, section IV-F.)

use crate::bound::{Analysis, Analyzer, ChainBound, Status, Variant};
use crate::{Error, System};

/// The answer to a chain that asks to join.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Every promise still holds, and the chain gets its own.
    Admit {
        /// Status and response time of each chain, the new one included.
        bounds: Vec<(Status, Option<u64>)>,
    },
    /// A promise would be broken.
    Refuse {
        /// The chain that would have no guarantee: the new one, or one that has been promised.
        chain: usize,
        /// All bounds as they would be, with their terms and the reasons.
        analysis: Box<Analysis>,
    },
}

impl Decision {
    /// The bound that a refusal is about.
    pub fn refused(&self) -> Option<(usize, &ChainBound)> {
        match self {
            Decision::Admit { .. } => None,
            Decision::Refuse { chain, analysis } => Some((*chain, &analysis.chains[*chain])),
        }
    }
}

/// Decides whether a chain may join: it and all chains in `promised` must be [`Status::Ok`].
///
/// `system` contains the new chain, at `candidate`; where that is best effort it needs no
/// guarantee itself. A chain that was promised and whose own load made the refusal is named before
/// others: what breaks is the promise to the most critical one.
///
/// # Errors
/// [`Error`] when the model contradicts itself.
pub fn decide(
    analyzer: &mut Analyzer,
    system: &System,
    candidate: usize,
    promised: impl Fn(usize) -> bool,
    variant: Variant,
) -> Result<Decision, Error> {
    analyzer.load(system)?;
    let must =
        |chain: usize| promised(chain) || (chain == candidate && !system.chains[chain].best_effort);
    let verdict = analyzer.run(variant);
    let broken = |(chain, &(status, _)): (usize, &(Status, Option<u64>))| {
        (must(chain) && status != Status::Ok).then_some(chain)
    };
    if !verdict.chains.iter().enumerate().any(|entry| broken(entry).is_some()) {
        return Ok(Decision::Admit { bounds: verdict.chains.to_vec() });
    }
    let analysis = Box::new(analyzer.analyze(variant));
    let lost = |&chain: &usize| must(chain) && analysis.chains[chain].status != Status::Ok;
    let by_priority = system.chains_by_priority();
    let first = by_priority.iter().copied().find(lost);
    Ok(match first {
        Some(chain) => Decision::Refuse { chain, analysis },
        None => {
            let bounds = analysis.chains.iter().map(|c| (c.status, c.response_ns)).collect();
            Decision::Admit { bounds }
        }
    })
}

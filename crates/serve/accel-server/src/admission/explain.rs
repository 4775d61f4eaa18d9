//! Reasons for which a chain is not promised its deadline, in words.

use super::model::{File, Model};
use analysis::{ChainBound, Refusal, Term, TermKind};

/// Reason for which there is no promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// The analysis found no bound, or none within the deadline.
    Analysis {
        text: String,
        /// True if the chain fails by itself, and not because it relies on another chain that does.
        own: bool,
    },
    /// A chain that declares nothing can hold it up for as long as it likes.
    Undeclared { chain: String, way: Way },
    /// The declarations contradict each other.
    Model(String),
}

/// Way in which a chain that declares nothing delays another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Its requests go first on this accelerator.
    First(String),
    /// Its requests can be in the same bucket of this accelerator.
    Bucket(String),
    /// Its callbacks are run by the same thread.
    Client,
}

impl Why {
    /// Puts the result of the analysis for a chain that is not ok into words.
    pub(super) fn of(file: &File, model: &Model, index: usize, bound: &ChainBound) -> Why {
        let name = |chain: usize| format!("{:?}", model.chains[chain].name);
        let accelerator = |index: usize| file.system.accelerators[index].id.as_str();
        let own = !matches!(bound.refusal, Some(Refusal::Relies { .. }));
        let text = match &bound.refusal {
            Some(Refusal::Late { missing_ns, largest, .. }) => {
                let deadline_ns = model.system.chains[index].deadline_ns;
                let reached_ns = deadline_ns.saturating_add(*missing_ns);
                let least = if bound.response_ns.is_some() { "" } else { "at least " };
                let largest = largest.map(|term| format!("; largest: {}", term_text(&term, name)));
                format!(
                    "bound {least}{}, deadline {}, {} missing{}",
                    short_time(reached_ns),
                    short_time(deadline_ns),
                    short_time(*missing_ns),
                    largest.unwrap_or_default()
                )
            }
            Some(Refusal::Overload { accelerator: index, chain }) => format!(
                "the chains above {} ask for all of accelerator {:?}",
                name(*chain),
                accelerator(*index)
            ),
            Some(Refusal::Relies { chain }) => {
                format!("it relies on chain {}, which has no guarantee", name(*chain))
            }
            Some(Refusal::Concurrent { accelerator: index }) => format!(
                "its bucket of accelerator {:?} runs requests concurrently",
                accelerator(*index)
            ),
            None => "no bound".into(),
        };
        Why::Analysis { text, own }
    }

    /// The explanation as a remark about the chain.
    pub(super) fn note(&self) -> String {
        match self {
            Why::Analysis { text, .. } | Why::Model(text) => text.clone(),
            Why::Undeclared { chain, way } => {
                let way = match way {
                    Way::First(accelerator) => format!("goes first on {accelerator:?}"),
                    Way::Bucket(accelerator) => format!("is in its bucket of {accelerator:?}"),
                    Way::Client => "is run by the same client".into(),
                };
                format!("chain {chain:?}, which declares no period, {way}")
            }
        }
    }

    /// The explanation as the reason to refuse `candidate`, which costs `affected` its guarantee.
    pub(super) fn refusal(&self, candidate: &str, affected: &str) -> String {
        let note = self.note();
        match self {
            Why::Model(_) => format!("chain {candidate:?} cannot be analysed: {note}"),
            _ if candidate == affected => {
                format!("chain {candidate:?} cannot be promised its deadline: {note}")
            }
            Why::Analysis { .. } => {
                format!("chain {candidate:?} would make chain {affected:?} late: {note}")
            }
            Why::Undeclared { .. } => {
                format!("chain {candidate:?} would break the promise to chain {affected:?}: {note}")
            }
        }
    }

    /// Returns true if the chain fails by itself: that says more than one that fails with it.
    pub(super) fn is_own(&self) -> bool {
        !matches!(self, Why::Analysis { own: false, .. })
    }
}

fn term_text(term: &Term, name: impl Fn(usize) -> String) -> String {
    let (ns, chain) = (short_time(term.ns), name(term.chain));
    match term.kind {
        TermKind::Cpu => format!("{ns} own processor time"),
        TermKind::Accelerator => format!("{ns} own accelerator time"),
        TermKind::Epsilon => format!("{ns} own overhead"),
        TermKind::Blocking => format!("{ns} blocking of the executor by {chain}"),
        TermKind::BucketBlocking => format!("{ns} blocking of the bucket by {chain}"),
        TermKind::AcceleratorInterference => format!("{ns} requests of {chain}"),
        TermKind::ExecutorInterference => format!("{ns} callbacks of {chain} on the executor"),
        TermKind::CoreInterference => format!("{ns} callbacks of {chain} on the core"),
    }
}

/// A time for people: four digits or so, in the unit that fits.
pub fn short_time(ns: u64) -> String {
    let (value, unit) = match ns {
        0..1_000 => return format!("{ns} ns"),
        1_000..1_000_000 => (ns as f64 / 1e3, "us"),
        1_000_000..10_000_000_000 => (ns as f64 / 1e6, "ms"),
        _ => (ns as f64 / 1e9, "s"),
    };
    let decimals = match value {
        ..10.0 => 3,
        10.0..100.0 => 2,
        100.0..1000.0 => 1,
        _ => 0,
    };
    let text = format!("{value:.decimals$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_short_and_have_a_unit() {
        for (ns, text) in [
            (0, "0 ns"),
            (999, "999 ns"),
            (391_000, "391 us"),
            (4_213_000, "4.213 ms"),
            (49_814_000, "49.81 ms"),
            (104_213_000, "104.2 ms"),
            (100_000_000, "100 ms"),
            (2_000_000_000, "2000 ms"),
            (36_000_000_000, "36 s"),
        ] {
            assert_eq!(short_time(ns), text);
        }
    }
}

//! The bounds of a system: who is guaranteed what, what the bounds are made of, and what to change
//! first where they are not enough.
//!
//! [`table`] and [`composition`] are for a terminal, [`explain`] derives the bound of one chain,
//! [`advice`] says in sentences what to change, [`json`] is for machines. All of them read one
//! [`Bounds`]; [`unbounded`] is for a result that has none yet. [`margins`] says how far times may grow, [`changes`] what a search for priorities
//! and buckets changed. [`lock`] is the table of the bandwidth lock's own analysis.
//!
//! A number is shown bare only where it is a guarantee. A bound that relies on a chain without a
//! guarantee stands in parentheses; where there is no bound there is a dash and the reason.

mod analysis_advice;
mod analysis_json;
mod changes;
mod explain;
mod lock;
mod margins;
mod table;
mod words;

pub use analysis_advice::advice;
pub use analysis_json::{json, unbounded_json};
pub use changes::{changes, method_name};
pub use explain::explain;
pub use lock::{lock, lock_json, lock_schedulable};
pub use margins::{margins, margins_json};
pub use table::{composition, table, unbounded};
pub(crate) use words::status_name;

use analysis::{Analysis, ChainBound, PartBound, Status, System, Term, TermKind, Variant};

/// Columns at which sentences are wrapped; tables are as wide as they need to be.
pub(crate) const WIDTH: usize = 96;

/// A system, its bounds, and the names that the analysis does not know.
#[derive(Debug, Clone, PartialEq)]
pub struct Bounds {
    /// The system file.
    pub file: String,
    /// Names of accelerators, executors and chains.
    pub names: Names,
    /// The analysed system.
    pub system: System,
    /// The bounds.
    pub analysis: Analysis,
    /// Notes on the validity of all results, such as "every accelerator time is 1.25 times that of
    /// the file".
    pub marks: Vec<String>,
}

/// Names by the indices of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// The accelerators.
    pub accelerators: Vec<String>,
    /// The executors.
    pub executors: Vec<String>,
    /// The chains.
    pub chains: Vec<String>,
}

/// One addend of a chain's bound, summed over its parts.
struct Addend {
    /// Description of the addend, in words.
    words: String,
    ns: u64,
    /// The chain that causes it, where that is another one.
    culprit: Option<usize>,
}

impl Bounds {
    /// Warning that must precede the first number of an unsound analysis.
    pub fn warning(&self) -> Option<&'static str> {
        (self.analysis.variant == Variant::Published).then_some(
            "UNSOUND: the published theorem leaves out that a lower-priority callback which waits \
             for an accelerator keeps its executor. Real response times exceed these numbers; use \
             them for comparison only. Use --variant tight or sound.",
        )
    }

    fn chain(&self, chain: usize) -> (&analysis::Chain, &ChainBound, &str) {
        (&self.system.chains[chain], &self.analysis.chains[chain], &self.names.chains[chain])
    }

    /// Returns true if the chain's deadline counts and its bound keeps it.
    fn is_ok(&self, chain: usize) -> bool {
        self.analysis.chains[chain].status == Status::Ok
    }

    /// Time between the bound and the deadline, where the bound is a guarantee.
    fn slack_ns(&self, chain: usize) -> Option<u64> {
        let (model, bound, _) = self.chain(chain);
        bound.response_ns.filter(|_| self.is_ok(chain)).map(|ns| model.deadline_ns.abs_diff(ns))
    }

    /// Indices of the chains, the highest priority first.
    fn by_priority(&self) -> Vec<usize> {
        self.system.chains_by_priority()
    }

    /// Addends of the chain's bound, largest first, all parts together.
    fn addends(&self, chain: usize) -> Vec<Addend> {
        let (model, bound, _) = self.chain(chain);
        let mut sums: Vec<(Term, &PartBound)> = Vec::new();
        for part in &bound.parts {
            for term in part.terms.iter().filter(|term| term.ns > 0) {
                let same = |(sum, of): &&mut (Term, &PartBound)| {
                    let own = sum.chain == chain && term.chain == chain;
                    let place = own || of.executor == part.executor;
                    (sum.kind, sum.chain) == (term.kind, term.chain) && place
                };
                match sums.iter_mut().find(same) {
                    Some((sum, _)) => sum.ns += term.ns,
                    None => sums.push((*term, part)),
                }
            }
        }
        let mut addends: Vec<Addend> = sums
            .into_iter()
            .map(|(term, part)| Addend {
                words: self.term_words(chain, part, &term),
                ns: term.ns,
                culprit: Some(term.chain).filter(|_| !is_own(&term, chain)),
            })
            .collect();
        let hops = bound.parts.len().saturating_sub(1) as u64;
        let own = [
            ("hops between its executors", self.system.hop_ns.saturating_mul(hops)),
            ("own release jitter", model.jitter_ns),
        ];
        for (words, ns) in own.into_iter().filter(|(_, ns)| *ns > 0) {
            addends.push(Addend { words: words.to_owned(), ns, culprit: None });
        }
        addends.sort_by_key(|addend| std::cmp::Reverse(addend.ns));
        addends
    }
}

/// Returns true if a term is the chain's own work.
fn is_own(term: &Term, chain: usize) -> bool {
    let own = matches!(term.kind, TermKind::Cpu | TermKind::Accelerator | TermKind::Epsilon);
    own && term.chain == chain
}

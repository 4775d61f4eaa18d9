//! Admission control: which chains may come in, and what they are promised.
//!
//! Before a registration takes effect, the chains as they would be afterwards are analysed, with
//! the buckets that they would have. In words (document: PAAM, section IV-F):
//!
//! 1. The claim is held against the claims before it ([`claim`]).
//! 2. New buckets are found: first evenly spread, then with every chain where it is ([`spread`]).
//! 3. The chains become a model ([`model`]), which the analysis bounds. A chain is *guaranteed*
//!    when it is within its bound, and no chain that declares nothing can get in its way: such a
//!    chain must have a lower priority and a lower bucket than every promised chain beside it.
//! 4. The claim is refused if its own chain is not guaranteed, unless that is best effort, or if
//!    a chain that was guaranteed would not be any more. The refusal says why ([`explain`]).
//!    A chain that clients of other users declared, and that is less critical than the one that
//!    comes, keeps it not out: where there is no other way, it loses its guarantee, and that is
//!    told.
//!
//! After a client has left, the rest is judged anew; the even spread is taken only if it costs
//! no chain its guarantee.
//!
//! All of this happens on the control thread, which alone changes who is registered; the
//! dispatcher gets the result, a [`Spread`] for each accelerator. A decision is a value that
//! changes nothing until it is committed, so that what fails later can leave everything as it is.

mod claim;
mod explain;
mod judge;
mod model;
mod spread;

pub(crate) use claim::{Claim, Exec, Source, agrees_with_file, declaration, executor};
pub use explain::short_time;
use judge::Depth;
pub(crate) use judge::{Judged, Verdict};
pub(crate) use model::File;
pub(crate) use spread::Spread;

use crate::meter::Tally;
use crate::refusal::Refusal;
use accel::control::Code;
use analysis::Variant;
use realtime::clock::monotonic_ns;
use spread::Members;
use std::sync::Arc;
use system::Admission as Mode;

/// Callbacks of one chain.
const MAX_POSITIONS: u32 = 1024;
/// Requests of one registration in one job.
const MAX_REQUESTS: u32 = 256;
/// Declared requests of all chains, each in one job.
const MAX_REQUESTS_IN_ALL: u32 = 1024;
/// Declared chains.
const MAX_CHAINS: usize = 256;

/// Rules of admission control, which do not change while the server runs.
pub(crate) struct Rules {
    pub mode: Mode,
    pub variant: Variant,
    pub file: File,
    /// Buckets of each accelerator; one where the policy knows no priorities.
    pub buckets: Vec<u32>,
}

/// Registrations in force, and the promises to their chains.
pub(crate) struct Admission {
    rules: Rules,
    now: Decision,
    pub revision: u64,
    pub counts: Counts,
}

/// Number of decisions and of refusals, and the times that decisions took.
#[derive(Clone, Copy, Default)]
pub(crate) struct Counts {
    pub decisions: u64,
    pub refused: u64,
    pub last_ns: u64,
    pub longest_ns: u64,
}

/// The state after a change, if it is committed.
#[derive(Clone, Default)]
pub(crate) struct Decision {
    claims: Vec<Claim>,
    pub spreads: Vec<Spread>,
    verdict: Verdict,
    /// True if the verdict has the best bounds.
    refined: bool,
}

/// Kind of a change: a claim that comes can be refused, one that leaves cannot.
#[derive(Clone, Copy)]
enum Change<'a> {
    /// The claim comes in, or its chain changes to this.
    Comes(&'a Claim),
    /// A claim leaves, which cannot be refused.
    Leaves,
}

impl Admission {
    pub(crate) fn new(rules: Rules) -> Admission {
        let now =
            Decision { spreads: vec![Spread::new(); rules.buckets.len()], ..Decision::default() };
        let mut admission = Admission { rules, now, revision: 1, counts: Counts::default() };
        // Chains of the configuration that use no accelerator are there from the start.
        admission.now.verdict = admission.rules.judge(&[], &admission.now.spreads, Depth::Enough);
        admission
    }

    pub(crate) fn mode(&self) -> Mode {
        self.rules.mode
    }

    pub(crate) fn variant(&self) -> Variant {
        self.rules.variant
    }

    /// The registrations in force.
    pub(crate) fn claims(&self) -> &[Claim] {
        &self.now.claims
    }

    /// Computes the best bounds, for a status request: a decision needs only bounds that are good
    /// enough.
    pub(crate) fn refine(&mut self) {
        if !self.now.refined {
            let Decision { claims, spreads, .. } = &self.now;
            self.now.verdict = self.rules.judge(claims, spreads, Depth::All);
            self.now.refined = true;
        }
    }

    /// Returns the present promises to the chains.
    pub(crate) fn verdict(&self) -> &Verdict {
        &self.now.verdict
    }

    /// The buckets now, of each accelerator.
    pub(crate) fn spreads(&self) -> &[Spread] {
        &self.now.spreads
    }

    /// The counts of a chain's requests: those of its registrations, or new ones.
    pub(crate) fn tally(&self, chain: &str, priority: u32, source: &Source) -> Arc<Tally> {
        let same = |claim: &&Claim| {
            claim.chain == chain
                && (*source != Source::Nobody || claim.priority == priority)
                && std::mem::discriminant(&claim.source) == std::mem::discriminant(source)
        };
        self.now.claims.iter().find(same).map_or_else(Arc::default, |claim| claim.tally.clone())
    }

    /// Decides if a registration may come in.
    ///
    /// # Errors
    /// Says which promise it would break, or what contradicts what.
    pub(crate) fn register(&mut self, claim: Claim) -> Result<Decision, Refusal> {
        if self.rules.mode != Mode::Off {
            claim::check(&self.rules.file.system, &self.now.claims, &claim)?;
        }
        let mut claims = self.now.claims.clone();
        claims.push(claim.clone());
        self.decide(claims, Change::Comes(&claim))
    }

    /// Decides if a chain may have another priority, and returns the registrations that this
    /// concerns: all of a declared chain, otherwise the one.
    ///
    /// # Errors
    /// As for [`Admission::register`].
    pub(crate) fn reprioritise(
        &mut self,
        session: u64,
        number: u32,
        priority: u32,
    ) -> Result<(Decision, Vec<(u64, u32)>), Refusal> {
        let own = |claim: &&Claim| (claim.session, claim.number) == (session, number);
        let unknown = || (Code::Unknown, format!("registration {number}: no such registration"));
        let claim = self.now.claims.iter().find(own).ok_or_else(unknown)?.clone();
        let moves = |other: &Claim| match claim.source {
            Source::Declared(_) => {
                other.chain == claim.chain && matches!(other.source, Source::Declared(_))
            }
            _ => own(&other),
        };
        let (moved, rest): (Vec<Claim>, Vec<Claim>) =
            self.now.claims.iter().cloned().partition(moves);
        if let Some(other) = moved.iter().find(|other| other.uid != claim.uid) {
            let text = format!(
                "chain {:?} has a callback of user {} too: only a chain of one user's clients \
                 can get another priority",
                claim.chain, other.uid
            );
            return Err((Code::NotAllowed, text));
        }
        let changed = Claim { priority, ..claim.clone() };
        if self.rules.mode != Mode::Off {
            claim::check(&self.rules.file.system, &rest, &changed)?;
        }
        let numbers = moved.iter().map(|claim| (claim.session, claim.number)).collect();
        let mut claims = self.now.claims.clone();
        claims.iter_mut().filter(|claim| moves(claim)).for_each(|claim| claim.priority = priority);
        Ok((self.decide(claims, Change::Comes(&changed))?, numbers))
    }

    /// Makes a decision the state. A new registration has got this number. Returns which chains
    /// have no guarantee now, in words, as far as that is new.
    pub(crate) fn commit(&mut self, mut decision: Decision, number: Option<u32>) -> Vec<String> {
        if let (Some(number), Some(claim)) = (number, decision.claims.last_mut()) {
            claim.number = number;
        }
        let news = decision.verdict.news(&self.now.verdict);
        self.now = decision;
        self.revision += 1;
        if self.rules.mode == Mode::Off { Vec::new() } else { news }
    }

    /// A session, or one registration of it, is gone: judges the rest. Returns what
    /// [`Admission::commit`] does.
    pub(crate) fn leave(&mut self, session: u64, number: Option<u32>) -> Vec<String> {
        let gone = |claim: &Claim| {
            claim.session == session && number.is_none_or(|number| claim.number == number)
        };
        let mut claims = self.now.claims.clone();
        claims.retain(|claim| !gone(claim));
        if claims.len() == self.now.claims.len() {
            self.touch();
            return Vec::new();
        }
        match self.decide(claims, Change::Leaves) {
            Ok(decision) => self.commit(decision, None),
            // No client is refused to leave.
            Err((_, text)) => vec![text],
        }
    }

    /// A session came, or went without a registration.
    pub(crate) fn touch(&mut self) {
        self.revision += 1;
    }

    fn decide(&mut self, claims: Vec<Claim>, change: Change<'_>) -> Result<Decision, Refusal> {
        let begin_ns = monotonic_ns();
        let decision = self.choose(claims, change);
        let taken_ns = monotonic_ns().saturating_sub(begin_ns);
        let counts = &mut self.counts;
        counts.decisions += 1;
        counts.refused += u64::from(decision.is_err());
        counts.last_ns = taken_ns;
        counts.longest_ns = counts.longest_ns.max(taken_ns);
        decision
    }

    /// The first spread that breaks no promise, else the first that breaks only those that give
    /// way. Who leaves gets the last one at the least.
    fn choose(&self, claims: Vec<Claim>, change: Change<'_>) -> Result<Decision, Refusal> {
        let members: Vec<Members> =
            (0..self.rules.buckets.len()).map(|index| self.members(&claims, index)).collect();
        let mut refusal = None;
        let mut last = None;
        let mut displacing = None;
        let (before, refined) = (&self.now.verdict, false);
        for spreads in self.candidates(&members) {
            let verdict = self.rules.judge(&claims, &spreads, Depth::Enough);
            let broken = match self.rules.mode {
                Mode::Enforce => verdict.broken(before, change),
                Mode::Report | Mode::Off => None,
            };
            let Some(text) = broken else {
                return Ok(Decision { claims, spreads, verdict, refined });
            };
            refusal.get_or_insert((Code::Admission, text));
            if displacing.is_none() && verdict.breaks_only_what_gives_way(before, change, &claims) {
                displacing = Some(Decision { claims: claims.clone(), spreads, verdict, refined });
                continue;
            }
            last = Some((spreads, verdict));
        }
        if let Some(decision) = displacing {
            return Ok(decision);
        }
        match (change, last) {
            (Change::Leaves, Some((spreads, verdict))) => {
                Ok(Decision { claims, spreads, verdict, refined })
            }
            _ => Err(refusal.unwrap_or((Code::Admission, "no bucket is left".into()))),
        }
    }

    /// Returns the chain priorities on an accelerator. A chain of the configuration takes its place
    /// on all of its accelerators when it comes, so that later registrations of it move no chain.
    fn members(&self, claims: &[Claim], accelerator: usize) -> Members {
        let file = &self.rules.file.system;
        let shared = &file.accelerators[accelerator];
        let id = &shared.id;
        let mut members = Members::new();
        for claim in claims {
            let chain = match claim.source {
                Source::File(index) => Some(&file.chains[index]),
                _ => None,
            };
            let reserved = self.rules.mode != Mode::Off && chain.is_some_and(|c| c.uses(id));
            if claim.accelerator == accelerator || reserved {
                let explicit = match chain {
                    Some(chain) => shared.explicit_bucket(chain),
                    None => shared.bucket_of(claim.priority),
                };
                let member = members.entry(claim.priority).or_insert(None);
                *member = member.or(explicit);
            }
        }
        members
    }

    /// The spreads to try, the best first.
    fn candidates(&self, members: &[Members]) -> impl Iterator<Item = Vec<Spread>> {
        let each = || members.iter().zip(&self.rules.buckets);
        let even: Vec<Spread> =
            each().map(|(members, &buckets)| spread::even(members, buckets)).collect();
        let kept: Option<Vec<Spread>> = each()
            .zip(&self.now.spreads)
            .map(|((members, &buckets), current)| spread::kept(current, members, buckets))
            .collect();
        let kept = kept.filter(|kept| *kept != even);
        [Some(even), kept].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests;

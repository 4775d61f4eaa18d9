//! Promises to the chains, given the registrations and their buckets.

use super::claim::{Claim, Source};
use super::explain::{Way, Why};
use super::model::{self, Model, Modelled};
use super::spread::Spread;
use super::{Change, Rules};
use accel::snapshot::{Origin, Standing};
use analysis::{Analysis, Analyzer, Status};
use system::Admission as Mode;

/// Promises to the chains, the most critical first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Verdict {
    pub chains: Vec<Judged>,
    /// Reason for which the chains cannot be analysed at all.
    contradiction: Option<String>,
}

/// Promise to one chain.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub name: String,
    pub priority: u32,
    pub origin: Origin,
    pub standing: Standing,
    pub best_effort: bool,
    pub period_ns: u64,
    pub deadline_ns: u64,
    /// 0 when there is none that holds.
    pub bound_ns: u64,
    pub callbacks: u32,
    pub positions: u32,
    /// The accelerators it uses.
    pub uses: Vec<usize>,
    why: Option<Why>,
}

impl Judged {
    /// Returns the reason for which there is no guarantee; or empty.
    pub(crate) fn note(&self) -> String {
        self.why.as_ref().map_or_else(String::new, Why::note)
    }

    fn is_guaranteed(&self) -> bool {
        self.standing == Standing::Guaranteed
    }

    /// Returns true if it asks for a promise.
    fn asks(&self) -> bool {
        self.origin != Origin::Nobody && !self.best_effort
    }
}

impl Verdict {
    /// The chains that had a guarantee before and have none now.
    fn lost<'a>(&'a self, before: &'a Verdict) -> impl Iterator<Item = &'a Judged> {
        let had = |name: &str| before.chains.iter().any(|c| c.name == name && c.is_guaranteed());
        self.chains.iter().filter(move |c| c.asks() && !c.is_guaranteed() && had(&c.name))
    }

    /// A chain that asks for a promise and has none.
    fn unpromised<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Judged> {
        self.chains.iter().filter(move |c| c.name == name && c.asks() && !c.is_guaranteed())
    }

    /// Returns true if a change breaks only promises that give way: those to chains that clients of
    /// other users declared, with a lower priority than the claim that comes. The priorities that a
    /// user may ask for say how critical its chains can be, and a small declaration of one user
    /// must not keep out what another user may have before it. A user's promises hold against its
    /// own chains, and those to chains of the configuration against all.
    pub(super) fn breaks_only_what_gives_way(
        &self,
        before: &Verdict,
        change: Change<'_>,
        claims: &[Claim],
    ) -> bool {
        let Change::Comes(candidate) = change else { return false };
        let of_others = |chain: &Judged| {
            claims.iter().filter(|c| c.chain == chain.name).all(|c| c.uid != candidate.uid)
        };
        let gives_way = |chain: &Judged| {
            let less_critical = chain.priority < candidate.priority;
            chain.origin == Origin::Clients && less_critical && of_others(chain)
        };
        let analysed = self.contradiction.is_none() || before.contradiction.is_some();
        let own = self.unpromised(&candidate.chain).next();
        analysed && own.is_none() && self.lost(before).all(gives_way)
    }

    /// Returns a log line for each chain that asks for a promise and has none: once, and again if
    /// the reason is another one.
    pub(super) fn news(&self, before: &Verdict) -> Vec<String> {
        let unpromised = self.chains.iter().filter(|c| c.asks() && !c.is_guaranteed());
        let changed = unpromised.filter_map(|chain| {
            let then = before.chains.iter().find(|then| then.name == chain.name);
            let what = match then {
                Some(then) if then.is_guaranteed() => "has lost its guarantee",
                Some(then) if then.why == chain.why => return None,
                _ => "has no guarantee",
            };
            Some(format!("chain {:?} {what}: {}", chain.name, chain.note()))
        });
        changed.collect()
    }

    /// Describes the promise that a change would break; None if it breaks none.
    pub(super) fn broken(&self, before: &Verdict, change: Change<'_>) -> Option<String> {
        let Change::Comes(candidate) = change else {
            return self.lost(before).next().map(|_| String::new());
        };
        let candidate = candidate.chain.as_str();
        if let (Some(text), None) = (&self.contradiction, &before.contradiction) {
            return Some(Why::Model(text.clone()).refusal(candidate, candidate));
        }
        let affected: Vec<&Judged> = self.lost(before).chain(self.unpromised(candidate)).collect();
        // One that fails by itself says more than one that fails with it.
        let first = affected.iter().find(|c| c.why.as_ref().is_some_and(Why::is_own));
        let affected = first.or(affected.first())?;
        let why = affected.why.as_ref()?;
        Some(why.refusal(candidate, &affected.name))
    }
}

/// Depth of an analysis: the quality of its bounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    /// The cheapest bounds that prove what is promised.
    Enough,
    /// The best bounds.
    All,
}

impl Rules {
    /// Determines the promises to the chains of these claims.
    pub(super) fn judge(&self, claims: &[Claim], spreads: &[Spread], depth: Depth) -> Verdict {
        let model = model::build(&self.file, claims, spreads);
        let (mut chains, contradiction) = match self.analysed(&model, claims, spreads, depth) {
            Ok(chains) => (chains, None),
            Err(text) => (unknown(&model, &text), Some(text)),
        };
        chains.extend(undeclared(claims));
        chains.sort_by(|a, b| (b.priority, &a.name).cmp(&(a.priority, &b.name)));
        if self.mode == Mode::Off {
            for chain in &mut chains {
                (chain.standing, chain.bound_ns, chain.why) = (Standing::Unanalysed, 0, None);
            }
        }
        Verdict { chains, contradiction }
    }

    /// The chains of the configuration and of the clients' declarations; or what contradicts what.
    fn analysed(
        &self,
        model: &Model,
        claims: &[Claim],
        spreads: &[Spread],
        depth: Depth,
    ) -> Result<Vec<Judged>, String> {
        if self.mode == Mode::Off {
            return Ok(unknown(model, ""));
        }
        if let Some(text) = &model.contradiction {
            return Err(text.clone());
        }
        let mut analyzer = Analyzer::new();
        analyzer.load(&model.system).map_err(|error| named(model, &error))?;
        let analysis = match depth {
            Depth::Enough => analyzer.decide(self.variant),
            Depth::All => analyzer.analyze(self.variant),
        };
        Ok(self.judged(model, &analysis, claims, spreads))
    }

    fn judged(
        &self,
        model: &Model,
        analysis: &Analysis,
        claims: &[Claim],
        spreads: &[Spread],
    ) -> Vec<Judged> {
        let threats = self.threats(model, analysis, claims, spreads);
        let chains = model.chains.iter().zip(&analysis.chains).enumerate();
        chains
            .filter(|(_, (chain, _))| chain.origin != Origin::Nobody)
            .map(|(index, (chain, bound))| {
                let why = threats[index].clone().or_else(|| {
                    (bound.status != Status::Ok).then(|| Why::of(&self.file, model, index, bound))
                });
                let mut judged = facts(model, index, chain);
                judged.bound_ns = if why.is_none() { bound.response_ns.unwrap_or(0) } else { 0 };
                judged.standing = match &why {
                    _ if judged.best_effort => Standing::BestEffort,
                    None => Standing::Guaranteed,
                    Some(_) => Standing::Unguaranteed,
                };
                judged.why = why;
                judged
            })
            .collect()
    }

    /// The chain without a declaration that can hold up each chain of the model, or the chain that
    /// it relies on and that is held up.
    fn threats(
        &self,
        model: &Model,
        analysis: &Analysis,
        claims: &[Claim],
        spreads: &[Spread],
    ) -> Vec<Option<Why>> {
        let loose: Vec<&Claim> =
            claims.iter().filter(|claim| claim.source == Source::Nobody).collect();
        let mut threats: Vec<Option<Why>> = (0..model.chains.len())
            .map(|index| {
                loose.iter().find_map(|claim| self.threat(model, index, claim, (claims, spreads)))
            })
            .collect();
        // Each round adds one chain at least, or is the last.
        loop {
            let hit = |index: usize| {
                let relies = &analysis.chains[index].relies_on;
                relies.iter().copied().find(|&on| threats[on].is_some())
            };
            let next = (0..threats.len()).find_map(|index| match &threats[index] {
                None => hit(index).map(|on| (index, on)),
                Some(_) => None,
            });
            let Some((index, on)) = next else { return threats };
            let name = &model.chains[on].name;
            let text = format!("it relies on chain {name:?}, which has no guarantee");
            threats[index] = Some(Why::Analysis { text, own: false });
        }
    }

    /// Finds the way in which an undeclared chain can hold up this one: a request of unknown length
    /// goes first or cannot be preempted, or a callback of unknown length has the thread.
    fn threat(
        &self,
        model: &Model,
        index: usize,
        claim: &Claim,
        (claims, spreads): (&[Claim], &[Spread]),
    ) -> Option<Why> {
        let chain = &model.system.chains[index];
        let own = chain.buckets[claim.accelerator];
        let theirs = spreads[claim.accelerator].get(&claim.priority).copied().unwrap_or(0);
        let id = || self.file.system.accelerators[claim.accelerator].id.clone();
        let modelled = &model.chains[index];
        let together = |other: &Claim| {
            other.session == claim.session
                && other.chain == modelled.name
                && other.source != Source::Nobody
        };
        let way = match chain.uses(claim.accelerator) {
            true if claim.priority >= chain.priority => Way::First(id()),
            true if theirs >= own => Way::Bucket(id()),
            _ if claims.iter().any(together) => Way::Client,
            _ => return None,
        };
        Some(Why::Undeclared { chain: claim.chain.clone(), way })
    }
}

/// Returns the facts about a chain that are known without an analysis.
fn facts(model: &Model, index: usize, modelled: &Modelled) -> Judged {
    let chain = &model.system.chains[index];
    let uses = (0..model.system.accelerators.len()).filter(|&index| chain.uses(index));
    Judged {
        name: modelled.name.clone(),
        priority: chain.priority,
        origin: modelled.origin,
        standing: Standing::Unguaranteed,
        best_effort: chain.best_effort,
        period_ns: chain.period_ns,
        deadline_ns: chain.deadline_ns,
        bound_ns: 0,
        callbacks: modelled.callbacks,
        positions: modelled.positions,
        uses: uses.collect(),
        why: None,
    }
}

/// Nothing is promised, for one reason.
fn unknown(model: &Model, text: &str) -> Vec<Judged> {
    let chains = model.chains.iter().enumerate();
    chains
        .filter(|(_, chain)| chain.origin != Origin::Nobody)
        .map(|(index, chain)| {
            let facts = facts(model, index, chain);
            let standing =
                if facts.best_effort { Standing::BestEffort } else { Standing::Unguaranteed };
            Judged { standing, why: Some(Why::Model(text.into())), ..facts }
        })
        .collect()
}

/// The error of the analysis, with the chain's name.
fn named(model: &Model, error: &analysis::Error) -> String {
    match error {
        analysis::Error::Model { chain, what, found, expected } => {
            let name = model.chains.get(*chain).map_or("?", |chain| chain.name.as_str());
            format!("chain {name:?}: {what}: found {found}, expected {expected}")
        }
        error => error.to_string(),
    }
}

/// The chains that declare nothing: known by name and priority.
fn undeclared(claims: &[Claim]) -> Vec<Judged> {
    let mut chains: Vec<Judged> = Vec::new();
    for claim in claims.iter().filter(|claim| claim.source == Source::Nobody) {
        let same =
            chains.iter_mut().find(|c| (&c.name, c.priority) == (&claim.chain, claim.priority));
        if let Some(chain) = same {
            if !chain.uses.contains(&claim.accelerator) {
                chain.uses.push(claim.accelerator);
            }
            continue;
        }
        chains.push(Judged {
            name: claim.chain.clone(),
            priority: claim.priority,
            origin: Origin::Nobody,
            standing: Standing::Undeclared,
            best_effort: false,
            period_ns: 0,
            deadline_ns: 0,
            bound_ns: 0,
            callbacks: 0,
            positions: 0,
            uses: vec![claim.accelerator],
            why: None,
        });
    }
    chains
}

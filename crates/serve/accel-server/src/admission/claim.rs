//! Claims of one registration on the system, and the checks that they can be true.
//!
//! A client's declaration is an allegation. Here its numbers are held against each other, against
//! the configuration, and against what was claimed before; whether the chains then keep their
//! deadlines is the analysis' affair.

use super::{MAX_CHAINS, MAX_POSITIONS, MAX_REQUESTS, MAX_REQUESTS_IN_ALL};
use crate::access::is_trusted;
use crate::meter::Tally;
use crate::refusal::Refusal;
use accel::control::{Code, Register, flag};
use analysis::{MAX_TIME_NS, Span, Wait};
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use system::{MAX_CORES, System, format_time};

/// The highest priority of a real-time process.
const MAX_PROCESS_PRIORITY: u32 = 99;

/// One registration as admission control sees it.
#[derive(Clone)]
pub(crate) struct Claim {
    pub session: u64,
    /// The registration's number in its session; set when it has one.
    pub number: u32,
    pub pid: i32,
    pub uid: u32,
    pub chain: String,
    pub priority: u32,
    pub accelerator: usize,
    pub source: Source,
    /// The core and the process priority that the client declares for its thread.
    pub executor: Option<(u32, u32)>,
    /// Share of each accelerator that declarations of the user may ask for, in percent; None for
    /// everything.
    pub declare: Option<Arc<BTreeMap<String, u32>>>,
    /// The chain's, shared by its claims.
    pub tally: Arc<Tally>,
}

/// Source of the parameters of a claim's chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The chain with this index in the configuration.
    File(usize),
    /// The client's declaration.
    Declared(Declaration),
    /// No declaration.
    Nobody,
}

/// Declaration of a client about one callback and its chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declaration {
    pub terms: Terms,
    /// The client's own number for the callback.
    pub callback: u64,
    pub position: u32,
    pub cpu: Span,
    pub exec: Span,
    /// Requests in one job.
    pub requests: u32,
}

/// Parameters that all registrations of one chain have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    pub period_ns: u64,
    pub deadline_ns: u64,
    pub jitter_ns: u64,
    pub wait: Wait,
    pub best_effort: bool,
}

/// Time that one request takes on its accelerator, as far as it is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Exec {
    /// Longest time, which the analysis uses; None if unknown.
    pub most_ns: Option<u64>,
    pub least_ns: u64,
    /// Time after which the device reports an overrun.
    pub budget_ns: Option<u64>,
}

fn wrong(text: String) -> Refusal {
    (Code::Declaration, text)
}

fn at_most(what: &str, found_ns: u64, limit: &str, limit_ns: u64) -> Result<(), Refusal> {
    if found_ns <= limit_ns {
        return Ok(());
    }
    let (found, most) = (format_time(found_ns), format_time(limit_ns));
    Err(wrong(format!("{what} {found}: expected at most {limit}, {most}")))
}

fn below(what: &str, found: u32, limit: u32) -> Result<(), Refusal> {
    match found < limit {
        true => Ok(()),
        false => Err(wrong(format!("{what} {found}: expected 0 to {}", limit - 1))),
    }
}

/// The executor that a registration declares.
pub(crate) fn executor(packet: &Register) -> Result<Option<(u32, u32)>, Refusal> {
    if packet.flags & flag::EXECUTOR == 0 {
        if (packet.core, packet.process_priority) != (0, 0) {
            return Err(wrong("a core or process priority without the flag of an executor".into()));
        }
        return Ok(None);
    }
    below("core", packet.core, MAX_CORES)?;
    below("process priority", packet.process_priority, MAX_PROCESS_PRIORITY + 1)?;
    Ok(Some((packet.core, packet.process_priority)))
}

/// Returns the declaration of a registration about its chain; None if it declares nothing.
pub(crate) fn declaration(packet: &Register, exec: &Exec) -> Result<Option<Declaration>, Refusal> {
    if packet.flags & !flag::ALL != 0 || packet.reserved != 0 {
        let text = format!("unknown bits in flags {:#x} or in the reserved field", packet.flags);
        return Err(wrong(text));
    }
    below("position", packet.position, MAX_POSITIONS)?;
    if !(1..=MAX_REQUESTS).contains(&packet.requests) {
        let text = format!("{} requests of one job: expected 1 to {MAX_REQUESTS}", packet.requests);
        return Err(wrong(text));
    }
    if packet.period_ns == 0 {
        return undeclared(packet).map(|()| None);
    }
    let terms = terms(packet)?;
    let limit = "2^53 ns";
    at_most("cpu", packet.cpu_ns, limit, MAX_TIME_NS)?;
    at_most("cpu_min", packet.cpu_min_ns, "cpu", packet.cpu_ns)?;
    let Some(most_ns) = exec.most_ns else {
        let text = "its execution time is not known: expected one that is declared, or an exec or \
                    a calibration of the service in the configuration";
        return Err(wrong(text.into()));
    };
    at_most("exec", most_ns, limit, MAX_TIME_NS)?;
    at_most("exec_min", packet.exec_min_ns, "exec", most_ns)?;
    Ok(Some(Declaration {
        terms,
        callback: packet.callback,
        position: packet.position,
        cpu: Span { min_ns: packet.cpu_min_ns, max_ns: packet.cpu_ns },
        exec: Span { min_ns: exec.least_ns.min(most_ns), max_ns: most_ns },
        requests: packet.requests,
    }))
}

/// Nothing that means something only with a period.
fn undeclared(packet: &Register) -> Result<(), Refusal> {
    let times = [
        ("deadline", packet.deadline_ns),
        ("jitter", packet.jitter_ns),
        ("cpu", packet.cpu_ns),
        ("cpu_min", packet.cpu_min_ns),
    ];
    if let Some((what, ns)) = times.into_iter().find(|(_, ns)| *ns > 0) {
        let text = format!("{what} {} without a period: expected both or none", format_time(ns));
        return Err(wrong(text));
    }
    if packet.flags & flag::BEST_EFFORT != 0 {
        return Err(wrong("best effort without a period: expected both or none".into()));
    }
    Ok(())
}

fn terms(packet: &Register) -> Result<Terms, Refusal> {
    let set = |bit: u32| packet.flags & bit != 0;
    let period_ns = packet.period_ns;
    at_most("period", period_ns, "2^53 ns", MAX_TIME_NS)?;
    at_most("deadline", packet.deadline_ns, "the period", period_ns)?;
    at_most("jitter", packet.jitter_ns, "the period", period_ns)?;
    Ok(Terms {
        period_ns,
        deadline_ns: if packet.deadline_ns == 0 { period_ns } else { packet.deadline_ns },
        jitter_ns: packet.jitter_ns,
        wait: if set(flag::SPINS) { Wait::Spin } else { Wait::Suspend },
        best_effort: set(flag::BEST_EFFORT),
    })
}

/// A chain that the configuration names is what the configuration says.
pub(crate) fn agrees_with_file(packet: &Register, chain: &system::Chain) -> Result<(), Refusal> {
    let said = [
        ("a period", packet.period_ns, chain.period_ns),
        ("a deadline", packet.deadline_ns, chain.deadline_ns),
    ];
    for (what, declared_ns, configured_ns) in said {
        if declared_ns != 0 && declared_ns != configured_ns {
            let (found, expected) = (format_time(declared_ns), format_time(configured_ns));
            return Err(wrong(format!(
                "chain {:?} declares {what} of {found}, the configuration gives it {expected}",
                chain.id
            )));
        }
    }
    Ok(())
}

/// Checks that a claim agrees with the configuration and with the claims before it.
pub(super) fn check(file: &System, claims: &[Claim], claim: &Claim) -> Result<(), Refusal> {
    one_executor(claims, claim)?;
    match &claim.source {
        Source::File(index) => uses(file, *index, claim),
        Source::Declared(declaration) => {
            if claim.executor.is_none() {
                return Err(wrong(format!(
                    "chain {:?} declares a period but no executor: expected the core and the \
                     process priority of the thread that runs it",
                    claim.chain
                )));
            }
            limits(claims, claim, declaration)?;
            share(file, claims, claim)?;
            one_priority(file, claims, claim)?;
            one_chain(claims, claim, declaration)?;
            one_callback(claims, claim, declaration)
        }
        Source::Nobody => {
            let declared = |other: &&Claim| {
                other.chain == claim.chain && matches!(other.source, Source::Declared(_))
            };
            match claims.iter().find(declared) {
                None => Ok(()),
                Some(other) => Err(wrong(format!(
                    "chain {:?} has a period, which process {} declares: expected the same",
                    claim.chain, other.pid
                ))),
            }
        }
    }
}

/// A session is one thread.
fn one_executor(claims: &[Claim], claim: &Claim) -> Result<(), Refusal> {
    let Some((core, priority)) = claim.executor else { return Ok(()) };
    let own = claims.iter().filter(|other| other.session == claim.session);
    match own.filter_map(|other| other.executor).find(|other| *other != (core, priority)) {
        None => Ok(()),
        Some((other_core, other_priority)) => Err(wrong(format!(
            "chain {:?} declares core {core} at priority {priority}, this client declared core \
             {other_core} at priority {other_priority}: expected one executor for each client",
            claim.chain
        ))),
    }
}

/// A configured chain is accounted for on the accelerators that the configuration names.
fn uses(file: &System, index: usize, claim: &Claim) -> Result<(), Refusal> {
    let chain = &file.chains[index];
    let accelerator = &file.accelerators[claim.accelerator].id;
    if chain.uses(accelerator) {
        return Ok(());
    }
    let text = format!(
        "chain {:?} has no segment on accelerator {accelerator:?} in the configuration",
        chain.id
    );
    Err(wrong(text))
}

/// Bounds what one decision can cost. One user may have half of it, unless it is root or the
/// server's own: something is left for others.
fn limits(claims: &[Claim], claim: &Claim, declaration: &Declaration) -> Result<(), Refusal> {
    let all = demand(claims.iter(), claim, declaration);
    let own = demand(claims.iter().filter(|other| other.uid == claim.uid), claim, declaration);
    let trusted = is_trusted(claim.uid);
    let (part, whose) =
        if trusted { (1, "the server's limit") } else { (2, "the limit of one user") };
    let limit = |text: String| Err((Code::Limit, text));
    for ((chains, requests), part, whose) in [(all, 1, "the server's limit"), (own, part, whose)] {
        let (most_chains, most_requests) = (MAX_CHAINS / part, MAX_REQUESTS_IN_ALL / part as u32);
        if chains > most_chains {
            return limit(format!("{most_chains} chains are declared, {whose}"));
        }
        if requests > most_requests {
            return limit(format!(
                "{requests} requests in one job of every chain, {whose} is {most_requests}"
            ));
        }
    }
    Ok(())
}

/// The declared chains of some claims and a new one, and their requests in one job of each.
fn demand<'a>(
    others: impl Iterator<Item = &'a Claim>,
    claim: &'a Claim,
    declaration: &Declaration,
) -> (usize, u32) {
    let mut chains = HashSet::from([claim.chain.as_str()]);
    let mut requests = declaration.requests;
    for other in others {
        if let Source::Declared(declaration) = &other.source {
            chains.insert(&other.chain);
            requests = requests.saturating_add(declaration.requests);
        }
    }
    (chains.len(), requests)
}

/// Checks that the chains which a user's clients declare ask for no more than the user's share of
/// the accelerator, which may be nothing.
fn share(file: &System, claims: &[Claim], claim: &Claim) -> Result<(), Refusal> {
    let Some(shares) = &claim.declare else { return Ok(()) };
    let (chain, uid) = (&claim.chain, claim.uid);
    if shares.is_empty() {
        let text = format!(
            "chain {chain:?} declares a period: user {uid} may not declare any on this server \
             (server.access, key declare)"
        );
        return Err((Code::NotAllowed, text));
    }
    let id = &file.accelerators[claim.accelerator].id;
    let percent = shares.get(id).copied().unwrap_or(0);
    let same = |other: &&Claim| (other.uid, other.accelerator) == (uid, claim.accelerator);
    let own = claims.iter().chain([claim]).filter(same);
    let ppm: u128 = own.map(|claim| claim.share_ppm()).sum();
    if ppm <= u128::from(percent) * 10_000 {
        return Ok(());
    }
    let text = format!(
        "chain {chain:?}: with it, the chains that user {uid} declares ask for {}.{:02} % of \
         accelerator {id:?}, the limit of this user is {percent} % (server.access, key declare)",
        ppm / 10_000,
        ppm % 10_000 / 100
    );
    Err((Code::Limit, text))
}

impl Claim {
    /// The declared share of its accelerator's time, in millionths, rounded up.
    fn share_ppm(&self) -> u128 {
        let Source::Declared(declaration) = &self.source else { return 0 };
        let busy_ns = u128::from(declaration.exec.max_ns) * u128::from(declaration.requests);
        (busy_ns * 1_000_000).div_ceil(u128::from(declaration.terms.period_ns.max(1)))
    }
}

/// Chain priorities are unique, and those of the configuration are taken.
fn one_priority(file: &System, claims: &[Claim], claim: &Claim) -> Result<(), Refusal> {
    let configured = file.chains.iter().find(|chain| chain.priority == claim.priority);
    let taken = |other: &&Claim| {
        other.priority == claim.priority
            && other.chain != claim.chain
            && matches!(other.source, Source::Declared(_))
    };
    let other = configured.map(|chain| chain.id.as_str());
    let other = other.or_else(|| claims.iter().find(taken).map(|other| other.chain.as_str()));
    match other {
        None => Ok(()),
        Some(other) => Err(wrong(format!(
            "chain {:?} declares priority {}, which is that of chain {other:?}: expected one of \
             its own",
            claim.chain, claim.priority
        ))),
    }
}

/// All registrations of a chain declare the same chain.
fn one_chain(claims: &[Claim], claim: &Claim, own: &Declaration) -> Result<(), Refusal> {
    let mut others = claims.iter().filter(|other| other.chain == claim.chain);
    let differs = others.find_map(|other| {
        let what = match &other.source {
            Source::Declared(theirs) => own.terms.difference(&theirs.terms).or_else(|| {
                let (own, theirs) = (claim.priority, other.priority);
                (own != theirs).then(|| format!("priority {own}, not {theirs}"))
            }),
            _ => Some("a period, not none".into()),
        };
        what.map(|what| (what, other.pid))
    });
    match differs {
        None => Ok(()),
        Some((what, pid)) => Err(wrong(format!(
            "chain {:?} declares {what} as process {pid} did: expected the same in all of its \
             registrations",
            claim.chain
        ))),
    }
}

impl Terms {
    /// The first value that is another one.
    fn difference(&self, other: &Terms) -> Option<String> {
        let times = [
            ("period", self.period_ns, other.period_ns),
            ("deadline", self.deadline_ns, other.deadline_ns),
            ("jitter", self.jitter_ns, other.jitter_ns),
        ];
        let time = times.into_iter().find(|(_, own, theirs)| own != theirs);
        if let Some((what, own, theirs)) = time {
            return Some(format!("{what} {}, not {}", format_time(own), format_time(theirs)));
        }
        if self.wait != other.wait {
            return Some(format!("wait {:?}, not {:?}", self.wait, other.wait).to_lowercase());
        }
        (self.best_effort != other.best_effort)
            .then(|| format!("best effort {}, not {}", self.best_effort, other.best_effort))
    }
}

/// A position belongs to one callback, and a callback has one position. A second registration of
/// the same callback is another segment of it.
fn one_callback(claims: &[Claim], claim: &Claim, own: &Declaration) -> Result<(), Refusal> {
    for other in claims.iter().filter(|other| other.chain == claim.chain) {
        let Source::Declared(theirs) = &other.source else { continue };
        let same = (other.session, theirs.callback) == (claim.session, own.callback);
        let text = match (same, theirs.position == own.position) {
            (false, true) => format!(
                "position {} of chain {:?} is that of callback {} of process {}",
                own.position, claim.chain, theirs.callback, other.pid
            ),
            (true, false) => format!(
                "callback {} of chain {:?} stands at position {}, not {}",
                own.callback, claim.chain, theirs.position, own.position
            ),
            (true, true) if theirs.cpu != own.cpu => format!(
                "callback {} of chain {:?} declares cpu {} to {}, another registration of it \
                 {} to {}: expected the same",
                own.callback,
                claim.chain,
                format_time(own.cpu.min_ns),
                format_time(own.cpu.max_ns),
                format_time(theirs.cpu.min_ns),
                format_time(theirs.cpu.max_ns)
            ),
            _ => continue,
        };
        return Err(wrong(text));
    }
    Ok(())
}

#[cfg(test)]
mod claim_tests;

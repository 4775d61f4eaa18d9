//! A system of chains, run for real under several policies, beside its bounds.
//!
//! The runner fills a [`ChainsRun`]. A chain of a policy is matched to its [`ChainInfo`] by id;
//! the order of the tables is that of [`ChainsRun::chains`], the order of the policies that of
//! [`ChainsRun::policies`].

mod chains_conclusion;

use crate::document::{
    Chart, Class, Document, Fact, Limit, Row, Section, Series, Shape, Table, facts,
};
use crate::number::{Unit, count, listed};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stats::Summary;

/// The policy that the others are compared with.
pub const PRIORITY: &str = "priority";

/// The result of running a system of chains.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainsRun {
    /// The system file.
    pub system_name: String,
    /// The machine, in words.
    pub machine: String,
    /// The command that made this result.
    pub command: String,
    /// Date of the run, as text.
    pub date: String,
    /// Running time of each policy.
    pub duration_ns: u64,
    /// Policies under which critical chains have to be punctual.
    #[serde(default)]
    pub judged: Vec<String>,
    /// Notes on the validity of all results, such as "ran at normal priority".
    pub marks: Vec<String>,
    /// The chains.
    pub chains: Vec<ChainInfo>,
    /// One result per policy.
    pub policies: Vec<PolicyRun>,
}

/// Facts about a chain that are known before it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainInfo {
    /// Its name.
    pub id: String,
    /// Larger is more critical.
    pub priority: u32,
    /// Distance between two releases.
    pub period_ns: u64,
    /// Relative deadline.
    pub deadline_ns: u64,
    /// True if its deadline does not count.
    pub best_effort: bool,
    /// The guaranteed response time under [`PRIORITY`], where there is one.
    pub bound_ns: Option<u64>,
}

/// The results under one policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PolicyRun {
    /// The policy.
    pub policy: String,
    /// Notes on the validity of the results of this policy.
    pub marks: Vec<String>,
    /// One result per chain.
    pub chains: Vec<ChainResult>,
    /// Other facts, name and value, such as the share of time the accelerator was busy.
    pub facts: Vec<(String, String)>,
}

/// The result of one chain under one policy.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ChainResult {
    /// The chain.
    pub id: String,
    /// Completed jobs.
    pub jobs: u64,
    /// Releases that were left out because the job before was still running.
    pub skipped: u64,
    /// Jobs that were still running at the end.
    pub unfinished: u64,
    /// Missed deadlines.
    pub misses: u64,
    /// Response times, in order of release.
    pub response_ns: Vec<u64>,
    /// The slowest of them.
    pub slowest: Option<Slowest>,
}

/// Parts of the response time of a chain's slowest job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Slowest {
    /// The number of its release, from 0.
    pub job: u64,
    /// Time from its release to its end: the sum of all below.
    pub response_ns: u64,
    /// Time that it waited until a callback of it ran.
    pub waiting_ns: u64,
    /// Its callbacks ran, or their core ran something more urgent.
    pub computing_ns: u64,
    /// Time from submissions until the server took them.
    pub sending_ns: u64,
    /// Time from then until the accelerator began.
    pub queued_ns: u64,
    /// Time until the accelerator had finished, what came in between included.
    pub working_ns: u64,
    /// Time until the callback went on.
    pub answering_ns: u64,
}

impl Slowest {
    /// The parts that the response time is made of, with names.
    pub fn parts(&self) -> [(&'static str, u64); 6] {
        [
            ("until it ran", self.waiting_ns),
            ("computing", self.computing_ns),
            ("to the server", self.sending_ns),
            ("queued", self.queued_ns),
            ("on the accelerator", self.working_ns),
            ("answered", self.answering_ns),
        ]
    }
}

impl ChainsRun {
    /// The chain with the highest priority whose deadline counts; where none counts, the chain
    /// with the highest priority.
    pub fn most_critical(&self) -> Option<&ChainInfo> {
        self.chains.iter().max_by_key(|chain| (!chain.best_effort, chain.priority))
    }

    /// Reasons for which the run has failed: critical chains that missed deadlines, or exceeded
    /// their bounds, under a policy that is judged.
    pub fn failures(&self) -> Vec<String> {
        let judged = self.policies.iter().filter(|policy| self.judged.contains(&policy.policy));
        let critical = self.chains.iter().filter(|chain| !chain.best_effort);
        let pairs = judged.flat_map(|policy| critical.clone().map(move |chain| (policy, chain)));
        pairs.filter_map(|(policy, chain)| failure(policy, chain)).collect()
    }

    /// The results of the policy with this name.
    pub fn policy(&self, name: &str) -> Option<&PolicyRun> {
        self.policies.iter().find(|run| run.policy == name)
    }
}

impl PolicyRun {
    /// The result of the chain with this name.
    pub fn chain(&self, id: &str) -> Option<&ChainResult> {
        self.chains.iter().find(|chain| chain.id == id)
    }
}

impl ChainResult {
    /// Order statistics of the response times; none where there are none.
    pub fn summary(&self) -> Option<Summary<u64>> {
        Summary::of_ns(&self.response_ns)
    }

    /// "3 skipped, 1 unfinished", or nothing where every release became a completed job.
    fn left_out(&self) -> Option<String> {
        match (self.skipped, self.unfinished) {
            (0, 0) => None,
            (skipped, 0) => Some(format!("{skipped} skipped")),
            (0, unfinished) => Some(format!("{unfinished} unfinished")),
            (skipped, unfinished) => Some(format!("{skipped} skipped, {unfinished} unfinished")),
        }
    }
}

/// Says that a chain failed under a policy, if it did.
fn failure(policy: &PolicyRun, chain: &ChainInfo) -> Option<String> {
    let (result, id, under) = (policy.chain(&chain.id)?, &chain.id, &policy.policy);
    let (misses, jobs) = (result.misses, result.jobs + result.unfinished);
    if misses > 0 {
        let (misses, jobs) = (count(misses), count(jobs));
        return Some(format!("{id} missed {misses} of {jobs} deadlines under {under}"));
    }
    let over = over_bound(under, chain, result.summary());
    over.then(|| format!("{id} exceeded its bound under {under}"))
}

/// Returns true if a response was longer than the guaranteed one. Only [`PRIORITY`] is guaranteed.
fn over_bound(policy: &str, chain: &ChainInfo, summary: Option<Summary<u64>>) -> bool {
    match (chain.bound_ns, summary) {
        (Some(bound_ns), Some(summary)) => policy == PRIORITY && summary.max > bound_ns,
        _ => false,
    }
}

/// Number of deadlines that the critical chains missed, and number of their jobs. A job that never
/// ended counts as both.
fn critical_misses(run: &ChainsRun, policy: &PolicyRun) -> (u64, u64) {
    let critical = run.chains.iter().filter(|chain| !chain.best_effort);
    let results = critical.filter_map(|chain| policy.chain(&chain.id));
    results.fold((0, 0), |(misses, jobs), result| {
        (misses + result.misses, jobs + result.jobs + result.unfinished)
    })
}

/// The result as JSON: `policies`, by policy `chains`, by chain `period_ns`, `jobs`, `p50_ns`,
/// `p99_ns`, `max_ns`, `misses` and `bound_ns`, with null where there is no number; further keys
/// say what qualifies the numbers.
pub fn json(run: &ChainsRun) -> Value {
    let policy = |policy: &PolicyRun| {
        let results = run.chains.iter().filter_map(|chain| Some((chain, policy.chain(&chain.id)?)));
        let chains = results.map(|(chain, result)| (&*chain.id, chain_json(chain, result)));
        let (facts, chains) = (Value::from_iter(policy.facts.clone()), Value::from_iter(chains));
        (policy.policy.clone(), json!({ "marks": policy.marks, "facts": facts, "chains": chains }))
    };
    json!({
        "system": run.system_name,
        "machine": run.machine,
        "command": run.command,
        "date": run.date,
        "duration_ns": run.duration_ns,
        "judged": run.judged,
        "failures": run.failures(),
        "marks": run.marks,
        "policies": Value::from_iter(run.policies.iter().map(policy)),
    })
}

fn chain_json(chain: &ChainInfo, result: &ChainResult) -> Value {
    let summary = result.summary();
    json!({
        "period_ns": chain.period_ns,
        "deadline_ns": chain.deadline_ns,
        "priority": chain.priority,
        "best_effort": chain.best_effort,
        "jobs": result.jobs,
        "skipped": result.skipped,
        "unfinished": result.unfinished,
        "p50_ns": summary.map(|s| s.p50),
        "p99_ns": summary.map(|s| s.p99),
        "max_ns": summary.map(|s| s.max),
        "misses": result.misses,
        "bound_ns": chain.bound_ns,
        "slowest": result.slowest,
    })
}

/// The result as people read it: every number of every chain and policy, and the distributions.
pub fn document(run: &ChainsRun) -> Document {
    let of_policies = run.policies.iter().flat_map(|policy| {
        policy.marks.iter().map(move |mark| format!("{}: {mark}", policy.policy))
    });
    Document {
        kind: "keeptime-lab chains".to_owned(),
        title: run.system_name.clone(),
        conclusion: chains_conclusion::conclusion(run),
        command: run.command.clone(),
        date: run.date.clone(),
        facts: facts([
            ("Machine", &run.machine),
            ("Each policy ran", &format!("{:.1} s", run.duration_ns as f64 / 1e9)),
        ]),
        marks: run.marks.iter().cloned().chain(of_policies).collect(),
        sections: vec![chains_section(run), policies_section(run), distributions(run)],
        notes: [
            "A line of a distribution gives, for each time, the share of jobs that were done by \
             then; its dot is the longest response. A steep line far to the left is good, and a \
             long flat top is what makes a chain late.",
            "p50 and p99 are nearest-rank percentiles over all completed jobs; the maximum is a \
             percentile of its own. A bound is the analysed worst case under the priority policy; \
             without one, nothing is guaranteed.",
        ]
        .map(str::to_owned)
        .into(),
        ..Document::default()
    }
}

fn unit(run: &ChainsRun) -> Unit {
    Unit::of_longest(run.chains.iter().map(|chain| chain.period_ns).max().unwrap_or(0))
}

/// Every number of every chain under every policy.
fn chains_section(run: &ChainsRun) -> Section {
    let policies = |chain| run.policies.iter().enumerate().map(move |it| row(run, chain, it));
    let head = "chain|policy|priority|period|deadline|jobs|p50|p99|max|misses|bound";
    let table = Table::new("", head.split('|'), run.chains.iter().flat_map(policies));
    let best_effort = run.chains.iter().filter(|chain| chain.best_effort);
    let best_effort: Vec<&str> = best_effort.map(|chain| chain.id.as_str()).collect();
    let mut about = format!("Times in {}.", unit(run).name());
    if !best_effort.is_empty() {
        about += &format!(" Best effort: {}.", listed(&best_effort));
    }
    Section::new("Chains", about).table(table.left(&[1])).charts([overview(run)])
}

fn own_deadline(chain: &ChainInfo) -> bool {
    chain.deadline_ns != chain.period_ns
}

/// A chain under a policy; what the chain has under all of them stands in its first row.
fn row(run: &ChainsRun, chain: &ChainInfo, (place, policy): (usize, &PolicyRun)) -> Row {
    let (unit, result) = (unit(run), policy.chain(&chain.id));
    let summary = result.and_then(ChainResult::summary);
    let time = |pick: fn(Summary<u64>) -> u64| summary.map(|summary| unit.cell(pick(summary)));
    let once = |text: String| if place == 0 { text } else { String::new() };
    let deadline = Some(chain.deadline_ns).filter(|_| own_deadline(chain));
    let over = over_bound(&policy.policy, chain, summary);
    let misses = result.map(|result| result.misses);
    let missed = match misses {
        None => Class::Plain,
        Some(0) => Class::Good,
        Some(_) if chain.best_effort => Class::Warn,
        Some(_) => Class::Bad,
    };
    let bound = chain.bound_ns.filter(|_| policy.policy == PRIORITY);
    let cells = [
        Class::Faint.when(chain.best_effort).cell(&chain.id),
        Class::Series(place).cell(&policy.policy),
        once(chain.priority.to_string()).into(),
        once(unit.cell(chain.period_ns)).into(),
        once(deadline.map_or(String::new(), |ns| unit.cell(ns))).into(),
        result.map(|result| count(result.jobs)).into(),
        time(|summary| summary.p50).into(),
        time(|summary| summary.p99).into(),
        Class::Bad.when(over).cell(time(|summary| summary.max).unwrap_or("-".to_owned())),
        missed.cell(misses.map_or("-".to_owned(), count)),
        Class::Bad.when(over).cell(bound.map_or(String::new(), |ns| unit.cell(ns))),
    ];
    let left_out = result.and_then(ChainResult::left_out);
    Row::remarked(cells, left_out.map_or(String::new(), |left_out| format!("! {left_out}")))
}

/// Totals of each policy, and where the slowest job of the most critical chain spent its time.
fn policies_section(run: &ChainsRun) -> Section {
    let (unit, critical) = (unit(run), run.most_critical().map_or("", |chain| &chain.id));
    let slowest = |slowest: Slowest| {
        let parts = slowest.parts().into_iter().filter(|(_, ns)| *ns > 0);
        let parts = parts.map(|(name, ns)| (format!("    {name}"), unit.cell(ns)));
        let whole = ("    its response".to_owned(), unit.cell(slowest.response_ns));
        let job = (format!("slowest job of {critical}"), slowest.job.to_string());
        [job, whole].into_iter().chain(parts)
    };
    let facts = |policy: &PolicyRun| -> Vec<Fact> {
        let (missed, jobs) = critical_misses(run, policy);
        let missed = format!("{} of {}", count(missed), count(jobs));
        let missed = ("deadlines missed by critical chains".to_owned(), missed);
        let slow = policy.chain(critical).and_then(|result| result.slowest);
        let facts = [missed].into_iter().chain(policy.facts.iter().cloned());
        facts.chain(slow.into_iter().flat_map(slowest)).collect()
    };
    let columns: Vec<Vec<Fact>> = run.policies.iter().map(facts).collect();
    let names = run.policies.iter().map(|policy| policy.policy.as_str());
    let about = format!("Times in {}; {critical} is the most critical chain.", unit.name());
    Section::new("Policies", about).table(Table::of_facts(names, &columns))
}

/// The longest response of every chain under every policy, with the range from its median to its
/// 99th percentile, in percent of the chain's period.
fn overview(run: &ChainsRun) -> Chart {
    let series = |policy: &PolicyRun| {
        let results = run.chains.iter().map(|chain| {
            let whole = if chain.period_ns > 0 { chain.period_ns as f64 } else { f64::INFINITY };
            let summary = policy.chain(&chain.id).and_then(ChainResult::summary);
            (&chain.id, summary.map(|s| [s.p50, s.p99, s.max].map(|ns| 100.0 * ns as f64 / whole)))
        });
        let spread = results.clone().filter_map(|(_, times)| times.map(|[p50, p99, _]| (p50, p99)));
        let longest = results.clone().map(|(id, times)| (id, times.map(|[_, _, max]| max)));
        Series { spread: spread.collect(), ..Series::at_places(&policy.policy, longest) }
    };
    let title = "Every chain against its period: longest response, and from median to p99";
    let axes = ("chain", "% of the chain's period");
    let period = Limit { name: "period".to_owned(), at: 100.0, class: Class::Bad };
    let chart = Chart::new(title, axes, Shape::Bars, run.policies.iter().map(series));
    Chart { limits: vec![period], ..chart }
}

fn distributions(run: &ChainsRun) -> Section {
    Section::new("Distributions", "")
        .charts(run.chains.iter().map(|chain| distribution(run, chain)))
}

/// The share of a chain's jobs that were done after a given time, by policy.
fn distribution(run: &ChainsRun, chain: &ChainInfo) -> Chart {
    let unit = unit(run);
    let series = run.policies.iter().map(|policy| {
        let result = policy.chain(&chain.id).map_or(&[][..], |result| &result.response_ns);
        let times: Vec<f64> = result.iter().map(|ns| unit.convert(*ns)).collect();
        Series::distribution(&policy.policy, &times)
    });
    let own = own_deadline(chain);
    let limits = [
        chain.bound_ns.map(|ns| ("bound", ns, Class::Plain)),
        own.then_some(("deadline", chain.deadline_ns, Class::Bad)),
        Some(("period", chain.period_ns, if own { Class::Faint } else { Class::Bad })),
    ];
    let limit = |(name, ns, class): (&str, u64, Class)| Limit {
        name: format!("{name} {}", unit.words(ns)),
        at: unit.convert(ns),
        class,
    };
    let title = format!("{}{}", chain.id, if chain.best_effort { " (best effort)" } else { "" });
    let x = format!("response time in {}", unit.name());
    let axes = (x.as_str(), "% of the jobs that were done");
    let chart = Chart::new(title, axes, Shape::Distribution, series);
    Chart { limits: limits.into_iter().flatten().map(limit).collect(), ..chart }
}

//! Claims of the published study, beside the results of this run.
//!
//! Each claim has a criterion that was fixed before anything was measured; the verdict follows from
//! the samples alone.

use super::compare::{Comparison, comparisons, streams_of};
use super::contender::{Contender, contenders};
use super::unit::{count, factor, shape as size, time};
use crate::Method;
use crate::network::Shape;
use crate::study::Study;
use crate::summary::Time;
use report::document::{Class, Table};
use report::number::listed;

/// Largest speed-up of submissions in the published study.
const FASTER_SUBMISSION: f64 = 11.0;
/// Smallest speed-up of operations in the published study.
const FASTER_COMPLETION: f64 = 2.0;

/// Verdict on a claim.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Confirmed,
    Partly,
    Refuted,
    NotMeasured,
}

impl Verdict {
    /// All verdicts, the best first.
    pub(super) const ALL: [Verdict; 4] =
        [Verdict::Confirmed, Verdict::Partly, Verdict::Refuted, Verdict::NotMeasured];

    /// Name in one to three words.
    pub(super) fn name(self) -> &'static str {
        match self {
            Verdict::Confirmed => "confirmed",
            Verdict::Partly => "confirmed in part",
            Verdict::Refuted => "refuted",
            Verdict::NotMeasured => "not measured here",
        }
    }

    /// Verdict from the number of confirmations and that of all comparisons.
    fn of(so: usize, all: usize) -> Verdict {
        match so {
            _ if all == 0 => Verdict::NotMeasured,
            0 => Verdict::Refuted,
            _ if so == all => Verdict::Confirmed,
            _ => Verdict::Partly,
        }
    }
}

/// A claim of the published study.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Claim {
    /// Text of the claim.
    pub(super) claim: &'static str,
    /// Conditions under which it counts as confirmed here, and as refuted.
    pub(super) criterion: &'static str,
    /// Result of this run.
    pub(super) found: String,
    /// Verdict that follows from the result.
    pub(super) verdict: Verdict,
}

/// All claims.
pub(super) fn claims(study: &Study) -> Vec<Claim> {
    let contenders = contenders(study);
    let all = comparisons(study, &contenders);
    let comparisons_of =
        |method| all.iter().filter(|one| one.contender.method == method).collect::<Vec<_>>();
    let vulkan = comparisons_of(Method::CommandBuffer);
    let (graph, dynamic) =
        (comparisons_of(Method::Graph), comparisons_of(Method::DynamicParallelism));
    let newer: Vec<&Comparison<'_>> = graph.iter().chain(&dynamic).copied().collect();
    let (submission, completion) = (faster_submission(&vulkan), faster_completion(&vulkan));
    let (least, jitter) = (least(study, &contenders, &vulkan), jitter(study, &contenders, &vulkan));
    let (slightly, shrinks) = (slightly(&newer), shrinks(&graph, &dynamic));
    let no_vulkan = "no Vulkan command buffer beside CUDA streams on the same GPU";
    let no_newer = "neither CUDA graphs nor dynamic parallelism beside CUDA streams";
    let claim = |claim, criterion, found: Option<(String, Verdict)>, none: &str| {
        let not = || (format!("This run has {none}."), Verdict::NotMeasured);
        let (found, verdict) = found.unwrap_or_else(not);
        Claim { claim, criterion, found, verdict }
    };
    vec![
        claim(
            "With Vulkan, submissions are up to 11 times faster.",
            "Confirmed if the median submission of command buffers is at least 11 times shorter \
             than that of streams at some size, in part if it is shorter at some size.",
            submission,
            no_vulkan,
        ),
        claim(
            "With Vulkan, operations of the GPU are 2 to 6 times faster.",
            "Confirmed if the median completion of command buffers is at least 2 times shorter \
             than that of streams at every size, in part if at some size.",
            completion,
            no_vulkan,
        ),
        claim(
            "Vulkan has the least overhead on the processor in all configurations.",
            "Confirmed if the median submission of command buffers is the shortest of streams, \
             graphs, dynamic parallelism and command buffers at every size, in part if at some.",
            least,
            no_vulkan,
        ),
        claim(
            "With Vulkan, jitter is almost negligible.",
            "Confirmed if the jitter of the submission of command buffers is below that of streams \
             at every size, in part if at some size.",
            jitter,
            no_vulkan,
        ),
        claim(
            "CUDA graphs and dynamic parallelism improve both times slightly.",
            "Confirmed if both methods have both times shorter than streams at their middle size \
             (the median of all sizes' factors), in part if some of these are.",
            slightly,
            no_newer,
        ),
        claim(
            "In deep networks with much data these gains shrink or are lost, above all with \
             dynamic parallelism.",
            "Confirmed if the completion's factor of dynamic parallelism over streams is smaller \
             at the largest size than at the smallest, and there smaller than that of graphs; in \
             part if one of the two.",
            shrinks,
            "no dynamic parallelism beside CUDA streams",
        ),
    ]
}

/// The claims as a table.
pub(super) fn table(claims: &[Claim]) -> Table {
    let rows = claims.iter().map(|claim| {
        let look = match claim.verdict {
            Verdict::Confirmed => Class::Good,
            Verdict::Refuted => Class::Bad,
            Verdict::Partly | Verdict::NotMeasured => Class::Plain,
        };
        let verdict = look.cell(claim.verdict.name());
        [claim.claim.into(), claim.criterion.into(), verdict, claim.found.as_str().into()]
    });
    Table::new(
        "Claims of the published study",
        ["claim", "criterion", "verdict", "found here"],
        rows,
    )
    .left(&[1, 2, 3])
}

type Found = Option<(String, Verdict)>;

fn faster_submission(vulkan: &[&Comparison<'_>]) -> Found {
    let ranges = vulkan.iter().filter_map(|one| one.range(Time::Submission));
    let (_, most) = ranges.max_by(|a, b| a.1.times.total_cmp(&b.1.times))?;
    let verdict = match most.times {
        times if times >= FASTER_SUBMISSION => Verdict::Confirmed,
        times if times > 1.0 => Verdict::Partly,
        _ => Verdict::Refuted,
    };
    let times = factor(most.times);
    Some((format!("At most {times} times faster, at {}.", size(most.shape)), verdict))
}

fn faster_completion(vulkan: &[&Comparison<'_>]) -> Found {
    let gains = || vulkan.iter().flat_map(|one| one.gains(Time::Completion));
    let most = gains().max_by(|a, b| a.times.total_cmp(&b.times))?;
    let least = gains().min_by(|a, b| a.times.total_cmp(&b.times))?;
    let so = gains().filter(|gain| gain.times >= FASTER_COMPLETION).count();
    let all = gains().count();
    let found = format!(
        "From {} times (at {}) to {} times (at {}) as fast; at least 2 times at {so} of {}.",
        factor(least.times),
        size(least.shape),
        factor(most.times),
        size(most.shape),
        count(all, "size")
    );
    Some((found, Verdict::of(so, all)))
}

/// The contenders of the published study on the device of a command buffer.
fn published<'c>(
    study: &Study,
    contenders: &'c [Contender<'c>],
    vulkan: &Comparison<'_>,
) -> Vec<&'c Contender<'c>> {
    let streams = streams_of(study, contenders, vulkan.contender.accelerator);
    let methods = [Method::Streams, Method::Graph, Method::DynamicParallelism];
    let takes_part =
        |one: &&Contender<'_>| Some(one.accelerator) == streams && methods.contains(&one.method);
    contenders.iter().filter(takes_part).collect()
}

fn least(study: &Study, contenders: &[Contender<'_>], vulkan: &[&Comparison<'_>]) -> Found {
    let (mut so, mut all) = (0, 0);
    for one in vulkan {
        let others = published(study, contenders, one);
        for gain in one.gains(Time::Submission) {
            let median = |contender: &Contender<'_>| {
                Some(contender.spread(gain.shape, Time::Submission)?.median_ns)
            };
            let own = median(one.contender)?;
            all += 1;
            so += usize::from(others.iter().filter_map(|one| median(one)).all(|ns| own < ns));
        }
    }
    let found = format!("Its submission is the shortest at {so} of {}.", count(all, "size"));
    (all > 0).then(|| (found, Verdict::of(so, all)))
}

fn jitter(study: &Study, contenders: &[Contender<'_>], vulkan: &[&Comparison<'_>]) -> Found {
    let mut pairs: Vec<(f64, f64)> = Vec::new();
    for one in vulkan {
        let others = published(study, contenders, one);
        let streams = others.iter().find(|one| one.method == Method::Streams)?;
        let jitter_of = |contender: &Contender<'_>, shape: Shape| {
            Some(contender.spread(shape, Time::Submission)?.jitter_ns)
        };
        let shapes = one.gains(Time::Submission).iter().map(|gain| gain.shape);
        pairs.extend(
            shapes.filter_map(|at| Some((jitter_of(one.contender, at)?, jitter_of(streams, at)?))),
        );
    }
    let so = pairs.iter().filter(|(own, streams)| own < streams).count();
    let middle = |values: Vec<f64>| stats::nearest_rank(&stats::ascending(&values), 500);
    let own = middle(pairs.iter().map(|(own, _)| *own).collect())?;
    let streams = middle(pairs.iter().map(|(_, streams)| *streams).collect())?;
    let found = format!(
        "Below that of streams at {so} of {}; the middle size has {}, streams have {}.",
        count(pairs.len(), "size"),
        time(own),
        time(streams)
    );
    Some((found, Verdict::of(so, pairs.len())))
}

fn slightly(newer: &[&Comparison<'_>]) -> Found {
    let each = newer.iter().flat_map(|one| Time::ALL.map(|time| (one, time, one.median(time))));
    let each: Vec<_> = each.filter_map(|(one, time, times)| Some((one, time, times?))).collect();
    let so = each.iter().filter(|(_, _, times)| *times > 1.0).count();
    let part = |(one, time, times): &(&&Comparison<'_>, Time, f64)| {
        format!("{} {} {} times", one.contender.name, time.name(), factor(*times))
    };
    let parts: Vec<String> = each.iter().map(part).collect();
    let found = format!("As fast as streams at the middle size: {}.", listed(&parts));
    (!each.is_empty()).then(|| (found, Verdict::of(so, each.len())))
}

fn shrinks(graph: &[&Comparison<'_>], dynamic: &[&Comparison<'_>]) -> Found {
    let own = dynamic.first()?.gains(Time::Completion);
    let (first, last) = (own.first()?, own.last()?);
    if first.shape == last.shape {
        return None;
    }
    let other = graph
        .first()
        .and_then(|one| one.gains(Time::Completion).iter().find(|gain| gain.shape == last.shape));
    let smaller = other.map(|other| last.times < other.times);
    let so = usize::from(last.times < first.times) + usize::from(smaller == Some(true));
    let beside = other.map_or(String::new(), |other| {
        format!("; graphs are {} times as fast there", factor(other.times))
    });
    let found = format!(
        "Dynamic parallelism is {} times as fast as streams at {}, and {} times at {}{beside}.",
        factor(first.times),
        size(first.shape),
        factor(last.times),
        size(last.shape)
    );
    Some((found, Verdict::of(so, 1 + usize::from(smaller.is_some()))))
}

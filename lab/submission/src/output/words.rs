//! Findings in sentences. Every number in them comes out of the samples.

use super::claim::{Claim, Verdict};
use super::compare::{Comparison, comparisons};
use super::contender::{Contender, shapes, widths};
use super::unit::{count, factor, factors, shape as size, time as ns};
use crate::Method;
use crate::network::Shape;
use crate::study::Study;
use crate::summary::{Spread, Time};
use report::number::listed;
use stats::{ascending, nearest_rank};

/// The size that stands for all where one must: of those that most contenders were measured at,
/// the one closest to the middle width and depth.
pub(super) fn example(study: &Study) -> Option<Shape> {
    let all = shapes(study);
    let took_part = |shape: &Shape| study.cases.iter().filter(|one| one.shape == *shape).count();
    let most = all.iter().map(took_part).max()?;
    let full: Vec<Shape> = all.into_iter().filter(|shape| took_part(shape) == most).collect();
    let widths = widths(&full);
    let k = widths[widths.len() / 2];
    let wide: Vec<&Shape> = full.iter().filter(|shape| shape.k == k).collect();
    wide.get(wide.len() / 2).map(|shape| **shape)
}

/// Sentences about a study.
pub(super) struct Words<'s> {
    study: &'s Study,
    contenders: &'s [Contender<'s>],
    comparisons: Vec<Comparison<'s>>,
    shapes: Vec<Shape>,
}

impl<'s> Words<'s> {
    pub(super) fn new(study: &'s Study, contenders: &'s [Contender<'s>]) -> Words<'s> {
        let comparisons = comparisons(study, contenders);
        Words { study, contenders, comparisons, shapes: shapes(study) }
    }

    /// The abstract.
    pub(super) fn summary(&self, claims: &[Claim], processor: &str) -> Vec<String> {
        let names = self.study.accelerators.iter().map(|one| one.name.clone());
        let mut devices: Vec<String> = names.collect();
        devices.sort_unstable();
        devices.dedup();
        let mut all = vec![format!(
            "This study measures the cost of submitting work to an accelerator, and its variation. \
             It covers {} of submitting a network to {} (processor: {processor}): {}, {} that \
             count.",
            count(self.contenders.len(), "way"),
            listed(&devices),
            count(self.study.cases.len(), "case"),
            count(self.repetitions(), "repetition"),
        )];
        all.extend(self.shortest(Time::Submission));
        all.extend(self.best_gain(Time::Submission));
        all.extend(self.shortest(Time::Completion));
        all.extend(self.best_gain(Time::Completion));
        all.push(verdicts(claims));
        all.push(self.right());
        all
    }

    fn repetitions(&self) -> usize {
        let cases = self.study.cases.iter().flat_map(|case| &case.samples);
        cases.filter(|sample| !sample.warm_up).count()
    }

    /// Sentences on one of the times.
    pub(super) fn time(&self, time: Time) -> Vec<String> {
        let mut all: Vec<String> = self.shortest(time).into_iter().collect();
        all.extend(self.growth(time));
        all.extend(self.best_gain(time));
        if self.comparisons.is_empty() {
            all.push("No other method was measured beside streams on the same device.".into());
        }
        all
    }

    /// Names the contenders with the least of something, each with the number of its sizes.
    fn tally(&self, of: impl Fn(&Contender<'_>, Shape) -> Option<f64>) -> Option<String> {
        if self.contenders.len() < 2 {
            return None;
        }
        let mut wins = vec![0; self.contenders.len()];
        for &shape in &self.shapes {
            let all = self.contenders.iter().enumerate();
            let values = all.filter_map(|(index, one)| Some((index, of(one, shape)?)));
            if let Some((index, _)) = values.min_by(|a, b| a.1.total_cmp(&b.1)) {
                wins[index] += 1;
            }
        }
        let mut wins: Vec<(usize, &Contender<'_>)> =
            wins.into_iter().zip(self.contenders).filter(|(count, _)| *count > 0).collect();
        wins.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
        let part = |(wins, one): (usize, &Contender<'_>)| match wins {
            wins if wins == self.shapes.len() => format!("{} at all of them", one.name),
            wins => format!("{} at {wins}", one.name),
        };
        Some(listed(&wins.into_iter().map(part).collect::<Vec<_>>()))
    }

    fn shortest(&self, time: Time) -> Option<String> {
        let median = |one: &Contender<'_>, shape| Some(one.spread(shape, time)?.median_ns);
        let sizes = count(self.shapes.len(), "size");
        if let [one] = self.contenders {
            let medians: Vec<f64> =
                self.shapes.iter().filter_map(|shape| median(one, *shape)).collect();
            let medians = ascending(&medians);
            let (low, high) = (ns(*medians.first()?), ns(*medians.last()?));
            let (name, time) = (&one.name, time.name());
            return Some(format!("The median {time} of {name} takes {low} to {high}."));
        }
        let winners = self.tally(median)?;
        Some(format!("Of {sizes}, the median {} is shortest with {winners}.", time.name()))
    }

    /// Growth of a time with the depth at the largest width: with the contender for which it grows
    /// most, and with that for which it grows least.
    fn growth(&self, time: Time) -> Option<String> {
        let k = self.shapes.last()?.k;
        let ends = |one: &Contender<'_>| {
            let at_width = one.cases.keys().filter(|shape| shape.k == k);
            let (first, last) = (at_width.clone().min()?, at_width.max()?);
            let from = one.spread(*first, time)?.median_ns;
            let to = one.spread(*last, time)?.median_ns;
            (first != last && from > 0.0).then(|| (one.name.clone(), *first, *last, from, to))
        };
        let mut all: Vec<_> = self.contenders.iter().filter_map(ends).collect();
        all.sort_by(|a, b| (b.4 / b.3).total_cmp(&(a.4 / a.3)));
        let part = |(name, first, last, from, to): &(String, Shape, Shape, f64, f64)| {
            format!("{name} from {} at l = {} to {} at l = {}", ns(*from), first.l, ns(*to), last.l)
        };
        let time = time.name();
        let (most, least) = (all.first()?, all.last()?);
        if most.0 == least.0 {
            return Some(format!(
                "With the depth, at k = {k}, the {time} grows with {}.",
                part(most)
            ));
        }
        Some(format!(
            "With the depth, at k = {k}, the {time} grows most with {}, and least with {}.",
            part(most),
            part(least)
        ))
    }

    /// Names the contender that gains most over the streams of the same GPU.
    fn best_gain(&self, time: Time) -> Option<String> {
        let ranges = self.comparisons.iter().filter_map(|one| Some((one, one.range(time)?)));
        let (one, (least, most)) = ranges.max_by(|a, b| a.1.1.times.total_cmp(&b.1.1.times))?;
        Some(format!(
            "Beside streams on the same GPU, the largest difference in {} is that of {}: {} times \
             as fast over all sizes, most at {}.",
            time.name(),
            one.contender.name,
            factors(least.times, most.times),
            size(most.shape)
        ))
    }

    /// Sentences on the jitter.
    pub(super) fn jitter(&self) -> Vec<String> {
        let mut all = Vec::new();
        for time in Time::ALL {
            let jitter = |one: &Contender<'_>, shape| Some(one.spread(shape, time)?.jitter_ns);
            if let Some(winners) = self.tally(jitter) {
                let sizes = count(self.shapes.len(), "size");
                let time = time.name();
                all.push(format!("Of {sizes}, the jitter of the {time} is least with {winners}."));
            }
            all.extend(self.longest(time));
        }
        all.extend(self.tail());
        all
    }

    fn spreads(&self, time: Time) -> impl Iterator<Item = (&Contender<'_>, Shape, Spread)> {
        self.contenders.iter().flat_map(move |one| {
            let at = move |shape: &Shape| Some((one, *shape, one.spread(*shape, time)?));
            one.cases.keys().filter_map(at)
        })
    }

    /// The repetition that stands out most.
    fn longest(&self, time: Time) -> Option<String> {
        let times = |spread: &Spread| spread.max_ns / spread.median_ns.max(1.0);
        let worst = self.spreads(time).max_by(|a, b| times(&a.2).total_cmp(&times(&b.2)))?;
        let (one, shape, spread) = worst;
        Some(format!(
            "The {} that stands out most from its case took {} with {} at {}, {} times the median.",
            time.name(),
            ns(spread.max_ns),
            one.name,
            size(shape),
            factor(times(&spread))
        ))
    }

    /// Ratio of the 99th percentile to the median, as the median over all sizes.
    fn tail(&self) -> Option<String> {
        let tail_of = |one: &Contender<'_>| {
            let ratio = |shape: &Shape| {
                let spread = one.spread(*shape, Time::Submission)?;
                Some(spread.p99_ns / spread.median_ns.max(1.0))
            };
            let ratios: Vec<f64> = one.cases.keys().filter_map(ratio).collect();
            Some((one.name.clone(), nearest_rank(&ascending(&ratios), 500)?))
        };
        let mut all: Vec<(String, f64)> = self.contenders.iter().filter_map(tail_of).collect();
        all.sort_by(|a, b| a.1.total_cmp(&b.1));
        let part = |(name, ratio): &(String, f64)| format!("{ratio:.2} with {name}");
        let parts: Vec<String> = all.iter().map(part).collect();
        let what =
            "The 99th percentile of the submission over its median, in the middle of all sizes";
        (!parts.is_empty()).then(|| format!("{what}: {}.", listed(&parts)))
    }

    /// Sentences on the steps that are done once.
    pub(super) fn once(&self) -> Vec<String> {
        let Some(&largest) = self.shapes.last() else { return Vec::new() };
        let total = |one: &Contender<'_>| Some((one.name.clone(), one.once(largest)?));
        let mut totals: Vec<(String, f64)> = self.contenders.iter().filter_map(total).collect();
        totals.sort_by(|a, b| a.1.total_cmp(&b.1));
        let part = |(name, total): &(String, f64)| format!("{} with {name}", ns(*total));
        let parts: Vec<String> = totals.iter().map(part).collect();
        let mut all = Vec::new();
        if !parts.is_empty() {
            let at = size(largest);
            all.push(format!("At {at}, the one-time steps take {}.", listed(&parts)));
        }
        let pays: Vec<String> =
            self.comparisons.iter().filter_map(|one| self.pays_off(one, largest)).collect();
        if !pays.is_empty() {
            all.push(format!(
                "The one-time costs of a method beyond those of streams are recovered in \
                 submissions {}.",
                listed(&pays)
            ));
        }
        all
    }

    /// After how many submissions a method has won back what it needs once, in submission time.
    fn pays_off(&self, one: &Comparison<'_>, shape: Shape) -> Option<String> {
        let gain = one.gains(Time::Submission).iter().find(|gain| gain.shape == shape)?;
        let own = one.contender.spread(shape, Time::Submission)?.median_ns;
        let streams = own * gain.times;
        let name = &one.contender.name;
        let index =
            super::compare::streams_of(self.study, self.contenders, one.contender.accelerator)?;
        let streams_once = self
            .contenders
            .iter()
            .find(|other| other.accelerator == index && other.method == Method::Streams)?;
        let more = one.contender.once(shape)? - streams_once.once(shape)?;
        if streams <= own {
            return Some(format!("never with {name}"));
        }
        let after = (more / (streams - own)).ceil().max(0.0) as usize;
        Some(format!("after {} with {name}", count(after, "repetition")))
    }

    /// Sentences on the warm-up.
    pub(super) fn warm_up(&self) -> Vec<String> {
        let Some(shape) = example(self.study) else { return Vec::new() };
        let first_times = |one: &Contender<'_>| {
            let first = one.cases.get(&shape)?.samples.first()?;
            let ratio = |time: Time| {
                let median = one.spread(shape, time)?.median_ns.max(1.0);
                Some(factor(time.of(first) as f64 / median))
            };
            let (submission, completion) = (ratio(Time::Submission)?, ratio(Time::Completion)?);
            Some(format!("{submission} and {completion} with {}", one.name))
        };
        let parts: Vec<String> = self.contenders.iter().filter_map(first_times).collect();
        if parts.is_empty() {
            return Vec::new();
        }
        let parts = listed(&parts);
        vec![format!(
            "At {}, the first repetition's submission and completion take this many times the \
             later median: {parts}.",
            size(shape)
        )]
    }

    /// Sentence on the correctness of the results.
    pub(super) fn right(&self) -> String {
        let wrong: Vec<String> = (self.study.cases.iter())
            .filter(|case| !case.is_right())
            .map(|case| {
                let name = self.study.contender(case.accelerator, case.method);
                format!("{name} at {}", size(case.shape))
            })
            .collect();
        let cases = count(self.study.cases.len(), "case");
        if wrong.is_empty() {
            return format!(
                "The results of all {cases} agree with the processor's own within what rounding \
                 explains."
            );
        }
        let number = wrong.len();
        format!("The results of {number} of {cases} are wrong: {}.", listed(&wrong))
    }
}

/// Numbers of claims by verdict, in words.
fn verdicts(claims: &[Claim]) -> String {
    let part = |verdict: Verdict| {
        let number = claims.iter().filter(|claim| claim.verdict == verdict).count();
        let be = if number == 1 { "is" } else { "are" };
        (number > 0).then(|| format!("{number} {be} {}", verdict.name()))
    };
    let parts: Vec<String> = Verdict::ALL.into_iter().filter_map(part).collect();
    format!("Of {} claims of the published study, {}.", claims.len(), listed(&parts))
}

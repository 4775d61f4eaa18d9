//! The experiments: which points, and what a set of a point is.
//!
//! The options of an experiment become a [`Study`], which is data that a manifest holds, and a
//! [`Source`], which draws the sets.

use std::collections::BTreeMap;

use analysis::generate::{Fig14, Overheads, Proposal, stream};
use analysis::sensitivity::Scale;
use analysis::{System, Wait};
use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

use super::options::{Numbers, Range};

/// Subject of a study.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Experiment {
    /// Figure 14a of PAAM.
    Fig14a,
    /// Figure 14b of PAAM.
    Fig14b,
    /// Growth that times allow in the sets of figure 14a.
    Sensitivity,
    /// Sets as a designer would make them.
    Proposal,
}

impl Experiment {
    /// Name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Experiment::Fig14a => "fig14a",
            Experiment::Fig14b => "fig14b",
            Experiment::Sensitivity => "sensitivity",
            Experiment::Proposal => "proposal",
        }
    }
}

/// Parameters that decide the results. Two studies that are equal have equal results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Study {
    /// The version of the command.
    pub version: String,
    /// Subject of the study.
    pub experiment: Experiment,
    /// Seed of the random numbers.
    pub seed: u64,
    /// Sets of each point, over all shards.
    pub sets: u64,
    /// Methods that judge sets.
    pub methods: Vec<String>,
    /// Times that are scaled, for [`Experiment::Sensitivity`].
    pub scale: Option<String>,
    /// The other options of the experiment, by name.
    pub parameters: BTreeMap<String, String>,
    /// The points, in the order of the results.
    pub points: Vec<Point>,
}

/// All sets with the same parameters.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Point {
    /// Its number: from it, the seed and the number of a set, the set is drawn.
    pub number: u64,
    /// Chains of each set.
    pub chains: u32,
    /// The time of one chain in percent of its period; for the proposal the accelerator time of
    /// all chains in percent of one accelerator.
    pub utilisation_percent: u32,
    /// Accelerator time in percent of accelerator and processor time.
    pub accelerator_percent: f64,
}

/// Draws the sets of a study.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// [`Fig14`] with these two.
    Fig14(Wait, Overheads),
    /// [`Proposal`] with other chains and another utilisation.
    Proposal(Proposal),
}

impl Source {
    /// The set with this number at this point.
    pub(crate) fn draw(&self, seed: u64, point: &Point, set: u64) -> anyhow::Result<System> {
        let rng = &mut stream(seed, point.number, set);
        match *self {
            Source::Fig14(wait, overheads) => Ok(Fig14 {
                chains: point.chains,
                utilisation_percent: point.utilisation_percent,
                accelerator_percent: point.accelerator_percent as u32,
                wait,
                overheads,
            }
            .draw(rng)),
            Source::Proposal(proposal) => {
                let utilisation = f64::from(point.utilisation_percent) / 100.0;
                let proposal = Proposal { chains: point.chains as usize, utilisation, ..proposal };
                proposal.draw(rng).with_context(|| format!("point {}, set {set}", point.number))
            }
        }
    }
}

/// Costs of requests, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Costs {
    /// No overheads
    None,
    /// 129 us for a preemption of the device, 391 us for a request
    Paper,
}

impl Costs {
    fn overheads(self) -> Overheads {
        match self {
            Costs::None => Overheads::NONE,
            Costs::Paper => Overheads::PAPER,
        }
    }

    fn name(self) -> String {
        if self == Costs::None { "none".into() } else { "paper".into() }
    }
}

/// Behaviour of chains while they wait, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Waiting {
    /// Give up the core
    Suspend,
    /// Keep the core busy
    Spin,
}

impl Waiting {
    fn wait(self) -> Wait {
        if self == Waiting::Spin { Wait::Spin } else { Wait::Suspend }
    }

    fn name(self) -> String {
        if self == Waiting::Spin { "spin".into() } else { "suspend".into() }
    }
}

/// Options of `keeptime-lab study fig14a`.
#[derive(clap::Args)]
pub(super) struct Fig14aArgs {
    /// Numbers of chains, as in 1-12 or 4,6,8
    #[arg(long, default_value = "1-12")]
    chains: Numbers,
    /// Processor and accelerator time of each chain, in percent of its period
    #[arg(long, default_value = "10-70/10")]
    utilisation: Numbers,
    /// Costs of requests
    #[arg(long, default_value = "none")]
    overheads: Costs,
    /// Behaviour of chains while they wait
    #[arg(long, default_value = "suspend")]
    wait: Waiting,
}

/// Options of `keeptime-lab study fig14b`.
#[derive(clap::Args)]
pub(super) struct Fig14bArgs {
    /// Processor and accelerator time of each chain, in percent of its period
    #[arg(long, default_value = "5-70/5")]
    utilisation: Numbers,
    /// Share of accelerator time in the utilisation, in percent: 10 is one to nine
    #[arg(long, default_value = "10-70/10")]
    share: Numbers,
    /// Number of chains
    #[arg(long, default_value_t = 4)]
    chains: u32,
    /// Costs of requests
    #[arg(long, default_value = "none")]
    overheads: Costs,
    /// Behaviour of chains while they wait
    #[arg(long, default_value = "suspend")]
    wait: Waiting,
}

/// Options of `keeptime-lab study sensitivity`.
#[derive(clap::Args)]
pub(super) struct SensitivityArgs {
    /// Times that grow
    #[arg(long, default_value = "accelerator")]
    scale: ScaleName,
    /// Numbers of chains, as in 1-12 or 4,6,8
    #[arg(long, default_value = "1-12")]
    chains: Numbers,
    /// Processor and accelerator time of each chain before they grow, in percent of its period
    #[arg(long, default_value = "10")]
    utilisation: Numbers,
    /// Costs of requests
    #[arg(long, default_value = "paper")]
    overheads: Costs,
    /// Behaviour of chains while they wait
    #[arg(long, default_value = "suspend")]
    wait: Waiting,
}

/// Times that are scaled, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum ScaleName {
    /// Processor and accelerator times
    Execution,
    /// Accelerator times
    Accelerator,
    /// Processor times
    Cpu,
    /// Epsilon and sigma
    Overhead,
}

impl ScaleName {
    /// Returns the scale of the analysis for them.
    pub(super) fn scale(self) -> Scale {
        match self {
            ScaleName::Execution => Scale::Execution,
            ScaleName::Accelerator => Scale::Accelerator,
            ScaleName::Cpu => Scale::Cpu,
            ScaleName::Overhead => Scale::Overhead,
        }
    }

    fn words(self) -> &'static str {
        match self {
            ScaleName::Execution => "processor and accelerator times",
            ScaleName::Accelerator => "accelerator times",
            ScaleName::Cpu => "processor times",
            ScaleName::Overhead => "epsilon and sigma",
        }
    }
}

/// Options of `keeptime-lab study proposal`.
#[derive(clap::Args)]
pub(super) struct ProposalArgs {
    /// Numbers of chains, as in 4,8
    #[arg(long, default_value = "4,6,8")]
    chains: Numbers,
    /// Accelerator time of all chains, in percent of one accelerator
    #[arg(long, default_value = "5-50/5")]
    utilisation: Numbers,
    /// Callbacks of a chain
    #[arg(long, default_value = "2-5")]
    callbacks: Range,
    /// Segments of a callback
    #[arg(long, default_value = "0-2")]
    segments: Range,
    /// Accelerator time of a chain over its processor time
    #[arg(long, default_value_t = 1.0)]
    ratio: f64,
    /// Number of accelerators
    #[arg(long, default_value_t = 1)]
    accelerators: usize,
    /// Buckets of each accelerator
    #[arg(long, default_value_t = 6)]
    buckets: u32,
    /// Number of cores
    #[arg(long, default_value_t = 4)]
    cores: u32,
    /// Chains that share an executor
    #[arg(long, default_value_t = 2)]
    chains_per_executor: usize,
    /// Share of the chains that wait spinning, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    spinning: f64,
    /// Probability that a chain spans two executors, 0 to 1
    #[arg(long, default_value_t = 0.0)]
    spanning: f64,
    /// Deadline as a share of the period
    #[arg(long, default_value_t = 1.0)]
    deadline_factor: f64,
    /// Largest share of its period that the processor and accelerator time of a chain may take
    #[arg(long, default_value_t = 0.9)]
    cap: f64,
    /// Costs of requests
    #[arg(long, default_value = "paper")]
    overheads: Costs,
}

/// An experiment with its options.
pub(super) struct Setting {
    /// The experiment.
    pub experiment: Experiment,
    /// Times that are scaled.
    pub scale: Option<ScaleName>,
    /// Its options, by name.
    pub parameters: BTreeMap<String, String>,
    /// Its points.
    pub points: Vec<Point>,
    /// Source that draws the sets of the points.
    pub source: Source,
}

/// Chains, utilisation and share of each point.
type Place = (u32, u32, u32);

impl Fig14aArgs {
    /// Checks the options.
    pub(super) fn setting(&self) -> anyhow::Result<Setting> {
        let places = along(&self.utilisation.0, &self.chains.0, |utilisation, chains| {
            (chains, utilisation, 50)
        });
        fig14(Experiment::Fig14a, places, self.wait, self.overheads)
    }
}

impl Fig14bArgs {
    /// Checks the options.
    pub(super) fn setting(&self) -> anyhow::Result<Setting> {
        let places = along(&self.share.0, &self.utilisation.0, |share, utilisation| {
            (self.chains, utilisation, share)
        });
        fig14(Experiment::Fig14b, places, self.wait, self.overheads)
    }
}

impl SensitivityArgs {
    /// Checks the options.
    pub(super) fn setting(&self) -> anyhow::Result<Setting> {
        ensure!(
            self.scale != ScaleName::Overhead || self.overheads != Costs::None,
            "--scale overhead: found --overheads none, expected overheads that can grow"
        );
        let places = along(&self.utilisation.0, &self.chains.0, |utilisation, chains| {
            (chains, utilisation, 50)
        });
        let setting = fig14(Experiment::Sensitivity, places, self.wait, self.overheads)?;
        Ok(Setting { scale: Some(self.scale), ..setting })
    }
}

/// Every pair of a group and a value along the axis of a plot.
fn along(groups: &[u32], xs: &[u32], place: impl Fn(u32, u32) -> Place) -> Vec<Place> {
    let pairs = groups.iter().flat_map(|&group| xs.iter().map(move |&x| (group, x)));
    pairs.map(|(group, x)| place(group, x)).collect()
}

fn fig14(
    experiment: Experiment,
    places: Vec<Place>,
    wait: Waiting,
    overheads: Costs,
) -> anyhow::Result<Setting> {
    for &(chains, utilisation, share) in &places {
        let most = Fig14::MAX_CHAINS;
        ensure!((1..=most).contains(&chains), "--chains: found {chains}, expected 1 to {most}");
        let range = 1..=100;
        ensure!(
            range.contains(&utilisation),
            "--utilisation: found {utilisation}, expected 1 to 100"
        );
        ensure!(share <= 100, "--share: found {share}, expected 0 to 100");
    }
    let point = |&(chains, utilisation, share): &Place| point(chains, utilisation, share.into());
    Ok(Setting {
        experiment,
        scale: None,
        parameters: named([("wait", wait.name()), ("overheads", overheads.name())]),
        points: places.iter().map(point).collect(),
        source: Source::Fig14(wait.wait(), overheads.overheads()),
    })
}

impl ProposalArgs {
    /// Checks the options.
    pub(super) fn setting(&self) -> anyhow::Result<Setting> {
        let base = Proposal {
            callbacks: (self.callbacks.0, self.callbacks.1),
            segments: (self.segments.0, self.segments.1),
            accelerator_to_cpu: self.ratio,
            accelerators: self.accelerators,
            buckets: self.buckets,
            cores: self.cores,
            chains_per_executor: self.chains_per_executor,
            spinning: self.spinning,
            spanning: self.spanning,
            deadline_factor: self.deadline_factor,
            cap: self.cap,
            overheads: self.overheads.overheads(),
            ..Proposal::new(1, 0.0)
        };
        let places = along(&self.chains.0, &self.utilisation.0, |chains, utilisation| {
            (chains, utilisation, 0)
        });
        for &(chains, utilisation, _) in &places {
            let utilisation = f64::from(utilisation) / 100.0;
            Proposal { chains: chains as usize, utilisation, ..base }.check()?;
        }
        let share = 100.0 * self.ratio / (1.0 + self.ratio);
        Ok(Setting {
            experiment: Experiment::Proposal,
            scale: None,
            parameters: self.parameters(),
            points: places.iter().map(|place| point(place.0, place.1, share)).collect(),
            source: Source::Proposal(base),
        })
    }

    fn parameters(&self) -> BTreeMap<String, String> {
        named([
            ("callbacks", self.callbacks.to_string()),
            ("segments", self.segments.to_string()),
            ("ratio", self.ratio.to_string()),
            ("accelerators", self.accelerators.to_string()),
            ("buckets", self.buckets.to_string()),
            ("cores", self.cores.to_string()),
            ("chains per executor", self.chains_per_executor.to_string()),
            ("spinning", self.spinning.to_string()),
            ("spanning", self.spanning.to_string()),
            ("deadline factor", self.deadline_factor.to_string()),
            ("cap", self.cap.to_string()),
            ("overheads", self.overheads.name()),
        ])
    }
}

fn named<const N: usize>(parameters: [(&str, String); N]) -> BTreeMap<String, String> {
    parameters.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The number says where the point stands: 6 chains, 10 %, share 50 % is 6010050. So a point has
/// the same sets in every study that has the point, whatever other points that has.
fn point(chains: u32, utilisation_percent: u32, accelerator_percent: f64) -> Point {
    let share = accelerator_percent.round() as u64;
    Point {
        number: u64::from(chains) * 1_000_000 + u64::from(utilisation_percent) * 1_000 + share,
        chains,
        utilisation_percent,
        accelerator_percent,
    }
}

impl Study {
    /// Returns the scaled times, in words.
    pub(crate) fn scale_words(&self) -> Option<String> {
        let name = self.scale.as_ref()?;
        let known = <ScaleName as clap::ValueEnum>::from_str(name, false);
        Some(known.map_or_else(|_| name.clone(), |scale| scale.words().to_owned()))
    }
}

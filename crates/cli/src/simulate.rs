//! `keeptime simulate`: one schedule of a system beside its bounds, or a search for bad ones.
//!
//! The options become a `Scenario` ([`scenario`]), the analysis crate simulates it or climbs
//! from it to worse ones, and the report crate prints the result and draws a piece of the schedule
//! ([`picture`]). Every scenario can be said on a command line ([`repeat`]), so that a bad one that
//! a search found can be looked at again.

mod clock;
mod per_chain;
mod picture;
mod repeat;
mod scenario;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use analysis::simulate::{
    self, ChainOutcome, Kappa, Scenario, SearchOptions, Simulator, Tie, Worst,
};
use analysis::{Analysis, Variant};
use report::simulation::{Simulated, Simulation};
use system::System;
use terminal::{output, signals};

use crate::analyze;
use crate::progress::LateProgress;
use clock::Clock;
use picture::Schedule;

/// Part of the usual effort with `--quick`.
const QUICK: u32 = 10;
/// Columns of a terminal that a table may take.
const WIDTH: usize = 120;

/// Options of `keeptime simulate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The system file: accelerators, executors and chains
    system: PathBuf,
    /// Number of periods of the chain with the longest one to simulate [default: a hyperperiod]
    #[arg(long, conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    jobs: Option<u64>,
    /// Time for which chains are released, as in 60s, 500ms or 1200us
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// First releases: synchronous, random, or CHAIN=TIME,... as in brake=3ms,map=0ms
    #[arg(long, default_value = "synchronous")]
    offsets: String,
    /// Lateness of releases: none, random, alternate or first; or CHAIN=WORD,...
    #[arg(long, default_value = "none")]
    jitter: String,
    /// Length of work: worst, least or random; or CHAIN=WORD,...
    #[arg(long, default_value = "worst")]
    execution: String,
    /// Place of processor time among requests: first, last, even or random; or CHAIN=WORD,...
    #[arg(long, default_value = "first")]
    split: String,
    /// Distance of releases: periodic, or sporadic:TIME (longer by at most TIME); or CHAIN=WORD,...
    #[arg(long, default_value = "periodic")]
    release: String,
    /// Cost of preemption of a device: worst (as the bounds assume) or physical [default: worst]
    #[arg(long, value_parser = scenario::parse_kappa)]
    kappa: Option<Kappa>,
    /// First event at one instant: completion, release, decision or random [default: completion]
    #[arg(long, value_parser = scenario::parse_tie)]
    tie: Option<Tie>,
    /// Search for the schedule that is worst for each chain, instead of simulating one
    #[arg(
        long,
        conflicts_with_all = ["jobs", "duration", "offsets", "jitter", "execution", "split", "release"]
    )]
    adversarial: bool,
    /// Effort of the search; the time that it takes grows with it
    #[arg(
        long,
        requires = "adversarial",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    effort: u32,
    /// Search with a tenth of the effort
    #[arg(long, requires = "adversarial", conflicts_with = "effort")]
    quick: bool,
    /// Show this chain's worst job in the picture; search for this chain's worst schedule only
    #[arg(long, value_name = "CHAIN")]
    chain: Option<String>,
    /// Draw the schedule into this file, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write a page with the table and the picture to this file, and print the summary only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Length of the schedule that the picture shows [default: two of the longest periods, at most]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    window: Option<Duration>,
    /// Print JSON instead of tables; times are in nanoseconds
    #[arg(long)]
    json: bool,
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let duration = terminal::time(text)?;
    match duration.as_nanos() {
        1..=9_007_199_254_740_992 => Ok(duration),
        _ => Err("expected 1ns to 104 days".into()),
    }
}

/// A system file, its model, and the chain that was asked for.
struct Subject<'a> {
    args: &'a Args,
    system: System,
    model: analysis::System,
    bounds: Analysis,
    chain: Option<usize>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    signals::catch()?;
    let system = System::read(&args.system)?;
    system.require_chains()?;
    let model = system.model();
    let chain = args.chain.as_ref().map(|id| analyze::chain_index(&system, "--chain", id));
    let chain = chain.transpose()?;
    output::check("--svg", args.svg.as_deref())?;
    output::check("--html", args.html.as_deref())?;
    let scenario = (!args.adversarial).then(|| scenario::scenario(args, &system, &model));
    let scenario = scenario.transpose()?;
    // Before the schedules, so that those of an interrupted command have bounds beside them.
    let progress = LateProgress::start("keeptime simulate");
    let bounds = analyze::analyze(&system, &model, Variant::Tight, progress, analyze::is_wanted)?;
    let subject = Subject { args, model, bounds, chain, system };
    let (simulation, schedule) = match &scenario {
        Some(scenario) => subject.simulate(scenario)?,
        None => subject.search()?,
    };
    let (svg, html) = (args.svg.as_deref(), args.html.as_deref());
    let files = picture::Files { svg, html, window: args.window };
    files.write(&subject.model, &simulation, &schedule)?;
    subject.print(&simulation)?;
    let answer = if simulation.fails() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    Ok(crate::status_after_signals(answer))
}

impl Subject<'_> {
    /// One schedule, all chains.
    fn simulate(&self, scenario: &Scenario) -> anyhow::Result<(Simulation, Schedule)> {
        let progress = LateProgress::start("keeptime simulate");
        let clock = Clock::of(scenario.horizon_ns);
        let mut partial = None;
        let mut simulator = Simulator::new(&self.model)?;
        simulator.run_watched(scenario, &mut |now_ns| {
            progress.at(clock.at(now_ns), clock.all(), clock.units());
            partial = signals::interrupted().map(|_| now_ns);
            partial.is_none()
        });
        drop(progress);
        let outcomes = &simulator.outcome().chains;
        let found = outcomes.iter().zip(simulator.responses_ns());
        let chains = found.map(|(outcome, responses)| Some(simulated(outcome, responses)));
        let what = scenario::in_words(self.args, &self.model, scenario);
        let mut simulation = self.simulation(chains.collect(), what);
        simulation.marks.extend(partial.map(|now_ns| {
            let (until, all, units) = (clock.at(now_ns), clock.all(), clock.units());
            format!("PARTIAL: interrupted after {until} of {all} {units}")
        }));
        simulation.marks.extend(concurrent(&self.system));
        let focus = self.chain.map(|chain| outcomes[chain]);
        Ok((simulation, Schedule { scenario: scenario.clone(), focus }))
    }

    /// The worst schedule of each chain; the picture is of the one asked for, or the one that
    /// comes closest to its deadline.
    fn search(&self) -> anyhow::Result<(Simulation, Schedule)> {
        let Args { effort, quick, .. } = *self.args;
        let default = SearchOptions::default();
        let share = if quick { QUICK } else { 1 };
        let options = SearchOptions {
            starts: default.starts * effort / share,
            steps: default.steps * effort / share,
            seed: self.args.seed,
            kappa: self.args.kappa,
            tie: self.args.tie,
            ..default
        };
        let mut partial = None;
        let progress = LateProgress::start("keeptime simulate");
        let mut at = |done, all| {
            progress.at(done, all, "schedules simulated");
            partial = signals::interrupted().map(|_| (done, all));
            partial.is_none()
        };
        let worst = simulate::search(&self.model, &options, &mut at)
            .map_err(|error| analyze::named(error, &self.system))?;
        drop(progress);
        let chains = worst.iter().enumerate().map(|(chain, worst)| {
            let wanted = self.chain.is_none_or(|only| only == chain);
            wanted.then(|| Simulated {
                repeat: Some(repeat::command(self.args, &self.system, chain, &worst.scenario)),
                ..simulated(&worst.outcome, &worst.responses_ns)
            })
        });
        let whom = self.args.chain.as_deref().unwrap_or("each chain");
        let effort = if quick { "quick".to_owned() } else { format!("effort {effort}") };
        let what = format!("the worst schedule found for {whom} ({effort})");
        let mut simulation = self.simulation(chains.collect(), what);
        simulation.searched = true;
        simulation.marks.extend(partial.map(|(done, all)| {
            format!("PARTIAL: interrupted after {done} of {all} schedules of the search")
        }));
        simulation.marks.extend(concurrent(&self.system));
        let drawn = self.chain.unwrap_or_else(|| closest_to_deadline(&self.model, &simulation));
        let Worst { scenario, outcome, .. } = &worst[drawn];
        let schedule = Schedule { scenario: scenario.clone(), focus: Some(*outcome) };
        Ok((simulation, schedule))
    }

    fn simulation(&self, chains: Vec<Option<Simulated>>, what: String) -> Simulation {
        Simulation {
            file: self.system.name.clone(),
            names: analyze::names(&self.system),
            analysis: self.bounds.clone(),
            system: self.model.clone(),
            what,
            command: terminal::command_line::this_command(),
            searched: false,
            marks: Vec::new(),
            chains,
        }
    }

    fn print(&self, simulation: &Simulation) -> anyhow::Result<()> {
        let document = report::simulation::document(simulation, None)?;
        let json = || report::simulation::json(simulation);
        output::print(self.args.json, json, || match self.args.html.is_some() {
            true => document.summary(WIDTH, true),
            false => document.text(WIDTH, true),
        })
    }
}

/// The responses of one chain.
fn simulated(outcome: &ChainOutcome, responses_ns: &[u64]) -> Simulated {
    Simulated {
        response_ns: responses_ns.to_vec(),
        misses: outcome.misses,
        unfinished: outcome.unfinished,
        overloaded: outcome.overloaded,
        repeat: None,
    }
}

/// The chain whose worst response is the largest share of its deadline; one whose deadline counts,
/// where there is one.
fn closest_to_deadline(model: &analysis::System, simulation: &Simulation) -> usize {
    let share = |chain: &usize| {
        let worst_ns = simulation.chains[*chain].as_ref().and_then(Simulated::worst_ns);
        let model = &model.chains[*chain];
        let share = (u128::from(worst_ns.unwrap_or(0)) << 32) / u128::from(model.deadline_ns);
        (!model.best_effort, share)
    };
    (0..model.chains.len()).max_by_key(share).unwrap_or(0)
}

/// Names the feature of the file that the simulation leaves out.
fn concurrent(system: &System) -> Option<String> {
    let concurrent = system.accelerators.iter().filter(|a| a.concurrent_lowest);
    let names: Vec<&str> = concurrent.map(|a| a.id.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!(
            "requests in bucket 0 of {} are simulated one by one, not beside each other \
             (concurrent_lowest)",
            names.join(", ")
        )
    })
}

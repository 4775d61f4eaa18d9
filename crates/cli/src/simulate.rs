//! `keeptime simulate`: one schedule of a system beside its bounds, or a search for bad ones.
//!
//! The options become a `Scenario` ([`scenario`]), the analysis crate simulates it or climbs
//! from it to worse ones, and the report crate prints the result and draws a piece of the schedule
//! ([`window`]). Every scenario can be said on a command line ([`repeat`]), so that a bad one that
//! a search found can be looked at again.

mod per_chain;
mod repeat;
mod scenario;
mod window;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use analysis::Variant;
use analysis::simulate::{self, Kappa, SearchOptions, Simulator, Tie, Trace};
use anyhow::Context;
use report::analysis::Names;
use report::simulation::{Gantt, Simulated, Simulation};
use system::System;
use terminal::{output, signals};

use crate::analyze;
use crate::progress::LateProgress;

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
    chain: Option<usize>,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let system = System::read(&args.system)?;
    system.require_chains()?;
    let model = system.model();
    let chain = args.chain.as_ref().map(|id| analyze::chain_index(&system, "--chain", id));
    let subject = Subject { args, model, chain: chain.transpose()?, system };
    output::check("--svg", args.svg.as_deref())?;
    output::check("--html", args.html.as_deref())?;
    let (simulation, trace) =
        if args.adversarial { subject.search()? } else { subject.simulate()? };
    subject.draw(&simulation, &trace)?;
    subject.print(&simulation)?;
    let answer = if simulation.fails() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    Ok(crate::status_after_signals(answer))
}

impl Subject<'_> {
    fn names(&self) -> Names {
        analyze::names(&self.system)
    }

    fn simulator(&self) -> anyhow::Result<Simulator> {
        Simulator::new(&self.model).map_err(|error| analyze::named(error, &self.system))
    }

    /// One schedule, all chains.
    fn simulate(&self) -> anyhow::Result<(Simulation, Trace)> {
        let scenario = scenario::scenario(self.args, &self.system, &self.model)?;
        let trace = self.simulator()?.trace(&scenario);
        let chains = (0..self.model.chains.len()).map(|chain| Some(simulated(&trace, chain)));
        let what = scenario::in_words(self.args, &self.model, &scenario);
        let mut simulation = self.simulation(chains.collect(), what)?;
        simulation.marks.extend(concurrent(&self.system));
        Ok((simulation, trace))
    }

    /// The worst schedule of each chain; the picture is of the one asked for, or the one that
    /// comes closest to its deadline.
    fn search(&self) -> anyhow::Result<(Simulation, Trace)> {
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
        signals::catch()?;
        let mut partial = None;
        let worst = {
            let mut progress = LateProgress::start("keeptime simulate");
            let mut at = |done, all| {
                progress.at(done, all, "schedules simulated");
                let goes_on = signals::interrupted().is_none();
                partial = (!goes_on).then_some((done, all));
                goes_on
            };
            simulate::search(&self.model, &options, &mut at)
                .map_err(|error| analyze::named(error, &self.system))?
        };
        let mut simulator = self.simulator()?;
        let chains = worst.iter().enumerate().map(|(chain, worst)| {
            let wanted = self.chain.is_none_or(|only| only == chain);
            wanted.then(|| Simulated {
                repeat: Some(repeat::command(self.args, &self.system, chain, &worst.scenario)),
                ..simulated(&simulator.trace(&worst.scenario), chain)
            })
        });
        let whom = self.args.chain.as_deref().unwrap_or("each chain");
        let effort = if quick { "quick".to_owned() } else { format!("effort {effort}") };
        let what = format!("the worst schedule found for {whom} ({effort})");
        let mut simulation = self.simulation(chains.collect(), what)?;
        simulation.searched = true;
        simulation.marks.extend(partial.map(|(done, all)| {
            format!("PARTIAL: interrupted after {done} of {all} schedules of the search")
        }));
        simulation.marks.extend(concurrent(&self.system));
        let drawn = self.chain.unwrap_or_else(|| closest_to_deadline(&self.model, &simulation));
        let trace = simulator.trace(&worst[drawn].scenario);
        Ok((simulation, trace))
    }

    fn simulation(
        &self,
        chains: Vec<Option<Simulated>>,
        what: String,
    ) -> anyhow::Result<Simulation> {
        Ok(Simulation {
            file: self.system.name.clone(),
            names: self.names(),
            analysis: analyze::analyze(&self.system, &self.model, Variant::Tight)?,
            system: self.model.clone(),
            what,
            command: terminal::command_line::this_command(),
            searched: false,
            marks: Vec::new(),
            chains,
        })
    }

    fn print(&self, simulation: &Simulation) -> anyhow::Result<()> {
        let document = report::simulation::document(simulation, None)?;
        let json = || report::simulation::json(simulation);
        output::print(self.args.json, json, || match self.args.html.is_some() {
            true => document.summary(WIDTH, true),
            false => document.text(WIDTH, true),
        })
    }

    fn draw(&self, simulation: &Simulation, trace: &Trace) -> anyhow::Result<()> {
        let args = self.args;
        if args.svg.is_none() && args.html.is_none() {
            return Ok(());
        }
        let focus = match (self.chain, args.adversarial) {
            (None, true) => Some(closest_to_deadline(&self.model, simulation)),
            (chain, _) => chain,
        };
        let window = args.window.map(|window| window.as_nanos() as u64);
        let (from_ns, to_ns) = window::window(&self.model, trace, focus, window);
        let names = &simulation.names;
        let gantt = Gantt { names, system: &self.model, trace, from_ns, to_ns };
        if let Some(file) = &args.svg {
            write("--svg", file, || report::simulation::gantt(&gantt))?;
        }
        if let Some(file) = &args.html {
            write("--html", file, || {
                report::simulation::document(simulation, Some(&gantt))?.html()
            })?;
        }
        Ok(())
    }
}

/// Writes what a report gives; an error names the option, and how to ask for less.
fn write(
    option: &str,
    file: &Path,
    make: impl FnOnce() -> Result<String, report::Error>,
) -> anyhow::Result<()> {
    let text = make().map_err(|error| match error {
        report::Error::Plot { message, .. } => {
            anyhow::anyhow!("the picture has {message}; choose a shorter --window")
        }
        error => error.into(),
    });
    let text = text.with_context(|| format!("{option} {}", file.display()))?;
    output::write(option, Some(file), || Ok(text))
}

/// The responses of one chain.
fn simulated(trace: &Trace, chain: usize) -> Simulated {
    let outcome = &trace.outcome.chains[chain];
    let jobs = trace.jobs.iter().filter(|job| job.chain == chain && job.end_ns != u64::MAX);
    Simulated {
        response_ns: jobs.map(|job| job.end_ns - job.nominal_ns).collect(),
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

//! `keeptime-lab drive`: one scenario, driven by a whole stack in a closed loop, under one policy after
//! another.
//!
//! A scenario is found by its name ([`scenario`]), driven by the crate `driving` on the virtual
//! clock or the wall clock ([`clock`]), watched ([`film`]) and shown by the crate `report`. Whole
//! suites are [`study_command`]'s.

mod clock;
mod film;
mod scenario;
mod study_command;
mod trace;

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

use anyhow::{Context, ensure};
use clap::ValueEnum;
use driving::Policy;
use driving::network::Perception;
use driving::stack::{Features, Middleware, Stack};
use driving::wall::Places;
use report::document::WIDTH;
use report::drive::{DriveRun, Hazard, Lane};
use world::World;

use crate::shown::{End, Shown};
use clock::Clock;
use scenario::{Named, Which};
use terminal::output;
use terminal::progress::Progress;
use trial::signals;

/// Default factor by which simulated cores are slower than this machine's.
const USUAL_FACTOR: f64 = 10.0;

/// Options of `keeptime-lab drive`.
#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// The scenario: a file, normal:N (N from 0 to 7999), corner:N (N from 0 to 328), develop:N, one
    /// of the corner cases' families to develop a stack with, or commute:N (N from 0 to 79)
    #[arg(required = true)]
    scenario: Option<Which>,
    /// Start of modules: a, each by the message of the one before it, on cores of its own (as
    /// Apollo); b, prediction and planning by timers of 10 Hz (as Autoware)
    #[arg(long, value_enum, default_value_t = Wiring::A)]
    stack: Wiring,
    /// The policies to drive under, in this order
    #[arg(long, value_delimiter = ',', default_value = "base,all")]
    policy: Vec<Policy>,
    /// Drive under the policy all only
    #[arg(long, conflicts_with = "policy")]
    quick: bool,
    /// Factor by which the stack's cores are slower than this machine's; keeptime-lab drive study finds
    /// the one with which the base policy is as slow as the stack that COLA's authors measured
    #[arg(long, default_value_t = USUAL_FACTOR)]
    factor: f64,
    /// virtual: the modules run one after the other, on simulated cores; wall: all at the same time,
    /// on cores of this machine, and the world in real time
    #[arg(long, value_enum, default_value_t = Clock::Virtual)]
    clock: Clock,
    /// With too few cores on the wall clock, let cores of the stack share those of this machine;
    /// its times are not those of the stack then
    #[arg(long)]
    fold: bool,
    /// The socket of a keeptime serve whose service `perception` says what the lidar sees, such as
    /// that of examples/perception/server.yaml
    #[arg(long, value_name = "SOCKET")]
    perception: Option<PathBuf>,
    /// The priority of the chain of its requests
    #[arg(long, default_value_t = 50, requires = "perception")]
    perception_priority: u32,
    /// Factor by which the accelerator is slower than the server's on the virtual clock
    #[arg(long, default_value_t = 1.0, requires = "perception")]
    accelerator_factor: f64,
    /// Frames in which an object must be seen before it is confirmed
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=20))]
    confirm: u32,
    /// Form of messages from module to module: pointer, as within a process; serialised, as bytes
    /// that each module makes its own copy of, as between processes
    #[arg(long, default_value_t = Middleware::Pointer)]
    middleware: Middleware,
    /// Print JSON instead of tables
    #[arg(long)]
    json: bool,
    /// Write a page to this file: what happened, and why the vehicle reacted when it did; print the
    /// summary only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write what happened in the stack to this file, for keeptime report
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Write the scenario to this file as YAML, to change it
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

impl Args {
    fn policies(&self) -> Vec<Policy> {
        if self.quick { vec![Policy::All] } else { self.policy.clone() }
    }
}

#[derive(clap::Subcommand)]
enum Command {
    /// Drive whole suites with both stacks under all policies, and judge the results
    Study(Box<study_command::Args>),
}

#[derive(Clone, Copy, ValueEnum)]
enum Wiring {
    A,
    B,
}

impl Wiring {
    fn stack(self) -> Stack {
        match self {
            Wiring::A => Stack::A,
            Wiring::B => Stack::B,
        }
    }
}

/// Runs `keeptime-lab drive`; 1 if a policy ended in a collision.
///
/// # Errors
/// The scenario is none, a number is out of range, or a file cannot be written.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // As in a vehicle: modules that are timed do not wait for pages. It only makes them faster, so a
    // refusal is nothing to stop for.
    let _kept = realtime::memory::keep();
    if let Some(Command::Study(args)) = &args.command {
        return study_command::run(args);
    }
    check_factor("--factor", args.factor)?;
    check_factor("--accelerator-factor", args.accelerator_factor)?;
    if let Some(perception) = perception(args) {
        perception.check().context("--perception")?;
    }
    let scenario = args.scenario.as_ref().context("SCENARIO: found none, expected one")?;
    let places = {
        let more = usize::from(args.perception.is_some());
        clock::places(args.clock, &args.policies(), args.factor, args.fold, more)?
    };
    output::check("--html", args.html.as_deref())?;
    let named = scenario.load()?;
    output::write("--write", args.write.as_deref(), || Ok(named.scenario.to_yaml()))?;
    let mut run = beginning(args, &named, places.as_ref())?;
    let tape = |path: &PathBuf| trace::Tape::create(path, &run, args.clock);
    let mut tape = args.trace.as_ref().map(tape).transpose()?;
    let policies = args.policies();
    let progress = Progress::start("keeptime-lab drive", None);
    let driven = policies.iter().enumerate().try_for_each(|(number, policy)| {
        progress.at(number as u64, policies.len() as u64, &format!("driving under {policy}"));
        under(args, *policy, (&named, places.as_ref()), &mut run, tape.as_mut())?;
        progress.tell(format_args!("{policy}: finished"));
        Ok(())
    });
    let interrupted = signals::finished(driven)?;
    drop(progress);
    let end = End { interrupted, units: (run.drives.len(), policies.len()), name: "policies" };
    end.check()?;
    run.marks.extend(end.partial());
    tape.map_or(Ok(()), trace::Tape::finish)?;
    if let Some(trace) = &args.trace {
        tell!("wrote {}", trace.display());
    }
    print(args, &run, &end)?;
    let collided = run.drives.iter().any(|drive| drive.collision.is_some());
    end.answer(ExitCode::from(u8::from(collided)))
}

/// Drives under a policy.
fn under(
    args: &Args,
    policy: Policy,
    (named, places): (&Named, Option<&Places>),
    run: &mut DriveRun,
    tape: Option<&mut trace::Tape>,
) -> anyhow::Result<()> {
    let perception = perception(args);
    let features = Features {
        confirm_frames: args.confirm,
        middleware: args.middleware,
        perception: perception.clone(),
        ..policy.features()
    };
    let mut film = film::Film::default();
    let show = &mut |world: &World| {
        film.take(world);
        signals::interrupted().map_or(ControlFlow::Continue(()), |_| ControlFlow::Break(()))
    };
    let (scenario, stack, until) = (&named.scenario, args.stack.stack(), named.until);
    let driven = match places {
        None => {
            let costs = policy.costs(args.factor);
            driving::drive::watch(scenario, stack, &features, costs, until, show)
        }
        Some(places) => {
            let at = (places, args.factor);
            driving::wall::watch(scenario, stack, &features, at, until, show)
        }
    };
    signals::check()?;
    let outcome = driven?;
    run.marks.extend(clock::marks(policy, &outcome));
    run.marks.extend(perception.map(|it| answers(policy, &it)));
    if let (Some(hazard), Some(began)) = (&mut run.hazard, outcome.began) {
        hazard.began_s = began;
    }
    if let Some(tape) = tape {
        tape.add(policy.to_string(), &outcome)?;
    }
    run.drives.push(film.develop(policy.to_string(), &outcome));
    Ok(())
}

/// The network's service, for one drive.
fn perception(args: &Args) -> Option<Perception> {
    let service = |socket: &PathBuf| {
        let name = "perception".to_owned();
        Perception::new(socket.clone(), name, args.perception_priority, args.accelerator_factor)
    };
    args.perception.as_ref().map(service)
}

/// Says for how many frames the network answered.
fn answers(policy: Policy, perception: &Perception) -> String {
    let [answered, missed] = perception.counts();
    format!(
        "{policy}: the network answered for {answered} frames; for {missed} it did not, and \
         objects were classified by their dimensions."
    )
}

fn check_factor(option: &str, factor: f64) -> anyhow::Result<()> {
    ensure!(
        factor.is_finite() && (0.01..=1000.0).contains(&factor),
        "{option}: found {factor}, expected 0.01 to 1000"
    );
    Ok(())
}

fn beginning(args: &Args, named: &Named, places: Option<&Places>) -> anyhow::Result<DriveRun> {
    let world = World::new(&named.scenario)?;
    let lanes = world.road().lanes().map(|(_, lane)| {
        let along = |step: u32| (f64::from(step) * 2.0).min(lane.line.length());
        let steps = (lane.line.length() / 2.0).ceil() as u32;
        let edge = |left: f64| {
            let point = |step| lane.line.pose(along(step)).point(0.0, left).to_array();
            (0..=steps).map(point).collect()
        };
        Lane { left: edge(lane.width / 2.0), right: edge(-lane.width / 2.0) }
    });
    let hazard = world.hazard().map(|hazard| Hazard {
        about: world.body(hazard.body).map_or(String::new(), |body| film::kind(body.kind).into()),
        body: hazard.body,
        began_s: 0.0,
        critical_s: named.critical_s,
    });
    let stack = match args.stack {
        Wiring::A => "A: each module started by the message of the one before it",
        Wiring::B => "B: prediction and planning started by timers of 10 Hz",
    };
    let mut machine = vec![("Machine".to_owned(), crate::chains::machine_in_words())];
    machine.extend(clock::facts(places, args.factor));
    Ok(DriveRun {
        scenario: named.scenario.name.clone(),
        about: named.about.clone(),
        stack: format!("{stack}{}; {}", carried(args.middleware), args.clock.words()),
        command: terminal::command_line::this_command(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        machine,
        marks: clock::mark(places),
        lanes: lanes.collect(),
        hazard,
        drives: Vec::new(),
    })
}

/// Names the form of messages if it is not the usual one.
fn carried(middleware: Middleware) -> &'static str {
    match middleware {
        Middleware::Pointer => "",
        Middleware::Serialised => "; messages go as bytes, as between processes",
    }
}

fn print(args: &Args, run: &DriveRun, end: &End) -> anyhow::Result<()> {
    output::write("--html", args.html.as_deref(), || Ok(report::drive::html(run)?))?;
    let words = || match &args.html {
        Some(_) => report::drive::document(run).summary(WIDTH, true),
        None => report::drive::document(run).text(WIDTH, true),
    };
    let schema = ("keeptime.drive", 2);
    let shown = Shown { schema, json: args.json, html: args.html.as_deref(), end };
    output::print(args.json, || shown.framed(report::drive::json(run)), words)
}

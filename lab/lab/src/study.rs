//! `keeptime-lab study`: how many random sets each analysis accepts.
//!
//! [`experiment`] says which points there are and draws their sets, [`work`] has every set judged
//! on all cores by a [`judge`], [`row`] holds the results as Parquet, [`folder`] writes them beside
//! a manifest, [`mod@merge`] puts the shards of a study together, and [`outcome`] sums up what the
//! report crate prints.

mod experiment;
mod folder;
mod judge;
mod merge;
mod method;
mod options;
mod outcome;
mod row;
mod system_file;
mod work;

use std::collections::HashSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;

use analysis::sensitivity::Scale;
use anyhow::{Context, ensure};
use clap::ValueEnum;
use trial::Shard;

use experiment::{Setting, Source, Study};
use method::Method;
use row::Row;

use crate::shown::{End, Shown};
use terminal::output;

/// Sets of each point with --quick.
const QUICK: u64 = 20;

/// Options of `keeptime-lab study`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Figure 14a of PAAM: sets accepted over the number of chains
    Fig14a(WithSimulation<experiment::Fig14aArgs>),
    /// Figure 14b of PAAM: sets accepted over the utilisation, by share of accelerator time
    Fig14b(WithSimulation<experiment::Fig14bArgs>),
    /// Growth of execution times until a set is no longer schedulable
    Sensitivity(Plain<experiment::SensitivityArgs>),
    /// Sets as in practice: shared executors, overheads, ordered priorities
    Proposal(WithSimulation<experiment::ProposalArgs>),
    /// Put the folders of all shards of a study together
    Merge(merge::Args),
}

/// Options of an experiment, and those of all.
#[derive(clap::Args)]
struct Plain<E: clap::Args> {
    #[command(flatten)]
    experiment: E,
    #[command(flatten)]
    common: Common,
}

/// Options of an experiment whose sets can be simulated too.
#[derive(clap::Args)]
struct WithSimulation<E: clap::Args> {
    #[command(flatten)]
    experiment: E,
    /// Simulate this many schedules of each set too: an upper limit for every analysis
    #[arg(long, default_value_t = 0, value_name = "N")]
    simulate: u32,
    #[command(flatten)]
    common: Common,
}

/// Options of every experiment.
#[derive(clap::Args)]
struct Common {
    /// Judge 20 sets of each point
    #[arg(long, conflicts_with = "sets")]
    quick: bool,
    /// Sets of each point
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    sets: u64,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The analyses: published, sound, tight, with +dm for deadline-monotonic priorities or with
    /// +search for the best that a short search finds
    #[arg(long, value_delimiter = ',', default_value = "published,sound,tight")]
    variants: Vec<Method>,
    /// Write rows.parquet, manifest.json and study.html into this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Judge only part I of N of the sets, for merge
    #[arg(long, value_name = "I/N", requires = "out")]
    shard: Option<Shard>,
    /// Threads [default: one for each core]
    #[arg(long)]
    threads: Option<std::num::NonZeroU16>,
    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Write the page to this file, and print the summary only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Print this set of the one point that is selected as a system file, and do nothing else
    #[arg(long, value_name = "SET", conflicts_with_all = ["out", "shard", "json"])]
    draw: Option<u64>,
}

/// Plan of a run.
pub(crate) struct Plan {
    /// Parameters that decide the results.
    pub study: Study,
    /// [`Study::methods`], read.
    pub methods: Vec<Method>,
    /// Source that draws the sets.
    pub source: Source,
    /// Times that are scaled.
    pub scale: Option<Scale>,
    /// Schedules that are simulated of each set.
    pub schedules: u32,
    /// Shard of the sets that this run judges.
    pub shard: Shard,
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    match &args.command {
        Command::Fig14a(args) => study(args.experiment.setting()?, &args.common, args.simulate),
        Command::Fig14b(args) => study(args.experiment.setting()?, &args.common, args.simulate),
        Command::Sensitivity(args) => study(args.experiment.setting()?, &args.common, 0),
        Command::Proposal(args) => study(args.experiment.setting()?, &args.common, args.simulate),
        Command::Merge(args) => merge(args),
    }
}

fn study(setting: Setting, common: &Common, schedules: u32) -> anyhow::Result<ExitCode> {
    let plan = Plan::new(setting, common, schedules)?;
    if let Some(set) = common.draw {
        return draw(&plan, set);
    }
    output::check("--html", common.html.as_deref())?;
    if let Some(folder) = &common.out {
        // Before minutes of work, not after them.
        std::fs::create_dir_all(folder).with_context(|| format!("--out {}", folder.display()))?;
        tempfile::tempfile_in(folder).with_context(|| format!("--out {}", folder.display()))?;
    }
    let threads = match common.threads {
        Some(threads) => usize::from(threads.get()),
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let (rows, end) = work::all(&plan, threads)?;
    end.check()?;
    let files = Files { out: common.out.as_deref(), html: common.html.as_deref() };
    finish(&plan.study, plan.shard, &rows, &files, (common.json, &end))?;
    end.answer(ExitCode::SUCCESS)
}

fn merge(args: &merge::Args) -> anyhow::Result<ExitCode> {
    let (study, rows) = merge::read(&args.folders)?;
    let files = Files { out: Some(&args.out), html: args.html.as_deref() };
    finish(&study, Shard::WHOLE, &rows, &files, (args.json, &End::default()))?;
    Ok(ExitCode::SUCCESS)
}

impl Plan {
    fn new(setting: Setting, common: &Common, schedules: u32) -> anyhow::Result<Plan> {
        let mut seen = HashSet::new();
        for method in &common.variants {
            let name = method.to_string();
            ensure!(!seen.contains(&name), "--variants: found {name} twice, expected it once");
            seen.insert(name);
        }
        let mut methods = common.variants.clone();
        let mut parameters = setting.parameters;
        if schedules > 0 {
            methods = method::with_simulation(&methods);
            parameters.insert("simulated schedules".to_owned(), schedules.to_string());
        }
        let scale = setting.scale.and_then(|scale| scale.to_possible_value());
        let study = Study {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: setting.experiment,
            seed: common.seed,
            sets: if common.quick { QUICK } else { common.sets },
            methods: methods.iter().map(Method::to_string).collect(),
            scale: scale.map(|scale| scale.get_name().to_owned()),
            parameters,
            points: setting.points,
        };
        Ok(Plan {
            study,
            methods,
            source: setting.source,
            scale: setting.scale.map(|scale| scale.scale()),
            schedules,
            shard: common.shard.unwrap_or(Shard::WHOLE),
        })
    }
}

/// Prints one set as a system file.
fn draw(plan: &Plan, set: u64) -> anyhow::Result<ExitCode> {
    let points = plan.study.points.len();
    ensure!(
        points == 1,
        "--draw: found {points} points, expected one: select it by --chains, --utilisation and, \
         for fig14b, --share"
    );
    let (point, seed) = (&plan.study.points[0], plan.study.seed);
    let system = plan.source.draw(seed, point, set)?;
    let text = system_file::text(&system, "--draw")?;
    let experiment = plan.study.experiment.name();
    let number = point.number;
    write!(
        std::io::stdout(),
        "# keeptime-lab study {experiment}: seed {seed}, point {number}, set {set}\n{text}"
    )?;
    Ok(ExitCode::SUCCESS)
}

/// The folder and the page that are written.
struct Files<'a> {
    out: Option<&'a Path>,
    html: Option<&'a Path>,
}

/// Writes the folder and the page and prints the result.
fn finish(
    study: &Study,
    shard: Shard,
    rows: &[Row],
    files: &Files<'_>,
    (json, end): (bool, &End),
) -> anyhow::Result<()> {
    let command = terminal::command_line::this_command();
    let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
    let mut run = outcome::run(study, shard, rows, &command, date);
    run.marks.extend(end.partial());
    let document = report::study::document(&run);
    if let Some(folder) = files.out {
        let page = document.html()?;
        folder::write(folder, study, shard, &command, rows, &page)
            .with_context(|| format!("--out {}", folder.display()))?;
        tell!("wrote {}", folder.display());
    }
    let shown = Shown { schema: ("keeptime.study", 1), json, html: files.html, end };
    shown.document(|| report::study::json(&run), document)
}

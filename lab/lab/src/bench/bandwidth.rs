//! `keeptime-lab bench bandwidth`: what the memory-bandwidth lock is worth on this machine; document
//! 001's (BWLOCK++) Figs. 1 and 5 to 10.
//!
//! A [`task::Task`] is a kernel with data, run from this process on an accelerator in this process.
//! The hogs are threads of a process of their own ([`hogs`]), each on a core of its own, and a
//! regulator in this process ([`protection`]) stops their cores while the lock is held. All that is
//! compared is measured in turns: a repetition takes each case once, and begins with another one
//! each time.
//!
//! The phases: the hogs by themselves ([`measure::hogs`]), the kernels ([`measure::kernel`]),
//! budgets ([`measure::budgets`]), scheduling rules ([`rules`]), the lock itself ([`lock`]).

mod hogs;
mod lock;
mod measure;
mod place;
mod protection;
mod rules;
mod task;
mod write;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::ensure;
use bandwidth::workload::{Access, Size};
use realtime::{machine, thread};
use report::bandwidth::BandwidthRun;

use super::hog::parse_access;
use crate::shown::{End, Shown};
use measure::Bench;
use protection::Wanted;
use task::Kernel;
use terminal::output;
use terminal::progress::Progress;
use throttle_fair::By;
use trial::signals;

pub(crate) use hogs::{Hogs, Order, Place};

/// Options of `keeptime-lab bench bandwidth`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The accelerator: cpu, cuda:N or vulkan:N; a CUDA GPU works in the host's memory
    #[arg(long, default_value = "cpu", value_parser = super::parse_device)]
    device: String,
    /// Kernels, of histogram, sad, bfs, spmv, stencil, lbm
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "histogram,sad,bfs,spmv,stencil,lbm"
    )]
    kernels: Vec<Kernel>,
    /// Cores of the accelerator's threads and of those that wait for it: by default the first one
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cores: Vec<usize>,
    /// Hogs, each on one of the other cores: by default on all of them
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    hogs: Option<u32>,
    /// Access of a hog to each line of its array: read, write, read-write or fresh
    #[arg(long, default_value = "write", value_parser = parse_access)]
    access: Access,
    /// Size of the array of each hog: half-l1d, half-l2, llc, twice-llc, or as in 64MiB
    #[arg(long, default_value = "twice-llc")]
    array: Size,
    /// Memory of each kernel, as in 64MiB: by default twice the last-level cache, 32 to 256 MiB
    #[arg(long, value_name = "SIZE")]
    memory: Option<Size>,
    /// Repetitions of each case
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repetitions: u32,
    /// The regulator's period
    #[arg(long, value_name = "TIME", default_value = "1ms", value_parser = terminal::time)]
    period: Duration,
    /// Budget of a best-effort core in a period while the lock is held: a share of the period, as
    /// in 5%, or bytes a second, as in 100MB/s, which needs the processor's counters
    #[arg(long, default_value = "5%", value_parser = Wanted::parse)]
    budget: Wanted,
    /// Budgets that the first kernel is measured at, too
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = Wanted::parse)]
    budgets: Vec<Wanted>,
    /// Time for which the lock is held under each scheduling rule, three times; 0s leaves them out
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = terminal::time)]
    rules: Duration,
    /// Implementation that puts throttle-fair scheduling into effect there
    #[arg(long, value_name = "auto|bpf|user", default_value_t = By::Auto)]
    fair: By,
    /// Measure less: 3 repetitions, kernels of 8 MiB, 200 ms under each rule
    #[arg(long, conflicts_with_all = ["repetitions", "memory", "rules"])]
    quick: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Write a page with the plots to this file, and print the summary only
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the protected times there, as a system file for keeptime analyze --bandwidth-lock
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// The system file that --write takes over, with these times for the services that run one of
    /// the kernels
    #[arg(long, value_name = "FILE", requires = "write")]
    system: Option<PathBuf>,
}

impl Args {
    fn repetitions(&self) -> u32 {
        if self.quick { 3 } else { self.repetitions }
    }

    fn rules(&self) -> Duration {
        if self.quick { Duration::from_millis(200) } else { self.rules }
    }

    fn has_rules(&self) -> bool {
        !self.rules().is_zero()
    }
}

/// Runs the command: 1 if a kernel loses enough to hogs, and too little of it comes back.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    // A template that cannot be read ends the command before anything is measured.
    let template = args.system.as_deref().map(write::read).transpose()?;
    output::check("--html", args.html.as_deref())?;
    output::check("--write", args.write.as_deref())?;
    let mut bench = Bench::open(args)?;
    let mut run = describe(args, &bench);
    let mut phases = Phases {
        progress: Progress::start("keeptime-lab bench bandwidth", None),
        done: 0,
        all: bench.tasks.len() + 2 + args.budgets.len().min(1) + usize::from(args.has_rules()),
    };
    let interrupted = signals::finished(phases.measure(args, &mut bench, &mut run))?;
    let Phases { done, all, progress } = phases;
    drop(progress);
    let end = End { interrupted, units: (done, all), name: "phases" };
    end.check()?;
    run.marks.extend(bench.marks());
    let (schema, html) = (("keeptime.bench-bandwidth", 1), args.html.as_deref());
    let json = serde_json::to_value(&run)?;
    let shown = Shown { schema, json: args.json, html, end: &end };
    shown.document(|| json, report::bandwidth::document(&run))?;
    if let Some(path) = args.write.as_ref().filter(|_| interrupted.is_none()) {
        write::write(path, template, &run, &bench)?;
        tell!("wrote {}", path.display());
    }
    let (slow, held) = run.verdict();
    end.answer(if slow == held { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The phases of the measurement.
struct Phases {
    progress: Progress,
    done: usize,
    all: usize,
}

impl Phases {
    /// Measures everything, phase by phase.
    fn measure(
        &mut self,
        args: &Args,
        bench: &mut Bench,
        run: &mut BandwidthRun,
    ) -> anyhow::Result<()> {
        run.hogs = self.phase("hogs", || measure::hogs(bench))?;
        for number in 0..bench.tasks.len() {
            let name = bench.tasks[number].0.name();
            run.kernels.push(self.phase(name, || measure::kernel(bench, number))?);
        }
        if !args.budgets.is_empty() {
            let budgets = || measure::budgets(bench, &args.budgets);
            run.budgets = Some(self.phase("budgets", budgets)?);
        }
        run.lock = Some(self.phase("lock", || lock::measure(bench))?);
        // Its regulators have the cores that the bench's own had.
        bench.end_protection();
        if args.has_rules() {
            let rules = self.phase("rules", || rules::measure(bench, args.rules(), args.fair))?;
            run.regulation.push(("budget for the rules".into(), rules.budget));
            if let Some(chosen) = rules.chosen {
                let words = format!("{}: {}", chosen.words(), chosen.why);
                run.regulation.push(("throttle-fair scheduling".into(), words));
            }
            run.rules = rules.runs;
        }
        Ok(())
    }

    fn phase<T>(
        &mut self,
        name: &str,
        measure: impl FnOnce() -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        self.progress.at(self.done as u64, self.all as u64, name);
        let measured = measure()?;
        self.done += 1;
        Ok(measured)
    }
}

fn describe(args: &Args, bench: &Bench) -> BandwidthRun {
    let list = |cores: &[usize]| {
        let words: Vec<String> = cores.iter().map(usize::to_string).collect();
        words.join(", ")
    };
    let (counting, budget) = bench.manner.words();
    let fact = |name: &str, value: String| (name.to_owned(), value);
    BandwidthRun {
        device: args.device.clone(),
        command: terminal::command_line::this_command(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        machine: super::machine_facts(&machine::online_cores())
            .into_iter()
            .chain([fact("cores of the accelerator", list(&bench.home))])
            .collect(),
        regulation: vec![
            fact("budget", budget),
            fact("counted by", counting),
            fact("period", humantime::format_duration(bench.manner.period).to_string()),
            fact("best-effort cores", list(&bench.manner.cores)),
        ],
        ..BandwidthRun::default()
    }
}

/// The cores of the accelerator, and those of the hogs.
fn seats(args: &Args) -> anyhow::Result<(Vec<usize>, Vec<usize>)> {
    let all = thread::cores();
    ensure!(
        all.len() > 1,
        "found one core that this process may use, expected one for the accelerator and one for a hog"
    );
    let home = if args.cores.is_empty() { vec![all[0]] } else { args.cores.clone() };
    if let Some(core) = home.iter().find(|core| !all.contains(core)) {
        anyhow::bail!("--cores {core}: this process may use {all:?}");
    }
    let mut others: Vec<usize> = all.into_iter().filter(|core| !home.contains(core)).collect();
    ensure!(!others.is_empty(), "--cores: found all cores, expected one core left for a hog");
    if let Some(hogs) = args.hogs {
        let most = others.len();
        ensure!(hogs as usize <= most, "--hogs {hogs}: expected at most {most}, a core for each");
        others.truncate(hogs as usize);
    }
    Ok((home, others))
}

//! `keeptime regulate`: holds best-effort cores to a budget while accelerator work holds the
//! bandwidth lock, until a signal or its program ends it.
//!
//! Everything is put back before it ends, whichever way that is; only a regulator that is killed by
//! SIGKILL can leave threads under `SCHED_IDLE` or `SCHED_EXT`, which the next one at the same socket
//! restores.

mod fair;
mod file;
pub(crate) mod load;
mod loss;
mod output;
mod program;
mod protection;
mod settings;

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ::log::Level;
use anyhow::{Context, ensure};
use bandwidth::regulator::{Managed, Statistics};
use program::Program;
use settings::{Options, Settings};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use throttle_fair::{By, Regulated};

use crate::log::{Lines, Log, LogArgs, unlocked};

/// Between two lines of `--verbose`, and two looks at the scheduler in BPF.
const LINE: Duration = Duration::from_secs(1);

/// Options of `keeptime regulate`.
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    options: Options,
    /// Hold the lock for as long as this runs, to try a budget
    #[arg(long)]
    hold: bool,
    /// End after this time, as in 10s
    #[arg(long, value_name = "TIME", value_parser = terminal::time)]
    duration: Option<Duration>,
    /// Print a line each second
    #[arg(long, short)]
    verbose: bool,
    /// Print the totals as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
    #[command(flatten)]
    calibration: protection::CalibrationOptions,
    /// A best-effort program to run on the regulated cores, with its threads managed; or the
    /// program to protect, with --calibrate
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    program: Vec<OsString>,
}

/// Events for which the main thread waits.
enum News {
    Signal(i32),
    Ended(std::io::Result<std::process::ExitStatus>),
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let settings = Settings::read(&args.options)?;
    if args.calibration.calibrate {
        ensure!(
            settings.config.rho.is_none() || settings.by != By::Bpf,
            "--fair bpf: expected user or none with --calibrate"
        );
        return protection::run(&args.calibration, settings, &args.program, args.json);
    }
    regulate(args, settings)
}

fn regulate(args: &Args, mut settings: Settings) -> anyhow::Result<ExitCode> {
    let (sender, news) = channel();
    // Before there are threads, so that none of them takes a signal's default action.
    catch_signals(sender.clone())?;
    let log = Log::start("keeptime regulate", &args.log)?;
    let lines = log.lines();
    if let Err(error) = realtime::thread::lock_memory() {
        lines.say(Level::Warn, &unlocked(&error));
    }
    let mut program = (!args.program.is_empty()).then(|| Program::new(&args.program));
    // Named before it is started, so that it is managed from its first thread on.
    if program.is_some() {
        let own = std::process::id() as i32;
        settings.config.managed.push(Managed::Descendants(own));
    }
    let regulated = Regulated::start(settings.config.clone(), settings.by)?;
    output::announce(&settings, &regulated.chosen, regulated.regulator.restored(), &lines);
    let hold = args.hold.then(|| regulated.regulator.hold()).transpose()?;
    if let Some(hold) = &hold {
        hold.acquire();
    }
    let begun = Instant::now();
    if let Some(program) = &mut program {
        program.start(&settings.config.cores, sender)?;
    }
    let ended = wait(args, &news, &regulated, begun, &lines);
    let (statistics, elapsed) = (regulated.regulator.statistics(), begun.elapsed());
    let (chosen, trouble) = (regulated.chosen.clone(), regulated.trouble());
    // Everything is put back before anything can fail or wait.
    drop(regulated);
    let status = end_program(ended, program, &news)?;
    let fair = output::Fair { chosen, trouble };
    output::total(&settings, &fair, (&statistics, elapsed), args.json)?;
    let is_lost = status == ExitCode::SUCCESS && !statistics.losses().is_empty();
    Ok(if is_lost { ExitCode::FAILURE } else { status })
}

/// Passes on what ended the regulator to its program, and waits for that.
fn end_program(
    ended: Option<News>,
    program: Option<Program>,
    news: &Receiver<News>,
) -> anyhow::Result<ExitCode> {
    let Some(program) = program else { return Ok(ExitCode::SUCCESS) };
    let is_time_over = ended.is_none();
    let mut ended = ended;
    loop {
        match ended {
            Some(News::Ended(_)) if is_time_over => return Ok(ExitCode::SUCCESS),
            Some(News::Ended(status)) => return Ok(program::exit_code(status?)),
            Some(News::Signal(signal)) => program.signal(signal),
            None => program.signal(SIGTERM),
        }
        ended = Some(news.recv().context("the program's end is not known")?);
    }
}

/// Waits for whatever ends it; `None` is the end of its time.
fn wait(
    args: &Args,
    news: &Receiver<News>,
    regulated: &Regulated,
    begun: Instant,
    log: &Lines,
) -> Option<News> {
    let mut before = regulated.regulator.statistics();
    let mut losses = loss::Losses::default();
    let mut line = begun + LINE;
    let mut is_sound = true;
    loop {
        let end = args.duration.map(|duration| begun + duration);
        let until = end.map_or(line, |end| end.min(line));
        match news.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(news) => return Some(news),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if end.is_some_and(|end| Instant::now() >= end) => {
                return None;
            }
            Err(RecvTimeoutError::Timeout) => {
                if let Some(trouble) = regulated.trouble().filter(|_| is_sound) {
                    log.say(Level::Error, &trouble);
                    is_sound = false;
                }
                let now: Statistics = regulated.regulator.statistics();
                losses.tell(&now, log);
                if args.verbose {
                    output::line(begun.elapsed(), &before, &now, log);
                }
                (before, line) = (now, line + LINE);
            }
        }
    }
}

fn catch_signals(sender: Sender<News>) -> anyhow::Result<()> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGQUIT, SIGHUP])
        .context("signals cannot be caught")?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if sender.send(News::Signal(signal)).is_err() {
                return;
            }
        }
    });
    Ok(())
}

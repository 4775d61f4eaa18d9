//! Messages about a regulator: when it starts, each second, and when it ends.

use std::io::Write;
use std::time::Duration;

use ::log::Level;
use bandwidth::regulator::{Budget, CoreStatistics, Spread, Statistics, ThreadStatistics};
use realtime::machine;
use serde_json::{Value, json};

use super::settings::Settings;
use crate::log::Lines;
use terminal::table::Table;
use throttle_fair::Chosen;

/// Above this share of stopped time the kernel's own limit on real-time threads has a part.
const CORE_LIMIT: f64 = 0.95;

/// Sharing of the regulated cores.
pub(super) struct Fair {
    pub chosen: Chosen,
    /// Failure of the implementation, if there is one.
    pub trouble: Option<String>,
}

/// Says what is regulated, and what is not as it could be.
pub(super) fn announce(settings: &Settings, chosen: &Chosen, restored: usize, log: &Lines) {
    let config = &settings.config;
    let (count, budget) = budget(&config.budget);
    let rule = config.rho.map_or_else(String::new, |rho| format!(", throttle-fair with rho {rho}"));
    log.say(
        Level::Info,
        &format!(
            "cores {:?}, {budget} in periods of {:?}, counted by {count}{rule}; \
         listening at {}",
            config.cores,
            config.period,
            config.holders.socket.display()
        ),
    );
    if let Some(note) = &settings.note {
        log.say(Level::Warn, &format!("not counted by hardware: {note}"));
    }
    if config.rho.is_some() {
        log.say(
            Level::Info,
            &format!("throttle-fair scheduling {}: {}", chosen.words(), chosen.why),
        );
    }
    if restored > 0 {
        log.say(
            Level::Warn,
            &format!(
                "scheduling policy restored of {restored} threads that a killed regulator had left \
             under SCHED_IDLE or SCHED_EXT"
            ),
        );
    }
    if matches!(config.budget, Budget::Share(share) if share < 1.0 - CORE_LIMIT) {
        log.say(Level::Warn, &limit_note());
    }
}

/// Says what the kernel does if cores are stopped for nearly all of the time.
fn limit_note() -> String {
    let limits = machine::rt_limits();
    match (limits.throttles, limits.fair_server) {
        (true, _) => format!(
            "cores are stopped for more than Linux lets real-time threads run ({} of {} us): in the \
             rest of each such time ordinary threads run unregulated",
            limits.runtime_us, limits.period_us
        ),
        (false, Some(server)) if server.runtime_ns > 0 => format!(
            "Linux runs ordinary threads that get less than {} ms of {} ms ahead of the regulator, \
             unregulated",
            server.runtime_ns / 1_000_000,
            server.period_ns / 1_000_000
        ),
        _ => "cores are stopped for nearly all of the time, and Linux sets no limit here: the \
              kernel's own threads on them starve"
            .into(),
    }
}

/// Returns the counter of a budget and its amount, in words.
fn budget(budget: &Budget) -> (String, String) {
    match budget {
        Budget::Share(share) => {
            ("time".into(), format!("{:.4} %", share * 100.0).replace(".0000", ""))
        }
        Budget::Events { event, per_period } => {
            (format!("software ({})", event.name()), format!("{per_period} events"))
        }
        Budget::Bytes { hardware, per_second } => (
            format!("hardware ({})", hardware.name),
            format!("{:.3} MB/s", *per_second as f64 / 1e6),
        ),
    }
}

/// One line of `--verbose`.
pub(super) fn line(elapsed: Duration, before: &Statistics, now: &Statistics, log: &Lines) {
    let mut text = format!("{:6.1} s", elapsed.as_secs_f64());
    for (old, new) in before.cores.iter().zip(&now.cores) {
        text += &format!(
            "   core {}: {} periods, {} stops, {} stopped",
            new.core,
            new.periods - old.periods,
            new.stops - old.stops,
            ms(new.stopped_ns - old.stopped_ns)
        );
    }
    log.say(Level::Info, &text);
}

/// The totals.
pub(super) fn total(
    settings: &Settings,
    fair: &Fair,
    (statistics, elapsed): (&Statistics, Duration),
    json: bool,
) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    match json {
        true => writeln!(out, "{:#}", value(settings, fair, statistics, elapsed)),
        false => out.write_all(text(settings, fair, statistics, elapsed).as_bytes()),
    }
}

fn value(settings: &Settings, fair: &Fair, statistics: &Statistics, elapsed: Duration) -> Value {
    let config = &settings.config;
    let (count, budget) = budget(&config.budget);
    json!({
        "schema": "keeptime.regulate",
        "version": 1,
        "cores": config.cores,
        "period_ns": config.period.as_nanos() as u64,
        "count": count,
        "budget": budget,
        "rho": config.rho,
        "fair": { "by": fair.chosen.by, "why": fair.chosen.why, "trouble": fair.trouble },
        "elapsed_ns": elapsed.as_nanos() as u64,
        "statistics": statistics,
        "losses": statistics.losses(),
        "hindrances": statistics.hindrances(),
    })
}

fn text(settings: &Settings, fair: &Fair, statistics: &Statistics, elapsed: Duration) -> String {
    let heading =
        ["core", "periods", "stops", "stopped", "of the time", "counted", "rescued", "failed"];
    let mut cores = Table::new(&heading, &[1, 2, 3, 4, 5, 6, 7]);
    statistics.cores.iter().for_each(|core| cores.row(core_row(core, elapsed)));
    let mut text = cores.render();
    text += &spread("the lock took effect after", &statistics.effect);
    text += &spread("a spent budget stopped its core after", &statistics.wake_up);
    if !statistics.threads.is_empty() {
        let heading =
            ["thread", "process", "name", "periods", "ran", "charged", "virtual run time"];
        let mut threads = Table::new(&heading, &[0, 1, 3, 4, 5, 6]);
        statistics.threads.iter().for_each(|thread| threads.row(thread_row(thread)));
        text += &format!("\n{}", threads.render());
    }
    if settings.config.rho.is_some() {
        text += &format!("throttle-fair scheduling {}: {}\n", fair.chosen.words(), fair.chosen.why);
    }
    if let Some(trouble) = &fair.trouble {
        text += &format!("{trouble}\n");
    }
    text += &super::loss::text(statistics);
    let period_ns = settings.config.period.as_nanos() as f64;
    let is_limited = |core: &&CoreStatistics| {
        core.stopped_ns as f64 > core.periods as f64 * period_ns * CORE_LIMIT
    };
    if let Some(core) = statistics.cores.iter().find(is_limited) {
        text += &format!("core {}: {}\n", core.core, limit_note());
    }
    text
}

fn core_row(core: &CoreStatistics, elapsed: Duration) -> [String; 8] {
    let part = core.stopped_ns as f64 / elapsed.as_nanos() as f64;
    [
        core.core.to_string(),
        core.periods.to_string(),
        core.stops.to_string(),
        ms(core.stopped_ns),
        format!("{:.1} %", part * 100.0),
        core.counted.to_string(),
        core.rescued.to_string(),
        core.failed.to_string(),
    ]
}

fn thread_row(thread: &ThreadStatistics) -> [String; 7] {
    [
        thread.thread.to_string(),
        thread.process.to_string(),
        thread.name.clone(),
        format!("{:.1}", thread.periods),
        ms(thread.run_ns),
        ms(thread.charged_ns),
        ms(thread.virtual_ns),
    ]
}

fn spread(what: &str, spread: &Spread) -> String {
    match spread.count {
        0 => String::new(),
        count => format!(
            "{what}: p50 {} us, p99 {} us, longest {} us, of {count}\n",
            us(spread.p50_ns),
            us(spread.p99_ns),
            us(spread.longest_ns)
        ),
    }
}

fn us(ns: u64) -> String {
    format!("{:.1}", ns as f64 / 1e3)
}

fn ms(ns: u64) -> String {
    format!("{:.1} ms", ns as f64 / 1e6)
}

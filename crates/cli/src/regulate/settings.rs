//! Settings of a regulator: from the options, else from a file, else the usual ones.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bandwidth::holders;
use bandwidth::regulator::{Attention, Budget, Config, Hardware, Managed, SoftwareEvent};

use super::fair::Fair;
use super::file;
use throttle_fair::By;

/// Default budget of best-effort cores: BWLOCK++'s section IV-C-4, in bytes.
const BYTES_PER_SECOND: u64 = 100_000_000;
const SHARE: f64 = 0.1;
const EVENTS: u64 = 16;
/// Default factor: stopped time counts as run time does.
const RHO: f64 = 1.0;

/// Options that a file can have, too.
#[derive(Clone, Debug, Default, clap::Args, serde::Deserialize)]
#[serde(default)]
pub(super) struct Options {
    /// Best-effort cores, as in 1,2; without it all but the first
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    #[serde(deserialize_with = "file::cores")]
    pub cores: Option<Vec<usize>>,
    /// The regulator's period, 100us to 1s (default 1ms)
    #[arg(long, value_name = "TIME", value_parser = terminal::time)]
    #[serde(deserialize_with = "file::time")]
    pub period: Option<Duration>,
    /// Budget of each of the cores while the lock is held: a share of each period (10%), events in
    /// a period (40), or bytes a second (100MB/s)
    #[arg(long, value_name = "AMOUNT", value_parser = parse_amount)]
    #[serde(deserialize_with = "file::budget")]
    pub budget: Option<Amount>,
    /// Counter of the budget; auto: the one that the unit of the budget names, or the first of
    /// hardware and time that works on this machine (default auto)
    #[arg(long, value_enum)]
    pub count: Option<Count>,
    /// The event to count: page-faults, minor-faults, major-faults or context-switches for
    /// software, the processor's number of it (0x17) for hardware
    #[arg(long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Share cores by throttle-fair scheduling: by the scheduler in BPF (bpf), in user space (user),
    /// or in BPF where that can be had (auto); a number is auto with that rho (default none)
    #[arg(long, value_name = "auto|bpf|user|none|RHO")]
    #[serde(deserialize_with = "file::fair")]
    pub fair: Option<Fair>,
    /// Weight of stopped time in throttle-fair scheduling, relative to run time: 0 to 1000 (default 1)
    #[arg(long)]
    pub rho: Option<f64>,
    /// Manage the threads of this process and its descendants, or of this control group (its
    /// folder); may be repeated
    #[arg(long, value_name = "PID|FOLDER", value_parser = parse_managed)]
    #[serde(deserialize_with = "file::managed")]
    pub manage: Vec<Managed>,
    /// Socket at which holders find the regulator
    #[arg(long)]
    pub socket: Option<PathBuf>,
    /// Holders' threads run at this SCHED_FIFO priority while they hold the lock, 1 to 99
    #[arg(long, value_name = "PRIORITY")]
    pub ceiling: Option<u32>,
    /// SCHED_FIFO priority of the threads that stop cores, 1 to 98; more urgent threads run on a
    /// stopped core (default 1)
    #[arg(long)]
    pub priority: Option<u8>,
    /// Time after a release in which taking the lock again costs no wake-up (default 1ms)
    #[arg(long, value_name = "TIME", value_parser = terminal::time)]
    #[serde(deserialize_with = "file::time")]
    pub linger: Option<Duration>,
    /// Notification of a core that the lock is taken. bell: the holder wakes the core's thread.
    /// look: the thread polls for as long as a holder is connected (default bell)
    #[arg(long, value_name = "HOW", value_parser = parse_attention)]
    #[serde(deserialize_with = "file::attention")]
    pub attention: Option<Attention>,
    /// Polling interval, during --linger and with --attention look, 5us to 1ms (default 20us)
    #[arg(long, value_name = "TIME", value_parser = terminal::time)]
    #[serde(deserialize_with = "file::time")]
    pub look: Option<Duration>,
    /// Users who may hold the lock besides root and this one; may be repeated
    #[arg(long, value_name = "USER")]
    #[serde(deserialize_with = "file::names")]
    pub user: Vec<String>,
    /// Groups whose members may hold the lock; may be repeated
    #[arg(long, value_name = "GROUP")]
    #[serde(deserialize_with = "file::names")]
    pub group: Vec<String>,
    /// File with values of these options; an option on the command line wins
    #[arg(long, value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
}

/// Counter of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Count {
    Hardware,
    Software,
    Time,
    Auto,
}

/// A budget as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    Share(f64),
    Events(u64),
    BytesPerSecond(u64),
}

/// Configuration of a regulator, with the findings that led to it.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub config: Config,
    /// Implementation of throttle-fair scheduling, if the configuration has a rho.
    pub by: By,
    /// Reason why the budget is not counted by hardware.
    pub note: Option<String>,
}

impl Settings {
    /// Puts together options, file and what is usual.
    pub(super) fn read(options: &Options) -> anyhow::Result<Settings> {
        let mut options = options.clone();
        if let Some(file) = &options.config.clone() {
            file::fill(&mut options, file)?;
        }
        let online = realtime::machine::online_cores();
        let cores =
            options.cores.clone().unwrap_or_else(|| online.iter().skip(1).copied().collect());
        ensure!(
            !cores.is_empty() || options.cores.is_some(),
            "--cores: this machine has one core, which holders of the lock need; expected two or more"
        );
        let (budget, note) = budget(&options, &cores)?;
        let mut config = Config::new(cores, budget);
        config.holders = door(&options)?;
        config.period = options.period.unwrap_or(config.period);
        let (by, rho) = fair(&options)?;
        config.rho = rho;
        config.managed = options.manage.clone();
        config.priority = options.priority.unwrap_or(config.priority);
        config.linger = options.linger.unwrap_or(config.linger);
        config.attention = options.attention.unwrap_or(config.attention);
        config.look = options.look.unwrap_or(config.look);
        Ok(Settings { config, by, note })
    }
}

/// The implementation of throttle-fair scheduling, and rho if it is wanted.
fn fair(options: &Options) -> anyhow::Result<(By, Option<f64>)> {
    let rho = options.rho;
    Ok(match (options.fair, rho) {
        (None, None) | (Some(Fair::None), None) => (By::Auto, None),
        (None, Some(_)) => (By::Auto, rho),
        (Some(Fair::By(by)), _) => (by, rho.or(Some(RHO))),
        (Some(Fair::Rho(number)), None) => (By::Auto, Some(number)),
        (Some(Fair::None), Some(rho)) => bail!("--rho {rho}: expected none with --fair none"),
        (Some(Fair::Rho(number)), Some(rho)) => {
            bail!("--rho {rho}: expected none with --fair {number}, which is another one")
        }
    })
}

fn door(options: &Options) -> anyhow::Result<holders::Config> {
    let mut door = holders::Config { ceiling: options.ceiling, ..holders::Config::default() };
    if let Some(socket) = &options.socket {
        door.socket.clone_from(socket);
    }
    for name in &options.user {
        let id = holders::user_id(name)
            .with_context(|| format!("--user {name}: expected a user of this machine"))?;
        door.users.push(id);
    }
    for name in &options.group {
        let id = holders::group_id(name)
            .with_context(|| format!("--group {name}: expected a group of this machine"))?;
        door.groups.push(id);
    }
    Ok(door)
}

/// The budget, and why it is not counted in a better way.
fn budget(options: &Options, cores: &[usize]) -> anyhow::Result<(Budget, Option<String>)> {
    let auto = || match options.budget {
        Some(Amount::Share(_)) => Count::Time,
        Some(Amount::Events(_)) => Count::Software,
        Some(Amount::BytesPerSecond(_)) => Count::Hardware,
        None => Count::Auto,
    };
    match options.count.filter(|count| *count != Count::Auto).unwrap_or_else(auto) {
        Count::Time => Ok((time(options)?, None)),
        Count::Software => Ok((software(options)?, None)),
        Count::Hardware => {
            let budget = hardware(options)?;
            if let (Budget::Bytes { hardware, .. }, Some(core)) = (&budget, cores.first()) {
                hardware.probe(*core).context("--count hardware")?;
            }
            Ok((budget, None))
        }
        Count::Auto => {
            let hardware = hardware(options)?;
            let Budget::Bytes { hardware: events, .. } = &hardware else {
                bail!("hardware counts bytes");
            };
            match cores.first().map_or(Ok(()), |core| events.probe(*core)) {
                Ok(()) => Ok((hardware, None)),
                Err(error) => Ok((time(options)?, Some(error.to_string()))),
            }
        }
    }
}

fn time(options: &Options) -> anyhow::Result<Budget> {
    if let Some(event) = &options.event {
        bail!("--event {event}: expected none with --count time");
    }
    match options.budget {
        None => Ok(Budget::Share(SHARE)),
        Some(Amount::Share(share)) => Ok(Budget::Share(share)),
        Some(other) => bail!("--budget {other}: expected a share, as in 10%, with --count time"),
    }
}

fn software(options: &Options) -> anyhow::Result<Budget> {
    let name = options.event.as_deref().unwrap_or(SoftwareEvent::PageFaults.name());
    let names = SoftwareEvent::ALL.map(SoftwareEvent::name).join(", ");
    let event = SoftwareEvent::ALL.into_iter().find(|event| event.name() == name);
    let event = event.with_context(|| format!("--event {name}: expected one of {names}"))?;
    match options.budget {
        None => Ok(Budget::Events { event, per_period: EVENTS }),
        Some(Amount::Events(per_period)) => Ok(Budget::Events { event, per_period }),
        Some(other) => {
            bail!("--budget {other}: expected events in a period, as in 40, with --count software")
        }
    }
}

fn hardware(options: &Options) -> anyhow::Result<Budget> {
    let hardware = match &options.event {
        None => Hardware::of_this_machine(),
        Some(text) => {
            let number = text.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
            Hardware::raw(number.with_context(|| {
                format!(
                    "--event {text}: expected the processor's number of it, as in 0x17, with \
                     --count hardware"
                )
            })?)
        }
    };
    match options.budget {
        None => Ok(Budget::Bytes { hardware, per_second: BYTES_PER_SECOND }),
        Some(Amount::BytesPerSecond(per_second)) => Ok(Budget::Bytes { hardware, per_second }),
        Some(other) => {
            bail!("--budget {other}: expected bytes a second, as in 100MB/s, with --count hardware")
        }
    }
}

/// `10%`, `40`, `100MB/s`.
pub(super) fn parse_amount(text: &str) -> Result<Amount, String> {
    let expected = "expected a share (10%), events in a period (40) or bytes a second (100MB/s)";
    let parse = || {
        if let Some(percent) = text.strip_suffix('%') {
            let percent: f64 = percent.trim_end().parse().ok()?;
            return (percent > 0.0 && percent <= 100.0).then_some(Amount::Share(percent / 100.0));
        }
        let Some(rate) = text.strip_suffix("B/s") else {
            return text.parse().ok().filter(|events| *events > 0).map(Amount::Events);
        };
        let factors = [("k", 1e3), ("M", 1e6), ("G", 1e9)];
        let unit =
            factors.iter().find_map(|(unit, factor)| Some((rate.strip_suffix(unit)?, *factor)));
        let (number, factor) = unit.unwrap_or((rate, 1.0));
        let bytes = number.trim_end().parse::<f64>().ok()? * factor;
        (1.0..1e15).contains(&bytes).then_some(Amount::BytesPerSecond(bytes as u64))
    };
    parse().ok_or_else(|| expected.to_owned())
}

impl std::fmt::Display for Amount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            // Enough places to read back what was written.
            Amount::Share(share) => write!(f, "{}%", (share * 1e8).round() / 1e6),
            Amount::Events(events) => write!(f, "{events}"),
            Amount::BytesPerSecond(bytes) if bytes % 1_000_000 == 0 => {
                write!(f, "{}MB/s", bytes / 1_000_000)
            }
            Amount::BytesPerSecond(bytes) => write!(f, "{bytes}B/s"),
        }
    }
}

pub(super) fn parse_attention(text: &str) -> Result<Attention, String> {
    match text {
        "bell" => Ok(Attention::Bell),
        "look" => Ok(Attention::Look),
        _ => Err("expected bell or look".into()),
    }
}

pub(super) fn parse_managed(text: &str) -> Result<Managed, String> {
    let expected = "expected the number of a running process, or the folder of a control group";
    if let Ok(process) = text.parse::<i32>() {
        let runs = process > 0 && std::path::Path::new(&format!("/proc/{process}")).exists();
        return runs.then_some(Managed::Process(process)).ok_or_else(|| expected.into());
    }
    let folder = PathBuf::from(text);
    let is_group = ["cgroup.threads", "tasks"].iter().any(|file| folder.join(file).exists());
    is_group.then_some(Managed::Group(folder)).ok_or_else(|| expected.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_rho_and_an_implementation_without_one_has_1() {
        let fairness = |fair: Option<&str>, rho| {
            let fair = fair.map(|text| text.parse().unwrap());
            super::fair(&Options { fair, rho, ..Options::default() }).map_err(|e| e.to_string())
        };
        assert_eq!(fairness(None, None), Ok((By::Auto, None)));
        assert_eq!(fairness(Some("none"), None), Ok((By::Auto, None)));
        assert_eq!(fairness(Some("3"), None), Ok((By::Auto, Some(3.0))));
        assert_eq!(fairness(None, Some(3.0)), Ok((By::Auto, Some(3.0))));
        assert_eq!(fairness(Some("user"), None), Ok((By::User, Some(1.0))));
        assert_eq!(fairness(Some("bpf"), Some(3.0)), Ok((By::Bpf, Some(3.0))));
        for both in ["2", "none"] {
            let error = fairness(Some(both), Some(3.0)).unwrap_err();
            assert!(error.starts_with("--rho 3: expected none with --fair"), "{error}");
        }
    }

    #[test]
    fn amounts_read_as_they_are_written() {
        for (text, amount) in [
            ("10%", Amount::Share(0.1)),
            ("0.5%", Amount::Share(0.005)),
            ("40", Amount::Events(40)),
            ("100MB/s", Amount::BytesPerSecond(100_000_000)),
            ("1.5GB/s", Amount::BytesPerSecond(1_500_000_000)),
            ("7B/s", Amount::BytesPerSecond(7)),
        ] {
            assert_eq!(parse_amount(text), Ok(amount), "{text}");
            assert_eq!(parse_amount(&amount.to_string()), Ok(amount), "{text}");
        }
        for text in ["", "0", "0%", "101%", "-1", "1.5", "MB/s", "-3MB/s", "NaN%", "infMB/s", "4KB"]
        {
            assert!(parse_amount(text).is_err(), "{text}");
        }
    }
}

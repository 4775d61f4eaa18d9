//! `keeptime-lab bench attacks`: clients of another user attack a server, while a client of the
//! highest priority goes on.
//!
//! Every attack is a process of its own that does one thing as fast as the server lets it
//! ([`attacker::Attack`]). Where that is allowed, each is of a user of its own, without privileges,
//! so that a limit of one user does not hold back the attacks of others. The server is one of
//! `keeptime serve`, with limits as a robot would have them.
//!
//! Shown: no request of the punctual client fails, none that kept its declared execution time
//! takes longer than its bound and a tolerance, and the server's memory, descriptors and threads
//! are afterwards as they were after a first minute of attacks. A request that exceeds its
//! declaration is demoted by the server, has no bound, and is shown apart. On each core a thread
//! above all others sleeps until given times ([`canary`]): how late it was woken is the machine's
//! part in what was late.

mod attacker;
mod attacks_result;
mod canary;
mod punctual;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use accel::Client;
use accel::snapshot::Standing;
use anyhow::Context;
use realtime::clock::monotonic_ns;
use realtime::thread;
use terminal::progress::Progress;
use trial::{Child, Children, signals};

pub(crate) use attacker::Attacker;

use super::floor::is_granted;
use super::service::Service;
use crate::child::Order;
use crate::shown::{End, Shown};
use attacker::Attack;
use attacks_result::Findings;
use canary::Canary;
use punctual::{PUNCTUAL, punctual};

/// Least duration of the attacks with --quick.
const QUICK: Duration = Duration::from_secs(5);
/// Usual time until a server is at rest.
const SETTLING: Duration = Duration::from_secs(3);
/// The users that attack, if the caller may become another one: this one and the ones below.
const LAST_USER: u32 = 65534;
/// Number of users: one for each attack.
const USERS: u32 = Attack::ALL.len() as u32;
/// Sessions that stay: those of the punctual client and of the one that watches.
const SESSIONS: u32 = 2;

/// Options of `keeptime-lab bench attacks`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Least duration of the attacks, after a warm-up of a tenth of it (at most a minute); they go
    /// on, for ten times as long at most, until each was done once
    #[arg(long, default_value = "60s", value_parser = terminal::time)]
    duration: Duration,
    /// Measure less: 5 s, 100 control packets, 10 sessions
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
    /// Least number of control packets; the attacks go on until they were sent
    #[arg(long, default_value_t = 10_000)]
    packets: u64,
    /// Least number of sessions with garbage in their rings
    #[arg(long, default_value_t = 200)]
    sessions: u64,
    /// The attacks
    #[arg(long, value_delimiter = ',', value_enum, default_values_t = Attack::ALL)]
    attacks: Vec<Attack>,
    /// Longest time by which a request of the punctual client may exceed its bound
    #[arg(long, default_value = "2ms", value_parser = terminal::time)]
    tolerance: Duration,
    /// Seed of the random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

impl Args {
    fn duration(&self) -> Duration {
        if self.quick { QUICK } else { self.duration }
    }

    fn packets(&self) -> u64 {
        if self.quick { self.packets.min(100) } else { self.packets }
    }

    fn sessions(&self) -> u64 {
        if self.quick { self.sessions.min(10) } else { self.sessions }
    }

    fn warm_up(&self) -> Duration {
        (self.duration() / 10).min(Duration::from_secs(60))
    }

    /// Least time that the command takes.
    fn planned(&self) -> Duration {
        self.warm_up() + self.duration() + 2 * SETTLING
    }
}

/// Runs the command.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let progress = Progress::start("keeptime-lab bench attacks", Some(args.planned()));
    let measured = measure(args, &progress);
    drop(progress);
    if measured.is_err() {
        // The server ends soon after a signal.
        signals::check()?;
    }
    let findings = measured?;
    let seconds = |time: Duration| usize::try_from(time.as_secs()).unwrap_or(usize::MAX);
    let units = (findings.seconds as usize, seconds(args.duration()));
    let end = End { interrupted: signals::interrupted(), units, name: "seconds" };
    let schema = ("keeptime.bench-attacks", 2);
    let shown = Shown { schema, json: args.json, html: None, end: &end };
    shown.text(|| findings.json(), || findings.text())?;
    let held = findings.complaints().is_empty();
    end.answer(if held { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn measure(args: &Args, progress: &Progress) -> anyhow::Result<Findings> {
    let cores = thread::cores();
    let (server_core, own_core) = (cores[0], cores[cores.len() - 1]);
    let realtime = is_granted(1);
    let strangers = rustix::process::geteuid().is_root();
    if !strangers {
        tell!("keeptime-lab bench: without root the attackers run as the punctual client's user");
    }
    let service = serve(server_core, realtime)?;
    let steal = |core: &usize| realtime::machine::steal_ns(*core).unwrap_or(0);
    let stolen_before: u64 = cores.iter().map(steal).sum();
    let stop = Arc::new(AtomicBool::new(false));
    let punctual = {
        let (socket, stop) = (service.socket.clone(), stop.clone());
        std::thread::spawn(move || punctual(&socket, &stop, own_core, realtime))
    };
    let canaries: Vec<_> = cores
        .iter()
        .map(|&core| {
            let stop = stop.clone();
            std::thread::spawn(move || canary::watch(&stop, core, realtime))
        })
        .collect();
    let mut watcher = Client::connect(&service.socket)?;
    let rules = Rules { attacks: &args.attacks, strangers, progress };
    progress.stage("warming up");
    attack(&service.socket, &rules, args.seed, |_| args.warm_up())?;
    signals::check()?;
    let before = service.settle(&mut watcher, SESSIONS)?;
    let mut asked = vec![(Attack::Packets, args.packets()), (Attack::Sessions, args.sessions())];
    asked.retain(|(attack, _)| args.attacks.contains(attack));
    let least = |done: &Done| {
        let enough = asked.iter().all(|&(attack, count)| done.of(attack) >= count)
            && args.attacks.iter().all(|attack| done.of(*attack) > 0);
        // An attack below a tenth of the requested rate is reported in the result.
        if enough { args.duration() } else { args.duration() * 10 }
    };
    let done = attack(&service.socket, &rules, args.seed.wrapping_add(1), least)?;
    // The server of attacks that were cut short is not compared.
    let after = match signals::interrupted() {
        Some(_) => before,
        None => service.settle(&mut watcher, SESSIONS)?,
    };
    let bound_ns = bound(&mut watcher)?;
    // Relaxed: the thread needs nothing but the flag.
    stop.store(true, Ordering::Relaxed);
    let panicked = |_| anyhow::anyhow!("a measuring thread panicked");
    let punctual = punctual.join().map_err(panicked)?;
    let canaries: Result<Vec<_>, _> = canaries.into_iter().map(JoinHandle::join).collect();
    let canaries = canaries.map_err(panicked)?;
    let late_ns = canaries.iter().map(Canary::latest_ns).collect();
    let of_core = |core| cores.iter().position(|&other| other == core).map(|at| &canaries[at]);
    let involved: Vec<_> = [server_core, own_core].into_iter().filter_map(of_core).collect();
    let stolen: u64 = cores.iter().map(steal).sum::<u64>().saturating_sub(stolen_before);
    Ok(Findings {
        done: args.attacks.iter().map(|attack| (attack.name(), done.of(*attack))).collect(),
        asked: asked.iter().map(|(attack, count)| (attack.name(), *count)).collect(),
        late_ns,
        seconds: done.seconds,
        requests: punctual.requests.len(),
        times: punctual.times(),
        kept: punctual.longest(false, &involved),
        overran: punctual.longest(true, &involved),
        failures: punctual.failures,
        bound_ns,
        tolerance_ns: args.tolerance.as_nanos() as u64,
        server: [before, after],
        strangers,
        realtime,
        stolen_ns: stolen,
    })
}

/// A server as a robot would have it, whose socket every user of the machine may open.
fn serve(core: usize, realtime: bool) -> anyhow::Result<Service> {
    let (own, priority) = (rustix::process::geteuid().as_raw(), if realtime { 90 } else { 0 });
    let rules: String = (0..USERS)
        .map(|index| LAST_USER - index)
        .map(|user| format!("\x20   - {{user: {user}, priority: [0, 49], sessions: 16}}\n"))
        .collect();
    let service = Service::with(&format!(
        "accelerators: [{{id: bench, buckets: 6, device: cpu, cores: [{core}]}}]\n\
         kappa: 150 us\nepsilon: 400 us\nsigma: 150 us\n\
         server:\n\
         \x20 cores: [{core}]\n\
         \x20 priority: {priority}\n\
         \x20 mode: \"0666\"\n\
         \x20 overrun: demote\n\
         \x20 access:\n\
         \x20   - {{user: {own}, priority: [0, 99]}}\n\
         {rules}"
    ))?;
    let folder = service.socket.parent().context("the socket's path has no folder")?;
    std::fs::set_permissions(folder, PermissionsExt::from_mode(0o755))?;
    Ok(service)
}

/// Rules of the attacks: their kinds, and if other users run them.
struct Rules<'a> {
    attacks: &'a [Attack],
    strangers: bool,
    progress: &'a Progress,
}

/// Number of attacks that were done, by kind, and the seconds that they took.
struct Done {
    counts: Vec<(Attack, u64)>,
    seconds: f64,
}

impl Done {
    fn of(&self, attack: Attack) -> u64 {
        let counted = self.counts.iter().find(|(which, _)| *which == attack);
        counted.map_or(0, |(_, count)| *count)
    }
}

/// Attacks in all ways at once until `until`, which may look at what was done, is over, or a signal
/// comes.
fn attack(
    socket: &Path,
    rules: &Rules<'_>,
    seed: u64,
    until: impl Fn(&Done) -> Duration,
) -> anyhow::Result<Done> {
    fastrand::seed(seed);
    let mut attackers = Children::default();
    for (&attack, user) in rules.attacks.iter().zip((0..=LAST_USER).rev()) {
        let user = rules.strangers.then_some(user);
        attackers.add(start(attack, socket, user)?)?;
    }
    let counts = rules.attacks.iter().map(|attack| (*attack, 0)).collect();
    let start_ns = monotonic_ns();
    let mut done = Done { counts, seconds: 0.0 };
    while done.seconds < until(&done).as_secs_f64() {
        if signals::sleep(Duration::from_millis(100)).is_err() {
            break;
        }
        while let Some((number, count)) = attackers.heard()? {
            done.counts[number].1 = count;
        }
        done.seconds = (monotonic_ns() - start_ns) as f64 * 1e-9;
        let counts = done.counts.iter().map(|(attack, done)| format!("{done} {}", attack.name()));
        rules.progress.change(&counts.collect::<Vec<String>>().join(", "));
    }
    Ok(done)
}

/// Starts an attacking process, as another user if one is given.
fn start(attack: Attack, socket: &Path, user: Option<u32>) -> anyhow::Result<Child> {
    let attacker = Attacker { socket: socket.to_owned(), attack, seed: fastrand::u64(..) };
    Child::order_by("an attacker", &Order::Attacker(attacker), |mut command| {
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        command
    })
}

/// The punctual chain's bound, from the server, if it is guaranteed.
fn bound(watcher: &mut Client) -> anyhow::Result<Option<u64>> {
    let snapshot = watcher.snapshot()?;
    let chain = snapshot.chains.iter().find(|chain| chain.name == PUNCTUAL);
    let guaranteed = chain.filter(|chain| chain.standing == Some(Standing::Guaranteed));
    Ok(guaranteed.and_then(|chain| chain.bound_ns))
}

//! `keeptime doctor`: what this machine allows, what that means for Keeptime, and how to grant
//! what is missing.
//!
//! A facility that can be tried is tried: a limit file says what was configured, not what the
//! kernel, a container or a hypervisor lets through.

mod facility;
mod recording;
mod rows;

use bandwidth::regulator::Hardware;
use device::Device;
use device::software::SoftwareDevice;
use std::io::Write;
use std::process::ExitCode;

use realtime::machine;
use realtime::thread::{self, Scheduling};
use serde::Serialize;

/// Time that the probe for pauses spins; long enough for fifty timer ticks at 250 Hz.
const SPIN_NS: u64 = 200_000_000;
/// Bytes of the test of locking: above the customary limit of 8 MiB, as much as a small server
/// needs.
const LOCK_BYTES: usize = 64 << 20;
/// A clock reading below this is one without a system call.
const FAST_CLOCK_NS: u64 = 100;

/// The options of `keeptime doctor`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Limited,
    Missing,
    Unknown,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    means: String,
    /// Way to grant it; none if nothing is to be granted.
    grant: Option<String>,
}

/// One accelerator that Keeptime can use here.
#[derive(Debug, Serialize)]
struct FoundDevice {
    name: String,
    found: String,
}

/// Facts about this machine that do not depend on the checks.
#[derive(Debug, Serialize)]
struct Machine {
    kernel: String,
    core_model: String,
    cores: usize,
}

/// All that the doctor has to say.
#[derive(Debug, Serialize)]
struct Diagnosis {
    machine: Machine,
    checks: Vec<Check>,
    devices: Vec<FoundDevice>,
}

impl Diagnosis {
    fn missing(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.state == State::Missing)
    }
}

/// Runs all checks and prints them; the answer is no if something needed is missing.
pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let diagnosis = diagnose();
    if args.json {
        let json = serde_json::to_string_pretty(&diagnosis)?;
        writeln!(std::io::stdout(), "{json}")?;
    } else {
        rows::print(&diagnosis)?;
    }
    Ok(if diagnosis.missing().next().is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn diagnose() -> Diagnosis {
    let probe = std::thread::spawn(probe_priority).join().unwrap_or_default();
    let mut checks = vec![
        priority(&probe),
        priority_limit(),
        group_budget(),
        throttling(),
        pauses(&probe),
        hypervisor(),
        cores(),
        clock(),
        memory_lock(),
        compaction(),
        recording::recording(),
        bandwidth_counting(),
    ];
    checks.extend(facility::checks());
    Diagnosis {
        machine: Machine {
            kernel: machine::kernel_release(),
            core_model: machine::core_model(),
            cores: machine::online_cores().len(),
        },
        checks,
        devices: devices(),
    }
}

/// Result of a short-lived thread's request for real-time priority.
#[derive(Debug, Default)]
struct Probe {
    granted: Option<u8>,
    refusal: Option<realtime::Error>,
    longest_pause_ns: u64,
}

/// Asks for the highest priority, then for what the limit allows, then spins at a low one.
fn probe_priority() -> Probe {
    let mut probe = Probe::default();
    let limit = u8::try_from(machine::priority_limit()).unwrap_or(99).min(98);
    for priority in [99, limit].into_iter().filter(|&priority| priority > 0) {
        match thread::set_policy(Scheduling::Fifo(priority)) {
            Ok(()) => {
                probe.granted = Some(priority);
                break;
            }
            Err(error) => probe.refusal = Some(error),
        }
    }
    if probe.granted.is_some() {
        // Priority 1 outranks all ordinary threads and gives way to the kernel's own.
        let _ = thread::set_policy(Scheduling::Fifo(1));
    }
    probe.longest_pause_ns = machine::longest_pause_ns(SPIN_NS);
    probe
}

fn priority(probe: &Probe) -> Check {
    let name = "real-time priority";
    match (probe.granted, &probe.refusal) {
        (Some(highest), _) => Check {
            name,
            state: if highest == 99 { State::Ok } else { State::Limited },
            found: format!("SCHED_FIFO granted up to priority {highest}"),
            means: "Keeptime's threads can run before all ordinary threads.".into(),
            grant: (highest < 99).then(|| "raise RLIMIT_RTPRIO to 99".into()),
        },
        (None, Some(realtime::Error::Privilege { missing, grant, .. })) => Check {
            name,
            state: State::Missing,
            found: format!("SCHED_FIFO refused: {missing}"),
            means: "Any ordinary thread can delay an urgent request; bounds on response times do \
                    not hold."
                .into(),
            grant: Some(grant.clone()),
        },
        (None, refusal) => Check {
            name,
            state: State::Unknown,
            found: refusal.as_ref().map_or("the probe died".into(), ToString::to_string),
            means: "It is not known whether Keeptime's threads run before ordinary ones.".into(),
            grant: None,
        },
    }
}

/// Checks that the memory traffic of a core can be counted, for budgets of `keeptime regulate`.
fn bandwidth_counting() -> Check {
    let hardware = Hardware::of_this_machine();
    let answer = machine::online_cores().last().map_or(Ok(()), |core| hardware.probe(*core));
    let (state, found, means) = match &answer {
        Ok(()) => (
            State::Ok,
            format!("{} agrees with a copy of known size", hardware.name),
            "keeptime regulate can count bytes.",
        ),
        Err(error) => (
            State::Limited,
            error.to_string(),
            "keeptime regulate gives cores a share of time instead of bytes, or counts page faults.",
        ),
    };
    Check {
        name: "bandwidth counting",
        state,
        found,
        means: means.into(),
        grant: answer.is_err().then(|| {
            "run as root or with CAP_PERFMON; a virtual machine needs counters from its host (in \
             QEMU: -cpu host,pmu=on)"
                .into()
        }),
    }
}

fn priority_limit() -> Check {
    let limit = machine::priority_limit();
    let privileged = facility::has_capability(rustix::thread::CapabilitySet::SYS_NICE);
    let (state, means) = match (privileged, limit) {
        (true, _) => (State::Ok, "This process holds CAP_SYS_NICE and needs no limit."),
        (false, 0) => (State::Missing, "Programs of this user may not use real-time priority."),
        (false, 1..99) => (State::Limited, "Chains share the priorities up to this one."),
        (false, _) => (State::Ok, "Programs of this user may use every real-time priority."),
    };
    Check {
        name: "priority limit",
        state,
        found: format!("RLIMIT_RTPRIO is {limit}"),
        means: means.into(),
        grant: (state != State::Ok).then(|| {
            "add '@realtime - rtprio 99' to /etc/security/limits.conf, add the user to the group \
             realtime, and log in again"
                .into()
        }),
    }
}

fn group_budget() -> Check {
    let name = "group budget";
    let Some(budget) = machine::cgroup_rt_budget() else {
        return Check {
            name,
            state: State::Ok,
            found: "control groups have no real-time budget here".into(),
            means: "No group can be refused real-time priority.".into(),
            grant: None,
        };
    };
    let file = budget.file.display();
    let (runtime, period) = (budget.runtime_us, budget.period_us);
    let (state, means) = match runtime {
        0 => (State::Missing, "The kernel refuses real-time priority to this whole group."),
        1.. if runtime * 10 < period * 9 => {
            (State::Limited, "Real-time threads of this group stop when the budget is used up.")
        }
        _ => (State::Ok, "The group may use what the kernel's own limit leaves."),
    };
    Check {
        name,
        state,
        found: match runtime {
            ..0 => "the control group has no limit".into(),
            _ => format!(
                "the control group may use {} ms of each {} ms",
                runtime as f64 / 1e3,
                period as f64 / 1e3
            ),
        },
        means: means.into(),
        grant: (state != State::Ok)
            .then(|| format!("as root, in each parent group and then here: echo 950000 > {file}")),
    }
}

fn throttling() -> Check {
    let limits = machine::rt_limits();
    let (mut found, mut commands, mut taken_ms) = (Vec::new(), String::new(), 0.0_f64);
    if limits.throttles {
        let (runtime, period) = (limits.runtime_us as f64 / 1e3, limits.period_us as f64 / 1e3);
        found.push(format!("real-time threads stop after {runtime} ms of each {period} ms"));
        commands += "\nsysctl kernel.sched_rt_runtime_us=-1";
        taken_ms = (period - runtime) * 1e3 / period;
    }
    if let Some(server) = limits.fair_server.filter(|server| server.runtime_ns > 0) {
        let (runtime, period) = (server.runtime_ns as f64 / 1e6, server.period_ns as f64 / 1e6);
        let source = if server.assumed { " (the kernel's default; unreadable here)" } else { "" };
        found.push(format!(
            "the fair server runs starved ordinary threads {runtime} ms of each {period} ms{source}"
        ));
        commands += "\necho 0 > /sys/kernel/debug/sched/fair_server/cpu0/runtime \
                     (and so for each core; a locked-down kernel refuses it)";
        taken_ms = taken_ms.max(runtime * 1e3 / period);
    }
    if found.is_empty() {
        return Check {
            name: "throttling",
            state: State::Ok,
            found: "none".into(),
            means: "Real-time threads may use a whole core; one that never blocks hangs it.".into(),
            grant: None,
        };
    }
    Check {
        name: "throttling",
        state: State::Limited,
        found: found.join("; "),
        means: format!(
            "Real-time threads that never leave a core idle are paused for {taken_ms} ms in every \
             second. A thread that leaves its core idle for that long is not affected."
        ),
        grant: Some(format!(
            "as root; a real-time thread that never blocks then hangs its core:{commands}"
        )),
    }
}

fn pauses(probe: &Probe) -> Check {
    let pause_us = probe.longest_pause_ns / 1_000;
    let kind = if probe.granted.is_some() { "a real-time" } else { "an ordinary" };
    Check {
        name: "pauses",
        state: if pause_us < 1_000 { State::Ok } else { State::Limited },
        found: format!(
            "{kind} thread that spun for {} ms was held up for {pause_us} us at most",
            SPIN_NS / 1_000_000
        ),
        means: "Time that interrupts, the kernel and the hypervisor take from a thread now: one \
                short sample, not a bound."
            .into(),
        grant: (pause_us >= 1_000).then(|| {
            "end other load; keep interrupts off the real-time cores (/proc/irq/*/smp_affinity); on \
             a virtual machine, ask for dedicated cores"
                .into()
        }),
    }
}

fn hypervisor() -> Check {
    let cores = machine::online_cores();
    let stolen_ns: Option<u64> = cores.iter().map(|&core| machine::steal_ns(core)).sum();
    let up_ns = realtime::clock::monotonic_ns() * cores.len().max(1) as u64;
    let stolen = stolen_ns.map_or("stolen time is unknown".into(), |ns| {
        format!("{:.2} % of core time stolen since start", ns as f64 * 100.0 / up_ns as f64)
    });
    let is_virtual = machine::is_virtual();
    Check {
        name: "hypervisor",
        state: if is_virtual { State::Limited } else { State::Ok },
        found: if is_virtual { format!("virtual machine; {stolen}") } else { "none seen".into() },
        means: if is_virtual {
            "The hypervisor can stop a core at any time, and need not report it. Times measured \
             here are this machine's, and bounds hold only while nothing is stolen."
        } else {
            "Nothing outside this kernel takes its cores."
        }
        .into(),
        grant: is_virtual.then(|| "run on the bare machine, or with dedicated cores".into()),
    }
}

fn cores() -> Check {
    let allowed = thread::cores();
    let online = machine::online_cores();
    let isolated = machine::isolated_cores();
    let separate = match isolated.len() {
        0 => "none isolated".into(),
        count => format!("{count} isolated"),
    };
    let single = allowed.len() < 2;
    Check {
        name: "cores",
        state: if single { State::Limited } else { State::Ok },
        found: format!("{} of {} allowed, {separate}", allowed.len(), online.len()),
        means: if single {
            "The server, the software accelerator and the chains share one core."
        } else if isolated.is_empty() {
            "The server and the chains can have cores of their own, shared with ordinary threads \
             and interrupts."
        } else {
            "Isolated cores run what is pinned to them, and nothing else."
        }
        .into(),
        grant: single
            .then(|| "allow a second core (taskset, or the control group's cpuset)".into()),
    }
}

fn clock() -> Check {
    let source = machine::clocksource();
    let start = realtime::clock::monotonic_ns();
    const READINGS: u64 = 1_000;
    for _ in 0..READINGS {
        std::hint::black_box(realtime::clock::monotonic_ns());
    }
    let reading_ns = (realtime::clock::monotonic_ns() - start) / READINGS;
    let fast = reading_ns < FAST_CLOCK_NS;
    let name = source.as_deref().unwrap_or("unknown source");
    Check {
        name: "clock",
        state: if fast { State::Ok } else { State::Limited },
        found: format!("{name}, {reading_ns} ns a reading"),
        means: if fast {
            "Timestamps cost next to nothing."
        } else {
            "Each timestamp is slow; records of every call slow the program down."
        }
        .into(),
        grant: (!fast).then(|| "boot with clocksource=tsc, if the cores' counters agree".into()),
    }
}

fn memory_lock() -> Check {
    let megabytes = LOCK_BYTES >> 20;
    let limit = match machine::memory_lock_limit() {
        None => "unlimited".into(),
        Some(bytes) => format!("{} KiB", bytes >> 10),
    };
    let locks = machine::can_lock_memory(LOCK_BYTES);
    Check {
        name: "memory lock",
        state: if locks { State::Ok } else { State::Limited },
        found: format!(
            "locking {megabytes} MiB {}; RLIMIT_MEMLOCK is {limit}",
            if locks { "works" } else { "is refused" }
        ),
        means: if locks {
            "Keeptime's memory can be kept resident."
        } else {
            "A thread that touches a page that was swapped out waits for a disk access."
        }
        .into(),
        grant: (!locks).then(|| {
            "add '@realtime - memlock unlimited' to /etc/security/limits.conf, or set \
             LimitMEMLOCK=infinity in the systemd unit"
                .into()
        }),
    }
}

/// Checks compaction: locked pages stay in memory, but by default the kernel may move them, and a
/// thread that touches a page meanwhile waits.
fn compaction() -> Check {
    let file = "/proc/sys/vm/compact_unevictable_allowed";
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let (state, found, means) = match text.trim() {
        "0" => (State::Ok, "locked pages stay where they are", "No page of a server moves."),
        "1" => (
            State::Limited,
            "the kernel may move locked pages",
            "A thread that touches a page while the kernel moves it waits for that.",
        ),
        _ => (State::Unknown, "the kernel does not say", "Locked pages may be moved."),
    };
    Check {
        name: "locked pages",
        state,
        found: found.into(),
        means: means.into(),
        grant: (state == State::Limited)
            .then(|| "sysctl -w vm.compact_unevictable_allowed=0".into()),
    }
}

/// The devices that a server could serve here: each is started, which is the only proof.
fn devices() -> Vec<FoundDevice> {
    let found = match SoftwareDevice::on_cores(device::software::Config::default()) {
        Ok(device) => {
            let kernels: Vec<&str> = device.kernels().iter().map(|kernel| kernel.name).collect();
            let levels = device.properties().levels;
            format!("software accelerator, {levels} levels; kernels {}", kernels.join(", "))
        }
        Err(error) => format!("software accelerator does not start: {error}"),
    };
    let software = FoundDevice { name: "cpu".into(), found };
    std::iter::once(software).chain(gpus()).chain(vulkan()).chain([onnx()]).collect()
}

/// A kind of device that this program was built without, whose feature has the same name.
#[cfg(not(all(feature = "onnx", feature = "vulkan")))]
fn not_built(name: &str) -> FoundDevice {
    let found = format!("none: this keeptime was built without the feature {name}");
    FoundDevice { name: name.into(), found }
}

#[cfg(not(feature = "vulkan"))]
fn vulkan() -> Vec<FoundDevice> {
    vec![not_built("vulkan")]
}

/// The Vulkan devices that a server could serve, or why there is none.
#[cfg(feature = "vulkan")]
fn vulkan() -> Vec<FoundDevice> {
    let found = match device_vulkan::devices() {
        Ok(found) => found,
        Err(why) => {
            return vec![FoundDevice { name: "vulkan".into(), found: format!("none: {why}") }];
        }
    };
    let describe = |device: &device_vulkan::Found| {
        let [major, minor, _] = device.vulkan;
        let (name, driver) = (&device.name, &device.driver);
        let about = format!("{name}, {driver}, Vulkan {major}.{minor}");
        match &device.missing {
            Some(missing) => format!("{about}: cannot be used: {missing}"),
            None => {
                let reaches = if device.imports { ", reaches clients' memory" } else { "" };
                format!("{about}, {} compute queues{reaches}", device.compute_queues)
            }
        }
    };
    let found_device = |device: &device_vulkan::Found| {
        let name = format!("vulkan:{}", device.index);
        FoundDevice { name, found: describe(device) }
    };
    found.iter().map(found_device).collect()
}

#[cfg(not(feature = "onnx"))]
fn onnx() -> FoundDevice {
    not_built("onnx")
}

/// ONNX Runtime, where its library is named.
#[cfg(feature = "onnx")]
fn onnx() -> FoundDevice {
    let variable = device_onnx::LIBRARY_VARIABLE;
    let found = match std::env::var_os(variable) {
        None => format!("none: {variable} does not name its library"),
        Some(path) => match device_onnx::start(&device_onnx::Config::default()) {
            Ok(device) => format!("{}, {}", device.properties().name, path.to_string_lossy()),
            Err(error) => format!("does not start: {error}"),
        },
    };
    FoundDevice { name: "onnx".into(), found }
}

/// The GPUs that a server could serve, or why there is none.
fn gpus() -> Vec<FoundDevice> {
    let found = match device_cuda::devices() {
        Ok(found) => found,
        Err(why) => {
            return vec![FoundDevice { name: "cuda".into(), found: format!("none: {why}") }];
        }
    };
    let describe = |gpu: &device_cuda::Found| {
        let config = device_cuda::Config { ordinal: gpu.ordinal, ..device_cuda::Config::default() };
        let (name, gib) = (&gpu.name, gpu.memory as f64 / f64::from(1 << 30));
        let (major, minor) = gpu.capability;
        let about = format!("{name}, {gib:.0} GiB, compute capability {major}.{minor}");
        match device_cuda::start(&config) {
            Ok(device) => format!("{about}, {} kernels", device.kernels().len()),
            Err(error) => format!("{about}: does not start: {error}"),
        }
    };
    let found_device = |gpu: &device_cuda::Found| {
        let name = format!("cuda:{}", gpu.ordinal);
        FoundDevice { name, found: describe(gpu) }
    };
    found.iter().map(found_device).collect()
}

//! Scheduling: real-time priority, what the kernel and the hypervisor take from it, cores, clock.

use realtime::machine;
use realtime::thread::{self, Scheduling};
use rustix::thread::CapabilitySet;

use crate::{Finding, kernel};

/// Time that the probe for pauses spins; long enough for fifty timer ticks at 250 Hz.
const SPIN_NS: u64 = 200_000_000;
/// A pause below this is no limit.
const SHORT_PAUSE_US: u64 = 1_000;
/// A clock reading below this is one without a system call.
const FAST_CLOCK_NS: u64 = 100;

/// Asks for the highest real-time priority, then for the one that the limit allows, in a thread of
/// its own.
pub(crate) fn priority() -> Finding {
    let asked = std::thread::spawn(|| {
        let limit = u8::try_from(machine::priority_limit()).unwrap_or(99).min(98);
        let wanted = [99, limit].into_iter().filter(|priority| *priority > 0);
        let mut refusal = None;
        for priority in wanted {
            match thread::set_policy(Scheduling::Fifo(priority)) {
                Ok(()) => return Ok(priority),
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal)
    });
    match asked.join() {
        Ok(Ok(99)) => Finding::ok("SCHED_FIFO up to priority 99"),
        Ok(Ok(highest)) => Finding::limited(format!("SCHED_FIFO up to priority {highest}"))
            .consequence("Chains share the priorities up to this one.")
            .mend(grant_priority()),
        Ok(Err(Some(realtime::Error::Privilege { missing, .. }))) => {
            Finding::missing(missing).mend(grant_priority())
        }
        Ok(Err(refusal)) => {
            let why = refusal.map_or("not known".into(), |error| error.to_string());
            Finding::missing(why)
        }
        Err(_) => Finding::missing("the probe ended early"),
    }
}

/// The command that grants real-time priority.
fn grant_priority() -> String {
    match machine::cgroup_rt_budget() {
        Some(budget) if budget.runtime_us == 0 => grant_budget(&budget),
        _ if kernel::is_root() && !kernel::has_capability(CapabilitySet::SYS_NICE) => {
            "start the container with --cap-add SYS_NICE".into()
        }
        _ => "sudo prlimit --pid $$ --rtprio=99".into(),
    }
}

fn grant_budget(budget: &machine::CgroupRtBudget) -> String {
    format!("echo 950000 | sudo tee {} (first in each parent group)", budget.file.display())
}

/// The budget that a control group of version 1 has for real-time threads.
pub(crate) fn group_budget() -> Finding {
    let Some(budget) = machine::cgroup_rt_budget() else {
        return Finding::ok("control groups have no real-time budget here");
    };
    let (runtime, period) = (budget.runtime_us, budget.period_us);
    let found = match runtime {
        ..0 => return Finding::ok("the control group has no limit"),
        _ => format!("{} ms of each {} ms", runtime as f64 / 1e3, period as f64 / 1e3),
    };
    match runtime {
        0 => Finding::missing(found)
            .consequence("The kernel refuses real-time priority to this control group.")
            .mend(grant_budget(&budget)),
        _ if runtime * 10 < period * 9 => Finding::limited(found).mend(grant_budget(&budget)),
        _ => Finding::ok(found),
    }
}

/// Time that the kernel keeps from real-time threads.
pub(crate) fn throttling() -> Finding {
    let limits = machine::rt_limits();
    let Some((kept_ns, period_ns)) = limits.kept_back() else {
        return Finding::ok("none: a real-time thread that never blocks hangs its core");
    };
    let (mut causes, mut commands) = (Vec::new(), Vec::new());
    if limits.throttles {
        causes.push("throttling");
        commands.push("sudo sysctl kernel.sched_rt_runtime_us=-1");
    }
    if limits.fair_server.is_some_and(|server| server.runtime_ns > 0) {
        causes.push("fair server");
        commands.push("echo 0 | sudo tee /sys/kernel/debug/sched/fair_server/cpu*/runtime");
    }
    let (kept_ms, period_ms) = (kept_ns as f64 / 1e6, period_ns as f64 / 1e6);
    Finding::limited(format!("{kept_ms} of {period_ms} ms kept back: {}", causes.join(", ")))
        .consequence(
            "Real-time threads that leave a core no idle time are paused for that long. Without \
             the limit, one that never blocks hangs its core.",
        )
        .mend(commands.join("; "))
}

/// The longest time for which a spinning thread was kept from its core.
pub(crate) fn pauses() -> Finding {
    let spun = std::thread::spawn(|| {
        // Priority 1 outranks all ordinary threads and gives way to the kernel's own.
        let is_realtime = thread::set_policy(Scheduling::Fifo(1)).is_ok();
        (is_realtime, machine::longest_pause_ns(SPIN_NS) / 1_000)
    });
    let (is_realtime, pause_us) = spun.join().unwrap_or_default();
    let kind = if is_realtime { "real-time" } else { "ordinary" };
    let found = format!("longest {pause_us} us in {} ms of one {kind} thread", SPIN_NS / 1_000_000);
    if pause_us < SHORT_PAUSE_US {
        return Finding::ok(found);
    }
    Finding::limited(found)
        .mend("end other load; keep interrupts off the real-time cores (/proc/irq/*/smp_affinity)")
}

/// Cores that are shared with other machines.
pub(crate) fn hypervisor() -> Finding {
    if !machine::is_virtual() {
        return Finding::ok("none seen");
    }
    let cores = machine::online_cores();
    let stolen_ns: Option<u64> = cores.iter().map(|&core| machine::steal_ns(core)).sum();
    let up_ns = realtime::clock::monotonic_ns() * cores.len().max(1) as u64;
    let stolen = stolen_ns.map_or("stolen time is unknown".into(), |ns| {
        format!("{:.2} % of its time stolen", ns as f64 * 100.0 / up_ns as f64)
    });
    Finding::limited(format!("virtual machine; {stolen}"))
        .mend("use the bare machine, or dedicated cores")
}

/// The cores that this process may use.
pub(crate) fn cores() -> Finding {
    let (allowed, online) = (thread::cores().len(), machine::online_cores().len());
    let isolated = match machine::isolated_cores().len() {
        0 => "none isolated".into(),
        count => format!("{count} isolated"),
    };
    let found = format!("{allowed} of {} allowed, {isolated}", online.max(allowed));
    match allowed {
        0 | 1 => Finding::missing(found).mend(format!("taskset -cp 0-{} $$", online.max(2) - 1)),
        _ => Finding::ok(found),
    }
}

/// The clock's source and the time of a reading.
pub(crate) fn clock() -> Finding {
    let source = machine::clocksource();
    let start = realtime::clock::monotonic_ns();
    const READINGS: u64 = 1_000;
    for _ in 0..READINGS {
        std::hint::black_box(realtime::clock::monotonic_ns());
    }
    let reading_ns = (realtime::clock::monotonic_ns() - start) / READINGS;
    let name = source.as_deref().unwrap_or("unknown source");
    let found = format!("{name}, {reading_ns} ns a reading");
    match reading_ns < FAST_CLOCK_NS {
        true => Finding::ok(found),
        false => {
            Finding::limited(found).mend("boot with clocksource=tsc, if the cores' counters agree")
        }
    }
}

//! The protected times as a system file, for BWLOCK++'s response-time equation
//! (`keeptime analyze --bandwidth-lock`).
//!
//! The time of a kernel is the longest that was measured of it with the lock and the most hogs. It
//! is what was seen, not what can be.

use std::path::Path;

use anyhow::{Context, ensure};
use report::bandwidth::{BandwidthRun, KernelRun};
use system::{Accelerator, Callback, Chain, DeviceKind, Executor, Segment, Service, System, Wait};

use super::measure::Bench;

/// The period of the chains, in times that all kernels take: they ask for half of the core.
const PERIOD: u64 = 2;
/// The name of the accelerator.
const ACCELERATOR: &str = "accelerator";

/// A system file that is to be written with other times.
pub(super) fn read(path: &Path) -> anyhow::Result<System> {
    Ok(System::read(path)?)
}

/// Writes the protected times into a system file: the template, or one with a chain for each
/// kernel.
pub(super) fn write(
    path: &Path,
    template: Option<System>,
    run: &BandwidthRun,
    bench: &Bench,
) -> anyhow::Result<()> {
    let system = match template {
        Some(system) => fill(system, &run.kernels)?,
        None => make(&run.device, &bench.home, &run.kernels)?,
    };
    let head = format!(
        "# Protected times: the longest that was measured with the lock, {}.\n# {}\n\n",
        run.date,
        name::clean(&run.command)
    );
    std::fs::write(path, head + &system.to_yaml())
        .with_context(|| format!("--write {}", path.display()))
}

/// The longest time of a kernel with the lock and the most hogs.
fn protected_ns(kernel: &KernelRun) -> u64 {
    let longest = kernel.worst().map_or(kernel.locked_ns.max, |run| run.locked_ns.max);
    longest.ceil() as u64
}

/// The times go to the services that run one of the kernels, and to the segments that call them.
fn fill(mut system: System, kernels: &[KernelRun]) -> anyhow::Result<System> {
    let time = |name: &str| kernels.iter().find(|kernel| kernel.name == name).map(protected_ns);
    let mut filled = 0;
    for service in &mut system.services {
        let Some(time_ns) = time(&service.kernel) else { continue };
        service.exec_ns = Some(time_ns);
        let callbacks = system.chains.iter_mut().flat_map(|chain| &mut chain.callbacks);
        let segments = callbacks.flat_map(|callback| &mut callback.segments);
        for segment in segments.filter(|it| it.service.as_ref() == Some(&service.name)) {
            segment.exec_ns = time_ns;
            segment.exec_min_ns = segment.exec_min_ns.map(|least| least.min(time_ns));
            filled += 1;
        }
    }
    let name = &system.name;
    ensure!(
        filled > 0,
        "{name}: chains: found no segment whose service runs one of the measured kernels, \
         expected one or more"
    );
    Ok(system)
}

/// A chain for each kernel, on the accelerator's first core, the shorter the more urgent.
fn make(device: &str, home: &[usize], kernels: &[KernelRun]) -> anyhow::Result<System> {
    let core = u32::try_from(home[0])?;
    let mut sorted: Vec<&KernelRun> = kernels.iter().collect();
    sorted.sort_by_key(|kernel| std::cmp::Reverse(protected_ns(kernel)));
    let period_ns = PERIOD * kernels.iter().map(protected_ns).sum::<u64>();
    // Only what is read again is checked; the text is the same.
    let mut system = System::parse("{}", "bench")?;
    system.accelerators = vec![Accelerator {
        id: ACCELERATOR.into(),
        buckets: 1,
        bucket_from: Vec::new(),
        device: kind(device)?,
        cores: home.iter().map(|core| u32::try_from(*core)).collect::<Result<_, _>>()?,
        concurrent_lowest: false,
        spin: false,
        blocks_per_slice: 0,
        slices_at_once: 1,
        provider: None,
        kernels: Vec::new(),
    }];
    for (rank, kernel) in (1..).zip(sorted) {
        let (name, time_ns) = (kernel.name.clone(), protected_ns(kernel));
        system.services.push(Service {
            name: name.clone(),
            accelerator: ACCELERATOR.into(),
            kernel: name.clone(),
            arguments: Vec::new(),
            exec_ns: Some(time_ns),
            bandwidth_lock: true,
        });
        system.executors.push(Executor { id: name.clone(), core, priority: rank });
        let segment = Segment {
            accel: ACCELERATOR.into(),
            exec_ns: time_ns,
            exec_min_ns: None,
            cpu_before_ns: 0,
            service: Some(name.clone()),
        };
        let callback = Callback {
            id: "run".into(),
            executor: name.clone(),
            cpu_ns: 0,
            cpu_min_ns: None,
            segments: vec![segment],
        };
        system.chains.push(Chain {
            id: name,
            priority: rank,
            period_ns,
            deadline_ns: period_ns,
            jitter_ns: 0,
            wait: Wait::Spin,
            best_effort: false,
            bucket: std::collections::BTreeMap::new(),
            callbacks: vec![callback],
        });
    }
    Ok(system)
}

/// Device in the form of a system file.
fn kind(device: &str) -> anyhow::Result<DeviceKind> {
    let text = format!("accelerators: [{{id: bench, buckets: 1, device: \"{device}\"}}]");
    Ok(System::parse(&text, "bench")?.accelerators[0].device)
}

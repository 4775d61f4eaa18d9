//! `keeptime doctor`: what this machine allows each part of Keeptime to do, and how to grant what
//! is missing.
//!
//! [`product`] lists what each part needs. Every need names a [`Subject`], which is looked at once,
//! and only if a part that was asked for needs it. A facility that can be tried is tried: a limit
//! file says what was configured, not what the kernel, a container or a hypervisor lets through.
//!
//! `keeptime doctor` prints the [`Diagnosis`].
#![forbid(unsafe_code)]

mod device;
mod diagnosis;
mod kernel;
mod libraries;
mod network;
mod pollers;
mod product;
mod recording;
mod regulation;
mod residency;
mod timing;

use std::collections::BTreeMap;

use realtime::machine;
use serde::Serialize;
use trace::session::Library;

pub use product::Product;
use product::{Need, Weight};

/// The search for the preload library that `keeptime run` would load.
pub type FindLibrary = fn() -> anyhow::Result<Library>;

/// Result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    Ok,
    Limited,
    Missing,
}

/// State of one facility of this machine.
#[derive(Clone, Debug)]
struct Finding {
    state: State,
    found: String,
    /// Consequence of exactly this, if it is another one than that of the facility's absence.
    consequence: Option<String>,
    /// Command or change that grants the facility.
    mend: Option<String>,
}

impl Finding {
    fn new(state: State, found: impl Into<String>) -> Finding {
        Finding { state, found: found.into(), consequence: None, mend: None }
    }

    fn ok(found: impl Into<String>) -> Finding {
        Finding::new(State::Ok, found)
    }

    fn limited(found: impl Into<String>) -> Finding {
        Finding::new(State::Limited, found)
    }

    fn missing(found: impl Into<String>) -> Finding {
        Finding::new(State::Missing, found)
    }

    fn mend(mut self, mend: impl Into<String>) -> Finding {
        self.mend = Some(mend.into());
        self
    }

    fn consequence(mut self, consequence: impl Into<String>) -> Finding {
        self.consequence = Some(consequence.into());
        self
    }
}

/// A facility that parts of Keeptime need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    PreloadLibrary,
    SchedulerEvents,
    PerfEvents,
    Clock,
    KernelFeatures,
    RealTimePriority,
    GroupBudget,
    Throttling,
    Pauses,
    Hypervisor,
    Cores,
    MemoryLock,
    LockedPages,
    SocketFolder,
    Software,
    CudaDriver,
    CudaDevices,
    Cupti,
    Nvml,
    GpuPollers,
    Vulkan,
    Onnx,
    BandwidthCounters,
    ThrottleFair,
    ControlGroups,
    Ros,
    Multicast,
    DdsSecurity,
    Laboratory,
    Sumo,
}

impl Subject {
    /// Name of the check.
    fn name(self) -> &'static str {
        match self {
            Subject::PreloadLibrary => "preload library",
            Subject::SchedulerEvents => "tracefs",
            Subject::PerfEvents => "perf events",
            Subject::Clock => "clock",
            Subject::KernelFeatures => "kernel features",
            Subject::RealTimePriority => "real-time priority",
            Subject::GroupBudget => "group budget",
            Subject::Throttling => "throttling",
            Subject::Pauses => "pauses",
            Subject::Hypervisor => "hypervisor",
            Subject::Cores => "cores",
            Subject::MemoryLock => "memory lock",
            Subject::LockedPages => "locked pages",
            Subject::SocketFolder => "socket folder",
            Subject::Software => "accelerator cpu",
            Subject::CudaDriver => "CUDA driver",
            Subject::CudaDevices => "accelerator cuda",
            Subject::Cupti => "CUPTI",
            Subject::Nvml => "NVML",
            Subject::GpuPollers => "GPU pollers",
            Subject::Vulkan => "accelerator vulkan",
            Subject::Onnx => "accelerator onnx",
            Subject::BandwidthCounters => "bandwidth counters",
            Subject::ThrottleFair => "BPF scheduler",
            Subject::ControlGroups => "control groups",
            Subject::Ros => "ROS 2 graph",
            Subject::Multicast => "multicast",
            Subject::DdsSecurity => "DDS security",
            Subject::Laboratory => "keeptime-lab",
            Subject::Sumo => "SUMO",
        }
    }

    fn look(self, library: FindLibrary) -> Finding {
        match self {
            Subject::PreloadLibrary => recording::preload_library(library),
            Subject::SchedulerEvents => recording::scheduler_events(),
            Subject::PerfEvents => recording::perf_events(),
            Subject::Clock => timing::clock(),
            Subject::KernelFeatures => kernel::features(),
            Subject::RealTimePriority => timing::priority(),
            Subject::GroupBudget => timing::group_budget(),
            Subject::Throttling => timing::throttling(),
            Subject::Pauses => timing::pauses(),
            Subject::Hypervisor => timing::hypervisor(),
            Subject::Cores => timing::cores(),
            Subject::MemoryLock => residency::memory_lock(),
            Subject::LockedPages => residency::locked_pages(),
            Subject::SocketFolder => network::socket_folder(),
            Subject::Software => device::software(),
            Subject::CudaDriver => device::cuda_driver(),
            Subject::CudaDevices => device::cuda_devices(),
            Subject::Cupti => libraries::cupti(),
            Subject::Nvml => libraries::nvml(),
            Subject::GpuPollers => pollers::pollers(),
            Subject::Vulkan => device::vulkan(),
            Subject::Onnx => device::onnx(),
            Subject::BandwidthCounters => regulation::counters(),
            Subject::ThrottleFair => regulation::throttle_fair(),
            Subject::ControlGroups => regulation::control_groups(),
            Subject::Ros => network::ros(),
            Subject::Multicast => network::multicast(),
            Subject::DdsSecurity => network::dds_security(),
            Subject::Laboratory => libraries::laboratory(),
            Subject::Sumo => libraries::sumo(),
        }
    }
}

/// A facility, as far as one part of Keeptime needs it.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    state: State,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    consequence: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mend: Option<String>,
    #[serde(skip)]
    weight: Weight,
}

impl Check {
    fn of(need: &Need, finding: &Finding) -> Check {
        let Finding { state, found, consequence, mend } = finding.clone();
        let is_ok = state == State::Ok;
        Check {
            name: need.subject.name(),
            state,
            found,
            consequence: (!is_ok).then(|| consequence.unwrap_or_else(|| need.without.into())),
            mend: mend.filter(|_| !is_ok),
            weight: need.weight,
        }
    }
}

/// Ability of one part of Keeptime to work here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
enum Verdict {
    #[serde(rename = "works")]
    Works,
    #[serde(rename = "works with limits")]
    Limited,
    #[serde(rename = "cannot work")]
    Cannot,
}

/// One part of Keeptime, with its checks.
#[derive(Debug, Serialize)]
struct Group {
    part: String,
    title: &'static str,
    verdict: Verdict,
    /// Names of the checks that led to the verdict.
    because: Vec<&'static str>,
    checks: Vec<Check>,
}

impl Group {
    fn of(product: Product, checks: Vec<Check>) -> Group {
        let names = |is_reason: &dyn Fn(&&Check) -> bool| -> Vec<&'static str> {
            checks.iter().filter(is_reason).map(|check| check.name).collect()
        };
        let needed =
            |check: &&Check| check.state == State::Missing && check.weight == Weight::Required;
        let wanted = |check: &&Check| check.state != State::Ok && check.weight != Weight::Extra;
        let (missing, limits) = (names(&needed), names(&wanted));
        let (verdict, because) = match (missing.is_empty(), limits.is_empty()) {
            (false, _) => (Verdict::Cannot, missing),
            (true, false) => (Verdict::Limited, limits),
            (true, true) => (Verdict::Works, limits),
        };
        Group { part: product.name(), title: product.title(), verdict, because, checks }
    }

    fn fails(&self) -> bool {
        self.verdict == Verdict::Cannot
    }
}

/// Facts about this machine that do not depend on the checks.
#[derive(Debug, Serialize)]
struct Machine {
    kernel: String,
    core_model: String,
    cores: usize,
}

/// The output of the doctor.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    schema: &'static str,
    version: u32,
    machine: Machine,
    parts: Vec<Group>,
}

/// An error without the advice that follows it and the number of the system's error.
fn cause(error: &str) -> String {
    let cause = error.split("; ").next().unwrap_or_default();
    cause.split(" (os error").next().unwrap_or_default().to_owned()
}

impl Diagnosis {
    /// Returns true if one of the parts cannot work.
    pub fn any_fails(&self) -> bool {
        self.parts.iter().any(Group::fails)
    }

    /// Returns true if none of the parts can work.
    pub fn all_fail(&self) -> bool {
        self.parts.iter().all(Group::fails)
    }

    /// The whole text, for standard output.
    pub fn text(&self) -> String {
        diagnosis::text(self)
    }
}

/// Checks what these parts need, each facility once; all parts if none is named.
pub fn diagnose(products: &[Product], library: FindLibrary) -> Diagnosis {
    let products = if products.is_empty() { &Product::ALL } else { products };
    let mut findings = BTreeMap::new();
    let mut check = |need: &Need| {
        let finding = findings.entry(need.subject).or_insert_with(|| need.subject.look(library));
        Check::of(need, finding)
    };
    let mut parts: Vec<Group> = Vec::new();
    for product in products {
        if parts.iter().all(|group| group.part != product.name()) {
            let checks = product.needs().iter().map(&mut check).collect();
            parts.push(Group::of(*product, checks));
        }
    }
    let machine = Machine {
        kernel: machine::kernel_release(),
        core_model: machine::core_model(),
        cores: machine::online_cores().len(),
    };
    Diagnosis { schema: "keeptime.doctor", version: 1, machine, parts }
}

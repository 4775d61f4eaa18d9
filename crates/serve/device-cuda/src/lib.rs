//! NVIDIA GPUs behind the device contract.
//!
//! The driver is loaded at run time (`libcuda.so.1`), through cudarc; no toolkit is needed to
//! build, and none to run unless a service is given as CUDA source ([`Code::Cuda`]), which NVRTC
//! compiles at start. Not for the preload library: cudarc panics where a function is missing.
//!
//! A GPU is a [`device::hosted::Backend`]. Each unit has a stream of each hardware priority, an
//! event to sleep on, and memory on the GPU that grows as it is needed. A block of the host's
//! scheduler is a *slice* of a grid: input is copied straight from the client's memory, which is
//! registered with the driver when it is first seen, then the kernel runs, and what it computed is
//! copied straight to the client's memory. Between slices more urgent work takes the unit; while a
//! slice runs, units that are [kept](device::hosted::Unit) for the upper levels launch on streams
//! of higher priority, whose thread blocks the GPU prefers.
//!
//! A launch of several slices has memory on the GPU of its own (`residence`): its input is copied
//! once, before the first slice, and its output once, behind the last one.
//!
//! A request that comes again, with the same arguments and memory, is launched as one graph, which
//! is captured when it is seen for the second time.
//!
//! A kernel that fails in a way that breaks the context (an illegal access, say) breaks the
//! process: the driver gives it no other. One that never ends can be stopped by nothing but the
//! end of its process. So there are two ways to have a GPU:
//!
//! - With [`Config::host`] another process has it ([`host::serve`]). A broken context ends the
//!   launches that run as [`device::FailureCode::Lost`]; one that takes ten times the budget of
//!   its launch, and half a second at least, ends as [`device::FailureCode::Endless`]. Of several
//!   that run only the one that began first is judged, for the others may be waiting for it. In
//!   both cases that process is ended and started anew before the next launch. If that fails, all
//!   later launches end as `Lost`.
//! - Without, this process has it: a broken context ends all later launches as `Lost`, and nothing
//!   is endless. Each launch takes a few microseconds less.
//!
//! It is the process's primary context: a GPU may be started only once in a process.

mod buffer;
mod builtin;
mod calibration;
mod catalog;
mod context;
mod driver;
mod gpu;
pub mod host;
mod kernel;
mod library;
mod local;
mod nap;
mod patience;
mod pins;
mod remote;
mod replay;
mod residence;
mod service;
mod slice;
mod worker;

pub use builtin::thread_blocks;
pub use driver::{Found, devices};
pub use remote::HostProgram;
pub use service::{Bytes, Code, Function, Program, Service};

use device::Level;
use device::hosted::{Hosted, Setup, Sharing, Unit};
use gpu::Gpu;
use local::Local;
use realtime::thread::Scheduling;
use remote::Remote;
use std::sync::Arc;

/// A GPU as a device. Dropping it shuts it down.
pub type CudaDevice = Hosted<Gpu>;

/// Configuration of a GPU.
#[derive(Clone, Debug)]
pub struct Config {
    /// Number of the GPU, in the driver's order.
    pub ordinal: usize,
    /// Number of levels, at least one. They are spread over the priorities that the GPU has.
    pub levels: u8,
    /// Number of launches of the lowest level that run at once.
    pub lowest: usize,
    /// Scheduling of the device's threads.
    pub policy: Scheduling,
    /// Cores of the threads that launch and wait, in turn; if empty, any.
    pub cores: Vec<usize>,
    /// True if a unit looks for the end of its slice without sleeping: faster by the time that a
    /// thread takes to wake, at the price of a core for each running slice.
    pub spins: bool,
    /// Thread blocks of a slice of the kernels that every device offers, but `busy`; 0: all.
    pub blocks_per_slice: u32,
    /// Slices of a launch that a unit gives the GPU as one grid, so that it begins nothing less
    /// urgent between them: what is more urgent still comes in between its thread blocks by the
    /// priority of its stream. Only where the GPU has a priority for each level; else one by one. A launch that is
    /// cancelled goes on for as many.
    pub slices_at_once: u32,
    /// The kernels that every device offers work on the client's own memory, which the GPU reaches
    /// over its bus each time, as an integrated GPU does; else input and output are copied, once
    /// for each launch. `reduce` and `histogram` are then one slice.
    pub in_place: bool,
    /// Services beside the kernels that every device offers.
    pub services: Vec<Service>,
    /// Launches are not cut into slices, `busy` neither.
    pub whole: bool,
    /// The program whose process has the GPU; none: this process.
    pub host: Option<HostProgram>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            ordinal: 0,
            levels: 6,
            lowest: 2,
            policy: Scheduling::Normal,
            cores: Vec::new(),
            spins: false,
            blocks_per_slice: 0,
            slices_at_once: 1,
            in_place: false,
            services: Vec::new(),
            whole: false,
            host: None,
        }
    }
}

/// Starts a GPU.
///
/// # Errors
/// [`device::Error::Start`]: there is no driver or no such GPU, a service cannot be compiled, or
/// what [`Hosted::start`] says.
pub fn start(config: &Config) -> Result<Arc<CudaDevice>, device::Error> {
    let units = units(config);
    let gpu = match &config.host {
        Some(program) => {
            let cores = units.iter().map(|unit| unit.core).collect();
            Remote::open(config, program, cores).map(Gpu::Remote)
        }
        None => Local::open(config).map(Gpu::Local),
    };
    let gpu = gpu.map_err(device::Error::Start)?;
    let setup = Setup {
        name: gpu.name().to_owned(),
        levels: config.levels,
        units,
        policy: config.policy,
        sharing: Sharing::Levels,
        copy_core: None,
    };
    Hosted::start(gpu, &setup)
}

/// The device's units: those of the lowest level, then one for each level above.
pub(crate) fn units(config: &Config) -> Vec<Unit> {
    let lowest = (0..config.lowest.max(1)).map(|_| 0);
    let levels: Vec<u8> = lowest.chain(1..config.levels).collect();
    let last = config.cores.len().saturating_sub(1);
    // From the highest level down each has a core of its own; if there are too few, the lowest ones
    // share the last: a thread that looks for the end of its slice lets no other have its core.
    let cores = (0..levels.len()).rev().map(|rank| config.cores.get(rank.min(last)).copied());
    levels.iter().zip(cores).map(|(least, core)| Unit { core, least: Level(*least) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_units_have_cores_of_their_own() {
        let cores = |lowest: usize, cores: &[usize]| -> Vec<Option<usize>> {
            let config = Config { levels: 4, lowest, cores: cores.into(), ..Config::default() };
            units(&config).iter().map(|unit| unit.core).collect()
        };
        assert_eq!(cores(1, &[8, 9, 10, 11, 12]), [Some(11), Some(10), Some(9), Some(8)]);
        assert_eq!(cores(3, &[8, 9]), [Some(9), Some(9), Some(9), Some(9), Some(9), Some(8)]);
        assert_eq!(cores(2, &[7]), [Some(7); 5]);
        assert_eq!(cores(1, &[]), [None; 4]);
    }
}

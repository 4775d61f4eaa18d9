//! Configuration of a Vulkan device.

use crate::Calibration;
use device::hosted::{Sharing, Unit};
use realtime::thread::Scheduling;

/// Configuration of a [`crate::VulkanDevice`]. The default has six levels on the first device that
/// is no processor, or the first one if all are, and the ordinary scheduling policy.
#[derive(Clone, Debug)]
pub struct Config {
    /// Device to use.
    pub device: Select,
    /// Number of levels, at least one.
    pub levels: u8,
    /// The threads that launch and wait. If empty: one, and a second one for the upper half of the
    /// levels where the device has several compute queues, so that an urgent launch need not wait
    /// for the end of a block.
    pub units: Vec<Unit>,
    /// Scheduling of the device's threads. When it is refused they run with the normal one, and
    /// [`device::Statistics::realtime`] tells.
    pub policy: Scheduling,
    /// Rule by which work gets the units.
    pub sharing: Sharing,
    /// The core of the copy engine's thread, if it is to have one.
    pub copy_core: Option<usize>,
    /// True if a unit watches for the end of its block instead of sleeping: a faster answer for a
    /// core that does nothing else.
    pub spin: bool,
    /// True if the device is to reach its clients' memory itself, where it can
    /// ([`crate::Found::imports`]), instead of staging buffers that the unit copies to and from. It
    /// still copies what a kernel of one's own may not see as it is (see [`Module`]), elements at
    /// odd addresses, an output that overlaps the input, and memory that the driver refuses.
    pub import: bool,
    /// Bytes that each of the two staging buffers of a unit has from the start; they grow as
    /// needed, which takes its time in the middle of a launch.
    pub staging_bytes: usize,
    /// Kernels beside the built-in ones.
    pub modules: Vec<Module>,
    /// Speed of the device, for the `busy` kernel; measured at the start when not given.
    pub calibration: Option<Calibration>,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            device: Select::Default,
            levels: 6,
            units: Vec::new(),
            policy: Scheduling::Normal,
            sharing: Sharing::Levels,
            copy_core: None,
            spin: false,
            import: true,
            staging_bytes: 2 << 20,
            modules: Vec::new(),
            calibration: None,
        }
    }
}

/// Choice of a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Select {
    /// The first one that is usable and no processor; if there is none, the first usable one.
    Default,
    /// The one with this [`crate::Found::index`].
    Index(usize),
    /// The first one whose name contains this, in upper or lower case.
    Name(String),
}

/// A kernel of one's own. It is trusted as the program is: clients choose its arguments and its
/// memory, but not the code.
///
/// It is one block, whatever its size, and sees, all in group (descriptor set) 0:
/// - binding 0: a storage buffer with the input of the launch,
/// - binding 1: a storage buffer with the output; what it does not write stays as it is,
/// - binding 2: a uniform buffer `struct { low: vec4<u32>, high: vec4<u32> }`: the lower and the
///   upper halves of the four arguments.
///
/// The buffers end where the client's memory ends (rounded up to four bytes, and at least 16, the
/// rest zero), so `arrayLength` tells their size, and accesses beyond are clamped or give zero.
///
/// The device binds the client's memory itself where it can ([`Config::import`]): if it begins at a
/// multiple of what the device aligns storage buffers to, and has whole words, four at least; an
/// input also only if the code declares it as read-only (`var<storage, read>`, or `NonWritable` in
/// SPIR-V), and SPIR-V only if the device catches accesses beyond a binding
/// (`robustBufferAccess2`). Otherwise it copies. The client may write to its memory meanwhile, so
/// the kernel has to end whatever it reads, also where it reads the same place twice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Module {
    /// Name of the kernel.
    pub name: String,
    /// Description of its computation, its arguments and its memory.
    pub description: String,
    /// Its code.
    pub source: Source,
    /// Name of the entry point, a compute shader.
    pub entry: String,
    /// Number of work groups of a launch.
    pub groups: Groups,
}

/// The code of a [`Module`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// WGSL text. Accesses beyond a buffer are clamped by the translation.
    Wgsl(String),
    /// SPIR-V words, of version 1.5 at most. Only what Keeptime itself relies on is checked; the
    /// rest has to be valid. Accesses beyond a buffer are left to the device's robust access.
    Spirv(Vec<u32>),
}

/// Number of work groups of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Groups {
    /// The same number for every launch.
    Fixed([u32; 3]),
    /// An argument, divided by this many elements for each group and rounded up.
    Elements {
        /// Index of the argument, 0 to 3.
        argument: usize,
        /// Elements that a group computes, at least one.
        per_group: u32,
    },
}

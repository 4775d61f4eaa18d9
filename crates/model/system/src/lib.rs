//! The system file: accelerators, executors, chains, services, the server, and graphs of nodes.
//!
//! One YAML or JSON file describes a system. [`System::read`] and [`System::parse`] turn it into
//! plain structs with times in integer nanoseconds, after every check that needs no machine:
//! unknown keys, ranges, unique ids and priorities, references, deadlines and buckets. An
//! [`Error`] names the file, the line, the key, the value found and what was expected.
//!
//! The data path is `text ->` [`files::Tree`] (positions kept) `-> System` (types, by serde)
//! `-> check` (meaning). Each
//! key is described once, at the field that it fills. [`Chain::parts`] cuts a chain at its executors, and [`System::bucket_map`] says
//! which bucket of an accelerator each chain uses. [`System::model`] is what the analysis sees, and
//! [`System::to_yaml`] writes a file that says the same, [`SystemText::assigned`] changes the priorities
//! in a text.
//!
//! ```
//! let text = r#"
//! accelerators: [{id: gpu0, buckets: 2}]
//! executors: [{id: front, core: 2, priority: 90}]
//! chains:
//!   - id: brake
//!     priority: 1
//!     period: 100 ms
//!     callbacks: [{id: see, executor: front, cpu: 2 ms, segments: [{accel: gpu0, exec: 10 ms}]}]
//! "#;
//! let system = system::System::parse(text, "brake.yaml")?;
//! assert_eq!(system.chains[0].period_ns, 100_000_000);
//! assert_eq!(system.bucket_map("gpu0")["brake"], 1);
//!
//! let error = system::System::parse("kapa: 3", "brake.yaml").unwrap_err();
//! assert!(error.to_string().starts_with("brake.yaml:1:1: kapa: unknown key"));
//! # Ok::<(), system::Error>(())
//! ```
#![forbid(unsafe_code)]

mod bucket;
mod chain;
mod check;
mod device;
mod draft;
mod field;
mod graph;
mod kernel;
mod model;
mod quantity;
mod read;
mod ros;
mod server;
mod text;
mod write;

pub use bucket::{rank_even_buckets, spread_buckets};
pub use chain::{Callback, Chain, Part, Segment, Wait};
pub use files::Error;
pub use graph::{Graph, Input, KeyPath, Node, NodeKind, NodeTimer, Work};
pub use quantity::{TimeUnit, format_time};
pub use ros::{Distribution, Middleware, Ros, RosLimits};
pub use server::{
    AccessRule, Admission, ArbitrationPolicy, Bound, Declare, Limits, Overrun, Server, Who,
};
pub use text::SystemText;

use field::{AnyTime, TimeAbove0, name, number};
use files::is_default;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::path::{Path, PathBuf};

/// Everything that one system file says, defaults filled in.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct System {
    /// The name of the file, as it was given; errors that are found later carry it too.
    #[serde(skip)]
    pub name: String,
    /// The unit of bare integers in the file; without it a time other than 0 needs its unit. All
    /// fields here are in nanoseconds already.
    pub time_unit: Option<TimeUnit>,
    /// Preemption cost of the device, charged twice to every segment.
    #[serde(rename = "kappa", with = "AnyTime")]
    pub kappa_ns: u64,
    /// Overhead of one request on the client's side.
    #[serde(rename = "epsilon", with = "AnyTime")]
    pub epsilon_ns: u64,
    /// Overhead of one request that occupies its bucket.
    #[serde(rename = "sigma", with = "AnyTime")]
    pub sigma_ns: u64,
    /// Communication cost between two consecutive parts of a chain.
    #[serde(rename = "hop", with = "AnyTime")]
    pub hop_ns: u64,
    /// The accelerators.
    pub accelerators: Vec<Accelerator>,
    /// The processes that run callbacks.
    pub executors: Vec<Executor>,
    /// The services that segments may name.
    pub services: Vec<Service>,
    /// The settings of the accelerator server.
    pub server: Server,
    /// Settings of the server as a node on the ROS 2 graph, if it is one.
    pub ros: Option<Ros>,
    /// The chains, in the order of the file.
    pub chains: Vec<Chain>,
    /// Nodes that feed each other, where the file has any.
    pub graph: Option<Graph>,
}

/// One accelerator and its priority buckets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Accelerator {
    /// Unique name.
    #[serde(deserialize_with = "name")]
    pub id: String,
    /// Number of priority buckets, 1 to [`MAX_BUCKETS`]; `buckets - 1` is the highest.
    #[serde(deserialize_with = "number::<_, _, 1, MAX_BUCKETS>")]
    pub buckets: u32,
    /// The least chain priority of each bucket, the first of which is 0; empty spreads chains
    /// evenly.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bucket_from: Vec<u32>,
    /// Device that computes.
    #[serde(default, skip_serializing_if = "is_default")]
    pub device: DeviceKind,
    /// Cores of the compute threads, one thread each; empty leaves the choice to the device.
    #[serde(default, deserialize_with = "field::cores")]
    pub cores: Vec<u32>,
    /// True if requests of the lowest bucket run beside each other.
    #[serde(default, skip_serializing_if = "is_default")]
    pub concurrent_lowest: bool,
    /// True if the threads that wait for a GPU look for the end without sleeping.
    #[serde(default, skip_serializing_if = "is_default")]
    pub spin: bool,
    /// Thread blocks of a slice of a CUDA GPU's own kernels, after which more urgent work may
    /// come; 0: all.
    #[serde(default, skip_serializing_if = "is_default")]
    pub blocks_per_slice: u32,
    /// Slices of a request that a thread puts into a stream of a GPU at once, 1 to
    /// [`MAX_SLICES_AT_ONCE`].
    #[serde(default = "field::constant::<1>", skip_serializing_if = "field::is::<1>")]
    #[serde(deserialize_with = "number::<_, _, 1, MAX_SLICES_AT_ONCE>")]
    pub slices_at_once: u32,
    /// The GPU that ONNX Runtime computes on; the processor if there is none.
    #[serde(default, with = "device::provider")]
    pub provider: Option<u32>,
    /// Kernels that the device offers beside its own.
    #[serde(default)]
    pub kernels: Vec<Kernel>,
}

/// A kernel that a device gets from a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "kernel::Keys")]
pub struct Kernel {
    /// Name that services and segments ask for; unique on its accelerator.
    pub name: String,
    /// Source of the kernel.
    #[serde(flatten)]
    pub source: Source,
}

/// Source of a kernel. Paths are relative to the folder of the system file; see [`System::path`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Source {
    /// An ONNX model.
    Model {
        /// Its file.
        #[serde(rename = "model")]
        path: PathBuf,
        /// The largest batch.
        #[serde(skip_serializing_if = "field::is::<1>")]
        batch: u32,
    },
    /// CUDA source, or PTX if the file's name ends in `.ptx`.
    Code {
        /// Its file.
        #[serde(rename = "code")]
        path: PathBuf,
        /// The function's name.
        function: String,
        /// Threads of a block.
        #[serde(skip_serializing_if = "field::is::<256>")]
        threads: u32,
        /// Items that a block works on; 0: one block.
        #[serde(skip_serializing_if = "is_default")]
        items_per_block: u32,
        /// Blocks after which more urgent work may come; 0: all.
        #[serde(skip_serializing_if = "is_default")]
        blocks_per_slice: u32,
        /// True if it works on the client's memory itself, not on a copy.
        #[serde(skip_serializing_if = "is_default")]
        in_place: bool,
        /// Bytes of the input: in any case, and for each item.
        #[serde(skip_serializing_if = "is_default")]
        input: [u64; 2],
        /// Bytes of the output, likewise.
        #[serde(skip_serializing_if = "is_default")]
        output: [u64; 2],
    },
    /// A shared library that puts its work into a stream of the GPU.
    Library {
        /// Its file.
        #[serde(rename = "library")]
        path: PathBuf,
        /// Text that the library is opened with.
        #[serde(skip_serializing_if = "is_default")]
        configuration: String,
        /// Input bytes, in the form of those of code.
        #[serde(skip_serializing_if = "is_default")]
        input: [u64; 2],
        /// Output bytes, in the form of those of code.
        #[serde(skip_serializing_if = "is_default")]
        output: [u64; 2],
    },
    /// A compute shader: SPIR-V if the file's name ends in `.spv`, else WGSL.
    Shader {
        /// Its file.
        #[serde(rename = "shader")]
        path: PathBuf,
        /// The entry point's name.
        entry: String,
        /// Number of its work groups.
        #[serde(flatten)]
        groups: Groups,
    },
}

/// Number of work groups of a request for a compute shader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Groups {
    /// The same number for every launch.
    #[serde(rename = "groups")]
    Fixed([u32; 3]),
    /// Argument 0, divided by this many items of each group and rounded up.
    #[serde(rename = "items_per_group")]
    Items(u32),
}

/// Kind of the device that computes behind an accelerator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize)]
#[serde(into = "String")]
pub enum DeviceKind {
    /// The software accelerator: threads of this machine.
    #[default]
    Cpu,
    /// The CUDA device with this ordinal.
    Cuda(u32),
    /// The Vulkan device with this ordinal.
    Vulkan(u32),
    /// ONNX Runtime.
    Onnx,
}

/// One operating-system process that runs callbacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executor {
    /// Unique name.
    #[serde(deserialize_with = "name")]
    pub id: String,
    /// The core it is pinned to.
    #[serde(deserialize_with = "number::<_, _, 0, { MAX_CORES - 1 }>")]
    pub core: u32,
    /// 1 to 99: `SCHED_FIFO` at this priority, unique per core. 0: normal scheduling.
    #[serde(default, deserialize_with = "number::<_, _, 0, MAX_PRIORITY>")]
    pub priority: u32,
}

/// A named piece of accelerator work with declared arguments and time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Service {
    /// Unique name.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// The accelerator that offers it.
    #[serde(deserialize_with = "name")]
    pub accelerator: String,
    /// The kernel it runs; the device knows which names exist.
    #[serde(deserialize_with = "name")]
    pub kernel: String,
    /// Fixed arguments, at most [`MAX_ARGUMENTS`].
    #[serde(default, deserialize_with = "arguments")]
    pub arguments: Vec<u64>,
    /// Declared execution time.
    #[serde(default, rename = "exec", with = "TimeAbove0")]
    pub exec_ns: Option<u64>,
    /// True if the server holds the memory-bandwidth lock while a request is on the device.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bandwidth_lock: bool,
}

fn arguments<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    let arguments = Vec::deserialize(from)?;
    match arguments.len() {
        0..=MAX_ARGUMENTS => Ok(arguments),
        _ => Err(D::Error::custom(format!("at most {MAX_ARGUMENTS} arguments"))),
    }
}

/// The largest number of buckets of one accelerator.
pub const MAX_BUCKETS: u32 = 64;
/// The most slices that a GPU is given at once.
pub const MAX_SLICES_AT_ONCE: u32 = 64;
/// The largest core number plus one.
pub const MAX_CORES: u32 = 1024;
/// The highest real-time priority.
const MAX_PRIORITY: u32 = 99;
/// The largest number of arguments of a service.
pub const MAX_ARGUMENTS: usize = 4;

impl System {
    /// A path of the system file, which may be relative to its folder.
    pub fn path(&self, path: &Path) -> PathBuf {
        Path::new(&self.name).parent().unwrap_or(Path::new("")).join(path)
    }

    /// The accelerator with this id.
    pub fn accelerator(&self, id: &str) -> Option<&Accelerator> {
        self.accelerators.iter().find(|a| a.id == id)
    }

    /// The executor with this id.
    pub fn executor(&self, id: &str) -> Option<&Executor> {
        self.executors.iter().find(|e| e.id == id)
    }

    /// The chain with this id.
    pub fn chain(&self, id: &str) -> Option<&Chain> {
        self.chains.iter().find(|c| c.id == id)
    }

    /// The service with this name.
    pub fn service(&self, name: &str) -> Option<&Service> {
        self.services.iter().find(|s| s.name == name)
    }

    /// The chains, the most critical (highest priority) first.
    pub fn chains_by_priority(&self) -> Vec<&Chain> {
        let mut chains: Vec<&Chain> = self.chains.iter().collect();
        chains.sort_by_key(|chain| std::cmp::Reverse(chain.priority));
        chains
    }

    /// Refuses a file without accelerators: the server has nothing to serve.
    ///
    /// # Errors
    /// [`Error::Missing`] when the file has no accelerator.
    pub fn require_accelerators(&self) -> Result<(), Error> {
        self.require(!self.accelerators.is_empty(), "accelerators", "accelerator")
    }

    /// Refuses a file without chains: the chain runner and the analysis have nothing to do.
    ///
    /// # Errors
    /// [`Error::Missing`] when the file has no chain.
    pub fn require_chains(&self) -> Result<(), Error> {
        self.require(!self.chains.is_empty(), "chains", "chain")
    }

    /// The graph, for who cannot do without.
    ///
    /// # Errors
    /// [`Error::Missing`] when the file has none.
    pub fn require_graph(&self) -> Result<&Graph, Error> {
        let missing = || Error::Missing { file: self.name.clone(), section: "graph", item: "node" };
        self.graph.as_ref().ok_or_else(missing)
    }

    fn require(
        &self,
        present: bool,
        section: &'static str,
        item: &'static str,
    ) -> Result<(), Error> {
        if present {
            return Ok(());
        }
        Err(Error::Missing { file: self.name.clone(), section, item })
    }
}

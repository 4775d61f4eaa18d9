//! The ways of handing a network over, and what they have in common.

use crate::network::{Network, Output};
use realtime::clock::monotonic_ns;
use serde::Serialize;

/// A way of handing a network to an accelerator.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Each copy and each kernel by a call of its own, into one stream.
    Streams,
    /// One graph of all copies and kernels, made and instantiated before.
    Graph,
    /// One kernel that launches all others from the GPU.
    DynamicParallelism,
    /// One small graph that launches the graph of all kernels from the GPU.
    DeviceGraph,
    /// One graph whose loop node repeats a layer.
    ConditionalGraph,
    /// One kernel that never ends and takes requests out of a ring in memory.
    PersistentKernel,
    /// One command buffer, recorded before.
    CommandBuffer,
    /// One run of a model by an inference runtime.
    Model,
}

impl Method {
    /// All of them, in the order of the tables.
    pub const ALL: [Method; 8] = [
        Method::Streams,
        Method::Graph,
        Method::DynamicParallelism,
        Method::DeviceGraph,
        Method::ConditionalGraph,
        Method::PersistentKernel,
        Method::CommandBuffer,
        Method::Model,
    ];

    /// Its name in options, tables and files.
    pub fn name(self) -> &'static str {
        match self {
            Method::Streams => "streams",
            Method::Graph => "graph",
            Method::DynamicParallelism => "dynamic-parallelism",
            Method::DeviceGraph => "device-graph",
            Method::ConditionalGraph => "conditional-graph",
            Method::PersistentKernel => "persistent-kernel",
            Method::CommandBuffer => "command-buffer",
            Method::Model => "model",
        }
    }

    /// Describes in a sentence the work that each call hands over.
    pub fn description(self) -> &'static str {
        match self {
            Method::Streams => "each copy and each kernel is submitted by a call of its own",
            Method::Graph => "all copies and kernels are one graph, launched by one call",
            Method::DynamicParallelism => {
                "one kernel is launched, which launches all others from the GPU"
            }
            Method::DeviceGraph => {
                "one small graph is launched, which launches the graph of all kernels from the GPU"
            }
            Method::ConditionalGraph => {
                "one graph is launched, whose loop node repeats the kernels of a layer"
            }
            Method::PersistentKernel => {
                "a kernel that never ends takes the request out of a ring in pinned memory"
            }
            Method::CommandBuffer => {
                "all copies and kernels are one command buffer, recorded before and submitted by \
                 one call"
            }
            Method::Model => "the network is a model of an inference runtime, run by one call",
        }
    }
}

/// An accelerator, as tables and reports name it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct About {
    /// Name of the accelerator as an option takes it, as in `cuda:0`.
    pub id: String,
    /// The device's own name.
    pub name: String,
    /// The interface and the driver with their versions.
    pub driver: String,
}

/// An open accelerator.
pub trait Accelerator: Send {
    /// Description of the accelerator.
    fn about(&self) -> &About;

    /// The methods that are meant for it, each with the reason if it does not work here.
    fn methods(&self) -> Vec<(Method, Result<(), String>)>;

    /// Prepares a network, and reports what that took.
    ///
    /// # Errors
    /// [`Error::Unavailable`] for a method that [`Accelerator::methods`] does not list as working;
    /// [`Error::Failed`].
    fn build(&mut self, method: Method, network: &Network) -> Result<Built<'_>, Error>;
}

/// A network that is ready to be submitted.
pub struct Built<'a> {
    /// Submits it.
    pub run: Box<dyn Run + 'a>,
    /// Steps that were done once, in order.
    pub steps: Vec<Step>,
}

/// Something that is done once for a network, not in each repetition.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Step {
    /// Kind of the step: `compile`, `allocate`, `write`, `load`, `record`, `instantiate`, `upload`,
    /// `start`.
    pub name: &'static str,
    /// Duration of the step, in nanoseconds.
    pub ns: u64,
}

/// A network that can be submitted again and again, one submission at a time.
///
/// A submission uploads the four inputs of the network from host memory, computes all layers, and
/// downloads the two outputs to host memory.
pub trait Run {
    /// Hands the network over, and returns without waiting for its end.
    ///
    /// # Errors
    /// [`Error::Failed`].
    fn submit(&mut self) -> Result<(), Error>;

    /// Returns true if the last submission has ended and its output is in host memory. Does not
    /// sleep.
    ///
    /// # Errors
    /// [`Error::Failed`].
    fn is_finished(&mut self) -> Result<bool, Error>;

    /// Sleeps until what was submitted last has ended, as far as the interface can sleep.
    ///
    /// # Errors
    /// [`Error::Failed`].
    fn wait(&mut self) -> Result<(), Error>;

    /// Output that the last repetition downloaded.
    ///
    /// # Errors
    /// [`Error::Failed`].
    fn output(&mut self) -> Result<Output, Error>;
}

/// Reason why something could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// Hardware or software that this machine lacks.
    #[error("{0}")]
    Unavailable(String),
    /// Something that should work did not.
    #[error("{doing}: {why}")]
    Failed {
        /// Activity that failed.
        doing: String,
        /// Reason, such as the driver's message.
        why: String,
    },
    /// A signal came.
    #[error("interrupted")]
    Interrupted,
}

impl Error {
    /// A failure of what was being done.
    pub fn failed(doing: impl Into<String>, why: impl std::fmt::Display) -> Error {
        Error::Failed { doing: doing.into(), why: why.to_string() }
    }
}

/// Takes the time of the steps of a build.
#[derive(Default)]
pub(crate) struct Steps(Vec<Step>);

impl Steps {
    /// Does a step.
    pub(crate) fn step<T>(&mut self, name: &'static str, step: impl FnOnce() -> T) -> T {
        let begin = monotonic_ns();
        let made = step();
        self.0.push(Step { name, ns: monotonic_ns() - begin });
        made
    }

    /// All steps until now.
    pub(crate) fn all(self) -> Vec<Step> {
        self.0
    }
}

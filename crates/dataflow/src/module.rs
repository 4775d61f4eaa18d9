//! Modules, which the user of the crate writes.

use crate::{Cx, Input};

/// Variant of its computation that a module is asked for (COLA, section 4.1: fastpath).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Path {
    /// Everything.
    Normal,
    /// The time budget does not hold everything: the most urgent first, in less detail. Only
    /// modules that [`crate::ModuleRef::fast_path`] allows get it.
    Fast,
}

/// Reason for which a run ended without a result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// A checkpoint said [`crate::Checkpoint::Cancel`].
    #[error("cancelled")]
    Cancelled,
    /// The run had nothing to publish.
    #[error("nothing to publish")]
    Nothing,
    /// The computation failed; the text says why. Counted and traced, the graph goes on.
    #[error("{0}")]
    Failed(String),
}

/// Amount of work of an input, by category: the `Number_i` of COLA's equation 3. The runtime learns
/// the cost of one of each category.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// The number of each category (vehicles, pedestrians, ...), always in the same order; at
    /// most [`Load::CATEGORIES`].
    pub counts: Vec<f64>,
    /// A bound of the execution time, which counts as long as nothing was learned.
    pub declared_ns: Option<u64>,
}

impl Load {
    /// Number of categories that can be told apart.
    pub const CATEGORIES: usize = 8;

    /// Work by category.
    ///
    /// # Panics
    /// With more than [`Load::CATEGORIES`] categories.
    pub fn of(counts: &[f64]) -> Load {
        assert!(counts.len() <= Load::CATEGORIES, "{} categories", counts.len());
        Load { counts: counts.to_vec(), declared_ns: None }
    }

    /// The same with a bound that counts until the runtime has seen runs.
    pub fn declared_ns(mut self, bound_ns: u64) -> Load {
        self.declared_ns = Some(bound_ns);
        self
    }
}

/// One computation of a graph: fed by messages, run by an executor on the wall clock or on a
/// virtual one.
///
/// A module keeps its state in itself. It is run by one thread at a time. The same code serves both
/// executors: it reads no clock but [`Cx::now_ns`], and sleeps nowhere.
///
/// ```
/// use dataflow::{Cx, Load, Message, Module, Part, Path, Stop};
///
/// /// Sums its input; on the fast path the largest number comes first.
/// struct Sum;
///
/// impl Module for Sum {
///     type In = Message<Vec<u64>>;
///     type Out = u64;
///
///     fn estimate(&self, numbers: &Self::In, _: Path) -> Load {
///         Load::of(&[numbers.len() as f64])
///     }
///
///     fn run(&mut self, cx: &mut Cx<u64>, numbers: &Self::In, path: Path) -> Result<u64, Stop> {
///         if path == Path::Fast {
///             cx.publish_partial(*numbers.iter().max().ok_or(Stop::Nothing)?, Part::first(2));
///         }
///         let mut sum = 0;
///         for number in numbers.iter() {
///             sum += number;
///             cx.go_on()?;
///         }
///         Ok(sum)
///     }
/// }
/// ```
pub trait Module: Send + 'static {
    /// Input that it reads: `Message<T>` (must be there), `Option<Message<T>>` (the newest, if
    /// any), `Vec<Message<T>>` (all that wait), tuples of these, or `()`.
    type In: Input;
    /// Value that it publishes.
    type Out: Send + Sync + 'static;

    /// Estimates the work of `input` on `path`. Must be cheap: it is asked before each run.
    fn estimate(&self, input: &Self::In, path: Path) -> Load {
        let _ = (input, path);
        Load::default()
    }

    /// Computes. What it returns is published, as the last part if parts were published before.
    ///
    /// # Errors
    /// [`Stop`]: nothing more is published.
    fn run(
        &mut self,
        cx: &mut Cx<'_, Self::Out>,
        input: &Self::In,
        path: Path,
    ) -> Result<Self::Out, Stop>;
}

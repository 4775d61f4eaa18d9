//! Times that are longer than the file declares, so that bounds hold where a machine takes longer.

use system::{Graph, Segment, Work};

/// The largest margin: above it, something else is wrong.
const MAX: f64 = 100.0;

/// By how much declared times are multiplied before they are bounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimeMargin(f64);

impl TimeMargin {
    /// As on the command line: 1 to 100.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn parse(text: &str) -> Result<TimeMargin, String> {
        match text.parse() {
            Ok(margin) if (1.0..=MAX).contains(&margin) => Ok(TimeMargin(margin)),
            _ => Err(format!("expected 1 to {MAX}, as in 1.2")),
        }
    }

    /// The graph with processor and accelerator times that are so many times as long.
    pub fn lengthen(self, graph: &Graph) -> Graph {
        let mut graph = graph.clone();
        // At most 100 times what the checks let in: far from the end of the range.
        let more = |ns: u64| (ns as f64 * self.0).ceil() as u64;
        let segments = |segments: &mut [Segment]| {
            segments.iter_mut().for_each(|segment| segment.exec_ns = more(segment.exec_ns));
        };
        for node in &mut graph.nodes {
            match &mut node.work {
                Work::Cpu(ns) | Work::Primes { cpu_ns: Some(ns), .. } => *ns = more(*ns),
                Work::None | Work::Primes { cpu_ns: None, .. } => {}
            }
            node.timer.iter_mut().for_each(|timer| segments(&mut timer.segments));
            node.inputs.iter_mut().for_each(|input| segments(&mut input.segments));
        }
        graph
    }

    /// In words, if it is one.
    pub fn words(self) -> Option<String> {
        let TimeMargin(margin) = self;
        (margin > 1.0).then(|| format!("bounds of times {margin} times as long as declared"))
    }
}

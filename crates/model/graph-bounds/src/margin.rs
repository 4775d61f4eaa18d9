//! Times that are longer than the file declares, so that bounds hold where a machine takes longer.

use std::collections::BTreeMap;

use system::{Graph, Segment, Work};

/// The largest margin: above it, something else is wrong.
const MAX: f64 = 100.0;
/// Factor on the longest measured time, since later times may be longer: a tenth more.
const BEYOND: f64 = 1.1;

/// Source of the margin of a run.
#[derive(Clone, Debug, PartialEq)]
pub enum MarginSource {
    /// The command line.
    Given(TimeMargin),
    /// A rehearsal on this machine.
    Measured,
}

/// Factors by which declared times are multiplied before they are bounded.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeMargin {
    processor: f64,
    accelerators: Accelerators,
}

#[derive(Clone, Debug, PartialEq)]
enum Accelerators {
    /// The factor of the processor.
    Alike,
    /// Factors that a rehearsal found.
    Measured(BTreeMap<String, f64>),
}

impl MarginSource {
    /// Parses the option of the command line: 1 to 100, or `measured`.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn parse(text: &str) -> Result<MarginSource, String> {
        match text {
            "measured" => Ok(MarginSource::Measured),
            _ => TimeMargin::parse(text)
                .map(MarginSource::Given)
                .map_err(|expected| format!("{expected}, or measured")),
        }
    }
}

impl TimeMargin {
    /// Parses the option of the command line: 1 to 100.
    ///
    /// # Errors
    /// Says what was expected.
    pub fn parse(text: &str) -> Result<TimeMargin, String> {
        match text.parse() {
            Ok(margin) if (1.0..=MAX).contains(&margin) => {
                Ok(TimeMargin { processor: margin, accelerators: Accelerators::Alike })
            }
            _ => Err(format!("expected 1 to {MAX}, as in 1.2")),
        }
    }

    /// A tenth more than the longest times that were measured, as multiples of declared ones.
    ///
    /// # Errors
    /// Says which is larger than a margin may be.
    pub fn measured(
        processor: f64,
        accelerators: BTreeMap<String, f64>,
    ) -> Result<TimeMargin, String> {
        let beyond = |name: &str, longest: f64| match (longest * BEYOND).max(1.0) {
            margin if margin <= MAX => Ok(margin),
            _ => Err(format!(
                "--margin measured: {name} times were up to {longest:.1} times as long as \
                 declared, expected at most {:.0} times",
                MAX / BEYOND
            )),
        };
        let processor = beyond("processor", processor)?;
        let each = |(id, longest): (String, f64)| Ok((id.clone(), beyond(&id, longest)?));
        let accelerators = accelerators.into_iter().map(each).collect::<Result<_, String>>()?;
        Ok(TimeMargin { processor, accelerators: Accelerators::Measured(accelerators) })
    }

    /// The graph with processor and accelerator times longer by these factors.
    pub fn lengthen(&self, graph: &Graph) -> Graph {
        let mut graph = graph.clone();
        // At most 100 times what the checks let in: far from the end of the range.
        let more = |ns: u64, margin: f64| (ns as f64 * margin).ceil() as u64;
        let segments = |segments: &mut [Segment]| {
            let segments = segments.iter_mut();
            segments.for_each(|segment| {
                segment.exec_ns = more(segment.exec_ns, self.accelerator(&segment.accel));
            });
        };
        for node in &mut graph.nodes {
            match &mut node.work {
                Work::Cpu(ns) | Work::Primes { cpu_ns: Some(ns), .. } => {
                    *ns = more(*ns, self.processor);
                }
                Work::None | Work::Primes { cpu_ns: None, .. } => {}
            }
            node.timer.iter_mut().for_each(|timer| segments(&mut timer.segments));
            node.inputs.iter_mut().for_each(|input| segments(&mut input.segments));
        }
        graph
    }

    /// The margin in words, if it is one.
    pub fn words(&self) -> Option<String> {
        let processor = self.processor;
        match &self.accelerators {
            Accelerators::Alike => (processor > 1.0)
                .then(|| format!("bounds of times {processor} times as long as declared")),
            Accelerators::Measured(accelerators) => {
                let each = accelerators.iter().map(|(id, margin)| format!(", {id} {margin:.2}"));
                Some(format!(
                    "bounds of processor times {processor:.2}{} times as long as declared: a \
                     tenth more than the longest of a rehearsal",
                    each.collect::<String>()
                ))
            }
        }
    }

    fn accelerator(&self, id: &str) -> f64 {
        match &self.accelerators {
            Accelerators::Alike => self.processor,
            Accelerators::Measured(accelerators) => accelerators.get(id).copied().unwrap_or(1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_margin_is_a_tenth_more_than_the_longest_and_never_shortens() {
        let one = |longest| BTreeMap::from([("gpu0".to_owned(), longest)]);
        let margin = TimeMargin::measured(1.5, one(0.5)).unwrap();
        assert!((margin.processor - 1.65).abs() < 1e-9 && margin.accelerator("gpu0") == 1.0);
        let said = margin.words().unwrap();
        assert!(said.contains("processor times 1.65, gpu0 1.00 times as long"), "{said}");
        let refused = TimeMargin::measured(1.0, one(95.0)).unwrap_err();
        assert!(refused.contains("gpu0 times were up to 95.0 times"), "{refused}");
    }
}

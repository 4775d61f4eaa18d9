//! Measures several accelerators and methods over sizes of the network.

use crate::measure::{self, Protocol, Sample, Seat};
use crate::network::{Network, Output, Shape};
use crate::{About, Accelerator, Error, Method, Step};
use serde::Serialize;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use trial::signals;

/// Cases to be measured, and the rules for that.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Plan {
    /// Widths.
    pub k: Vec<usize>,
    /// Depths.
    pub l: Vec<usize>,
    /// Methods; all of an accelerator if there are none.
    pub methods: Vec<Method>,
    /// Rules for the measurement of a case.
    pub protocol: Protocol,
    /// Core and priority of the measuring thread.
    pub seat: Seat,
}

/// Results of the measurements.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Study {
    /// Plan of the measurements.
    pub plan: Plan,
    /// The accelerators, in the order of the cases.
    pub accelerators: Vec<About>,
    /// Cases, one for each accelerator, method and size, in the order in which they were measured.
    pub cases: Vec<Case>,
    /// Methods and sizes that could not be measured.
    pub missing: Vec<Missing>,
}

/// Case: an accelerator, a method and a size.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Case {
    /// Index into [`Study::accelerators`].
    pub accelerator: usize,
    /// Method of submission.
    pub method: Method,
    /// The size.
    pub shape: Shape,
    /// Steps that were done once.
    pub steps: Vec<Step>,
    /// All repetitions, in order.
    #[serde(skip)]
    pub samples: Vec<Sample>,
    /// The largest absolute difference from what the processor computed.
    pub difference: f32,
    /// The largest difference that rounding explains; more is a wrong result.
    pub tolerance: f32,
}

impl Case {
    /// Returns true if the result is right.
    pub fn is_right(&self) -> bool {
        self.difference <= self.tolerance
    }
}

/// A method, or one of its sizes, that could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Missing {
    /// Index into [`Study::accelerators`].
    pub accelerator: usize,
    /// The method.
    pub method: Method,
    /// The size; all if there is none.
    pub shape: Option<Shape>,
    /// Reason why it could not be measured.
    pub why: String,
}

/// Measures everything in turns: for each size all methods one after the other, so that they meet
/// the same machine. `tell` hears of each case, and may end the study: then it holds the cases up
/// to there. A [signal](trial::signals) ends it, too, without the case that had begun.
///
/// # Errors
/// The plan's sizes are beyond the limits, or the seat is refused. What goes wrong in a case is
/// [`Study::missing`].
pub fn run(
    plan: &Plan,
    accelerators: &mut [Box<dyn Accelerator>],
    mut tell: impl FnMut(&Study, &Case) -> ControlFlow<()>,
) -> Result<Study, Error> {
    // Refused now, not after an hour.
    drop(plan.seat.take().map_err(|error| Error::Unavailable(error.to_string()))?);
    let mut study = Study {
        plan: plan.clone(),
        accelerators: accelerators.iter().map(|one| one.about().clone()).collect(),
        cases: Vec::new(),
        missing: Vec::new(),
    };
    let contenders = contenders(plan, accelerators, &mut study.missing);
    if contenders.is_empty() {
        return Ok(study);
    }
    let mut depths = plan.l.clone();
    depths.sort_unstable();
    depths.dedup();
    for &k in &plan.k {
        let sizes = depths.iter().map(|l| Network::new(Shape { k, l: *l }));
        let networks = sizes.collect::<Result<Vec<_>, _>>()?;
        let Some(deepest) = networks.last() else { continue };
        let references = deepest.reference(&depths);
        for (network, reference) in networks.iter().zip(&references) {
            for &(accelerator, method) in &contenders {
                if signals::interrupted().is_some() {
                    return Ok(study);
                }
                let one = accelerators[accelerator].as_mut();
                match case(plan, one, method, network, reference) {
                    Ok(case) => {
                        let case = Case { accelerator, ..case };
                        let next = tell(&study, &case);
                        study.cases.push(case);
                        if next.is_break() {
                            return Ok(study);
                        }
                    }
                    Err(Error::Interrupted) => return Ok(study),
                    Err(error) => study.missing.push(Missing {
                        accelerator,
                        method,
                        shape: Some(network.shape),
                        why: error.to_string(),
                    }),
                }
            }
        }
    }
    Ok(study)
}

/// Lists the methods that take part, and adds those that do not work to `missing`.
fn contenders(
    plan: &Plan,
    accelerators: &[Box<dyn Accelerator>],
    missing: &mut Vec<Missing>,
) -> Vec<(usize, Method)> {
    let mut contenders = Vec::new();
    for (index, accelerator) in accelerators.iter().enumerate() {
        for (method, works) in accelerator.methods() {
            if !plan.methods.is_empty() && !plan.methods.contains(&method) {
                continue;
            }
            match works {
                Ok(()) => contenders.push((index, method)),
                Err(why) => {
                    missing.push(Missing { accelerator: index, method, shape: None, why });
                }
            }
        }
    }
    contenders
}

fn case(
    plan: &Plan,
    accelerator: &mut dyn Accelerator,
    method: Method,
    network: &Network,
    reference: &Output,
) -> Result<Case, Error> {
    let mut built = accelerator.build(method, network)?;
    let seated = plan.seat.take().map_err(|error| Error::Unavailable(error.to_string()))?;
    let samples = measure::repeat(built.run.as_mut(), &plan.protocol);
    drop(seated);
    let output = built.run.output()?;
    Ok(Case {
        accelerator: 0,
        method,
        shape: network.shape,
        steps: built.steps,
        samples: samples?,
        difference: output.difference(reference),
        tolerance: network.tolerance(),
    })
}

impl Study {
    /// The cases by size, for each contender in the order of the accelerators and methods.
    pub fn by_contender(&self) -> BTreeMap<(usize, Method), BTreeMap<Shape, &Case>> {
        let mut all: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
        for case in &self.cases {
            let contender = (case.accelerator, case.method);
            all.entry(contender).or_default().insert(case.shape, case);
        }
        all
    }

    /// A contender's name: the method, and the accelerator where there are several.
    pub fn contender(&self, accelerator: usize, method: Method) -> String {
        format!("{} {}", self.accelerators[accelerator].id, method.name())
    }

    /// Returns true if every result is right.
    pub fn is_right(&self) -> bool {
        self.cases.iter().all(Case::is_right)
    }
}

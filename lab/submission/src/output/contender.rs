//! Contenders of a study, and their look in plots.

use crate::Method;
use crate::network::Shape;
use crate::study::{Case, Study};
use crate::summary::{Spread, Time};
use std::collections::BTreeMap;

/// A method on an accelerator.
pub(super) struct Contender<'s> {
    /// Accelerator and method.
    pub(super) name: String,
    /// Index into [`Study::accelerators`].
    pub(super) accelerator: usize,
    /// Method of submission.
    pub(super) method: Method,
    /// Look of the contender in plots.
    pub(super) look: Look,
    /// Cases by size.
    pub(super) cases: BTreeMap<Shape, &'s Case>,
}

/// Look of a contender: the method says the colour, the accelerator the line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Look {
    /// The place of its method in [`Method::ALL`].
    pub(super) method: usize,
    /// Number of accelerators before it that have the same method.
    pub(super) turn: usize,
}

/// All contenders, in the order of accelerators and methods.
pub(super) fn contenders(study: &Study) -> Vec<Contender<'_>> {
    let mut turns: BTreeMap<Method, usize> = BTreeMap::new();
    let contender = |((accelerator, method), cases)| {
        let turn = turns.entry(method).or_default();
        let look = Look {
            method: Method::ALL.iter().position(|one| *one == method).unwrap_or(0),
            turn: *turn,
        };
        *turn += 1;
        let name = study.contender(accelerator, method);
        Contender { name, accelerator, method, look, cases }
    };
    study.by_contender().into_iter().map(contender).collect()
}

impl Contender<'_> {
    /// Statistics of one of its times at a size; none where it was not measured.
    pub(super) fn spread(&self, shape: Shape, time: Time) -> Option<Spread> {
        Spread::of(self.cases.get(&shape)?, time)
    }

    /// The sum of what was done once, in nanoseconds.
    pub(super) fn once(&self, shape: Shape) -> Option<f64> {
        let case = self.cases.get(&shape)?;
        Some(case.steps.iter().map(|step| step.ns as f64).sum())
    }
}

/// All measured sizes, by width, then depth.
pub(super) fn shapes(study: &Study) -> Vec<Shape> {
    let mut shapes: Vec<Shape> = study.cases.iter().map(|case| case.shape).collect();
    shapes.sort_unstable();
    shapes.dedup();
    shapes
}

/// The widths among sizes.
pub(super) fn widths(shapes: &[Shape]) -> Vec<usize> {
    let mut widths: Vec<usize> = shapes.iter().map(|shape| shape.k).collect();
    widths.dedup();
    widths
}

/// The depths among sizes.
pub(super) fn depths(shapes: &[Shape]) -> Vec<usize> {
    let mut depths: Vec<usize> = shapes.iter().map(|shape| shape.l).collect();
    depths.sort_unstable();
    depths.dedup();
    depths
}

//! Others that a course comes nearer to than is safe, whatever its path: what that costs at least
//! is known before a candidate is looked at closely.

use super::candidate::Course;
use super::keep::{self, Other};
use super::scene::Scene;
use std::ops::Range;

/// Others ahead that may be in the way of paths to a lane.
pub(super) struct Leads {
    /// Others at each step from the first one on, with their probabilities.
    others: Vec<Vec<(f64, Other)>>,
}

impl Leads {
    /// Leads of paths that are between two places beside the line, m.
    pub(super) fn of(scene: &Scene, steps: usize, between: (f64, f64)) -> Leads {
        let is_beside = |(_, other): &(f64, Other)| {
            let room = keep::room(scene.half(), other);
            other.left > between.0 - room && other.left < between.1 + room
        };
        let at = |step: usize| scene.leads(step).filter(is_beside).collect();
        Leads { others: (1..=steps).map(at).collect() }
    }

    /// Safe distances that a course does not keep behind them.
    pub(super) fn lacking(&self, scene: &Scene, course: &Course) -> Lacking {
        let mut lacking = Lacking::default();
        for (driven, others) in course.driven.iter().zip(&self.others) {
            let (own, way) = (scene.own(driven), keep::stopping(driven.speed));
            let from = lacking.lacks.len();
            for (probability, other) in others.iter().filter(|(_, it)| it.along > own.along) {
                let costs = probability * keep::lacking(&own, way, other);
                if costs > 0.0 {
                    let room = keep::room(scene.half(), other);
                    lacking.lacks.push(Lack { costs, left: other.left, room });
                }
            }
            lacking.steps.push(from..lacking.lacks.len());
        }
        lacking
    }
}

/// A safe distance that is not kept.
struct Lack {
    /// Cost of a second of it for an ego that is behind that one, not beside.
    costs: f64,
    /// Place of the other, m left of the line, and the distance beside it from which on the ego is
    /// not behind it, m.
    left: f64,
    room: f64,
}

/// The safe distances that a course does not keep.
#[derive(Default)]
pub(super) struct Lacking {
    lacks: Vec<Lack>,
    /// Range of them at each step.
    steps: Vec<Range<usize>>,
}

impl Lacking {
    /// Least cost of a second at a step, `left` m beside the line.
    pub(super) fn least(&self, step: usize, left: f64) -> f64 {
        let lacks = self.lacks[self.steps[step].clone()].iter();
        lacks.map(|it| it.costs * keep::least_share((it.left - left).abs(), it.room)).sum()
    }
}

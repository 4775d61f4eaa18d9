//! Segmentation as a module: most of it in pieces, for several cores.

use super::modules::ahead;
use super::{Detections, Scan};
use crate::Segmenter;
use crate::segment::{Clusters, FITS, Plane, shares};
use dataflow::{Cx, Load, Message, Module, Path, Stop, WorkCx};
use std::ops::Range;
use std::sync::Arc;

/// Scans to detections. All but how clusters are found among what stands on the ground is done in
/// pieces.
#[derive(Default)]
pub(super) struct Segmentation {
    segmenter: Segmenter,
}

/// Kind of work that a piece of segmentation does on a share of the points: the time of each kind
/// is learned for itself.
#[derive(Clone, Copy)]
enum Sharing {
    Near,
    Fit,
    Standing,
}

impl Segmentation {
    /// Does some work for each of some shares, whose sizes are in thousands of points.
    fn each<S, V>(
        &self,
        cx: &mut Cx<'_, Detections>,
        kind: Sharing,
        shares: impl Iterator<Item = (f64, S)>,
        work: impl Fn(&Segmenter, S) -> V + Clone + Send + 'static,
    ) -> Result<Vec<V>, Stop>
    where
        S: Send + 'static,
        V: Send + 'static,
    {
        let piece = |(thousands, share): (f64, S)| {
            let (segmenter, work) = (self.segmenter.clone(), work.clone());
            let mut counts = [0.0; 6];
            counts[3 + kind as usize] = thousands;
            (Load::of(&counts), move |_: &mut WorkCx| Ok(work(&segmenter, share)))
        };
        cx.divide(shares.map(piece).collect())
    }

    /// As [`Segmenter::divide`].
    fn divide(&self, cx: &mut Cx<'_, Detections>, scan: &Message<Scan>) -> Result<Clusters, Stop> {
        let ranges = shares(&scan.cloud).map(|range| (range.len() as f64 / 1000.0, range));
        let whole = scan.clone();
        let near =
            self.each(cx, Sharing::Near, ranges, move |it, range| it.near(&whole.cloud, range))?;
        let sized = || near.iter().map(|share| (share.thousands(), share.clone()));
        let (mut ground, clearance) = (Plane::level(&near), self.segmenter.clearance);
        for _ in 0..FITS {
            let sums = move |_: &Segmenter, share| ground.sums(&share, clearance);
            ground = ground.fitted(&self.each(cx, Sharing::Fit, sized(), sums)?);
        }
        let standing = move |it: &Segmenter, share| it.standing(&share, &ground);
        let standing = self.each(cx, Sharing::Standing, sized(), standing)?;
        Ok(self.segmenter.group(&standing))
    }
}

impl Module for Segmentation {
    type In = Message<Scan>;
    type Out = Detections;

    fn estimate(&self, scan: &Self::In, _: Path) -> Load {
        Load::of(&[scan.cloud.points.len() as f64 / 1000.0])
    }

    fn run(
        &mut self,
        cx: &mut Cx<'_, Detections>,
        scan: &Self::In,
        _: Path,
    ) -> Result<Detections, Stop> {
        let clusters = Arc::new(self.divide(cx, scan)?.scored(scan.scores.clone()));
        cx.go_on()?;
        let pose = scan.ego.pose;
        let piece = |range: Range<usize>| {
            let (segmenter, clusters) = (self.segmenter.clone(), clusters.clone());
            let [points, deciding] = clusters.points(range.clone());
            let load = Load::of(&[range.len() as f64, points, deciding]);
            let work = move |cx: &mut WorkCx| {
                ahead(&mut || cx.go_on(), |go| segmenter.detections(&clusters, range, pose, go))
            };
            (load, work)
        };
        let pieces = clusters.pieces().into_iter().map(piece).collect();
        let found = cx.divide(pieces)?.into_iter().flatten().collect();
        Ok(Detections { at: scan.at, ego: scan.ego, found })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Lidar;
    use crate::drive::ego;
    use std::ops::ControlFlow;
    use world::suite::normal;
    use world::{Command, World};

    #[test]
    fn pieces_find_what_one_core_finds_to_the_last_bit() {
        for (index, steps) in [(7200, 500), (7204, 900), (7219, 700)] {
            let mut world = World::new(&normal(index)).unwrap();
            (0..steps).for_each(|_| world.step(&Command::default()));
            let ego = ego(&world);
            let cloud = Lidar::default().scan(ego.pose, world.bodies(), 1);
            let go = &mut || ControlFlow::Continue(());
            let whole = Segmenter::default().segment(&cloud, ego.pose, go).unwrap();
            assert!(whole.len() > 5 && shares(&cloud).count() > 3, "{} objects", whole.len());
            let scan = Message::alone(Scan {
                at: world.time(),
                ego,
                cloud: Arc::new(cloud),
                scores: None,
            });
            let mut module = Segmentation::default();
            let pieces = dataflow::alone(&mut module, &scan, Path::Normal, u64::MAX);
            // As text each number has all its digits.
            let pieces = pieces.result.unwrap().found;
            assert_eq!(format!("{whole:?}"), format!("{pieces:?}"), "{index}");
        }
    }
}

//! The network as a module: scans to scans with what the network says of them.

use super::Scan;
use crate::network::{Network, Perception};
use dataflow::{Cx, Load, Message, Module, Path, Stop};
use std::sync::Arc;

/// Asks the service about each scan, and waits for it. Without an answer, the scan goes on without
/// scores.
pub(super) struct NetworkModule(Network);

impl NetworkModule {
    pub(super) fn new(perception: &Perception) -> NetworkModule {
        NetworkModule(Network::new(perception.clone()))
    }
}

impl Module for NetworkModule {
    type In = Message<Scan>;
    type Out = Scan;

    fn estimate(&self, scan: &Self::In, _: Path) -> Load {
        Load::of(&[scan.cloud.points.len() as f64 / 1000.0])
    }

    fn run(&mut self, cx: &mut Cx<'_, Scan>, scan: &Self::In, _: Path) -> Result<Scan, Stop> {
        let answer = self.0.scores(&scan.cloud);
        if let Some((_, busy_ns)) = answer {
            cx.accelerated(busy_ns);
        }
        let scores = answer.map(|(scores, _)| Arc::new(scores));
        Ok(Scan { scores, ..Scan::clone(scan) })
    }
}

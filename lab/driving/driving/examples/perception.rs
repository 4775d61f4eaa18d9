//! Training data of the network of examples/perception, and a test of its answers:
//!
//! ```text
//! perception grids FILE FROM TO      writes labelled grids of normal:FROM to TO, with other traffic
//! perception judge SOCKET FROM TO    counts what the service and the rule by dimensions say
//! ```
//!
//! The ego keeps its speed. Every second, while it touches nobody, a turn of the lidar is taken. In
//! the file each turn is the count of its occupied cells, u32, and of each the place, u16, the
//! label, u16 (0: the background), and the channels, f32; little-endian.

use driving::network::{CHANNELS, CLASSES, Network, Perception, SIDE, cell, grid};
use driving::{Cloud, Detection, Lidar, Segmenter};
use glam::DVec2;
use std::error::Error;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use world::suite::normal;
use world::{Body, Command, Kind, Pose, World};

/// Steps from one turn that is taken to the next.
const EVERY: u32 = 100;
/// Makes other traffic on the same roads: the suite's own is in the study.
const OWN: u64 = 1 << 32;
/// A return is of a body whose edge is so near, m.
const EDGE: f64 = 0.15;
/// A cluster's centre is.
const MIDDLE: f64 = 0.4;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, path, from, to] = arguments.as_slice() else {
        return Err("expected grids FILE FROM TO, or judge SOCKET FROM TO".into());
    };
    let scenarios = from.parse::<usize>()?..=to.parse()?;
    match what.as_str() {
        "grids" => {
            let mut file = BufWriter::new(std::fs::File::create(path)?);
            turns(scenarios, |ego, bodies, cloud| write(&mut file, ego, bodies, cloud))?;
            Ok(file.flush()?)
        }
        "judge" => judge(path, scenarios),
        other => Err(format!("found {other}, expected grids or judge").into()),
    }
}

fn turns(
    scenarios: impl Iterator<Item = usize>,
    mut take: impl FnMut(Pose, &[Body], &Cloud) -> Result<()>,
) -> Result<()> {
    for index in scenarios {
        let mut scenario = normal(index);
        if let Some(traffic) = &mut scenario.traffic {
            traffic.seed ^= OWN;
        }
        let mut world = World::new(&scenario)?;
        let mut turn = 0;
        while !world.ended() && world.collisions().is_empty() {
            (0..EVERY).for_each(|_| world.step(&Command::default()));
            turn += 1;
            let bodies = world.bodies();
            let ego = bodies.iter().find(|body| body.id == 0).ok_or("a world without an ego")?;
            let cloud = Lidar::default().scan(ego.pose, bodies, (index as u64) << 8 | turn);
            take(ego.pose, bodies, &cloud)?;
        }
    }
    Ok(())
}

/// Class of the body at this place in the world; an obstacle looks like a car.
fn of(place: DVec2, bodies: &[Body], near: f64) -> Option<Kind> {
    let others = bodies.iter().filter(|body| body.id != 0);
    let mut around = others.filter(|body| {
        let local = body.pose.local(place).abs();
        local.x <= body.length / 2.0 + near && local.y <= body.width / 2.0 + near
    });
    around.next().map(|body| if body.kind == Kind::Obstacle { Kind::Car } else { body.kind })
}

fn write(file: &mut impl Write, ego: Pose, bodies: &[Body], cloud: &Cloud) -> Result<()> {
    let grid = grid(cloud);
    let mut labels = vec![0_u16; SIDE * SIDE];
    for point in &cloud.points {
        let flat = point.as_dvec3().truncate();
        let Some(cell) = cell(flat).filter(|cell| grid[*cell] > 0.0 && labels[*cell] == 0) else {
            continue;
        };
        let kind = of(ego.point(flat.x, flat.y), bodies, EDGE);
        let class = kind.and_then(|kind| CLASSES.iter().position(|class| *class == kind));
        labels[cell] = class.map_or(0, |class| class as u16 + 1);
    }
    let occupied: Vec<usize> = (0..SIDE * SIDE).filter(|cell| grid[*cell] > 0.0).collect();
    file.write_all(&(occupied.len() as u32).to_le_bytes())?;
    for cell in occupied {
        file.write_all(&(cell as u16).to_le_bytes())?;
        file.write_all(&labels[cell].to_le_bytes())?;
        for channel in 0..CHANNELS {
            file.write_all(&grid[channel * SIDE * SIDE + cell].to_le_bytes())?;
        }
    }
    Ok(())
}

/// Numbers of clusters by their kind, and by the kind that they are taken for.
#[derive(Default)]
struct Counts([[usize; CLASSES.len()]; CLASSES.len()]);

impl Counts {
    fn add(&mut self, is: Kind, taken_for: Kind) {
        let place = |kind| CLASSES.iter().position(|class| *class == kind);
        if let (Some(row), Some(column)) = (place(is), place(taken_for)) {
            self.0[row][column] += 1;
        }
    }

    fn print(&self, name: &str) {
        let all: usize = self.0.iter().flatten().sum();
        let right: usize = (0..CLASSES.len()).map(|class| self.0[class][class]).sum();
        println!(
            "{name}: {right} of {all} clusters right; rows: is, columns: taken for {CLASSES:?}"
        );
        for (row, kind) in self.0.iter().zip(CLASSES) {
            println!("  {:<12}{}", format!("{kind:?}"), row.map(|it| format!("{it:>7}")).concat());
        }
    }
}

fn judge(socket: &str, scenarios: impl Iterator<Item = usize>) -> Result<()> {
    let perception = Perception::new(socket.into(), "perception".to_owned(), 50, 1.0);
    perception.check()?;
    let mut network = Network::new(perception);
    let (mut by_network, mut by_size, mut busy_ns) = (Counts::default(), Counts::default(), vec![]);
    turns(scenarios, |ego, bodies, cloud| {
        let (scores, ns) = network.scores(cloud).ok_or("the service did not answer")?;
        busy_ns.push(ns);
        let segmenter = Segmenter::default();
        let clusters = segmenter.divide(cloud).scored(Some(Arc::new(scores)));
        let go = &mut || ControlFlow::Continue(());
        let found = segmenter.detections(&clusters, 0..clusters.count(), ego, go);
        for detection in found.map_err(|_| "stopped")? {
            let is = of(detection.rectangle.pose.position, bodies, MIDDLE);
            if let (Some(is), Some(class)) = (is, detection.class) {
                by_network.add(is, class);
                by_size.add(is, Detection { class: None, ..detection }.kind());
            }
        }
        Ok(())
    })?;
    by_network.print("network");
    by_size.print("rule by dimensions");
    busy_ns.sort_unstable();
    let at = |share: usize| busy_ns.get(busy_ns.len() * share / 100).map_or(0.0, |ns| *ns as f64);
    println!(
        "{} runs of the device: median {} ms, 99% {} ms",
        busy_ns.len(),
        at(50) / 1e6,
        at(99) / 1e6
    );
    Ok(())
}

//! Time that each computation of the stack takes, by objects, lookahead and horizon.
//!
//! Objects stand and drive in three lanes and beside them, drawn at random up to 70 m around the
//! ego; the same for every run. The first table is that of figures 4 and 9 of COLA: the median and
//! the largest of 12 runs. The figures after it are criterion's.
//!
//! `cargo bench -p keeptime-driving --bench workloads`

#![allow(missing_docs, reason = "criterion generates a public function")]

use criterion::{Criterion, criterion_group, criterion_main};
use driving::plan::Situation;
use driving::predict::Surroundings;
use driving::{Detection, Ego, Lidar, Planner, Prediction, Predictor, Segmenter, Track, Tracker};
use glam::{DMat2, DVec2};
use std::hint::black_box;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use world::{Body, Kind, Lane, LaneId, Line, Pose, Rectangle, Road};

const OBJECTS: [usize; 5] = [0, 5, 20, 40, 80];

fn road() -> Road {
    // A slight bend, as a chain of points 2 m apart.
    let lane = |left: f64| {
        let point = |step: u32| {
            let angle = f64::from(step) * 2.0 / 800.0;
            let radius = 800.0 - left;
            DVec2::new(radius * angle.sin(), 800.0 - radius * angle.cos())
        };
        Lane::new(Line::new((0..250).map(point)).unwrap(), 3.5, 13.9)
    };
    let mut lanes: Vec<Lane> = [-3.5, 0.0, 3.5].map(lane).into();
    for index in 0..2 {
        lanes[index].left = Some(LaneId(index + 1));
        lanes[index + 1].right = Some(LaneId(index));
    }
    Road::new(lanes).unwrap()
}

/// `count` bodies that do not overlap, around a point 150 m down the road.
fn bodies(road: &Road, count: usize) -> Vec<Body> {
    let mut seed = 11_u64;
    let mut random = |low: f64, high: f64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        low + (seed >> 40) as f64 / (1_u64 << 24) as f64 * (high - low)
    };
    let ego = Rectangle { pose: road.lane(LaneId(1)).line.pose(150.0), length: 8.0, width: 2.4 };
    let mut bodies: Vec<Body> = Vec::new();
    while bodies.len() < count {
        let along = 150.0 + random(-50.0, 70.0);
        let (kind, left, speed) = match random(0.0, 1.0) {
            ..0.5 => (Kind::Car, 3.5 * random(-1.5, 1.5).round(), random(4.0, 13.0)),
            0.5..0.7 => (Kind::Pedestrian, random(5.5, 14.0), random(0.0, 1.6)),
            0.7..0.8 => (Kind::Cyclist, -5.5, random(3.0, 6.0)),
            _ => (Kind::Obstacle, random(-14.0, -7.0), 0.0),
        };
        let place = road.lane(LaneId(1)).line.pose(along);
        let pose = Pose { position: place.position + left * place.left(), ..place };
        let (length, width) = match kind {
            Kind::Pedestrian => (0.5, 0.5),
            Kind::Cyclist => (1.8, 0.6),
            _ => (4.5, 1.8),
        };
        let id = bodies.len() as u32 + 1;
        let body = Body { id, kind, pose, speed, acceleration: 0.0, length, width };
        let around = Rectangle { length: length + 0.8, width: width + 0.4, ..body.footprint() };
        let free = |other: &Body| !around.overlaps(&other.footprint());
        if bodies.iter().all(free) && !around.overlaps(&ego) {
            bodies.push(body);
        }
    }
    bodies
}

fn moved(bodies: &[Body], after: f64) -> Vec<Body> {
    let moved = |body: &Body| {
        let position = body.pose.position + after * body.speed * body.pose.forward();
        Body { pose: Pose { position, ..body.pose }, ..*body }
    };
    bodies.iter().map(moved).collect()
}

fn go() -> impl FnMut() -> ControlFlow<()> {
    || ControlFlow::Continue(())
}

/// Input of the stages, for one number of objects. Tracks, predictions and plans are of the true
/// bodies, so that each count is what it says; segmentation and tracking see what is visible.
struct Scene {
    road: Arc<Road>,
    ego: Ego,
    bodies: Vec<Body>,
    tracks: Vec<Track>,
    detections: Vec<Detection>,
    tracker: Tracker,
}

impl Scene {
    fn of(objects: usize) -> Scene {
        let road = Arc::new(road());
        let pose = road.lane(LaneId(1)).line.pose(150.0);
        let ego = Ego { pose, speed: 12.0, ..Ego::default() };
        let bodies = bodies(&road, objects);
        let track = |body: &Body| Track {
            id: body.id,
            kind: body.kind,
            pose: body.pose,
            velocity: body.speed * body.pose.forward(),
            acceleration: DVec2::ZERO,
            doubt: DMat2::ZERO,
            length: body.length,
            width: body.width,
            seen: 10,
            at: 0.3,
        };
        let tracks = bodies.iter().map(track).collect();
        let mut tracker = Tracker::default();
        let mut detections = Vec::new();
        for frame in 0..3_u32 {
            let at = f64::from(frame) * 0.1;
            let cloud = Lidar::default().scan(pose, &moved(&bodies, at), frame.into());
            detections = Segmenter::default().segment(&cloud, pose, &mut go()).unwrap();
            tracker.update(at, pose, &detections, &road);
        }
        Scene { road, ego, bodies, tracks, detections, tracker }
    }

    fn predict(&self, horizon: f64) -> Vec<Prediction> {
        let order: Vec<usize> = (0..self.tracks.len()).collect();
        let predictor = Predictor { horizon, ..Predictor::default() };
        let around = Surroundings::around(&self.road, self.ego.pose, 3, &mut go()).unwrap();
        predictor.predict(0.0, &self.tracks, &order, &around, &mut go()).unwrap()
    }

    fn plan(&self, planner: &Planner, predictions: &[Prediction], lanes: &[f64]) -> bool {
        let situation = Situation {
            at: 0.0,
            ego: self.ego,
            length: 4.5,
            width: 1.8,
            reference: &self.road.lane(LaneId(1)).line,
            limit: 13.9,
            lanes,
            predictions,
            danger: false,
            holds: false,
            stood: 0.0,
        };
        planner.plan(&situation, &mut go()).unwrap().free
    }
}

/// The median and the largest of 12 runs, ms.
fn time(mut run: impl FnMut()) -> (f64, f64) {
    run();
    let mut times: Vec<f64> = (0..12)
        .map(|_| {
            let start = Instant::now();
            run();
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    (times[6], times[11])
}

fn table() {
    println!("median [max] of 12, ms, one thread");
    println!(
        "objects | lidar | segment (seen) | track | predict 8 s | 2 s | plan 80 m, 8 s | \
         30 m, 2 s"
    );
    for objects in OBJECTS {
        let scene = Scene::of(objects);
        let cloud = Lidar::default().scan(scene.ego.pose, &scene.bodies, 0);
        let lidar = time(|| {
            black_box(Lidar::default().scan(scene.ego.pose, &scene.bodies, 0));
        });
        let segment = time(|| {
            black_box(Segmenter::default().segment(&cloud, scene.ego.pose, &mut go()).unwrap());
        });
        let track = time(|| {
            let mut tracker = scene.tracker.clone();
            black_box(tracker.update(0.3, scene.ego.pose, &scene.detections, &scene.road));
        });
        let (long, short) = (time(|| drop(scene.predict(8.0))), time(|| drop(scene.predict(2.0))));
        let predictions = scene.predict(8.0);
        let normal = Planner::default();
        let fast = normal.fast(30.0, 2.0);
        let lanes = [0.0, 3.5, -3.5];
        let plan = |planner: &Planner| {
            time(|| {
                black_box(scene.plan(planner, &predictions, &lanes));
            })
        };
        let (far, near) = (plan(&normal), plan(&fast));
        let free = if scene.plan(&normal, &predictions, &lanes) { "free" } else { "all hit" };
        let show = |(median, max): (f64, f64)| format!("{median:.2} [{max:.2}]");
        println!(
            "{objects} | {} | {} ({}) | {} | {} | {} | {} {free} | {}",
            show(lidar),
            show(segment),
            scene.detections.len(),
            show(track),
            show(long),
            show(short),
            show(far),
            show(near)
        );
    }
}

fn stages(criterion: &mut Criterion) {
    table();
    for objects in [5, 40] {
        let scene = Scene::of(objects);
        let cloud = Lidar::default().scan(scene.ego.pose, &scene.bodies, 0);
        criterion.bench_function(&format!("segment, {objects} objects"), |bench| {
            bench.iter(|| Segmenter::default().segment(&cloud, scene.ego.pose, &mut go()));
        });
        for horizon in [8.0, 2.0] {
            let name = format!("predict {horizon} s, {objects} objects");
            criterion.bench_function(&name, |bench| bench.iter(|| scene.predict(horizon)));
        }
        let predictions = scene.predict(8.0);
        for (lookahead, horizon) in [(80.0, 8.0), (30.0, 2.0)] {
            let planner = Planner::default().fast(lookahead, horizon);
            let name = format!("plan {lookahead} m, {horizon} s, {objects} objects");
            criterion.bench_function(&name, |bench| {
                bench.iter(|| scene.plan(&planner, &predictions, &[0.0, 3.5, -3.5]));
            });
        }
    }
}

criterion_group! {
    name = workloads;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = stages
}
criterion_main!(workloads);

//! Scene of a drive from above, as a moving picture: SVG whose own animation moves every body in
//! real time, and stills of the moments that matter. A script, `scene.js` beside this file, pauses
//! the animation and steps through it; without it the picture plays.
//!
//! The view is fixed, in the direction in which the vehicle drives when it begins: x to the right,
//! in metres times a scale that shows all that the vehicle drives.

use super::{Drive, DriveRun, Path};
use crate::{Error, page};
use minijinja::{Value, context};

const TEMPLATE: &str = "scene.xml";
const WIDTH: f64 = 1_120.0;
/// Around what the vehicle covers, m.
const MARGIN: f64 = 14.0;
/// The scale, pixels for a metre, is between these.
const SCALE: (f64, f64) = (3.0, 14.0);
/// Between two key frames of the animation, s.
const STEP: f64 = 0.1;
/// Time shown before the hazard and after its end, s.
const BEFORE: f64 = 1.5;
const AFTER: f64 = 4.0;

/// The part of a drive that is shown, s: around the hazard, all of it without one.
pub(super) fn window(run: &DriveRun, drive: &Drive) -> (f64, f64) {
    let end = drive.collision.as_ref().map(|hit| hit.at_s + 0.5);
    match &run.hazard {
        Some(hazard) => {
            let acted = drive.reaction.as_ref().map(|reaction| reaction.acted_s);
            let last = acted.unwrap_or(hazard.began_s).max(hazard.began_s) + AFTER;
            let last = end.unwrap_or(last).min(drive.duration_s);
            ((hazard.began_s - BEFORE).max(0.0), last.max(hazard.began_s))
        }
        None => (0.0, end.unwrap_or(drive.duration_s).min(drive.duration_s)),
    }
}

/// The moments that matter, s, with what happens then.
fn moments(run: &DriveRun, drive: &Drive, (from, to): (f64, f64)) -> Vec<(f64, String)> {
    let mut moments = Vec::new();
    if let Some(hazard) = &run.hazard {
        moments.push((hazard.began_s, "hazard begins".to_owned()));
        if let Some(reaction) = &drive.reaction {
            if reaction.visible_s > hazard.began_s + 0.02 {
                moments.push((reaction.visible_s, "can be seen".to_owned()));
            }
            moments.push((reaction.acted_s, "reaction".to_owned()));
        }
    }
    match &drive.collision {
        Some(hit) => moments.push((hit.at_s, "collision".to_owned())),
        None => moments.push((to, "end of the picture".to_owned())),
    }
    moments.retain(|(at, _)| (from..=to).contains(at));
    moments
}

struct View {
    origin: [f64; 2],
    turn: (f64, f64),
    heading: f64,
    low: [f64; 2],
    scale: f64,
    height: f64,
}

impl View {
    fn of(drive: &Drive, (from, to): (f64, f64)) -> Option<View> {
        let [x, y, heading] = drive.ego()?.at(from)?;
        let turn = heading.sin_cos();
        let mut view =
            View { origin: [x, y], turn, heading, low: [0.0; 2], scale: 1.0, height: 0.0 };
        let mut high = [0.0_f64; 2];
        let mut time = from;
        while time <= to {
            let [x, y, _] = drive.ego()?.at(time)?;
            let at = view.local(x, y);
            for (axis, at) in at.into_iter().enumerate() {
                view.low[axis] = view.low[axis].min(at);
                high[axis] = high[axis].max(at);
            }
            time += STEP;
        }
        // Everything that comes is in front of the vehicle.
        high[0] += MARGIN;
        view.low = view.low.map(|low| low - MARGIN);
        high = high.map(|high| high + MARGIN);
        view.scale = (WIDTH / (high[0] - view.low[0])).clamp(SCALE.0, SCALE.1);
        view.height = (high[1] - view.low[1]) * view.scale;
        Some(view)
    }

    fn local(&self, x: f64, y: f64) -> [f64; 2] {
        let (ahead, left) = (x - self.origin[0], y - self.origin[1]);
        let (sin, cos) = self.turn;
        [ahead * cos + left * sin, left * cos - ahead * sin]
    }

    /// Pixels from the left and from the top.
    fn place(&self, x: f64, y: f64) -> (f64, f64) {
        let [ahead, left] = self.local(x, y);
        let from_left = (ahead - self.low[0]) * self.scale;
        (tenth(from_left), tenth(self.height - (left - self.low[1]) * self.scale))
    }

    /// Degrees to the right, as SVG turns.
    fn degrees(&self, heading: f64) -> f64 {
        tenth(-(heading - self.heading).to_degrees())
    }

    fn line(&self, points: &[[f64; 2]]) -> String {
        let points = points.iter().map(|[x, y]| {
            let (x, y) = self.place(*x, *y);
            format!("{x},{y}")
        });
        points.collect::<Vec<_>>().join(" ")
    }
}

/// The moving picture of a drive and its stills; none if the vehicle was nowhere.
///
/// # Errors
/// [`Error::Template`].
pub(super) fn scene(run: &DriveRun, drive: &Drive) -> Result<Option<String>, Error> {
    let (from, to) = window(run, drive);
    let Some(view) = View::of(drive, (from, to)) else { return Ok(None) };
    let seconds = to - from;
    let hazard = run.hazard.as_ref().map(|hazard| hazard.body);
    let steps = (seconds / STEP).ceil().max(1.0);
    let times: Vec<f64> = (0..=steps as u32).map(|i| (f64::from(i) / steps).min(1.0)).collect();
    let near = |body: &&Path| {
        times.iter().step_by(5).any(|share| {
            body.at(from + share * seconds).is_some_and(|[x, y, _]| {
                let (x, y) = view.place(x, y);
                (-60.0..WIDTH + 60.0).contains(&x) && (-60.0..view.height + 60.0).contains(&y)
            })
        })
    };
    let bodies: Vec<Value> = drive
        .bodies
        .iter()
        .filter(near)
        .map(|body| moving(body, &view, hazard, |share| from + share * seconds, &times))
        .collect();
    let moments = moments(run, drive, (from, to));
    let about = name(run, drive, (from, to), &moments);
    let moments: Vec<Value> = moments
        .into_iter()
        .map(|(at, words)| {
            let still = |body: &Path| standing(body, &view, hazard, at);
            let bodies: Vec<Value> = drive.bodies.iter().filter(near).filter_map(still).collect();
            let offset = format!("{:.2}", at - from);
            context! { at => format!("{at:.2}"), offset, words, bodies }
        })
        .collect();
    let lanes: Vec<Value> = run
        .lanes
        .iter()
        .map(|lane| context! { left => view.line(&lane.left), right => view.line(&lane.right), ground => ground(&view, lane) })
        .collect();
    let acted = drive.reaction.as_ref().map(|reaction| reaction.acted_s);
    let acted = acted.filter(|at| (from..to).contains(at)).map(|at| share(at, from, seconds));
    let collided = drive.collision.as_ref().map(|hit| share(hit.at_s, from, seconds));
    let content = context! {
        width => WIDTH,
        height => tenth(view.height),
        seconds => format!("{seconds:.2}"),
        lanes, bodies, moments, acted, collided,
        keys => times.iter().map(|share| format!("{share:.4}")).collect::<Vec<_>>().join(";"),
        metres => tenth(10.0 * view.scale),
        from => format!("{from:.2}"),
        script => Value::from_safe_string(include_str!("scene.js").to_owned()),
        about,
    };
    page::render(TEMPLATE, include_str!("scene.svg"), content).map(Some)
}

/// The accessible name of the picture: the drive, its time, and its moments.
fn name(
    run: &DriveRun,
    drive: &Drive,
    (from, to): (f64, f64),
    moments: &[(f64, String)],
) -> String {
    let moments = moments.iter().map(|(at, words)| format!("{at:.2} s {words}"));
    let moments = moments.collect::<Vec<_>>().join(", ");
    let (scenario, policy) = (&run.scenario, &drive.policy);
    format!(
        "{scenario} under {policy} from above, {from:.2} s to {to:.2} s: {moments}. Space plays and pauses, arrow keys step."
    )
}

fn share(at: f64, from: f64, seconds: f64) -> String {
    format!("{:.4}", ((at - from) / seconds).clamp(0.0, 1.0))
}

fn ground(view: &View, lane: &super::Lane) -> String {
    let edge: Vec<[f64; 2]> = lane.left.iter().chain(lane.right.iter().rev()).copied().collect();
    view.line(&edge)
}

fn moving(
    body: &Path,
    view: &View,
    hazard: Option<u32>,
    time: impl Fn(f64) -> f64,
    times: &[f64],
) -> Value {
    let poses: Vec<(f64, f64, f64)> = times
        .iter()
        .filter_map(|share| body.at(time(*share)))
        .map(|[x, y, heading]| {
            let (x, y) = view.place(x, y);
            (x, y, view.degrees(heading))
        })
        .collect();
    // Headings go on over the half turn, so that nothing spins round between two key frames.
    let mut last = poses.first().map_or(0.0, |pose| pose.2);
    let turns = poses.iter().map(|(_, _, degrees)| {
        last += (degrees - last + 180.0).rem_euclid(360.0) - 180.0;
        tenth(last).to_string()
    });
    let turns = turns.collect::<Vec<_>>().join(";");
    let places: Vec<String> = poses.iter().map(|(x, y, _)| format!("{x},{y}")).collect();
    context! { places => places.join(";"), turns, ..shape(body, view, hazard) }
}

fn standing(body: &Path, view: &View, hazard: Option<u32>, at: f64) -> Option<Value> {
    let [x, y, heading] = body.at(at)?;
    let (x, y) = view.place(x, y);
    Some(context! { x, y, degrees => view.degrees(heading), ..shape(body, view, hazard) })
}

fn shape(body: &Path, view: &View, hazard: Option<u32>) -> Value {
    let role = match body.id {
        0 => "ego",
        id if Some(id) == hazard => "hazard",
        _ => "other",
    };
    context! {
        length => tenth(body.length * view.scale),
        width => tenth(body.width * view.scale),
        role,
        kind => body.kind.as_str(),
    }
}

fn tenth(number: f64) -> f64 {
    // A value that rounds to zero has no sign.
    (number * 10.0).round() / 10.0 + 0.0
}

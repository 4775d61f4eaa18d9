//! The parameters of each family of corner cases.
//!
//! Places are m along the ego's route, whose lane is 3.5 m wide; `start` is where the ego's front
//! would be at a time if it kept its speed. τ is the reaction that should still do, by v τ + v lag
//! + v² / 2b for a hazard that stands; the critical reaction time itself is found by driving.

use super::corner::{Family, actor, ego, street};
use crate::Kind;
use crate::ego::{LENGTH, WIDTH};
use crate::random::Random;
use crate::scenario::{Action, Actor, Does, Ego, Hazard, KMH, Layout, Moves, Scenario, Turn, When};

/// Time at which a hazard begins, if it begins at a time, s.
const BEGINS: f64 = 1.5;
/// The same where the ego follows a car, before a stack has time to fall back, s.
const BEGINS_BEHIND: f64 = 0.5;
/// Distance from the middle of the ego's lane to that of a car at the kerb, m.
const PARKED: f64 = -2.85;

impl Family {
    /// Scenario of this family, without traffic and without a name.
    pub(super) fn draw(self, random: &mut Random) -> Scenario {
        match self {
            Family::NcapCcrb => braking_lead(random),
            Family::R157CutIn => cut_in(random),
            Family::R157CutOut => cut_out(random),
            Family::NcapCpnco => child(random),
            Family::NcapCpna => near_adult(random),
            Family::NcapCpfa => far_adult(random),
            Family::NcapCbnao => cyclist(random),
            Family::NhtsaLtapOd => left_turn(random),
            Family::NcapCccscp => crossing(random),
            Family::NcapCcfhol => overtaking(random),
            Family::NhtsaPullOut => pull_out(random),
        }
    }
}

/// The first action is the hazard's; it is the first actor's.
fn scenario(road: Layout, ego: Ego, actors: Vec<Actor>, actions: Vec<Action>) -> Scenario {
    let hazard = Some(Hazard { actor: 0, action: 0 });
    let (name, traffic) = (String::new(), None);
    Scenario { name, duration_s: 14.0, road, ego, traffic, sumo: None, actors, actions, hazard }
}

fn at(time: f64, actor: usize, does: Does) -> Action {
    Action { actor, when: When::TimeS(time), does }
}

/// τ, s: from 0.05 to 0.8, short ones more often.
fn reaction(random: &mut Random) -> f64 {
    0.05 + 0.75 * random.uniform(0.0, 1.0).powi(2)
}

/// Time before the contact at which a hazard that stands has to be seen, s.
fn needed(reaction: f64, ego: &Ego, speed: f64) -> f64 {
    reaction + ego.actuation_lag_s + speed / (2.0 * ego.braking_mps2)
}

/// Place of the ego's front at a time, if it keeps its speed, m.
fn front(ego: &Ego, time: f64) -> f64 {
    ego.along_m + LENGTH / 2.0 + ego.speed_kmh / KMH * time
}

/// The ego behind a car at a gap (m) that the reference driver keeps.
fn behind(ego: &mut Ego, gap: f64) {
    let speed = ego.speed_kmh / KMH;
    ego.desired_kmh = Some(1.3 * ego.speed_kmh);
    let share = (1.0 - 1.3_f64.powi(-4)).sqrt();
    ego.headway_s = ((share * gap - 2.0) / speed).max(0.1);
}

fn braking_lead(random: &mut Random) -> Scenario {
    let mut ego = ego(random.grid(30.0, 60.0, 10.0));
    let speed = ego.speed_kmh / KMH;
    let rate = random.grid(6.0, 9.0, 1.0);
    let stops = speed * speed / (2.0 * rate);
    let gap = (speed * needed(reaction(random), &ego, speed) - stops).clamp(2.5, 40.0);
    behind(&mut ego, gap);
    let lead = Actor {
        speed_kmh: ego.speed_kmh,
        moves: Moves::Lane { turn: Turn::Straight },
        ..actor(Kind::Car, ego.along_m + LENGTH + gap, 0.0)
    };
    let stop = Does::Speed { to_kmh: 0.0, rate_mps2: Some(rate) };
    scenario(street(1, 1), ego, vec![lead], vec![at(BEGINS_BEHIND, 0, stop)])
}

fn cut_in(random: &mut Random) -> Scenario {
    let ego = ego(random.grid(30.0, 60.0, 10.0));
    let slower = random.grid(10.0, (ego.speed_kmh - 10.0).min(50.0), 10.0);
    let closing = slower / KMH;
    let contact = needed(reaction(random), &ego, closing).max(0.7);
    let takes = random.uniform(1.5, 3.0).min(contact / 0.55);
    let speed_kmh = ego.speed_kmh - slower;
    let gap = closing * (BEGINS + contact);
    let car = Actor {
        speed_kmh,
        moves: Moves::Lane { turn: Turn::Straight },
        ..actor(Kind::Car, ego.along_m + LENGTH + gap, 3.5)
    };
    let over_m = (takes * speed_kmh / KMH).max(8.0);
    let drift = Does::Drift { left_m: -3.5, over_m };
    scenario(street(2, 1), ego, vec![car], vec![at(BEGINS, 0, drift)])
}

fn cut_out(random: &mut Random) -> Scenario {
    let mut ego = ego(random.grid(30.0, 60.0, 10.0));
    let speed = ego.speed_kmh / KMH;
    let takes = random.uniform(1.6, 2.6);
    let clear = 0.6 * takes * speed + 2.0;
    let seen = 0.3 * takes;
    let way = speed * (needed(reaction(random), &ego, speed) + seen);
    let gap = (way - clear - 4.5).max(3.0);
    behind(&mut ego, gap);
    let lead_at = ego.along_m + LENGTH + gap;
    let lead_then = lead_at + speed * BEGINS_BEHIND;
    let stands = actor(Kind::Car, lead_then + 4.5 + clear, 0.0);
    let lead = Actor {
        speed_kmh: ego.speed_kmh,
        moves: Moves::Lane { turn: Turn::Straight },
        ..actor(Kind::Car, lead_at, 0.0)
    };
    let drift = Does::Drift { left_m: 3.5, over_m: takes * speed };
    scenario(street(2, 1), ego, vec![stands, lead], vec![at(BEGINS_BEHIND, 1, drift)])
}

/// A pedestrian who is at `hit` m beside the ego's middle after `time` s, at `speed_kmh`.
struct Walk {
    speed_kmh: f64,
    hit: f64,
    time: f64,
}

impl Walk {
    /// Acceleration of people up to their speed, m/s².
    const RATE: f64 = 3.0;

    /// Distance that the pedestrian goes until `time`, m.
    fn way(&self) -> f64 {
        let speed = self.speed_kmh / KMH;
        speed * (self.time - speed / (2.0 * Walk::RATE))
    }

    fn starts(&self) -> Does {
        Does::Speed { to_kmh: self.speed_kmh, rate_mps2: Some(Walk::RATE) }
    }
}

/// Place across the ego at which it would be hit, m to the left of its middle: from 25 to 75 %.
fn hit_place(random: &mut Random) -> f64 {
    WIDTH * (random.uniform(0.25, 0.75) - 0.5)
}

fn child(random: &mut Random) -> Scenario {
    let ego = ego(random.grid(35.0, 60.0, 5.0));
    let hit = WIDTH * (random.uniform(0.1, 0.5) - 0.5);
    let speed_kmh = 5.0;
    let side = -4.2;
    let speed = speed_kmh / KMH;
    let time = (hit - side) / speed + speed / (2.0 * Walk::RATE);
    let walk = Walk { speed_kmh, hit, time };
    let along = front(&ego, BEGINS + walk.time);
    let child = Actor {
        heading_deg: 90.0,
        length_m: Some(0.3),
        width_m: Some(0.5),
        ..actor(Kind::Pedestrian, along, side)
    };
    let long = random.grid(4.1, 4.7, 0.1);
    let parked =
        |middle: f64| Actor { length_m: Some(long), ..actor(Kind::Obstacle, middle, PARKED) };
    let aside = 0.6 + long / 2.0;
    let cars = [along - aside, along - aside - long - 1.0, along + aside].map(parked);
    let actors = std::iter::once(child).chain(cars).collect();
    scenario(street(1, 1), ego, actors, vec![at(BEGINS, 0, walk.starts())])
}

fn near_adult(random: &mut Random) -> Scenario {
    let ego = ego(random.grid(20.0, 60.0, 5.0));
    let time = needed(reaction(random), &ego, ego.speed_kmh / KMH);
    let walk = Walk { speed_kmh: 5.0, hit: hit_place(random), time };
    let side = (walk.hit - walk.way()).min(-1.5);
    let speed = walk.speed_kmh / KMH;
    let time = (walk.hit - side) / speed + speed / (2.0 * Walk::RATE);
    let along = front(&ego, BEGINS + time);
    let adult = Actor { heading_deg: 90.0, ..actor(Kind::Pedestrian, along, side) };
    scenario(street(1, 1), ego, vec![adult], vec![at(BEGINS, 0, walk.starts())])
}

fn far_adult(random: &mut Random) -> Scenario {
    let ego = ego(random.grid(30.0, 60.0, 5.0));
    let hit = -hit_place(random);
    let speed_kmh = 8.0;
    let side = random.uniform(4.0, 5.5);
    let speed = speed_kmh / KMH;
    let time = (side - hit) / speed + speed / (2.0 * Walk::RATE);
    let walk = Walk { speed_kmh, hit, time };
    let along = front(&ego, BEGINS + walk.time);
    let adult = Actor { heading_deg: -90.0, ..actor(Kind::Pedestrian, along, side) };
    let queues = |middle: f64| Actor { heading_deg: 180.0, ..actor(Kind::Car, middle, 3.5) };
    let cars = [-8.5, -3.0, 3.0, 8.5].map(|from| queues(along + from));
    let actors = std::iter::once(adult).chain(cars).collect();
    scenario(street(1, 1), ego, actors, vec![at(BEGINS, 0, walk.starts())])
}

fn cyclist(random: &mut Random) -> Scenario {
    let ego = ego(random.grid(20.0, 60.0, 5.0));
    let speed_kmh = random.grid(10.0, 20.0, 5.0);
    let speed = speed_kmh / KMH;
    let seen = needed(reaction(random), &ego, ego.speed_kmh / KMH);
    let hit = hit_place(random);
    let corner = (hit - speed * seen).min(-2.2);
    let time = (hit - corner) / speed + 1.2;
    let along = front(&ego, BEGINS + time);
    let start = corner - speed * 1.2 - 0.9 - speed * BEGINS;
    let moves = Moves::Straight;
    let bicycle =
        Actor { heading_deg: 90.0, speed_kmh, moves, ..actor(Kind::Cyclist, along, start) };
    let long = 12.0;
    let wall = Actor {
        length_m: Some(long),
        width_m: Some(8.0),
        ..actor(Kind::Obstacle, along - 1.0 - long / 2.0, corner - 4.0)
    };
    let goes_on = Does::Speed { to_kmh: speed_kmh, rate_mps2: None };
    let when = When::Gone { actor: 0, distance_m: speed * BEGINS };
    let passes = Action { actor: 0, when, does: goes_on };
    scenario(street(1, 1), ego, vec![bicycle, wall], vec![passes])
}

/// Length of each arm of a junction, m.
const ARM: f64 = 300.0;
/// Distance from its middle to the stop lines, m.
const STOP: f64 = 7.5;

/// A junction of roads of one lane in each direction.
fn junction() -> Layout {
    Layout::Junction { arm_m: ARM, lanes: 1, lane_width_m: 3.5, limit_kmh: 80.0 }
}

/// The ego such that its front would be `ahead` m beyond the middle of the junction at a time.
fn arriving(ego: &mut Ego, ahead: f64, time: f64) {
    ego.along_m = 0.0;
    ego.along_m = ARM + STOP + ahead - front(ego, time);
}

/// Distance from the stop line to where a car that turns left meets the ego, m.
const TURNS: f64 = 5.0;

/// The car waits at the line: who rolls towards it is expected to turn, and waited for. It turns as
/// fast as in Euro NCAP CCFtap.
fn left_turn(random: &mut Random) -> Scenario {
    let mut ego = ego(random.grid(45.0, 60.0, 5.0));
    let rate = random.grid(3.0, 4.0, 0.5);
    let speed_kmh = random.grid(10.0, 20.0, 5.0);
    let speed = speed_kmh / KMH;
    let enters = TURNS / speed + speed / (2.0 * rate);
    let contact = needed(reaction(random), &ego, ego.speed_kmh / KMH).max(enters);
    arriving(&mut ego, -0.5, BEGINS + contact + random.uniform(0.05, 0.45));
    let car = Actor {
        heading_deg: 180.0,
        moves: Moves::Lane { turn: Turn::Left },
        ..actor(Kind::Car, ARM + STOP + STOP + 2.25, 3.5)
    };
    let turns = Does::Speed { to_kmh: speed_kmh, rate_mps2: Some(rate) };
    scenario(junction(), ego, vec![car], vec![at(BEGINS, 0, turns)])
}

fn crossing(random: &mut Random) -> Scenario {
    let mut ego = ego(random.grid(20.0, 60.0, 10.0));
    let own = ego.speed_kmh / KMH;
    let speed_kmh = random.grid(20.0, 60.0, 10.0);
    let speed = speed_kmh / KMH;
    let seen = needed(reaction(random), &ego, own);
    let enters = -2.65;
    let (eye, place) = (0.85 - LENGTH / 2.0 - own * seen, enters - speed * seen);
    let edge = 5.0;
    let share = (-edge - eye) / (1.75 - eye);
    let depth = (1.75 + (-1.75 - place) * share.max(0.0)).max(4.0);
    let takes = seen + 1.0;
    arriving(&mut ego, 0.85, BEGINS + takes + 0.1);
    let start = enters - 2.25 - speed * (BEGINS + takes);
    let middle = ARM + STOP;
    let car = Actor {
        heading_deg: 90.0,
        speed_kmh,
        moves: Moves::Lane { turn: Turn::Straight },
        ..actor(Kind::Car, middle + 1.75, start + 1.75)
    };
    let size = 40.0;
    let building = Actor {
        length_m: Some(size),
        width_m: Some(size),
        ..actor(Kind::Obstacle, middle - edge - size / 2.0, 1.75 - depth - size / 2.0)
    };
    let goes_on = Does::Speed { to_kmh: speed_kmh, rate_mps2: None };
    let when = When::Gone { actor: 0, distance_m: speed * BEGINS };
    let passes = Action { actor: 0, when, does: goes_on };
    scenario(junction(), ego, vec![car, building], vec![passes])
}

fn overtaking(random: &mut Random) -> Scenario {
    let ego = ego(random.grid(30.0, 60.0, 10.0));
    let own = ego.speed_kmh / KMH;
    let speed_kmh = random.grid(40.0, 60.0, 10.0);
    let speed = speed_kmh / KMH;
    let (out, stays, back) = (1.4, random.uniform(0.2, 0.6), 1.4);
    let clear = out + stays + 0.45 * back;
    let braking = clear - reaction(random) - ego.actuation_lag_s;
    let stopping = (own / ego.braking_mps2).min(braking);
    let saved = own * braking - (own - ego.braking_mps2 * stopping / 2.0) * stopping;
    let apart = (own + speed) * clear - saved;
    let along = front(&ego, BEGINS) + apart + 2.25 + speed * BEGINS;
    let car = Actor {
        heading_deg: 180.0,
        speed_kmh,
        moves: Moves::Lane { turn: Turn::Straight },
        ..actor(Kind::Car, along, 3.5)
    };
    let slow = Actor {
        heading_deg: 180.0,
        speed_kmh: 15.0,
        moves: Moves::Lane { turn: Turn::Straight },
        ..actor(Kind::Cyclist, along - speed * (BEGINS + 1.2), 4.6)
    };
    let drift = |left_m: f64, time: f64| Does::Drift { left_m, over_m: speed * time };
    let actions =
        vec![at(BEGINS, 0, drift(3.5, out)), at(BEGINS + out + stays, 0, drift(0.0, back))];
    scenario(street(1, 1), ego, vec![car, slow], actions)
}

fn pull_out(random: &mut Random) -> Scenario {
    let ego = ego(random.grid(30.0, 60.0, 5.0));
    let over_m = random.uniform(9.0, 12.0);
    let intrudes = 0.4 * over_m;
    let slow = 3.5;
    let contact = needed(reaction(random), &ego, (ego.speed_kmh / KMH - slow).max(0.0));
    let speed = (intrudes / contact).clamp(2.0, 6.0);
    let time = BEGINS + intrudes / speed + random.uniform(0.0, 0.2);
    let along = front(&ego, time) + 1.0 - speed * time;
    let car = Actor {
        speed_kmh: speed * KMH,
        moves: Moves::Lane { turn: Turn::Straight },
        ..actor(Kind::Car, along, PARKED)
    };
    let parked = |from: f64| actor(Kind::Obstacle, along + from, PARKED);
    let drift = at(BEGINS, 0, Does::Drift { left_m: 0.0, over_m });
    scenario(street(1, 1), ego, vec![car, parked(-7.0), parked(26.0)], vec![drift])
}

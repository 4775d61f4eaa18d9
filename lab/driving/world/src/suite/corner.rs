//! Corner cases: 329 scenarios of 11 families, each in light, medium and dense traffic.
//!
//! The families are named after the test or the typology that they come from, and take their ranges
//! from there: Euro NCAP's car-to-car, car-to-pedestrian and car-to-cyclist tests, UN Regulation
//! 157 (automated lane keeping), and the pre-crash typology of the NHTSA. The values that those
//! leave open (how far away it begins) are drawn so that a reaction of 0.05 to 0.8 s, by the
//! formula of constant braking, decides; short ones more often.
//!
//! Each case is the first of its draws whose critical reaction time, of the ideal stack
//! (`driving::critical`), is in the [band](Set::band) that is meant for it. The table says which
//! draw that is, so that the search is not repeated. Only the ideal stack has a part in the choice.
//! The first edition had the times of a driver without the stack's planner; they did not tell when
//! the stack crashes.

use super::frozen::Stale;
use crate::scenario::{Actor, Ego, Layout, Moves, Scenario, Traffic, Turn};
use crate::{Kind, random::Random};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Number of corner cases.
pub const CORNER: usize = 329;

/// Number of cases to confirm with.
pub const CONFIRM: usize = 330;

/// Frozen with the suite's second edition.
const SEED: u64 = 0x636f_726e_6572_3032;
const DEVELOP: u64 = 78;
const CONFIRMATION: u64 = 0x636f_6e66_6972_6d31;

/// Cases of the same families, drawn with seeds of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// The corner cases.
    Corner,
    /// Cases for the development of a stack.
    Develop,
    /// Confirmation cases for what the corner cases, of which few are decided by latency, say: all
    /// of 0.15 to 0.30 s, of the ten families that have such cases ([`Family::NcapCcrb`] has none).
    /// They were frozen with the present stack.
    Confirm,
}

/// Family of cases, by the event that happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Family {
    /// Euro NCAP CCRb: the car ahead brakes.
    NcapCcrb,
    /// UN R157: a slower car cuts in.
    R157CutIn,
    /// UN R157: the car ahead cuts out, and one that stands is there.
    R157CutOut,
    /// Euro NCAP CPNCO: a child runs out from behind parked cars.
    NcapCpnco,
    /// Euro NCAP CPNA: an adult steps off the near kerb.
    NcapCpna,
    /// Euro NCAP CPFA: an adult runs across from the far side, here between cars that queue.
    NcapCpfa,
    /// Euro NCAP CBNAO: a cyclist comes out from behind a wall.
    NcapCbnao,
    /// NHTSA, left turn across path, opposite direction: an oncoming car turns.
    NhtsaLtapOd,
    /// Euro NCAP CCCscp: a car crosses straight on, from behind a building.
    NcapCccscp,
    /// Euro NCAP CCFhol: an oncoming car overtakes.
    NcapCcfhol,
    /// NHTSA, parking: a car that rolls along the kerb pulls out.
    NhtsaPullOut,
}

impl Family {
    /// All of them, in the order of the suite.
    pub const ALL: [Family; 11] = [
        Family::NcapCcrb,
        Family::R157CutIn,
        Family::R157CutOut,
        Family::NcapCpnco,
        Family::NcapCpna,
        Family::NcapCpfa,
        Family::NcapCbnao,
        Family::NhtsaLtapOd,
        Family::NcapCccscp,
        Family::NcapCcfhol,
        Family::NhtsaPullOut,
    ];

    /// Name in scenarios and tables.
    pub fn name(self) -> &'static str {
        match self {
            Family::NcapCcrb => "ncap_ccrb",
            Family::R157CutIn => "r157_cut_in",
            Family::R157CutOut => "r157_cut_out",
            Family::NcapCpnco => "ncap_cpnco",
            Family::NcapCpna => "ncap_cpna",
            Family::NcapCpfa => "ncap_cpfa",
            Family::NcapCbnao => "ncap_cbnao",
            Family::NhtsaLtapOd => "nhtsa_ltap_od",
            Family::NcapCccscp => "ncap_cccscp",
            Family::NcapCcfhol => "ncap_ccfhol",
            Family::NhtsaPullOut => "nhtsa_pull_out",
        }
    }
}

/// Density of the traffic that has nothing to do with the hazard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Density {
    /// Hardly any traffic.
    Light,
    /// Traffic as by day.
    Medium,
    /// Rush hour.
    Dense,
}

/// The corner case of this number.
///
/// # Panics
/// As [`Set::case`].
pub fn corner(index: usize) -> Scenario {
    Set::Corner.case(index)
}

impl Set {
    /// Number of cases.
    pub fn size(self) -> usize {
        match self {
            Set::Corner | Set::Develop => CORNER,
            Set::Confirm => CONFIRM,
        }
    }

    /// The case of this number, as it was frozen.
    ///
    /// # Panics
    /// If there is none: from [`size`](Set::size) on. If the table is not of these families (see
    /// [`Stale`]).
    pub fn case(self, index: usize) -> Scenario {
        assert!(index < self.size(), "case {index}, of {} ({self:?})", self.size());
        let case = self.frozen().get(index).map(|case| case.scenario(self));
        let case = case.unwrap_or(Err(Stale { index }));
        case.unwrap_or_else(|stale| panic!("{stale}"))
    }

    /// The families, in the order of the cases.
    fn families(self) -> &'static [Family] {
        match self {
            Set::Corner | Set::Develop => &Family::ALL,
            Set::Confirm => &Family::ALL[1..],
        }
    }

    /// Family of the case of this number.
    pub fn family(self, index: usize) -> Family {
        self.families()[index % self.families().len()]
    }

    /// Density of the traffic in the case of this number.
    pub fn density(self, index: usize) -> Density {
        [Density::Light, Density::Medium, Density::Dense][index / self.families().len() % 3]
    }

    /// The critical reaction times, ms, of which the case of this number is to have one. Every
    /// family and density of the corner cases has some of each: four of ten cases from 0.15 to
    /// 0.30 s, which latency can decide, two below and four above.
    pub fn band(self, index: usize) -> RangeInclusive<u32> {
        let (short, middle, long) = (50..=140, 150..=300, 310..=800);
        match (self, index / (3 * self.families().len())) {
            (Set::Confirm, _) | (_, 0 | 3 | 6 | 9) => middle,
            (_, 1 | 5) => short,
            _ => long,
        }
    }

    /// A draw of the case of this number, of which the table has one. Others of the same number
    /// have the same family and density.
    pub fn draw(self, index: usize, attempt: u32) -> Scenario {
        let seed = match self {
            Set::Corner => SEED,
            Set::Develop => DEVELOP,
            Set::Confirm => CONFIRMATION,
        };
        let mut random = Random::new(seed, u64::from(attempt) << 32 | index as u64);
        let (family, density) = (self.family(index), self.density(index));
        let mut scenario = family.draw(&mut random);
        scenario.name = format!("{}-{index:03}", family.name());
        scenario.traffic = Some(around(family, density, &mut random));
        if density != Density::Light {
            scenario.actors.push(follower(&scenario.ego));
        }
        scenario
    }
}

/// Traffic that keeps out of the hazard's way.
fn around(family: Family, density: Density, random: &mut Random) -> Traffic {
    let (per_km, pedestrians, parked) = match density {
        Density::Light => (4.0, 3, 0),
        Density::Medium => (15.0, 14, 6),
        Density::Dense => (30.0, 36, 14),
    };
    let taken = matches!(family, Family::NcapCpfa | Family::NcapCcfhol | Family::NhtsaLtapOd);
    let kerb = matches!(
        family,
        Family::NcapCpna | Family::NcapCbnao | Family::NcapCccscp | Family::NhtsaPullOut
    );
    Traffic {
        seed: random.below(1 << 30) as u64,
        own_per_km: 0.0,
        beside_per_km: 0.0,
        oncoming_per_km: if taken { 0.0 } else { per_km },
        crossing_per_km: 0.0,
        lane_changes: false,
        pedestrians,
        crossing_pedestrians: 0,
        parked: if kerb { 0 } else { parked },
    }
}

/// A car behind the ego, as far as its driver likes.
fn follower(ego: &Ego) -> Actor {
    let behind = 4.5 + 4.0 + 2.0 * ego.speed_kmh / 3.6;
    let desired_kmh = ego.speed_kmh.max(10.0);
    let (turn, lane_changes) = (Turn::Straight, false);
    Actor {
        speed_kmh: ego.speed_kmh,
        moves: Moves::Drives { desired_kmh, turn, lane_changes },
        ..actor(Kind::Car, ego.along_m - behind, 0.0)
    }
}

/// Actor that stands there and looks along the route.
pub(super) fn actor(kind: Kind, along_m: f64, left_m: f64) -> Actor {
    let (heading_deg, speed_kmh, moves) = (0.0, 0.0, Moves::Straight);
    let (length_m, width_m) = (None, None);
    let on = None;
    Actor { kind, on, along_m, left_m, heading_deg, speed_kmh, length_m, width_m, moves }
}

/// The ego 150 m from the beginning of its lane, at the speed that it wants.
pub(super) fn ego(speed_kmh: f64) -> Ego {
    Ego {
        lane: 0,
        along_m: 150.0,
        speed_kmh,
        desired_kmh: Some(speed_kmh),
        turn: Turn::Straight,
        headway_s: Ego::headway(),
        actuation_lag_s: Ego::lag(),
        braking_mps2: Ego::braking(),
    }
}

/// 800 m without a bend.
pub(super) fn street(lanes: usize, oncoming: usize) -> Layout {
    let (length_m, lane_width_m, limit_kmh) = (800.0, 3.5, 80.0);
    Layout::Straight { length_m, lanes, oncoming, lane_width_m, limit_kmh }
}

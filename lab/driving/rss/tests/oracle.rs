//! Intel's ad-rss-lib as the judge, in a process of its own: 10,000 random cases.
//!
//! The library compares distances with a tolerance of 1 mm: its verdict may differ where gap and
//! safe distance are nearer than that, and what it cuts at 0 may stay up to 1 mm below.

mod random;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use random::Random;
use rss::{Across, Along, Assumptions, Crossing, Direction, Lateral, Model, Situation};

const CASES: usize = 10_000;
const TOLERANCE: f64 = 1e-9;
/// m, see above.
const CLOSE: f64 = 1.1e-3;

/// The Python that has `ad_rss`; without it, says so.
fn python() -> Option<PathBuf> {
    let python = std::env::var_os("KEEPTIME_RSS_PYTHON").map(PathBuf::from);
    if python.is_none() {
        eprintln!("SKIP: KEEPTIME_RSS_PYTHON is not set to a Python with ad-rss");
    }
    python
}

struct Case {
    model: Model,
    along: Along,
    across: Across,
    ego_on_the_left: bool,
}

impl Case {
    fn random(random: &mut Random) -> Case {
        let model = Model::new(random.assumptions(), random.assumptions()).unwrap();
        let (along, across) = (random.along(), random.across());
        Case { model, along, across, ego_on_the_left: random.below(2) == 1 }
    }

    /// One line of the other program's input.
    fn write(&self, line: &mut String) {
        let direction = match self.along.direction {
            Direction::Ahead => 0.0,
            Direction::Behind => 1.0,
            Direction::Oncoming { ego_in_own_lane: true } => 2.0,
            Direction::Oncoming { ego_in_own_lane: false } => 3.0,
        };
        let values = |who: &Assumptions| {
            [
                who.response,
                who.acceleration,
                who.brake_min,
                who.brake_min_correct,
                who.brake_max,
                who.lateral_acceleration,
                who.lateral_brake,
                who.fluctuation,
            ]
        };
        let (along, across) = (&self.along, &self.across);
        let left = f64::from(u8::from(self.ego_on_the_left));
        let mut numbers = Vec::from(values(self.model.ego()));
        numbers.extend(values(self.model.other()));
        numbers.extend([direction, along.gap, along.ego_speed, along.other_speed]);
        numbers.extend([across.gap, across.ego_speed, across.other_speed, left]);
        for number in numbers {
            // The shortest text that reads back as the same number.
            write!(line, "{number:?} ").unwrap();
        }
        line.push('\n');
    }

    /// Compares the other program's answer for this case with the model's own.
    fn check(&self, answer: &str) -> Verdicts {
        let numbers: Vec<f64> = answer.split(' ').map(|word| word.parse().unwrap()).collect();
        let [along, safe_along, across, safe_across, stop] = numbers[..] else {
            panic!("five numbers expected: {answer}");
        };
        let own_along = self.model.distance_along(&self.along).unwrap();
        let own_across = self.model.distance_across(&self.across).unwrap();
        self.agree("along", own_along, along);
        self.agree("across", own_across, across);
        let crossing = Crossing {
            distance: 0.0,
            length: 0.0,
            ego_speed: self.along.ego_speed,
            enters: 0.0,
            leaves: f64::INFINITY,
        };
        self.agree("to stop", self.model.distance_to_stop(&crossing).unwrap(), stop);
        let close =
            (self.along.gap - along).abs() < CLOSE || (self.across.gap - across).abs() < CLOSE;
        if close {
            return Verdicts::default();
        }
        let situation = Situation::Lane { along: self.along, across: self.across };
        let dangerous = safe_along == 0.0 && safe_across == 0.0;
        assert_eq!(self.model.dangerous(&situation).unwrap(), dangerous, "{situation:?}");
        Verdicts { compared: 1, dangerous: usize::from(dangerous) }
    }

    fn agree(&self, what: &str, own: f64, theirs: f64) {
        let Case { model, along, across, .. } = self;
        let error = (own - theirs.max(0.0)).abs();
        assert!(error <= TOLERANCE, "{what}: {own}, not {theirs}: {along:?} {across:?} {model:?}");
    }
}

#[derive(Default)]
struct Verdicts {
    compared: usize,
    dangerous: usize,
}

#[test]
fn distances_and_verdicts_are_those_of_ad_rss_lib() {
    let Some(python) = python() else { return };
    let mut random = Random(7);
    let cases: Vec<Case> = (0..CASES).map(|_| Case::random(&mut random)).collect();
    let mut input = String::new();
    cases.iter().for_each(|case| case.write(&mut input));
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/rss_oracle.py");
    let mut oracle = Command::new(python)
        .args(["-W", "ignore", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = oracle.stdin.take().unwrap();
    let feeder = std::thread::spawn(move || pipe.write_all(input.as_bytes()));
    let output = oracle.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", output.status);
    feeder.join().unwrap().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert_eq!(answers.lines().count(), CASES);
    let verdicts = cases.iter().zip(answers.lines()).map(|(case, answer)| case.check(answer));
    let (compared, dangerous) = verdicts.fold((0, 0), |(compared, dangerous), verdict| {
        (compared + verdict.compared, dangerous + verdict.dangerous)
    });
    // Both verdicts were given, and nearly all could be compared.
    assert!(compared > CASES * 99 / 100, "{compared} verdicts");
    assert!((CASES / 10..CASES * 9 / 10).contains(&dangerous), "{dangerous} dangerous ones");
}

#[test]
fn reading_of_the_paper_is_not_that_of_ad_rss_lib() {
    // The judge tells the two readings apart: away from each other, the paper counts a way to brake.
    let model = rss::Preset::AD_RSS.model();
    let across = Across { gap: 1.0, ego_speed: -1.0, other_speed: -1.0 };
    assert_eq!(model.distance_across(&across), Ok(0.0));
    let paper = model.with_lateral(Lateral::Paper).distance_across(&across).unwrap();
    assert!(paper > 0.0, "{paper}");
}

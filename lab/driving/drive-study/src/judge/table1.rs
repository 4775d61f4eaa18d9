//! Table 1 of COLA: the latest command that avoids a crash, by delaying it.

use super::{Findings, Found};
use crate::Experiment;
use crate::result::{Demand, Value, Verdict};
use report::document::{Section, Table};
use world::table1::{BRAKING, ROWS, Row, TOLERANCE};

/// Rows that one law is to explain.
const EXPLAINED: [usize; 2] = [0, 2];

pub(super) fn found(findings: &Findings) -> Found {
    let driven = findings.part(Experiment::Table1).is_some();
    let demands = EXPLAINED.iter().map(|row| demand(&ROWS[*row], driven)).collect();
    let section = driven.then(|| Section {
        title: "Table 1".to_owned(),
        about: format!(
            "The hazard stands at once; the vehicle brakes by {BRAKING} m/s². Found by delaying \
             the command until there is a crash, in steps of the world (10 ms), and in closed \
             form. No single law explains all rows: the last column has the change that each row \
             would need."
        ),
        tables: vec![table()],
        ..Section::default()
    });
    (demands, section)
}

fn demand(row: &Row, driven: bool) -> Demand {
    let percent = 100.0 * (row.closed_form() / row.published - 1.0);
    Demand {
        what: format!(
            "Table 1, {} km/h at {} m: distance from the published",
            row.speed_kmh, row.distance_m
        ),
        value: driven.then(|| Value { value: percent, interval: None, unit: "%".to_owned() }),
        demand: format!("within {:.0} %", 100.0 * TOLERANCE),
        verdict: match (driven, row.reproduced()) {
            (false, _) => Verdict::NotMeasured,
            (true, true) => Verdict::Met,
            (true, false) => Verdict::Missed,
        },
        note: format!(
            "Published: {:.1} ms; in closed form: {:.1} ms.",
            row.published * 1e3,
            row.closed_form() * 1e3
        ),
        ..Demand::default()
    }
}

fn table() -> Table {
    let head =
        "encounter|published, ms|closed form, ms|by delaying, ms|reproduced|would need one of"
            .split('|');
    let rows = ROWS.iter().map(cells);
    Table::new("Latest command that avoids a crash", head, rows).left(&[5])
}

fn cells(row: &Row) -> Vec<String> {
    let ms = |seconds: f64| format!("{:.1}", seconds * 1e3);
    let simulated = match row.simulated() {
        Ok(Some(seconds)) => ms(seconds),
        Ok(None) => "-".to_owned(),
        Err(error) => error.to_string(),
    };
    let needs = format!(
        "braking of {:.2} m/s², or {:.2} m, or accelerating by {:.2} m/s² until then",
        row.needed_braking(),
        row.needed_distance(),
        row.needed_acceleration(),
    );
    vec![
        format!("{}, {} km/h at {} m", row.category, row.speed_kmh, row.distance_m),
        ms(row.published),
        ms(row.closed_form()),
        simulated,
        if row.reproduced() { "yes" } else { "no" }.to_owned(),
        if row.reproduced() { "-".to_owned() } else { needs },
    ]
}

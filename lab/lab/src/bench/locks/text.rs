//! The result as text.

use super::program::{Measure, Plan};
use super::result::{Findings, Row, Spread, Table};
use super::variant::Variant;

/// All tables with their conclusions.
pub(super) fn render(findings: &Findings) -> String {
    let mut text = table(&findings.pairs);
    text += &notes(&findings.pairs);
    text += &sentence(&findings.pairs);
    for other in [&findings.reads, &findings.rivals].into_iter().flatten() {
        text += &format!("\n{}{}", table(other), notes(other));
    }
    for (variant, reason) in &findings.left_out {
        text += &format!("{} is left out: {reason}\n", variant.name());
    }
    text
}

fn table(table: &Table) -> String {
    let Plan { measure, core, .. } = table.plan;
    let rows = table.rows();
    let repetitions = rows.first().map_or(0, |row| row.repetitions);
    let what = match measure {
        Measure::Mutex => "One uncontended mutex, locked and unlocked".to_owned(),
        Measure::NestedReads => "One read lock taken twice, nested, and released".to_owned(),
        Measure::Two { core, held_ns, outside_ns } => format!(
            "One mutex that two threads contend for (the other on core {core}), held {held_ns} ns, \
             {outside_ns} ns outside"
        ),
    };
    let two = matches!(measure, Measure::Two { .. });
    let [second, third] = match two {
        true => ["acquisitions/s", "switches/100k (min..max)"],
        false => ["added ns/call (min..max)", "added ns/record"],
    };
    let heading = ["", "ns (min..max)", second, "records", third];
    let mut lines = terminal::table::Table::new(&heading, &[1, 2, 3, 4]);
    for row in &rows {
        let records = row.records.map_or_else(|| "-".to_owned(), |records| format!("{records:.2}"));
        let (second, third) = if two {
            (format!("{:.0}", 1e9 / row.round_ns.median), spread(Some(row.switches)))
        } else {
            let added = row.added_per_call(&table.plan);
            (spread(Some(added)), spread(row.added_per_record()))
        };
        let name = row.variant.name().to_owned();
        lines.row([name, spread(Some(row.round_ns)), second, records, third]);
    }
    format!(
        "{what}: {} times in each of {repetitions} repetitions, on core {core}\n\n{}",
        table.plan.all_rounds(),
        lines.render()
    )
}

fn spread(spread: Option<Spread>) -> String {
    let Some(Spread { median, min, max }) = spread else { return "-".to_owned() };
    format!("{median:.1} ({min:.1}..{max:.1})")
}

/// Returns the notes that a reader of a table needs.
fn notes(table: &Table) -> String {
    let rows = table.rows();
    let mut text = String::new();
    if !rows.iter().all(|row| row.fifo) {
        text += "SCHED_FIFO was refused: measured at normal priority (see keeptime doctor).\n";
    }
    for Row { variant, lost, .. } in rows.iter().filter(|row| row.lost > 0) {
        text += &format!("{} lost {lost} records in all repetitions.\n", variant.name());
    }
    text
}

fn sentence(table: &Table) -> String {
    let part = |variant: Variant, record: &str| {
        let Spread { median, min, max } = table.ratio(variant)?;
        let name = if variant == Variant::Lttng { "LTTng's wrapper" } else { "uftrace" };
        Some(format!("{name} adds {median:.1} ({min:.1} to {max:.1}) times as much for {record}"))
    };
    let parts = [part(Variant::Lttng, "an event"), part(Variant::Uftrace, "a call")];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() {
        return String::new();
    }
    format!("{} as full recording for a record.\n", parts.join(", "))
}

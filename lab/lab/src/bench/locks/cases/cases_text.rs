//! The result as text.

use super::super::result::Spread;
use super::calls::Call;
use super::cases_result::{Findings, Row};
use super::{COPY_NS, READS, SECTION_NS, THINK_NS};
use terminal::table::Table;

/// All tables and their legends.
pub(super) fn render(findings: &Findings) -> String {
    let Findings { cores, measured_ms, repetitions, .. } = findings;
    let s = if *repetitions == 1 { "" } else { "s" };
    let mut text = format!(
        "Waits for a lock in microseconds, by the clock, of {cores} cores: medians of {repetitions} \
         repetition{s} of {measured_ms} ms;\nthe maximum is the longest wait of all repetitions. \
         `*`: more threads than cores. `-`: too few waits.\n"
    );
    for lock in locks(findings) {
        for fifo in [false, true] {
            let of_table = |row: &&Row| row.lock == lock && row.fifo == fifo;
            let rows: Vec<&Row> = findings.rows.iter().filter(of_table).collect();
            if !rows.is_empty() {
                text += &format!("\n{}\n{}", title(lock, fifo), table(&rows, *cores));
            }
        }
    }
    for figure in [12, 13] {
        text += &calls(&findings.calls, figure);
    }
    if !findings.left_out.is_empty() {
        text += "\n";
    }
    for (what, reason) in &findings.left_out {
        text += &format!("{what} is left out: {reason}\n");
    }
    text
}

/// Locks in the order in which they were measured.
fn locks(findings: &Findings) -> Vec<&'static str> {
    let mut locks = Vec::new();
    for row in &findings.rows {
        if !locks.contains(&row.lock) {
            locks.push(row.lock);
        }
    }
    locks
}

fn title(lock: &str, fifo: bool) -> String {
    let (section_us, think_us, copy_us) = (SECTION_NS / 1000, THINK_NS / 1000, COPY_NS / 1000);
    let what = match lock {
        "mutex" => format!("held for {section_us} us, then free for {think_us} us"),
        "mutex-nested" => {
            format!("two nested mutexes, the inner one also taken alone; {section_us} us")
        }
        "mutex-long" => format!("held for {copy_us} us"),
        "mutex-launch" => {
            format!("a launching thread among others that hold the mutex for {copy_us} us")
        }
        "rwlock-read" => format!("waits of readers, {READS} % of all; held for {section_us} us"),
        _ => format!("waits of writers, {} % of all; held for {section_us} us", 100 - READS),
    };
    let who = match (lock, fifo) {
        (_, false) => "",
        ("mutex-launch", true) => "; it has SCHED_FIFO",
        (_, true) => "; all have SCHED_FIFO",
    };
    format!("{lock}: {what}{who}")
}

fn table(rows: &[&Row], cores: usize) -> String {
    let heading =
        ["threads", "policy", "p50", "p99", "p99.9", "max", "locks/s (min..max)", "switches/op"];
    let mut table = Table::new(&heading, &[0, 2, 3, 4, 5, 6, 7]);
    for row in rows {
        let us = |spread: Option<Spread>| micros(spread.map(|spread| spread.median));
        let speed = row.spread(|run| run.ops_per_s).map_or_else(dash, |spread| {
            format!("{:.0} ({:.0}..{:.0})", spread.median, spread.min, spread.max)
        });
        let switches = row.spread(|run| run.switches_per_op);
        table.row([
            format!("{}{}", row.threads, if row.threads as usize > cores { "*" } else { " " }),
            row.policy.name().to_owned(),
            us(row.spread(|run| run.p50_ns)),
            us(row.spread(|run| run.p99_ns)),
            us(row.spread(|run| run.p999_ns).filter(|_| row.has_p999())),
            micros(row.spread(|run| run.max_ns).map(|spread| spread.max)),
            speed,
            switches.map_or_else(dash, |spread| format!("{:.3}", spread.median)),
        ]);
    }
    table.render()
}

fn dash() -> String {
    "-".to_owned()
}

/// Microseconds with as many digits as are significant.
fn micros(ns: Option<f64>) -> String {
    match ns {
        None => dash(),
        Some(ns) if ns < 10_000.0 => format!("{:.2}", ns / 1000.0),
        Some(ns) if ns < 1e6 => format!("{:.1}", ns / 1000.0),
        Some(ns) => format!("{:.0}", ns / 1000.0),
    }
}

/// Table of one of the two figures.
fn calls(calls: &[Call], figure: u32) -> String {
    let calls: Vec<&Call> = calls.iter().filter(|call| call.figure == figure).collect();
    if calls.is_empty() {
        return String::new();
    }
    let what = if figure == 12 { "mutexes" } else { "read-write locks" };
    let heading = ["policy", "call", "", "mean (min..max)", "p50", "p99", "switches/op"];
    let mut table = Table::new(&heading, &[3, 4, 5, 6]);
    for call in calls {
        let Spread { median, min, max } = call.mean_ns;
        let switches = call.contended.then(|| format!("{:.3}", call.switches_per_op.median));
        table.row([
            call.policy.name().to_owned(),
            call.call.to_owned(),
            if call.contended { "contended" } else { "uncontended" }.to_owned(),
            format!("{median:.1} ({min:.1}..{max:.1})"),
            format!("{:.1}", call.p50_ns.median),
            format!("{:.1}", call.p99_ns.median),
            switches.unwrap_or_else(dash),
        ]);
    }
    format!(
        "\nFig. {figure} of \"Autonomy Today\" as a table: calls of {what}, in nanoseconds. Uncontended: \
         of sixteen calls in a row.\nContended: processor time of each call, without suspension, \
         four threads.\n{}",
        table.render()
    )
}

#[cfg(test)]
mod tests {
    use super::super::cases_result::Sample;
    use super::super::policy::Policy;
    use super::*;
    use std::collections::BTreeMap;

    fn findings(waits: u64) -> Findings {
        let run = Sample {
            p50_ns: 1_500.0,
            p99_ns: 25_000.0,
            p999_ns: 3e6,
            max_ns: 4e6,
            waits,
            ops_per_s: 1000.0,
            switches: 5,
            switches_per_op: 0.25,
        };
        let (lock, policy) = ("mutex", Policy::FairInherit);
        let row = Row { lock, policy, threads: 4, fifo: true, runs: vec![run], guard: None };
        Findings {
            rows: vec![row],
            calls: Vec::new(),
            left_out: BTreeMap::from([("ck".to_owned(), "not installed".to_owned())]),
            cores: 2,
            measured_ms: 300,
            repetitions: 1,
        }
    }

    #[test]
    fn table_has_all_columns_and_says_what_is_left_out() {
        let text = render(&findings(2000));
        let row = text.lines().find(|line| line.contains("fair+inherit")).unwrap();
        let words: Vec<&str> = row.split_whitespace().collect();
        let expected = ["4*", "fair+inherit", "1.50", "25.0", "3000", "4000"];
        assert_eq!(words[..6], expected);
        assert_eq!(words[6..], ["1000", "(1000..1000)", "0.250"]);
        assert!(text.contains("all have SCHED_FIFO"));
        assert!(text.ends_with("\nck is left out: not installed\n"));
    }

    #[test]
    fn percentile_that_would_be_the_longest_wait_is_not_shown() {
        let text = render(&findings(900));
        let row = text.lines().find(|line| line.contains("fair+inherit")).unwrap();
        assert_eq!(row.split_whitespace().nth(4), Some("-"));
    }
}

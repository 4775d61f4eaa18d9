//! The deadline of each frame (COLA, figure 13d).

use super::latency::{distribution, millis, share};
use super::{Findings, Found, cell};
use crate::{Experiment, Part, Row, Times};
use report::document::{Chart, Section, Shape, Table};

pub(super) fn found(findings: &Findings) -> Found {
    let section = findings.part(Experiment::Deadlines).map(|part| Section {
        title: "Deadlines of frames (figure 13d)".to_owned(),
        about: "All mechanisms, with another deadline for each frame. Missed: by the frames that \
                took the fast path, and by all; without a deadline, those of more than 125 ms."
            .to_owned(),
        tables: findings.study.stacks.iter().map(|stack| table(findings, part, stack)).collect(),
        charts: findings.study.stacks.iter().map(|stack| plot(findings, part, stack)).collect(),
        ..Section::default()
    });
    (Vec::new(), section)
}

fn frames(rows: &[&Row], name: &str) -> Times {
    rows.iter().fold(Times::default(), |mut all, row| {
        all.merge(&row.times(name));
        all
    })
}

fn of<'a>(findings: &Findings<'a>, part: &Part, stack: &str, policy: &str) -> Vec<&'a Row> {
    let rows = findings.drives.scenarios(part, stack, &[policy]);
    rows.into_iter().flatten().collect()
}

fn table(findings: &Findings, part: &Part, stack: &str) -> Table {
    let row = |policy: &String| {
        let rows = of(findings, part, stack, policy);
        let all = frames(&rows, "frames");
        let missed = share(rows.iter().map(|row| (row.late, row.count("frames"))));
        let fast = share(rows.iter().map(|row| (row.late_fast, row.count("frames_fast"))));
        vec![
            policy.clone(),
            all.count().to_string(),
            frames(&rows, "frames_fast").count().to_string(),
            millis(all.mean_ms()),
            millis(all.quantile_ms(0.999)),
            millis(all.max_ms()),
            cell(fast, "%"),
            cell(missed, "%"),
        ]
    };
    let head = "policy|frames|on the fast path|mean, ms|p99.9, ms|longest, ms|missed, fast path|\
        missed, all"
        .split('|');
    Table::new(format!("Stack {}", stack.to_uppercase()), head, part.policies.iter().map(row))
}

fn plot(findings: &Findings, part: &Part, stack: &str) -> Chart {
    let series = part
        .policies
        .iter()
        .map(|policy| distribution(policy, &frames(&of(findings, part, stack, policy), "frames")));
    let title = format!("Frame to command by deadline, stack {}", stack.to_uppercase());
    Chart::new(title, ("time, ms", "cumulative share, %"), Shape::Distribution, series)
}

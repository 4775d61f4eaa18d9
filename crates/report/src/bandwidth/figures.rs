//! BWLOCK++'s figures on this machine, and every number.

use super::{BandwidthRun, BudgetPoint, CoRun, KernelRun, RuleRun, Spread};
use crate::document::{Cell, Chart, Class, Document, Limit, Section, Series, Shape, Table};

/// Conclusion, figures and tables.
pub fn document(run: &BandwidthRun) -> Document {
    let mut sections = vec![kernels(run)];
    sections.extend(run.budgets.as_ref().map(|(kernel, points)| budgets(kernel, points)));
    if let Some(first) = run.rules.first() {
        sections.push(rules(&run.rules, first));
    }
    sections.extend([hogs(run)]);
    sections.extend(run.lock.as_ref().map(|lock| {
        let rows = lock.rows().map(|(what, ns)| {
            let numbers = ns.map(|ns| Cell::from(format!("{ns:.0}")));
            std::iter::once(what.into()).chain(numbers).collect::<Vec<Cell>>()
        });
        let about = "Nanoseconds. Each floor stands below what stands on it.";
        let table = Table::new("", ["what", "median", "p99", "largest"], rows);
        Section::new("The lock itself", about).table(table)
    }));
    Document {
        kind: "keeptime-lab bench bandwidth".into(),
        title: format!("Memory bandwidth: {}", run.device),
        conclusion: vec![run.conclusion()],
        command: run.command.clone(),
        date: run.date.clone(),
        facts: run.machine.iter().chain(&run.regulation).cloned().collect(),
        marks: run.marks.clone(),
        sections,
        ..Document::default()
    }
}

/// Medians with their quartiles at named places.
fn series<P: Into<String>>(
    name: &str,
    values: impl IntoIterator<Item = (P, Option<Spread>)>,
) -> Series {
    let mut spread = Vec::new();
    let medians = values.into_iter().map(|(place, value)| {
        spread.extend(value.map(|value| (value.q1, value.q3)));
        (place, value.map(|value| value.median))
    });
    let series = Series::at_places(name, medians);
    Series { spread, ..series }
}

/// A chart with a line at a value.
fn with_level(chart: Chart, at: f64) -> Chart {
    let limit = Limit { name: String::new(), at, class: Class::Faint };
    Chart { limits: vec![limit], ..chart }
}

const RELATIVE: &str = "time, of the median alone";

fn kernels(run: &BandwidthRun) -> Section {
    let relative = |kernel: &KernelRun, times: &Spread| times.scaled(1.0 / kernel.solo_ns.median);
    let worst = |times: fn(&CoRun) -> &Spread| {
        run.kernels.iter().map(move |kernel| {
            let worst = kernel.worst().map(|worst| relative(kernel, times(worst)));
            (kernel.name.as_str(), worst)
        })
    };
    let solo = run
        .kernels
        .iter()
        .map(|kernel| (kernel.name.as_str(), Some(relative(kernel, &kernel.solo_ns))));
    let slowdowns = Chart::new(
        "Slowdown with the most hogs (BWLOCK++, Figs. 7 and 9)",
        ("kernel", RELATIVE),
        Shape::Bars,
        vec![
            series("alone", solo),
            series("with hogs", worst(|run| &run.open_ns)),
            series("with hogs and the lock", worst(|run| &run.locked_ns)),
        ],
    );
    let mut charts = vec![with_level(slowdowns, 1.0)];
    for kernel in run.kernels.iter().filter(|kernel| kernel.co_runs.len() > 1) {
        let over_hogs = |solo: &Spread, times: fn(&CoRun) -> &Spread| {
            let alone = ("0".to_owned(), Some(relative(kernel, solo)));
            let co_runs = kernel.co_runs.iter();
            let co_runs =
                co_runs.map(|run| (run.hogs.to_string(), Some(relative(kernel, times(run)))));
            std::iter::once(alone).chain(co_runs).collect::<Vec<_>>()
        };
        let lines = vec![
            series("without the lock", over_hogs(&kernel.solo_ns, |run| &run.open_ns)),
            series("with it", over_hogs(&kernel.locked_ns, |run| &run.locked_ns)),
        ];
        let title = format!("{} over the number of hogs (BWLOCK++, Fig. 1)", kernel.name);
        charts.push(with_level(Chart::new(&title, ("hogs", RELATIVE), Shape::Lines, lines), 1.0));
    }
    let head =
        "kernel|MiB|hogs|without the lock|with it|slowdown|with the lock|taken back|hogs, MB/s"
            .split('|');
    let about = "Times in milliseconds: median (quartiles). Taken back is the share of the loss to \
                the hogs that is gone with the lock; the hogs' MB/s are those of all, without and \
                with it.";
    Section::new("Kernels", about).charts(charts).table(Table::new(
        "",
        head,
        run.kernels.iter().flat_map(kernel_rows),
    ))
}

fn kernel_rows(kernel: &KernelRun) -> Vec<Vec<String>> {
    let mib = format!("{:.0}", kernel.memory_bytes as f64 / f64::from(1 << 20));
    let row = |hogs: usize, (open_ns, locked_ns): (&Spread, &Spread), [back, got]: [String; 2]| {
        let solo_ns = kernel.solo_ns.median;
        vec![
            kernel.name.clone(),
            mib.clone(),
            hogs.to_string(),
            spread(open_ns, 1e6, 2),
            spread(locked_ns, 1e6, 2),
            format!("{:.3}", open_ns.median / solo_ns),
            format!("{:.3}", locked_ns.median / solo_ns),
            back,
            got,
        ]
    };
    let alone = row(0, (&kernel.solo_ns, &kernel.locked_ns), Default::default());
    let co_run = |run: &CoRun| {
        let got = format!("{:.0} -> {:.0}", run.open_hogs.median, run.locked_hogs.median);
        row(run.hogs, (&run.open_ns, &run.locked_ns), [taken_back(kernel, run), got])
    };
    std::iter::once(alone).chain(kernel.co_runs.iter().map(co_run)).collect()
}

/// The share of the loss that the lock takes back; a loss of less than 1 % is noise.
fn taken_back(kernel: &KernelRun, co_run: &CoRun) -> String {
    match kernel.taken_back(co_run) {
        Some(share) if kernel.slowdown(co_run).0 >= 1.01 => format!("{:.0} %", share * 100.0),
        _ => "-".into(),
    }
}

fn budgets(kernel: &str, points: &[BudgetPoint]) -> Section {
    let slowdowns = points.iter().map(|point| (point.budget.as_str(), Some(point.slowdown)));
    let labels = ("budget of a best-effort core", RELATIVE);
    let title = "Slowdown by budget (BWLOCK++, Fig. 8)";
    let chart = Chart::new(title, labels, Shape::Lines, vec![series(kernel, slowdowns)]);
    let rows = points.iter().map(|point| {
        [point.budget.clone(), spread(&point.slowdown, 1.0, 3), spread(&point.hogs, 1.0, 0)]
    });
    let about = format!("{kernel} with all hogs and the lock.");
    Section::new("Budgets", about).charts([with_level(chart, 1.0)]).table(Table::new(
        "",
        ["budget", "slowdown", "hogs, MB/s"],
        rows,
    ))
}

fn rules(rules: &[RuleRun], first: &RuleRun) -> Section {
    let by_rule = |name: &str, value: &dyn Fn(&RuleRun) -> Option<Spread>| {
        series(name, rules.iter().map(|rule| (rule.rule.as_str(), value(rule))))
    };
    // Relative to the first rule: what a cache gives and what the memory gives differ too much.
    let of_first = |name: &str, rate: fn(&RuleRun) -> &Spread| {
        let base = rate(first).median;
        by_rule(name, &|rule| (base > 0.0).then(|| rate(rule).scaled(1.0 / base)))
    };
    let bars = |title, y, series| Chart::new(title, ("scheduling rule", y), Shape::Bars, series);
    let charts = vec![
        bars(
            "Stopped time by scheduling rule (BWLOCK++, Fig. 10)",
            "stopped, % of the time that the lock was held",
            vec![by_rule("best-effort cores", &|rule| Some(rule.stopped.scaled(100.0)))],
        ),
        with_level(
            bars(
                "Share of the memory-bound thread while the lock is held (BWLOCK++, Figs. 5 and 6)",
                "the memory-bound thread's share, %",
                vec![
                    by_rule("of the periods", &|rule| Some(rule.memory_periods.scaled(100.0))),
                    by_rule("of the virtual run time", &|rule| {
                        Some(rule.memory_virtual.scaled(100.0))
                    }),
                ],
            ),
            50.0,
        ),
        with_level(
            bars(
                "Best-effort throughput while the lock is held",
                "throughput, of the first rule's median",
                vec![
                    of_first("memory-bound threads", |rule| &rule.memory),
                    of_first("compute-bound threads", |rule| &rule.compute),
                ],
            ),
            1.0,
        ),
    ];
    let head = "rule|stopped|less|memory-bound: periods|virtual run time|memory-bound, MB/s|compute-bound, MB/s".split('|');
    let rows = rules.iter().map(|rule| {
        let less = (1.0 - rule.stopped.median / first.stopped.median) * 100.0;
        [
            rule.rule.clone(),
            spread(&rule.stopped, 0.01, 1),
            format!("{less:.0} %"),
            spread(&rule.memory_periods, 0.01, 1),
            spread(&rule.memory_virtual, 0.01, 1),
            spread(&rule.memory, 1.0, 0),
            spread(&rule.compute, 1.0, 0),
        ]
    });
    let about = "A memory-bound and a compute-bound thread on each best-effort core, while the lock \
                is held. Shares in percent: median (quartiles).";
    Section::new("Scheduling rules", about).charts(charts).table(Table::new("", head, rows))
}

fn hogs(run: &BandwidthRun) -> Section {
    let (together, alone) = (&run.hogs.together, run.hogs.alone());
    let measured = together.iter().map(|(hogs, all)| (hogs.to_string(), Some(*all)));
    let ideal = together.iter().map(|(hogs, _)| {
        let ideal = alone.and_then(|alone| Spread::of(&[*hogs as f64 * alone]));
        (hogs.to_string(), ideal)
    });
    let rows = together.iter().map(|(hogs, all)| {
        let share = alone.map(|alone| all.median / (*hogs as f64 * alone) * 100.0);
        let share = share.map_or(String::new(), |share| format!("{share:.0} %"));
        [hogs.to_string(), spread(all, 1.0, 0), share]
    });
    let series =
        vec![series("measured", measured), series("as many times what one alone gets", ideal)];
    let array = run.hogs.array_bytes as f64 / f64::from(1 << 20);
    let about = format!(
        "{} of {array:.0} MiB each. Where the two part, the memory system shows contention.",
        run.hogs.access
    );
    Section::new("Hogs without a kernel", about)
        .charts([Chart::new(
            "Bandwidth of the hogs",
            ("hogs together", "MB/s of all"),
            Shape::Bars,
            series,
        )])
        .table(Table::new("", ["hogs together", "MB/s of all", "of alone"], rows))
}

/// Median and quartiles in a unit.
fn spread(spread: &Spread, unit: f64, digits: usize) -> String {
    let Spread { q1, median, q3, .. } = spread;
    let [q1, median, q3] = [q1, median, q3].map(|number| format!("{:.digits$}", number / unit));
    format!("{median} ({q1}-{q3})")
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn page_has_every_figure_and_escapes_what_it_shows() {
        let page = document(&run()).html().unwrap();
        crate::whole::check(&page);
        for title in
            ["Slowdown with the most hogs", "sad over the number of hogs", "Slowdown by budget"]
        {
            assert!(page.contains(title), "{title}");
        }
        assert_eq!(page.matches("<svg").count(), 1 + 2 + 1 + 3 + 1);
        assert!(page.contains("a &lt;mark&gt;") && !page.contains("<lbm>"));
        assert!(!page.contains("NaN"), "no empty numbers");
    }

    #[test]
    fn page_of_what_was_interrupted_early_is_a_page() {
        let nothing = document(&BandwidthRun::default());
        assert!(nothing.html().unwrap().contains("No kernel ran beside hogs."));
    }

    #[test]
    fn table_says_what_the_lock_takes_back() {
        let document = document(&run());
        let text = document.text(140, false);
        assert!(text.contains("! a <mark>"), "{text}");
        let line =
            |words: &[&str]| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(line(&["4", "50 %"]), "{text}");
        assert!(line(&["30.00 (29.70-30.30)", "3.000", "1.200", "90 %", "36000 -> 800"]), "{text}");
        assert!(line(&["rho = 3", "71 %"]), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(document.text(140, true).contains('\u{1b}'));
    }
}

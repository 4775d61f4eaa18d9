//! The curve of a calibration (BWLOCK++'s Fig. 8), and what it proves.
//!
//! A round gives the ratio of two runs that followed each other, so that a drift of the machine
//! cancels out. Of the median of such ratios the order statistics bound what it can be, without
//! assumptions about how times are spread: of n ratios in order, the median of all that could have
//! been measured is below the k-th with the probability that at most k - 1 of n tosses of a coin
//! are heads (the sign test). Both bounds are those of 95 %; fewer than five ratios have none.

use serde::Serialize;
use std::io::Write;

use super::Amount;
use terminal::table::Table;

/// Largest probability that a median lies beyond a bound.
const RISK: f64 = 0.05;
/// Width of the curve's longest bar.
const BAR: f64 = 40.0;

/// Verdict of the rounds on a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    /// The program is within the tolerance.
    Good,
    /// The budget is not good.
    Bad,
    /// The runs do not decide it.
    Open,
}

/// Runs of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    run_ns: Vec<u64>,
    /// Ratio of each run to the run alone of its round.
    ratios: Vec<f64>,
}

/// A budget that was tried.
#[derive(Clone, Debug)]
pub(super) struct Point {
    amount: Amount,
    runs: Runs,
    /// Time for which the best-effort cores were stopped, in all runs, in nanoseconds.
    stopped_ns: u64,
}

/// All that was measured.
#[derive(Debug)]
pub(super) struct Curve {
    tolerance: f64,
    /// The ratios are those of a run by the run alone before it, and say how the machine drifts.
    alone: Runs,
    open: Runs,
    pub budgets: Vec<Point>,
    /// Runs that were repeated because cores were not regulated.
    pub repeated: u32,
    /// True if a signal ended the search.
    pub interrupted: bool,
}

/// One row, for programs.
#[derive(Serialize)]
struct Row<'a> {
    /// `alone`, `unregulated`, or the budget.
    what: String,
    run_ns: &'a [u64],
    median_ns: u64,
    ratios: &'a [f64],
    /// The median of the ratios, and its bounds.
    slowdown: f64,
    bounds: Option<(f64, f64)>,
    verdict: Option<Verdict>,
    stopped_ns: u64,
}

impl Point {
    /// A budget that was not tried yet.
    pub(super) fn new(amount: Amount) -> Point {
        Point { amount, runs: Runs::default(), stopped_ns: 0 }
    }
}

impl Runs {
    fn add(&mut self, run_ns: u64, beside_ns: u64) {
        self.run_ns.push(run_ns);
        self.ratios.push(run_ns as f64 / beside_ns as f64);
    }

    fn median_ns(&self) -> u64 {
        let mut sorted = self.run_ns.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }

    fn slowdown(&self) -> f64 {
        median(&self.ratios)
    }

    /// Bounds of the median of the ratios, each with a risk of [`RISK`].
    fn bounds(&self) -> Option<(f64, f64)> {
        let mut sorted = self.ratios.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let rank = rank(sorted.len())?;
        Some((sorted[rank - 1], sorted[sorted.len() - rank]))
    }

    fn row(&self, what: String, verdict: Option<Verdict>, stopped_ns: u64) -> Row<'_> {
        Row {
            what,
            run_ns: &self.run_ns,
            median_ns: self.median_ns(),
            ratios: &self.ratios,
            slowdown: self.slowdown(),
            bounds: self.bounds(),
            verdict,
            stopped_ns,
        }
    }

    fn verdict(&self, limit: f64) -> Verdict {
        match self.bounds() {
            Some((_, high)) if high <= limit => Verdict::Good,
            Some((low, _)) if low > limit => Verdict::Bad,
            _ => Verdict::Open,
        }
    }
}

impl Curve {
    /// Nothing measured yet.
    pub(super) fn new(tolerance: f64) -> Curve {
        let (alone, open) = (Runs::default(), Runs::default());
        Curve { tolerance, alone, open, budgets: Vec::new(), repeated: 0, interrupted: false }
    }

    /// A round: alone, beside hogs, and with the budget that is tried last.
    pub(super) fn add(&mut self, alone_ns: u64, open_ns: u64, budget_ns: u64, stopped_ns: u64) {
        let before_ns = self.alone.run_ns.last().copied().unwrap_or(alone_ns);
        self.alone.add(alone_ns, before_ns);
        self.open.add(open_ns, alone_ns);
        if let Some(point) = self.budgets.last_mut() {
            point.runs.add(budget_ns, alone_ns);
            point.stopped_ns += stopped_ns;
        }
    }

    /// Returns true before the end of the first round.
    pub(super) fn is_empty(&self) -> bool {
        self.alone.run_ns.is_empty()
    }

    fn limit(&self) -> f64 {
        1.0 + self.tolerance
    }

    /// Verdict of the budget that is tried last.
    pub(super) fn verdict(&self) -> Verdict {
        self.budgets.last().map_or(Verdict::Open, |point| point.runs.verdict(self.limit()))
    }

    /// The program is faster beside the hogs than alone: whatever these times show, it is not what
    /// hogs do.
    pub(super) fn is_refused(&self) -> bool {
        self.open.bounds().is_some_and(|(_, high)| high < 1.0)
    }

    /// The largest budget that is good.
    pub(super) fn found(&self) -> Option<Amount> {
        let last = self.budgets.last().filter(|_| !self.is_refused())?;
        (self.verdict() == Verdict::Good).then_some(last.amount)
    }

    fn rows(&self) -> Vec<Row<'_>> {
        let mut rows = vec![
            self.alone.row("alone".into(), None, 0),
            self.open.row("unregulated".into(), None, 0),
        ];
        rows.extend(self.budgets.iter().map(|point| {
            let verdict = point.runs.verdict(self.limit());
            point.runs.row(point.amount.to_string(), Some(verdict), point.stopped_ns)
        }));
        rows
    }

    /// The curve, what it proves, and what makes it doubtful.
    pub(super) fn say(&self, json: bool) -> anyhow::Result<()> {
        let mut out = std::io::stdout().lock();
        if json {
            let value = serde_json::json!({
                "schema": "keeptime.regulate-calibration",
                "version": 1,
                "tolerance": self.tolerance,
                "confidence": 1.0 - RISK,
                "points": self.rows(),
                "budget": self.found().map(|found| found.to_string()),
                "conclusion": self.sentence(),
                "marks": self.marks(),
                "repeated": self.repeated,
            });
            return Ok(writeln!(out, "{value:#}")?);
        }
        Ok(out.write_all(self.text().as_bytes())?)
    }

    /// The same as comments of a configuration file.
    pub(super) fn comment(&self) -> String {
        self.text().lines().map(|line| format!("# {line}").trim_end().to_owned() + "\n").collect()
    }

    fn text(&self) -> String {
        let heading =
            ["budget", "runs", "program", "slowdown", "at least", "at most", "good", "stopped", ""];
        let mut table = Table::new(&heading, &[0, 1, 2, 3, 4, 5, 7]);
        let rows = self.rows();
        let most = rows.iter().map(|row| row.slowdown).fold(1.0, f64::max);
        for row in &rows {
            let bound = |of: fn((f64, f64)) -> f64| {
                row.bounds.map_or_else(|| "?".into(), |bounds| format!("{:.3}", of(bounds)))
            };
            table.row([
                row.what.clone(),
                row.run_ns.len().to_string(),
                format!("{:.1} ms", row.median_ns as f64 / 1e6),
                format!("{:.3}", row.slowdown),
                bound(|(low, _)| low),
                bound(|(_, high)| high),
                match row.verdict {
                    None => "",
                    Some(Verdict::Good) => "yes",
                    Some(Verdict::Bad) => "no",
                    Some(Verdict::Open) => "open",
                }
                .into(),
                format!("{:.1} ms", row.stopped_ns as f64 / 1e6),
                "#".repeat((row.slowdown / most * BAR).round() as usize),
            ]);
        }
        let mut text = format!("{}\n{}\n", table.render(), self.sentence());
        for mark in self.marks() {
            text += &format!("! {mark}\n");
        }
        text
    }

    fn sentence(&self) -> String {
        let tolerance = self.tolerance * 100.0;
        let open = self.open.slowdown();
        let high = |runs: &Runs| runs.bounds().map_or(f64::NAN, |(_, high)| high);
        match (self.found(), self.budgets.last()) {
            _ if self.is_refused() => format!(
                "Refused: beside the hogs the program takes {open:.3} times as long as alone. \
                 These runs differ by something else than the hogs."
            ),
            (Some(_), _) if self.open.verdict(self.limit()) == Verdict::Good => format!(
                "No budget is needed: beside the hogs the program takes {open:.3} times as long as \
                 alone without one, at most {:.3} times.",
                high(&self.open)
            ),
            (Some(found), Some(point)) => format!(
                "With a budget of {found} the program takes {:.3} times as long as alone, at most \
                 {:.3} times: within {tolerance} %, with a confidence of 95 %.",
                point.runs.slowdown(),
                high(&point.runs)
            ),
            _ => format!("None of the budgets is known to be within {tolerance} %."),
        }
    }

    /// Returns the marks that make the curve doubtful.
    fn marks(&self) -> Vec<String> {
        let mut marks = Vec::new();
        if self.interrupted {
            marks.push("PARTIAL: interrupted before a budget was found".to_owned());
        }
        let open = self.open.slowdown();
        if open < 1.0 && !self.is_refused() {
            marks.push(format!(
                "beside the hogs the program takes {open:.3} times as long as alone: the machine's \
                 own noise is larger than what the hogs cost"
            ));
        }
        let half = self.alone.run_ns.len() / 2;
        let (early, late) = self.alone.run_ns.split_at(half);
        let [early, late] = [early, late]
            .map(|run_ns| median(&run_ns.iter().map(|run_ns| *run_ns as f64).collect::<Vec<_>>()));
        let drift = late / early - 1.0;
        if drift.abs() > self.tolerance {
            marks.push(format!(
                "the program alone took {:+.0} % in the second half of the rounds: the machine \
                 drifts by more than the tolerance; ratios are of the same round",
                drift * 100.0
            ));
        }
        for point in &self.budgets {
            if point.runs.verdict(self.limit()) == Verdict::Open {
                marks.push(format!(
                    "budget {}: undecided after {} rounds; a smaller one was tried",
                    point.amount,
                    point.runs.ratios.len()
                ));
            }
        }
        let open = self.open.bounds();
        let is_worse = |point: &&Point| {
            let (budget, open) = (point.runs.bounds(), open);
            budget.zip(open).is_some_and(|((low, _), (_, high))| low > high)
        };
        if let Some(point) = self.budgets.iter().find(is_worse) {
            marks.push(format!(
                "with {} the program is slower than without a budget: other programs that have to \
                 leave the stopped cores compete for its core; end them, or give it a real-time \
                 priority, as in -- chrt -f 10 PROGRAM",
                point.amount
            ));
        }
        if self.repeated > 0 {
            marks.push(format!(
                "{} runs were repeated, because cores were not regulated in them for some time",
                self.repeated
            ));
        }
        marks
    }
}

fn median(numbers: &[f64]) -> f64 {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The largest k with which the median is below the k-th of n, or above the k-th from the end, with
/// a probability of at most [`RISK`].
fn rank(n: usize) -> Option<usize> {
    // Of so many heads in n tosses, beginning with none.
    let mut probability = 0.5_f64.powi(i32::try_from(n).ok()?);
    let (mut below, mut rank) = (0.0, 0);
    for heads in 0..n {
        below += probability;
        if below > RISK {
            break;
        }
        rank = heads + 1;
        probability *= (n - heads) as f64 / (heads + 1) as f64;
    }
    (rank > 0).then_some(rank)
}

#[cfg(test)]
mod tests {
    use super::*;
    use testing::tells;

    const ALONE_NS: u64 = 1_000_000;

    /// Rounds beside hogs and with one budget after the other, all in thousandths of the run alone.
    fn curve(open: &[u64], budgets: &[&[u64]]) -> Curve {
        let mut curve = Curve::new(0.1);
        for (at, budget) in budgets.iter().enumerate() {
            curve.budgets.push(Point::new(Amount::Events(1024 >> at)));
            for (round, budget) in budget.iter().enumerate() {
                let open = open[round % open.len()];
                curve.add(ALONE_NS, open * ALONE_NS / 1000, budget * ALONE_NS / 1000, 0);
            }
        }
        curve
    }

    #[test]
    fn ranks_are_those_of_the_sign_test() {
        // Tables of the sign test, one side, 5 %.
        for (n, expected) in
            [(4, None), (5, Some(1)), (7, Some(1)), (8, Some(2)), (10, Some(2)), (20, Some(6))]
        {
            assert_eq!(rank(n), expected, "{n}");
        }
        assert_eq!(rank(1000), Some(474));
        assert_eq!(rank(0), None);
    }

    #[test]
    fn budget_is_good_only_if_the_rounds_prove_it() {
        let slow = [1500; 5];
        let found = |budget: &[u64]| {
            let curve = curve(&slow, &[budget]);
            (curve.verdict(), curve.found())
        };
        let good = (Verdict::Good, Some(Amount::Events(1024)));
        assert_eq!(found(&[1020, 1100, 990, 1050, 1099]), good);
        // One of five beyond the tolerance proves nothing; four rounds never do.
        assert_eq!(found(&[1020, 1101, 990, 1050, 1099]), (Verdict::Open, None));
        assert_eq!(found(&[1000; 4]), (Verdict::Open, None));
        assert_eq!(found(&[1200, 1300, 1150, 1101, 1400]), (Verdict::Bad, None));
        // Of eight, one may be.
        assert_eq!(found(&[1020, 1900, 990, 1050, 1099, 1000, 1000, 1000]), good);
    }

    #[test]
    fn drift_of_the_machine_cancels_out_and_is_said() {
        let mut curve = Curve::new(0.1);
        curve.budgets.push(Point::new(Amount::Events(1024)));
        for round in 0..10 {
            let alone_ns = ALONE_NS * (10 + round) / 10;
            curve.add(alone_ns, alone_ns * 3 / 2, alone_ns * 21 / 20, 0);
        }
        assert_eq!(curve.verdict(), Verdict::Good);
        let marks = curve.marks();
        assert!(marks.len() == 1 && marks[0].contains("+42 %"), "{marks:?}");
    }

    #[test]
    fn curve_whose_baseline_is_slower_than_the_co_run_is_refused() {
        let refused = curve(&[900, 950, 980, 940, 910], &[&[1000; 5]]);
        assert!(refused.is_refused());
        assert_eq!(refused.found(), None);
        tells(&refused.sentence(), &["Refused", "hogs"]);
        // If that may be chance, a mark says so.
        let doubtful = curve(&[900, 950, 980, 1010, 910], &[&[1000; 5]]);
        assert!(doubtful.found().is_some());
        tells(&doubtful.marks()[0], &["noise"]);
        tells(&doubtful.sentence(), &["No budget"]);
    }

    #[test]
    fn budget_that_makes_the_program_slower_is_said() {
        let moved = curve(&[1500; 5], &[&[2400; 5]]);
        tells(&moved.marks()[0], &["slower", "priority"]);
        assert!(curve(&[1500; 5], &[&[1400; 5]]).marks().is_empty());
    }

    #[test]
    fn curve_says_what_is_open_and_goes_into_the_file_as_comments() {
        let open = [1000, 1050, 1150, 1000, 1200];
        let curve = curve(&[1500; 5], &[&open, &[1010; 5]]);
        assert_eq!(curve.found(), Some(Amount::Events(512)));
        tells(&curve.marks()[0], &["1024", "undecided"]);
        tells(&curve.sentence(), &["512", "1.010"]);
        let comment = curve.comment();
        assert!(comment.lines().all(|line| line.starts_with('#')), "{comment}");
        assert!(comment.contains("# ") && comment.contains("####"));
    }
}

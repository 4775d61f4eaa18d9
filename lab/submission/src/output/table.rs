//! The result in a terminal: one block per size, one line per contender, at most 100 columns.

use super::contender::{Contender, contenders, shapes};
use super::unit::{count, shape as size};
use crate::network::Shape;
use crate::study::{Missing, Study};
use crate::summary::{Spread, Time};
use report::text::{clean, pad};
use unicode_width::UnicodeWidthStr;

/// The widest name of a contender; longer ones are cut.
const MAX_NAME: usize = 26;
/// Columns of a number, and the blanks before them.
const CELL: usize = 8;
/// Columns of a line of text.
const WIDTH: usize = 100;

/// The tables of all sizes: of each contender the submission's and the completion's median, 99th
/// percentile, longest time and jitter, and the sum of what was done once. A wrong result is
/// marked with an exclamation mark and explained below its block.
pub fn table(study: &Study) -> String {
    let contenders = contenders(study);
    let widest = contenders.iter().map(|one| clean(&one.name).width()).max().unwrap_or(0);
    let mut text = Text { out: String::new(), name: widest.clamp("method".len(), MAX_NAME) };
    for about in &study.accelerators {
        text.line(&format!("{}: {}, {}", about.id, about.name, about.driver));
    }
    for shape in shapes(study) {
        text.block(shape, &contenders);
    }
    if !study.missing.is_empty() {
        text.line("\nnot measured");
        study.missing.iter().for_each(|one| text.missing(study, one));
    }
    text.out
}

struct Text {
    out: String,
    /// Width of the names of contenders.
    name: usize,
}

impl Text {
    /// A line of words, which go on in the next one where they do not fit.
    fn line(&mut self, words: &str) {
        let mut used = 0;
        for (index, word) in clean(words).split(' ').enumerate() {
            let width = word.width();
            if index > 0 && used + 1 + width > WIDTH {
                self.out += "\n    ";
                used = 4;
            } else if index > 0 {
                self.out.push(' ');
                used += 1;
            }
            self.out += word;
            used += width;
        }
        self.out.push('\n');
    }

    fn block(&mut self, shape: Shape, contenders: &[Contender<'_>]) {
        let unit = Unit::of(shape, contenders);
        let kernels = count(shape.kernels(), "kernel");
        self.out += &format!("\n{} ({kernels}, times in {})\n", size(shape), unit.name());
        let four = 4 * CELL;
        self.row("", &format!("{:>four$}{:>four$}", "submission", "completion"), "");
        let heads = ["median", "p99", "max", "jitter"].map(|head| format!("{head:>CELL$}"));
        self.row("method", &heads.concat().repeat(2), "once");
        for contender in contenders {
            let spreads = Time::ALL.map(|time| contender.spread(shape, time));
            if let (Some(case), [Some(submission), Some(completion)]) =
                (contender.cases.get(&shape), spreads)
            {
                let once = unit.cell(contender.once(shape).unwrap_or(0.0));
                let sign = if case.is_right() { "" } else { "!" };
                let cells = unit.cells(&submission) + &unit.cells(&completion);
                self.row(&format!("{sign}{}", contender.name), &cells, &once);
            }
        }
        for contender in contenders {
            if let Some(case) = contender.cases.get(&shape).filter(|case| !case.is_right()) {
                let (difference, tolerance) = (case.difference, case.tolerance);
                self.line(&format!(
                    "  ! {}: wrong result, {difference:.1e} off where rounding explains \
                     {tolerance:.1e}",
                    contender.name
                ));
            }
        }
    }

    fn row(&mut self, name: &str, cells: &str, once: &str) {
        let row = format!("  {}{cells}{once:>CELL$}", pad(&clean(name), self.name));
        self.out += row.trim_end();
        self.out.push('\n');
    }

    fn missing(&mut self, study: &Study, missing: &Missing) {
        let name = study.contender(missing.accelerator, missing.method);
        let at = missing.shape.map_or(String::new(), |shape| format!(" at {}", size(shape)));
        self.line(&format!("  {name}{at}: {}", missing.why));
    }
}

/// The unit of every time in one block.
#[derive(Clone, Copy)]
enum Unit {
    Microsecond,
    Millisecond,
}

impl Unit {
    /// Microseconds, where the longest time has room.
    fn of(shape: Shape, contenders: &[Contender<'_>]) -> Unit {
        let longest = |one: &Contender<'_>| {
            let spread = one.spread(shape, Time::Completion).map(|spread| spread.max_ns);
            spread.into_iter().chain(one.once(shape)).fold(0.0, f64::max)
        };
        let longest = contenders.iter().map(longest).fold(0.0, f64::max);
        if longest < 1e9 { Unit::Microsecond } else { Unit::Millisecond }
    }

    fn name(self) -> &'static str {
        match self {
            Unit::Microsecond => "us",
            Unit::Millisecond => "ms",
        }
    }

    fn cell(self, ns: f64) -> String {
        let time = match self {
            Unit::Microsecond => ns / 1e3,
            Unit::Millisecond => ns / 1e6,
        };
        let digits = match time {
            t if t >= 999.95 => 0,
            t if t >= 9.995 => 1,
            _ => 2,
        };
        format!("{time:.digits$}")
    }

    fn cells(self, spread: &Spread) -> String {
        let times = [spread.median_ns, spread.p99_ns, spread.max_ns, spread.jitter_ns];
        times.map(|ns| format!("{:>CELL$}", self.cell(ns))).concat()
    }
}

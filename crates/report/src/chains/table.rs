//! The result in a terminal: one block per policy, one line per chain, at most 100 columns.

use super::unit::{Unit, count};
use super::{ChainInfo, ChainsRun, PRIORITY, PolicyRun, over_bound};
use crate::text::{clean, pad};
use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthStr;

/// The widest name of a chain; longer ones are cut.
const MAX_NAME: usize = 26;
/// Columns after the name: heading and width.
const COLUMNS: [(&str, usize); 7] = [
    ("period", 10),
    ("jobs", 9),
    ("p50", 10),
    ("p99", 10),
    ("max", 10),
    ("misses", 9),
    ("bound", 10),
];

const BAD: Style = AnsiColor::Red.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const HEAD: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const PLAIN: Style = Style::new();

/// The tables of all policies. With `color`, misses, broken bounds and marks stand out by ANSI
/// colours; without it they carry the signs that they carry anyway.
pub fn table(run: &ChainsRun, color: bool) -> String {
    let widest = run.chains.iter().map(|chain| clean(&chain.id).width()).max().unwrap_or(0);
    let mut text = Text {
        out: String::new(),
        color,
        unit: Unit::of(run),
        name: widest.clamp("chain".len(), MAX_NAME),
    };
    text.head(run);
    for policy in &run.policies {
        text.policy(run, policy);
    }
    text.out
}

struct Text {
    out: String,
    color: bool,
    unit: Unit,
    /// Width of the names of chains.
    name: usize,
}

impl Text {
    fn paint(&mut self, style: Style, text: &str) {
        if self.color && style != PLAIN {
            self.out += &format!("{style}{text}{style:#}");
        } else {
            self.out += text;
        }
    }

    fn line(&mut self, style: Style, text: &str) {
        self.paint(style, text);
        self.out.push('\n');
    }

    fn head(&mut self, run: &ChainsRun) {
        let duration = format!("{} s per policy", round(run.duration_s));
        let about = [&run.system_name, &run.machine, &duration].map(|part| clean(part));
        let about: Vec<String> = about.into_iter().filter(|part| !part.is_empty()).collect();
        self.line(HEAD, &about.join(", "));
        for mark in &run.marks {
            self.line(WARN, &format!("! {}", clean(mark)));
        }
    }

    fn policy(&mut self, run: &ChainsRun, policy: &PolicyRun) {
        self.out.push('\n');
        self.paint(HEAD, &clean(&policy.policy));
        self.line(FAINT, &format!("  (times in {})", self.unit.name()));
        let mut heading = format!("  {}", pad("chain", self.name));
        for (name, width) in COLUMNS {
            heading += &format!("{name:>width$}");
        }
        self.line(FAINT, &heading);
        for chain in &run.chains {
            self.chain(policy, chain);
        }
        for mark in &policy.marks {
            self.line(WARN, &format!("  ! {}", clean(mark)));
        }
        self.left_out(run, policy);
        self.slowest(run, policy);
        for (name, value) in &policy.facts {
            self.line(FAINT, &format!("  {}: {}", clean(name), clean(value)));
        }
    }

    fn chain(&mut self, policy: &PolicyRun, chain: &ChainInfo) {
        let result = policy.chain(&chain.id);
        let summary = result.and_then(|result| result.summary());
        let time = |time_us: Option<f64>| time_us.map_or("-".to_owned(), |t| self.unit.cell(t));
        let jobs = result.map_or("-".to_owned(), |result| result.jobs.to_string());
        let misses = result.map_or(0, |result| result.misses);
        let over = over_bound(&policy.policy, chain, summary);
        let cells = [
            (time(Some(chain.period_us)), PLAIN),
            (jobs, PLAIN),
            (time(summary.map(|s| s.p50)), PLAIN),
            (time(summary.map(|s| s.p99)), PLAIN),
            (time(summary.map(|s| s.max)), if over { BAD } else { PLAIN }),
            match (result, misses) {
                (None, _) => ("-".to_owned(), PLAIN),
                (_, 0) => ("0".to_owned(), GOOD),
                _ => (format!("!{misses}"), if chain.best_effort { WARN } else { BAD }),
            },
            match chain.bound_us {
                None => (String::new(), PLAIN),
                Some(bound_us) if over => (format!("!{}", self.unit.cell(bound_us)), BAD),
                Some(bound_us) if policy.policy != PRIORITY => (self.unit.cell(bound_us), FAINT),
                Some(bound_us) => (self.unit.cell(bound_us), PLAIN),
            },
        ];
        self.out += "  ";
        let name = pad(&clean(&chain.id), self.name);
        self.paint(if chain.best_effort { FAINT } else { PLAIN }, &name);
        for ((cell, style), (_, width)) in cells.into_iter().zip(COLUMNS) {
            self.out += &" ".repeat(width.saturating_sub(cell.len()));
            self.paint(style, &cell);
        }
        let trimmed = self.out.trim_end_matches(' ').len();
        self.out.truncate(trimmed);
        self.out.push('\n');
    }

    /// Writes the parts of the response time of the most critical chain's slowest job.
    fn slowest(&mut self, run: &ChainsRun, policy: &PolicyRun) {
        let Some(id) = run.most_critical().map(|chain| &chain.id) else { return };
        if let Some(slowest) = policy.chain(id).and_then(|result| result.slowest) {
            let time = |time_us: f64| self.unit.cell(time_us);
            let parts = slowest.parts().into_iter().filter(|(_, time_us)| *time_us > 0.0);
            let parts: Vec<String> =
                parts.map(|(name, time_us)| format!("{} {name}", time(time_us))).collect();
            let response = time(slowest.response_us);
            let job = slowest.job;
            self.line(FAINT, &format!("  slowest {} (job {job}): {response}", clean(id)));
            for (line, some) in parts.chunks(3).enumerate() {
                let sign = if line == 0 { '=' } else { '+' };
                self.line(FAINT, &format!("    {sign} {}", some.join(" + ")));
            }
        }
    }

    /// Releases without a response: they would otherwise flatter the table.
    fn left_out(&mut self, run: &ChainsRun, policy: &PolicyRun) {
        for chain in &run.chains {
            if let Some(text) = policy.chain(&chain.id).and_then(|result| result.left_out()) {
                self.line(WARN, &format!("  ! {}: {text}", clean(&chain.id)));
            }
        }
    }
}

fn round(number: f64) -> String {
    let count = number.round();
    if (count - number).abs() < 0.05 { format!("{count:.0}") } else { format!("{number:.1}") }
}

/// Number of deadlines that the critical chains missed, and number of their jobs. A job that never
/// ended counts as both. Used by the page as well.
pub(super) fn critical_misses(run: &ChainsRun, policy: &PolicyRun) -> (u64, u64) {
    let results = run
        .chains
        .iter()
        .filter(|chain| !chain.best_effort)
        .filter_map(|chain| policy.chain(&chain.id));
    results.fold((0, 0), |(misses, jobs), result| {
        (misses + result.misses, jobs + result.jobs + result.unfinished)
    })
}

/// "12 345 jobs"
pub(super) fn jobs(number: u64) -> String {
    if number == 1 { "1 job".to_owned() } else { format!("{} jobs", count(number)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fill_their_columns_whatever_their_script() {
        assert_eq!(pad("chain", 7), "chain  ");
        assert_eq!(pad("a-very-long-name", 7), "a-very…");
        assert_eq!(pad("前方前方", 8), "前方前方");
        assert_eq!(pad("前方前方", 6), "前方… ");
    }

    #[test]
    fn text_from_outside_cannot_move_the_cursor() {
        assert_eq!(clean("a\u{1b}[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}

//! The result in a terminal.

use super::{BandwidthRun, KernelRun, Spread};
use anstyle::{AnsiColor, Style};
use std::fmt::Write;

const WARN: Style = AnsiColor::Yellow.on_default();
const HEAD: Style = Style::new().bold();

/// All numbers, for people.
pub fn table(run: &BandwidthRun, color: bool) -> String {
    let mut text = Text { out: String::new(), color };
    text.line(HEAD, &run.conclusion());
    for mark in &run.marks {
        text.line(WARN, &format!("! {mark}"));
    }
    let regulation: Vec<String> =
        run.regulation.iter().map(|(name, value)| format!("{name} {value}")).collect();
    text.plain(&format!("on {}; {}", run.device, regulation.join(", ")));
    hogs(&mut text, run);
    kernels(&mut text, run);
    budgets(&mut text, run);
    rules(&mut text, run);
    if let Some(lock) = &run.lock {
        text.head("Lock, ns (median, p99, largest)");
        let three = |[p50, p99, max]: [f64; 3]| format!("{p50:>8.0} {p99:>8.0} {max:>9.0}");
        for (what, ns) in lock.rows() {
            text.plain(&format!("  {what:<46}  {}", three(ns)));
        }
    }
    text.out
}

fn hogs(text: &mut Text, run: &BandwidthRun) {
    let hogs = &run.hogs;
    let array = hogs.array_bytes as f64 / f64::from(1 << 20);
    text.head(&format!("Hogs without a kernel, {} of {array:.0} MiB each, MB/s", hogs.access));
    for (count, all) in &hogs.together {
        let share = hogs.alone().map(|alone| all.median / (*count as f64 * alone) * 100.0);
        let share = share.map_or(String::new(), |share| format!("  {share:.0} % of alone"));
        text.plain(&format!("  {count:>3} together  {}{share}", spread(all, 1.0, 0)));
    }
}

fn kernels(text: &mut Text, run: &BandwidthRun) {
    text.head("Kernels, ms: median (quartiles)");
    text.plain(&format!(
        "  {:<10} {:>6} {:>5} {:>22} {:>22} {:>9} {:>9} {:>10} {:>17}",
        "kernel",
        "MiB",
        "hogs",
        "without lock",
        "with lock",
        "slowdown",
        "locked",
        "taken back",
        "hogs MB/s"
    ));
    for kernel in &run.kernels {
        let mib = format!("{:.0}", kernel.memory_bytes as f64 / f64::from(1 << 20));
        let solo = (spread(&kernel.solo_ns, 1e6, 2), spread(&kernel.locked_ns, 1e6, 2));
        let locked = kernel.locked_ns.median / kernel.solo_ns.median;
        text.plain(&format!(
            "  {:<10} {mib:>6} {:>5} {:>22} {:>22} {:>9} {locked:>9.3} {:>10} {:>17}",
            kernel.name, 0, solo.0, solo.1, "", "", ""
        ));
        for co_run in &kernel.co_runs {
            let (open, locked) = kernel.slowdown(co_run);
            let (open_ms, locked_ms) =
                (spread(&co_run.open_ns, 1e6, 2), spread(&co_run.locked_ns, 1e6, 2));
            let got = format!("{:.0} -> {:.0}", co_run.open_hogs.median, co_run.locked_hogs.median);
            let back = taken_back(kernel, co_run);
            text.plain(&format!(
                "  {:<10} {:>6} {:>5} {open_ms:>22} {locked_ms:>22} {open:>9.3} {locked:>9.3} \
                 {back:>10} {got:>17}",
                "", "", co_run.hogs
            ));
        }
    }
}

/// The share of the loss that the lock takes back; a loss of less than 1 % is noise.
pub(super) fn taken_back(kernel: &KernelRun, co_run: &super::CoRun) -> String {
    match kernel.taken_back(co_run) {
        Some(share) if kernel.slowdown(co_run).0 >= 1.01 => format!("{:.0} %", share * 100.0),
        _ => "-".into(),
    }
}

fn budgets(text: &mut Text, run: &BandwidthRun) {
    let Some((kernel, points)) = &run.budgets else { return };
    text.head(&format!("Budgets: {kernel} with all hogs and the lock"));
    text.plain(&format!("  {:>10} {:>24} {:>24}", "budget", "slowdown", "hogs MB/s"));
    for point in points {
        let (slowdown, hogs) = (spread(&point.slowdown, 1.0, 3), spread(&point.hogs, 1.0, 0));
        text.plain(&format!("  {:>10} {slowdown:>24} {hogs:>24}", point.budget));
    }
}

fn rules(text: &mut Text, run: &BandwidthRun) {
    if run.rules.is_empty() {
        return;
    }
    text.head("Scheduling rules: a memory-bound and a compute-bound thread a core, lock held");
    text.plain(&format!(
        "  {:<9} {:>18} {:>9} {:>20} {:>20} {:>16} {:>20}",
        "rule",
        "stopped, %",
        "less",
        "memory: periods, %",
        "virtual time, %",
        "memory, MB/s",
        "compute, MB/s"
    ));
    let first = run.rules[0].stopped.median;
    for rule in &run.rules {
        let less = format!("{:.0} %", (1.0 - rule.stopped.median / first) * 100.0);
        text.plain(&format!(
            "  {:<9} {:>18} {less:>9} {:>20} {:>20} {:>16} {:>20}",
            rule.rule,
            spread(&rule.stopped, 0.01, 1),
            spread(&rule.memory_periods, 0.01, 1),
            spread(&rule.memory_virtual, 0.01, 1),
            spread(&rule.memory, 1.0, 0),
            spread(&rule.compute, 1.0, 0),
        ));
    }
}

/// Median and quartiles in a unit.
pub(super) fn spread(spread: &Spread, unit: f64, digits: usize) -> String {
    let Spread { q1, median, q3, .. } = spread;
    let [q1, median, q3] = [q1, median, q3].map(|number| format!("{:.digits$}", number / unit));
    format!("{median} ({q1}-{q3})")
}

struct Text {
    out: String,
    color: bool,
}

impl Text {
    fn head(&mut self, line: &str) {
        self.out.push('\n');
        self.line(HEAD, line);
    }

    fn plain(&mut self, line: &str) {
        self.line(Style::new(), line.trim_end());
    }

    fn line(&mut self, style: Style, line: &str) {
        let style = if self.color { style } else { Style::new() };
        // A string takes any text.
        let _ = writeln!(self.out, "{style}{line}{style:#}");
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn table_says_what_the_lock_takes_back() {
        let text = table(&run(), false);
        assert!(text.contains("! a <mark>"), "{text}");
        let line =
            |words: &[&str]| text.lines().any(|line| words.iter().all(|word| line.contains(word)));
        assert!(line(&["4 together", "50 % of alone"]), "{text}");
        assert!(line(&["30.00 (29.70-30.30)", "3.000", "1.200", "90 %", "36000 -> 800"]), "{text}");
        assert!(line(&["rho = 3", "71 %"]), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        assert!(table(&run(), true).contains('\u{1b}'));
    }
}

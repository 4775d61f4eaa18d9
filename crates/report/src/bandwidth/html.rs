//! The result as one page. The template is `page.html`, beside this file.

use super::plot::Plot;
use super::table::{spread, taken_back};
use super::{BandwidthRun, KernelRun, RuleRun, Spread};
use crate::Error;
use crate::page::render;
use minijinja::context;
use minijinja::value::Value;

/// One self-contained page: BWLOCK++'s figures on this machine, and every number.
///
/// # Errors
/// [`Error::Plot`] and [`Error::Template`], neither of which depends on the results.
pub fn html(run: &BandwidthRun) -> Result<String, Error> {
    render("bandwidth.html", include_str!("page.html"), page(run)?)
}

fn page(run: &BandwidthRun) -> Result<Value, Error> {
    let mut figures = vec![slowdowns(run)?];
    if run.kernels.iter().any(|kernel| kernel.co_runs.len() > 1) {
        for kernel in &run.kernels {
            figures.push(over_hogs(kernel)?);
        }
    }
    figures.extend(budgets(run)?);
    if !run.rules.is_empty() {
        figures.extend([stopped(run)?, periods(run)?, throughput(run)?]);
    }
    figures.push(hogs(run)?);
    let lock = run.lock.as_ref().map(|lock| lock.rows().map(|(what, ns)| context! { what, ns }));
    let lock = lock.map(Vec::from);
    Ok(context! {
        device => run.device.as_str(),
        conclusion => run.conclusion(),
        command => run.command.as_str(),
        date => run.date.as_str(),
        machine => run.machine.clone(),
        regulation => run.regulation.clone(),
        marks => run.marks.clone(),
        figures,
        kernels => run.kernels.iter().map(rows).collect::<Vec<_>>(),
        rules => run.rules.iter().map(rule).collect::<Vec<_>>(),
        lock,
    })
}

/// A figure, the legend of its colours, and the figure of the paper that it repeats.
fn figure(title: &str, about: &str, plot: &Plot<'_>, svg: String) -> Value {
    let key = |(index, name): (usize, &String)| context! { ink => plot.ink + index, name };
    let legend: Vec<Value> = plot.series.iter().enumerate().map(key).collect();
    context! { title, about, legend, svg => Value::from_safe_string(svg) }
}

/// Times divided by the median alone.
fn relative(kernel: &KernelRun, times: &Spread) -> Spread {
    scaled(times, 1.0 / kernel.solo_ns.median)
}

fn scaled(spread: &Spread, factor: f64) -> Spread {
    let Spread { count, min, q1, median, q3, max } = *spread;
    let [min, q1, median, q3, max] = [min, q1, median, q3, max].map(|number| number * factor);
    Spread { count, min, q1, median, q3, max }
}

fn slowdowns(run: &BandwidthRun) -> Result<Value, Error> {
    let group = |kernel: &KernelRun| {
        let worst = kernel.worst();
        let co_run =
            |times: fn(&super::CoRun) -> &Spread| worst.map(|worst| relative(kernel, times(worst)));
        let solo = relative(kernel, &kernel.solo_ns);
        let values = vec![Some(solo), co_run(|run| &run.open_ns), co_run(|run| &run.locked_ns)];
        (kernel.name.clone(), values)
    };
    let plot = Plot {
        name: "slowdown",
        x: "kernel",
        y: "time, of the median alone",
        series: vec!["alone".into(), "with hogs".into(), "with hogs and the lock".into()],
        ink: 0,
        groups: run.kernels.iter().map(group).collect(),
        level: Some(1.0),
    };
    let about = "BWLOCK++, Figs. 7 and 9: medians, with quartiles, with the most hogs.";
    Ok(figure("Slowdown of the kernels", about, &plot, plot.bars()?))
}

fn over_hogs(kernel: &KernelRun) -> Result<Value, Error> {
    let [solo, locked] = [&kernel.solo_ns, &kernel.locked_ns].map(|it| Some(relative(kernel, it)));
    let mut groups = vec![("0".to_owned(), vec![solo, locked])];
    groups.extend(kernel.co_runs.iter().map(|run| {
        let values = [&run.open_ns, &run.locked_ns].map(|it| Some(relative(kernel, it)));
        (run.hogs.to_string(), values.into())
    }));
    let plot = Plot {
        name: "slowdown over hogs",
        x: "hogs",
        y: "time, of the median alone",
        series: vec!["without the lock".into(), "with it".into()],
        ink: 1,
        groups,
        level: Some(1.0),
    };
    let title = format!("{} over the number of hogs", kernel.name);
    Ok(figure(&title, "BWLOCK++, Fig. 1.", &plot, plot.lines()?))
}

fn budgets(run: &BandwidthRun) -> Result<Option<Value>, Error> {
    let Some((kernel, points)) = &run.budgets else { return Ok(None) };
    let group = |point: &super::BudgetPoint| (point.budget.clone(), vec![Some(point.slowdown)]);
    let plot = Plot {
        name: "budgets",
        x: "budget of a best-effort core",
        y: "time, of the median alone",
        series: vec![kernel.clone()],
        ink: 2,
        groups: points.iter().map(group).collect(),
        level: Some(1.0),
    };
    let about = "BWLOCK++, Fig. 8: with the most hogs and the lock.";
    Ok(Some(figure("Slowdown by budget", about, &plot, plot.lines()?)))
}

fn stopped(run: &BandwidthRun) -> Result<Value, Error> {
    let group = |rule: &RuleRun| (rule.rule.clone(), vec![Some(scaled(&rule.stopped, 100.0))]);
    let plot = Plot {
        name: "stopped time",
        x: "scheduling rule",
        y: "stopped, % of the time that the lock was held",
        series: vec!["stopped time of the best-effort cores".into()],
        ink: 1,
        groups: run.rules.iter().map(group).collect(),
        level: None,
    };
    let about = "BWLOCK++, Fig. 10: a memory-bound and a compute-bound thread on each core.";
    Ok(figure("Stopped time by scheduling rule", about, &plot, plot.bars()?))
}

fn periods(run: &BandwidthRun) -> Result<Value, Error> {
    let group = |rule: &RuleRun| {
        let shares = [&rule.memory_periods, &rule.memory_virtual];
        (rule.rule.clone(), shares.map(|share| Some(scaled(share, 100.0))).into())
    };
    let plot = Plot {
        name: "periods",
        x: "scheduling rule",
        y: "the memory-bound thread's share, %",
        series: vec!["of the periods".into(), "of the virtual run time".into()],
        ink: 3,
        groups: run.rules.iter().map(group).collect(),
        level: Some(50.0),
    };
    let about = "BWLOCK++, Figs. 5 and 6.";
    Ok(figure("Who runs while the lock is held", about, &plot, plot.bars()?))
}

fn throughput(run: &BandwidthRun) -> Result<Value, Error> {
    // Relative to the first rule: what a cache gives and what the memory gives differ too much.
    let first = &run.rules[0];
    let group = |rule: &RuleRun| {
        let of = |it: fn(&RuleRun) -> &Spread| {
            let base = it(first).median;
            (base > 0.0).then(|| scaled(it(rule), 1.0 / base))
        };
        (rule.rule.clone(), vec![of(|rule| &rule.memory), of(|rule| &rule.compute)])
    };
    let plot = Plot {
        name: "throughput",
        x: "scheduling rule",
        y: "throughput, of the first rule's median",
        series: vec!["memory-bound threads".into(), "compute-bound threads".into()],
        ink: 4,
        groups: run.rules.iter().map(group).collect(),
        level: Some(1.0),
    };
    let about = "What the best-effort threads get done while the lock is held.";
    Ok(figure("Best-effort throughput", about, &plot, plot.bars()?))
}

fn hogs(run: &BandwidthRun) -> Result<Value, Error> {
    let group = |(hogs, all): &(usize, Spread)| {
        let alone = run.hogs.alone().map(|alone| *hogs as f64 * alone);
        let ideal = alone.and_then(|ideal| Spread::of(&[ideal]));
        (hogs.to_string(), vec![Some(*all), ideal])
    };
    let plot = Plot {
        name: "hogs",
        x: "hogs together",
        y: "MB/s of all",
        series: vec!["measured".into(), "as many times what one alone gets".into()],
        ink: 5,
        groups: run.hogs.together.iter().map(group).collect(),
        level: None,
    };
    let about = "Where the two part, the memory system shows contention.";
    Ok(figure("Bandwidth of the hogs, without a kernel", about, &plot, plot.bars()?))
}

/// The rows of a kernel.
fn rows(kernel: &KernelRun) -> Value {
    let alone = context! {
        hogs => 0,
        open => spread(&kernel.solo_ns, 1e6, 2),
        locked => spread(&kernel.locked_ns, 1e6, 2),
        slowdown => "1",
        kept => format!("{:.3}", kernel.locked_ns.median / kernel.solo_ns.median),
        back => "", got => "",
    };
    let co_run = |run: &super::CoRun| {
        let (open, locked) = kernel.slowdown(run);
        context! {
            hogs => run.hogs,
            open => spread(&run.open_ns, 1e6, 2),
            locked => spread(&run.locked_ns, 1e6, 2),
            slowdown => format!("{open:.3}"),
            kept => format!("{locked:.3}"),
            back => taken_back(kernel, run),
            got => format!("{:.0} → {:.0}", run.open_hogs.median, run.locked_hogs.median),
        }
    };
    let rows = std::iter::once(alone).chain(kernel.co_runs.iter().map(co_run));
    let mib = format!("{:.0} MiB", kernel.memory_bytes as f64 / f64::from(1 << 20));
    context! { name => kernel.name.as_str(), mib, rows => rows.collect::<Vec<_>>() }
}

fn rule(rule: &RuleRun) -> Value {
    context! {
        name => rule.rule.as_str(),
        stopped => spread(&rule.stopped, 0.01, 1),
        periods => spread(&rule.memory_periods, 0.01, 1),
        virtual_time => spread(&rule.memory_virtual, 0.01, 1),
        memory => spread(&rule.memory, 1.0, 0),
        compute => spread(&rule.compute, 1.0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use super::*;

    #[test]
    fn page_has_every_figure_and_escapes_what_it_shows() {
        let page = html(&run()).unwrap();
        for title in
            ["Slowdown of the kernels", "sad over the number of hogs", "Slowdown by budget"]
        {
            assert!(page.contains(title), "{title}");
        }
        assert_eq!(page.matches("<svg").count(), 1 + 2 + 1 + 3 + 1);
        assert!(page.contains("a &lt;mark&gt;") && !page.contains("<lbm>"));
        assert!(!page.contains("NaN"), "no empty numbers");
    }

    #[test]
    fn page_of_what_was_interrupted_early_is_a_page() {
        let nothing = BandwidthRun::default();
        assert!(html(&nothing).unwrap().contains("No kernel ran beside hogs."));
    }
}

//! The result as one page. The template is `page.html`, beside this file.

use super::{CriticalPath, FlowDrive, FlowRun, ModuleTimes, headline, middleware, ms};
use crate::Error;
use crate::page::render;
use minijinja::context;
use minijinja::value::Value;
use stats::Summary;

/// Width of the longest bar.
const WIDE: f64 = 640.0;

/// One self-contained page: what each module took, and where the worst frames' time went.
///
/// # Errors
/// [`Error::Template`], which does not depend on the results.
pub fn html(run: &FlowRun) -> Result<String, Error> {
    let drives: Vec<Value> = run.drives.iter().map(of_drive).collect();
    let content = context! {
        file => run.file.as_str(),
        scenario => run.scenario.as_str(),
        stack => run.stack.as_str(),
        command => run.command.as_str(),
        headline => headline(run),
        drives,
    };
    render("flow.html", include_str!("page.html"), content)
}

fn of_drive(drive: &FlowDrive) -> Value {
    let paths = || drive.reaction.iter().chain(&drive.worst);
    let longest = paths().map(CriticalPath::total_ns).max().unwrap_or(1).max(1);
    let scale = WIDE / longest as f64;
    let worst: Vec<Value> = drive.worst.iter().map(|path| of_path(path, scale)).collect();
    context! {
        policy => drive.policy.as_str(),
        driven => format!("{:.1}", drive.driven_s),
        lost => drive.lost,
        modules => drive.modules.iter().map(of_module).collect::<Vec<Value>>(),
        frames => drive.frames_ms.len(),
        latency => times(&drive.frames_ms),
        carried => times(&drive.carried_ms),
        topics => middleware::rows(drive),
        ahead => vec![drive.ahead.0, drive.ahead.1],
        guests => vec![drive.guests.0, drive.guests.1, drive.overruns],
        reaction => drive.reaction.as_ref().map(|path| of_path(path, scale)),
        worst,
    }
}

fn of_module(module: &ModuleTimes) -> Value {
    context! {
        name => module.name.as_str(),
        runs => module.took_ms.len(),
        fast => module.fast,
        guests => module.guests,
        cancelled => module.cancelled,
        took => times(&module.took_ms),
        waited => times(&module.waited_ms),
    }
}

fn times(samples: &[f64]) -> Vec<String> {
    let all = Summary::of(samples);
    let of = |all: Summary| [all.p50, all.p99, all.max].map(|ms| format!("{ms:.1}")).to_vec();
    all.map_or_else(|| vec!["-".to_owned(); 3], of)
}

fn of_path(path: &CriticalPath, scale: f64) -> Value {
    let mut parts = vec![("sensor", "until the frame came in".to_owned(), path.sensor_ns)];
    for step in &path.steps {
        let module = &step.module;
        parts.push(("bubble", format!("waiting for {module}"), step.waited_ns));
        let carried = |what: &str| format!("{what} in {module}");
        parts.push(("carried", carried("deserialising"), step.deserialise_ns));
        parts.push(("module", module.clone(), step.code_ns()));
        parts.push(("carried", carried("serialising"), step.serialise_ns));
        parts.push(("bubble", format!("preempted in {module}"), step.preempted_ns));
    }
    let mut at = 0.0;
    let bars = parts.into_iter().filter(|(_, _, ns)| *ns > 0).map(|(kind, name, ns)| {
        let (x, width) = (at, ns as f64 * scale);
        at += width;
        context! { kind, name => format!("{name}: {} ms", ms(ns)), x => format!("{x:.1}"), width => format!("{width:.1}") }
    });
    context! {
        frame => path.frame,
        from => format!("{:.3}", path.from_s),
        total => ms(path.total_ns()),
        sensor => ms(path.sensor_ns),
        module => ms(path.module_ns()),
        bubble => ms(path.bubble_ns()),
        bars => bars.collect::<Vec<Value>>(),
    }
}

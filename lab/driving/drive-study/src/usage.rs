//! Use of the cores of a stack: in all, by group, and in the time in which a run could send pieces
//! to other groups.

use dataflow::trace::Class;
use driving::drive::DriveOutcome;
use driving::runs::Run;
use driving::stack::CORES;
use driving::stays::{Stay, inside, union};
use serde::{Deserialize, Serialize};

/// The modules of which pieces may be guests when work stealing alone is on.
const SENDERS: [&str; 2] = ["segmentation", "prediction"];

/// The time over which a core's use is a number, ns.
const WINDOW_NS: u64 = 100_000_000;

/// Use of the cores of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Number of cores.
    pub cores: usize,
    /// Time for which none of the cores computed anything, s.
    pub idle_s: f64,
    /// Utilisation in each tenth of a second, %.
    pub used: Vec<u8>,
}

/// Returns the time for which a run of which pieces may be guests was under way, and the time for
/// which cores, all together, computed for any run meanwhile, s. Counted from the beginning of a
/// run to its end: before, while it waits for a timer or for a message, nothing can be stolen.
pub(crate) fn sending(outcome: &DriveOutcome, runs: &[Run], stays: &[Stay]) -> (f64, f64) {
    let sends = |run: &&Run| {
        let name = run.module.and_then(|module| outcome.names.modules.get(module));
        run.class != Class::Ahead && name.is_some_and(|name| SENDERS.contains(&name.as_str()))
    };
    let spans = runs.iter().filter(sends).map(|run| (run.start_ns, run.end_ns)).collect();
    let spans = union(spans);
    let whole: u64 = spans.iter().map(|(from, to)| to - from).sum();
    let busy: u64 = stays.iter().map(|stay| inside((stay.from_ns, stay.to_ns), &spans)).sum();
    (whole as f64 / 1e9, busy as f64 / 1e9)
}

/// Each group's.
pub(crate) fn groups(outcome: &DriveOutcome, stays: &[Stay]) -> Vec<Group> {
    let end_ns = (outcome.driven * 1e9).round() as u64;
    let names = outcome.names.groups.iter().enumerate();
    let group = |(number, name): (usize, &String)| {
        let own = || stays.iter().filter(|stay| usize::from(stay.core.group) == number);
        let spans = union(own().map(|stay| (stay.from_ns, stay.to_ns)).collect());
        let busy_ns = inside((0, end_ns), &spans);
        let cores = CORES.get(number).copied().unwrap_or(1);
        let mut used_ns = vec![0; end_ns.div_ceil(WINDOW_NS) as usize];
        for stay in own() {
            for window in stay.from_ns / WINDOW_NS..=stay.to_ns / WINDOW_NS {
                let span = (window * WINDOW_NS, (window + 1) * WINDOW_NS);
                if let Some(used_ns) = used_ns.get_mut(window as usize) {
                    *used_ns += inside((stay.from_ns, stay.to_ns), &[span]);
                }
            }
        }
        let whole_ns = WINDOW_NS * cores as u64;
        Group {
            name: name.clone(),
            cores,
            idle_s: (end_ns - busy_ns) as f64 / 1e9,
            used: used_ns.into_iter().map(|ns| (100 * ns / whole_ns).min(100) as u8).collect(),
        }
    };
    names.map(group).collect()
}

//! The result of `keeptime-lab bench attacks`, as text and JSON.

use std::collections::BTreeMap;

use serde_json::json;

use super::punctual::Longest;
use crate::bench::sample::Quantiles;
use crate::bench::service::Footprint;

/// Largest growth of the server's resident memory that passes: its allocator keeps some pages.
const RESIDENT_TOLERANCE_KIB: u64 = 4096;

/// Number of requests of which one may exceed its declared execution time: the machine's interrupts
/// count as its own. If more do, the attackers make it late.
const OVERRAN_OF: u64 = 1000;

/// Results of the measurement.
pub(super) struct Findings {
    /// Actions by attack.
    pub done: Vec<(&'static str, u64)>,
    /// Actions that were asked for, by attack.
    pub asked: Vec<(&'static str, u64)>,
    /// The latest wake-up of a thread of the highest priority, by core.
    pub late_ns: Vec<f64>,
    /// Duration of the attacks.
    pub seconds: f64,
    /// Requests of the punctual client that were answered.
    pub requests: usize,
    /// Requests of the punctual client that failed, with the reason.
    pub failures: Vec<String>,
    /// Times of its requests, from the release to the end.
    pub times: Quantiles,
    /// The longest of those that kept their declared execution time.
    pub kept: Longest,
    /// The longest of those that exceeded it, and were demoted for it.
    pub overran: Longest,
    /// Its bound, if the server guaranteed it.
    pub bound_ns: Option<u64>,
    /// Longest time by which a request may exceed the bound, in nanoseconds.
    pub tolerance_ns: u64,
    /// The server, before and after the attacks.
    pub server: [Footprint; 2],
    /// True if the attackers ran as other users.
    pub strangers: bool,
    /// True if the server and the punctual client had real-time priorities.
    pub realtime: bool,
    /// Time that the hypervisor kept the processors, over all cores.
    pub stolen_ns: u64,
}

impl Findings {
    /// Everything that should not have happened.
    pub(super) fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        if let Some(first) = self.failures.first() {
            let count = self.failures.len();
            complaints.push(format!("{count} requests of the punctual client failed: {first}"));
        }
        match self.bound_ns {
            None => complaints.push("the punctual client has no guarantee".into()),
            Some(bound) if self.kept.without_machine_ns > bound + self.tolerance_ns => {
                let longest_ns = self.kept.without_machine_ns;
                complaints.push(format!(
                    "a request of the punctual client took {:.3} ms, {:.3} ms above its bound, \
                     less the time lost to the machine",
                    longest_ns as f64 * 1e-6,
                    (longest_ns - bound) as f64 * 1e-6
                ));
            }
            Some(_) => {}
        }
        if self.overran.requests > 1 + self.requests as u64 / OVERRAN_OF {
            complaints.push(format!(
                "{} of {} requests of the punctual client exceeded their declared execution time",
                self.overran.requests, self.requests
            ));
        }
        let [before, after] = &self.server;
        if (before.mapped_bytes, before.descriptors, before.threads)
            != (after.mapped_bytes, after.descriptors, after.threads)
        {
            complaints.push("the server kept memory, descriptors or threads of clients".into());
        }
        if after.resident_kib > before.resident_kib + RESIDENT_TOLERANCE_KIB {
            complaints.push("the server's resident memory grew".into());
        }
        for (name, asked) in &self.asked {
            let done = self.done.iter().find(|(done, _)| done == name).map_or(0, |(_, done)| *done);
            if done < *asked {
                complaints.push(format!("{done} of {asked} {name} were done"));
            }
        }
        for (name, _) in self.done.iter().filter(|(_, done)| *done == 0) {
            complaints.push(format!("the attack by {name} was never carried out"));
        }
        complaints
    }

    /// Report for a terminal.
    pub(super) fn text(&self) -> String {
        let ms = |ns: f64| ns * 1e-6;
        let by = if self.strangers { "other users" } else { "the same user" };
        let mut text = format!("{:.0} s of attacks by {by}\n\n", self.seconds);
        for (name, done) in &self.done {
            text += &format!("{name:<12} {done:>10}\n");
        }
        let [p50, p99, p999, longest] = self.times.cells(1e6, 3);
        text += &format!(
            "\npunctual client: {} requests, milliseconds p50 {p50}, p99 {p99}, p99.9 {p999}, \
             longest {longest}, bound {}\n\
             longest of {} that kept their declared execution time: {}\n",
            self.requests,
            self.bound_ns.map_or("none".into(), |bound| format!("{:.3}", ms(bound as f64))),
            self.kept.requests,
            self.kept.text()
        );
        if self.overran.requests > 0 {
            text += &format!(
                "longest of {} that exceeded it, were demoted and have no bound: {}\n",
                self.overran.requests,
                self.overran.text()
            );
        }
        let [before, after] = &self.server;
        text += &Footprint::change(before, after);
        if !self.realtime {
            text += "Without real-time priorities the bound has no meaning.\n";
        }
        let late: Vec<String> = self.late_ns.iter().map(|ns| format!("{:.3}", ms(*ns))).collect();
        text += &format!(
            "latest wake-up of a thread of the highest priority, by core, milliseconds: {}\n",
            late.join(", ")
        );
        text +=
            &format!("stolen by the hypervisor meanwhile: {:.0} ms\n", ms(self.stolen_ns as f64));
        match self.complaints() {
            none if none.is_empty() => text += "The server passed.\n",
            complaints => complaints.iter().for_each(|line| text += &format!("NO: {line}\n")),
        }
        text
    }

    /// Report as JSON.
    pub(super) fn json(&self) -> serde_json::Value {
        let done: BTreeMap<&str, u64> = self.done.iter().copied().collect();
        json!({
            "duration_ns": (self.seconds * 1e9).round() as u64,
            "attacks": done,
            "other_users": self.strangers,
            "realtime": self.realtime,
            "punctual": {
                "requests": self.requests,
                "failures": self.failures.len(),
                "time": self.times,
                "kept": self.kept,
                "overran": self.overran,
                "bound_ns": self.bound_ns,
                "tolerance_ns": self.tolerance_ns,
            },
            "server": {"before": self.server[0], "after": self.server[1]},
            "latest_wake_up_ns": self.late_ns,
            "stolen_ns": self.stolen_ns,
            "complaints": self.complaints(),
            "machine": realtime::machine::core_model(),
        })
    }
}

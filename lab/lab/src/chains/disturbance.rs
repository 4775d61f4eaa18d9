//! Disturbances of a run, as marks, and its other observations, as facts.
//!
//! A long response is only the policy's fault if nothing else can have caused it. So each run
//! carries evidence: time that the hypervisor stole, limits that the kernel puts on real-time
//! threads, how long compute threads waited for their core, and whether processor work took the
//! time it was calibrated to take.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use realtime::machine::{self, RtLimits};
use serde::Deserialize;

/// A block of the software accelerator longer than this is told; a tenth of a millisecond is usual.
const STANDSTILL_NS: u64 = 10_000_000;
/// Shares of the duration above which stolen time and run delay are told.
pub(crate) const LOST_SHARE: f64 = 0.01;
/// Stolen time that is told whatever the duration.
const STOLEN_NS: u64 = 10_000_000;
/// Processor time over nominal time above which the calibration or the machine is in doubt.
const STRETCH: f64 = 1.2;
/// A start later than this after the common start instant is told.
const LATE_NS: u64 = 1_000_000;

/// Summary that the server writes when a run ends.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Summary {
    /// True if the server's own threads have their real-time priority.
    pub realtime: bool,
    /// Disturbances of accelerators, by their ids.
    pub accelerators: BTreeMap<String, Accelerator>,
    /// Counts of requests.
    pub counters: Counters,
}

/// Summary of one accelerator, from the server.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Accelerator {
    /// True if its compute threads have their real-time priority.
    pub realtime: bool,
    /// Number of times that work gave way to other work.
    pub preemptions: u64,
    /// Time that it worked, summed over its compute threads.
    pub busy_ns: u64,
    /// The longest piece that was not interrupted.
    pub longest_block_ns: u64,
    /// Time for which its compute threads waited for a core, in nanoseconds.
    pub run_delay_ns: u64,
}

/// Counts of requests.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Counters {
    /// Ended well.
    pub done: u64,
    /// Taken back.
    pub cancelled: u64,
    /// Ended with an error.
    pub failed: u64,
    /// Ran longer than declared.
    pub overruns: u64,
    /// Moved to the lowest bucket because of that.
    pub demotions: u64,
}

impl Summary {
    /// Reads the file that the server writes.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Summary> {
        let name = || path.display().to_string();
        let text = std::fs::read_to_string(path).with_context(name)?;
        serde_json::from_str(&text).with_context(name)
    }
}

/// Stolen time of some cores at some moment.
pub(crate) struct Snapshot(BTreeMap<usize, u64>);

impl Snapshot {
    /// Takes one now.
    pub(crate) fn take(cores: impl IntoIterator<Item = usize>) -> Snapshot {
        let stolen = |core| Some((core, machine::steal_ns(core)?));
        Snapshot(cores.into_iter().filter_map(stolen).collect())
    }
}

/// An executor, as a run saw it.
#[derive(Debug, Default)]
pub(crate) struct Seen<'a> {
    /// Its name.
    pub id: &'a str,
    /// `SCHED_FIFO` priority that it should have; 0 is normal scheduling.
    pub priority: u8,
    /// True if that was refused.
    pub is_normal: bool,
    /// True if locking its memory was refused.
    pub is_unlocked: bool,
    /// Delay of its first step after the start instant.
    pub late_ns: u64,
    /// The 99th percentile of processor time over nominal time, of all callbacks.
    pub stretch_p99: Option<f64>,
}

/// Everything that was seen besides the responses.
pub(crate) struct Evidence<'a> {
    /// Time from the start to the last report.
    pub duration_ns: u64,
    /// Before the start.
    pub before: Snapshot,
    /// After the end.
    pub after: Snapshot,
    /// The kernel's limits on real-time threads.
    pub limits: RtLimits,
    /// Summary of the server; none if it was lost.
    pub summary: Option<Summary>,
    /// `SCHED_FIFO` priority that the server should have; 0 is normal scheduling.
    pub server_priority: u32,
    /// Compute threads of each accelerator.
    pub units: BTreeMap<String, usize>,
    /// The accelerators whose threads compute: elsewhere they wait for the device, and what they
    /// wait for besides says nothing of it.
    pub software: Vec<&'a str>,
    /// The executors.
    pub executors: Vec<Seen<'a>>,
}

impl Evidence<'_> {
    /// Returns the marks of privileges that the system refused.
    pub(crate) fn refused_marks(&self) -> Vec<String> {
        let ids_of = |is_without: fn(&&Seen<'_>) -> bool| -> Vec<String> {
            self.executors.iter().filter(is_without).map(|seen| seen.id.to_owned()).collect()
        };
        let mut wanted = self.executors.iter().filter(|seen| seen.priority > 0).count();
        let mut normal = ids_of(|seen| seen.is_normal);
        if let Some(summary) = self.summary.as_ref().filter(|_| self.server_priority > 0) {
            wanted += 1 + summary.accelerators.len();
            normal.extend((!summary.realtime).then(|| "the server".to_owned()));
            let accelerators = summary.accelerators.iter().filter(|(_, a)| !a.realtime);
            normal.extend(accelerators.map(|(id, _)| id.clone()));
        }
        let unlocked = ids_of(|seen| seen.is_unlocked);
        let mut marks = Vec::new();
        if !normal.is_empty() {
            let all = normal.len() == wanted;
            let who = if all { String::new() } else { format!("{} ", normal.join(", ")) };
            let refused = "ran at normal priority: SCHED_FIFO refused, see keeptime doctor";
            marks.push(format!("{who}{refused}"));
        }
        if !unlocked.is_empty() {
            let all = unlocked.len() == self.executors.len();
            let who = if all { "executors".to_owned() } else { unlocked.join(", ") };
            marks.push(format!("memory of {who} was not locked, see keeptime doctor"));
        }
        marks
    }

    /// Returns the marks that spoil or qualify the responses.
    pub(crate) fn marks(&self) -> Vec<String> {
        let mut marks: Vec<String> = self.stolen_mark().into_iter().collect();
        for (id, accelerator) in self.computing() {
            let delay_ns = accelerator.run_delay_ns;
            let share = self.share(delay_ns);
            if share > LOST_SHARE {
                let (delay, share) = (milliseconds(delay_ns), percent(share));
                let cause = self.limit(id, accelerator);
                marks.push(format!(
                    "{id} was runnable but waited {delay} ({share}) for its core{cause}"
                ));
            }
        }
        for (id, accelerator) in self.computing() {
            if accelerator.longest_block_ns > STANDSTILL_NS {
                let longest = milliseconds(accelerator.longest_block_ns);
                marks.push(format!(
                    "{id} stopped: a block of its work, usually 0.1 ms, took {longest}; bounds \
                     assume that this does not happen"
                ));
            }
        }
        if let Some(demoted) = self.counters().map(|c| c.demotions).filter(|count| *count > 0) {
            marks.push(format!("{demoted} requests were demoted for running too long"));
        }
        marks.extend(self.stretch().filter(|(_, p99)| *p99 > STRETCH).map(|(id, p99)| {
            format!(
                "processor work in {id} took {p99:.2} times its nominal time (p99): \
                 the machine is noisy or its calibration is off"
            )
        }));
        let late = self.executors.iter().filter(|seen| seen.late_ns > LATE_NS);
        let late =
            late.map(|seen| format!("{} started {} late", seen.id, milliseconds(seen.late_ns)));
        marks.extend(late);
        marks
    }

    /// Other facts, by name.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let mut facts = Vec::new();
        let mut tell = |name: String, value: String| facts.push((name, value));
        for (id, accelerator) in self.accelerators() {
            // The threads of a GPU wait for it at the same time.
            let (busy, piece) = match self.software.contains(&id) {
                true => ("busy", "block"),
                false => ("threads busy", "run of slices"),
            };
            tell(format!("{id} {busy}"), percent(self.busy(id, accelerator)));
            tell(format!("{id} longest {piece}"), milliseconds(accelerator.longest_block_ns));
            tell(format!("{id} preemptions"), accelerator.preemptions.to_string());
        }
        if let Some(counters) = self.counters() {
            tell("requests".into(), counters.done.to_string());
            let others = [
                ("requests longer than declared", counters.overruns),
                ("requests cancelled at the end", counters.cancelled),
                ("requests failed", counters.failed),
            ];
            for (name, count) in others.into_iter().filter(|(_, count)| *count > 0) {
                tell(name.into(), count.to_string());
            }
        }
        for (core, ns) in self.stolen() {
            tell(format!("stolen from core {core}"), milliseconds(ns));
        }
        if let Some((id, p99)) = self.stretch() {
            tell("processor work / nominal".into(), format!("{p99:.2} (p99 of {id})"));
        }
        facts
    }

    fn accelerators(&self) -> impl Iterator<Item = (&str, &Accelerator)> {
        let accelerators = self.summary.iter().flat_map(|summary| &summary.accelerators);
        accelerators.map(|(id, accelerator)| (id.as_str(), accelerator))
    }

    /// Accelerators whose threads compute.
    fn computing(&self) -> impl Iterator<Item = (&str, &Accelerator)> {
        self.accelerators().filter(|(id, _)| self.software.contains(id))
    }

    fn counters(&self) -> Option<&Counters> {
        self.summary.as_ref().map(|summary| &summary.counters)
    }

    /// A time as a share of the run.
    fn share(&self, ns: u64) -> f64 {
        ns as f64 / self.duration_ns.max(1) as f64
    }

    /// The share of the run that an accelerator worked.
    fn busy(&self, id: &str, accelerator: &Accelerator) -> f64 {
        let units = self.units.get(id).copied().unwrap_or(1).max(1);
        self.share(accelerator.busy_ns) / units as f64
    }

    fn stolen(&self) -> impl Iterator<Item = (usize, u64)> {
        self.after.0.iter().filter_map(|(core, after_ns)| {
            Some((*core, after_ns.saturating_sub(*self.before.0.get(core)?)))
        })
    }

    fn stolen_mark(&self) -> Option<String> {
        let much = |ns: u64| ns > STOLEN_NS || self.share(ns) > LOST_SHARE;
        let stolen = self.stolen().filter(|(_, ns)| much(*ns)).map(|(core, ns)| {
            format!("{} ({}) of core {core}", milliseconds(ns), percent(self.share(ns)))
        });
        let stolen: Vec<String> = stolen.collect();
        (!stolen.is_empty()).then(|| format!("the hypervisor took {}", stolen.join(", ")))
    }

    /// The kernel's limit that a delayed accelerator ran into, if it is that busy.
    fn limit(&self, id: &str, accelerator: &Accelerator) -> String {
        let busy = self.busy(id, accelerator);
        let share = |(held_ns, period_ns): (u64, u64)| held_ns as f64 / period_ns.max(1) as f64;
        match self.limits.kept_back() {
            Some(limit) if accelerator.realtime && busy > 1.0 - share(limit) => {
                format!(", being busy for {}{}", percent(busy), kept_back(limit))
            }
            _ => String::new(),
        }
    }

    /// The executor whose processor work took longest, compared with its nominal time.
    fn stretch(&self) -> Option<(&str, f64)> {
        let all = self.executors.iter().filter_map(|seen| Some((seen.id, seen.stretch_p99?)));
        all.max_by(|a, b| a.1.total_cmp(&b.1))
    }
}

/// Says how much time the kernel may keep from real-time threads; the text goes behind the mark
/// that it explains.
pub(crate) fn kept_back((held_ns, period_ns): (u64, u64)) -> String {
    let (held, period) = (milliseconds(held_ns), milliseconds(period_ns));
    format!(": the kernel may keep {held} of each {period} from real-time threads")
}

pub(crate) fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

pub(crate) fn milliseconds(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms == 0.0 || ms >= 10.0 { format!("{ms:.0} ms") } else { format!("{ms:.2} ms") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use realtime::machine::FairServer;

    const SECOND: u64 = 1_000_000_000;

    fn evidence<'a>(stolen_ns: u64, accelerator: Accelerator) -> Evidence<'a> {
        let snapshot = |ns| Snapshot(BTreeMap::from([(0, ns), (3, 0)]));
        let accelerators = BTreeMap::from([("gpu0".to_owned(), accelerator)]);
        Evidence {
            duration_ns: 10 * SECOND,
            before: snapshot(5),
            after: snapshot(5 + stolen_ns),
            limits: RtLimits {
                period_us: 1_000_000,
                runtime_us: 950_000,
                throttles: false,
                fair_server: None,
            },
            summary: Some(Summary { realtime: true, accelerators, ..Summary::default() }),
            server_priority: 0,
            units: BTreeMap::from([("gpu0".to_owned(), 1)]),
            software: vec!["gpu0"],
            executors: Vec::new(),
        }
    }

    fn accelerator(busy_ns: u64) -> Accelerator {
        Accelerator { realtime: true, busy_ns, ..Accelerator::default() }
    }

    #[test]
    fn quiet_run_has_no_marks_and_says_how_busy_it_was() {
        let evidence = evidence(0, accelerator(5 * SECOND));
        assert!(evidence.marks().is_empty(), "{:?}", evidence.marks());
        let facts = evidence.facts();
        assert!(facts.contains(&("gpu0 busy".into(), "50.0 %".into())), "{facts:?}");
        let stolen = ("stolen from core 3".into(), "0 ms".into());
        assert!(facts.contains(&stolen), "{facts:?}");
    }

    #[test]
    fn thread_that_waits_for_a_device_is_no_disturbance() {
        let (run_delay_ns, longest_block_ns) = (SECOND, SECOND);
        let waited = Accelerator { run_delay_ns, longest_block_ns, ..accelerator(0) };
        let mut evidence = evidence(0, waited);
        assert_eq!(evidence.marks().len(), 2, "{:?}", evidence.marks());
        evidence.software.clear();
        assert!(evidence.marks().is_empty(), "{:?}", evidence.marks());
        let slice = ("gpu0 longest run of slices".into(), "1000 ms".into());
        assert!(evidence.facts().contains(&slice), "{:?}", evidence.facts());
    }

    #[test]
    fn refused_privileges_name_whom_they_were_refused_unless_it_is_all() {
        let mut evidence = evidence(0, accelerator(0));
        let seen = |id, is_normal| Seen { id, priority: 9, is_normal, ..Seen::default() };
        evidence.executors =
            vec![seen("e1", false), Seen { is_unlocked: true, ..seen("e2", true) }];
        let refused = evidence.refused_marks();
        assert!(refused[0].starts_with("e2 ran at normal priority"), "{refused:?}");
        assert!(refused[1].starts_with("memory of e2 was not locked"), "{refused:?}");
        evidence.server_priority = 95;
        evidence.summary.as_mut().unwrap().realtime = false;
        evidence.executors = vec![seen("e1", true)];
        let refused = evidence.refused_marks();
        assert!(refused[0].starts_with("e1, the server ran at normal priority"), "{refused:?}");
        evidence.summary.as_mut().unwrap().accelerators.clear();
        assert!(evidence.refused_marks()[0].starts_with("ran at normal priority"));
    }

    #[test]
    fn stolen_time_names_its_core() {
        let marks = evidence(20_000_000, accelerator(0)).marks();
        assert_eq!(marks, ["the hypervisor took 20 ms (0.2 %) of core 0"]);
    }

    #[test]
    fn delay_of_a_busy_real_time_thread_names_the_kernels_limit() {
        let busy = accelerator(97 * SECOND / 10);
        assert!(evidence(0, accelerator(97 * SECOND / 10)).marks().is_empty());
        let mut evidence = evidence(0, Accelerator { run_delay_ns: SECOND / 5, ..busy });
        let bare = "gpu0 was runnable but waited 200 ms (2.0 %) for its core";
        assert_eq!(evidence.marks(), [bare]);
        let (runtime_ns, period_ns, assumed) = (50_000_000, SECOND, true);
        evidence.limits.fair_server = Some(FairServer { runtime_ns, period_ns, assumed });
        assert!(evidence.marks()[0].ends_with("keep 50 ms of each 1000 ms from real-time threads"));
        (evidence.limits.throttles, evidence.limits.runtime_us) = (true, 900_000);
        assert!(evidence.marks()[0].contains("keep 100 ms of each 1000 ms"));
        evidence.summary.as_mut().unwrap().accelerators.get_mut("gpu0").unwrap().realtime = false;
        assert_eq!(evidence.marks(), [bare]);
    }

    #[test]
    fn delayed_compute_and_slow_processor_work_are_told() {
        let delayed = Accelerator { run_delay_ns: SECOND / 5, ..accelerator(0) };
        let mut evidence = evidence(0, delayed);
        evidence.executors.push(Seen { id: "e1", stretch_p99: Some(1.3), ..Seen::default() });
        let marks = evidence.marks();
        assert_eq!(marks[0], "gpu0 was runnable but waited 200 ms (2.0 %) for its core");
        assert!(marks[1].starts_with("processor work in e1 took 1.30 times"), "{marks:?}");
    }
}

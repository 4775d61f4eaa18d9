//! Results of the measurement, as medians of the repetitions with their spread, and as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::super::result::Spread;
use super::calls::Call;
use super::policy::Policy;
use super::reading::Reading;
use super::{COPY_NS, READS, SECTION_NS, THINK_NS};

/// Waits of one run for one kind of lock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Sample {
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    /// The longest wait.
    pub max_ns: f64,
    /// Waits.
    pub waits: u64,
    /// Acquisitions in a second, of all threads.
    pub ops_per_s: f64,
    /// Context switches of all threads.
    pub switches: u64,
    /// The same for each acquisition of any kind.
    pub switches_per_op: f64,
}

impl Sample {
    /// `None` where no lock of this kind was waited for.
    pub(super) fn of(reading: &Reading, histogram: &str) -> Option<Sample> {
        let waits = reading.histograms.get(histogram)?;
        let permille = |permille| waits.permille(permille).map(|ns| ns as f64);
        Some(Sample {
            p50_ns: permille(500)?,
            p99_ns: permille(990)?,
            p999_ns: permille(999)?,
            max_ns: waits.max_ns as f64,
            waits: waits.count,
            ops_per_s: waits.operations as f64 * 1e9 / reading.measured_ns,
            switches: reading.switches,
            switches_per_op: reading.switches as f64 / reading.operations().max(1) as f64,
        })
    }
}

/// Kind of lock in a case under a policy.
pub(super) struct Row {
    pub lock: &'static str,
    pub policy: Policy,
    pub threads: u32,
    pub fifo: bool,
    /// Samples, one of each repetition.
    pub runs: Vec<Sample>,
    /// Report of the guard on its actions in the last repetition.
    pub guard: Option<String>,
}

impl Row {
    /// A number of the runs.
    pub(super) fn spread(&self, of: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.runs.iter().map(of))
    }

    /// Returns true if each run has enough waits to tell the 99.9th percentile from the longest.
    pub(super) fn has_p999(&self) -> bool {
        self.runs.iter().all(|run| run.waits > 1000)
    }

    fn json(&self, cores: usize) -> Value {
        let mut value = Map::new();
        value.insert("lock".into(), self.lock.into());
        value.insert("policy".into(), self.policy.name().into());
        value.insert("threads".into(), self.threads.into());
        value.insert("fifo".into(), self.fifo.into());
        let mut put = |name: &str, spread| Spread::insert(spread, name, &mut value);
        put("p50_ns", self.spread(|run| run.p50_ns));
        put("p99_ns", self.spread(|run| run.p99_ns));
        put("p999_ns", self.spread(|run| run.p999_ns));
        put("ops_per_s", self.spread(|run| run.ops_per_s));
        put("switches", self.spread(|run| run.switches as f64));
        put("switches_per_op", self.spread(|run| run.switches_per_op));
        let longest = self.spread(|run| run.max_ns);
        value.insert("max_wait_ns".into(), json!(longest.map(|spread| spread.max)));
        value.insert("max_wait_median_ns".into(), json!(longest.map(|spread| spread.median)));
        let waits: u64 = self.runs.iter().map(|run| run.waits).sum();
        value.insert("waits".into(), waits.into());
        value.insert("p999_is_longest".into(), (!self.has_p999()).into());
        value.insert("oversubscribed".into(), (self.threads as usize > cores).into());
        value.insert("repetitions".into(), self.runs.len().into());
        if let Some(guard) = &self.guard {
            value.insert("guard".into(), guard.as_str().into());
        }
        Value::Object(value)
    }
}

/// All results.
pub(super) struct Findings {
    /// Rows by case, then by lock and policy.
    pub rows: Vec<Row>,
    pub calls: Vec<Call>,
    pub left_out: BTreeMap<String, String>,
    /// Cores that the threads share.
    pub cores: usize,
    pub measured_ms: u64,
    pub repetitions: u32,
}

impl Findings {
    /// Report as JSON.
    pub(super) fn json(&self) -> Value {
        let cases: Vec<Value> = self.rows.iter().map(|row| row.json(self.cores)).collect();
        let calls: Vec<Value> = self.calls.iter().map(call_json).collect();
        json!({
            "command": terminal::command_line::this_command(),
            "cases": cases,
            "calls": calls,
            "left_out": self.left_out,
            "repetitions": self.repetitions,
            "measured_ns": self.measured_ms * 1_000_000,
            "section_ns": SECTION_NS,
            "long_section_ns": COPY_NS,
            "think_ns": THINK_NS,
            "reads_percent": READS,
            "optimised": !cfg!(debug_assertions),
            "machine": realtime::machine::core_model(),
            "cores": self.cores,
            "virtual": realtime::machine::is_virtual(),
            "kernel": realtime::machine::kernel_release(),
        })
    }
}

fn call_json(call: &Call) -> Value {
    let mut value = Map::new();
    for (name, spread) in
        [("mean_ns", call.mean_ns), ("p50_ns", call.p50_ns), ("p99_ns", call.p99_ns)]
    {
        Spread::insert(Some(spread), name, &mut value);
    }
    value.insert("figure".into(), call.figure.into());
    value.insert("call".into(), call.call.into());
    value.insert("policy".into(), call.policy.name().into());
    value.insert("contended".into(), call.contended.into());
    value.insert("switches_per_op".into(), call.switches_per_op.median.into());
    Value::Object(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(p50_ns: f64, max_ns: f64) -> Sample {
        Sample {
            p50_ns,
            p99_ns: 2.0 * p50_ns,
            p999_ns: 3.0 * p50_ns,
            max_ns,
            waits: 2000,
            ops_per_s: 1e9 / p50_ns,
            switches: 7,
            switches_per_op: 0.5,
        }
    }

    #[test]
    fn longest_wait_is_that_of_all_repetitions_and_the_rest_are_medians() {
        let runs = vec![sample(10.0, 90.0), sample(30.0, 500.0), sample(20.0, 100.0)];
        let (lock, policy) = ("mutex", Policy::Fair);
        let row = Row { lock, policy, threads: 4, fifo: false, runs, guard: None };
        let value = row.json(2);
        assert_eq!((&value["p50_ns"], &value["p99_ns"]), (&json!(20.0), &json!(40.0)));
        assert_eq!((&value["p50_min_ns"], &value["p50_max_ns"]), (&json!(10.0), &json!(30.0)));
        assert_eq!(value["max_wait_ns"], 500.0);
        assert_eq!(value["max_wait_median_ns"], 100.0);
        assert_eq!((&value["waits"], &value["oversubscribed"]), (&json!(6000), &json!(true)));
        assert_eq!(value["p999_is_longest"], false);
    }

    #[test]
    fn throughput_is_of_the_measured_time() {
        let output = "fifo 0\nclock_ns 1\nmeasured_ns 500\nswitches 3\n\
            locked_total 2 30 20 4\nlocked 10 1\nlocked 20 1\nread_locked_total 0 0 0 2\n";
        let reading = Reading::parse(output).unwrap();
        let sample = Sample::of(&reading, "locked").unwrap();
        assert_eq!((sample.ops_per_s, sample.switches_per_op), (8e6, 0.5));
        assert_eq!((sample.p50_ns, sample.max_ns), (10.0, 20.0));
        assert_eq!(Sample::of(&reading, "read_locked"), None);
    }
}

//! Results of the runs, as medians with their spread, and as JSON.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stats::{ascending, nearest_rank};

use super::program::{Measure, Plan};
use super::variant::{Run, Variant};

/// All runs of one plan, by variant, in the order of the repetitions.
pub(super) struct Table {
    pub plan: Plan,
    runs: BTreeMap<Variant, Vec<Run>>,
}

/// The median and the limits of a number over the repetitions.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub(super) struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    /// `None` of no numbers.
    pub(super) fn of(numbers: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let sorted = ascending(&numbers.into_iter().collect::<Vec<f64>>());
        let rank = |permille| nearest_rank(&sorted, permille);
        Some(Spread { median: rank(500)?, min: *sorted.first()?, max: *sorted.last()? })
    }
}

/// Results of the runs of one variant.
pub(super) struct Row {
    pub variant: Variant,
    /// Nanoseconds of a round.
    pub round_ns: Spread,
    /// Nanoseconds that the recorder adds to a round.
    pub added_ns: Spread,
    /// Records of a round; `None` without a recorder.
    pub records: Option<f64>,
    /// Records that were lost in all repetitions together.
    pub lost: u64,
    /// Voluntary context switches in 100,000 rounds.
    pub switches: Spread,
    /// True if the measured threads had their real-time priority each time.
    pub fifo: bool,
    pub repetitions: usize,
}

impl Row {
    /// Returns the time that the recorder adds to a call, in nanoseconds.
    pub(super) fn added_per_call(&self, plan: &Plan) -> Spread {
        self.added_ns.over(plan.measure.calls() as f64)
    }

    /// Returns the time that the recorder adds for each of its records; `None` if it makes none.
    pub(super) fn added_per_record(&self) -> Option<Spread> {
        self.records.filter(|records| *records > 0.0).map(|records| self.added_ns.over(records))
    }
}

impl Spread {
    fn over(self, divisor: f64) -> Spread {
        let Spread { median, min, max } = self;
        Spread { median: median / divisor, min: min / divisor, max: max / divisor }
    }

    /// Inserts the median as `name`, and the limits as `name_min` and `name_max`; the unit `_ns` stays
    /// the last part of each. They are null where there are no numbers.
    pub(super) fn insert(spread: Option<Spread>, name: &str, into: &mut Map<String, Value>) {
        let (stem, unit) = name.strip_suffix("_ns").map_or((name, ""), |stem| (stem, "_ns"));
        into.insert(name.to_owned(), json!(spread.map(|spread| spread.median)));
        into.insert(format!("{stem}_min{unit}"), json!(spread.map(|spread| spread.min)));
        into.insert(format!("{stem}_max{unit}"), json!(spread.map(|spread| spread.max)));
    }
}

impl Table {
    /// Table without runs.
    pub(super) fn new(plan: Plan) -> Table {
        Table { plan, runs: BTreeMap::new() }
    }

    /// Adds the next run of a variant.
    pub(super) fn push(&mut self, variant: Variant, run: Run) {
        self.runs.entry(variant).or_default().push(run);
    }

    /// Forgets a variant.
    pub(super) fn remove(&mut self, variant: Variant) {
        self.runs.remove(&variant);
    }

    /// Returns the nanoseconds that a variant adds to a round, in each repetition.
    fn added_ns(&self, variant: Variant) -> Vec<f64> {
        let runs = |variant| self.runs.get(&variant).into_iter().flatten();
        let pairs = runs(variant).zip(runs(Variant::Bare));
        pairs.map(|(run, bare)| run.reading.round_ns - bare.reading.round_ns).collect()
    }

    /// A row of each variant, in order.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.runs.keys().filter_map(|variant| self.row(*variant)).collect()
    }

    fn row(&self, variant: Variant) -> Option<Row> {
        let runs = self.runs.get(&variant)?;
        let rounds = self.plan.all_rounds() as f64;
        let spread = |of: &dyn Fn(&Run) -> f64| Spread::of(runs.iter().map(of));
        let records = runs.iter().filter_map(|run| run.records);
        Some(Row {
            variant,
            round_ns: spread(&|run| run.reading.round_ns)?,
            added_ns: Spread::of(self.added_ns(variant))?,
            records: Spread::of(records.clone().map(|records| records.per_round))
                .map(|spread| spread.median),
            lost: records.map(|records| records.lost).sum(),
            switches: spread(&|run| run.reading.switches as f64 / rounds * 1e5)?,
            fifo: runs.iter().all(|run| run.reading.fifo),
            repetitions: runs.len(),
        })
    }

    /// Returns the time that a variant adds for each of its records, as a multiple of that of full
    /// recording, in each repetition; `None` if one of them has no records.
    pub(super) fn ratio(&self, variant: Variant) -> Option<Spread> {
        let records = |variant| self.row(variant)?.records.filter(|records| *records > 0.0);
        let (other, full) = (records(variant)?, records(Variant::Full)?);
        let pairs = self.added_ns(variant).into_iter().zip(self.added_ns(Variant::Full));
        Spread::of(pairs.map(|(added, full_added)| added / other / (full_added / full)))
    }
}

/// All results.
pub(super) struct Findings {
    pub pairs: Table,
    pub reads: Option<Table>,
    pub rivals: Option<Table>,
    pub left_out: BTreeMap<Variant, String>,
}

impl Findings {
    /// Report as JSON.
    pub(super) fn json(&self) -> Value {
        let plan = &self.pairs.plan;
        let (first_touch, variants): (Vec<Row>, Vec<Row>) =
            self.pairs.rows().into_iter().partition(|row| row.variant == Variant::FirstTouch);
        let left_out = self.left_out.iter();
        let left_out: BTreeMap<&str, &String> =
            left_out.map(|(variant, reason)| (variant.name(), reason)).collect();
        let fifo = variants.iter().all(|row| row.fifo);
        let repetitions = variants.first().map_or(0, |row| row.repetitions);
        let mut value = json!({
            "command": terminal::command_line::this_command(),
            "variants": named(&variants, plan, "pair"),
            "left_out": left_out,
            "first_touch": first_touch.first().map(|row| row_json(row, plan, "pair")),
            "times_full": ratios(&self.pairs),
            "repetitions": repetitions,
            "pairs": plan.all_rounds(),
            "batches": plan.batches,
            "core": plan.core,
            "fifo": fifo,
            "machine": realtime::machine::core_model(),
            "cores": realtime::machine::online_cores().len(),
            "virtual": realtime::machine::is_virtual(),
            "kernel": realtime::machine::kernel_release(),
        });
        for (key, table) in [("nested_reads", &self.reads), ("two_threads", &self.rivals)] {
            if let Some(table) = table {
                value[key] = table_json(table);
            }
        }
        value
    }
}

fn table_json(table: &Table) -> Value {
    let round = match table.plan.measure {
        Measure::Mutex => "pair",
        Measure::NestedReads => "iteration",
        Measure::Two { .. } => "acquisition",
    };
    let mut value = json!({ "variants": named(&table.rows(), &table.plan, round) });
    value[format!("{round}s")] = table.plan.all_rounds().into();
    if let Measure::Two { held_ns, outside_ns, .. } = table.plan.measure {
        value["held_ns"] = held_ns.into();
        value["outside_ns"] = outside_ns.into();
    }
    value
}

fn named(rows: &[Row], plan: &Plan, round: &str) -> Value {
    let entry = |row: &Row| (row.variant.name().to_owned(), row_json(row, plan, round));
    Value::Object(rows.iter().map(entry).collect())
}

fn ratios(table: &Table) -> Value {
    let entry = |variant: Variant| Some((variant.name().to_owned(), json!(table.ratio(variant)?)));
    Value::Object([Variant::Lttng, Variant::Uftrace].into_iter().filter_map(entry).collect())
}

fn row_json(row: &Row, plan: &Plan, round: &str) -> Value {
    let mut value = Map::new();
    let mut put = |name: &str, spread| Spread::insert(spread, name, &mut value);
    put(&format!("{round}_ns"), Some(row.round_ns));
    put("added_per_call_ns", Some(row.added_per_call(plan)));
    put("added_per_record_ns", row.added_per_record());
    if matches!(plan.measure, Measure::Two { .. }) {
        put("voluntary_switches_per_100k", Some(row.switches));
    }
    value.insert(format!("records_per_{round}"), json!(row.records));
    value.insert("record_is".into(), row.variant.record().into());
    value.insert("lost".into(), row.lost.into());
    value.insert("repetitions".into(), row.repetitions.into());
    Value::Object(value)
}

#[cfg(test)]
mod tests {
    use super::super::program::Reading;
    use super::super::variant::Records;
    use super::*;

    const PLAN: Plan =
        Plan { measure: Measure::Mutex, core: 0, priority: 0, batches: 2, rounds: 50 };

    fn run(round_ns: f64, records: Option<f64>) -> Run {
        let records = records.map(|per_round| Records { per_round, lost: 1 });
        Run { reading: Reading { round_ns, lock: 1, fifo: true, switches: 1 }, records }
    }

    fn table() -> Table {
        let mut table = Table::new(PLAN);
        for (bare, full, lttng) in [(10.0, 40.0, 300.0), (20.0, 40.0, 380.0), (20.0, 60.0, 500.0)] {
            table.push(Variant::Bare, run(bare, None));
            table.push(Variant::Full, run(full, Some(2.0)));
            table.push(Variant::Contended, run(bare + 4.0, Some(0.0)));
            table.push(Variant::Lttng, run(lttng, Some(3.0)));
        }
        table
    }

    #[test]
    fn cost_is_the_difference_within_a_repetition() {
        let table = table();
        let full = table.row(Variant::Full).unwrap();
        assert_eq!(full.added_ns, Spread { median: 30.0, min: 20.0, max: 40.0 });
        assert_eq!(full.added_per_call(&PLAN).median, 15.0);
        assert_eq!(full.added_per_record().unwrap().median, 15.0);
        assert_eq!((full.lost, full.repetitions), (3, 3));
        let contended = table.row(Variant::Contended).unwrap();
        assert_eq!(contended.added_per_call(&PLAN), Spread { median: 2.0, min: 2.0, max: 2.0 });
        assert_eq!(contended.added_per_record(), None);
    }

    #[test]
    fn ratio_is_taken_within_a_repetition() {
        // Per record: 290/3, 360/3 and 480/3, against 15, 10 and 20.
        let ratio = table().ratio(Variant::Lttng).unwrap();
        assert_eq!(ratio.max, 12.0);
        assert!((ratio.min - 290.0 / 45.0).abs() < 1e-9 && (ratio.median - 8.0).abs() < 1e-9);
        assert_eq!(table().ratio(Variant::Uftrace), None);
        assert_eq!(table().ratio(Variant::Contended), None);
    }

    #[test]
    fn bare_adds_nothing_and_has_no_records() {
        let bare = table().row(Variant::Bare).unwrap();
        assert_eq!(bare.added_ns, Spread { median: 0.0, min: 0.0, max: 0.0 });
        assert_eq!((bare.records, bare.added_per_record()), (None, None));
    }

    #[test]
    fn left_out_variant_has_a_reason_and_no_numbers() {
        let mut pairs = table();
        pairs.remove(Variant::Lttng);
        let left_out = BTreeMap::from([(Variant::Lttng, "not installed".to_owned())]);
        let findings = Findings { pairs, reads: None, rivals: None, left_out };
        let value = findings.json();
        assert_eq!(value["left_out"], json!({"lttng": "not installed"}));
        assert_eq!(value["variants"]["lttng"], Value::Null);
        assert_eq!(value["variants"]["full"]["added_per_record_ns"], 15.0);
        assert_eq!(value["variants"]["contended"]["added_per_record_ns"], Value::Null);
        assert_eq!(value["times_full"], json!({}));
        assert_eq!(value["nested_reads"], Value::Null);
    }
}

//! The drives of a study as Parquet: one row for each drive, and one for each bucket of each of its
//! durations.
//!
//! Written with the column interface of the library, which needs no Arrow. Columns are those of
//! [`Row`], by name; those of a collision begin with `hit_`, of a reaction with `reaction_`.

use crate::{Call, Error, Frame, MODULES, Row, TIMES, times};
use driving::Cause;
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// A column: its name, and a row's value in it.
enum Column {
    Text(&'static str, fn(&Row) -> Option<String>),
    Number(&'static str, fn(&Row) -> Option<f64>),
    Count(&'static str, fn(&Row) -> Option<u64>),
    Flag(&'static str, fn(&Row) -> Option<bool>),
}

/// The columns of a drive, in their order. Any may be empty.
const COLUMNS: &[Column] = &[
    Column::Text("suite", |row| Some(row.key.suite.name().to_owned())),
    Column::Count("index", |row| Some(row.key.index as u64)),
    Column::Text("stack", |row| Some(row.key.stack.clone())),
    Column::Text("policy", |row| Some(row.key.policy.clone())),
    Column::Text("clock", |row| Some(row.key.clock.name().to_owned())),
    Column::Count("repeat", |row| Some(row.key.repeat.into())),
    Column::Text("scenario", |row| Some(row.scenario.clone())),
    Column::Number("critical_s", |row| row.critical_s),
    Column::Number("driven_s", |row| Some(row.driven_s)),
    Column::Flag("collided", |row| Some(row.collision.is_some())),
    Column::Number("hit_at_s", |row| Some(row.collision.as_ref()?.at_s)),
    Column::Text("hit_kind", |row| Some(row.collision.as_ref()?.kind.clone())),
    Column::Flag("hit_hazard", |row| Some(row.collision.as_ref()?.hazard)),
    Column::Text("hit_side", |row| Some(row.collision.as_ref()?.side.clone())),
    Column::Number("hit_ego_speed", |row| Some(row.collision.as_ref()?.ego_speed)),
    Column::Number("hit_other_speed", |row| Some(row.collision.as_ref()?.other_speed)),
    Column::Number("hit_braked", |row| Some(row.collision.as_ref()?.braked)),
    Column::Flag("hit_from_behind", |row| Some(row.collision.as_ref()?.from_behind())),
    Column::Number("violation_s", |row| Some(row.violation_s)),
    Column::Count("violations", |row| Some(row.violations as u64)),
    Column::Number("violation_start_s", |row| by(row, Cause::Start)),
    Column::Number("violation_follows_s", |row| by(row, Cause::Follows)),
    Column::Number("violation_stands_s", |row| by(row, Cause::Stands)),
    Column::Number("violation_cut_in_s", |row| by(row, Cause::CutIn)),
    Column::Number("violation_changes_lanes_s", |row| by(row, Cause::ChangesLanes)),
    Column::Number("violation_crosses_s", |row| by(row, Cause::Crosses)),
    Column::Number("violation_oncoming_s", |row| by(row, Cause::Oncoming)),
    Column::Number("violation_meets_s", |row| by(row, Cause::Meets)),
    Column::Number("violation_bare_s", |row| by(row, Cause::Bare)),
    Column::Number("violation_aggressive_s", |row| Some(row.violation_aggressive_s)),
    Column::Number("progress_m", |row| Some(row.progress_m)),
    Column::Number("arrived_s", |row| row.arrived_s),
    Column::Count("reaction_sensor_ns", |row| Some(row.reaction?.sensor_ns)),
    Column::Count("reaction_confirm_ns", |row| Some(row.reaction?.confirm_ns)),
    Column::Count("reaction_module_ns", |row| Some(row.reaction?.module_ns)),
    Column::Count("reaction_bubble_ns", |row| Some(row.reaction?.bubble_ns)),
    Column::Count("unanswered", |row| Some(row.unanswered as u64)),
    Column::Count("late", |row| Some(row.late as u64)),
    Column::Count("late_fast", |row| Some(row.late_fast as u64)),
    Column::Count("late_perception", |row| Some(row.late_perception as u64)),
    Column::Number("busy_s", |row| Some(row.busy_s)),
    Column::Count("cores", |row| Some(row.cores as u64)),
    Column::Count("guests", |row| Some(row.guests)),
    Column::Count("host_violations", |row| Some(row.host_violations)),
    Column::Number("host_delay_s", |row| Some(row.host_delay_s)),
    Column::Count("late_frames", |row| Some(row.late_frames as u64)),
    Column::Count("chunks_observed", |row| Some(row.chunks_observed)),
    Column::Count("chunks_missing", |row| Some(row.chunks_missing)),
    Column::Number("took_s", |row| Some(row.took_s)),
    Column::Number("sends_s", |row| Some(row.sends_s)),
    Column::Number("sends_busy_s", |row| Some(row.sends_busy_s)),
];

/// For how long somebody was too near by this cause, s.
fn by(row: &Row, cause: Cause) -> Option<f64> {
    Some(row.violation_by.get(cause.name()).copied().unwrap_or(0.0))
}

/// One row for each drive, as the bytes of a Parquet file. Beside [`Row`]'s columns there are, for
/// each of its durations, `NAME_count`, `NAME_mean_ms`, `NAME_p50_ms`, `NAME_p99_ms` and
/// `NAME_max_ms`.
///
/// # Errors
/// [`Error::Parquet`], which does not depend on the drives.
pub fn drives(rows: &[&Row]) -> Result<Vec<u8>, Error> {
    let mut schema = String::new();
    for column in COLUMNS {
        schema += &match column {
            Column::Text(name, _) => format!("optional binary {name} (STRING); "),
            Column::Number(name, _) => format!("optional double {name}; "),
            Column::Count(name, _) => format!("optional int64 {name}; "),
            Column::Flag(name, _) => format!("optional boolean {name}; "),
        };
    }
    for (name, _) in TIMES {
        schema += &format!("optional int64 {name}_count; ");
        for number in ["mean", "p50", "p99", "max"] {
            schema += &format!("optional double {name}_{number}_ms; ");
        }
    }
    let mut file = Table::new(&schema)?;
    let mut group = file.0.next_row_group()?;
    let mut put = Put(&mut group);
    for column in COLUMNS {
        match column {
            Column::Text(_, of) => put.all::<ByteArrayType>(
                rows.iter().map(|row| of(row).map(|text| ByteArray::from(text.as_str()))),
            )?,
            Column::Number(_, of) => put.all::<DoubleType>(rows.iter().map(|row| of(row)))?,
            Column::Count(_, of) => {
                put.all::<Int64Type>(rows.iter().map(|row| of(row).map(|count| count as i64)))?;
            }
            Column::Flag(_, of) => put.all::<BoolType>(rows.iter().map(|row| of(row)))?,
        }
    }
    for (name, _) in TIMES {
        let all: Vec<_> = rows.iter().map(|row| row.times(name)).collect();
        put.all::<Int64Type>(all.iter().map(|times| Some(times.count() as i64)))?;
        put.all::<DoubleType>(all.iter().map(|times| times.mean_ms()))?;
        put.all::<DoubleType>(all.iter().map(|times| times.quantile_ms(0.5)))?;
        put.all::<DoubleType>(all.iter().map(|times| times.quantile_ms(0.99)))?;
        put.all::<DoubleType>(all.iter().map(|times| times.max_ms()))?;
    }
    group.close()?;
    Ok(file.0.into_inner()?)
}

/// One row for each bucket of each of a drive's durations, as the bytes of a Parquet file: the
/// longest duration of the bucket, and how many fell into it.
///
/// # Errors
/// [`Error::Parquet`], which does not depend on the drives.
pub fn buckets(rows: &[&Row]) -> Result<Vec<u8>, Error> {
    const SCHEMA: &str = "optional binary suite (STRING); optional int64 index; \
        optional binary stack (STRING); optional binary policy (STRING); \
        optional binary clock (STRING); optional binary of (STRING); optional double up_to_ms; optional int64 count;";
    let cells: Vec<(&Row, &String, u32, u64)> = rows
        .iter()
        .flat_map(|row| row.times.iter().map(move |(name, times)| (*row, name, times)))
        .flat_map(|(row, name, times)| {
            times.buckets.iter().map(move |(bucket, count)| (row, name, *bucket, *count))
        })
        .collect();
    let mut file = Table::new(SCHEMA)?;
    let mut group = file.0.next_row_group()?;
    let mut put = Put(&mut group);
    let text = |text: &str| Some(ByteArray::from(text));
    put.all::<ByteArrayType>(cells.iter().map(|cell| text(cell.0.key.suite.name())))?;
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.0.key.index as i64)))?;
    put.all::<ByteArrayType>(cells.iter().map(|cell| text(&cell.0.key.stack)))?;
    put.all::<ByteArrayType>(cells.iter().map(|cell| text(&cell.0.key.policy)))?;
    put.all::<ByteArrayType>(cells.iter().map(|cell| text(cell.0.key.clock.name())))?;
    put.all::<ByteArrayType>(cells.iter().map(|cell| text(cell.1)))?;
    put.all::<DoubleType>(cells.iter().map(|cell| Some(times::upper_ns(cell.2) as f64 / 1e6)))?;
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.3 as i64)))?;
    group.close()?;
    Ok(file.0.into_inner()?)
}

/// One row for each frame of the drives that were characterised, as the bytes of a Parquet file.
///
/// # Errors
/// [`Error::Parquet`], which does not depend on the drives.
pub fn frames(rows: &[&Row]) -> Result<Vec<u8>, Error> {
    let mut schema = "optional int64 index; optional binary stack (STRING); \
        optional int64 frame; optional int64 vehicles; optional int64 objects; \
        optional int64 latency_us; "
        .to_owned();
    MODULES.iter().for_each(|module| schema += &format!("optional int64 {module}_us; "));
    let of = |row| move |frame| (row, frame);
    let cells: Vec<(&Row, &Frame)> =
        rows.iter().flat_map(|row| row.frames.iter().map(of(*row))).collect();
    let mut file = Table::new(&schema)?;
    let mut group = file.0.next_row_group()?;
    let mut put = Put(&mut group);
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.0.key.index as i64)))?;
    let stack = |row: &Row| Some(ByteArray::from(row.key.stack.as_str()));
    put.all::<ByteArrayType>(cells.iter().map(|cell| stack(cell.0)))?;
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.1.number as i64)))?;
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.1.vehicles.into())))?;
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.1.objects.into())))?;
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.1.latency_us.into())))?;
    for place in 0..MODULES.len() {
        put.all::<Int64Type>(cells.iter().map(|cell| cell.1.modules_us[place].map(i64::from)))?;
    }
    group.close()?;
    Ok(file.0.into_inner()?)
}

/// One row for each part of a module that was computed by itself, as the bytes of a Parquet file.
///
/// # Errors
/// [`Error::Parquet`], which does not depend on the drives.
pub fn calls(rows: &[&Row]) -> Result<Vec<u8>, Error> {
    const SCHEMA: &str = "optional int64 index; optional binary part (STRING); \
        optional int64 input; optional int64 objects; optional double setting; \
        optional double swept_llc; optional double took_us;";
    let of = |row| move |call| (row, call);
    let cells: Vec<(&Row, &Call)> =
        rows.iter().flat_map(|row| row.calls.iter().map(of(*row))).collect();
    let mut file = Table::new(SCHEMA)?;
    let mut group = file.0.next_row_group()?;
    let mut put = Put(&mut group);
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.0.key.index as i64)))?;
    put.all::<ByteArrayType>(cells.iter().map(|cell| Some(ByteArray::from(cell.1.part.name()))))?;
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.1.input.into())))?;
    put.all::<Int64Type>(cells.iter().map(|cell| Some(cell.1.objects.into())))?;
    put.all::<DoubleType>(cells.iter().map(|cell| Some(cell.1.setting)))?;
    put.all::<DoubleType>(cells.iter().map(|cell| Some(cell.1.swept)))?;
    put.all::<DoubleType>(cells.iter().map(|cell| Some(cell.1.took_us)))?;
    group.close()?;
    Ok(file.0.into_inner()?)
}

struct Table(SerializedFileWriter<Vec<u8>>);

impl Table {
    fn new(columns: &str) -> Result<Table, Error> {
        let schema = Arc::new(parse_message_type(&format!("message drives {{ {columns} }}"))?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by("keeptime-lab drive study".to_owned())
            .build();
        Ok(Table(SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?))
    }
}

/// Puts the columns of a group one after the other.
struct Put<'g, 'w>(&'g mut parquet::file::writer::SerializedRowGroupWriter<'w, Vec<u8>>);

impl Put<'_, '_> {
    fn all<T: DataType>(&mut self, cells: impl Iterator<Item = Option<T::T>>) -> Result<(), Error> {
        let cells: Vec<Option<T::T>> = cells.collect();
        let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
        let values: Vec<T::T> = cells.into_iter().flatten().collect();
        if let Some(mut column) = self.0.next_column()? {
            column.typed::<T>().write_batch(&values, Some(&levels), None)?;
            column.close()?;
        }
        Ok(())
    }
}

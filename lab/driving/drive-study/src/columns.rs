//! The drives of a study as Parquet: one row for each drive, and one for each bucket of each of its
//! durations.
//!
//! Columns are those of [`Row`], by name; those of a collision begin with `hit_`, of a reaction with
//! `reaction_`.

use crate::{Call, Error, Frame, MODULES, Row, TIMES, times};
use driving::Cause;
use trial::columns::Columns;

/// The columns of a drive, in their order. Any may be empty.
fn of_drive<'r>() -> Columns<'static, &'r Row> {
    let columns = Columns::<&'r Row>::default()
        .optional("suite", |row| Some(row.key.suite.name().to_owned()))
        .optional("index", |row| Some(row.key.index as u64))
        .optional("stack", |row| Some(row.key.stack.clone()))
        .optional("policy", |row| Some(row.key.policy.clone()))
        .optional("clock", |row| Some(row.key.clock.name().to_owned()))
        .optional("repeat", |row| Some(u64::from(row.key.repeat)))
        .optional("scenario", |row| Some(row.scenario.clone()))
        .optional("critical_s", |row| row.critical_s)
        .optional("driven_s", |row| Some(row.driven_s))
        .optional("collided", |row| Some(row.collision.is_some()))
        .optional("hit_at_s", |row| Some(row.collision.as_ref()?.at_s))
        .optional("hit_kind", |row| Some(row.collision.as_ref()?.kind.clone()))
        .optional("hit_hazard", |row| Some(row.collision.as_ref()?.hazard))
        .optional("hit_side", |row| Some(row.collision.as_ref()?.side.clone()))
        .optional("hit_ego_speed", |row| Some(row.collision.as_ref()?.ego_speed))
        .optional("hit_other_speed", |row| Some(row.collision.as_ref()?.other_speed))
        .optional("hit_braked", |row| Some(row.collision.as_ref()?.braked))
        .optional("hit_from_behind", |row| Some(row.collision.as_ref()?.from_behind()))
        .optional("violation_s", |row| Some(row.violation_s))
        .optional("violations", |row| Some(row.violations as u64))
        .optional("violation_start_s", |row| by(row, Cause::Start))
        .optional("violation_follows_s", |row| by(row, Cause::Follows))
        .optional("violation_stands_s", |row| by(row, Cause::Stands))
        .optional("violation_cut_in_s", |row| by(row, Cause::CutIn))
        .optional("violation_changes_lanes_s", |row| by(row, Cause::ChangesLanes))
        .optional("violation_crosses_s", |row| by(row, Cause::Crosses))
        .optional("violation_oncoming_s", |row| by(row, Cause::Oncoming))
        .optional("violation_meets_s", |row| by(row, Cause::Meets))
        .optional("violation_bare_s", |row| by(row, Cause::Bare))
        .optional("violation_aggressive_s", |row| Some(row.violation_aggressive_s))
        .optional("progress_m", |row| Some(row.progress_m))
        .optional("arrived_s", |row| row.arrived_s)
        .optional("reaction_sensor_ns", |row| Some(row.reaction?.sensor_ns))
        .optional("reaction_confirm_ns", |row| Some(row.reaction?.confirm_ns))
        .optional("reaction_module_ns", |row| Some(row.reaction?.module_ns))
        .optional("reaction_bubble_ns", |row| Some(row.reaction?.bubble_ns))
        .optional("unanswered", |row| Some(row.unanswered as u64))
        .optional("late", |row| Some(row.late as u64))
        .optional("late_fast", |row| Some(row.late_fast as u64))
        .optional("late_perception", |row| Some(row.late_perception as u64))
        .optional("busy_s", |row| Some(row.busy_s))
        .optional("cores", |row| Some(row.cores as u64))
        .optional("guests", |row| Some(row.guests))
        .optional("host_violations", |row| Some(row.host_violations))
        .optional("host_delay_s", |row| Some(row.host_delay_s))
        .optional("late_frames", |row| Some(row.late_frames as u64))
        .optional("chunks_observed", |row| Some(row.chunks_observed))
        .optional("chunks_missing", |row| Some(row.chunks_missing))
        .optional("took_s", |row| Some(row.took_s))
        .optional("sends_s", |row| Some(row.sends_s))
        .optional("sends_busy_s", |row| Some(row.sends_busy_s));
    TIMES.into_iter().fold(columns, |columns, (name, _)| {
        columns
            .optional(&format!("{name}_count"), move |row| Some(row.times(name).count()))
            .optional(&format!("{name}_mean_ms"), move |row| row.times(name).mean_ms())
            .optional(&format!("{name}_p50_ms"), move |row| row.times(name).quantile_ms(0.5))
            .optional(&format!("{name}_p99_ms"), move |row| row.times(name).quantile_ms(0.99))
            .optional(&format!("{name}_max_ms"), move |row| row.times(name).max_ms())
    })
}

/// Time for which another was too near by this cause, s.
fn by(row: &Row, cause: Cause) -> Option<f64> {
    Some(row.violation_by.get(cause.name()).copied().unwrap_or(0.0))
}

/// The bytes of a Parquet file with these columns.
fn write<R>(columns: &Columns<'_, R>, rows: &[R]) -> Result<Vec<u8>, Error> {
    Ok(columns.write("drives", "keeptime-lab drive study", rows)?)
}

/// One row for each drive, as the bytes of a Parquet file. Beside [`Row`]'s columns there are, for
/// each of its durations, `NAME_count`, `NAME_mean_ms`, `NAME_p50_ms`, `NAME_p99_ms` and
/// `NAME_max_ms`.
///
/// # Errors
/// [`Error::Parquet`], which does not depend on the drives.
pub fn drives(rows: &[&Row]) -> Result<Vec<u8>, Error> {
    write(&of_drive(), rows)
}

/// One row for each bucket of each of a drive's durations, as the bytes of a Parquet file: the
/// longest duration of the bucket, and how many fell into it.
///
/// # Errors
/// [`Error::Parquet`], which does not depend on the drives.
pub fn buckets(rows: &[&Row]) -> Result<Vec<u8>, Error> {
    let cells: Vec<(&Row, &str, u32, u64)> = rows
        .iter()
        .flat_map(|row| row.times.iter().map(move |(name, times)| (*row, name.as_str(), times)))
        .flat_map(|(row, name, times)| {
            times.buckets.iter().map(move |(bucket, count)| (row, name, *bucket, *count))
        })
        .collect();
    let columns = Columns::<(&Row, &str, u32, u64)>::default()
        .optional("suite", |(row, ..)| text(row.key.suite.name()))
        .optional("index", |(row, ..)| Some(row.key.index as u64))
        .optional("stack", |(row, ..)| text(&row.key.stack))
        .optional("policy", |(row, ..)| text(&row.key.policy))
        .optional("clock", |(row, ..)| text(row.key.clock.name()))
        .optional("of", |(_, name, ..)| text(name))
        .optional("up_to_ms", |(.., bucket, _)| Some(times::upper_ns(*bucket) as f64 / 1e6))
        .optional("count", |(.., count)| Some(*count));
    write(&columns, &cells)
}

/// One row for each frame of the drives that were characterised, as the bytes of a Parquet file.
///
/// # Errors
/// [`Error::Parquet`], which does not depend on the drives.
pub fn frames(rows: &[&Row]) -> Result<Vec<u8>, Error> {
    let cells: Vec<(&Row, &Frame)> =
        rows.iter().flat_map(|row| row.frames.iter().map(move |frame| (*row, frame))).collect();
    let columns = Columns::<(&Row, &Frame)>::default()
        .optional("index", |(row, _)| Some(row.key.index as u64))
        .optional("stack", |(row, _)| text(&row.key.stack))
        .optional("frame", |(_, frame)| Some(frame.number))
        .optional("vehicles", |(_, frame)| Some(u64::from(frame.vehicles)))
        .optional("objects", |(_, frame)| Some(u64::from(frame.objects)))
        .optional("latency_us", |(_, frame)| Some(u64::from(frame.latency_us)));
    let columns = MODULES.iter().enumerate().fold(columns, |columns, (place, module)| {
        columns.optional(&format!("{module}_us"), move |(_, frame)| {
            frame.modules_us[place].map(u64::from)
        })
    });
    write(&columns, &cells)
}

/// One row for each part of a module that was computed by itself, as the bytes of a Parquet file.
///
/// # Errors
/// [`Error::Parquet`], which does not depend on the drives.
pub fn calls(rows: &[&Row]) -> Result<Vec<u8>, Error> {
    let cells: Vec<(&Row, &Call)> =
        rows.iter().flat_map(|row| row.calls.iter().map(move |call| (*row, call))).collect();
    let columns = Columns::<(&Row, &Call)>::default()
        .optional("index", |(row, _)| Some(row.key.index as u64))
        .optional("part", |(_, call)| text(call.part.name()))
        .optional("input", |(_, call)| Some(u64::from(call.input)))
        .optional("objects", |(_, call)| Some(u64::from(call.objects)))
        .optional("setting", |(_, call)| Some(call.setting))
        .optional("swept_llc", |(_, call)| Some(call.swept))
        .optional("took_us", |(_, call)| Some(call.took_us));
    write(&columns, &cells)
}

fn text(text: &str) -> Option<String> {
    Some(text.to_owned())
}

//! The results of a study as Parquet: one row for each point, set and method.
//!
//! Rows are in order of point, set and method.
//!
//! | column | type | what |
//! |---|---|---|
//! | experiment | string | the experiment |
//! | seed | int64 | where random numbers began |
//! | point | int64 | number of the point, from which its sets are drawn |
//! | chains | int32 | chains of each set |
//! | utilisation_percent | int32 | utilisation, as the experiment understands it |
//! | accelerator_percent | double | accelerator time in percent of all time |
//! | set | int64 | number of the set |
//! | variant | string | the method |
//! | schedulable | boolean | whether every chain keeps its deadline |
//! | chains_ok | int32 | how many chains do |
//! | worst_slack_ns | int64, optional | least distance of a response time to its deadline |
//! | worst_slack | double, optional | the least such distance as a share of the deadline |
//! | scale | double, optional | the largest scale at which the set is schedulable |

use std::fs::File;

use anyhow::{Context, ensure};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use trial::columns::{Columns, Unsigned};

use super::experiment::Study;

/// Name of the schema.
const SCHEMA: &str = "study";

/// Verdict of one method on one set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Row {
    /// Index into [`Study::points`].
    pub point: usize,
    /// The set.
    pub set: u64,
    /// Index into [`Study::methods`].
    pub method: usize,
    /// True if every chain that counts keeps its deadline.
    pub schedulable: bool,
    /// Number of chains that keep their deadline.
    pub chains_ok: u32,
    /// Least distance of a response time to its deadline; none where a chain has no response time.
    pub worst_slack_ns: Option<i64>,
    /// Least such distance as a share of the deadline.
    pub worst_slack: Option<f64>,
    /// The largest scale at which the set is schedulable.
    pub scale: Option<f64>,
}

impl Row {
    /// The place of the row among all.
    pub(super) fn key(&self) -> (usize, u64, usize) {
        (self.point, self.set, self.method)
    }
}

/// The columns.
fn columns(study: &Study) -> Columns<'_, Row> {
    let point = move |row: &Row| &study.points[row.point];
    Columns::<Row>::default()
        .required("experiment", move |_| study.experiment.name().to_owned())
        .required("seed", move |_| Unsigned(study.seed))
        .required("point", move |row| point(row).number)
        .required("chains", move |row| point(row).chains as i32)
        .required("utilisation_percent", move |row| point(row).utilisation_percent as i32)
        .required("accelerator_percent", move |row| point(row).accelerator_percent)
        .required("set", |row| row.set)
        .required("variant", move |row| study.methods[row.method].clone())
        .required("schedulable", |row| row.schedulable)
        .required("chains_ok", |row| row.chains_ok as i32)
        .optional("worst_slack_ns", |row| row.worst_slack_ns)
        .optional("worst_slack", |row| row.worst_slack)
        .optional("scale", |row| row.scale)
}

/// The bytes of a Parquet file with these rows.
pub(super) fn write(study: &Study, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    Ok(columns(study).write(SCHEMA, "keeptime-lab study", rows)?)
}

/// The rows of a Parquet file of this study, in the order of the file.
///
/// # Errors
/// Says what is wrong with the file.
pub(super) fn read(study: &Study, file: File) -> anyhow::Result<Vec<Row>> {
    let file = SerializedFileReader::new(file)?;
    let expected = columns(study).schema(SCHEMA)?;
    let found = file.metadata().file_metadata().schema();
    ensure!(*found == expected, "found other columns than those of a study");
    file.get_row_iter(None)?.map(|row| read_row(study, &row?)).collect()
}

fn read_row(study: &Study, row: &parquet::record::Row) -> anyhow::Result<Row> {
    let (number, variant) = (row.get_long(2)? as u64, row.get_string(7)?);
    Ok(Row {
        point: (study.points.iter().position(|point| point.number == number))
            .with_context(|| format!("found point {number}, expected one of the manifest"))?,
        set: row.get_long(6)? as u64,
        method: (study.methods.iter().position(|method| method == variant))
            .with_context(|| format!("found variant {variant}, expected one of the manifest"))?,
        schedulable: row.get_bool(8)?,
        chains_ok: row.get_int(9)? as u32,
        // An error is an empty cell: the columns are those of the schema.
        worst_slack_ns: row.get_long(10).ok(),
        worst_slack: row.get_double(11).ok(),
        scale: row.get_double(12).ok(),
    })
}

//! All samples as Parquet: one row for each repetition, in the order in which they were taken.
//!
//! | column | type | what |
//! |---|---|---|
//! | accelerator | string | the name in options, as in `cuda:0` |
//! | device | string | the device's own name |
//! | method | string | how it was submitted |
//! | k | int32 | width: matrices have sides of 16 k |
//! | l | int32 | layers |
//! | kernels | int32 | kernels of all layers |
//! | repetition | int32 | number of the repetition in its case, from 0, warm-up included |
//! | warm_up | boolean | whether it does not count |
//! | submission_ns | int64 | until all was handed over |
//! | completion_ns | int64 | until the outputs were there, from the same beginning |

use super::Error;
use crate::measure::Sample;
use crate::study::{Case, Study};
use trial::columns::Columns;

/// A repetition of a case.
struct Row<'s> {
    case: &'s Case,
    repetition: usize,
    sample: &'s Sample,
}

fn rows_of(case: &Case) -> impl Iterator<Item = Row<'_>> {
    let samples = case.samples.iter().enumerate();
    samples.map(move |(repetition, sample)| Row { case, repetition, sample })
}

/// The bytes of a Parquet file with all samples.
pub(super) fn write(study: &Study) -> Result<Vec<u8>, Error> {
    let about = |row: &Row<'_>| &study.accelerators[row.case.accelerator];
    let columns = Columns::<Row<'_>>::default()
        .required("accelerator", move |row| about(row).id.clone())
        .required("device", move |row| about(row).name.clone())
        .required("method", |row| row.case.method.name().to_owned())
        .required("k", |row| row.case.shape.k as i32)
        .required("l", |row| row.case.shape.l as i32)
        .required("kernels", |row| row.case.shape.kernels() as i32)
        .required("repetition", |row| row.repetition as i32)
        .required("warm_up", |row| row.sample.warm_up)
        .required("submission_ns", |row| row.sample.submission_ns)
        .required("completion_ns", |row| row.sample.completion_ns);
    let rows: Vec<Row<'_>> = study.cases.iter().flat_map(rows_of).collect();
    Ok(columns.write("samples", "keeptime submission", &rows)?)
}

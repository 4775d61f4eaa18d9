//! All samples as Parquet: one row for each repetition, in the order in which they were taken.
//!
//! The file is written with the column interface of the library, which needs no Arrow. Nothing in
//! it depends on when or where it was made, other than the times.
//!
//! | column | type | what |
//! |---|---|---|
//! | accelerator | string | what an option names, as in `cuda:0` |
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
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use std::sync::Arc;

/// Rows of one group, except for the last.
const GROUP: usize = 1 << 18;

const SCHEMA: &str = "
    message samples {
        required binary accelerator (STRING);
        required binary device (STRING);
        required binary method (STRING);
        required int32 k;
        required int32 l;
        required int32 kernels;
        required int32 repetition;
        required boolean warm_up;
        required int64 submission_ns;
        required int64 completion_ns;
    }
";

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
pub(super) fn write(study: &Study) -> std::result::Result<Vec<u8>, Error> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("keeptime submission".to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    let rows: Vec<Row> = study.cases.iter().flat_map(rows_of).collect();
    for rows in rows.chunks(GROUP) {
        let mut group = Group { writer: writer.next_row_group()?, rows };
        group.write(study)?;
        group.writer.close()?;
    }
    Ok(writer.into_inner()?)
}

struct Group<'w, 'r, 's> {
    writer: SerializedRowGroupWriter<'w, Vec<u8>>,
    rows: &'r [Row<'s>],
}

impl Group<'_, '_, '_> {
    /// The columns, in the order of the schema.
    fn write(&mut self, study: &Study) -> Result<()> {
        let about = |row: &Row| &study.accelerators[row.case.accelerator];
        self.column::<ByteArrayType>(|row| ByteArray::from(about(row).id.as_str()))?;
        self.column::<ByteArrayType>(|row| ByteArray::from(about(row).name.as_str()))?;
        self.column::<ByteArrayType>(|row| ByteArray::from(row.case.method.name()))?;
        self.column::<Int32Type>(|row| row.case.shape.k as i32)?;
        self.column::<Int32Type>(|row| row.case.shape.l as i32)?;
        self.column::<Int32Type>(|row| row.case.shape.kernels() as i32)?;
        self.column::<Int32Type>(|row| row.repetition as i32)?;
        self.column::<BoolType>(|row| row.sample.warm_up)?;
        self.column::<Int64Type>(|row| row.sample.submission_ns as i64)?;
        self.column::<Int64Type>(|row| row.sample.completion_ns as i64)
    }

    fn column<T: DataType>(&mut self, value: impl Fn(&Row) -> T::T) -> Result<()> {
        let values: Vec<T::T> = self.rows.iter().map(value).collect();
        let column = self.writer.next_column()?;
        let mut column =
            column.ok_or_else(|| ParquetError::General("the schema has a column less".into()))?;
        column.typed::<T>().write_batch(&values, None, None)?;
        column.close()
    }
}

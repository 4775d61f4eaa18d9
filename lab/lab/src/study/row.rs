//! The results of a study as Parquet: one row for each point, set and method.
//!
//! The file is written and read with the column interface of the library, which needs no Arrow.
//! Rows are in order of point, set and method, in groups of a fixed size, and nothing in the file
//! depends on when or where it was made, so that equal results are equal bytes.
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
use std::sync::Arc;

use anyhow::{Context, ensure};
use parquet::basic::Compression;
use parquet::column::reader::get_typed_column_reader;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use super::experiment::Study;

/// Rows of one group, except for the last.
const GROUP: usize = 1 << 18;

const SCHEMA: &str = "
    message study {
        required binary experiment (STRING);
        required int64 seed (INTEGER(64,false));
        required int64 point;
        required int32 chains;
        required int32 utilisation_percent;
        required double accelerator_percent;
        required int64 set;
        required binary variant (STRING);
        required boolean schedulable;
        required int32 chains_ok;
        optional int64 worst_slack_ns;
        optional double worst_slack;
        optional double scale;
    }
";

/// Verdict of one method on one set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
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
    pub fn key(&self) -> (usize, u64, usize) {
        (self.point, self.set, self.method)
    }
}

/// The bytes of a Parquet file with these rows.
pub fn write(study: &Study, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    let schema = Arc::new(parse_message_type(SCHEMA)?);
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("keeptime-lab study".to_owned())
        .build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties))?;
    for rows in rows.chunks(GROUP) {
        let mut group = Group { writer: writer.next_row_group()?, rows };
        group.write(study)?;
        group.writer.close()?;
    }
    Ok(writer.into_inner()?)
}

struct Group<'w, 'r> {
    writer: SerializedRowGroupWriter<'w, Vec<u8>>,
    rows: &'r [Row],
}

impl Group<'_, '_> {
    /// The columns, in the order of the schema.
    fn write(&mut self, study: &Study) -> anyhow::Result<()> {
        let experiment = ByteArray::from(study.experiment.name());
        let methods: Vec<ByteArray> =
            study.methods.iter().map(|method| ByteArray::from(method.as_str())).collect();
        let point = |row: &Row| &study.points[row.point];
        self.column::<ByteArrayType>(|_| experiment.clone())?;
        // The bits of an unsigned number, as the schema says.
        self.column::<Int64Type>(|_| study.seed as i64)?;
        self.column::<Int64Type>(|row| point(row).number as i64)?;
        self.column::<Int32Type>(|row| point(row).chains as i32)?;
        self.column::<Int32Type>(|row| point(row).utilisation_percent as i32)?;
        self.column::<DoubleType>(|row| point(row).accelerator_percent)?;
        self.column::<Int64Type>(|row| row.set as i64)?;
        self.column::<ByteArrayType>(|row| methods[row.method].clone())?;
        self.column::<BoolType>(|row| row.schedulable)?;
        self.column::<Int32Type>(|row| row.chains_ok as i32)?;
        self.optional::<Int64Type>(|row| row.worst_slack_ns)?;
        self.optional::<DoubleType>(|row| row.worst_slack)?;
        self.optional::<DoubleType>(|row| row.scale)
    }

    fn column<T: DataType>(&mut self, value: impl Fn(&Row) -> T::T) -> anyhow::Result<()> {
        let values: Vec<T::T> = self.rows.iter().map(value).collect();
        self.put::<T>(&values, None)
    }

    fn optional<T: DataType>(
        &mut self,
        value: impl Fn(&Row) -> Option<T::T>,
    ) -> anyhow::Result<()> {
        let all: Vec<Option<T::T>> = self.rows.iter().map(value).collect();
        let levels: Vec<i16> = all.iter().map(|value| i16::from(value.is_some())).collect();
        let values: Vec<T::T> = all.into_iter().flatten().collect();
        self.put::<T>(&values, Some(&levels))
    }

    fn put<T: DataType>(&mut self, values: &[T::T], levels: Option<&[i16]>) -> anyhow::Result<()> {
        let mut column = self.writer.next_column()?.context("the schema has another column")?;
        column.typed::<T>().write_batch(values, levels, None)?;
        Ok(column.close()?)
    }
}

/// The rows of a Parquet file of this study, in the order of the file.
///
/// # Errors
/// Says what is wrong with the file.
pub fn read(study: &Study, file: File) -> anyhow::Result<Vec<Row>> {
    let file = SerializedFileReader::new(file)?;
    let expected = parse_message_type(SCHEMA)?;
    let found = file.metadata().file_metadata().schema();
    ensure!(*found == expected, "found other columns than those of a study");
    let mut rows = Vec::new();
    for group in 0..file.num_row_groups() {
        read_group(study, &*file.get_row_group(group)?, &mut rows)?;
    }
    Ok(rows)
}

fn read_group(
    study: &Study,
    group: &dyn RowGroupReader,
    rows: &mut Vec<Row>,
) -> anyhow::Result<()> {
    let columns = Columns { group, count: usize::try_from(group.metadata().num_rows())? };
    let point = columns.column::<Int64Type>(2)?;
    let set = columns.column::<Int64Type>(6)?;
    let variant = columns.column::<ByteArrayType>(7)?;
    let schedulable = columns.column::<BoolType>(8)?;
    let chains_ok = columns.column::<Int32Type>(9)?;
    let worst_slack_ns = columns.optional::<Int64Type>(10)?;
    let worst_slack = columns.optional::<DoubleType>(11)?;
    let scale = columns.optional::<DoubleType>(12)?;
    for index in 0..columns.count {
        let number = point[index] as u64;
        let variant = variant[index].as_utf8()?;
        let row = Row {
            point: (study.points.iter().position(|point| point.number == number))
                .with_context(|| format!("found point {number}, expected one of the manifest"))?,
            set: set[index] as u64,
            method: (study.methods.iter().position(|method| method == variant)).with_context(
                || format!("found variant {variant}, expected one of the manifest"),
            )?,
            schedulable: schedulable[index],
            chains_ok: chains_ok[index] as u32,
            worst_slack_ns: worst_slack_ns[index],
            worst_slack: worst_slack[index],
            scale: scale[index],
        };
        rows.push(row);
    }
    Ok(())
}

struct Columns<'g> {
    group: &'g dyn RowGroupReader,
    count: usize,
}

impl Columns<'_> {
    fn column<T: DataType>(&self, index: usize) -> anyhow::Result<Vec<T::T>> {
        let (values, _) = self.get::<T>(index)?;
        ensure!(values.len() == self.count, "column {index} is cut short");
        Ok(values)
    }

    fn optional<T: DataType>(&self, index: usize) -> anyhow::Result<Vec<Option<T::T>>> {
        let (values, levels) = self.get::<T>(index)?;
        ensure!(levels.len() == self.count, "column {index} is cut short");
        let mut values = values.into_iter();
        Ok(levels.iter().map(|&level| if level > 0 { values.next() } else { None }).collect())
    }

    /// Values, and which rows have one.
    fn get<T: DataType>(&self, index: usize) -> anyhow::Result<(Vec<T::T>, Vec<i16>)> {
        let mut reader = get_typed_column_reader::<T>(self.group.get_column_reader(index)?);
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        loop {
            let before = values.len() + levels.len();
            reader.read_records(self.count, Some(&mut levels), None, &mut values)?;
            if values.len() + levels.len() == before {
                return Ok((values, levels));
            }
        }
    }
}

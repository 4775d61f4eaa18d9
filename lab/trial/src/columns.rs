//! Parquet files: one row for each thing, with the columns that are declared.
//!
//! They are written with the column interface of the library, which needs no Arrow. Nothing in a
//! file depends on when or where it was made, so that equal rows are equal bytes.

use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{
    BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type,
};
use parquet::errors::Result;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::Type;

pub use parquet::errors::ParquetError;

/// Rows of one group, except for the last.
const GROUP: usize = 1 << 18;

/// A value of a column.
pub trait Cell {
    /// Type of the column.
    type Data: DataType;
    /// Name of that type in a schema.
    const KIND: &'static str;
    /// Meaning of the type in a schema; may be empty.
    const NOTE: &'static str = "";

    /// The value, as it is written.
    fn value(self) -> <Self::Data as DataType>::T;
}

/// Implements [`Cell`] for types that are written as they are, or cast.
macro_rules! cells {
    ($($type:ty as $data:ty: $kind:literal $($note:literal)?, $value:expr;)*) => {$(
        impl Cell for $type {
            type Data = $data;
            const KIND: &'static str = $kind;
            $(const NOTE: &'static str = $note;)?

            fn value(self) -> <$data as DataType>::T {
                $value(self)
            }
        }
    )*};
}

cells! {
    bool as BoolType: "boolean", std::convert::identity;
    i32 as Int32Type: "int32", std::convert::identity;
    i64 as Int64Type: "int64", std::convert::identity;
    u64 as Int64Type: "int64", |number: u64| number as i64;
    f64 as DoubleType: "double", std::convert::identity;
    String as ByteArrayType: "binary" "(STRING)", |text: String| ByteArray::from(text.into_bytes());
}

/// A number that the schema calls unsigned.
pub struct Unsigned(pub u64);

impl Cell for Unsigned {
    type Data = Int64Type;
    const KIND: &'static str = "int64";
    const NOTE: &'static str = "(INTEGER(64,false))";

    fn value(self) -> i64 {
        // The bits of an unsigned number, as the schema says.
        self.0 as i64
    }
}

/// Writes one column of some rows.
type Put<'c, R> = Box<dyn Fn(&[R], &mut SerializedColumnWriter<'_>) -> Result<()> + 'c>;

/// Columns of rows of type `R`.
pub struct Columns<'c, R> {
    schema: String,
    puts: Vec<Put<'c, R>>,
}

impl<R> Default for Columns<'_, R> {
    fn default() -> Self {
        Columns { schema: String::new(), puts: Vec::new() }
    }
}

impl<'c, R> Columns<'c, R> {
    /// Adds a column with a value in every row.
    #[must_use]
    pub fn required<C: Cell>(self, name: &str, cell: impl Fn(&R) -> C + 'c) -> Self {
        let put: Put<'c, R> =
            Box::new(move |rows: &[R], column: &mut SerializedColumnWriter<'_>| {
                let values: Vec<_> = rows.iter().map(|row| cell(row).value()).collect();
                column.typed::<C::Data>().write_batch(&values, None, None).map(drop)
            });
        self.with::<C>("required", name, put)
    }

    /// Adds a column that is empty in some rows.
    #[must_use]
    pub fn optional<C: Cell>(self, name: &str, cell: impl Fn(&R) -> Option<C> + 'c) -> Self {
        let put: Put<'c, R> =
            Box::new(move |rows: &[R], column: &mut SerializedColumnWriter<'_>| {
                let cells: Vec<_> = rows.iter().map(|row| cell(row).map(C::value)).collect();
                let levels: Vec<i16> = cells.iter().map(|cell| i16::from(cell.is_some())).collect();
                let values: Vec<_> = cells.into_iter().flatten().collect();
                column.typed::<C::Data>().write_batch(&values, Some(&levels), None).map(drop)
            });
        self.with::<C>("optional", name, put)
    }

    fn with<C: Cell>(mut self, repetition: &str, name: &str, put: Put<'c, R>) -> Self {
        self.schema += &format!("{repetition} {} {name} {}; ", C::KIND, C::NOTE);
        self.puts.push(put);
        self
    }

    /// The schema of the file.
    ///
    /// # Errors
    /// A name is none that Parquet knows.
    pub fn schema(&self, name: &str) -> Result<Type> {
        parse_message_type(&format!("message {name} {{ {} }}", self.schema))
    }

    /// The bytes of a file with these rows, whose schema has a name, made by a program.
    ///
    /// # Errors
    /// Errors of the library, which do not depend on the rows.
    pub fn write(&self, name: &str, program: &str, rows: &[R]) -> Result<Vec<u8>> {
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_created_by(program.to_owned())
            .build();
        let (schema, properties) = (Arc::new(self.schema(name)?), Arc::new(properties));
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties)?;
        for rows in rows.chunks(GROUP) {
            let mut group = writer.next_row_group()?;
            for put in &self.puts {
                let missing = || ParquetError::General("the schema has fewer columns".into());
                let mut column = group.next_column()?.ok_or_else(missing)?;
                put(rows, &mut column)?;
                column.close()?;
            }
            group.close()?;
        }
        writer.into_inner()
    }
}

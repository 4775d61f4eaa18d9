//! Kernels of an accelerator that the file brings along: which keys they have depends on the
//! device.

use crate::field::Field;
use crate::read::file;
use crate::{DeviceKind, Error, Groups, Kernel, Source};

/// Reads a kernel, and gives the field of its name, too.
///
/// # Errors
/// The first error of the entry, with its position in the file.
pub(crate) fn read<'a>(field: Field<'a>, device: DeviceKind) -> Result<(Kernel, Field<'a>), Error> {
    let (source, keys): (_, &[&str]) = match device {
        DeviceKind::Onnx => (model(field.clone())?, MODEL),
        DeviceKind::Cuda(_) => {
            // Either of the two; without any of them code is what is missing.
            let other = LIBRARY.iter().filter(|key| !CODE.contains(key));
            let every: Vec<&str> = CODE.iter().chain(other).copied().collect();
            match field.clone().fields(&every)?.optional("library") {
                Some(_) => (library(field.clone())?, LIBRARY),
                None => (code(field.clone())?, CODE),
            }
        }
        DeviceKind::Vulkan(_) => (shader(field.clone())?, SHADER),
        DeviceKind::Cpu => {
            return Err(field.refuse("kernels only with device cuda:N, vulkan:N or onnx"));
        }
    };
    let name = field.fields(keys)?.required("name")?;
    Ok((Kernel { name: name.clone().name()?, source }, name))
}

const MODEL: &[&str] = &["name", "model", "batch"];
const LIBRARY: &[&str] = &["name", "library", "configuration", "input", "output"];
const SHADER: &[&str] = &["name", "shader", "entry", "groups", "items_per_group"];
const CODE: &[&str] = &[
    "name",
    "code",
    "function",
    "threads",
    "items_per_block",
    "blocks_per_slice",
    "in_place",
    "input",
    "output",
];

fn model(field: Field<'_>) -> Result<Source, Error> {
    let fields = field.fields(MODEL)?;
    let path = file(&fields.required("model")?)?;
    Ok(Source::Model { path, batch: fields.or("batch", 1, |field| field.number(1..=256))? })
}

fn code(field: Field<'_>) -> Result<Source, Error> {
    let fields = field.fields(CODE)?;
    let any = |field: Field<'_>| field.number(0..=u32::MAX);
    Ok(Source::Code {
        path: file(&fields.required("code")?)?,
        function: fields.required("function")?.name()?,
        threads: fields.or("threads", 256, |field| field.number(1..=1024))?,
        items_per_block: fields.or("items_per_block", 0, any)?,
        blocks_per_slice: fields.or("blocks_per_slice", 0, any)?,
        in_place: fields.or("in_place", false, |field| field.boolean())?,
        input: fields.or("input", [0; 2], byte_counts)?,
        output: fields.or("output", [0; 2], byte_counts)?,
    })
}

fn library(field: Field<'_>) -> Result<Source, Error> {
    let fields = field.fields(LIBRARY)?;
    let words = |field: Field<'_>| field.text("the library's own words").map(str::to_owned);
    Ok(Source::Library {
        path: file(&fields.required("library")?)?,
        configuration: fields.or("configuration", String::new(), words)?,
        input: fields.or("input", [0; 2], byte_counts)?,
        output: fields.or("output", [0; 2], byte_counts)?,
    })
}

fn shader(field: Field<'_>) -> Result<Source, Error> {
    let fields = field.fields(SHADER)?;
    let items = fields.optional("items_per_group");
    let groups = match (fields.optional("groups"), items) {
        (Some(groups), None) => Groups::Fixed(three(groups)?),
        (None, Some(items)) => Groups::Items(items.number(1..=u32::MAX)?),
        (Some(_), Some(items)) => return Err(items.refuse("groups or items_per_group, not both")),
        (None, None) => Groups::Fixed([1; 3]),
    };
    let path = file(&fields.required("shader")?)?;
    Ok(Source::Shader { path, entry: fields.required("entry")?.name()?, groups })
}

/// `[64, 1, 1]`
fn three(field: Field<'_>) -> Result<[u32; 3], Error> {
    let numbers = field.clone().list()?;
    let groups: Vec<u32> =
        numbers.into_iter().map(|each| each.number(1..=65_535)).collect::<Result<_, _>>()?;
    groups.try_into().map_err(|_| field.refuse("[X, Y, Z]"))
}

/// `[64, 4]`: 64 bytes, and 4 for each item.
fn byte_counts(field: Field<'_>) -> Result<[u64; 2], Error> {
    let counts: Vec<u64> =
        field.list()?.iter().map(|count| count.whole(0..=1 << 40)).collect::<Result<_, _>>()?;
    let expected = "[BYTES, BYTES OF EACH ITEM]";
    counts.try_into().map_err(|_| field.refuse(expected))
}

//! Kernels of an accelerator that the file brings along: which keys they have depends on the
//! device.

use crate::field::{file, name, number, numbers};
use crate::{Accelerator, DeviceKind, Groups, Kernel, Source};
use files::{Error, Step, Tree};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use std::collections::HashSet;
use std::path::PathBuf;

/// The keys of every kind of kernel.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct Keys {
    #[serde(deserialize_with = "name")]
    name: String,
    #[serde(deserialize_with = "file")]
    model: Option<PathBuf>,
    #[serde(deserialize_with = "number::<_, _, 1, 256>")]
    batch: Option<u32>,
    #[serde(deserialize_with = "file")]
    code: PathBuf,
    #[serde(deserialize_with = "name")]
    function: String,
    #[serde(deserialize_with = "number::<_, _, 1, 1024>")]
    threads: Option<u32>,
    items_per_block: u32,
    blocks_per_slice: u32,
    in_place: bool,
    #[serde(deserialize_with = "byte_counts")]
    input: [u64; 2],
    #[serde(deserialize_with = "byte_counts")]
    output: [u64; 2],
    #[serde(deserialize_with = "file")]
    library: Option<PathBuf>,
    configuration: String,
    #[serde(deserialize_with = "file")]
    shader: Option<PathBuf>,
    #[serde(deserialize_with = "name")]
    entry: String,
    #[serde(deserialize_with = "three")]
    groups: Option<[u32; 3]>,
    #[serde(deserialize_with = "number::<_, _, 1, { u32::MAX }>")]
    items_per_group: Option<u32>,
}

impl From<Keys> for Kernel {
    /// Takes the source whose file is there; [`check`] refuses keys of another one.
    fn from(keys: Keys) -> Kernel {
        let Keys { name, input, output, .. } = keys;
        let source = if let Some(path) = keys.model {
            Source::Model { path, batch: keys.batch.unwrap_or(1) }
        } else if let Some(path) = keys.library {
            Source::Library { path, configuration: keys.configuration, input, output }
        } else if let Some(path) = keys.shader {
            let fixed = Groups::Fixed(keys.groups.unwrap_or([1; 3]));
            let groups = keys.items_per_group.map_or(fixed, Groups::Items);
            Source::Shader { path, entry: keys.entry, groups }
        } else {
            Source::Code {
                path: keys.code,
                function: keys.function,
                threads: keys.threads.unwrap_or(256),
                items_per_block: keys.items_per_block,
                blocks_per_slice: keys.blocks_per_slice,
                in_place: keys.in_place,
                input,
                output,
            }
        };
        Kernel { name, source }
    }
}

/// Refuses kernels of an accelerator at `path` that do not fit its device.
pub(crate) fn check(
    accelerator: &Accelerator,
    tree: &Tree,
    path: &[Step<'_>],
) -> Result<(), Error> {
    let mut names = HashSet::new();
    for (i, kernel) in accelerator.kernels.iter().enumerate() {
        let path = [path, &[Step::Key("kernels"), Step::Index(i)]].concat();
        let at = |key: &'static str| [&path[..], &[Step::Key(key)]].concat();
        let (known, required): (&[&str], &[&str]) = match accelerator.device {
            DeviceKind::Onnx => (&["name", "model", "batch"], &["name", "model"]),
            DeviceKind::Cuda(_) if tree.has(&at("library")) => {
                (&["name", "library", "configuration", "input", "output"], &["name"])
            }
            DeviceKind::Cuda(_) => (CODE, &["name", "code", "function"]),
            DeviceKind::Vulkan(_) => (
                &["name", "shader", "entry", "groups", "items_per_group"],
                &["name", "shader", "entry"],
            ),
            DeviceKind::Cpu => {
                let expected = "kernels only with device cuda:N, vulkan:N or onnx";
                return Err(tree.wrong(&path, expected));
            }
        };
        tree.known_keys(&path, known)?;
        required.iter().try_for_each(|key| tree.required_key(&path, key))?;
        if tree.has(&at("groups")) && tree.has(&at("items_per_group")) {
            let expected = "groups or items_per_group, not both";
            return Err(tree.wrong(&at("items_per_group"), expected));
        }
        if !names.insert(&kernel.name) {
            return Err(tree.wrong(&at("name"), "every name once"));
        }
    }
    Ok(())
}

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

/// `[64, 1, 1]`
fn three<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[u32; 3]>, D::Error> {
    let groups = numbers::<_, 1, 65_535>(from)?;
    groups.try_into().map(Some).map_err(|_| D::Error::custom("[X, Y, Z]"))
}

/// `[64, 4]`: 64 bytes, and 4 for each item.
fn byte_counts<'de, D: Deserializer<'de>>(from: D) -> Result<[u64; 2], D::Error> {
    let counts: Vec<u64> = Vec::deserialize(from)?;
    let counts: Result<[u64; 2], _> = counts.try_into();
    let counts = counts.map_err(|_| D::Error::custom("[BYTES, BYTES OF EACH ITEM]"))?;
    match counts.iter().all(|bytes| *bytes <= 1 << 40) {
        true => Ok(counts),
        false => Err(D::Error::custom("at most 1099511627776 bytes")),
    }
}

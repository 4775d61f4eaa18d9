//! Kinds of values of the system file: what each takes, and how it is written.

use crate::MAX_CORES;
use crate::quantity::{self, format_bytes, format_time};
use analysis::MAX_TIME_NS;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};
use std::path::PathBuf;

/// The longest name, in bytes.
const MAX_NAME: usize = 64;
/// The longest path of a Unix socket, in bytes.
const MAX_SOCKET_PATH: usize = 107;

const NAME: &str = "a name of 1 to 64 bytes of visible characters, without outer spaces";

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME && ::name::check(text).is_ok()
}

/// A name: visible, on one line, of a length that tables and logs can show.
pub(crate) fn name<'de, D: Deserializer<'de>, T: From<String>>(from: D) -> Result<T, D::Error> {
    files::checked(from, NAME, |text| is_name(text).then(|| text.to_owned().into()))
}

/// A list of names.
pub(crate) fn names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    files::checked_list(from, NAME, |text| is_name(text).then(|| text.to_owned()))
}

/// A whole number within a range.
pub(crate) fn number<'de, D, T, const MIN: u32, const MAX: u32>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: TryFrom<u32>,
{
    let number = u32::deserialize(from).ok().filter(|number| (MIN..=MAX).contains(number));
    let number = number.and_then(|number| T::try_from(number).ok());
    number.ok_or_else(|| D::Error::custom(format!("a whole number from {MIN} to {MAX}")))
}

/// A list of whole numbers within a range.
pub(crate) fn numbers<'de, D, const MIN: u32, const MAX: u32>(from: D) -> Result<Vec<u32>, D::Error>
where
    D: Deserializer<'de>,
{
    files::checked_list(from, &format!("a whole number from {MIN} to {MAX}"), |text| {
        let number = text.parse().ok().filter(|number| (MIN..=MAX).contains(number));
        number.filter(|_| !text.starts_with('+'))
    })
}

/// A list of cores.
pub(crate) fn cores<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u32>, D::Error> {
    numbers::<_, 0, { MAX_CORES - 1 }>(from)
}

/// The default of a key.
pub(crate) fn constant<const N: u32>() -> u32 {
    N
}

/// Returns true for the default of a key.
pub(crate) fn is<const N: u32>(number: &u32) -> bool {
    *number == N
}

/// A time from `MIN` to `MAX` nanoseconds; a bare integer is in the unit that the file names.
pub(crate) struct Time<const MIN: u64, const MAX: u64>;

pub(crate) type AnyTime = Time<0, MAX_TIME_NS>;
pub(crate) type TimeAbove0 = Time<1, MAX_TIME_NS>;

impl<const MIN: u64, const MAX: u64> Time<MIN, MAX> {
    pub(crate) fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: From<u64>,
    {
        let text =
            String::deserialize(from).map_err(|_| D::Error::custom("a time such as \"10 ms\""))?;
        let time_ns = quantity::time_ns(&text, quantity::bare_unit()).map_err(D::Error::custom)?;
        match (MIN..=MAX).contains(&time_ns) {
            true => Ok(time_ns.into()),
            false if MAX == MAX_TIME_NS => Err(D::Error::custom("a time above 0")),
            false => Err(D::Error::custom(format!("{} to {}", format_time(MIN), format_time(MAX)))),
        }
    }

    pub(crate) fn serialize<S, T>(time_ns: &T, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: Copy + Into<Option<u64>>,
    {
        optional_text((*time_ns).into().map(format_time), to)
    }
}

/// A size from `MIN` to `MAX` bytes.
pub(crate) struct Size<const MIN: u64, const MAX: u64>;

impl<const MIN: u64, const MAX: u64> Size<MIN, MAX> {
    pub(crate) fn deserialize<'de, D, T>(from: D) -> Result<T, D::Error>
    where
        D: Deserializer<'de>,
        T: From<u64>,
    {
        let text =
            String::deserialize(from).map_err(|_| D::Error::custom("a size such as \"64 MiB\""))?;
        let bytes = quantity::bytes(&text).map_err(D::Error::custom)?;
        let expected = || format!("{} to {}", format_bytes(MIN), format_bytes(MAX));
        let fitting = Some(bytes).filter(|bytes| (MIN..=MAX).contains(bytes));
        fitting.map(T::from).ok_or_else(|| D::Error::custom(expected()))
    }

    pub(crate) fn serialize<S, T>(bytes: &T, to: S) -> Result<S::Ok, S::Error>
    where
        S: Serializer,
        T: Copy + Into<Option<u64>>,
    {
        optional_text((*bytes).into().map(format_bytes), to)
    }
}

fn optional_text<S: Serializer>(text: Option<String>, to: S) -> Result<S::Ok, S::Error> {
    match text {
        Some(text) => to.serialize_str(&text),
        None => to.serialize_none(),
    }
}

/// The path of a socket.
pub(crate) fn socket<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<PathBuf>,
{
    let fits = |text: &str| (1..=MAX_SOCKET_PATH).contains(&text.len()) && !text.contains('\0');
    files::checked(from, format!("a path of 1 to {MAX_SOCKET_PATH} bytes"), |text| {
        fits(text).then(|| PathBuf::from(text).into())
    })
}

/// The path of a file, as the file says it.
pub(crate) fn file<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: From<PathBuf>,
{
    files::checked(from, "the path of a file", |text| {
        (!text.is_empty() && !text.contains('\0')).then(|| PathBuf::from(text).into())
    })
}

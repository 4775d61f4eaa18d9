//! The tree as values of serde: an error gets the place of the value that it is about.

use crate::Error;
use crate::tree::{Entry, Node, Step, Tree, Value};
use serde::de::value::{MapAccessDeserializer, MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, Expected, IntoDeserializer, SeqAccess,
    Unexpected, Visitor,
};
use serde::{Deserialize, forward_to_deserialize_any};
use serde_path_to_error::Segment;
use std::fmt::{self, Display};

impl Tree {
    /// The whole file as a type.
    ///
    /// # Errors
    /// [`Error::Content`]: a key is unknown or missing, or the type does not take a value.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.read_at(None, &self.root)
    }

    /// The value of one key of the file, whatever else is there.
    ///
    /// # Errors
    /// Those of [`Tree::read`].
    pub fn key<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        let node = self.at(&[Step::Key(key)]);
        node.map(|node| self.read_at(Some(Step::Key(key)), node)).transpose()
    }

    fn read_at<T: DeserializeOwned>(&self, at: Option<Step<'_>>, node: &Node) -> Result<T, Error> {
        serde_path_to_error::deserialize(Reader(node)).map_err(|error| {
            let steps = error.path().iter().filter_map(|segment| match segment {
                Segment::Seq { index } => Some(Step::Index(*index)),
                Segment::Map { key } | Segment::Enum { variant: key } => Some(Step::Key(key)),
                Segment::Unknown => None,
            });
            let path: Vec<Step<'_>> = at.into_iter().chain(steps).collect();
            match error.inner() {
                Fault::Expected(expected) => self.wrong(&path, expected),
                Fault::Missing(key) => self.missing_key(&path, key),
                Fault::Unknown(key, known) => self.unknown_key(&path, key, known),
            }
        })
    }
}

/// Reads a text by a rule, which gives nothing for a text that it does not take.
///
/// # Errors
/// With what was expected, if there is no text or the rule does not take it.
pub fn checked<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: impl Display,
    rule: impl FnOnce(&str) -> Option<T>,
) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer).ok();
    text.and_then(|text| rule(&text)).ok_or_else(|| de::Error::custom(expected))
}

/// Reads a list of texts by a rule, as [`checked`] reads one.
///
/// # Errors
/// Errors of [`checked`], about the item.
pub fn checked_list<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    rule: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_seq(ByRule { expected, rule })
}

/// Reads a list of texts by a rule, or one text as a list of one.
///
/// # Errors
/// Errors of [`checked_list`].
pub fn checked_texts<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    rule: impl Fn(&str) -> Option<T>,
) -> Result<Vec<T>, D::Error> {
    deserializer.deserialize_any(ByRule { expected, rule })
}

/// Items of a list, or one of them.
struct ByRule<'r, R> {
    expected: &'r str,
    rule: R,
}

impl<'de, T, R: Fn(&str) -> Option<T>> Visitor<'de> for ByRule<'_, R> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Vec<T>, E> {
        self.visit_str(&number.to_string())
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Vec<T>, E> {
        let item = (self.rule)(text).ok_or_else(|| E::custom(self.expected))?;
        Ok(vec![item])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<T>, A::Error> {
        let ByRule { expected, rule } = &self;
        let mut items = Vec::new();
        while let Some(item) = list.next_element_seed(ByRule { expected, rule })? {
            items.push(item);
        }
        Ok(items)
    }
}

impl<'de, T, R: Fn(&str) -> Option<T>> DeserializeSeed<'de> for ByRule<'_, R> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, item: D) -> Result<T, D::Error> {
        checked(item, self.expected, self.rule)
    }
}

/// An error, whose place is known by the way to it.
#[derive(Debug)]
enum Fault {
    /// Expectation that the value did not meet.
    Expected(String),
    /// A key that the mapping lacks.
    Missing(&'static str),
    /// A key that the mapping should not have, and those that it may have.
    Unknown(String, &'static [&'static str]),
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl std::error::Error for Fault {}

impl de::Error for Fault {
    fn custom<T: Display>(expected: T) -> Self {
        Fault::Expected(expected.to_string())
    }

    fn invalid_type(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(expected)
    }

    fn invalid_value(_: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::custom(expected)
    }

    fn invalid_length(_: usize, expected: &dyn Expected) -> Self {
        Self::custom(expected)
    }

    fn unknown_variant(_: &str, expected: &'static [&'static str]) -> Self {
        Self::custom(expected.join(" or "))
    }

    fn unknown_field(key: &str, known: &'static [&'static str]) -> Self {
        Fault::Unknown(key.to_owned(), known)
    }

    fn missing_field(key: &'static str) -> Self {
        Fault::Missing(key)
    }
}

/// Refuses the first of the entries that is not among the `known` keys.
fn check_keys(entries: &[Entry], known: &'static [&'static str]) -> Result<(), Fault> {
    match entries.iter().find(|entry| !known.contains(&entry.key.as_str())) {
        Some(entry) => Err(de::Error::unknown_field(&entry.key, known)),
        None => Ok(()),
    }
}

/// A value as serde reads it.
#[derive(Clone, Copy)]
struct Reader<'t>(&'t Node);

impl<'t> Reader<'t> {
    fn text(self) -> Option<&'t str> {
        match &self.0.value {
            Value::Scalar { text, .. } if !self.0.is_null() => Some(text),
            _ => None,
        }
    }

    fn parse<T>(self, read: impl Fn(&str) -> Option<T>, expected: &str) -> Result<T, Fault> {
        self.text().and_then(read).ok_or_else(|| Fault::Expected(expected.to_owned()))
    }
}

fn pair(entry: &Entry) -> (&str, Reader<'_>) {
    (&entry.key, Reader(&entry.node))
}

impl<'de> IntoDeserializer<'de, Fault> for Reader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Methods that read a number from its text.
macro_rules! numbers {
    ($($method:ident $visit:ident $expected:literal)*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let digits = |text: &str| text.parse().ok().filter(|_| !text.starts_with('+'));
            visitor.$visit(self.parse(digits, $expected)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'de> {
    type Error = Fault;

    forward_to_deserialize_any! {
        i8 i16 i128 u128 char bytes byte_buf unit unit_struct tuple tuple_struct identifier
        ignored_any
    }

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            _ if self.0.is_null() => visitor.visit_unit(),
            Value::List(_) => self.deserialize_seq(visitor),
            Value::Map(_) => self.deserialize_map(visitor),
            Value::Scalar { text, plain: true } => match (text.as_str(), text.parse()) {
                ("true", _) => visitor.visit_bool(true),
                ("false", _) => visitor.visit_bool(false),
                (text, Ok(number)) if !text.starts_with('+') => visitor.visit_u64(number),
                (text, _) => visitor.visit_str(text),
            },
            Value::Scalar { text, .. } => visitor.visit_str(text),
        }
    }

    numbers! {
        deserialize_bool visit_bool "true or false"
        deserialize_u8 visit_u8 "a whole number from 0 to 255"
        deserialize_u16 visit_u16 "a whole number from 0 to 65535"
        deserialize_u32 visit_u32 "a whole number from 0 to 4294967295"
        deserialize_u64 visit_u64 "a whole number below 2^64"
        deserialize_i32 visit_i32 "a whole number from -2147483648 to 2147483647"
        deserialize_i64 visit_i64 "a whole number from -2^63 to 2^63 - 1"
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f64(self.parse(float, "a number")?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.text() {
            Some(text) => visitor.visit_str(text),
            None => Err(de::Error::custom("a text")),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        if self.0.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::List(items) => {
                let mut items = SeqDeserializer::new(items.iter().map(Reader));
                let value = visitor.visit_seq(&mut items)?;
                items.end().map(|()| value)
            }
            _ => Err(de::Error::custom("a list")),
        }
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match &self.0.value {
            Value::Map(entries) => {
                visitor.visit_map(MapDeserializer::new(entries.iter().map(pair)))
            }
            _ => Err(de::Error::custom("a mapping")),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        keys: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let Value::Map(entries) = &self.0.value else {
            let keys = keys.join(", ");
            return Err(de::Error::custom(format!("a mapping with the keys {keys}")));
        };
        check_keys(entries, keys)?;
        let present = entries.iter().filter(|entry| !entry.node.is_null());
        visitor.visit_map(MapDeserializer::new(present.map(pair)))
    }

    /// A name, or a mapping with a name as its only key.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match (&self.0.value, self.text()) {
            (_, Some(name)) => visitor.visit_enum(StrDeserializer::new(name)),
            (Value::Map(entries), _) if entries.len() == 1 => {
                check_keys(entries, names)?;
                let entries = MapDeserializer::new(entries.iter().map(pair));
                visitor.visit_enum(MapAccessDeserializer::new(entries))
            }
            _ => Err(de::Error::custom(names.join(" or "))),
        }
    }
}

/// Number with a point or an exponent, in the notation of YAML.
fn float(text: &str) -> Option<f64> {
    match text {
        ".nan" | ".NaN" | ".NAN" => Some(f64::NAN),
        ".inf" | "+.inf" => Some(f64::INFINITY),
        "-.inf" => Some(f64::NEG_INFINITY),
        _ if text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) => {
            text.parse().ok()
        }
        _ => None,
    }
}

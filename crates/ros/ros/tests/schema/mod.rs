//! Names and types of fields: as a structure serialises itself, and as an interface file says.

use serde::Serialize;
use serde::ser::{self, Impossible, SerializeSeq, SerializeStruct, SerializeTuple};
use std::fmt::Display;

type Field = (String, String);

/// The fields of a structure. Lists must have an element, so that its type can be seen.
pub(crate) fn fields(of: &impl Serialize) -> Vec<Field> {
    match of.serialize(Tracer).unwrap() {
        Shape::Struct { fields, .. } => fields,
        other => panic!("{other:?} is no structure"),
    }
}

/// The fields of a `.msg` file, or of both halves of a `.srv` file. Packages of types are cut off.
pub(crate) fn read_interface(file: &str) -> Vec<Vec<Field>> {
    let text = text(file);
    let half = |half: &str| -> Vec<Field> {
        let lines = half.lines().map(|line| line.split('#').next().unwrap().trim());
        let fields = lines.filter_map(|line| {
            let (kind, name) = line.split_once(' ')?;
            let kind = kind.rsplit('/').next().unwrap();
            // A bound on a list's length is not on the wire.
            let kind =
                kind.split_once("<=").map_or(kind.to_owned(), |(kind, _)| format!("{kind}]"));
            (!name.contains('=')).then(|| (name.trim().to_owned(), kind))
        });
        fields.collect()
    };
    text.split("\n---\n").map(half).collect()
}

/// The constants of a file.
pub(crate) fn constants(file: &str) -> Vec<(String, u8)> {
    let text = text(file);
    let lines = text.lines().map(|line| line.split('#').next().unwrap().trim());
    let constants = lines.filter(|line| line.contains('=')).map(|line| {
        let (name, value) = line.split_once(' ').unwrap().1.split_once('=').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    constants.collect()
}

fn text(file: &str) -> String {
    let path = format!("{}/../keeptime_msgs/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Form of a value on the wire.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Shape {
    Plain(&'static str),
    List(Option<Box<Shape>>),
    Array(Vec<Shape>),
    Struct { name: &'static str, fields: Vec<Field> },
}

impl Shape {
    fn name(&self) -> String {
        match self {
            Shape::Plain(name) => name.to_string(),
            Shape::List(Some(element)) => format!("{}[]", element.name()),
            Shape::List(None) => "?[]".into(),
            Shape::Array(elements) => format!("{}[{}]", elements[0].name(), elements.len()),
            // The type of `msg/Result` would hide Rust's own.
            Shape::Struct { name: "Outcome", .. } => "Result".into(),
            Shape::Struct { name, .. } => name.to_string(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct NoForm(String);

impl Display for NoForm {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoForm {}

impl ser::Error for NoForm {
    fn custom<T: Display>(text: T) -> NoForm {
        NoForm(text.to_string())
    }
}

struct Tracer;

struct Elements {
    array: bool,
    shapes: Vec<Shape>,
}

struct Members {
    name: &'static str,
    fields: Vec<Field>,
}

macro_rules! plain {
    ($($method:ident: $kind:ty = $name:literal),*) => {
        $(fn $method(self, _: $kind) -> Result<Shape, NoForm> { Ok(Shape::Plain($name)) })*
    };
}

macro_rules! none {
    ($($method:ident($($argument:ty),*) -> $out:ty;)*) => {
        $(fn $method(self, $(_: $argument),*) -> Result<$out, NoForm> {
            Err(NoForm(format!("{} has no form in ROS 2", stringify!($method))))
        })*
    };
}

type No = Impossible<Shape, NoForm>;

impl ser::Serializer for Tracer {
    type Ok = Shape;
    type Error = NoForm;
    type SerializeSeq = Elements;
    type SerializeTuple = Elements;
    type SerializeTupleStruct = No;
    type SerializeTupleVariant = No;
    type SerializeMap = No;
    type SerializeStruct = Members;
    type SerializeStructVariant = No;

    plain! {
        serialize_bool: bool = "bool", serialize_i8: i8 = "int8", serialize_i16: i16 = "int16",
        serialize_i32: i32 = "int32", serialize_i64: i64 = "int64", serialize_u8: u8 = "uint8",
        serialize_u16: u16 = "uint16", serialize_u32: u32 = "uint32", serialize_u64: u64 = "uint64",
        serialize_f32: f32 = "float32", serialize_f64: f64 = "float64",
        serialize_str: &str = "string"
    }

    fn serialize_bytes(self, _: &[u8]) -> Result<Shape, NoForm> {
        Ok(Shape::List(Some(Box::new(Shape::Plain("uint8")))))
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Elements, NoForm> {
        Ok(Elements { array: false, shapes: Vec::new() })
    }

    fn serialize_tuple(self, _: usize) -> Result<Elements, NoForm> {
        Ok(Elements { array: true, shapes: Vec::new() })
    }

    fn serialize_struct(self, name: &'static str, _: usize) -> Result<Members, NoForm> {
        Ok(Members { name, fields: Vec::new() })
    }

    none! {
        serialize_char(char) -> Shape;
        serialize_none() -> Shape;
        serialize_unit() -> Shape;
        serialize_unit_struct(&'static str) -> Shape;
        serialize_unit_variant(&'static str, u32, &'static str) -> Shape;
        serialize_tuple_struct(&'static str, usize) -> No;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> No;
        serialize_map(Option<usize>) -> No;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> No;
    }

    fn serialize_some<T: ?Sized + Serialize>(self, _: &T) -> Result<Shape, NoForm> {
        Err(NoForm("an option has no form in ROS 2".into()))
    }

    fn serialize_newtype_struct<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<Shape, NoForm> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: ?Sized + Serialize>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        _: &T,
    ) -> Result<Shape, NoForm> {
        Err(NoForm("a variant has no form in ROS 2".into()))
    }
}

impl Elements {
    fn add<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), NoForm> {
        self.shapes.push(value.serialize(Tracer)?);
        Ok(())
    }

    fn shape(self) -> Shape {
        match self.array {
            true => Shape::Array(self.shapes),
            false => Shape::List(self.shapes.into_iter().next().map(Box::new)),
        }
    }
}

impl SerializeSeq for Elements {
    type Ok = Shape;
    type Error = NoForm;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), NoForm> {
        self.add(value)
    }

    fn end(self) -> Result<Shape, NoForm> {
        Ok(self.shape())
    }
}

impl SerializeTuple for Elements {
    type Ok = Shape;
    type Error = NoForm;

    fn serialize_element<T: ?Sized + Serialize>(&mut self, value: &T) -> Result<(), NoForm> {
        self.add(value)
    }

    fn end(self) -> Result<Shape, NoForm> {
        Ok(self.shape())
    }
}

impl SerializeStruct for Members {
    type Ok = Shape;
    type Error = NoForm;

    fn serialize_field<T: ?Sized + Serialize>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), NoForm> {
        let shape = value.serialize(Tracer)?;
        // A structure within is followed into its own fields, which have to have a form.
        self.fields.push((name.to_owned(), shape.name()));
        Ok(())
    }

    fn end(self) -> Result<Shape, NoForm> {
        Ok(Shape::Struct { name: self.name, fields: self.fields })
    }
}

//! TraCI's messages: <https://sumo.dlr.de/docs/TraCI/Protocol.html>, big-endian.
//!
//! ```text
//! message   u32 length of all | command | command ...
//! command   u8 length | u8 id | content          shorter than 256 bytes
//!           0 | u32 length | u8 id | content     otherwise; lengths count themselves
//! status    a command: id of what is answered | u8 result | string
//! string    u32 length | bytes
//! value     u8 type | as the type says
//! ```

use super::Error;

/// More than any answer of the subset has; memory for one is never taken before its bytes are there.
pub const MAX_MESSAGE: usize = 64 << 20;

/// A value of the types that the subset has.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// x and y, m.
    Position(f64, f64),
    /// Any number.
    Number(f64),
    /// A name.
    Text(String),
    /// Names.
    Texts(Vec<String>),
    /// A place on a lane: its edge's name, and how far along it, m.
    Edge(String, f64),
}

const POSITION: u8 = 0x01;
const POSITION_3D: u8 = 0x03;
const POSITION_ROAD: u8 = 0x04;
const UNSIGNED_BYTE: u8 = 0x07;
const INTEGER: u8 = 0x09;
const DOUBLE: u8 = 0x0B;
const STRING: u8 = 0x0C;
const STRINGS: u8 = 0x0E;
const COMPOUND: u8 = 0x0F;
const BYTE: u8 = 0x08;

/// Values of one object that a subscription reports.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// The response's id: of which kind the object is.
    pub kind: u8,
    /// The object.
    pub id: String,
    /// Variables and their values; those that SUMO could not give are left out.
    pub values: Vec<(u8, Value)>,
}

/// Bytes that another process sent: every length is checked against what is there.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads what follows a message's length.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    fn refuse<T>(&self, found: impl ToString, expected: &'static str) -> Result<T, Error> {
        Err(Error::Message { at: self.at, found: found.to_string(), expected })
    }

    fn take(&mut self, count: usize, expected: &'static str) -> Result<&'a [u8], Error> {
        let left = self.bytes.len() - self.at;
        if count > left {
            return self.refuse(format!("{left} bytes of {count}"), expected);
        }
        self.at += count;
        Ok(&self.bytes[self.at - count..self.at])
    }

    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, expected)?);
        Ok(array)
    }

    fn byte(&mut self, expected: &'static str) -> Result<u8, Error> {
        Ok(self.array::<1>(expected)?[0])
    }

    /// An integer.
    pub fn integer(&mut self, expected: &'static str) -> Result<i32, Error> {
        Ok(i32::from_be_bytes(self.array(expected)?))
    }

    /// Reads the number of items that follow, each of at least `size` bytes.
    fn count(&mut self, size: usize, expected: &'static str) -> Result<usize, Error> {
        let count = self.integer(expected)?;
        let most = (self.bytes.len() - self.at) / size;
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => self.refuse(count, expected),
        }
    }

    fn double(&mut self) -> Result<f64, Error> {
        let number = f64::from_be_bytes(self.array("a double")?);
        if number.is_finite() { Ok(number) } else { self.refuse(number, "a finite double") }
    }

    /// A string; bytes that are no UTF-8 are replaced.
    pub fn string(&mut self) -> Result<String, Error> {
        let length = self.count(1, "the length of a string")?;
        Ok(String::from_utf8_lossy(self.take(length, "a string")?).into_owned())
    }

    /// Returns true at the end of the message.
    pub fn finished(&self) -> bool {
        self.at == self.bytes.len()
    }

    /// The id of the next command, with a reader of its content.
    pub fn command(&mut self) -> Result<(u8, Reader<'a>), Error> {
        let from = self.at;
        let length = match self.byte("the length of a command")? {
            0 => usize::try_from(self.integer("the length of a long command")?)
                .unwrap_or(0)
                .saturating_sub(5),
            short => usize::from(short) - 1,
        };
        if length == 0 {
            self.at = from;
            return self.refuse("a command without an id", "a length that counts it");
        }
        let bytes = self.take(length, "a command")?;
        Ok((bytes[0], Reader { bytes: &bytes[1..], at: 0 }))
    }

    /// The status that answers a command.
    pub fn status(&mut self, id: u8, command: &'static str) -> Result<(), Error> {
        let (answered, mut content) = self.command()?;
        if answered != id {
            return self.refuse(format!("an answer to 0x{answered:02x}"), "one to what was asked");
        }
        match content.byte("a result")? {
            0 => Ok(()),
            _ => Err(Error::Refused { command, reason: content.string()? }),
        }
    }

    fn value(&mut self) -> Result<Value, Error> {
        Ok(match self.byte("the type of a value")? {
            POSITION => Value::Position(self.double()?, self.double()?),
            POSITION_3D => {
                let (x, y) = (self.double()?, self.double()?);
                self.double()?;
                Value::Position(x, y)
            }
            POSITION_ROAD => {
                let (edge, along) = (self.string()?, self.double()?);
                self.byte("a lane's number")?;
                Value::Edge(edge, along)
            }
            INTEGER => Value::Number(f64::from(self.integer("an integer")?)),
            DOUBLE => Value::Number(self.double()?),
            STRING => Value::Text(self.string()?),
            STRINGS => {
                let count = self.count(4, "a number of strings")?;
                Value::Texts((0..count).map(|_| self.string()).collect::<Result<_, _>>()?)
            }
            other => return self.refuse(format!("type 0x{other:02x}"), "a type of the subset"),
        })
    }

    /// The value that was asked for.
    pub fn answer(&mut self) -> Result<Value, Error> {
        let (_, mut content) = self.command()?;
        content.byte("a variable")?;
        content.string()?;
        content.value()
    }

    /// Reads the values of one object that a subscription reports.
    pub fn update(&mut self) -> Result<Update, Error> {
        let (kind, mut content) = self.command()?;
        let id = content.string()?;
        let mut values = Vec::new();
        for _ in 0..content.byte("a number of variables")? {
            let variable = content.byte("a variable")?;
            let failed = content.byte("a result")? != 0;
            let value = content.value()?;
            if !failed {
                values.push((variable, value));
            }
        }
        Ok(Update { kind, id, values })
    }

    /// Updates of all subscriptions after a step.
    pub fn updates(&mut self) -> Result<Vec<Update>, Error> {
        let count = self.count(7, "a number of subscriptions")?;
        (0..count).map(|_| self.update()).collect()
    }
}

/// A value to be sent with its type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item<'a> {
    /// A string.
    Text(&'a str),
    /// An integer.
    Integer(i32),
    /// A double.
    Double(f64),
    /// A byte.
    Byte(u8),
    /// An unsigned byte.
    UnsignedByte(u8),
    /// x and y, m.
    Position(f64, f64),
}

/// A command that is being written.
pub struct Writer(Vec<u8>);

impl Writer {
    /// A command without content.
    pub fn new(id: u8) -> Writer {
        Writer(vec![id])
    }

    /// Adds bytes.
    pub fn bytes(mut self, bytes: &[u8]) -> Writer {
        self.0.extend(bytes);
        self
    }

    /// Adds a string.
    pub fn string(self, text: &str) -> Writer {
        self.bytes(&(text.len() as u32).to_be_bytes()).bytes(text.as_bytes())
    }

    /// Adds a double.
    pub fn double(self, number: f64) -> Writer {
        self.bytes(&number.to_be_bytes())
    }

    /// Adds a list of strings with its type.
    pub fn strings(self, texts: &[&str]) -> Writer {
        let count = (texts.len() as u32).to_be_bytes();
        texts.iter().fold(self.bytes(&[STRINGS]).bytes(&count), |it, text| it.string(text))
    }

    /// Adds a list of values, each with its type.
    pub fn compound(self, items: &[Item]) -> Writer {
        let count = (items.len() as u32).to_be_bytes();
        let begun = self.bytes(&[COMPOUND]).bytes(&count);
        items.iter().fold(begun, |it, item| it.item(item))
    }

    /// Adds a value with its type.
    pub fn item(self, item: &Item) -> Writer {
        match *item {
            Item::Text(text) => self.bytes(&[STRING]).string(text),
            Item::Integer(number) => self.bytes(&[INTEGER]).bytes(&number.to_be_bytes()),
            Item::Double(number) => self.bytes(&[DOUBLE]).double(number),
            Item::Byte(byte) => self.bytes(&[BYTE, byte]),
            Item::UnsignedByte(byte) => self.bytes(&[UNSIGNED_BYTE, byte]),
            Item::Position(x, y) => self.bytes(&[POSITION]).double(x).double(y),
        }
    }

    /// The message with this one command.
    pub fn message(self) -> Vec<u8> {
        let content = self.0;
        let mut command = match u8::try_from(content.len() + 1) {
            Ok(length) => vec![length],
            Err(_) => [&[0][..], &(content.len() as u32 + 5).to_be_bytes()].concat(),
        };
        command.extend(content);
        let length = command.len() as u32 + 4;
        [&length.to_be_bytes()[..], &command].concat()
    }
}

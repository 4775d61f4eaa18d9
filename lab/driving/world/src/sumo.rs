//! Traffic of another simulator: SUMO, by its TraCI socket.
//!
//! SUMO runs as a process of its own, started with `--remote-port`; [`Sumo`] is one client of it.
//! It moves the traffic, and is told where the ego vehicle is. Its messages are not trusted:
//! lengths, types and numbers are checked (`message`), and no answer is waited for longer than the
//! timeout.
//!
//! [`Traffic`] starts SUMO for a scenario, puts the ego into it and keeps both worlds in step;
//! `server` is the process, `ego` what SUMO is told of the ego.
//!
//! SUMO gives the middle of a vehicle's front and degrees clockwise from the north; here it is the
//! vehicle's middle and radians from x to the left. Persons are left out.

mod ego_commands;
mod message;
mod server;
mod sumo_error;
mod sumo_traffic;

pub use message::{Item, MAX_MESSAGE, Reader, Update, Value, Writer};
pub use server::VARIABLE;
pub use sumo_error::Error;
pub use sumo_traffic::Traffic;

use crate::body::{Body, Kind};
use crate::geometry::{Pose, wrapped};
use glam::DVec2;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The oldest interface with all that is asked for: SUMO 1.0.
const OLDEST: i32 = 18;

const GET_VERSION: u8 = 0x00;
const LOAD: u8 = 0x01;
const STEP: u8 = 0x02;
const CLOSE: u8 = 0x7F;
const SET_VEHICLE: u8 = 0xC4;
const SUBSCRIBE_VEHICLE: u8 = 0xD4;
const SUBSCRIBE_SIMULATION: u8 = 0xDB;
/// The response to a subscription of the simulation.
const DEPARTURES: u8 = 0xEB;
const MOVE_TO_XY: u8 = 0xB4;
/// `moveToXY`: on any edge or beside it.
const ANYWHERE: u8 = 2;
const DEPARTED: u8 = 0x74;
const SPEED: u8 = 0x40;
const POSITION: u8 = 0x42;
const ANGLE: u8 = 0x43;
const LENGTH: u8 = 0x44;
const CLASS: u8 = 0x49;
const WIDTH: u8 = 0x4D;
const ACCELERATION: u8 = 0x72;
/// Variables that are asked of each vehicle.
const VARIABLES: [u8; 7] = [POSITION, ANGLE, SPEED, ACCELERATION, LENGTH, WIDTH, CLASS];

/// A connection to a running SUMO.
pub struct Sumo {
    stream: TcpStream,
    address: SocketAddr,
    version: String,
    /// The ego vehicle's name in SUMO.
    ego: String,
    /// Freedom of [`Sumo::place`]: 2, anywhere; 3, on its route.
    freedom: u8,
    numbers: BTreeMap<String, u32>,
    bodies: Vec<Body>,
}

impl Sumo {
    /// Connects to a SUMO that may still be starting, and checks its version. `ego` is the name
    /// of the vehicle that [`Sumo::place`] moves; it gets the number 0. No answer is waited for
    /// longer than `timeout`.
    ///
    /// # Errors
    /// Without an answer, or with one from something else or too old.
    pub fn connect(address: SocketAddr, ego: &str, timeout: Duration) -> Result<Sumo, Error> {
        Sumo::connect_while(address, ego, timeout, &mut || Ok(()))
    }

    /// As [`Sumo::connect`], as long as SUMO `starts`.
    fn connect_while(
        address: SocketAddr,
        ego: &str,
        timeout: Duration,
        starts: &mut dyn FnMut() -> Result<(), Error>,
    ) -> Result<Sumo, Error> {
        let failed =
            |step| move |reason| Error::Connection { address: address.to_string(), step, reason };
        let begun = Instant::now();
        let stream = loop {
            starts()?;
            match TcpStream::connect_timeout(&address, timeout) {
                Err(reason)
                    if reason.kind() == ErrorKind::ConnectionRefused
                        && begun.elapsed() < timeout =>
                {
                    // Nothing tells when it will listen.
                    std::thread::sleep(Duration::from_millis(10));
                }
                other => break other.map_err(failed("connect"))?,
            }
        };
        let set = stream.set_read_timeout(Some(timeout));
        let set = set.and_then(|()| stream.set_write_timeout(Some(timeout)));
        set.and_then(|()| stream.set_nodelay(true)).map_err(failed("configure"))?;
        let (numbers, bodies) = (BTreeMap::new(), Vec::new());
        let (version, ego) = (String::new(), ego.to_owned());
        let freedom = ANYWHERE;
        let mut sumo = Sumo { stream, address, version, ego, freedom, numbers, bodies };
        let answer = sumo.ask(Writer::new(GET_VERSION))?;
        let mut reader = Reader::new(&answer);
        reader.status(GET_VERSION, "getVersion")?;
        let (_, mut content) = reader.command()?;
        let found = content.integer("a version")?;
        sumo.version = content.string()?;
        if found < OLDEST {
            return Err(Error::Version { found, oldest: OLDEST });
        }
        sumo.subscribe_departures()?;
        Ok(sumo)
    }

    /// Version that SUMO reports.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Begins another simulation with these arguments of its command line.
    ///
    /// # Errors
    /// If SUMO refuses them or does not answer.
    pub fn load(&mut self, arguments: &[&str]) -> Result<(), Error> {
        let answer = self.ask(Writer::new(LOAD).strings(arguments))?;
        Reader::new(&answer).status(LOAD, "load")?;
        self.numbers.clear();
        self.bodies.clear();
        self.subscribe_departures()
    }

    /// Goes on by one of SUMO's steps.
    ///
    /// # Errors
    /// If SUMO does not answer, or not as the protocol says.
    pub fn step(&mut self) -> Result<&[Body], Error> {
        let answer = self.ask(Writer::new(STEP).double(0.0))?;
        let mut reader = Reader::new(&answer);
        reader.status(STEP, "simulationStep")?;
        self.bodies.clear();
        let mut departed = Vec::new();
        for update in reader.updates()? {
            match update.kind {
                DEPARTURES => departed.extend(names(&update)),
                _ => self.see(&update)?,
            }
        }
        for id in departed {
            let asked = subscription(SUBSCRIBE_VEHICLE, &id, &VARIABLES);
            let answer = self.ask(asked)?;
            let mut reader = Reader::new(&answer);
            reader.status(SUBSCRIBE_VEHICLE, "a subscription of a vehicle")?;
            let update = reader.update()?;
            self.see(&update)?;
        }
        self.bodies.sort_by_key(|body| body.id);
        Ok(&self.bodies)
    }

    /// Bodies on the road after the last step, by number. A number belongs to one vehicle until
    /// another simulation is loaded.
    pub fn bodies(&self) -> &[Body] {
        &self.bodies
    }

    /// Ends the simulation.
    ///
    /// # Errors
    /// If SUMO does not answer.
    pub fn close(mut self) -> Result<(), Error> {
        let answer = self.ask(Writer::new(CLOSE))?;
        Reader::new(&answer).status(CLOSE, "close")
    }

    fn subscribe_departures(&mut self) -> Result<(), Error> {
        let answer = self.ask(subscription(SUBSCRIBE_SIMULATION, "", &[DEPARTED]))?;
        Reader::new(&answer).status(SUBSCRIBE_SIMULATION, "a subscription of departures")
    }

    /// Notes a vehicle if SUMO told all that was asked.
    fn see(&mut self, update: &Update) -> Result<(), Error> {
        if let Some(body) = body(update) {
            plausible(&update.id, &body)?;
            let next = self.numbers.len() as u32 + 1;
            let id = if update.id == self.ego {
                0
            } else {
                *self.numbers.entry(update.id.clone()).or_insert(next)
            };
            self.bodies.push(Body { id, ..body });
        }
        Ok(())
    }

    /// Sends a command and returns the answer, without its length.
    fn ask(&mut self, command: Writer) -> Result<Vec<u8>, Error> {
        let address = self.address;
        let failed =
            |step| move |reason| Error::Connection { address: address.to_string(), step, reason };
        self.stream.write_all(&command.message()).map_err(failed("send"))?;
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).map_err(failed("receive"))?;
        let length = u32::from_be_bytes(length) as usize;
        if !(4..=MAX_MESSAGE).contains(&length) {
            let expected = "a length from 4 to 64 MiB";
            return Err(Error::Message { at: 0, found: length.to_string(), expected });
        }
        let mut answer = Vec::new();
        let mut bytes = (&mut self.stream).take(length as u64 - 4);
        bytes.read_to_end(&mut answer).map_err(failed("receive"))?;
        if answer.len() + 4 < length {
            return Err(failed("receive")(ErrorKind::UnexpectedEof.into()));
        }
        Ok(answer)
    }
}

fn subscription(id: u8, object: &str, variables: &[u8]) -> Writer {
    /// "From the beginning", "to the end".
    const ALWAYS: f64 = -1_073_741_824.0;
    let command = Writer::new(id).double(ALWAYS).double(ALWAYS).string(object);
    command.bytes(&[variables.len() as u8]).bytes(variables)
}

/// The names in an update of the simulation.
fn names(update: &Update) -> Vec<String> {
    let texts = update.values.iter().filter_map(|(variable, value)| match value {
        Value::Texts(texts) if *variable == DEPARTED => Some(texts.clone()),
        _ => None,
    });
    texts.flatten().collect()
}

/// The vehicle of an update, without its number. None if SUMO did not say all of it, or has no place
/// for it at the moment, for which it gives a number far outside of any map.
fn body(update: &Update) -> Option<Body> {
    let value = |wanted: u8| update.values.iter().find(|(id, _)| *id == wanted).map(|(_, it)| it);
    let number = |wanted: u8| match value(wanted)? {
        Value::Number(number) => Some(*number),
        _ => None,
    };
    let Value::Position(x, y) = value(POSITION)? else { return None };
    let Value::Text(class) = value(CLASS)? else { return None };
    let heading = wrapped((90.0 - number(ANGLE)?).to_radians());
    let (length, width) = (number(LENGTH)?, number(WIDTH)?);
    let front = Pose { position: DVec2::new(*x, *y), heading };
    let pose = Pose { position: front.point(-length / 2.0, 0.0), heading };
    let (speed, acceleration) = (number(SPEED)?, number(ACCELERATION)?);
    let somewhere = x.abs() < 1e8 && y.abs() < 1e8;
    somewhere.then_some(Body { id: 0, kind: kind(class), pose, speed, acceleration, length, width })
}

/// Refuses a vehicle that cannot be one: the sensor would see it all the same.
fn plausible(vehicle: &str, body: &Body) -> Result<(), Error> {
    let checks = [
        ("length", body.length, 0.1, 100.0, "0.1 to 100 m"),
        ("width", body.width, 0.1, 10.0, "0.1 to 10 m"),
        ("speed", body.speed, -150.0, 150.0, "at most 150 m/s"),
        // SUMO stops a vehicle within a step if it has to.
        ("acceleration", body.acceleration, -15_000.0, 15_000.0, "what a step can change"),
    ];
    for (what, found, low, high, expected) in checks {
        if !(low..=high).contains(&found) {
            return Err(Error::Vehicle { vehicle: vehicle.to_owned(), what, found, expected });
        }
    }
    Ok(())
}

/// Kind of a vehicle class of SUMO's.
fn kind(class: &str) -> Kind {
    match class {
        "bicycle" | "motorcycle" | "moped" | "scooter" => Kind::Cyclist,
        "pedestrian" | "wheelchair" => Kind::Pedestrian,
        "truck" | "trailer" | "bus" | "coach" | "delivery" | "emergency" => Kind::Truck,
        _ => Kind::Car,
    }
}

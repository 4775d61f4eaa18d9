//! Commands to SUMO about the ego vehicle.

use super::{Error, Item, MOVE_TO_XY, Reader, SET_VEHICLE, Sumo, Value, Writer};
use crate::body::Body;
use glam::DVec2;

const GET_SIMULATION: u8 = 0xAB;
const SET_ROUTE: u8 = 0xC6;
const CONVERT_POSITION: u8 = 0x82;
const ADD: u8 = 0x80;
const ADD_VEHICLE: u8 = 0x85;
const REMOVE: u8 = 0x81;
const LENGTH: u8 = 0x44;
const WIDTH: u8 = 0x4D;
/// A place on the roads, as a result of [`CONVERT_POSITION`].
const ON_ROADS: u8 = 0x04;
/// Reason of a removal by a command.
const VAPORIZED: u8 = 3;
/// `moveToXY`: on the vehicle's route, but wherever beside it.
const ON_ROUTE: u8 = 3;
/// The name of the ego's route.
const ROUTE: &str = "keeptime-route";

impl Sumo {
    /// Puts the ego vehicle somewhere, on or off the roads, from the next step on.
    ///
    /// # Errors
    /// If there is no vehicle of its name, or SUMO does not answer.
    pub fn place(&mut self, ego: &Body) -> Result<(), Error> {
        let front = ego.pose.point(ego.length / 2.0, 0.0);
        let degrees = (90.0 - ego.pose.heading.to_degrees()).rem_euclid(360.0);
        let items = [
            Item::Text(""),
            Item::Integer(-1),
            Item::Double(front.x),
            Item::Double(front.y),
            Item::Double(degrees),
            Item::Byte(self.freedom),
        ];
        let command = Writer::new(SET_VEHICLE).bytes(&[MOVE_TO_XY]).string(&self.ego);
        let answer = self.ask(command.compound(&items))?;
        Reader::new(&answer).status(SET_VEHICLE, "moveToXY")
    }

    /// Lets the ego vehicle come in at the next step, where it is, and keeps it on the route over
    /// these places, so that others know where it will go. A vehicle nearer than `free` says for
    /// its speed (m/s) vanishes: none could have come there.
    ///
    /// # Errors
    /// If a place is on no edge, if the edges are no route, or SUMO does not answer.
    pub fn enter(
        &mut self,
        ego: &Body,
        route: &[DVec2],
        free: impl Fn(f64) -> f64,
    ) -> Result<(), Error> {
        let mut edges: Vec<String> = Vec::new();
        for place in route {
            let edge = self.edge(*place)?;
            if edges.last() != Some(&edge) {
                edges.push(edge);
            }
        }
        let names: Vec<&str> = edges.iter().map(String::as_str).collect();
        let command = Writer::new(SET_ROUTE).bytes(&[ADD]).string(ROUTE).strings(&names);
        self.tell(command, SET_ROUTE, "the ego's route")?;
        self.clear(ego, free)?;
        let [none, now] = ["", "now"].map(Item::Text);
        let [first, base, zero] = ["first", "base", "0"].map(Item::Text);
        let [current, most] = ["current", "max"].map(Item::Text);
        let (route, kind) = (Item::Text(ROUTE), Item::Text("DEFAULT_VEHTYPE"));
        let nobody = Item::Integer(0);
        let items = [
            route, kind, now, first, base, zero, current, most, current, none, none, none, nobody,
            nobody,
        ];
        self.set(ADD_VEHICLE, "the ego", |it| it.compound(&items))?;
        self.set(LENGTH, "the ego's length", |it| it.item(&Item::Double(ego.length)))?;
        self.set(WIDTH, "the ego's width", |it| it.item(&Item::Double(ego.width)))?;
        self.freedom = ON_ROUTE;
        self.place(ego)
    }

    /// The edge at a place.
    fn edge(&mut self, place: DVec2) -> Result<String, Error> {
        let items = [Item::Position(place.x, place.y), Item::UnsignedByte(ON_ROADS)];
        let command = Writer::new(GET_SIMULATION).bytes(&[CONVERT_POSITION]).string("");
        let answer = self.ask(command.compound(&items))?;
        let mut reader = Reader::new(&answer);
        reader.status(GET_SIMULATION, "convertRoad")?;
        match reader.answer()? {
            Value::Edge(edge, _) if !edge.is_empty() => Ok(edge),
            _ => Err(Error::Route { x: place.x, y: place.y }),
        }
    }

    fn clear(&mut self, ego: &Body, free: impl Fn(f64) -> f64) -> Result<(), Error> {
        let near = |body: &Body| {
            body.id != 0 && body.pose.position.distance(ego.pose.position) < free(body.speed)
        };
        let taken: Vec<u32> = self.bodies.iter().filter(|it| near(it)).map(|it| it.id).collect();
        let named = self.numbers.iter().filter(|(_, number)| taken.contains(number));
        let names: Vec<String> = named.map(|(name, _)| name.clone()).collect();
        for name in names {
            let command = Writer::new(SET_VEHICLE).bytes(&[REMOVE]).string(&name);
            let command = command.item(&Item::Byte(VAPORIZED));
            self.tell(command, SET_VEHICLE, "removal of a vehicle")?;
        }
        self.bodies.retain(|body| !taken.contains(&body.id));
        Ok(())
    }

    /// Sets a variable of the ego vehicle.
    fn set(
        &mut self,
        variable: u8,
        command: &'static str,
        value: impl FnOnce(Writer) -> Writer,
    ) -> Result<(), Error> {
        let begun = Writer::new(SET_VEHICLE).bytes(&[variable]).string(&self.ego);
        self.tell(value(begun), SET_VEHICLE, command)
    }

    fn tell(&mut self, command: Writer, id: u8, name: &'static str) -> Result<(), Error> {
        let answer = self.ask(command)?;
        Reader::new(&answer).status(id, name)
    }
}

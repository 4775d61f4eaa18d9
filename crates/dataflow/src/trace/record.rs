//! Events as records of the project's trace files, and back. What a record says is in the table of
//! [`::record::Flow`]; an event that needs more numbers than a record has is followed by records
//! that say the rest.
//!
//! A file is an allegation: what is no event is an [`Odd`], and numbers of modules, sources and groups
//! are held to those that have names.

use ::record::{Flow, Kind, Record};

use super::{Class, Core, Denial, Event, Names, Point, RunEnd};
use crate::{ModuleId, Path, SourceId};

/// A record that is no part of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("record {at}: {found} is not {expected}")]
pub struct Odd {
    /// Its place in the list, from 0.
    pub at: usize,
    /// Value that the record holds.
    pub found: u64,
    /// Description of the value that it should hold.
    pub expected: &'static str,
}

/// Latest time of the clock of a drive: 13 days.
const LATEST_NS: u64 = 1 << 50;

const CLASSES: [Class; 3] = [Class::Host, Class::Guest, Class::Ahead];
const PATHS: [Path; 2] = [Path::Normal, Path::Fast];
const OUTCOMES: [RunEnd; 4] = [RunEnd::Done, RunEnd::Cancelled, RunEnd::Nothing, RunEnd::Failed];
const DENIALS: [Option<Denial>; 4] =
    [None, Some(Denial::Unknown), Some(Denial::Slack), Some(Denial::Suspended)];

fn code<T: PartialEq>(all: &[T], it: &T) -> u64 {
    all.iter().position(|other| other == it).unwrap_or(0) as u64
}

/// Packs the core of a run and its role there into one number.
fn place(core: Core, class: Class) -> u64 {
    u64::from(core.group) << 16 | u64::from(core.index) | code(&CLASSES, &class) << 32
}

/// The records of an event, the first of up to three.
pub fn encode(event: &Event, into: &mut Vec<Record>) {
    let mut put = |flow, subject, detail, number| {
        let (time, kind) = (event.at_ns, Kind::Flow(flow));
        into.push(Record { time, subject, detail, number, kind });
    };
    let job = event.job;
    match event.point {
        Point::Injected { message, source, frame, captured_ns } => {
            put(Flow::Injected, job, message, u32::from(source.0));
            put(Flow::More, frame, captured_ns, 0);
        }
        Point::Arrived { message, module, kept } => {
            put(Flow::Arrived, job, message, u32::from(module.0) | u32::from(kept) << 16);
        }
        Point::Start { module, core, class, path, here_ns, downstream_ns, deadline_ns } => {
            let how = place(core, class) | code(&PATHS, &path) << 40;
            put(Flow::Start, job, how, module.map_or(0, |module| u32::from(module.0) + 1));
            put(Flow::More, here_ns, downstream_ns, 0);
            put(Flow::More, deadline_ns, 0, 0);
        }
        Point::Piece { of, core, class } => {
            put(Flow::Piece, job, place(core, class), 0);
            put(Flow::More, of, 0, 0);
        }
        Point::Returned { core } => put(Flow::Returned, job, place(core, Class::Host), 0),
        Point::Divided { pieces } => put(Flow::Divided, job, pieces.into(), 0),
        Point::Read { message } => put(Flow::Read, job, message, 0),
        Point::Resumed => put(Flow::Resumed, job, 0, 0),
        Point::Paused => put(Flow::Paused, job, 0, 0),
        Point::Published { message, frame, part, of } => {
            put(Flow::Published, job, message, u32::from(part) << 16 | u32::from(of));
            put(Flow::More, frame, 0, 0);
        }
        Point::Serialised { message, bytes, took_ns } => {
            put(Flow::Serialised, job, message, bytes);
            put(Flow::More, took_ns, 0, 0);
        }
        Point::Deserialised { message, bytes, took_ns } => {
            put(Flow::Deserialised, job, message, bytes);
            put(Flow::More, took_ns, 0, 0);
        }
        Point::Actuated { message } => put(Flow::Actuated, job, message, 0),
        Point::End { outcome, service_ns } => {
            put(Flow::End, job, service_ns, code(&OUTCOMES, &outcome) as u32);
        }
        Point::AheadAsked { version } => put(Flow::AheadAsked, job, version, 0),
        Point::AheadDropped { version } => put(Flow::AheadDropped, job, version, 0),
        Point::AheadTaken { hit } => put(Flow::AheadTaken, job, 0, u32::from(hit)),
        Point::Steal { module, group, denied } => {
            let number = u32::from(module.0) | (code(&DENIALS, &denied) as u32) << 16;
            put(Flow::Steal, job, group.into(), number);
        }
        Point::Overrun { group, delay_ns } => put(Flow::Overrun, job, delay_ns, group.into()),
    }
}

/// The events of these records.
///
/// # Errors
/// The first record that is no part of an event.
pub fn decode(records: &[Record], names: &Names) -> Result<Vec<Event>, Odd> {
    let mut reader = Reader { records, names, at: 0 };
    let mut events = Vec::new();
    let mut latest = 0;
    while let Some(record) = records.get(reader.at) {
        if !(latest..LATEST_NS).contains(&record.time) {
            return reader.odd(record.time, "a time after the one before, in ns");
        }
        latest = record.time;
        let point = reader.point(record)?;
        events.push(Event { at_ns: record.time, job: record.subject, point });
        reader.at += 1;
    }
    Ok(events)
}

struct Reader<'r> {
    records: &'r [Record],
    names: &'r Names,
    /// The record that is being read.
    at: usize,
}

impl Reader<'_> {
    fn odd<T>(&self, found: u64, expected: &'static str) -> Result<T, Odd> {
        Err(Odd { at: self.at, found, expected })
    }

    /// One of a few.
    fn one<T: Copy>(&self, all: &[T], found: u64, expected: &'static str) -> Result<T, Odd> {
        let place = usize::try_from(found).ok();
        let it = place.and_then(|place| all.get(place)).copied();
        it.map_or_else(|| self.odd(found, expected), Ok)
    }

    /// A number that has a name.
    fn named(&self, names: &[String], found: u64, expected: &'static str) -> Result<u16, Odd> {
        match u16::try_from(found) {
            Ok(number) if usize::from(number) < names.len() => Ok(number),
            _ => self.odd(found, expected),
        }
    }

    fn module(&self, found: u64) -> Result<ModuleId, Odd> {
        Ok(ModuleId(self.named(&self.names.modules, found, "the number of a module")?))
    }

    fn group(&self, found: u64) -> Result<u16, Odd> {
        self.named(&self.names.groups, found, "the number of a group")
    }

    /// The next record, which says more of the same event.
    fn more(&mut self) -> Result<(u64, u64), Odd> {
        self.at += 1;
        match self.records.get(self.at) {
            Some(record) if record.kind == Kind::Flow(Flow::More) => {
                Ok((record.subject, record.detail))
            }
            Some(record) => self.odd(record.kind.code().into(), "more of the event before it"),
            None => self.odd(0, "more of the event before it"),
        }
    }

    fn point(&mut self, record: &Record) -> Result<Point, Odd> {
        let Record { detail, number, .. } = *record;
        let (low, high) = (u64::from(number & 0xffff), u64::from(number >> 16));
        let Kind::Flow(flow) = record.kind else {
            return self.odd(record.kind.code().into(), "an event of a graph");
        };
        Ok(match flow {
            Flow::Injected => {
                let expected = "the number of a source";
                let source = self.named(&self.names.sources, number.into(), expected)?;
                let (frame, captured_ns) = self.more()?;
                Point::Injected { message: detail, source: SourceId(source), frame, captured_ns }
            }
            Flow::Arrived => {
                Point::Arrived { message: detail, module: self.module(low)?, kept: high != 0 }
            }
            Flow::Start => self.start(detail, number)?,
            Flow::Piece => {
                let (core, class) = self.place(detail)?;
                let (of, _) = self.more()?;
                Point::Piece { of, core, class }
            }
            Flow::Returned => match self.place(detail)? {
                (core, Class::Host) => Point::Returned { core },
                _ => return self.odd(detail, "a core of its own group"),
            },
            Flow::Divided => match u32::try_from(detail) {
                Ok(pieces) => Point::Divided { pieces },
                Err(_) => return self.odd(detail, "a number of pieces"),
            },
            Flow::Read => Point::Read { message: detail },
            Flow::Resumed => Point::Resumed,
            Flow::Paused => Point::Paused,
            Flow::Published => {
                let (part, of) = (high as u16, low as u16);
                let (frame, _) = self.more()?;
                Point::Published { message: detail, frame, part, of }
            }
            Flow::Serialised => {
                let (took_ns, _) = self.more()?;
                Point::Serialised { message: detail, bytes: number, took_ns }
            }
            Flow::Deserialised => {
                let (took_ns, _) = self.more()?;
                Point::Deserialised { message: detail, bytes: number, took_ns }
            }
            Flow::Actuated => Point::Actuated { message: detail },
            Flow::End => {
                let outcome = self.one(&OUTCOMES, number.into(), "an outcome")?;
                Point::End { outcome, service_ns: detail }
            }
            Flow::AheadAsked => Point::AheadAsked { version: detail },
            Flow::AheadDropped => Point::AheadDropped { version: detail },
            Flow::AheadTaken => Point::AheadTaken { hit: number != 0 },
            Flow::Steal => {
                let denied = self.one(&DENIALS, high, "a reason to keep a guest out")?;
                Point::Steal { module: self.module(low)?, group: self.group(detail)?, denied }
            }
            Flow::Overrun => Point::Overrun { group: self.group(number.into())?, delay_ns: detail },
            Flow::More => return self.odd(Flow::More as u64, "the beginning of an event"),
        })
    }

    fn place(&self, place: u64) -> Result<(Core, Class), Odd> {
        let core = Core { group: self.group(place >> 16 & 0xffff)?, index: place as u16 };
        Ok((core, self.one(&CLASSES, place >> 32, "a class of runs")?))
    }

    fn start(&mut self, place: u64, number: u32) -> Result<Point, Odd> {
        let module = number.checked_sub(1).map(|module| self.module(module.into())).transpose()?;
        let (core, class) = self.place(place & ((1 << 40) - 1))?;
        let path = self.one(&PATHS, place >> 40, "a path")?;
        let (here_ns, downstream_ns) = self.more()?;
        let (deadline_ns, _) = self.more()?;
        Ok(Point::Start { module, core, class, path, here_ns, downstream_ns, deadline_ns })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Names {
        let list = |count| (0..count).map(|number| format!("n{number}")).collect();
        Names { modules: list(3), groups: list(2), sources: list(2), topics: list(3) }
    }

    fn all() -> Vec<Event> {
        let (module, core) = (ModuleId(2), Core { group: 1, index: 3 });
        let start = |module, class, path| Point::Start {
            module,
            core,
            class,
            path,
            here_ns: 5,
            downstream_ns: 6,
            deadline_ns: u64::MAX,
        };
        let points = [
            Point::Injected { message: 7, source: SourceId(1), frame: 1 << 40, captured_ns: 9 },
            Point::Arrived { message: 7, module, kept: true },
            Point::Arrived { message: 7, module, kept: false },
            start(Some(module), Class::Guest, Path::Fast),
            start(None, Class::Ahead, Path::Normal),
            Point::Piece { of: 1 << 50, core, class: Class::Guest },
            Point::Returned { core },
            Point::Divided { pieces: 4 },
            Point::Read { message: 7 },
            Point::Resumed,
            Point::Paused,
            Point::Published { message: 8, frame: 3, part: 1, of: 2 },
            Point::Serialised { message: 8, bytes: u32::MAX, took_ns: 1 << 40 },
            Point::Deserialised { message: 7, bytes: 9, took_ns: 10 },
            Point::Actuated { message: 8 },
            Point::End { outcome: RunEnd::Failed, service_ns: 11 },
            Point::AheadAsked { version: 4 },
            Point::AheadDropped { version: 4 },
            Point::AheadTaken { hit: true },
            Point::Steal { module, group: 1, denied: Some(Denial::Suspended) },
            Point::Steal { module, group: 0, denied: None },
            Point::Overrun { group: 1, delay_ns: 12 },
        ];
        let event = |(at_ns, point)| Event { at_ns, job: at_ns * 3, point };
        (100..).zip(points).map(event).collect()
    }

    #[test]
    fn every_event_comes_back_as_it_was() {
        let mut records = Vec::new();
        all().iter().for_each(|event| encode(event, &mut records));
        assert_eq!(decode(&records, &names()), Ok(all()));
    }

    #[test]
    fn records_that_are_no_events_are_refused_with_their_place() {
        let mut records = Vec::new();
        all().iter().for_each(|event| encode(event, &mut records));
        let few = Names { modules: vec!["a".to_owned()], ..names() };
        let odd = decode(&records, &few).unwrap_err();
        assert_eq!((odd.at, odd.found), (2, 2), "{odd}");
        let cut = decode(&records[..1], &names()).unwrap_err();
        assert_eq!(cut.at, 1, "{cut}");
        let within = decode(&records[1..], &names()).unwrap_err();
        assert_eq!(within.to_string(), "record 0: 78 is not the beginning of an event");
    }

    #[test]
    fn any_records_are_events_or_refused() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut records = Vec::new();
        all().iter().for_each(|event| encode(event, &mut records));
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut broken = records.clone();
            let record = &mut broken[random() as usize % records.len()];
            match random() % 4 {
                0 => record.detail = random(),
                1 => record.number = random() as u32,
                2 => record.kind = Kind::from_code(0x40 + (random() % 19) as u16).unwrap(),
                _ => record.kind = Kind::Switch,
            }
            refused += u32::from(decode(&broken, &names()).is_err());
        }
        assert!((5_000..19_000).contains(&refused), "{refused}");
    }
}

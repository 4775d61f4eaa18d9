//! The trace events that are used, taken out of the bytes of a page.
//!
//! [`Formats`] is made of the kernel's own descriptions, one lookup by name for each field;
//! [`Formats::decode`] then reads an event with a few loads. Called by `scheduler`.

use super::format::{Field, FormatError, Section, sections};
use super::page::Layout;

/// Events of the whole machine, by subsystem and name. All are needed.
pub const SCHEDULER: [&str; 6] = [
    "sched/sched_switch",
    "sched/sched_waking",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_pi_setprio",
    "task/task_newtask",
];

/// Events of the program alone, if they are wanted.
pub const FUTEX: [&str; 2] = ["syscalls/sys_enter_futex", "syscalls/sys_exit_futex"];

/// The event happened in an interrupt: the thread that ran has nothing to do with it.
const IN_INTERRUPT: u64 = 0x08 | 0x10 | 0x40;
/// The bits of a thread's state that say why it does not run. Above them stands that it was
/// preempted, which is known when there are none.
const STATE: u64 = 0xff;
/// A new task shares its process with the one that made it.
const CLONE_THREAD: u64 = 0x0001_0000;

/// A thread that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread<'a> {
    /// Its id.
    pub id: u32,
    /// The kernel's number: smaller is more urgent. A deadline thread's -1 is shown as 0.
    pub priority: u16,
    /// Its name.
    pub name: &'a [u8],
}

/// An event of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // The fields are named like the kernel's.
pub enum Event<'a> {
    /// A processor goes from one thread to another.
    Switch { from: Thread<'a>, from_state: u32, to: Thread<'a> },
    /// A thread or an interrupt begins to wake a thread; `waker` is 0 for an interrupt.
    Waking { waker: u32, wakee: Thread<'a> },
    /// A thread became runnable, perhaps by an interrupt on its own processor.
    Wakeup { waker: u32, wakee: Thread<'a> },
    /// A new thread became runnable.
    WakeupNew { waker: u32, wakee: Thread<'a> },
    /// A thread's priority changed by inheritance.
    Boost { thread: u32, name: &'a [u8], old: u16, new: u16 },
    /// A new thread, of the same process as its parent or of a new one.
    Born { parent: u32, thread: u32, name: &'a [u8], same_process: bool },
    /// A futex call begins.
    FutexEnter { thread: u32, address: u64, operation: u32, value: u32 },
    /// A futex call ends.
    FutexExit { thread: u32, result: u64 },
}

/// Positions of an event's fields.
#[derive(Clone, Debug)]
enum Shape {
    Switch([Field; 7]),
    Waking([Field; 3]),
    Wakeup([Field; 3]),
    WakeupNew([Field; 3]),
    Boost([Field; 4]),
    Born([Field; 3]),
    FutexEnter([Field; 3]),
    FutexExit([Field; 1]),
}

#[derive(Clone, Debug)]
struct Known {
    id: u16,
    flags: Field,
    pid: Field,
    shape: Shape,
}

/// Layout of the running kernel's events and pages.
#[derive(Clone, Debug)]
pub struct Formats {
    /// Layout of a page.
    pub page: Layout,
    id: Field,
    pid: Field,
    events: Vec<Known>,
}

impl Formats {
    /// Parses the text of `events/header_page` and the `format` files of events after it.
    ///
    /// # Errors
    /// Fails if a field that is used, or an event that is always needed, is absent.
    pub fn parse(text: &str) -> Result<Formats, FormatError> {
        let sections = sections(text)?;
        let page = Layout::new(&sections[0])?;
        let mut events = Vec::new();
        let mut common = None;
        for section in &sections[1..] {
            if let Some(known) = Known::new(section)? {
                let of_all = (section.number("common_type")?, section.number("common_pid")?);
                common.get_or_insert(of_all);
                events.push(known);
            }
        }
        let names = || sections.iter().map(|section| section.name.as_str());
        for wanted in SCHEDULER.map(|path| path.rsplit('/').next().unwrap_or(path)) {
            if !names().any(|name| name == wanted) {
                return Err(FormatError { event: wanted.into(), what: "no description".into() });
            }
        }
        let absent = FormatError { event: "any".into(), what: "no field common_type".into() };
        let (id, pid) = common.ok_or(absent)?;
        Ok(Formats { page, id, pid, events })
    }

    /// The thread that ran when an event happened, also for events that are not used.
    pub fn running(&self, data: &[u8]) -> Option<u32> {
        Some(self.pid.number(data)? as u32)
    }

    /// The event in the data of a page's entry; `None` for events that are not used, and for
    /// data too short for what it should hold.
    pub fn decode<'a>(&self, data: &'a [u8]) -> Option<Event<'a>> {
        let id = self.id.number(data)?;
        self.events.iter().find(|known| u64::from(known.id) == id)?.decode(data)
    }
}

fn fields<const N: usize>(section: &Section, names: [&str; N]) -> Result<[Field; N], FormatError> {
    let mut fields = [section.number("common_pid")?; N];
    for (field, name) in fields.iter_mut().zip(names) {
        let text = name == "comm" || name.ends_with("_comm");
        *field = if text { section.field(name)? } else { section.number(name)? };
    }
    Ok(fields)
}

impl Known {
    fn new(section: &Section) -> Result<Option<Known>, FormatError> {
        let wakee = ["comm", "pid", "prio"];
        let switch = [
            "prev_comm",
            "prev_pid",
            "prev_prio",
            "prev_state",
            "next_comm",
            "next_pid",
            "next_prio",
        ];
        let shape = match section.name.as_str() {
            "sched_switch" => Shape::Switch(fields(section, switch)?),
            "sched_waking" => Shape::Waking(fields(section, wakee)?),
            "sched_wakeup" => Shape::Wakeup(fields(section, wakee)?),
            "sched_wakeup_new" => Shape::WakeupNew(fields(section, wakee)?),
            "sched_pi_setprio" => {
                Shape::Boost(fields(section, ["comm", "pid", "oldprio", "newprio"])?)
            }
            "task_newtask" => Shape::Born(fields(section, ["comm", "pid", "clone_flags"])?),
            "sys_enter_futex" => Shape::FutexEnter(fields(section, ["uaddr", "op", "val"])?),
            "sys_exit_futex" => Shape::FutexExit(fields(section, ["ret"])?),
            _ => return Ok(None),
        };
        let missing = || FormatError { event: section.name.clone(), what: "no ID".into() };
        let id = section.id.ok_or_else(missing)?;
        let (flags, pid) = (section.number("common_flags")?, section.number("common_pid")?);
        Ok(Some(Known { id, flags, pid, shape }))
    }

    fn decode<'a>(&self, data: &'a [u8]) -> Option<Event<'a>> {
        let running = self.pid.number(data)? as u32;
        let waker = || {
            let flags = self.flags.number(data)?;
            Some(if flags & IN_INTERRUPT == 0 { running } else { 0 })
        };
        let event = match &self.shape {
            Shape::Switch([from_name, from, from_priority, state, to_name, to, to_priority]) => {
                Event::Switch {
                    from: thread(data, [from_name, from, from_priority])?,
                    from_state: (state.number(data)? & STATE) as u32,
                    to: thread(data, [to_name, to, to_priority])?,
                }
            }
            Shape::Waking(wakee) => {
                Event::Waking { waker: waker()?, wakee: thread(data, wakee.each_ref())? }
            }
            Shape::Wakeup(wakee) => {
                Event::Wakeup { waker: waker()?, wakee: thread(data, wakee.each_ref())? }
            }
            Shape::WakeupNew(wakee) => {
                Event::WakeupNew { waker: waker()?, wakee: thread(data, wakee.each_ref())? }
            }
            Shape::Boost([name, thread, old, new]) => Event::Boost {
                thread: thread.number(data)? as u32,
                name: name.text(data)?,
                old: priority(old.number(data)?),
                new: priority(new.number(data)?),
            },
            Shape::Born([name, thread, flags]) => Event::Born {
                parent: running,
                thread: thread.number(data)? as u32,
                name: name.text(data)?,
                same_process: flags.number(data)? & CLONE_THREAD != 0,
            },
            Shape::FutexEnter([address, operation, value]) => Event::FutexEnter {
                thread: running,
                address: address.number(data)?,
                operation: operation.number(data)? as u32,
                value: value.number(data)? as u32,
            },
            Shape::FutexExit([result]) => {
                Event::FutexExit { thread: running, result: result.number(data)? }
            }
        };
        Some(event)
    }
}

fn thread<'a>(data: &'a [u8], [name, id, prio]: [&Field; 3]) -> Option<Thread<'a>> {
    Some(Thread {
        id: id.number(data)? as u32,
        priority: priority(prio.number(data)?),
        name: name.text(data)?,
    })
}

fn priority(value: u64) -> u16 {
    (value as i64).clamp(0, i64::from(u16::MAX)) as u16
}

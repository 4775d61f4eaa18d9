//! Pages that a kernel 6.18 wrote, against what the same kernel printed of them.
//!
//! `data/tracefs-NAME.page` is a page of `trace_pipe_raw`, `data/tracefs-NAME.txt` the lines of
//! `trace` for the same events: thread, flags, time, and the event as the kernel prints it.
//! The page `missed` is the first of a small buffer that kept the last events.

use trace::kernel::events::{Event, Formats};
use trace::kernel::page::{Head, Missed, parse_page};

fn formats() -> Formats {
    Formats::parse(include_str!("data/tracefs-formats.txt")).unwrap()
}

fn text(name: &[u8]) -> &str {
    std::str::from_utf8(name).unwrap()
}

/// The names of the states that these pages have.
fn state(number: u32) -> &'static str {
    match number {
        0 => "R",
        1 => "S",
        2 => "D",
        16 => "X",
        128 => "I",
        other => panic!("state {other}"),
    }
}

/// The kernel prints an argument below ten without a prefix.
fn small(value: u64) -> String {
    if value < 10 { value.to_string() } else { format!("{value:#x}") }
}

/// As much of the kernel's line as is taken from the event.
fn line(event: Event<'_>) -> String {
    let woken = |name: &str, wakee: trace::kernel::events::Thread<'_>| {
        let (comm, pid, prio) = (text(wakee.name), wakee.id, wakee.priority);
        format!("{name}: comm={comm} pid={pid} prio={prio} target_cpu=")
    };
    match event {
        Event::Switch { from, from_state, to } => format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio={} prev_state={} ==> next_comm={} \
             next_pid={} next_prio={}",
            text(from.name),
            from.id,
            from.priority,
            state(from_state),
            text(to.name),
            to.id,
            to.priority
        ),
        Event::Waking { wakee, .. } => woken("sched_waking", wakee),
        Event::Wakeup { wakee, .. } => woken("sched_wakeup", wakee),
        Event::WakeupNew { wakee, .. } => woken("sched_wakeup_new", wakee),
        Event::Boost { thread, name, old, new } => {
            let name = text(name);
            format!("sched_pi_setprio: comm={name} pid={thread} oldprio={old} newprio={new}")
        }
        Event::Born { thread, name, same_process, .. } => {
            assert!(same_process);
            format!("task_newtask: pid={thread} comm={} clone_flags=", text(name))
        }
        Event::FutexEnter { address, operation, value, .. } => {
            let value = small(value.into());
            format!("sys_futex( uaddr: {address:#x}, op: {operation:#x}, val: {value}, ")
        }
        Event::FutexExit { result, .. } => format!("sys_futex -> {result:#x}"),
    }
}

fn actor(event: Event<'_>) -> Option<u32> {
    match event {
        Event::Switch { from, .. } => Some(from.id),
        Event::Waking { waker, .. } | Event::Wakeup { waker, .. } => Some(waker),
        Event::WakeupNew { waker, .. } => Some(waker),
        Event::Born { parent, .. } => Some(parent),
        Event::FutexEnter { thread, .. } | Event::FutexExit { thread, .. } => Some(thread),
        Event::Boost { .. } => None,
    }
}

fn same_as_printed(page: &[u8], printed: &str) {
    let formats = formats();
    let mut printed = printed.lines();
    let mut compared = 0;
    let head = parse_page(page, &formats.page, &mut |time, data| {
        let words = printed.next().expect("a printed line for each event");
        let mut words = words.splitn(4, ' ');
        let [thread, flags, at, said] = [(); 4].map(|()| words.next().expect("four parts"));
        let event = formats.decode(data).expect("an event that is known");
        assert_eq!((time, formats.running(data)), (at.parse().unwrap(), thread.parse().ok()));
        let in_interrupt = flags.contains(['h', 's', 'H']);
        let expected = if in_interrupt { Some(0) } else { thread.parse().ok() };
        assert!(actor(event).is_none_or(|actor| Some(actor) == expected), "{event:?} {flags}");
        let (line, said) = (line(event), said.replace("prev_state=R+", "prev_state=R"));
        assert!(said.starts_with(&line), "{line}\nbut the kernel printed\n{said}");
        compared += 1;
    });
    assert_eq!(head.unwrap().missed, Missed::Nothing);
    assert_eq!(printed.next(), None);
    assert!(compared >= 20, "{compared} events");
}

#[test]
fn switches_and_wakeups_are_what_the_kernel_prints() {
    let page = include_bytes!("data/tracefs-switches.page");
    same_as_printed(page, include_str!("data/tracefs-switches.txt"));
}

#[test]
fn births_and_inherited_priorities_are_what_the_kernel_prints() {
    let page = include_bytes!("data/tracefs-boost.page");
    same_as_printed(page, include_str!("data/tracefs-boost.txt"));
}

#[test]
fn futex_calls_are_what_the_kernel_prints() {
    let page = include_bytes!("data/tracefs-futex.page");
    same_as_printed(page, include_str!("data/tracefs-futex.txt"));
}

#[test]
fn first_page_after_an_overrun_says_how_many_events_are_missing() {
    let page = include_bytes!("data/tracefs-missed.page");
    let mut events = 0;
    let formats = formats();
    let head: Head = parse_page(page, &formats.page, &mut |_, data| {
        assert!(formats.decode(data).is_some());
        events += 1;
    })
    .unwrap();
    let Missed::Counted(count) = head.missed else { panic!("{head:?}") };
    assert!(events == 76 && count > 100, "{events} events, {count} missing");
}

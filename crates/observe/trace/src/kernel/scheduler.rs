//! The collector of tier `Scheduler`: every switch and wake-up of the machine, through tracefs.
//!
//! The kernel writes into a buffer of its own for each processor, stamped with the counter that
//! the rest of a trace uses, and it is not read while the program runs: a reader would need a
//! processor, and would starve when real-time threads have them all. When the program has ended,
//! the tracer is stopped and the pages are read.
//!
//! Futex calls go to a second instance, which follows the program and what it starts: a filter
//! by process holds for all events of an instance, and switches are wanted of everybody.
//! Called by [`super::Collector`].

use super::events::{FUTEX, Formats, SCHEDULER};
use super::page::{Missed, PageError, parse_head, parse_page};
use super::streams::Streams;
use super::tracefs::{Instance, Tracefs};
use super::{Collected, Error, Request};
use crate::metadata::LostRange;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::sync::Arc;

/// The tracer's name of the clock that `record::clock::now` reads.
const CLOCK: &str = if cfg!(target_arch = "x86_64") { "x86-tsc" } else { "mono" };
/// Below this there is no use in trying again with half.
const SMALLEST_BUFFER_KB: u64 = 64;
/// The namespace of process ids that every kernel starts with.
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// A recording that runs.
#[derive(Debug)]
pub(super) struct Scheduler {
    machine: Instance,
    program: Option<Instance>,
    formats: Formats,
    process: u32,
    started: u64,
    notes: Vec<String>,
}

impl Scheduler {
    /// Starts it; reasons are for what was wanted but is not recorded.
    pub(super) fn start(request: &Request, reasons: &mut Vec<String>) -> Result<Scheduler, Error> {
        check_namespace()?;
        let tracefs = Arc::new(Tracefs::find()?);
        let mut notes = Vec::new();
        for name in tracefs.remove_stale() {
            notes.push(format!("{name} of a killed recording was removed from the tracer"));
        }
        let machine = Instance::create(&tracefs)?;
        let formats = describe(&machine, request.futex)?;
        let share = if request.futex { 2 } else { 1 };
        let bytes = request.bytes_per_processor / share;
        configure(&machine, request, bytes, &SCHEDULER, &mut notes)?;
        let mut program = None;
        if request.futex {
            match follow(&tracefs, request, bytes, &mut notes) {
                Ok(instance) => program = Some(instance),
                Err(error) => reasons.push(format!("futex calls are not recorded: {error}")),
            }
        }
        let started = record::clock::now();
        for instance in program.iter().chain([&machine]) {
            instance.write("tracing_on", "1")?;
        }
        Ok(Scheduler { machine, program, formats, process: request.process, started, notes })
    }

    /// Returns true if futex calls are recorded.
    pub(super) fn futex(&self) -> bool {
        self.program.is_some()
    }

    /// Stops it and reads what there is.
    pub(super) fn finish(self) -> Collected {
        let Scheduler { machine, program, formats, process, started, mut notes } = self;
        let instances = || [Some(&machine), program.as_ref()].into_iter().flatten();
        for instance in instances() {
            if let Err(error) = instance.write("tracing_on", "0") {
                notes.push(format!("the tracer could not be stopped before it was read: {error}"));
            }
        }
        let stopped = record::clock::now();
        let mut streams = Streams::default();
        for (index, instance) in instances().enumerate() {
            let whole = index == 0;
            let reader = Reader { instance, formats: &formats, whole, started, stopped };
            reader.read(&mut streams, &mut notes);
        }
        if program.is_some() {
            notes.push(
                "futex calls were recorded: meanwhile every system call of the machine took the \
                 kernel's slower path, so that waiters reach the kernel later and sleep less often"
                    .into(),
            );
        }
        for instance in program.into_iter().chain([machine]) {
            notes.extend(instance.remove().err().map(|error| error.to_string()));
        }
        let mut process_of =
            |thread| if thread == process { Some(process) } else { process_of(thread) };
        let finished = streams.finish(&mut process_of);
        if finished.breaks > 0 {
            notes.push(format!(
                "switches are missing in {} places where the kernel reported no loss; they are \
                 recorded as lost",
                finished.breaks
            ));
        }
        Collected { processors: finished.processors, tasks: finished.tasks, notes }
    }
}

fn check_namespace() -> Result<(), Error> {
    let namespace = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let namespace = namespace.to_string_lossy().into_owned();
    if namespace.is_empty() || namespace == FIRST_NAMESPACE {
        return Ok(());
    }
    Err(Error::Namespace { namespace })
}

fn describe(instance: &Instance, futex: bool) -> Result<Formats, Error> {
    let mut text = instance.read("events/header_page")?;
    for event in SCHEDULER {
        text.push_str(&instance.read(&format!("events/{event}/format"))?);
    }
    for event in FUTEX.iter().filter(|_| futex) {
        // A kernel without system call events: following the program will say so.
        let format = instance.read(&format!("events/{event}/format"));
        text.push_str(&format.unwrap_or_default());
    }
    Ok(Formats::parse(&text)?)
}

fn configure(
    instance: &Instance,
    request: &Request,
    bytes: u64,
    events: &[&str],
    notes: &mut Vec<String>,
) -> Result<(), Error> {
    instance.write("trace_clock", CLOCK)?;
    instance.write("options/overwrite", if request.keep_last { "1" } else { "0" })?;
    let wanted = bytes.div_ceil(1024).max(1);
    let mut size = wanted;
    while let Err(error) = instance.write("buffer_size_kb", &size.to_string()) {
        if size <= SMALLEST_BUFFER_KB {
            return Err(error);
        }
        size /= 2;
    }
    if size < wanted {
        notes.push(format!(
            "the kernel gave the tracer {size} KiB for each processor instead of {wanted} KiB"
        ));
    }
    events.iter().try_for_each(|event| instance.write(&format!("events/{event}/enable"), "1"))
}

/// An instance with the futex calls of the program and of everything it starts.
fn follow(
    tracefs: &Arc<Tracefs>,
    request: &Request,
    bytes: u64,
    notes: &mut Vec<String>,
) -> Result<Instance, Error> {
    let instance = Instance::create(tracefs)?;
    instance.write("options/event-fork", "1")?;
    instance.write("set_event_pid", &request.process.to_string())?;
    configure(&instance, request, bytes, &FUTEX, notes)?;
    Ok(instance)
}

fn process_of(thread: u32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Reads the buffers of one instance.
struct Reader<'a> {
    instance: &'a Instance,
    formats: &'a Formats,
    /// True if it has every switch, so that each event must come from the thread that came last.
    whole: bool,
    started: u64,
    stopped: u64,
}

impl Reader<'_> {
    fn read(&self, streams: &mut Streams, notes: &mut Vec<String>) {
        let processors = match self.instance.processors() {
            Ok(processors) => processors,
            Err(error) => return notes.push(format!("the tracer's records are lost: {error}")),
        };
        for processor in processors {
            let statistics = self.instance.read(&format!("per_cpu/cpu{processor}/stats"));
            let mut gaps = Gaps::new(self.started);
            if let Err(why) = self.read_processor(processor, streams, &mut gaps) {
                notes.push(format!("processor {processor}: {why}"));
                gaps.begin(Missed::Uncounted);
            }
            let lost = gaps.finish(&statistics.unwrap_or_default(), self.stopped);
            streams.lost(processor, lost);
        }
    }

    fn read_processor(
        &self,
        processor: u32,
        streams: &mut Streams,
        gaps: &mut Gaps,
    ) -> Result<(), String> {
        let mut pages = self.instance.pages(processor).map_err(|error| error.to_string())?;
        let mut page = vec![0; self.formats.page.bytes];
        while next_page(&mut pages, &mut page).map_err(|error| error.to_string())? {
            self.read_page(&page, processor, streams, gaps).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn read_page(
        &self,
        page: &[u8],
        processor: u32,
        streams: &mut Streams,
        gaps: &mut Gaps,
    ) -> Result<(), PageError> {
        let missed = parse_head(page, &self.formats.page)?.missed;
        if missed != Missed::Nothing {
            streams.interrupted(processor);
        }
        gaps.begin(missed);
        parse_page(page, &self.formats.page, &mut |time, data| {
            gaps.seen(time);
            if let Some(thread) = self.formats.running(data).filter(|_| self.whole) {
                streams.ran(processor, time, thread);
            }
            if let Some(event) = self.formats.decode(data) {
                streams.take(processor, time, event);
            }
        })?;
        Ok(())
    }
}

/// Fills a page; false when there is none left.
fn next_page(pages: &mut File, page: &mut [u8]) -> std::io::Result<bool> {
    loop {
        match pages.read(page) {
            Ok(0) => return Ok(false),
            Ok(read) => {
                page[read..].fill(0);
                return Ok(true);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Ranges in which events of one buffer are missing.
struct Gaps {
    last: u64,
    open: Option<Missed>,
    ranges: Vec<LostRange>,
    /// The first range whose size the page did not say.
    uncounted: Option<usize>,
}

impl Gaps {
    fn new(started: u64) -> Gaps {
        Gaps { last: started, open: None, ranges: Vec::new(), uncounted: None }
    }

    fn begin(&mut self, missed: Missed) {
        if missed != Missed::Nothing {
            self.open = Some(missed);
        }
    }

    fn seen(&mut self, time: u64) {
        self.close(time);
        self.last = time;
    }

    fn close(&mut self, time: u64) {
        let count = match self.open.take() {
            None | Some(Missed::Nothing) => return,
            Some(Missed::Counted(count)) => count.max(1),
            Some(Missed::Uncounted) => {
                self.uncounted.get_or_insert(self.ranges.len());
                1
            }
        };
        self.ranges.push(LostRange { count, first: self.last.min(time), last: time });
    }

    /// All ranges. What the kernel counted beyond the pages was lost where a page did not say
    /// how many; what was dropped because the buffer was full, after the last event.
    fn finish(mut self, statistics: &str, stopped: u64) -> Vec<LostRange> {
        let value = |key: &str| {
            let mut lines = statistics.lines();
            let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.and_then(|value| value.trim().parse().ok()).unwrap_or(0_u64)
        };
        self.close(stopped);
        let counted: u64 = self.ranges.iter().map(|range| range.count).sum();
        let overrun = value("overrun") + value("commit overrun");
        if let Some(index) = self.uncounted {
            self.ranges[index].count += overrun.saturating_sub(counted);
        }
        let dropped = value("dropped events");
        if dropped > 0 {
            self.ranges.push(LostRange { count: dropped, first: self.last, last: stopped });
        }
        self.ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_events_lie_between_the_last_before_and_the_first_after() {
        let mut gaps = Gaps::new(100);
        gaps.begin(Missed::Counted(7));
        gaps.seen(150);
        gaps.seen(160);
        gaps.begin(Missed::Uncounted);
        gaps.seen(190);
        let statistics = "entries: 3\noverrun: 27\ncommit overrun: 1\ndropped events: 0\n";
        let lost = |count, first, last| LostRange { count, first, last };
        assert_eq!(gaps.finish(statistics, 200), [lost(7, 100, 150), lost(21, 160, 190)]);
    }

    #[test]
    fn full_buffer_lost_everything_after_its_last_event() {
        let mut gaps = Gaps::new(100);
        gaps.seen(150);
        let lost = LostRange { count: 12, first: 150, last: 300 };
        assert_eq!(gaps.finish("overrun: 0\ndropped events: 12\n", 300), [lost]);
        assert_eq!(Gaps::new(1).finish("", 5), []);
    }
}

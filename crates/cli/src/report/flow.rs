//! `keeptime report` of a trace of drives: the numbers of each module, and the critical paths.

use std::collections::HashMap;

use anyhow::{Context, ensure};
use dataflow::trace::{Class, Event, Names, Point, Reaction, Reactions, RunEnd, record};
use report::flow::{CriticalPath, FlowDrive, FlowRun, FlowSpan, ModuleTimes, PathStep, TopicTimes};
use trace::metadata::{self, Flow};
use trace::{Stream, StreamKind, Trace};

/// Number of records above that of a drive's trace.
const MOST_RECORDS: u64 = 1 << 24;

/// Reads the drives of a trace, with the `worst` frames of each.
pub(super) fn read(trace: &Trace, flow: &Flow, worst: usize) -> anyhow::Result<FlowRun> {
    let streams = trace.streams().iter().filter(|stream| stream.kind == StreamKind::Flow);
    let streams: HashMap<u32, &Stream> = streams.map(|stream| (stream.process, stream)).collect();
    let drives = (0..).zip(&flow.drives).map(|(number, about)| {
        let stream = streams.get(&number).copied();
        let events = events(trace, stream, about);
        let events =
            events.with_context(|| format!("{}: {}", trace.path().display(), about.policy))?;
        let lost = stream.map_or(0, |stream| stream.blocks[0].missing_before);
        Ok(Reading::of(&events, about).drive(&events, lost, worst))
    });
    Ok(FlowRun {
        file: trace.path().display().to_string(),
        scenario: flow.scenario.clone(),
        stack: flow.stack.clone(),
        command: trace.metadata().command.join(" "),
        drives: drives.collect::<anyhow::Result<_>>()?,
    })
}

fn events(
    trace: &Trace,
    stream: Option<&Stream>,
    about: &metadata::FlowDrive,
) -> anyhow::Result<Vec<Event>> {
    let blocks = stream.map_or(&[][..], |stream| &stream.blocks);
    let count: u64 = blocks.iter().map(|block| u64::from(block.count)).sum();
    ensure!(count <= MOST_RECORDS, "found {count} records, expected at most {MOST_RECORDS}");
    let sources = about.sources.len();
    ensure!(
        usize::from(about.frames) < sources,
        "frames: found source {}, expected one below {sources}",
        about.frames
    );
    let (mut records, mut block_records) = (Vec::new(), Vec::new());
    for block in blocks {
        let skipped = trace.read(block, &mut block_records)?;
        ensure!(skipped == 0, "found {skipped} records of unknown kinds, expected none");
        records.append(&mut block_records);
    }
    let names = Names {
        modules: about.modules.clone(),
        groups: about.groups.clone(),
        sources: about.sources.clone(),
        topics: about.topics.clone(),
    };
    Ok(record::decode(&records, &names)?)
}

/// Data gathered in one pass over the events.
struct Reading<'a> {
    about: &'a metadata::FlowDrive,
    modules: Vec<ModuleTimes>,
    runs: HashMap<u64, Run>,
    /// Time at which a message came into a module's mailbox, by module and message.
    arrived: HashMap<(usize, u64), u64>,
    /// Times of each topic by the module that publishes on it, and then of each source.
    topics: Vec<TopicTimes>,
    /// Topic and publication time of each message.
    published: HashMap<u64, (usize, u64)>,
    spans: Vec<(u64, FlowSpan)>,
    /// Time at which each frame was captured.
    captured_ns: Vec<u64>,
    ahead: (usize, usize),
    guests: (usize, usize),
    overruns: usize,
}

struct Run {
    module: Option<usize>,
    /// The run that it is a piece of.
    of: Option<u64>,
    /// Time for which its pieces had a core.
    pieces_ns: u64,
    core: (String, u16),
    fast: bool,
    class: Class,
    start_ns: u64,
    /// True if its first message has been read.
    read: bool,
    frame: u64,
    cancelled: bool,
    /// Time since which it has its core.
    on_ns: Option<u64>,
    /// The place of its latest span.
    span: Option<usize>,
}

impl<'a> Reading<'a> {
    fn of(events: &[Event], about: &'a metadata::FlowDrive) -> Reading<'a> {
        let times = |name: &String| ModuleTimes {
            name: name.clone(),
            took_ms: Vec::new(),
            waited_ms: Vec::new(),
            fast: 0,
            guests: 0,
            cancelled: 0,
        };
        let named = |(number, module)| about.topics.get(number).unwrap_or(module);
        let topics = about.modules.iter().enumerate().map(named).chain(&about.sources);
        let mut reading = Reading {
            about,
            modules: about.modules.iter().map(times).collect(),
            runs: HashMap::new(),
            arrived: HashMap::new(),
            topics: topics.map(|of| TopicTimes::new(of)).collect(),
            published: HashMap::new(),
            spans: Vec::new(),
            captured_ns: Vec::new(),
            ahead: (0, 0),
            guests: (0, 0),
            overruns: 0,
        };
        events.iter().for_each(|event| reading.note(event));
        reading
    }

    fn note(&mut self, event: &Event) {
        let at_ns = event.at_ns;
        match event.point {
            Point::Injected { message, source, captured_ns, .. } => {
                let topic = self.about.modules.len() + source.index();
                self.published.insert(message, (topic, at_ns));
                if source.index() == usize::from(self.about.frames) {
                    self.captured_ns.push(captured_ns);
                }
            }
            Point::Arrived { message, module, .. } => {
                self.arrived.insert((module.index(), message), at_ns);
                if let Some((topic, since_ns)) = self.published.get(&message) {
                    let hop_ns = at_ns.saturating_sub(*since_ns);
                    self.topics[*topic].hop_ms.push(hop_ns as f64 / 1e6);
                }
            }
            Point::AheadTaken { hit } => {
                self.ahead = (self.ahead.0 + usize::from(hit), self.ahead.1 + 1);
            }
            Point::Steal { denied, .. } => {
                let admitted = usize::from(denied.is_none());
                self.guests = (self.guests.0 + admitted, self.guests.1 + 1);
            }
            Point::Overrun { .. } => self.overruns += 1,
            Point::Start { module, core, class, path, .. } => {
                let module = module.map(|module| module.index());
                let fast = path == dataflow::Path::Fast;
                let run = Run { module, fast, ..self.run(core, class, at_ns) };
                self.runs.insert(event.job, run);
            }
            Point::Piece { of, core, class } => {
                let Some(whole) = self.runs.get(&of) else { return };
                let (module, fast, frame) = (whole.module, whole.fast, whole.frame);
                let of = Some(of);
                let run = Run { module, of, fast, frame, ..self.run(core, class, at_ns) };
                self.runs.insert(event.job, run);
            }
            _ => self.of_run(event),
        }
    }

    fn run(&self, core: dataflow::trace::Core, class: Class, start_ns: u64) -> Run {
        Run {
            module: None,
            of: None,
            pieces_ns: 0,
            core: (self.about.groups[usize::from(core.group)].clone(), core.index),
            fast: false,
            class,
            start_ns,
            read: false,
            frame: 0,
            cancelled: false,
            on_ns: None,
            span: None,
        }
    }

    fn of_run(&mut self, event: &Event) {
        let at_ns = event.at_ns;
        let Some(run) = self.runs.get_mut(&event.job) else { return };
        match event.point {
            Point::Read { message } if !run.read => {
                run.read = true;
                let Some(module) = run.module else { return };
                if let Some(since) = self.arrived.get(&(module, message)) {
                    let waited = run.start_ns.saturating_sub(*since);
                    self.modules[module].waited_ms.push(waited as f64 / 1e6);
                }
            }
            Point::Published { message, frame, .. } => {
                run.frame = frame;
                if let Some(module) = run.module {
                    self.published.insert(message, (module, at_ns));
                }
            }
            Point::Serialised { message, bytes, took_ns } => {
                let Some((topic, _)) = self.published.get(&message) else { return };
                self.topics[*topic].bytes.push(f64::from(bytes));
                self.topics[*topic].serialise_ms.push(took_ns as f64 / 1e6);
            }
            Point::Deserialised { message, bytes, took_ns } => {
                let Some((topic, _)) = self.published.get(&message) else { return };
                self.topics[*topic].bytes.push(f64::from(bytes));
                self.topics[*topic].deserialise_ms.push(took_ns as f64 / 1e6);
            }
            Point::Returned { core } => {
                let on = run.on_ns.is_some();
                close(&mut self.spans, run, event);
                run.core = (self.about.groups[usize::from(core.group)].clone(), core.index);
                (run.class, run.span, run.on_ns) = (Class::Host, None, on.then_some(at_ns));
            }
            Point::Resumed => run.on_ns = Some(at_ns),
            Point::Paused => close(&mut self.spans, run, event),
            Point::End { outcome, service_ns } => {
                run.cancelled = outcome == RunEnd::Cancelled;
                close(&mut self.spans, run, event);
                let Some(module) = run.module else { return };
                let times = &mut self.modules[module];
                times.guests += usize::from(run.class == Class::Guest);
                if let Some(of) = run.of {
                    if let Some(whole) = self.runs.get_mut(&of) {
                        whole.pieces_ns = whole.pieces_ns.saturating_add(service_ns);
                    }
                    return;
                }
                let took_ns = service_ns.saturating_add(run.pieces_ns);
                times.took_ms.push(took_ns as f64 / 1e6);
                times.fast += usize::from(run.fast);
                times.cancelled += usize::from(run.cancelled);
            }
            _ => {}
        }
    }

    fn drive(self, events: &[Event], lost: u64, worst: usize) -> FlowDrive {
        let reactions = Reactions::new(events);
        let source = events.iter().find_map(|event| match event.point {
            Point::Injected { source, .. } if source.index() == usize::from(self.about.frames) => {
                Some(source)
            }
            _ => None,
        });
        let first = |from_ns, wanted: &dyn Fn(u64) -> bool| {
            source.and_then(|source| reactions.first(source, from_ns, wanted))
        };
        let frames: Vec<Option<Reaction>> =
            self.captured_ns.iter().map(|captured_ns| first(*captured_ns, &|_| true)).collect();
        let unanswered = frames.iter().filter(|frame| frame.is_none()).count();
        let mut frames: Vec<Reaction> = frames.into_iter().flatten().collect();
        let frames_ms = frames.iter().map(|way| way.total_ns() as f64 / 1e6).collect();
        let carried_ms = frames.iter().map(|way| way.middleware_ns() as f64 / 1e6).collect();
        let reaction = self
            .about
            .reaction
            .and_then(|(seen_ns, command)| first(seen_ns, &|message| message == command));
        frames.sort_by_key(|way| std::cmp::Reverse(way.total_ns()));
        let path = |way: &Reaction| path(way, &self.about.modules);
        let span = |(job, span): (u64, FlowSpan)| {
            let run = &self.runs[&job];
            FlowSpan { frame: run.frame, cancelled: run.cancelled, ..span }
        };
        FlowDrive {
            policy: self.about.policy.clone(),
            driven_s: self.about.driven_ns as f64 / 1e9,
            lost,
            modules: self.modules,
            topics: self.topics,
            frames_ms,
            carried_ms,
            unanswered,
            reaction: reaction.as_ref().map(path),
            worst: frames.iter().take(worst).map(path).collect(),
            ahead: self.ahead,
            guests: self.guests,
            overruns: self.overruns,
            spans: self.spans.into_iter().map(span).collect(),
        }
    }
}

/// Ends the time in which a run has its core; a checkpoint alone is no end.
fn close(spans: &mut Vec<(u64, FlowSpan)>, run: &mut Run, event: &Event) {
    let Some(start_ns) = run.on_ns.take() else { return };
    let latest = run.span.map(|place| &mut spans[place].1);
    if let Some(latest) = latest.filter(|latest| latest.end_ns == start_ns) {
        latest.end_ns = event.at_ns;
        return;
    }
    run.span = Some(spans.len());
    let span = FlowSpan {
        module: run.module,
        core: run.core.clone(),
        frame: 0,
        start_ns,
        end_ns: event.at_ns,
        fast: run.fast,
        guest: run.class == Class::Guest,
        cancelled: false,
    };
    spans.push((event.job, span));
}

fn path(way: &Reaction, modules: &[String]) -> CriticalPath {
    let step = |step: &dataflow::trace::Step| PathStep {
        module: modules[step.module.index()].clone(),
        waited_ns: step.waited_ns,
        hop_ns: step.hop_ns,
        ran_ns: step.module_ns,
        deserialise_ns: step.deserialise_ns,
        serialise_ns: step.serialise_ns,
        preempted_ns: step.preempted_ns,
    };
    CriticalPath {
        frame: way.frame,
        from_s: way.hazard_ns as f64 / 1e9,
        sensor_ns: way.sensor_ns,
        confirm_ns: way.confirm_ns,
        steps: way.steps.iter().map(step).collect(),
    }
}

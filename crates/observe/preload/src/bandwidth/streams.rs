//! Effects of calls on the streams of the process: submissions, and the ends of streams and
//! contexts.

use super::requests::{self, Handle};
use super::{Around, Ends, PER_THREAD, State, count};
use crate::cuda::{Arguments, graph};
use crate::thread::Thread;
use bandwidth::activity::{Key, Moment, Stream, StreamPlace};
use record::bandwidth::BandwidthCount;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest time for which a call of the program's waits until the poller has asked about a stream.
const PATIENCE: Duration = Duration::from_millis(5);

/// Bytes of `CUDA_LAUNCH_PARAMS`, and where its stream is.
const LAUNCH_BYTES: usize = 56;
const LAUNCH_STREAM: usize = 40;
/// Largest number of devices of one launch.
const MOST_LAUNCHES: usize = 64;

/// Offsets of the attributes and of their number in `CUlaunchConfig`; bytes of one attribute, and
/// offset of its value.
const ATTRIBUTES: usize = 40;
const ATTRIBUTE_COUNT: usize = 48;
const ATTRIBUTE_BYTES: usize = 72;
const ATTRIBUTE_VALUE: usize = 8;
/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT` and `CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT`,
/// whose values begin with the event.
const EVENTS_OF_LAUNCHES: [u32; 2] = [7, 12];
/// `CU_GRAPH_NODE_TYPE_EVENT_RECORD`, and where the event is in `CUgraphNodeParams`.
const RECORDING_NODE: u32 = 7;
const NODE_EVENT: usize = 16;

impl State {
    /// Called before work goes to a stream. `ends` is the work known to have ended when it returns.
    #[inline]
    pub(super) fn submit(
        self,
        number: usize,
        stream: Handle,
        thread: &'static Thread,
        ends: Option<Ends>,
    ) -> Around {
        // Work that is captured does not run.
        if graph::captures() && requests::is_captured(thread, number, stream) {
            return Around::Nothing;
        }
        let Some(key) = self.key(number, stream, thread) else { return Around::Nothing };
        let Some(place) = self.begin(key, thread) else { return Around::Nothing };
        let ends = match (ends, key.stream()) {
            // The thread waits for its stream itself.
            (Some(ends), _) if !matches!(ends, Ends::Earlier(_)) => ends,
            (_, Stream::Thread) => Ends::Own(self.activity.context(place)),
            (ends, _) => ends.unwrap_or(Ends::Nothing),
        };
        Around::Submitted { place, ends }
    }

    #[inline]
    fn begin(self, key: Key, thread: &'static Thread) -> Option<StreamPlace> {
        let context = || {
            count(BandwidthCount::Streams);
            match key.stream() {
                Stream::Made(stream) => requests::context_of(thread, stream),
                _ => requests::current_context(thread).unwrap_or(0),
            }
        };
        let begun = self.activity.begin(key, context, &self.hold());
        if begun.is_none() {
            count(BandwidthCount::NoPlace);
        }
        begun
    }

    /// Called after the submission.
    #[inline]
    pub(super) fn submitted(
        self,
        place: StreamPlace,
        ends: Ends,
        succeeded: bool,
        thread: &'static Thread,
    ) {
        let hold = &self.hold();
        // Not before the call: the work need not wait for that.
        self.poller.wake();
        match ends {
            _ if !succeeded => self.activity.leave(place, hold),
            Ends::Nothing => {
                self.activity.end(place, hold);
            }
            Ends::Earlier(before) => {
                self.activity.end(place, hold);
                self.complete(place, before);
            }
            Ends::All(before) => {
                self.complete(place, before);
                self.activity.leave(place, hold);
            }
            Ends::Own(context) => {
                // Before the work may be found to have ended: the place may be another's then.
                let after = self.activity.mark();
                if self.record_own(place, 0, context, after, thread) {
                    self.activity.end_at(place, after, hold);
                } else {
                    self.activity.leave(place, hold);
                }
            }
        }
    }

    /// Records an event of this library's in a stream, 0 for the thread's own, so that the poller
    /// learns when work up to `after` has ended; false when that could not be found out.
    fn record_own(
        self,
        place: StreamPlace,
        stream: Handle,
        context: Handle,
        after: Moment,
        thread: &'static Thread,
    ) -> bool {
        let event = self.activity.event(place, context).or_else(|| {
            let event = requests::make_event(thread)?;
            let before = self.activity.set_event(place, event, context);
            if before != 0 {
                requests::destroy_event(thread, before);
            }
            Some(event)
        });
        match event {
            Some(event) if requests::record(thread, event, stream) => {
                self.activity.recorded(place, after);
                true
            }
            _ => {
                count(BandwidthCount::NotAsked);
                false
            }
        }
    }

    /// Called before launches on several devices.
    ///
    /// # Safety
    /// The arguments must be those of `cuLaunchCooperativeKernelMultiDevice`.
    pub(super) unsafe fn submit_many(self, a: &Arguments, thread: &'static Thread) -> Around {
        let launches = (a[1] & u32::MAX as usize).min(MOST_LAUNCHES);
        // SAFETY: the caller's promise.
        let keys = (0..launches).map_while(|at| unsafe { launch_key(a, at) });
        let begun = keys.map_while(|key| self.begin(key, thread)).count();
        Around::SubmittedMany(begun)
    }

    /// Called after launches on several devices.
    ///
    /// # Safety
    /// As for `submit_many`.
    pub(super) unsafe fn submitted_many(
        self,
        a: &Arguments,
        begun: usize,
        succeeded: bool,
        thread: &'static Thread,
    ) {
        for at in 0..begun {
            // SAFETY: the caller's promise. A place with a call on its way stays whose it is.
            let key = unsafe { launch_key(a, at) };
            if let Some(place) = key.and_then(|key| self.activity.find(key)) {
                self.submitted(place, Ends::Nothing, succeeded, thread);
            }
        }
    }

    /// Called before an event is recorded in a stream.
    pub(super) fn record(
        self,
        number: usize,
        event: Handle,
        stream: Handle,
        is_external: bool,
        thread: &'static Thread,
    ) -> Around {
        let is_captured = graph::captures() && requests::is_captured(thread, number, stream);
        if is_captured && is_external {
            // Each launch of the graph will record it.
            self.events.share(event);
            return Around::Nothing;
        }
        let key = if is_captured { None } else { self.key(number, stream, thread) };
        // The moment first: the place may be given to another stream when it has been found.
        let recording = self.events.begin(event, self.activity.mark());
        Around::Recorded(recording, key.and_then(|key| self.activity.find(key)))
    }

    /// # Safety
    /// `configuration` must be that of a launch.
    pub(super) unsafe fn share_events_of_launch(self, configuration: usize) {
        if configuration == 0 {
            return;
        }
        // SAFETY: the caller's promise.
        unsafe {
            let attributes = ((configuration + ATTRIBUTES) as *const usize).read_unaligned();
            let attribute_count =
                ((configuration + ATTRIBUTE_COUNT) as *const u32).read_unaligned();
            if attributes == 0 {
                return;
            }
            for at in 0..attribute_count as usize {
                let attribute = attributes + at * ATTRIBUTE_BYTES;
                let kind = (attribute as *const u32).read_unaligned();
                if EVENTS_OF_LAUNCHES.contains(&kind) {
                    let event = ((attribute + ATTRIBUTE_VALUE) as *const Handle).read_unaligned();
                    self.events.share(event);
                }
            }
        }
    }

    /// # Safety
    /// `node` must be null or describe a node of a graph.
    pub(super) unsafe fn share_event_of_node(self, node: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            if node != 0 && (node as *const u32).read_unaligned() == RECORDING_NODE {
                self.events.share(((node + NODE_EVENT) as *const Handle).read_unaligned());
            }
        }
    }

    pub(super) fn wait_for_context(self, context: Handle, thread: &'static Thread) -> Around {
        let context = match context {
            0 => requests::current_context(thread),
            named => Some(named),
        };
        let before = self.activity.now();
        context.map_or(Around::Nothing, |context| Around::WaitedForContext(context, before))
    }

    /// Called before a stream is destroyed: its work goes on, so an event of ours is recorded
    /// behind it. From here on the handle may be given to another stream. A stream that is not
    /// destroyed after all gets another place with its next work.
    pub(super) fn destroy_stream(self, stream: Handle, thread: &'static Thread) -> Around {
        // The default streams cannot be destroyed; the driver says so.
        if stream <= PER_THREAD {
            return Around::Nothing;
        }
        let key = Key::made(stream);
        while let Some(place) = self.activity.find(key) {
            self.forbid(place);
            if self.activity.key(place) == Some(key) {
                self.outlive(place, stream, thread);
                self.activity.orphan(place);
            }
            self.activity.allow(place);
        }
        Around::Nothing
    }

    /// Lets the poller learn when the work of a stream has ended that will be gone by then.
    fn outlive(self, place: StreamPlace, stream: Handle, thread: &'static Thread) {
        if !self.activity.is_active(place) || requests::may_be_captured(thread, stream) {
            return;
        }
        let (context, after) = (self.activity.context(place), self.activity.now());
        if !self.record_own(place, stream, context, after, thread) {
            self.complete(place, after);
        }
    }

    /// Called before a stream may become one that is captured. A question at the wrong time would
    /// end the capture.
    pub(super) fn capture(self, stream: Handle) -> Around {
        if !graph::captures() {
            return Around::Nothing;
        }
        self.wait_while(|| self.asks_default.load(Ordering::SeqCst) != 0);
        match self.activity.find(Key::made(stream)) {
            Some(place) => {
                self.forbid(place);
                Around::Captured(place)
            }
            None => Around::Nothing,
        }
    }

    /// Called before a context may end: no thread asks about its streams any more.
    pub(super) fn forbid_context(self, context: Handle) {
        if context != 0 {
            self.activity.find_in(context).for_each(|place| self.forbid(place));
        }
    }

    /// Called after the attempt to end a context: it has ended with all its streams, or not.
    pub(super) fn ended_context(self, context: Handle, has_ended: bool) {
        if context == 0 {
            return;
        }
        let before = self.activity.now();
        for place in self.activity.find_in(context) {
            if has_ended {
                self.activity.orphan(place);
                self.activity.set_event(place, 0, 0);
                self.complete(place, before);
            }
            self.activity.allow(place);
        }
        let number = self.contexts.iter().find(|known| known.load(Ordering::Relaxed) == context);
        if let Some(number) = number.filter(|_| has_ended) {
            number.store(0, Ordering::Relaxed);
        }
    }

    /// Ends the questions about a stream from here on; its place stays its own.
    fn forbid(self, place: StreamPlace) {
        self.activity.forbid(place);
        self.wait_while(|| self.activity.is_asked(place) || self.activity.is_changing(place));
    }

    /// A question takes microseconds, unless the thread that asks is kept from running.
    fn wait_while(self, asks: impl Fn() -> bool) {
        if !asks() {
            return;
        }
        let until = Instant::now() + PATIENCE;
        while asks() {
            if Instant::now() > until {
                return count(BandwidthCount::Impatient);
            }
            rustix::thread::sched_yield();
        }
    }
}

/// The stream of one of several launches.
///
/// # Safety
/// The arguments must be those of `cuLaunchCooperativeKernelMultiDevice`.
unsafe fn launch_key(a: &Arguments, at: usize) -> Option<Key> {
    if a[0] == 0 {
        return None;
    }
    // SAFETY: the caller's promise: an array of at least so many launches.
    let stream =
        unsafe { ((a[0] + at * LAUNCH_BYTES + LAUNCH_STREAM) as *const Handle).read_unaligned() };
    // Default streams are not allowed there.
    (stream > 2).then(|| Key::made(stream))
}

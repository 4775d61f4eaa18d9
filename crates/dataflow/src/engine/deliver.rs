//! Messages on their way: in by a source, from a module to its topic, into mailboxes; and the
//! triggers that they pull.

use std::sync::Arc;

use crate::engine::state::Ready;
use crate::engine::{Engine, Key};
use crate::message::Envelope;
use crate::middleware::{Codec, Packed, Sent, length};
use crate::trace::{Point, Ring};
use crate::{Error, Header, NO_DEADLINE, Origin, Part, Path, SourceId};

impl Engine {
    /// A frame of a source, as a message on its topic. It is not delivered yet.
    pub(crate) fn inject(
        &mut self,
        now_ns: u64,
        source: SourceId,
        captured_ns: u64,
        sent: Sent,
        ring: &mut Ring,
    ) -> (u16, Envelope) {
        let state = &mut self.sources[source.index()];
        let frame = state.frames;
        state.frames += 1;
        self.messages += 1;
        let limit_ns = captured_ns.saturating_add(state.deadline_ns);
        let header = Header {
            id: self.messages,
            frame,
            captured_ns,
            source,
            published_ns: now_ns,
            objects: Arc::new([]),
            deadline_ns: limit_ns,
            limit_ns,
            part: Part::WHOLE,
            provenance: Arc::new([Origin { source, frame, captured_ns }]),
        };
        let point = Point::Injected { message: header.id, source, frame, captured_ns };
        ring.write(now_ns, 0, point);
        let parcel = sent.parcel();
        (state.topic, Envelope { header: Arc::new(header), value: sent.value, parcel })
    }

    /// Returns the codec that makes bytes of a source's frames; none if they go as pointers.
    pub(crate) fn codec_of(&self, source: SourceId) -> Option<Codec> {
        self.topics[usize::from(self.sources[source.index()].topic)].codec
    }

    /// A frame of a source has no form as bytes.
    pub(crate) fn no_bytes(&self, source: SourceId, said: String) -> Error {
        Error::Serialise { from: self.names.sources[source.index()].clone(), said }
    }

    /// Puts a message into the mailboxes of its topic's readers.
    pub(crate) fn deliver(
        &mut self,
        now_ns: u64,
        topic: u16,
        envelope: &Envelope,
        ring: &mut Ring,
    ) {
        let message = envelope.header.id;
        for place in 0..self.topics[usize::from(topic)].readers.len() {
            let reader = self.topics[usize::from(topic)].readers[place];
            let kept = self.modules[reader.module].boxes[reader.port].put(envelope.addressed());
            let module = crate::ModuleId(reader.module as u16);
            ring.write(now_ns, 0, Point::Arrived { message, module, kept });
            if reader.active {
                self.modules[reader.module].note_arrival(now_ns);
            }
            if reader.active || reader.urgent {
                self.consider(now_ns, reader.module);
            }
        }
        for place in 0..self.topics[usize::from(topic)].arrivals.len() {
            let arrival = &self.arrivals[self.topics[usize::from(topic)].arrivals[place]];
            let (group, key) = (arrival.group.index(), arrival.key);
            let work = (arrival.begin)(envelope.addressed());
            self.ask_ahead(now_ns, group, key, envelope.header.frame, work, ring);
        }
    }

    /// The timer of a module fires.
    pub(crate) fn fire(&mut self, now_ns: u64, module: usize) {
        let state = &mut self.modules[module];
        let at_home = state.slots[0].module.as_ref();
        if at_home.is_some_and(|module| !module.complete(&mut state.boxes)) {
            state.statistics.skipped += 1;
            return;
        }
        if std::mem::take(&mut state.early) && state.waiting().next().is_none() {
            // The frame was served when its message came.
            return;
        }
        state.due = true;
        self.consider(now_ns, module);
    }

    /// Makes a module ready if its trigger says so; and its extra worker, if the first instance is
    /// busy and a part waits.
    pub(super) fn consider(&mut self, now_ns: u64, module: usize) {
        if !self.modules[module].triggered() && !self.cannot_wait(now_ns, module) {
            return;
        }
        let state = &mut self.modules[module];
        let part_waits = state.waiting().any(|header| header.part.is_partial());
        let slot = match &state.slots[..] {
            [first, ..] if first.module.is_some() => 0,
            [_, extra] if extra.module.is_some() && part_waits => 1,
            _ => return,
        };
        let at_home = state.slots[slot].module.as_ref();
        if at_home.is_some_and(|module| !module.complete(&mut state.boxes)) {
            return;
        }
        self.enqueue(now_ns, Ready { module, slot });
    }

    /// Puts an instance among the ready ones, or at its new place there.
    pub(super) fn enqueue(&mut self, now_ns: u64, ready: Ready) {
        let state = &mut self.modules[ready.module];
        let again = state.slots[ready.slot].again.as_ref().map(|again| again.order_ns);
        let message_ns = state.waiting_deadlines_ns().chain(again).min();
        let slot = &mut state.slots[ready.slot];
        let group = &mut self.groups[slot.group].ready;
        let (ready_ns, number) = match slot.queued {
            Some(key) => {
                group.remove(&key);
                (key.ready_ns, key.number)
            }
            None => {
                self.readied += 1;
                if again.is_none() {
                    if let Some(before_ns) = state.readied_ns.replace(now_ns) {
                        state.gaps.add(now_ns, (now_ns - before_ns) as i64);
                    }
                }
                (now_ns, self.readied)
            }
        };
        let own_ns = ready_ns.saturating_add(state.deadline_ns);
        let deadline_ns = message_ns.unwrap_or(NO_DEADLINE).min(own_ns);
        let key = Key { deadline_ns, ready_ns, number };
        slot.queued = Some(key);
        group.insert(key, ready);
    }

    /// Publishes a value that `job` computed, and that was out before the mailboxes can be had now.
    pub(crate) fn publish(
        &mut self,
        now_ns: u64,
        job: u64,
        sent: Sent,
        part: Part,
        run: &crate::cx::Run,
        ring: &mut Ring,
    ) {
        let state = self.jobs.get_mut(&job).expect("only a run publishes");
        let Some(ready) = state.ready() else { return };
        let module = &mut self.modules[ready.module];
        if state.parts == 0 && state.path == Path::Fast {
            module.first.add(now_ns, now_ns.saturating_sub(state.started_ns) as i64);
        }
        (state.parts, state.of_parts) = (part.index, part.of);
        module.published_ns = module.published_ns.max(state.captured_ns);
        self.messages += 1;
        let sent_ns = sent.sent_ns;
        let input = run.header.as_deref();
        let header = Header {
            id: self.messages,
            frame: input.map_or(0, |header| header.frame),
            captured_ns: input.map_or(sent_ns, |header| header.captured_ns),
            source: input.map_or(SourceId(u16::MAX), |header| header.source),
            published_ns: sent_ns,
            objects: run.objects.clone(),
            deadline_ns: run.deadline_ns,
            limit_ns: run.limit_ns,
            part,
            provenance: run.provenance.clone(),
        };
        let (message, frame) = (header.id, header.frame);
        let point = Point::Published { message, frame, part: part.index, of: part.of };
        ring.write(sent_ns, job, point);
        if let Some(Packed { bytes, took_ns, .. }) = &sent.packed {
            let (bytes, took_ns) = (length(bytes), *took_ns);
            ring.write(sent_ns, job, Point::Serialised { message, bytes, took_ns });
        }
        let parcel = sent.parcel();
        let envelope = Envelope { header: Arc::new(header), value: sent.value, parcel };
        let topic = module.publishes;
        if let Some(output) = self.topics[usize::from(topic)].output {
            ring.write(sent_ns, job, Point::Actuated { message });
            // A reader outside makes a value of it on a processor of its own.
            let outside = envelope.addressed();
            match outside.unseal() {
                Ok(()) => self.outputs[usize::from(output)].push(outside),
                Err(said) => {
                    module.statistics.failed += 1;
                    module.statistics.last_failure = Some(said);
                }
            }
        }
        self.posted.push((topic, envelope));
    }

    /// Returns the messages of an output since the last call.
    pub(crate) fn take_output(&mut self, output: u16) -> Vec<Envelope> {
        std::mem::take(&mut self.outputs[usize::from(output)])
    }
}

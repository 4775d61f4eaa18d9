//! The way of a message in a client's ring to a request in a bucket: every field is checked here.

use super::answer::Answer;
use super::notice::{Notice, Reason};
use super::{Drained, State};
use crate::bucket::Request;
use crate::meter::Tally;
use crate::session::{Allowance, Entry};
use accel::request::{Order, Status};
use accel::session::SLOTS;
use device::Launch;
use shm::Completion;
use std::sync::Arc;

/// A request that was checked.
struct Prepared {
    accelerator: usize,
    chain_priority: u32,
    tally: Arc<Tally>,
    locks: bool,
    launch: Launch,
}

impl State {
    /// Takes the waiting messages of a session, at most a ring full.
    pub(super) fn drain(&mut self, id: u64, now_ns: u64, answers: &mut Vec<Answer>) -> Drained {
        let mut wasted = 0;
        let mut taken = 0;
        while taken < SLOTS {
            let Some(entry) = self.sessions.get_mut(&id) else { return Drained::Gone };
            if entry.evicted {
                return Drained::Gone;
            }
            let message = match entry.consumer.pop(entry.memory.ring()) {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return self.evict(id, Reason::Ring(error)),
            };
            taken += 1;
            let order = match Order::decode(&message) {
                Ok(order) => order,
                Err(error) => return self.evict(id, Reason::Message(error)),
            };
            match self.take(id, order, now_ns, answers) {
                Ok(cost) => wasted += cost,
                Err(reason) => return self.evict(id, reason),
            }
        }
        for accelerator in 0..self.accelerators.len() {
            self.advance(accelerator, Some(now_ns), answers);
        }
        let Some(entry) = self.sessions.get_mut(&id) else { return Drained::Gone };
        let cost = wasted + u32::from(entry.owed.turn(taken as u32));
        let allowance = self.allowances.entry(entry.session.uid);
        match cost == 0 || allowance.or_insert(Allowance::new(now_ns)).spend(cost, now_ns) {
            false => Drained::Mute,
            true if taken == SLOTS => Drained::More,
            true => Drained::Empty,
        }
    }

    /// Takes one order: queues it, or answers it at once. Returns what it costs the client's
    /// user's allowance; an error ends the session.
    fn take(
        &mut self,
        id: u64,
        order: Order,
        now_ns: u64,
        answers: &mut Vec<Answer>,
    ) -> Result<u32, Reason> {
        let (Order::Launch { slot, launch_id, .. } | Order::Cancel { slot, launch_id, .. }) = order;
        // Only the control thread removes it, under the lock.
        let Some(entry) = self.sessions.get(&id) else { return Ok(0) };
        let session = entry.session.clone();
        let opening = session.open(slot).ok_or(Reason::Slot(slot))?;
        let status = match order {
            Order::Launch { registration, request, .. } => {
                match self.prepare(entry, registration, &request) {
                    Ok(Prepared { accelerator, chain_priority, tally, locks, launch }) => {
                        self.arrivals += 1;
                        let request = Request {
                            session,
                            opening,
                            slot,
                            launch_id,
                            registration,
                            chain_priority,
                            arrived_ns: now_ns,
                            tally,
                            locks,
                            launch,
                        };
                        self.keep_pace(id, registration, now_ns);
                        self.accelerators[accelerator].enqueue(self.arrivals, request);
                        return Ok(0);
                    }
                    Err(status) => {
                        self.counters.failed += 1;
                        status
                    }
                }
            }
            Order::Cancel { target_slot, target_launch_id, .. } => {
                self.cancel(id, target_slot, target_launch_id, answers)
            }
        };
        let outcome = Completion {
            status: status as u32,
            launch_id,
            arrived_ns: now_ns,
            ..Completion::default()
        };
        answers.push(Answer { session, slot, opening, outcome });
        Ok(1)
    }

    /// Turns a client's allegations into a launch that the device accepts.
    fn prepare(
        &self,
        entry: &Entry,
        registration: u32,
        request: &accel::Request,
    ) -> Result<Prepared, Status> {
        let registration = entry.registrations.get(registration as usize).and_then(Option::as_ref);
        let registration = registration.ok_or(Status::UnknownRegistration)?;
        let part = |offset: u32, length: u32| {
            let part = registration.memory.slice(offset as usize, length as usize);
            part.map_err(|_| Status::OutOfRange)
        };
        let mut arguments = request.arguments;
        for (argument, fixed) in arguments.iter_mut().zip(&registration.fixed_arguments) {
            *argument = *fixed;
        }
        let launch = Launch {
            kernel: registration.kernel,
            arguments,
            input: part(request.input_offset, request.input_length)?,
            output: part(request.output_offset, request.output_length)?,
            budget_ns: registration.budget_ns,
        };
        let device = &self.accelerators[registration.accelerator].device;
        device.check(&launch).map_err(|_| Status::BadArguments)?;
        Ok(Prepared {
            accelerator: registration.accelerator,
            chain_priority: registration.chain_priority,
            tally: registration.tally.clone(),
            locks: registration.locks,
            launch,
        })
    }

    /// Notes a request that came more often than its chain declares.
    fn keep_pace(&mut self, id: u64, number: u32, now_ns: u64) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        let pid = entry.session.pid;
        let registration = entry.registrations.get_mut(number as usize);
        let Some(registration) = registration.and_then(Option::as_mut) else { return };
        let Some(pace) = &mut registration.pace else { return };
        if pace.admits(now_ns) {
            return;
        }
        registration.tally.exceeded();
        if !std::mem::replace(&mut registration.told_excess, true) {
            let chain = registration.chain.clone();
            self.notice(id, Notice::Excess { chain, pid });
        }
    }

    /// Takes a waiting request back. Returns what the one who asked for it is told.
    fn cancel(&mut self, id: u64, slot: u16, launch_id: u64, answers: &mut Vec<Answer>) -> Status {
        let is_target =
            |r: &Request| r.session.id == id && r.slot == slot && r.launch_id == launch_id;
        let before = answers.len();
        for bucket in self.accelerators.iter_mut().flat_map(|a| a.buckets.iter_mut()) {
            let cancelled =
                |target: Request| answers.push(target.answer(Status::Cancelled as u32, None));
            bucket.queue.remove(is_target, cancelled);
        }
        let cancelled = answers.len() - before;
        self.counters.cancelled += cancelled as u64;
        if cancelled == 0 { Status::TooLate } else { Status::Done }
    }

    /// Ends a session whose client is not served any more, once; the control thread does the rest.
    pub(super) fn evict(&mut self, id: u64, reason: Reason) -> Drained {
        if let Some(entry) = self.sessions.get_mut(&id) {
            if !std::mem::replace(&mut entry.evicted, true) {
                self.counters.evictions += 1;
                self.evictions.push((id, reason));
            }
        }
        Drained::Gone
    }
}

//! Work for a core whose own group has none: guests of other groups, if that delays no module here
//! (COLA, section 4.3), then work ahead of time.

use crate::engine::budget::next_tick_ns;
use crate::engine::state::{Job, Of, Ready};
use crate::engine::{Body, Engine, Key, Rank, Start};
use crate::trace::{Class, Core, Denial, Point, Ring};
use crate::{Chunk, Load, ModuleId, NO_DEADLINE, Path, Trigger};

impl Engine {
    /// A run for a core whose group has none ready.
    pub(crate) fn pick_guest(&mut self, now_ns: u64, core: Core, ring: &mut Ring) -> Option<Start> {
        self.steal(now_ns, core, ring).or_else(|| self.pick_ahead(now_ns, core, ring))
    }

    /// The most urgent run, or piece of one, of another group that this one lets in.
    pub(crate) fn steal(&mut self, now_ns: u64, core: Core, ring: &mut Ring) -> Option<Start> {
        let here = &self.groups[usize::from(core.group)];
        if self.settings.stealing.is_none() || !here.group.takes_guests {
            return None;
        }
        for (key, of) in self.guests_for(core.group) {
            let ready = match of {
                Of::Module(ready) | Of::Piece { ready, .. } => ready,
                Of::Ahead(_) => continue,
            };
            let denied = self.admit(now_ns, core, of).err();
            let (module, group) = (ModuleId(ready.module as u16), core.group);
            ring.write(now_ns, 0, Point::Steal { module, group, denied });
            if denied.is_some() {
                self.groups[usize::from(core.group)].statistics.denied += 1;
                continue;
            }
            let start = if of == Of::Module(ready) {
                let home = self.modules[ready.module].slots[ready.slot].group;
                self.groups[home].ready.remove(&key);
                self.start(now_ns, core, Class::Guest, key, ready, ring)
            } else {
                Some(self.start_piece(now_ns, core, Class::Guest, of, ring))
            };
            if start.is_some() {
                self.groups[usize::from(core.group)].statistics.admitted += 1;
                return start;
            }
        }
        None
    }

    /// Returns the runs and pieces that wait in other groups and may be guests, the most urgent
    /// first; of each divided run the next piece.
    fn guests_for(&self, group: u16) -> Vec<(Key, Of)> {
        let mut waiting: Vec<(Key, Of)> = Vec::new();
        let others = self.groups.iter().enumerate().filter(|(at, _)| *at != usize::from(group));
        for (_, other) in others {
            let guests = other.ready.iter().filter(|(_, ready)| self.modules[ready.module].guest);
            waiting.extend(guests.map(|(&key, &ready)| (key, Of::Module(ready))));
        }
        waiting.extend(self.guest_pieces(group));
        waiting.sort_by_key(|&(key, _)| key);
        waiting
    }

    /// Admits a guest only if its bound and the cost of its switch fit before the hosts' next run.
    fn admit(&mut self, now_ns: u64, core: Core, of: Of) -> Result<(), Denial> {
        if self.groups[usize::from(core.group)].suspended_until_ns > now_ns {
            return Err(Denial::Suspended);
        }
        let bound_ns = match of {
            Of::Module(ready) => self.guest_bound_ns(now_ns, ready),
            _ => self.piece_bound_ns(now_ns, of),
        };
        let end_ns = now_ns + bound_ns.ok_or(Denial::Unknown)? + self.settings.switch_ns;
        if end_ns > self.next_host_ns(now_ns, usize::from(core.group), of) {
            return Err(Denial::Slack);
        }
        Ok(())
    }

    fn guest_bound_ns(&mut self, now_ns: u64, ready: Ready) -> Option<u64> {
        let quantile = self.settings.quantile;
        let state = &mut self.modules[ready.module];
        let mut boxes = state.boxes.clone();
        let module = state.slots[ready.slot].module.as_ref()?;
        let input = module.gather(&mut boxes)?;
        let load = module.estimate(&*input, Path::Normal);
        state.linear[Path::Normal as usize].bound_ns(now_ns, &load, quantile)
    }

    /// The earliest time at which a module of the group may become ready: a timer's next tick, or the
    /// shortest time that has lain between two messages' runs, but for a share of
    /// `1 - quantile`. A run that has not been divided yet may be at any time. What waits for the
    /// guest itself does not count.
    fn next_host_ns(&mut self, now_ns: u64, group: usize, guest: Of) -> u64 {
        let low = 1.0 - self.settings.quantile;
        if self.may_divide(group) {
            return now_ns;
        }
        let hosts = (0..self.modules.len()).filter(|host| {
            let own = self.modules[*host].slots.iter().any(|slot| slot.group == group);
            let waits =
                matches!(guest, Of::Piece { ready, .. } if self.waits_for(*host, ready.module));
            own && !waits
        });
        let hosts: Vec<usize> = hosts.collect();
        let next = hosts.into_iter().map(|host| {
            let quiet =
                matches!(guest, Of::Piece { ready, .. } if self.comes_from(host, ready.module));
            let module = &mut self.modules[host];
            let tick_ns = match module.trigger {
                Trigger::Timer { period_ns, offset_ns } => {
                    next_tick_ns(now_ns, period_ns, offset_ns)
                }
                Trigger::Message | Trigger::Fuse(_) => NO_DEADLINE,
            };
            // A message may start it as well.
            let started = tick_ns == NO_DEADLINE || module.urgent.contains(&true) && !quiet;
            let gap_ns = module.gaps.quantile(now_ns, low).unwrap_or(0) as u64;
            let message_ns = module.readied_ns.map_or(now_ns, |last_ns| last_ns + gap_ns);
            if started { tick_ns.min(message_ns) } else { tick_ns }
        });
        next.min().unwrap_or(NO_DEADLINE)
    }

    pub(crate) fn pick_ahead(&mut self, now_ns: u64, core: Core, ring: &mut Ring) -> Option<Start> {
        loop {
            let group = &mut self.groups[usize::from(core.group)];
            let (key, number) = group.ahead.pop_front()?;
            let Some(work) = self.ahead.begin(key, number) else { continue };
            self.started += 1;
            let job = self.started;
            let point = Point::Start {
                module: None,
                core,
                class: Class::Ahead,
                path: Path::Normal,
                here_ns: 0,
                downstream_ns: 0,
                deadline_ns: NO_DEADLINE,
            };
            ring.write(now_ns, job, point);
            let state = Job::of_work(Of::Ahead(number), Class::Ahead, core, Load::default());
            self.jobs.insert(job, state);
            return Some(Start { job, rank: Rank::Ahead, body: Body::Work(work) });
        }
    }

    /// A host's run begins on a core that a guest is not done with: the predictor was wrong, or the
    /// host came early. `delay_ns` is what the host has waited for the guest.
    pub(crate) fn overrun(&mut self, now_ns: u64, core: Core, delay_ns: u64, ring: &mut Ring) {
        let Some(stealing) = self.settings.stealing else { return };
        let group = &mut self.groups[usize::from(core.group)];
        group.suspended_until_ns = now_ns + stealing.suspend_ns;
        group.statistics.overruns += 1;
        group.statistics.violations += u64::from(delay_ns > 0);
        group.statistics.delayed_ns += delay_ns;
        ring.write(now_ns, 0, Point::Overrun { group: core.group, delay_ns });
    }

    /// Returns true if a run or a piece that other groups may take waits for a core of its own
    /// group.
    pub(crate) fn guests_wait(&self) -> bool {
        let mut ready = self.groups.iter().flat_map(|group| group.ready.values());
        self.settings.stealing.is_some()
            && (ready.any(|ready| self.modules[ready.module].guest)
                || self.guest_pieces(u16::MAX).next().is_some())
    }

    /// Module whose run `job` is, `None` for work ahead; its frame and its path.
    pub(crate) fn about(&self, job: u64) -> (Option<ModuleId>, u64, Path) {
        let Some(job) = self.jobs.get(&job) else { return (None, 0, Path::Normal) };
        let module = match job.of {
            Of::Module(ready) | Of::Piece { ready, .. } => Some(ModuleId(ready.module as u16)),
            Of::Ahead(_) => None,
        };
        (module, job.frame, job.path)
    }

    /// Returns the first chunk of `job`, for which nothing is charged yet.
    pub(crate) fn first_chunk(&self, job: u64) -> Chunk {
        let ((module, frame, path), piece) = (self.about(job), self.is_piece(job));
        let (index, carry, cpu_ns, accelerator_ns) = (0, None, 0, 0);
        Chunk { module, frame, path, piece, index, carry, cpu_ns, accelerator_ns }
    }

    /// Returns true if `job` is a guest of another group.
    pub(crate) fn is_guest(&self, job: u64) -> bool {
        self.jobs.get(&job).is_some_and(|job| job.class == Class::Guest)
    }
}

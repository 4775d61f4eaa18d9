//! Makes plain data of the tables of the first pass: names the locks, chooses the worst calls,
//! and turns ticks into nanoseconds.

use super::World;
use super::locks::{Instance, LockState, Tally};
use super::thread::About;
use crate::Options;
use crate::function::{NO_KIND, SIZES};
use crate::gpu::Works;
use crate::histogram::Histogram;
use crate::identity::Family;
use crate::open::{self, OpenHolder, OpenWait};
use crate::processors::UNKNOWN_PRIORITY;
use crate::result::{self, Inner, Survey};
use crate::snapshot::Snapshots;
use crate::survey::load::LoadState;
use record::clock::Calibration;
use std::collections::{BTreeMap, HashMap};
use trace::metadata::Tier;
use trace::{StreamKind, Trace};

/// The tables of the first pass.
pub(crate) struct Tables<'t> {
    pub trace: &'t Trace,
    pub world: World,
    pub about: Vec<About>,
    pub snapshots: Snapshots,
    pub load: LoadState,
    pub gpu: Works,
}

/// Clock, start, and places of threads, kinds and locks, which all other parts refer to.
pub(super) struct Places {
    pub clock: Calibration,
    start: u64,
    /// Place in the survey's threads of each stream.
    pub threads: Vec<u32>,
    pub kinds: Vec<u32>,
    locks: Vec<u32>,
}

impl Places {
    pub(super) fn at(&self, ticks: u64) -> u64 {
        self.clock.duration_ns(ticks.saturating_sub(self.start))
    }

    pub(super) fn kind(&self, kind: u32) -> Option<u32> {
        (kind != NO_KIND).then(|| self.kinds[kind as usize])
    }

    fn instance(&self, instance: &Option<Instance>) -> Option<result::Instance> {
        instance.as_ref().map(|instance| result::Instance {
            at_ns: self.at(instance.since),
            duration_ns: self.clock.duration_ns(instance.ticks),
            thread: self.threads[instance.stream as usize],
            kind: self.kind(instance.kind),
            owner_tid: instance.owner,
            others: instance.others,
        })
    }

    fn tally(&self, tally: &Tally) -> result::Tally {
        let Tally { count, worst, longest } = tally;
        result::Tally {
            count: *count,
            worst: self.instance(worst),
            longest: self.instance(longest),
        }
    }
}

impl Tables<'_> {
    /// The survey.
    pub(crate) fn summarise(mut self, options: &Options) -> Survey {
        self.world.kinds.resize_with(self.world.functions.kinds(), Default::default);
        self.world.left.waits.sort_by_key(|(stream, ..)| *stream);
        let names = self.lock_names();
        let places = self.places(&names);
        let metadata = self.trace.metadata();
        let usual: Vec<u64> =
            self.world.kinds.iter().map(|kind| kind.durations.quantile(0.5)).collect();
        let (worst, targets) = self.worst(&places, &usual, options);
        let (open_waits, circles) = self.open_waits(&places);
        let scheduler = metadata.tier == Tier::Scheduler;
        let mut losses = self.world.losses;
        losses.lost_without_stream = metadata.lost_without_chunk.count;
        Survey {
            duration_ns: places.at(self.trace.end()),
            records: self.trace.records(),
            tier: metadata.tier,
            contended_only: metadata.settings.contended_only,
            processors: metadata.machine.processors,
            losses,
            threads: self.threads(&places),
            kinds: self.kinds(&places, options),
            locks: self.locks(&places, names),
            forgotten: result::ForgottenLocks {
                locks: self.world.locks.forgotten.locks,
                acquisitions: self.world.locks.forgotten.acquisitions,
            },
            launches: self.launches(),
            sequences: self.sequences(&places, options),
            graph_advice: self.graph_advice(&places),
            load: scheduler.then(|| result::Load {
                observed_ns: places.clock.duration_ns(self.load.observed),
                over_ns: places.clock.duration_ns(self.load.over),
                most: self.load.most,
                most_at_ns: places.at(self.load.most_at),
            }),
            gpu: metadata.settings.gpu.then(|| self.gpu.result(metadata, &places.clock)),
            worst,
            unfinished: self.unfinished(&places),
            open_waits,
            circles,
            inner: Inner {
                clock: places.clock,
                functions: self.world.functions,
                identities: self.world.locks.identities,
                snapshots: self.snapshots,
                checkpoints: self.load.checkpoints,
                lock_places: places.locks,
                kind_places: places.kinds,
                usual,
                targets,
                durations: self.world.kinds.into_iter().map(|kind| kind.durations).collect(),
                usual_work: self.gpu.usual(),
                works: self.gpu,
            },
        }
    }

    /// The locks in use, in the order of their names, with the names.
    fn lock_names(&self) -> Vec<(u32, String)> {
        let locks = &self.world.locks;
        let used = locks.identities.places();
        let mut order: Vec<u32> = (0..locks.identities.len() as u32)
            .filter(|lock| used[*lock as usize] && (*lock as usize) < locks.states.len())
            .collect();
        order.sort_by_key(|lock| {
            let (state, identity) =
                (&locks.states[*lock as usize], locks.identities.identity(*lock));
            let taken = state.acquisitions.iter().sum::<u64>() + state.signals;
            let first = state.first_in_launch.unwrap_or(u64::MAX);
            (identity.key.family, first, std::cmp::Reverse(taken), identity.serial)
        });
        let mut counts: BTreeMap<Family, u32> = BTreeMap::new();
        order
            .into_iter()
            .map(|lock| {
                let family = locks.identities.identity(lock).key.family;
                let count = counts.entry(family).or_default();
                *count += 1;
                (lock, format!("{}{count}", family.letter()))
            })
            .collect()
    }

    fn places(&self, names: &[(u32, String)]) -> Places {
        let mut locks = vec![u32::MAX; self.world.locks.identities.len()];
        for (place, (lock, _)) in names.iter().enumerate() {
            locks[*lock as usize] = place as u32;
        }
        let mut order: Vec<usize> = (0..self.world.kinds.len()).collect();
        order.sort_by_key(|kind| {
            let state = &self.world.kinds[*kind];
            (std::cmp::Reverse(state.durations.count()), *kind)
        });
        let mut kinds = vec![0; order.len()];
        for (place, kind) in order.into_iter().enumerate() {
            kinds[kind] = place as u32;
        }
        let mut count = 0;
        let streams = self.trace.streams().iter();
        let threads = streams.map(|stream| {
            let place = count;
            count += u32::from(stream.kind == StreamKind::Thread);
            place
        });
        let threads = threads.collect();
        Places { clock: self.trace.clock(), start: self.trace.start(), threads, kinds, locks }
    }

    fn threads(&self, places: &Places) -> Vec<result::Thread> {
        let metadata = self.trace.metadata();
        let pids: HashMap<u32, u32> =
            metadata.processes.iter().map(|process| (process.number, process.pid)).collect();
        let tasks: HashMap<u32, &str> =
            metadata.tasks.iter().map(|task| (task.thread, task.name.as_str())).collect();
        let of_threads = self.trace.streams().iter().zip(&self.about);
        let of_threads = of_threads.filter(|(stream, _)| stream.kind == StreamKind::Thread);
        let ns = |ticks| places.clock.duration_ns(ticks);
        let scheduler = metadata.tier == Tier::Scheduler;
        of_threads
            .map(|(stream, about)| {
                let own = about.name.split(|byte| *byte == 0).next().unwrap_or_default();
                let own = String::from_utf8_lossy(own).into_owned();
                let other = || tasks.get(&stream.id).map(|name| name.to_string());
                let wait = self.load.wait_of(stream.id);
                let priority = self.load.processors.who(stream.id).priority;
                let times = stream.blocks.iter().filter(|block| block.count > 0);
                let first = times.clone().map(|block| block.first).min().unwrap_or(places.start);
                let last = times.map(|block| block.last).max().unwrap_or(first);
                let unknown = stream.unknown().into_iter();
                result::Thread {
                    process: stream.process,
                    pid: pids.get(&stream.process).copied().unwrap_or(0),
                    tid: stream.id,
                    name: if own.is_empty() { other().unwrap_or_default() } else { own },
                    priority: Some(priority)
                        .filter(|priority| *priority != UNKNOWN_PRIORITY)
                        .or(about.priority),
                    first_at_ns: places.at(first),
                    last_at_ns: places.at(last),
                    records: about.records,
                    calls: about.calls,
                    in_calls_ns: ns(about.call_ticks),
                    waited_ns: ns(about.waited),
                    acquisitions: about.acquisitions,
                    processor_wait: scheduler.then(|| result::ProcessorWait {
                        total_ns: ns(wait.ticks),
                        times: wait.times,
                        longest_ns: ns(wait.longest),
                        longest_at_ns: places.at(wait.longest_at),
                    }),
                    unknown_ns: unknown.map(|(a, b)| (places.at(a), places.at(b))).collect(),
                }
            })
            .collect()
    }

    fn kinds(&self, places: &Places, options: &Options) -> Vec<result::CallKind> {
        let serials = self.serials(places);
        let clock = &places.clock;
        let mut kinds: Vec<(u32, result::CallKind)> = Vec::new();
        for (kind, state) in self.world.kinds.iter().enumerate() {
            let (base, size) = self.world.functions.of(kind as u32);
            let class = size.map(|size| {
                let least = size.checked_sub(1).map_or(0, |below| SIZES[below] + 1);
                (least, SIZES[size])
            });
            let (distinct, distinct_is_least) = state.patterns.distinct();
            let ranked = state.patterns.ranked();
            let most_frequent = ranked.into_iter().take(options.patterns);
            let call = result::CallKind {
                function: base.name.clone(),
                group: base.group,
                direction: base.direction,
                host: self.world.functions.host(kind as u32),
                bytes_class: class,
                bytes: state.bytes,
                count: state.durations.count(),
                failed: state.failed,
                captured: state.captured,
                unknown: state.unknown,
                duration: state.durations.durations(clock),
                lock_wait: state.waited.durations(clock),
                locks_per_call: state.acquisitions.numbers(),
                patterns: result::Patterns {
                    calls: state.patterns.calls,
                    distinct: distinct as u64,
                    distinct_is_least,
                    too_long: state.patterns.too_long,
                    most_frequent: most_frequent
                        .map(|pattern| steps(pattern, &serials, clock))
                        .collect(),
                },
            };
            kinds.push((places.kinds[kind], call));
        }
        kinds.sort_by_key(|(place, _)| *place);
        kinds.into_iter().map(|(_, call)| call).collect()
    }

    /// Place in the survey's locks of each serial number.
    fn serials(&self, places: &Places) -> HashMap<u32, u32> {
        let identities = &self.world.locks.identities;
        let named = places.locks.iter().enumerate().filter(|(_, place)| **place != u32::MAX);
        named.map(|(lock, place)| (identities.identity(lock as u32).serial, *place)).collect()
    }

    fn locks(&self, places: &Places, names: Vec<(u32, String)>) -> Vec<result::Lock> {
        let one = |(lock, name): (u32, String)| {
            let state = &self.world.locks.states[lock as usize];
            let identity = self.world.locks.identities.identity(lock);
            let family = identity.key.family;
            let callers = state.callers.iter().filter(|(address, _)| *address != 0);
            result::Lock {
                name,
                family,
                process: identity.key.process,
                address: identity.key.address,
                generation: identity.generation,
                created_at_ns: state.created.map(|at| places.at(at)),
                destroyed_at_ns: state.destroyed.map(|at| places.at(at)),
                attributes: state.attributes.and_then(|word| attributes(family, word)),
                in_launches: state.first_in_launch.is_some(),
                readers: usage(state, 1, places),
                others: usage(state, 0, places),
                busy: state.busy,
                gave_up: state.gave_up,
                timed_out: state.timed_out,
                in_vain: state.in_vain.durations(&places.clock),
                longest_in_vain: places.instance(&state.longest_in_vain),
                handed_over: state.handed_over,
                signals: state.signals,
                relock: state.relock.durations(&places.clock),
                queue: state.queue.numbers(),
                got_meanwhile: state.meanwhile.numbers(),
                overtaken: places.tally(&state.overtaken),
                reacquired: places.tally(&state.reacquired),
                starved_readers: places.tally(&state.starved_readers),
                starved_writers: places.tally(&state.starved_writers),
                barged: state.barged,
                longest_blocking: places.instance(&state.longest_blocking),
                unknown_waits: state.unknown_waits,
                unknown_holds: state.unknown_holds,
                kinds: state.kinds.iter().map(|(kind, n)| (places.kind(*kind), *n)).collect(),
                callers: callers
                    .map(|(address, count)| self.caller(identity.key.process, *address, *count))
                    .collect(),
            }
        };
        names.into_iter().map(one).collect()
    }

    fn caller(&self, process: u32, address: u64, count: u64) -> result::Caller {
        let modules = &self.trace.metadata().modules;
        let module = modules.iter().find(|module| {
            module.process == process && (module.start..module.end).contains(&address)
        });
        result::Caller {
            module: module.map(|module| module.file.clone()),
            offset: address - module.map_or(0, |module| module.start),
            count,
        }
    }

    fn launches(&self) -> result::Launches {
        let totals = &self.world.work.totals;
        result::Launches {
            direct: totals.launches,
            graphs: totals.graph_launches,
            kernels_in_graphs: totals.graph_kernels,
            copies_in_graphs: totals.graph_copies,
            memsets_in_graphs: totals.graph_memsets,
            unknown_graphs: totals.unknown_graphs,
            copies: totals.copies,
            copied_bytes: totals.copied_bytes,
            memsets: totals.memsets,
            syncs: totals.syncs,
            captured: totals.captured,
        }
    }

    /// The waits that did not end, and the circles of them.
    fn open_waits(&self, places: &Places) -> (Vec<OpenWait>, Vec<Vec<u32>>) {
        let (streams, left) = (self.trace.streams(), &self.world.left);
        let tid = |stream: u32| streams[stream as usize].id;
        let mut of_id: HashMap<(u32, u32), Vec<u32>> = HashMap::new();
        let threads = (0u32..).zip(streams).filter(|(_, s)| s.kind == StreamKind::Thread);
        for (at, stream) in threads {
            of_id.entry((stream.process, stream.id)).or_default().push(at);
        }
        // Of the streams of one id, in the order in which they begin, the last that had begun.
        let living = |waiter: u32, tid: u32, at: u64| {
            let same = of_id.get(&(streams[waiter as usize].process, tid))?;
            let begun = |s: &&u32| streams[**s as usize].blocks[0].first <= at;
            same.iter().rfind(begun).copied()
        };
        let holders = left.holders(tid, living);
        let waits_of: HashMap<u32, u32> =
            (0u32..).zip(&left.waits).map(|(at, (stream, ..))| (*stream, at)).collect();
        let wait_of = |stream: Option<u32>| waits_of.get(&stream?).copied();
        let next: Vec<Vec<u32>> = holders
            .iter()
            .map(|holders| holders.iter().filter_map(|holder| wait_of(holder.stream)).collect())
            .collect();
        let circles = open::circles(&next);
        let mut circle_of = vec![None; left.waits.len()];
        for (number, circle) in (0u32..).zip(&circles) {
            circle.iter().for_each(|wait| circle_of[*wait as usize] = Some(number));
        }
        let end = self.trace.end();
        let waits = left.waits.iter().zip(holders).zip(circle_of);
        let waits = waits.map(|(((stream, wait, kind), holders), circle)| OpenWait {
            thread: places.threads[*stream as usize],
            lock: places.locks[wait.lock as usize],
            family: Family::of(wait.class),
            read: wait.class == record::Class::Read,
            kind: places.kind(*kind),
            at_ns: places.at(wait.since),
            until_end_ns: places.clock.duration_ns(end.saturating_sub(wait.since)),
            holders: holders
                .into_iter()
                .map(|holder| OpenHolder {
                    tid: holder.tid,
                    thread: holder.stream.map(|stream| places.threads[stream as usize]),
                    since_ns: holder.since.map(|since| places.at(since)),
                    waits: wait_of(holder.stream),
                })
                .collect(),
            circle,
        });
        (waits.collect(), circles)
    }

    /// The name of a kernel, if it is known.
    pub(super) fn kernel(&self, process: u32, handle: u64) -> Option<String> {
        let kernels = &self.trace.metadata().kernels;
        let named = kernels.iter().find(|k| k.process == process && k.handle == handle);
        named.map(|kernel| kernel.name.clone())
    }

    fn unfinished(&self, places: &Places) -> Vec<result::Unfinished> {
        let end = self.trace.end();
        let one = |stream: usize, (kind, enter): &(u32, u64)| result::Unfinished {
            kind: places.kinds[*kind as usize],
            thread: places.threads[stream],
            at_ns: places.at(*enter),
            until_end_ns: places.clock.duration_ns(end.saturating_sub(*enter)),
        };
        let open = self.about.iter().enumerate();
        open.flat_map(|(stream, about)| about.unfinished.iter().map(move |call| (stream, call)))
            .map(|(stream, call)| one(stream, call))
            .collect()
    }
}

fn steps(
    pattern: &crate::pattern::Pattern,
    serials: &HashMap<u32, u32>,
    clock: &Calibration,
) -> result::Pattern {
    let mut depth = 0u32;
    let steps = pattern.steps.iter().zip(pattern.medians()).map(|(step, median)| {
        depth = if step.acquired { depth + 1 } else { depth.saturating_sub(1) };
        result::PatternStep {
            lock: serials.get(&step.serial).copied(),
            read: step.class == record::Class::Read,
            acquired: step.acquired,
            depth,
            median_ns: clock.duration_ns(median),
        }
    });
    result::Pattern { count: pattern.count, steps: steps.collect() }
}

fn usage(state: &LockState, mode: usize, places: &Places) -> result::Use {
    let durations = |histogram: &Histogram| histogram.durations(&places.clock);
    result::Use {
        acquisitions: state.acquisitions[mode],
        contended: state.contended[mode],
        wait: durations(&state.wait[mode]),
        hold: durations(&state.hold[mode]),
        longest_wait: places.instance(&state.longest_wait[mode]),
        longest_hold: places.instance(&state.longest_hold[mode]),
    }
}

/// Returns the attributes in the word of a lock; `None` for locks whose word is not recorded.
fn attributes(family: Family, word: u32) -> Option<result::Attributes> {
    let flag = |bit: u32| word & bit != 0;
    match family {
        Family::Mutex => Some(result::Attributes {
            word,
            kind: ["normal", "recursive", "error-checking", "adaptive"][word as usize & 3],
            inherit: flag(32),
            protect: flag(64),
            robust: flag(16),
            shared: flag(128),
        }),
        Family::ReadWrite => Some(result::Attributes {
            word,
            kind: match word {
                0 => "prefers readers",
                1 => "prefers writers (not effective)",
                2 => "prefers writers",
                _ => "unknown",
            },
            ..result::Attributes::default()
        }),
        _ => None,
    }
}

//! Modules for tests: they pass numbers on, in as many chunks as they are told.
#![allow(dead_code)] // Each test program uses a part of it.

use dataflow::trace::{Class, Point};
use dataflow::{Cx, Input, Load, Message, Module, Part, Path, Stop, Virtual};
use std::marker::PhantomData;

pub(crate) const MS: u64 = 1_000_000;

/// Passes a number on, in `chunks` chunks. On the fast path, it publishes part 1 of 2 after the first.
pub(crate) struct Stage {
    pub chunks: u32,
    pub declared_ns: u64,
}

impl Stage {
    pub(crate) fn new(chunks: u32) -> Stage {
        Stage { chunks, declared_ns: 0 }
    }

    pub(crate) fn declared(chunks: u32, declared_ns: u64) -> Stage {
        Stage { chunks, declared_ns }
    }
}

impl Module for Stage {
    type In = Message<u64>;
    type Out = u64;

    fn estimate(&self, number: &Self::In, _: Path) -> Load {
        Load::of(&[(**number % 8) as f64]).declared_ns(self.declared_ns)
    }

    fn run(&mut self, cx: &mut Cx<u64>, number: &Self::In, path: Path) -> Result<u64, Stop> {
        for chunk in 1..self.chunks {
            if path == Path::Fast && chunk == 1 {
                cx.publish_partial(**number, Part::first(2));
            }
            cx.go_on()?;
        }
        Ok(**number)
    }
}

/// Reads whatever it is wired to, and publishes how often it has run.
pub(crate) struct Count<I> {
    runs: u64,
    reads: PhantomData<fn(I)>,
}

impl<I> Count<I> {
    pub(crate) fn new() -> Count<I> {
        Count { runs: 0, reads: PhantomData }
    }
}

impl<I: Input> Module for Count<I> {
    type In = I;
    type Out = u64;

    fn run(&mut self, _: &mut Cx<u64>, _: &I, _: Path) -> Result<u64, Stop> {
        self.runs += 1;
        Ok(self.runs)
    }
}

/// Does what a function says.
pub(crate) struct Do<F>(pub F);

impl<F> Module for Do<F>
where
    F: FnMut(&mut Cx<u64>, u64, Path) -> Result<u64, Stop> + Send + 'static,
{
    type In = Message<u64>;
    type Out = u64;

    fn estimate(&self, _: &Self::In, _: Path) -> Load {
        Load::of(&[1.0])
    }

    fn run(&mut self, cx: &mut Cx<u64>, number: &Self::In, path: Path) -> Result<u64, Stop> {
        (self.0)(cx, **number, path)
    }
}

/// Publications: the time, the part, and the number of all parts.
pub(crate) type Parts = Vec<(u64, u16, u16)>;

/// A run as the trace shows it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run {
    pub module: Option<usize>,
    pub class: Class,
    pub path: Path,
    pub start_ns: u64,
    pub end_ns: u64,
    pub service_ns: u64,
    pub published: Parts,
}

/// All runs that ended, in the order in which they began.
pub(crate) fn runs(clock: &Virtual) -> Vec<Run> {
    assert_eq!(clock.trace().lost(), 0);
    let mut runs: std::collections::BTreeMap<u64, Run> = Default::default();
    for event in clock.trace().events() {
        match event.point {
            Point::Start { module, class, path, .. } => {
                let module = module.map(dataflow::ModuleId::index);
                let run = Run {
                    module,
                    class,
                    path,
                    start_ns: event.at_ns,
                    end_ns: 0,
                    service_ns: 0,
                    published: Vec::new(),
                };
                runs.insert(event.job, run);
            }
            Point::Published { part, of, .. } => {
                let run = runs.get_mut(&event.job).unwrap();
                run.published.push((event.at_ns, part, of));
            }
            Point::End { service_ns, .. } => {
                // A piece's end is not a run's.
                let Some(run) = runs.get_mut(&event.job) else { continue };
                (run.end_ns, run.service_ns) = (event.at_ns, service_ns);
            }
            _ => {}
        }
    }
    runs.into_values().filter(|run| run.end_ns > 0).collect()
}

/// Fails if two runs have a core at the same time.
pub(crate) fn assert_one_at_a_time(clock: &Virtual) {
    let mut cores = std::collections::HashMap::new();
    let mut has = std::collections::HashMap::new();
    for event in clock.trace().events() {
        match event.point {
            Point::Start { core, .. } | Point::Piece { core, .. } | Point::Returned { core } => {
                _ = cores.insert(event.job, core)
            }
            Point::Resumed => {
                let before = has.insert(cores[&event.job], event.job);
                assert_eq!(before, None, "{} ns: job {}", event.at_ns, event.job);
            }
            Point::Paused => {
                assert_eq!(has.remove(&cores[&event.job]), Some(event.job), "{} ns", event.at_ns);
            }
            _ => {}
        }
    }
    assert!(cores.len() > 1);
}

/// Numbers that look random, the same ones for each seed.
pub(crate) struct Random(pub u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn between(&mut self, start: u64, end: u64) -> u64 {
        start + self.below(end - start)
    }
}

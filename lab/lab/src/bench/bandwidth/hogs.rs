//! Hogs in a process of their own, so that a regulator can manage their threads and no others.
//!
//! The process first says the kernel's numbers of its hogs' threads. Then it is told which of its
//! hogs may run, or nothing, and each time answers what each has touched so far.

use anyhow::ensure;
use bandwidth::regulator::Managed;
use bandwidth::workload::{Access, Hog, Size};
use realtime::clock::monotonic_ns;
use realtime::thread;
use serde::{Deserialize, Serialize};
use trial::{Child, Parent};

use crate::child;

/// Bytes that a hog must touch before it counts as running.
const SETTLED_BYTES: u64 = 1 << 20;
/// Time after which a hog is stopped by a regulator, or has no core.
const PATIENCE_NS: u64 = 10_000_000_000;

/// Core, access and array of a hog.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Place {
    /// Its core.
    pub core: usize,
    /// Its access to each line of the array.
    pub access: Access,
    /// Its array.
    pub size: Size,
}

/// The process with the hogs.
pub(crate) struct Hogs {
    child: Child,
    /// Its hogs.
    pub places: Vec<Place>,
    /// The kernel's numbers of their threads.
    pub threads: Vec<i32>,
}

/// Beginning of a count: the time, and the bytes that each hog had touched by then.
pub(crate) struct Meter {
    since_ns: u64,
    bytes: Vec<u64>,
}

impl Hogs {
    /// Starts them, paused; what is not a hog in their process stays on `home`.
    pub(crate) fn start(places: &[Place], home: &[usize]) -> anyhow::Result<Hogs> {
        let order = Order { home: home.to_vec(), places: places.to_vec() };
        let mut child = Child::order("the hog process", &child::Order::Hogs(order))?;
        let threads = child.hear()?;
        Ok(Hogs { child, places: places.to_vec(), threads })
    }

    /// Its threads, as a regulator is told of them.
    pub(crate) fn managed(&self) -> anyhow::Result<Managed> {
        Ok(Managed::Process(i32::try_from(self.child.id())?))
    }

    /// Lets these run, and no others; returns when that is so.
    pub(crate) fn run(&mut self, running: &[usize]) -> anyhow::Result<()> {
        let (before, until) = (self.ask(Some(running))?, monotonic_ns() + PATIENCE_NS);
        loop {
            let now = self.ask(None)?;
            if running.iter().all(|hog| now[*hog] >= before[*hog] + SETTLED_BYTES) {
                return Ok(());
            }
            ensure!(monotonic_ns() < until, "a hog makes no progress");
            std::thread::yield_now();
        }
    }

    /// Stops all.
    pub(crate) fn pause(&mut self) -> anyhow::Result<()> {
        self.ask(Some(&[])).map(|_| ())
    }

    /// Begins to count.
    pub(crate) fn meter(&mut self) -> anyhow::Result<Meter> {
        let bytes = self.ask(None)?;
        Ok(Meter { since_ns: monotonic_ns(), bytes })
    }

    /// Returns the rate of each hog since then, in megabytes (10^6) a second.
    pub(crate) fn since(&mut self, meter: &Meter) -> anyhow::Result<Vec<f64>> {
        let bytes = self.ask(None)?;
        let us = (monotonic_ns() - meter.since_ns) as f64 / 1e3;
        Ok(bytes.iter().zip(&meter.bytes).map(|(now, then)| (now - then) as f64 / us).collect())
    }

    /// Runs these hogs and no others, if any are named; returns the bytes of each hog afterwards.
    fn ask(&mut self, running: Option<&[usize]>) -> anyhow::Result<Vec<u64>> {
        let bytes: Vec<u64> = self.child.ask(&running)?;
        ensure!(bytes.len() == self.places.len(), "found {} hogs in the hog process", bytes.len());
        Ok(bytes)
    }
}

/// Order to the process.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    /// Cores of what is not a hog.
    home: Vec<usize>,
    places: Vec<Place>,
}

impl Order {
    /// Carries out orders until the parent ends.
    pub(crate) fn run(&self, parent: &mut Parent) -> anyhow::Result<()> {
        let start = |place: &Place| Hog::start(place.core, place.access, place.size);
        let hogs = self.places.iter().map(start).collect::<Result<Vec<Hog>, _>>()?;
        thread::pin(&self.home)?;
        parent.tell(&hogs.iter().map(Hog::thread_id).collect::<Vec<_>>())?;
        while let Some(running) = parent.hear_more::<Option<Vec<usize>>>()? {
            for (number, hog) in hogs.iter().enumerate().filter(|_| running.is_some()) {
                let runs = running.iter().flatten().any(|running| *running == number);
                if runs { hog.resume() } else { hog.pause() }
            }
            parent.tell(&hogs.iter().map(Hog::bytes).collect::<Vec<u64>>())?;
        }
        Ok(())
    }
}

//! `keeptime-lab bench locks`: what threads wait for locks, under one policy after another.
//!
//! A [`Case`] is a lock, a number of threads and whether they have a real-time priority. Each
//! repetition of it runs all policies, each in a fresh process and beginning with another one, so
//! that what else the machine does meets all of them alike. Waits are those of each acquisition.
//! A policy that the machine does not have, or that fails in a case, is left out there, and the
//! result says so; the C library's default must be there.
//!
//! [`calls`] adds "Autonomy Today"'s Figs. 12 and 13: what the calls themselves take.

mod calls;
mod cases_result;
mod cases_text;
mod histogram;
mod policy;
mod reading;
mod shape;
mod threads;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use realtime::thread::{self, Scheduling};
use terminal::progress::Progress;
use trial::signals::{self, Interrupted};

use crate::shown::{End, Shown};

use cases_result::{Findings, Row, Sample};
use policy::{Policy, Programs, Run};
use shape::Kind;

pub(super) use policy::Policy as PolicyArgument;
pub(crate) use shape::Shape;
pub(crate) use threads::measure;

/// SCHED_FIFO priority of the measured threads.
const PRIORITY: u8 = 50;
const SECTION_NS: u64 = 1000;
const THINK_NS: u64 = 1000;
/// Reads of 100 sections of a read-write lock.
const READS: u32 = 90;
/// Threads that each copy pageable memory hold a mutex about as long, for each copy.
const COPY_NS: u64 = 300_000;
const COPYING_THREADS: u32 = 14;
/// Runs with sections of that length are longer by this factor.
const LONGER: u64 = 3;
const WARM_UP_MS: u64 = 20;
/// Unless they are asked for, other numbers of threads take nested locks in vain.
const NESTED_THREADS: [u32; 2] = [2, 16];

/// Request for a measurement: threads, policies, time and repetitions.
pub(super) struct Wish {
    /// `None` is the usual numbers.
    pub threads: Option<Vec<u32>>,
    pub policies: Vec<Policy>,
    pub duration: Option<Duration>,
    pub repetitions: Option<u32>,
    pub quick: bool,
}

/// Extent of the measurement: numbers of threads, time of a run, repetitions.
struct Extent {
    threads: Vec<u32>,
    nested_threads: Vec<u32>,
    measured_ms: u64,
    repetitions: u32,
}

impl Wish {
    fn extent(&self) -> Extent {
        let (threads, measured_ms, repetitions): (&[u32], u64, u32) =
            if self.quick { (&[1, 4, 16], 100, 1) } else { (&[1, 2, 4, 16, 100], 300, 3) };
        let threads = self.threads.clone().unwrap_or_else(|| threads.to_vec());
        let nested = if self.threads.is_some() { threads.clone() } else { NESTED_THREADS.into() };
        Extent {
            threads,
            nested_threads: nested,
            measured_ms: self.duration.map_or(measured_ms, |given| given.as_millis() as u64),
            repetitions: self.repetitions.unwrap_or(repetitions),
        }
    }
}

/// Locks that threads want, and the threads that want them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lock {
    /// A mutex, held for a short time.
    Mutex,
    /// A mutex inside another.
    Nested,
    /// A mutex, held for as long as a copy of pageable memory takes.
    Long,
    /// The same, and a thread that launches: it sleeps, and wants the mutex for a short time.
    Launch,
    /// A read-write lock that is mostly read.
    Rwlock,
}

/// A case, measured under several policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Case {
    lock: Lock,
    threads: u32,
    /// True if the threads have a real-time priority; of [`Lock::Launch`] the launching one only.
    fifo: bool,
}

impl Case {
    /// All cases; those with a real-time priority only where it is granted.
    fn all(extent: &Extent, has_fifo: bool) -> Vec<Case> {
        let mut cases = Vec::new();
        let mut add = |lock, threads: &[u32], with_fifo: bool| {
            for fifo in [false, true] {
                if !fifo || (with_fifo && has_fifo) {
                    cases.extend(threads.iter().map(|&threads| Case { lock, threads, fifo }));
                }
            }
        };
        add(Lock::Mutex, &extent.threads, true);
        add(Lock::Nested, &extent.nested_threads, true);
        add(Lock::Long, &[COPYING_THREADS], false);
        add(Lock::Launch, &[COPYING_THREADS + 1], true);
        add(Lock::Rwlock, &extent.threads, true);
        cases
    }

    /// Names of its rows, with the histograms that they are about.
    fn rows(self) -> &'static [(&'static str, &'static str)] {
        match self.lock {
            Lock::Mutex => &[("mutex", "locked")],
            Lock::Nested => &[("mutex-nested", "locked")],
            Lock::Long => &[("mutex-long", "locked")],
            Lock::Launch => &[("mutex-launch", "locked")],
            Lock::Rwlock => &[("rwlock-read", "read_locked"), ("rwlock-write", "locked")],
        }
    }

    fn policies(self) -> &'static [Policy] {
        if self.lock == Lock::Rwlock { &Policy::RWLOCKS } else { &Policy::MUTEXES }
    }

    fn shape(self, extent: &Extent) -> Shape {
        let is_long = matches!(self.lock, Lock::Long | Lock::Launch);
        Shape {
            kind: match self.lock {
                Lock::Nested => Kind::Nested,
                Lock::Rwlock => Kind::Rwlock,
                _ => Kind::Mutex,
            },
            threads: self.threads,
            fifo: if self.fifo { PRIORITY } else { 0 },
            launch: self.lock == Lock::Launch,
            pin: self.threads as usize <= thread::cores().len(),
            section_ns: if is_long { COPY_NS } else { SECTION_NS },
            think_ns: THINK_NS,
            reads: READS,
            warm_up_ms: WARM_UP_MS,
            measured_ms: extent.measured_ms * if is_long { LONGER } else { 1 },
            ..Shape::default()
        }
    }

    /// Returns the name of a case that is left out, as in the result.
    fn name(self, lock: &str, policy: Policy) -> String {
        let fifo = if self.fifo { "/fifo" } else { "" };
        format!("{lock}/{}/{}{fifo}", policy.name(), self.threads)
    }

    fn title(self) -> String {
        let names: Vec<&str> = self.rows().iter().map(|(name, _)| *name).collect();
        let fifo = if self.fifo { ", SCHED_FIFO" } else { "" };
        let s = if self.threads == 1 { "" } else { "s" };
        format!("{}, {} thread{s}{fifo}", names.join(" and "), self.threads)
    }
}

/// Measures everything and prints it.
pub(super) fn run(wish: &Wish, json: bool) -> anyhow::Result<ExitCode> {
    let mut bench = Bench::new(wish)?;
    let cases = Case::all(&bench.extent, bench.has_fifo());
    let (all, mut done) = (cases.len() + calls::PARTS, 0);
    let progress = Progress::start("keeptime-lab bench locks", None);
    let (mut rows, mut calls) = (Vec::new(), Vec::new());
    let measure = || {
        for case in cases {
            progress.at(done as u64, all as u64, &case.title());
            rows.extend(bench.measure(case)?);
            done += 1;
        }
        calls::measure(&mut bench, &mut calls, |what| {
            progress.at(done as u64, all as u64, what);
            done += 1;
        })
    };
    let interrupted = signals::finished(measure())?;
    drop(progress);
    let end = End { interrupted, units: (done, all), name: "cases" };
    end.check()?;
    let Bench { extent, left_out, .. } = bench;
    let findings = Findings {
        rows,
        calls,
        left_out,
        cores: thread::cores().len(),
        measured_ms: extent.measured_ms,
        repetitions: extent.repetitions,
    };
    let shown = Shown { schema: ("keeptime.bench-locks", 2), json, html: None, end: &end };
    shown.text(|| findings.json(), || cases_text::render(&findings))?;
    end.answer(ExitCode::SUCCESS)
}

/// Programs and policies that are measured, and those that are left out.
struct Bench {
    programs: Programs,
    extent: Extent,
    policies: Vec<Policy>,
    /// Reasons of omission, by policy, by [`Case::name`], or `fifo`.
    left_out: BTreeMap<String, String>,
}

impl Bench {
    fn new(wish: &Wish) -> anyhow::Result<Bench> {
        let programs = Programs::new()?;
        let mut left_out = BTreeMap::new();
        let mut policies = wish.policies.clone();
        if let Some(reason) = programs.no_ck.clone().filter(|_| policies.contains(&Policy::Ck)) {
            left_out.insert(Policy::Ck.name().to_owned(), reason);
            policies.retain(|policy| *policy != Policy::Ck);
        }
        if let Some(reason) = fifo_refused() {
            left_out.insert("fifo".to_owned(), reason);
        }
        for (what, reason) in &left_out {
            tell!("keeptime-lab bench: {what} is left out: {reason}");
        }
        Ok(Bench { programs, extent: wish.extent(), policies, left_out })
    }

    fn has_fifo(&self) -> bool {
        !self.left_out.contains_key("fifo")
    }

    /// Requested policies in turns: the order of this repetition.
    fn turn(&self, of: &[Policy], repetition: u32) -> Vec<Policy> {
        let mut policies: Vec<Policy> =
            of.iter().copied().filter(|policy| self.policies.contains(policy)).collect();
        if !policies.is_empty() {
            let first = repetition as usize % policies.len();
            policies.rotate_left(first);
        }
        policies
    }

    /// Leaves a policy out. What is measured of the C library alone must not fail.
    fn leave_out(
        &mut self,
        policy: Policy,
        what: String,
        error: &anyhow::Error,
    ) -> anyhow::Result<()> {
        anyhow::ensure!(policy != Policy::Default, "{what}: {error:#}");
        tell!("keeptime-lab bench: {what} is left out: {error:#}");
        self.left_out.insert(what, format!("{error:#}"));
        Ok(())
    }

    /// Measures a case under all policies, in turns.
    fn measure(&mut self, case: Case) -> anyhow::Result<Vec<Row>> {
        let shape = case.shape(&self.extent);
        let mut runs: BTreeMap<Policy, Vec<Run>> = BTreeMap::new();
        let mut failed = Vec::new();
        for repetition in 0..self.extent.repetitions {
            let mut turn = self.turn(case.policies(), repetition);
            turn.retain(|policy| !failed.contains(policy));
            for policy in turn {
                signals::check()?;
                let run = self.programs.run(policy, &shape).and_then(|run| {
                    anyhow::ensure!(run.reading.fifo == case.fifo, "SCHED_FIFO was refused");
                    Ok(run)
                });
                match run {
                    Ok(run) => runs.entry(policy).or_default().push(run),
                    Err(error) if error.is::<Interrupted>() => return Err(error),
                    Err(error) => {
                        for (lock, _) in case.rows() {
                            self.leave_out(policy, case.name(lock, policy), &error)?;
                        }
                        failed.push(policy);
                        runs.remove(&policy);
                    }
                }
            }
        }
        Ok(self.rows(case, &runs))
    }

    /// The rows of a case.
    fn rows(&mut self, case: Case, runs: &BTreeMap<Policy, Vec<Run>>) -> Vec<Row> {
        let mut rows = Vec::new();
        for (lock, histogram) in case.rows() {
            for (&policy, runs) in runs {
                let samples = runs.iter().filter_map(|run| Sample::of(&run.reading, histogram));
                let samples: Vec<Sample> = samples.collect();
                if samples.is_empty() {
                    let reason = "no lock of this kind was taken in the measured time".to_owned();
                    self.left_out.insert(case.name(lock, policy), reason);
                    continue;
                }
                let guard = runs.last().and_then(|run| run.guard.clone());
                let Case { threads, fifo, .. } = case;
                rows.push(Row { lock, policy, threads, fifo, runs: samples, guard });
            }
        }
        rows
    }
}

/// Returns the reason why this machine does not grant the real-time priority, if it does not.
fn fifo_refused() -> Option<String> {
    // The program's own thread ends the runs, one priority above the measured ones.
    let ask = || thread::set_policy(Scheduling::Fifo(PRIORITY + 1)).err();
    let refused = std::thread::spawn(ask).join().ok().flatten();
    refused.map(|error| format!("{error} (see keeptime doctor)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(quick: bool) -> Wish {
        Wish { threads: None, policies: Vec::new(), duration: None, repetitions: None, quick }
    }

    #[test]
    fn cases_with_real_time_priority_are_there_where_it_is_granted() {
        let extent = wish(false).extent();
        let (without, with) = (Case::all(&extent, false), Case::all(&extent, true));
        assert!(without.iter().all(|case| !case.fifo));
        assert_eq!(with.iter().filter(|case| !case.fifo).count(), without.len());
        assert_eq!(without.len(), 5 + 2 + 1 + 1 + 5);
        assert_eq!(with.len(), 2 * without.len() - 1);
        let launch = with.iter().find(|case| case.lock == Lock::Launch && case.fifo).unwrap();
        let shape = launch.shape(&extent);
        assert!(shape.launch && shape.fifo == PRIORITY && shape.threads == COPYING_THREADS + 1);
    }

    #[test]
    fn options_given_count_more_than_quick() {
        let mut wish = wish(true);
        assert_eq!((wish.extent().repetitions, wish.extent().measured_ms), (1, 100));
        let given = Some(Duration::from_millis(250));
        (wish.threads, wish.repetitions, wish.duration) = (Some(vec![3]), Some(2), given);
        let extent = wish.extent();
        assert_eq!((extent.threads, extent.nested_threads), (vec![3], vec![3]));
        assert_eq!((extent.repetitions, extent.measured_ms), (2, 250));
    }
}

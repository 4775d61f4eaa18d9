//! Does the critical reaction time tell who crashes? Drives cases to develop a stack with, by both
//! stacks under some policies.
//!
//! `cargo run --release -p keeptime-driving --example band -- FACTOR LOW-HIGH POLICY,... JOBS`: cores FACTOR
//! times slower than this machine's; of `develop.csv` those whose critical time is not less than LOW
//! and not more than HIGH ms. A line for each drive, and at the end how many reactions were longer
//! than the critical time, and how many were not, and how many of both ended in a collision.

use driving::Policy;
use driving::drive::run;
use driving::stack::Stack;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use world::suite::{Frozen, Set};

fn main() -> ExitCode {
    match drive_all() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("band: {reason}");
            ExitCode::from(2)
        }
    }
}

/// Drives, and those that ended in a collision.
type Count = [usize; 2];

/// Reactions that were longer than the critical time, those that were not, and drives without one.
type Counts = BTreeMap<String, [Count; 3]>;

fn drive_all() -> Result<(), String> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [factor, band, policies, jobs] = &arguments[..] else {
        return Err("expected FACTOR LOW-HIGH POLICY,... JOBS".into());
    };
    let factor: f64 = factor.parse().map_err(|_| "FACTOR: expected a number")?;
    let jobs: usize = jobs.parse().map_err(|_| "JOBS: expected a number")?;
    let ends = band.split_once('-').and_then(|(low, high)| {
        Some(low.parse::<f64>().ok()? / 1e3..=high.parse::<f64>().ok()? / 1e3)
    });
    let ends = ends.ok_or("LOW-HIGH: expected two numbers, ms")?;
    let policies: Vec<Policy> = policies.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let inside = |case: &&Frozen| case.critical_s().is_some_and(|time| ends.contains(&time));
    let cases: Vec<&Frozen> = Set::Develop.frozen().iter().filter(inside).collect();
    let (next, counts) = (AtomicUsize::new(0), Mutex::new(Counts::new()));
    let work = || -> Result<(), String> {
        // The counter only has to give each case once; counts are handed over by the lock.
        while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            drive(case, factor, &policies, &counts)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<()>, String>>()
    })?;
    let counts = counts.into_inner().unwrap_or_else(|poison| poison.into_inner());
    println!("{} cases; drives, and those of them that ended in a collision", cases.len());
    println!("stack policy    later      in time    no reaction");
    for (name, [later, in_time, none]) in counts {
        let both = |[drives, crashes]: Count| format!("{drives:>4} {crashes:>4}");
        println!("{name:<14} {}  {}  {}", both(later), both(in_time), both(none));
    }
    Ok(())
}

fn drive(
    case: &Frozen,
    factor: f64,
    policies: &[Policy],
    counts: &Mutex<Counts>,
) -> Result<(), String> {
    let (scenario, critical) =
        (Set::Develop.case(case.index), case.critical_s().unwrap_or(f64::INFINITY));
    for stack in [Stack::A, Stack::B] {
        for policy in policies {
            let outcome = run(&scenario, stack, &policy.features(), policy.costs(factor));
            let outcome = outcome.map_err(|error| format!("{}: {error}", scenario.name))?;
            let reaction = outcome.reaction.as_ref().map(|it| it.total_ns() as f64 / 1e9);
            let crashed = !outcome.collisions.is_empty();
            let name = format!("{stack:?}     {policy}");
            let ms = reaction.map_or("-".to_owned(), |time| format!("{:.0}", 1e3 * time));
            let how = if crashed { "collision" } else { "well" };
            println!("{name:<14} {:<18} {:>4.0} {ms:>5} {how}", scenario.name, 1e3 * critical);
            let place = reaction.map_or(2, |time| usize::from(time <= critical));
            let mut counts = counts.lock().unwrap_or_else(|poison| poison.into_inner());
            let [drives, crashes] = &mut counts.entry(name).or_default()[place];
            *drives += 1;
            *crashes += usize::from(crashed);
        }
    }
    Ok(())
}

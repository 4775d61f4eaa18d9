//! Chooses the corner cases and writes their table, with their critical reaction times.
//!
//! `cargo run --release -p keeptime-driving --example freeze -- --jobs 32 --out corner.csv`, or with
//! `--develop` that of the cases to develop with, with `--confirm` that of those to confirm with; the
//! tables belong into `lab/driving/world/src/suite`.
//! `--attempts N` looks at fewer draws of each case than usual. The file is written after each case,
//! and gone on with if it is there: times of another planner have to be removed before.

use driving::critical::{ATTEMPTS, select};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;
use world::suite::{self, Frozen, HEAD, Set};

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("freeze: {reason}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), String> {
    let (mut set, mut jobs, mut attempts, mut out) = (Set::Corner, 1, ATTEMPTS, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{option}: expected a value"));
        let number = |text: String| {
            let number = text.parse().ok().filter(|number| *number > 0);
            number.ok_or(format!("{option}: found {text}, expected a number from 1"))
        };
        match option.as_str() {
            "--develop" => set = Set::Develop,
            "--confirm" => set = Set::Confirm,
            "--jobs" => jobs = number(value()?)?,
            "--attempts" => attempts = number(value()?)?,
            "--out" => out = Some(value()?),
            _ => {
                let expected = "--jobs, --develop, --confirm, --attempts, --out";
                return Err(format!("found {option}, expected {expected}"));
            }
        }
    }
    let out = out.ok_or("--out: expected a file")?;
    freeze(set, jobs, attempts, &out)
}

/// Entry of the file for a case, or its first draw without a time.
fn begun(set: Set, kept: &[Frozen], index: usize) -> Frozen {
    let kept = kept.iter().find(|case| case.index == index && case.scenario(set).is_ok());
    kept.copied().unwrap_or_else(|| Frozen::new(set, index, 0, None))
}

fn freeze(set: Set, jobs: u32, attempts: u32, out: &str) -> Result<(), String> {
    let kept = std::fs::read_to_string(out).map_or(Vec::new(), |table| suite::read(&table));
    let table: Vec<Frozen> = (0..set.size()).map(|index| begun(set, &kept, index)).collect();
    let unknown: Vec<usize> =
        table.iter().filter(|case| case.limit.is_none()).map(|case| case.index).collect();
    let (table, begun) = (Mutex::new(table), Instant::now());
    let (next, over) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let failed = AtomicBool::new(false);
    let keep = |case: Frozen| {
        let mut table = table.lock().unwrap_or_else(|poison| poison.into_inner());
        table[case.index] = case;
        // Those in which nobody found a time are over, too.
        let done = set.size() - unknown.len() + over.fetch_add(1, Ordering::Relaxed) + 1;
        let (of, seconds) = (set.size(), begun.elapsed().as_secs());
        eprintln!("{done} of {of}, {seconds} s: {}", case.line());
        let lines: String = table.iter().map(|case| case.line() + "\n").collect();
        std::fs::write(out, format!("{HEAD}\n{lines}")).map_err(|error| format!("{out}: {error}"))
    };
    let work = || -> Result<(), String> {
        // The counter only has to give each case once; what is found is handed over by the lock.
        while let Some(index) = unknown.get(next.fetch_add(1, Ordering::Relaxed)) {
            if failed.load(Ordering::Relaxed) {
                return Ok(());
            }
            let case = select(set, *index, attempts).map_err(|error| format!("{index}: {error}"));
            let kept = case.and_then(keep);
            kept.inspect_err(|_| failed.store(true, Ordering::Relaxed))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let ends = threads.into_iter().map(|thread| thread.join());
        ends.map(|end| end.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<()>, String>>()
    })?;
    Ok(())
}

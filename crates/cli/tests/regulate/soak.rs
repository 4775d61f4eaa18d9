//! Bounds in time, for a machine without other work: `cargo xtask soak` runs them.

use std::time::{Duration, Instant};

use bandwidth::Hold;
use rustix::process::Signal;
use serde_json::Value;

use crate::running::{Regulate, alone, core, holder, load, of_core, of_thread};

fn elapsed_ns(totals: &Value) -> f64 {
    totals["elapsed_ns"].as_f64().unwrap()
}

fn pause(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[test]
#[ignore = "soak"]
fn core_has_its_share_while_the_lock_is_held_and_all_of_it_otherwise() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let share = |hold: &[&str]| {
        let load = load("compute", core);
        let id = load.id().to_string();
        let options = ["--budget", "25%", "--duration", "1500ms", "--manage", &id];
        let totals = Regulate::start(core, &[&options, hold].concat()).totals();
        let ran_ns = of_thread(&totals, load.id())["run_ns"].as_f64().unwrap();
        (ran_ns / elapsed_ns(&totals), of_core(&totals, "stopped_ns"))
    };
    let (held, stopped_ns) = share(&["--hold"]);
    let (free, _) = share(&[]);
    // Its share without the lock depends on whatever else runs there.
    let is_right = held < 0.35 && held > free / 20.0 && stopped_ns > 500_000_000;
    assert!(is_right, "{held} of the time with the lock held, {free} without; {stopped_ns}");
}

#[test]
#[ignore = "soak"]
fn stop_lasts_no_longer_than_the_hold() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let _load = load("compute", core);
    let regulate = Regulate::start(core, &["--budget", "5%", "--period", "1s"]);
    let hold = Hold::attach(&regulate.socket).unwrap();
    let begun = Instant::now();
    for _ in 0..3 {
        hold.acquire();
        pause(150);
        hold.release();
        pause(20);
    }
    let most = begun.elapsed();
    // A second more, in which a stop that went on would be seen.
    pause(1000);
    let totals = regulate.end(Signal::INT);
    let stopped = Duration::from_nanos(of_core(&totals, "stopped_ns"));
    assert!(stopped > Duration::from_millis(50) && stopped < most, "{stopped:?} of {most:?}");
}

#[test]
#[ignore = "soak"]
fn short_holds_are_stopped_for_most_of_their_time() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let _load = load("compute", core);
    let regulate = Regulate::start(core, &["--budget", "20%", "--period", "200ms"]);
    let hold = Hold::attach(&regulate.socket).unwrap();
    let begun = Instant::now();
    // None of them is as long as the budget.
    while begun.elapsed() < Duration::from_secs(2) {
        hold.acquire();
        pause(20);
        hold.release();
        pause(5);
    }
    let totals = regulate.end(Signal::TERM);
    let stopped = Duration::from_nanos(of_core(&totals, "stopped_ns"));
    assert!(stopped > begun.elapsed() / 4, "{stopped:?}");
}

#[test]
#[ignore = "soak"]
fn killed_holder_stops_a_core_no_longer() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let regulate = Regulate::start(core, &["--budget", "5%"]);
    let mut holder = holder(&regulate.socket);
    pause(200);
    holder.signal(Signal::KILL);
    holder.0.wait().unwrap();
    let begun = Instant::now();
    pause(3000);
    let free = begun.elapsed();
    let totals = regulate.end(Signal::TERM);
    let elapsed = Duration::from_nanos(totals["elapsed_ns"].as_u64().unwrap());
    let stopped = Duration::from_nanos(of_core(&totals, "stopped_ns"));
    assert!(stopped > Duration::ZERO && stopped < elapsed - free / 2, "{stopped:?} {elapsed:?}");
}

#[test]
#[ignore = "soak"]
fn core_with_a_small_budget_is_stopped_for_most_of_the_time() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let _load = load("compute", core);
    let options = ["--budget", "2%", "--hold", "--duration", "5s"];
    let totals = Regulate::start(core, &options).totals();
    let share = of_core(&totals, "stopped_ns") as f64 / elapsed_ns(&totals);
    assert!(share > 0.7, "{share}: {totals}");
}

#[test]
#[ignore = "soak"]
fn thread_that_looks_by_itself_costs_the_taker_no_wake_up() {
    let (_alone, Some(core)) = (alone(), core()) else { return };
    let taking = |attention: &str| {
        let regulate = Regulate::start(core, &["--budget", "50%", "--attention", attention]);
        let hold = Hold::attach(&regulate.socket).unwrap();
        let once = |_| {
            let begun = Instant::now();
            hold.acquire();
            let took = begun.elapsed();
            pause(3);
            hold.release();
            // For much longer than it lingers.
            pause(20);
            took
        };
        let mut took: Vec<_> = (0..25).map(once).collect();
        took.sort_unstable();
        let totals = regulate.end(Signal::TERM);
        (took[took.len() / 2], of_core(&totals, "stops") >= 25, totals)
    };
    let [bell, look] = ["bell", "look"].map(taking);
    let is_right = look.0 * 2 < bell.0 && look.1 && bell.1;
    assert!(is_right, "{bell:?} with the bell, {look:?} looking");
}

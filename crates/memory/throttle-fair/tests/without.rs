//! Behaviour of a build without the scheduler.
#![cfg(not(feature = "sched-ext"))]

#[test]
fn build_without_the_scheduler_says_how_to_get_it() {
    let Err(error) = throttle_fair::load(1.0) else { panic!("there is nothing to load") };
    assert!(error.to_string().contains("--features sched-ext"), "{error}");
}

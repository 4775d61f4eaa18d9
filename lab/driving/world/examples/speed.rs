//! Speed of worlds: normal scenarios under the reference driver, on one core.
//!
//! `cargo run --release -p keeptime-world --example speed -- 200`: the first 200; without a number, all.

use std::time::Instant;
use world::{Reference, World, suite};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let count = match std::env::args().nth(1) {
        Some(text) => text.parse::<usize>()?.min(suite::NORMAL),
        None => suite::NORMAL,
    };
    let (mut steps, mut bodies, mut collisions) = (0, 0, 0);
    let (mut stood, mut metres) = (0, 0.0);
    let start = Instant::now();
    for index in 0..count {
        let scenario = suite::normal(index);
        let mut world = World::new(&scenario)?;
        let mut driver = Reference::new(scenario.ego.headway_s);
        while !world.ended() {
            let command = driver.drive(&world);
            world.step(&command);
            steps += 1;
            bodies += world.bodies().len();
            stood += usize::from(world.ego().speed() == 0.0);
            metres += world.ego().speed() * world::STEP;
        }
        for collision in world.collisions() {
            collisions += 1;
            println!("{}: {collision:?}", scenario.name);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{count} scenarios, {steps} steps in {seconds:.2} s: {:.0} steps/s",
        steps as f64 / seconds
    );
    println!("{:.1} bodies in the mean, {collisions} collisions", bodies as f64 / steps as f64);
    println!(
        "mean speed {:.1} m/s, standing {:.1} % of the time",
        metres / (steps as f64 * world::STEP),
        100.0 * stood as f64 / steps as f64
    );
    Ok(())
}

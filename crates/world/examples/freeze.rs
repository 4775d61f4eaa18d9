//! Writes the table of the corner cases, with their critical reaction times, to standard output.
//!
//! `cargo run --release -p world --example freeze > crates/world/src/suite/corner.csv`

use world::critical::critical;
use world::suite::{self, Frozen};

fn main() -> Result<(), world::scenario::Error> {
    println!("index,family,fingerprint,limit,critical_ms");
    for index in 0..suite::CORNER {
        let scenario = suite::corner(index);
        let limit = critical(&scenario)?.limit;
        let (family, fingerprint) = (suite::family(index), suite::fingerprint(&scenario));
        println!("{}", Frozen { index, family, fingerprint, limit }.line());
    }
    Ok(())
}

//! Time that is saved if a device reaches its clients' memory itself: `vecadd` with memory that is
//! imported and with memory that is copied, in turns, on each device that can do both.
//!
//! `cargo run --release -p keeptime-device-vulkan --example import [ROUNDS]`

use device::hosted::Unit;
use device::{Device, Error, Event, Launch, Level, Status, StreamId};
use device_vulkan::{Config, Select, VulkanDevice};
use shm::Segment;
use shm::memory::PeerSlice;
use std::sync::Arc;

/// Bytes of each of the two inputs and of the output.
const SIZES: [usize; 4] = [1 << 12, 1 << 16, 1 << 20, 16 << 20];

/// A started device with a stream.
struct Side {
    device: Arc<VulkanDevice>,
    stream: StreamId,
    times: Vec<u64>,
}

impl Side {
    fn start(index: usize, import: bool) -> Result<Side, Error> {
        let units = vec![Unit::default()];
        let device = Select::Index(index);
        let staging_bytes = 2 * SIZES[3];
        let config = Config { device, units, import, staging_bytes, ..Config::default() };
        let device = device_vulkan::start(config)?;
        let stream = device.create_stream(device.create_context()?, Level(0))?;
        Ok(Side { device, stream, times: Vec::new() })
    }

    /// Launches, waits and notes how long the units were at it.
    fn run(&mut self, input: &PeerSlice, output: &PeerSlice) -> Result<(), Error> {
        let kernel = self.device.kernel("vecadd").ok_or(Error::Start("no vecadd".into()))?;
        let mut order = Launch::new(kernel, [output.len() as u64 / 4, 0, 0, 0]);
        (order.input, order.output) = (input.clone(), output.clone());
        let event = Event::new();
        self.device.launch(self.stream, order, &event)?;
        let outcome = event.wait();
        assert_eq!(outcome.status, Status::Done);
        self.times.push(outcome.busy_ns);
        Ok(())
    }

    /// The median of what was noted, in microseconds.
    fn median_us(&mut self) -> f64 {
        self.times.sort_unstable();
        let median = self.times[self.times.len() / 2];
        self.times.clear();
        median as f64 / 1_000.0
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rounds: usize = std::env::args().nth(1).map_or(Ok(301), |rounds| rounds.parse())?;
    for found in device_vulkan::devices()?.iter().filter(|one| one.missing.is_none()) {
        if !found.imports {
            println!("{}: imports no memory", found.name);
            continue;
        }
        let mut sides = [Side::start(found.index, true)?, Side::start(found.index, false)?];
        println!("{}, {rounds} rounds each in turns, medians:", found.name);
        for bytes in SIZES {
            let all = PeerSlice::whole(Segment::create("import", 3 * bytes)?.map()?);
            all.write_f32(0, &vec![1.0; 3 * bytes / 4])?;
            let (input, output) = (all.slice(0, 2 * bytes)?, all.slice(2 * bytes, bytes)?);
            for round in 0..rounds + 10 {
                if round == 10 {
                    // Before, the memory was imported, and caches were warmed up.
                    sides.iter_mut().for_each(|side| side.times.clear());
                }
                // The order of the two changes, too.
                sides[round % 2].run(&input, &output)?;
                sides[(round + 1) % 2].run(&input, &output)?;
            }
            let [imported, copied] = sides.each_mut().map(Side::median_us);
            println!(
                "{:>6} KiB: imported {imported:9.1} us, copied {copied:9.1} us, ratio {:.2}",
                bytes >> 10,
                copied / imported
            );
        }
        for side in &sides {
            println!("{:?}", side.device.backend().client_memory());
        }
    }
    Ok(())
}

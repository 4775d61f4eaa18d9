//! Keeps a real-time software accelerator busy and prints the longest block: the pauses that the
//! kernel or the hypervisor forced on it. A block of the busy kernel has 100 us of work.

use device::{Device, Event, Launch, Level, software};
use realtime::thread::Scheduling;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds = std::env::args().nth(1).map_or(Ok(5), |seconds| seconds.parse())?;
    let policy = Scheduling::Fifo(50);
    let config = software::Config { cores: vec![0], policy, ..software::Config::default() };
    let device = software::SoftwareDevice::on_cores(config)?;
    let stream = device.create_stream(device.create_context()?, Level(0))?;
    let busy = device.kernel("busy").ok_or("no busy kernel")?;
    for second in 1..=seconds {
        let event = Event::new();
        device.launch(stream, Launch::new(busy, [1_000_000_000, 0, 0, 0]), &event)?;
        let outcome = event.wait();
        let statistics = device.statistics();
        println!(
            "{second}: 1 s of work took {:.3} s, longest block so far {:.3} ms, real-time: {}",
            (outcome.finished_ns - outcome.started_ns) as f64 * 1e-9,
            statistics.longest_block_ns as f64 * 1e-6,
            statistics.realtime
        );
    }
    Ok(())
}

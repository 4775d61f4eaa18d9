//! Duration of a launch of 100 us on a GPU, alone and while others keep the GPU full.
//!
//!     cargo run --release -p keeptime-device-cuda --example gpu_latency

use device::{Device, Event, Launch, Level};
use device_cuda::{Config, start};
use realtime::thread::Scheduling;
use std::time::Instant;

fn report(what: &str, mut times_us: Vec<f64>) {
    times_us.sort_by(f64::total_cmp);
    let at = |part: f64| times_us[((times_us.len() - 1) as f64 * part) as usize];
    println!("{what:44} p50 {:8.1} us   p99 {:8.1} us   max {:8.1} us", at(0.5), at(0.99), at(1.0));
}

fn main() -> Result<(), device::Error> {
    for spins in [false, true] {
        for policy in [Scheduling::Normal, Scheduling::Fifo(50)] {
            let device = start(&Config { spins, policy, lowest: 4, ..Config::default() })?;
            let how = format!("spins {spins}, {policy:?}");
            let context = device.create_context()?;
            let stream = device.create_stream(context, Level(5))?;
            let kernel = |name| device.kernel(name).expect("every device has it");
            let times = |ns: u64, count: usize| -> Result<Vec<f64>, device::Error> {
                let event = Event::new();
                (0..count)
                    .map(|_| {
                        let begin = Instant::now();
                        let launch = Launch::new(kernel("busy"), [ns, 0, 0, 0]);
                        device.launch(stream, launch, &event)?;
                        event.wait();
                        Ok(begin.elapsed().as_nanos() as f64 / 1e3)
                    })
                    .collect()
            };
            report(&format!("{how}: 100 us alone"), times(100_000, 2000)?);
            let low: Vec<_> = (0..6).map(|_| device.create_stream(context, Level(0))).collect();
            let events: Vec<Event> = (0..6).map(|_| Event::new()).collect();
            for (stream, event) in low.iter().flatten().zip(&events) {
                let launch = Launch::new(kernel("busy"), [300_000_000_000, 0, 0, 0]);
                device.launch(*stream, launch, event)?;
            }
            report(&format!("{how}: 100 us beside six others"), times(100_000, 2000)?);
            for stream in low.iter().flatten() {
                device.cancel(*stream)?;
            }
            for event in &events {
                event.wait();
            }
        }
    }
    Ok(())
}

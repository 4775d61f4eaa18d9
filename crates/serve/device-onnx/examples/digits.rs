//! Reads the digits of `examples/digits` on a device, and says how long one takes.
//!
//! `ORT_DYLIB_PATH=.../libonnxruntime.so.1.31.1 cargo run --release -p keeptime-device-onnx --example digits`

use device::{Device, Event, Launch, Level};
use device_onnx::{Config, Model};
use shm::memory::PeerSlice;
use std::error::Error;
use std::path::Path;
use std::time::Instant;

const PIXELS: usize = 16 * 16;
const DIGITS: usize = 10;
const ROUNDS: usize = 20;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/digits");
    let images = std::fs::read(folder.join("images.bin"))?;
    let labels = std::fs::read(folder.join("labels.bin"))?;
    let models = vec![Model::new("digits", folder.join("model.onnx"))];
    let device = device_onnx::start(&Config { models, ..Config::default() })?;
    for kernel in device.kernels() {
        println!("{}: {}", kernel.name, kernel.description);
    }

    let context = device.create_context()?;
    let stream = device.create_stream(context, Level(0))?;
    let (input, output) = (PeerSlice::anonymous(PIXELS * 4)?, PeerSlice::anonymous(DIGITS * 4)?);
    let kernel = device.kernel("digits").ok_or("no kernel")?;
    let launch = Launch { input, output, ..Launch::new(kernel, [1, 0, 0, 0]) };
    let event = Event::new();
    let (mut right, mut taken, mut computed) = (0, Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        for (image, label) in images.chunks(PIXELS).zip(&labels) {
            let pixels: Vec<f32> = image.iter().map(|pixel| f32::from(*pixel) / 255.0).collect();
            let start = Instant::now();
            launch.input.write_f32(0, &pixels)?;
            device.launch(stream, launch.clone(), &event)?;
            let outcome = event.wait();
            let mut logits = [0.0f32; DIGITS];
            launch.output.read_f32(0, &mut logits)?;
            taken.push(start.elapsed().as_nanos());
            computed.push(u128::from(outcome.busy_ns));
            let best = (0..DIGITS).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
            right += usize::from(best == Some(usize::from(*label)));
        }
    }
    let percent = right as f64 * 100.0 / taken.len() as f64;
    println!("{percent:.2} % of {} are right", taken.len());
    for (what, mut times) in [("one digit", taken), ("of it the model", computed)] {
        times.sort_unstable();
        let at = |percent: usize| times[(times.len() - 1) * percent / 100] as f64 / 1_000.0;
        println!("{what}: {:.1} us (median), {:.1} us (99 %)", at(50), at(99));
    }
    Ok(())
}

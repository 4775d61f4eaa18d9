//! A network that was trained for it reads digits on the device.

mod support;

use device::{Device, Error, Event, Level, Status};
use device_onnx::{Config, Model, OnnxDevice};
use shm::memory::PeerSlice;
use std::sync::Arc;
use support::{config, file, memory, order, run};

const PIXELS: usize = 16 * 16;
const DIGITS: usize = 10;

fn read(name: &str) -> Vec<u8> {
    std::fs::read(file("examples/digits").join(name)).unwrap()
}

fn start(most: u32) -> Option<Arc<OnnxDevice>> {
    let model = Model { most, ..Model::new("digits", file("examples/digits/model.onnx")) };
    Some(device_onnx::start(&Config { models: vec![model], ..config()? }).unwrap())
}

/// Returns the scores that the network gives images, in batches of at most `most`.
fn classify(device: &Arc<OnnxDevice>, images: &[u8], most: usize) -> Vec<[f32; DIGITS]> {
    let mut all = Vec::new();
    for batch in images.chunks(most * PIXELS) {
        let count = batch.len() / PIXELS;
        let input = PeerSlice::anonymous(batch.len() * 4).unwrap();
        let pixels: Vec<f32> = batch.iter().map(|pixel| f32::from(*pixel) / 255.0).collect();
        input.write_f32(0, &pixels).unwrap();
        let output = PeerSlice::anonymous(count * DIGITS * 4).unwrap();
        let outcome = run(device, order(device, "digits", count as u64, &input, &output));
        assert_eq!(outcome.status, Status::Done);
        let mut logits = vec![0.0; count * DIGITS];
        output.read_f32(0, &mut logits).unwrap();
        all.extend(logits.as_chunks::<DIGITS>().0);
    }
    all
}

/// The most likely digit.
fn digit(logits: &[f32; DIGITS]) -> u8 {
    let best = (0..DIGITS).max_by(|a, b| logits[*a].total_cmp(&logits[*b]));
    best.unwrap() as u8
}

#[test]
fn digits_are_read_right_in_batches_of_every_size() {
    let Some(device) = start(7) else { return };
    let (images, labels) = (read("images.bin"), read("labels.bin"));
    assert_eq!(images.len(), labels.len() * PIXELS);
    for most in [1, 2, 7] {
        let logits = classify(&device, &images, most);
        assert_eq!(logits.len(), labels.len());
        let right = logits.iter().zip(&labels).filter(|(l, label)| digit(l) == **label).count();
        let percent = right as f64 * 100.0 / labels.len() as f64;
        println!("batches of {most}: {percent:.2} % of {} digits are right", labels.len());
        assert!(percent >= 95.0, "{percent} %");
    }
}

#[test]
fn outputs_are_those_of_the_runtime_in_python() {
    let Some(device) = start(16) else { return };
    let expected = read("logits.bin");
    let expected: Vec<f32> =
        expected.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
    let expected = expected.as_chunks::<DIGITS>().0;
    assert!(expected.len() >= 10);
    let images = read("images.bin");
    for most in [1, 16] {
        let logits = classify(&device, &images[..expected.len() * PIXELS], most);
        for (got, expected) in logits.iter().zip(expected) {
            // The runtime adds up in an order that depends on the processor's vector instructions,
            // so each sum's rounding errors, a few units in the last place of its greatest terms,
            // differ between machines.
            let scale = expected.iter().fold(1.0_f32, |scale, logit| scale.max(logit.abs()));
            for (got, expected) in got.iter().zip(expected) {
                // Written so that a NaN is not near anything.
                let near = (got - expected).abs() <= 1e-6 * scale;
                assert!(near, "{got} instead of {expected} in batches of {most}");
            }
        }
    }
}

/// A run is one block: whoever is most important waits for the one that runs, not for others.
#[test]
fn an_urgent_run_waits_for_no_run_that_has_not_started() {
    let Some(device) = start(1) else { return };
    let (input, output) = (memory(&[0; PIXELS * 4]), memory(&[0; DIGITS * 4]));
    let context = device.create_context().unwrap();
    let stream = |level| device.create_stream(context, Level(level)).unwrap();
    let none = PeerSlice::empty();
    let (hold, held) = (stream(5), Event::new());
    device.launch(hold, order(&device, "busy", 60_000_000_000, &none, &none), &held).unwrap();
    let launch = |level| {
        let event = Event::new();
        let order = order(&device, "digits", 1, &input, &output);
        device.launch(stream(level), order, &event).unwrap();
        event
    };
    let low = [launch(0), launch(0), launch(0)];
    let high = launch(4);
    assert!(low.iter().chain([&high]).all(|event| event.query().is_none()));
    device.cancel(hold).unwrap();
    assert_eq!(held.wait().status, Status::Cancelled);
    let high = high.wait();
    let low = low.map(|event| event.wait());
    assert!(low.iter().all(|low| high.finished_ns <= low.started_ns), "{high:?} {low:?}");
    assert!(low.windows(2).all(|pair| pair[0].finished_ns <= pair[1].started_ns), "{low:?}");
    assert!(low.iter().chain([&high]).all(|outcome| outcome.status == Status::Done));
}

#[test]
fn batches_that_do_not_fit_are_refused() {
    let Some(device) = start(4) else { return };
    let (input, output) = (memory(&[0; 4 * PIXELS * 4]), memory(&[0; 4 * DIGITS * 4]));
    for value in [0, 5, 1 << 32 | 1, u64::MAX] {
        let kernel = "digits";
        let refused = Error::BadArgument { kernel, index: 0, value, least: 1, most: 4 };
        assert_eq!(device.check(&order(&device, kernel, value, &input, &output)), Err(refused));
    }
    for batch in 1..=4 {
        let (needed, given) = (batch * PIXELS as u64 * 4, batch as usize * PIXELS * 4 - 1);
        let short = input.slice(0, given).unwrap();
        let refused = Error::ShortBuffer { buffer: "input", needed, length: given as u64 };
        assert_eq!(device.check(&order(&device, "digits", batch, &short, &output)), Err(refused));
        let (needed, given) = (batch * DIGITS as u64 * 4, batch as usize * DIGITS * 4 - 1);
        let short = output.slice(0, given).unwrap();
        let refused = Error::ShortBuffer { buffer: "output", needed, length: given as u64 };
        assert_eq!(device.check(&order(&device, "digits", batch, &input, &short)), Err(refused));
    }
    let fits = order(&device, "digits", 4, &input, &output);
    assert_eq!(run(&device, fits).status, Status::Done);
}

//! Kernels against plain references, at sizes that fit no tile.

use super::Check;
use super::scene::{Scene, Stop, done, ensure};
use crate::{Event, Level};
use shm::memory::PeerSlice;

pub(super) const CASES: &[(&str, Check)] = &[
    ("empty and busy complete and report their times", times),
    ("vecadd adds", vecadd),
    ("matmul multiplies", matmul),
    ("reduce adds up, with the same bits each time", reduce),
    ("histogram counts", histogram),
    ("stencil averages", stencil),
    ("convolution convolves", convolution),
    ("activation adds a bias and cuts what is negative", activation),
];

fn times(scene: &Scene) -> Result<(), Stop> {
    let stream = scene.stream(Level(0))?;
    let event = Event::new();
    scene.empty(stream, &event)?;
    let empty = done(&event)?;
    scene.busy(stream, 1_000_000, &event)?;
    let busy = done(&event)?;
    ensure(empty.started_ns <= empty.finished_ns, || format!("{empty:?}"))?;
    ensure(empty.finished_ns <= busy.started_ns, || format!("{empty:?} before {busy:?}"))?;
    let lasted = busy.finished_ns - busy.started_ns;
    let units = u64::from(scene.device.properties().units);
    ensure(busy.busy_ns > 0 && busy.busy_ns <= lasted * units, || format!("{busy:?}"))?;
    ensure(!busy.overrun, || "overrun without a budget".into())
}

fn vecadd(scene: &Scene) -> Result<(), Stop> {
    for n in [0, 1, 7, 4095, 4096, 4097, 20_001] {
        let (a, b) = (numbers(n, 1), numbers(n, 2));
        let output = scene.memory(n * 4)?;
        let input = scene.floats(&[a.as_slice(), &b].concat())?;
        run(scene, "vecadd", [n as u64, 0, 0, 0], input, &output)?;
        let expected: Vec<f32> = a.iter().zip(&b).map(|(a, b)| a + b).collect();
        compare("vecadd", n, &expected, &read(&output)?, 0.0)?;
    }
    Ok(())
}

fn matmul(scene: &Scene) -> Result<(), Stop> {
    for n in [0, 1, 2, 31, 32, 33, 65, 100] {
        let (a, b) = (numbers(n * n, 3), numbers(n * n, 4));
        let output = scene.memory(n * n * 4)?;
        let input = scene.floats(&[a.as_slice(), &b].concat())?;
        run(scene, "matmul", [n as u64, 0, 0, 0], input, &output)?;
        let element = |i: usize| -> f32 {
            let (row, column) = (i / n, i % n);
            let products = (0..n).map(|k| f64::from(a[row * n + k]) * f64::from(b[k * n + column]));
            products.sum::<f64>() as f32
        };
        let expected: Vec<f32> = (0..n * n).map(element).collect();
        compare("matmul", n, &expected, &read(&output)?, 1e-5 * n as f32)?;
    }
    Ok(())
}

fn reduce(scene: &Scene) -> Result<(), Stop> {
    for n in [0, 1, 8191, 8192, 8193, 100_003] {
        let values = numbers(n, 5);
        let output = scene.memory(8)?;
        let mut bits = Vec::new();
        for _ in 0..4 {
            run(scene, "reduce", [n as u64, 0, 0, 0], scene.floats(&values)?, &output)?;
            let mut sum = [0; 8];
            output.read(0, &mut sum)?;
            bits.push(f64::from_ne_bytes(sum));
        }
        let expected: f64 = values.iter().copied().map(f64::from).sum();
        ensure(bits.iter().all(|sum| sum.to_bits() == bits[0].to_bits()), || format!("{bits:?}"))?;
        let near = (bits[0] - expected).abs() <= 1e-9 * n.max(1) as f64;
        ensure(near, || format!("reduce of {n}: {} instead of {expected}", bits[0]))?;
    }
    Ok(())
}

fn histogram(scene: &Scene) -> Result<(), Stop> {
    for (n, bins) in [(0, 3), (1, 1), (8193, 7), (100_003, 256), (50_000, 4096)] {
        let mut random = Random(6);
        let values: Vec<u32> = (0..n).map(|_| random.next() % (bins as u32 + 2)).collect();
        let input = scene.memory(n * 4)?;
        input.write_u32(0, &values)?;
        let output = scene.memory(bins * 4)?;
        run(scene, "histogram", [n as u64, bins as u64, 0, 0], input, &output)?;
        let mut expected = vec![0u32; bins];
        for value in values {
            expected[(value as usize).min(bins - 1)] += 1;
        }
        let mut counts = vec![0; bins];
        output.read_u32(0, &mut counts)?;
        ensure(counts == expected, || format!("histogram of {n} in {bins} bins"))?;
    }
    Ok(())
}

fn stencil(scene: &Scene) -> Result<(), Stop> {
    for (w, h) in [(0, 5), (1, 1), (2, 9), (128, 32), (129, 33), (127, 65), (300, 3), (257, 70)] {
        let x = numbers(w * h, 7);
        let output = scene.memory(w * h * 4)?;
        run(scene, "stencil", [w as u64, h as u64, 0, 0], scene.floats(&x)?, &output)?;
        let element = |i: usize| {
            let (row, column) = (i / w, i % w);
            if row == 0 || column == 0 || row == h - 1 || column == w - 1 {
                return x[i];
            }
            (x[i] + x[i - w] + x[i + w] + x[i - 1] + x[i + 1]) / 5.0
        };
        let expected: Vec<f32> = (0..w * h).map(element).collect();
        compare("stencil", w, &expected, &read(&output)?, 1e-5)?;
    }
    Ok(())
}

fn convolution(scene: &Scene) -> Result<(), Stop> {
    for (w, h) in [(0, 5), (1, 1), (2, 9), (128, 32), (129, 33), (127, 65), (300, 3), (257, 70)] {
        let (x, filter) = (numbers(w * h, 8), numbers(9, 9));
        let output = scene.memory(w * h * 4)?;
        let input = scene.floats(&[x.as_slice(), &filter].concat())?;
        run(scene, "convolution", [w as u64, h as u64, 0, 0], input, &output)?;
        let neighbour = |i: usize, part: usize| {
            let row = (i / w + part / 3).checked_sub(1).filter(|row| *row < h);
            let column = (i % w + part % 3).checked_sub(1).filter(|column| *column < w);
            row.zip(column).map_or(0.0, |(row, column)| f64::from(x[row * w + column]))
        };
        let element = |i: usize| {
            let parts = (0..9).map(|part| f64::from(filter[part]) * neighbour(i, part));
            parts.sum::<f64>() as f32
        };
        let expected: Vec<f32> = (0..w * h).map(element).collect();
        compare("convolution", w, &expected, &read(&output)?, 1e-5)?;
    }
    Ok(())
}

fn activation(scene: &Scene) -> Result<(), Stop> {
    for (w, h) in [(0, 5), (5, 0), (1, 1), (2, 9), (4097, 3), (129, 33), (9000, 2)] {
        let (x, bias) = (numbers(w * h, 10), numbers(w, 11));
        let output = scene.memory(w * h * 4)?;
        let input = scene.floats(&[x.as_slice(), &bias].concat())?;
        run(scene, "activation", [w as u64, h as u64, 0, 0], input, &output)?;
        let expected: Vec<f32> = (0..w * h).map(|i| (x[i] + bias[i % w]).max(0.0)).collect();
        compare("activation", w, &expected, &read(&output)?, 1e-6)?;
    }
    Ok(())
}

pub(super) fn run(
    scene: &Scene,
    kernel: &str,
    arguments: [u64; 4],
    input: PeerSlice,
    output: &PeerSlice,
) -> Result<(), Stop> {
    let mut launch = scene.order(kernel, arguments)?;
    (launch.input, launch.output) = (input, output.clone());
    let event = Event::new();
    scene.device.launch(scene.stream(Level(0))?, launch, &event)?;
    done(&event).map(|_| ())
}

pub(super) fn read(memory: &PeerSlice) -> Result<Vec<f32>, Stop> {
    let mut values = vec![0.0; memory.len() / 4];
    memory.read_f32(0, &mut values)?;
    Ok(values)
}

pub(super) fn compare(
    kernel: &str,
    n: usize,
    expected: &[f32],
    got: &[f32],
    tolerance: f32,
) -> Result<(), Stop> {
    // Written so that a NaN is not near anything.
    let near = |i: &usize| (got[*i] - expected[*i]).abs() <= tolerance;
    match (0..expected.len()).find(|i| !near(i)) {
        None => Ok(()),
        Some(i) => Err(Stop::Failed(format!(
            "{kernel} of size {n}: element {i} is {} instead of {}",
            got[i], expected[i]
        ))),
    }
}

/// Numbers between -1 and 1.
pub(super) fn numbers(count: usize, seed: u64) -> Vec<f32> {
    let mut random = Random(seed);
    (0..count).map(|_| random.next() as f32 / (1u32 << 31) as f32 - 1.0).collect()
}

/// A small generator (Knuth's MMIX constants), the same numbers on every machine.
pub(super) struct Random(pub u64);

impl Random {
    pub(super) fn next(&mut self) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 32) as u32
    }
}

//! Accelerators that are no processor cores, through the server: each test says when the machine
//! lacks what it needs.

mod support;

use accel::{Registration, Request};
use std::path::Path;
use support::{one_gpu, serve};

const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/digits");

/// Adds vectors on the server's device, at addresses that are no multiple of anything.
fn add_vectors(fixture: &support::Fixture) {
    const COUNT: usize = 1001;
    let mut client = fixture.client();
    let of = Registration::service("vecadd").chain("sum", 5).memory(COUNT * 12 + 4);
    let add = client.register(&of).unwrap();
    let memory = client.memory(add).unwrap();
    let values: Vec<f32> = (0..2 * COUNT).map(|i| i as f32).collect();
    memory.write_f32(1, &values).unwrap();
    let request = Request::new()
        .arguments(&[COUNT as u64])
        .input(4, COUNT * 8)
        .output(4 + COUNT * 8, COUNT * 4);
    client.run(add, &request).unwrap();
    let mut sums = vec![0.0; COUNT];
    client.memory(add).unwrap().read_f32(1 + 2 * COUNT, &mut sums).unwrap();
    assert!(sums.iter().enumerate().all(|(i, sum)| *sum == (COUNT + 2 * i) as f32));
}

#[test]
fn vulkan_device_serves_requests() {
    let found = device_vulkan::devices();
    let usable = found.as_ref().map(|found| found.iter().find(|device| device.missing.is_none()));
    let Ok(Some(device)) = usable else { return println!("SKIP: no Vulkan device: {found:?}") };
    let keys = format!("buckets: 3, device: \"vulkan:{}\", spin: true", device.index);
    add_vectors(&serve(&one_gpu(&keys, "")));
}

#[test]
fn cuda_device_serves_requests() {
    match device_cuda::devices() {
        Ok(found) if !found.is_empty() => {
            add_vectors(&serve(&one_gpu("buckets: 3, device: \"cuda:0\"", "")));
        }
        other => println!("SKIP: no GPU: {other:?}"),
    }
}

#[test]
fn model_of_the_system_file_classifies_digits() {
    if !std::env::var_os(device_onnx::LIBRARY_VARIABLE).is_some_and(|at| Path::new(&at).exists()) {
        return println!("SKIP: {} is not set", device_onnx::LIBRARY_VARIABLE);
    }
    const PIXELS: usize = 256;
    let images = std::fs::read(format!("{DIGITS}/images.bin")).unwrap();
    let labels = std::fs::read(format!("{DIGITS}/labels.bin")).unwrap();
    let model = format!("{{name: digits, model: {DIGITS}/model.onnx, batch: 8}}");
    let fixture = serve(&one_gpu(&format!("buckets: 2, device: onnx, kernels: [{model}]"), ""));
    let mut client = fixture.client();
    let bytes = PIXELS * 4 + 40;
    let see = Registration::service("digits").chain("signs", 3).memory(bytes);
    let see = client.register(&see).unwrap();
    let mut right = 0;
    let count = 100;
    for (image, label) in images.chunks_exact(PIXELS).zip(&labels).take(count) {
        let pixels: Vec<f32> = image.iter().map(|byte| f32::from(*byte) / 255.0).collect();
        client.memory(see).unwrap().write_f32(0, &pixels).unwrap();
        let request = Request::new().arguments(&[1]).input(0, PIXELS * 4).output(PIXELS * 4, 40);
        client.run(see, &request).unwrap();
        let mut scores = [0.0; 10];
        client.memory(see).unwrap().read_f32(PIXELS, &mut scores).unwrap();
        let best = (0..10).max_by(|a, b| scores[*a].total_cmp(&scores[*b])).unwrap();
        right += usize::from(best == usize::from(*label));
    }
    assert!(right * 100 >= 95 * count, "{right} of {count} are right");
}

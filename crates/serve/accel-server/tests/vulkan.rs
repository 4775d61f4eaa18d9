//! Shaders of the system file on a Vulkan device, through the server.

mod support;

use accel::{Registration, Request};
use accel_server::{Error, Options, Server};
use std::path::{Path, PathBuf};
use support::{one_gpu, serve};
use system::System;

/// Multiplies as many words as the first argument says by the second one.
const SCALE: &str = "
    struct Arguments { low: vec4<u32>, high: vec4<u32> }
    @group(0) @binding(0) var<storage, read> input: array<u32>;
    @group(0) @binding(1) var<storage, read_write> output: array<u32>;
    @group(0) @binding(2) var<uniform> arguments: Arguments;
    @compute @workgroup_size(64)
    fn main(@builtin(global_invocation_id) id: vec3<u32>) {
        if id.x < arguments.low.x {
            output[id.x] = input[id.x] * arguments.low.y;
        }
    }";

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("keeptime-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The number of the first device that can be used; says so if there is none.
fn device() -> Option<usize> {
    let found = device_vulkan::devices();
    let usable =
        found.as_ref().ok().and_then(|found| found.iter().find(|one| one.missing.is_none()));
    if usable.is_none() {
        println!("SKIP: no Vulkan device: {found:?}");
    }
    usable.map(|device| device.index)
}

/// A system with one kernel: the path of its shader, and its other keys.
fn with_shader(device: usize, shader: &Path, rest: &str) -> String {
    let kernel = format!("{{name: scale, shader: {}, {rest}}}", shader.display());
    one_gpu(&format!("buckets: 2, device: \"vulkan:{device}\", kernels: [{kernel}]"), "")
}

#[test]
fn shader_of_the_system_file_computes() {
    let Some(device) = device() else { return };
    let folder = Folder::new("scale");
    let shader = folder.file("scale.wgsl", SCALE.as_bytes());
    let fixture = serve(&with_shader(device, &shader, "entry: main, items_per_group: 64"));
    for count in [1, 63, 64, 65, 5_000] {
        let mut client = fixture.client();
        let of = Registration::service("scale").chain("scale", 3).memory(count * 8 + 100);
        let scale = client.register(&of).unwrap();
        // The output where a device can reach it as it is, and where it cannot.
        let behind = (count * 4).next_multiple_of(64);
        for output in [behind, count * 4 + 4] {
            let input: Vec<u32> = (0..count as u32).collect();
            let memory = client.memory(scale).unwrap();
            memory.write_u32(0, &input).unwrap();
            memory.write_u32(output / 4, &vec![9; count]).unwrap();
            let scaled = count.saturating_sub(1);
            let request = Request::new()
                .arguments(&[scaled as u64, 3])
                .input(0, count * 4)
                .output(output, count * 4);
            client.run(scale, &request).unwrap();
            let mut got = vec![0; count];
            client.memory(scale).unwrap().read_u32(output / 4, &mut got).unwrap();
            let (written, left) = got.split_at(scaled);
            assert!(written.iter().enumerate().all(|(i, word)| *word == 3 * i as u32), "{got:?}");
            assert_eq!(left, [9]);
        }
    }
}

/// Returns the error for which a server with this kernel does not start.
fn refused(folder: &Folder, device: usize, shader: &str, rest: &str) -> Error {
    let yaml = with_shader(device, Path::new(shader), rest);
    // A path of the file is relative to its folder.
    let name = folder.0.join("test.yaml");
    let system = System::parse(&yaml, &name.display().to_string()).unwrap();
    let socket = Some(folder.0.join("socket"));
    match Server::start(&system, Options { socket, ..Options::default() }) {
        Ok(_) => panic!("{shader} was accepted"),
        Err(error) => error,
    }
}

#[test]
fn shader_that_cannot_be_read_is_named_with_its_key() {
    let Some(device) = device() else { return };
    let folder = Folder::new("unreadable");
    folder.file("odd.spv", b"12345");
    folder.file("none.spv", b"");
    folder.file("binary.wgsl", &[0xff; 64]);
    for (shader, reason) in [
        ("missing.wgsl", "No such file"),
        ("missing.spv", "No such file"),
        ("odd.spv", "5 bytes are no SPIR-V"),
        ("none.spv", "0 bytes are no SPIR-V"),
        ("binary.wgsl", "UTF-8"),
    ] {
        let error = refused(&folder, device, shader, "entry: main");
        let text = error.to_string();
        assert!(matches!(error, Error::Config { .. }), "{text}");
        let path = folder.0.join(shader);
        for part in ["kernels.scale.shader", &path.display().to_string(), reason] {
            assert!(text.contains(part), "{shader}: {part:?} is not in {text:?}");
        }
    }
}

#[test]
fn shader_that_does_not_compile_is_named_with_the_reason() {
    let Some(device) = device() else { return };
    let folder = Folder::new("wrong");
    folder.file("typo.wgsl", b"@compute @workgroup_size(1) fn main() { let x = nothing; }");
    folder.file("scale.wgsl", SCALE.as_bytes());
    folder.file("noise.spv", b"12345678123456781234567812345678");
    for (shader, rest, reason) in [
        ("typo.wgsl", "entry: main", "nothing"),
        ("scale.wgsl", "entry: other", "no compute entry point \"other\""),
        ("noise.spv", "entry: main", "not SPIR-V"),
    ] {
        let error = refused(&folder, device, shader, rest);
        let text = error.to_string();
        assert!(matches!(error, Error::Start { .. }), "{text}");
        let accelerator = format!("accelerators.gpu0.device: vulkan:{device}");
        let path = folder.0.join(shader);
        for part in [&accelerator, "module scale", &path.display().to_string(), reason] {
            assert!(text.contains(part), "{shader}: {part:?} is not in {text:?}");
        }
        println!("{text}");
    }
}

//! The runtime's library: missing, wrong, another one. In a process of its own, because a process
//! loads one only.

mod support;

use device_onnx::{Config, LIBRARY_VARIABLE};
use support::{config, refusal};

#[test]
fn a_library_that_is_missing_or_wrong_is_refused_with_its_path() {
    let folder = std::env::temp_dir().join(format!("keeptime-onnx-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text = folder.join("libtext.so");
    std::fs::write(&text, "not a library").unwrap();
    let missing = folder.join("libonnxruntime.so.0");

    for (path, reason) in
        [(&missing, "No such file"), (&text, "cannot be loaded"), (&folder, "not a file")]
    {
        let told = refusal(&Config { library: Some(path.clone()), ..Config::default() });
        println!("{told}");
        let expected = "expected the library of ONNX Runtime";
        for part in [&path.display().to_string(), reason, expected] {
            assert!(told.contains(part), "{told} lacks {part}");
        }
    }
    // None at all, where the environment names none either.
    if std::env::var_os(LIBRARY_VARIABLE).is_none() {
        let told = refusal(&Config::default());
        assert!(told.contains("no library is named") && told.contains(LIBRARY_VARIABLE), "{told}");
    }
    // A library, but another one.
    let other = ["/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6", "/usr/lib/libc.so.6"];
    if let Some(other) = other.into_iter().find(|path| std::path::Path::new(path).is_file()) {
        let told = refusal(&Config { library: Some(other.into()), ..Config::default() });
        assert!(told.contains(other) && told.contains("OrtGetApiBase"), "{told}");
    }

    // None of these keeps the right one from being loaded, and then a second one is refused.
    if let Some(config) = config() {
        drop(device_onnx::start(&config).expect("the right library is loaded"));
        drop(device_onnx::start(&config).expect("and used again"));
        let copy = folder.join("libonnxruntime.so.2");
        std::fs::copy(config.library.as_ref().unwrap(), &copy).unwrap();
        let told = refusal(&Config { library: Some(copy), ..config });
        assert!(told.contains("has loaded") && told.contains("already"), "{told}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

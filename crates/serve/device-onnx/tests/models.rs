//! Models as kernels: their numbers, their sizes, and what is refused.

mod support;

use device::{Device, Error, FailureCode, Status};
use device_onnx::{Config, Provider};
use support::{bytes, config, memory, model, order, run};

/// Numbers of each type of the model `kinds`, one after the other.
fn kinds(factor: u8) -> Vec<u8> {
    let f = f64::from(factor);
    let mut all = Vec::new();
    all.extend([1.5, -2.0, 1e-3].iter().flat_map(|x: &f32| (x * f as f32).to_le_bytes()));
    all.extend([0.25, -1e300, 3.0, 7.0].iter().flat_map(|x: &f64| (x * f).to_le_bytes()));
    all.extend([1, -2, 3, 1 << 29, 5].iter().flat_map(|x: &i32| (x * f as i32).to_le_bytes()));
    all.extend((-(1i64 << 40) * i64::from(factor)).to_le_bytes());
    all.extend([1, 2, 3, 4, 5, 60, 127].map(|x: u8| x * factor));
    all
}

#[test]
fn tensors_of_each_type_lie_one_after_the_other() {
    let Some(config) = config() else { return };
    let device = device_onnx::start(&Config { models: vec![model("kinds")], ..config }).unwrap();
    let kernels = device.kernels();
    let kernel = kernels.iter().find(|kernel| kernel.name == "kinds").unwrap();
    println!("{}", kernel.description);
    for part in ["f32 f32[3]", "f64 f64[2][2]", "i32 i32[1][5]", "i64 i64,", "u8 u8_twice[7]"] {
        assert!(kernel.description.contains(part), "{part}: {}", kernel.description);
    }

    let (input, length) = (memory(&kinds(1)), kinds(1).len());
    let output = memory(&vec![0xaa; length + 1]);
    assert_eq!(run(&device, order(&device, "kinds", 0, &input, &output)).status, Status::Done);
    let got = bytes(&output);
    assert_eq!(got[..length], kinds(2));
    assert_eq!(got[length], 0xaa, "written beyond the last output");

    // Memory that is bound once is read anew at each run.
    input.write(0, &vec![0; length]).unwrap();
    assert_eq!(run(&device, order(&device, "kinds", 0, &input, &output)).status, Status::Done);
    assert_eq!(bytes(&output)[..length], vec![0; length]);

    let short = input.slice(0, length - 1).unwrap();
    let (needed, less) = (length as u64, length as u64 - 1);
    let refused = |buffer| Err(Error::ShortBuffer { buffer, needed, length: less });
    assert_eq!(device.check(&order(&device, "kinds", 0, &short, &output)), refused("input"));
    assert_eq!(device.check(&order(&device, "kinds", 0, &input, &short)), refused("output"));
}

/// The data of a launch are not trusted, and a model may reject them only when it runs.
#[test]
fn a_run_that_fails_ends_as_failed_and_the_device_goes_on() {
    let Some(config) = config() else { return };
    let device = device_onnx::start(&Config { models: vec![model("element")], ..config }).unwrap();
    let output = memory(&[0; 4]);
    for (index, expected) in [(1, Some(20.0f32)), (3, None), (i64::MIN, None), (2, Some(30.0))] {
        let input = memory(&i64::to_le_bytes(index));
        let outcome = run(&device, order(&device, "element", 0, &input, &output));
        match expected {
            Some(value) => {
                assert_eq!(outcome.status, Status::Done, "element {index}");
                assert_eq!(bytes(&output), value.to_le_bytes());
            }
            None => assert_eq!(outcome.status, Status::Failed(FailureCode::Kernel as u32)),
        }
    }
}

#[test]
fn models_that_do_not_fit_are_refused_with_the_file_and_the_reason() {
    let Some(config) = config() else { return };
    for (name, reasons) in [
        ("mismatch", &["a batch of 1 failed", "shape", "gives what it declares"][..]),
        ("open", &["input \"x\"", "[-1, -1]", "only the first left open"]),
        ("text", &["input \"x\"", "expected f32, f64, i32, i64 or u8"]),
        ("sequence", &["input \"x\"", "expected a tensor"]),
        ("make.py", &["cannot be loaded", "expected a model"]),
        ("nothing", &["No such file", "expected a model"]),
    ] {
        let mut model = model(name);
        if name.contains('.') {
            model.path.set_file_name(name);
        }
        let path = model.path.display().to_string();
        let text = support::refusal(&Config { models: vec![model], ..config.clone() });
        println!("{text}");
        assert!(text.contains(&path), "{text}");
        let missing: Vec<_> = reasons.iter().filter(|reason| !text.contains(**reason)).collect();
        assert!(missing.is_empty(), "{name}: {text} lacks {missing:?}");
    }
}

#[test]
fn names_and_numbers_are_checked_before_anything_is_loaded() {
    let library = Some("/no/such/library.so".into());
    let config = Config { library, models: vec![model("kinds")], ..Config::default() };
    let with = |change: &dyn Fn(&mut Config)| {
        let mut config = config.clone();
        change(&mut config);
        support::refusal(&config)
    };
    for name in ["", "busy", "empty", "vecadd"] {
        let text = with(&|config| config.models[0].name = name.into());
        assert!(text.contains(&format!("name {name:?}")) && text.contains("kinds.onnx"), "{text}");
    }
    let text = with(&|config| config.models.push(model("kinds")));
    assert!(text.contains("name \"kinds\""), "{text}");
    for most in [0, 257] {
        let text = with(&|config| config.models[0].most = most);
        assert!(text.contains("1 to 256"), "{text}");
    }
    assert!(with(&|config| config.threads = 0).contains("0 threads"));
    assert!(with(&|_| ()).contains("/no/such/library.so"));
}

#[test]
fn a_provider_that_the_library_does_not_have_is_refused() {
    let Some(config) = config() else { return };
    let provider = Provider::Cuda { device: 0 };
    match device_onnx::start(&Config { provider, ..config }) {
        Err(Error::Start(text)) => {
            println!("{text}");
            assert!(text.contains("expected a library with provider cuda:0"), "{text}");
        }
        Err(other) => panic!("{other:?}"),
        Ok(_) => println!("the library has CUDA, and here is a GPU"),
    }
}

//! The network as a model of ONNX Runtime.

mod support;

use submission::network::{Network, Shape};
use submission::{Accelerator, Error, Method, Select};

const LIBRARY: &str = "ORT_DYLIB_PATH";

/// The accelerator; says why if there is none.
fn open() -> Option<Box<dyn Accelerator>> {
    match submission::open(&Select::Onnx(None)) {
        Ok(accelerator) => Some(accelerator),
        Err(Error::Unavailable(why)) if std::env::var_os(LIBRARY).is_none() => {
            println!("SKIP: {why}");
            assert!(why.contains(LIBRARY), "{why}");
            None
        }
        Err(error) => panic!("{LIBRARY} names a library, but {error}"),
    }
}

#[test]
fn model_computes_what_the_processor_does() {
    let Some(mut accelerator) = open() else { return };
    println!("{:?}", accelerator.about());
    assert_eq!(accelerator.about().id, "onnx");
    assert_eq!(accelerator.methods(), [(Method::Model, Ok(()))]);
    support::computes_what_the_processor_does(accelerator.as_mut(), Method::Model);
}

#[test]
fn steps_are_reported_in_order_and_other_methods_refused() {
    let Some(mut accelerator) = open() else { return };
    let network = Network::new(Shape { k: 1, l: 1 }).unwrap();
    let refused = accelerator.build(Method::CommandBuffer, &network);
    assert!(matches!(refused.err(), Some(Error::Unavailable(_))));
    let mut built = accelerator.build(Method::Model, &network).unwrap();
    let names: Vec<&str> = built.steps.iter().map(|step| step.name).collect();
    assert_eq!(names, ["write", "load", "allocate"]);
    assert!(built.run.output().is_err(), "an output before the first submission");
    built.run.submit().unwrap();
    // While it runs.
    drop(built);
}

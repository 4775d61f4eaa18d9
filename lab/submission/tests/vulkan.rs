//! The network as a command buffer, on every Vulkan device that can be used.

mod support;

use submission::network::{Network, Shape};
use submission::{Accelerator, Error, Method, Select};

/// All devices that can be used; says why if there is none.
fn usable() -> Vec<Box<dyn Accelerator>> {
    let found = device_vulkan::devices().unwrap_or_else(|error| {
        println!("SKIP: {error}");
        Vec::new()
    });
    if found.is_empty() {
        println!("SKIP: Vulkan finds no device");
    }
    let usable = found.into_iter().filter(|one| {
        if let Some(missing) = &one.missing {
            println!("SKIP: {} lacks {missing}", one.name);
        }
        one.missing.is_none()
    });
    usable.map(|one| submission::open(&Select::Vulkan(one.index)).unwrap()).collect()
}

#[test]
fn every_device_computes_what_the_processor_does() {
    for mut accelerator in usable() {
        println!("{:?}", accelerator.about());
        assert!(accelerator.methods().contains(&(Method::CommandBuffer, Ok(()))));
        support::computes_what_the_processor_does(accelerator.as_mut(), Method::CommandBuffer);
    }
}

#[test]
fn steps_are_reported_in_order() {
    for mut accelerator in usable() {
        let network = Network::new(Shape { k: 1, l: 1 }).unwrap();
        let built = accelerator.build(Method::CommandBuffer, &network).unwrap();
        let names: Vec<&str> = built.steps.iter().map(|step| step.name).collect();
        assert_eq!(names, ["compile", "allocate", "record"]);
    }
}

#[test]
fn thousands_of_kernels_fit_a_command_buffer() {
    let network = Network::new(Shape { k: 1, l: 2000 }).unwrap();
    let reference = &network.reference(&[2000])[0];
    for mut accelerator in usable() {
        let mut built = accelerator.build(Method::CommandBuffer, &network).unwrap();
        built.run.submit().unwrap();
        built.run.wait().unwrap();
        assert!(built.run.is_finished().unwrap());
        let difference = built.run.output().unwrap().difference(reference);
        assert!(difference <= network.tolerance(), "{difference}");
    }
}

#[test]
fn misuse_is_refused_and_a_submission_may_be_left_alone() {
    let network = Network::new(Shape { k: 2, l: 200 }).unwrap();
    for mut accelerator in usable() {
        let refused = accelerator.build(Method::Graph, &network);
        assert!(matches!(refused.err(), Some(Error::Unavailable(_))));
        let mut built = accelerator.build(Method::CommandBuffer, &network).unwrap();
        assert!(built.run.output().is_err(), "an output before the first submission");
        built.run.submit().unwrap();
        assert!(built.run.submit().is_err(), "two submissions at once");
        // While it runs.
        drop(built);
        let mut built = accelerator.build(Method::CommandBuffer, &network).unwrap();
        built.run.submit().unwrap();
        built.run.wait().unwrap();
        built.run.output().unwrap();
    }
}

#[test]
fn device_that_does_not_exist_is_unavailable() {
    let Err(error) = submission::open(&Select::Vulkan(1_000)) else {
        panic!("device 1000 was opened");
    };
    assert!(matches!(&error, Error::Unavailable(why) if why.contains("1000")), "{error}");
}

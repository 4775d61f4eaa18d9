//! The system file: any text may come from an editor.

use system::System;

/// Panics when the parser does, or when it accepts a system that breaks what the rest of the
/// program takes for granted.
pub fn check(text: &str) {
    match System::parse(text, "fuzz.yaml") {
        Ok(system) => check_system(&system),
        Err(error) => assert!(error.to_string().starts_with("fuzz.yaml"), "{error}"),
    }
}

fn check_system(system: &System) {
    for accelerator in &system.accelerators {
        assert!((1..=system::MAX_BUCKETS).contains(&accelerator.buckets));
        for (chain, bucket) in system.bucket_map(&accelerator.id) {
            assert!(system.chain(&chain).is_some());
            assert!(bucket < accelerator.buckets, "{chain} in bucket {bucket}");
        }
    }
    for chain in &system.chains {
        assert!(chain.period_ns > 0 && chain.deadline_ns <= chain.period_ns);
        let parts = chain.parts();
        assert_eq!(
            parts.iter().map(|part| part.callbacks.len()).sum::<usize>(),
            chain.callbacks.len()
        );
        for callback in &chain.callbacks {
            assert!(system.executor(&callback.executor).is_some(), "{}", callback.executor);
            for segment in &callback.segments {
                assert!(system.accelerator(&segment.accel).is_some(), "{}", segment.accel);
            }
        }
    }
    for service in &system.services {
        assert!(system.accelerator(&service.accelerator).is_some());
        assert!(service.arguments.len() <= system::MAX_ARGUMENTS);
    }
    let model = system.model().check();
    assert!(model.is_ok(), "{model:?}");
    let again = System::parse(&system.to_yaml(), &system.name);
    assert_eq!(again.as_ref().ok(), Some(system), "{again:?}");
}

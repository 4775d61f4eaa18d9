//! Common part of the tests: sizes, and the right output for each.

use submission::measure::{self, Protocol, Wait};
use submission::network::{Network, Output, Shape};
use submission::{Accelerator, Method};

/// The widths and depths that every accelerator computes in the tests.
pub(crate) const K: [usize; 3] = [1, 2, 3];
/// See [`K`].
pub(crate) const L: [usize; 4] = [1, 2, 17, 100];

/// Every size is computed as the processor computes it, and again with the same bits, whether the
/// end is awaited by asking or by sleeping.
pub(crate) fn computes_what_the_processor_does(accelerator: &mut dyn Accelerator, method: Method) {
    for k in K {
        let deepest = Network::new(Shape { k, l: L[L.len() - 1] }).unwrap();
        for (l, reference) in L.into_iter().zip(deepest.reference(&L)) {
            let network = Network::new(Shape { k, l }).unwrap();
            let [first, second] = outputs(accelerator, method, &network);
            let difference = first.difference(&reference);
            println!("k {k}, l {l}: {difference:e} of {:e}", network.tolerance());
            assert!(difference <= network.tolerance(), "k {k}, l {l}: {difference}");
            assert_eq!(first, second, "k {k}, l {l}");
        }
    }
}

/// The outputs after one repetition and after some more.
fn outputs(accelerator: &mut dyn Accelerator, method: Method, network: &Network) -> [Output; 2] {
    let mut built = accelerator.build(method, network).unwrap();
    assert!(built.steps.iter().any(|step| step.ns > 0), "{:?}", built.steps);
    [(1, Wait::Poll), (3, Wait::Block)].map(|(repetitions, wait)| {
        let protocol = Protocol { warm_up: 0, repetitions, limit_ns: u64::MAX, wait };
        let samples = measure::repeat(built.run.as_mut(), &protocol).unwrap();
        assert_eq!(samples.len(), repetitions as usize);
        assert!(samples.iter().all(|sample| sample.submission_ns < sample.completion_ns));
        built.run.output().unwrap()
    })
}

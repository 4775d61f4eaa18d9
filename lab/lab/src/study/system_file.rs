//! Task set as a system file, so that it can be analysed, simulated and changed alone.

use std::collections::BTreeMap;

use analysis::Span;
use system::{Accelerator, Callback, Chain, DeviceKind, Executor, Segment, System, Wait};

/// The text of a system file whose model is this system.
///
/// # Errors
/// A system file cannot express it, as with more than 64 buckets.
pub(super) fn text(model: &analysis::System, name: &str) -> anyhow::Result<String> {
    let mut file = System::parse("{}", name)?;
    file.kappa_ns = model.kappa_ns;
    file.epsilon_ns = model.epsilon_ns;
    file.sigma_ns = model.sigma_ns;
    file.hop_ns = model.hop_ns;
    file.accelerators = (model.accelerators.iter().enumerate())
        .map(|(index, accelerator)| Accelerator {
            id: gpu(index),
            buckets: accelerator.buckets,
            device: DeviceKind::default(),
            cores: Vec::new(),
            bucket_from: Vec::new(),
            concurrent_lowest: accelerator.concurrent_lowest,
            spin: false,
            blocks_per_slice: 0,
            slices_at_once: 1,
            provider: None,
            kernels: Vec::new(),
        })
        .collect();
    file.executors = (model.executors.iter().enumerate())
        .map(|(index, place)| Executor {
            id: executor(index),
            core: place.core,
            priority: place.priority,
        })
        .collect();
    file.chains = (1..).zip(&model.chains).map(|(number, chain)| of_chain(number, chain)).collect();
    let text = file.to_yaml();
    // The written text is read again, so that every file can be read.
    System::parse(&text, name)?;
    Ok(text)
}

fn gpu(index: usize) -> String {
    format!("gpu{index}")
}

fn executor(index: usize) -> String {
    format!("e{}", index + 1)
}

fn of_chain(number: usize, chain: &analysis::Chain) -> Chain {
    let used = chain.buckets.iter().enumerate().filter(|(index, _)| chain.uses(*index));
    let bucket: BTreeMap<String, u32> = used.map(|(index, bucket)| (gpu(index), *bucket)).collect();
    Chain {
        id: format!("chain{number}"),
        priority: chain.priority,
        period_ns: chain.period_ns,
        deadline_ns: chain.deadline_ns,
        jitter_ns: chain.jitter_ns,
        wait: match chain.wait {
            analysis::Wait::Suspend => Wait::Suspend,
            analysis::Wait::Spin => Wait::Spin,
        },
        best_effort: chain.best_effort,
        bucket,
        callbacks: (1..)
            .zip(&chain.callbacks)
            .map(|(n, callback)| of_callback(n, callback))
            .collect(),
    }
}

fn of_callback(number: usize, callback: &analysis::Callback) -> Callback {
    let segment = |segment: &analysis::Segment| Segment {
        accel: gpu(segment.accelerator),
        exec_ns: segment.exec.max_ns,
        exec_min_ns: least(segment.exec),
        cpu_before_ns: segment.cpu_before_ns,
        service: None,
    };
    Callback {
        id: format!("c{number}"),
        executor: executor(callback.executor),
        cpu_ns: callback.cpu.max_ns,
        cpu_min_ns: least(callback.cpu),
        segments: callback.segments.iter().map(segment).collect(),
    }
}

/// A least time of 0 says nothing.
fn least(span: Span) -> Option<u64> {
    (span.min_ns > 0).then_some(span.min_ns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::generate::{Fig14, Proposal, random, stream, tiny};

    #[test]
    fn the_model_of_the_file_is_the_set() {
        let of_point = |set: u64| -> [analysis::System; 4] {
            let rng = &mut stream(1, 0, set);
            [
                Fig14::a(12, 10).draw(rng),
                Proposal { accelerators: 2, ..Proposal::new(8, 0.4) }.draw(rng).unwrap(),
                random(rng),
                tiny(rng),
            ]
        };
        for set in 0..300 {
            for mut model in of_point(set) {
                let text = text(&model, "set.yaml").unwrap();
                // A bucket on an accelerator that a chain does not use means nothing.
                for chain in &mut model.chains {
                    let used: Vec<bool> = (0..chain.buckets.len()).map(|a| chain.uses(a)).collect();
                    for (bucket, used) in chain.buckets.iter_mut().zip(used) {
                        *bucket = if used { *bucket } else { 0 };
                    }
                }
                assert_eq!(System::parse(&text, "set.yaml").unwrap().model(), model, "{text}");
            }
        }
    }
}

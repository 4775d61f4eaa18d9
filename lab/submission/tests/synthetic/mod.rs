//! A study that nobody measured: shapes that real ones may have, for tests alone.

use submission::measure::{Protocol, Sample, Seat, Wait};
use submission::network::Shape;
use submission::study::{Case, Missing, Plan, Study};
use submission::{About, Method, Step};

/// Behaviour of an invented contender, in nanoseconds.
#[derive(Clone, Copy)]
pub(crate) struct Invented {
    pub accelerator: usize,
    pub method: Method,
    /// The submission, and what each kernel adds to it.
    pub submission: (f64, f64),
    /// Further time of the GPU, and the addition by each kernel.
    pub device: (f64, f64),
    /// Time of the steps that are done once, and the addition by each kernel.
    pub once: (f64, f64),
    /// The relative spread.
    pub spread: f64,
}

fn about(id: &str, name: &str, driver: &str) -> About {
    About { id: id.into(), name: name.into(), driver: driver.into() }
}

/// A GPU by two interfaces, processor cores and an inference runtime.
pub(crate) fn accelerators() -> Vec<About> {
    vec![
        about("cuda:0", "Invented GPU 9000", "CUDA 13.0"),
        about("vulkan:0", "Invented GPU 9000", "Vulkan 1.4"),
        about("cpu", "software accelerator", "Keeptime 0.1.0"),
        about("onnx:cpu", "ONNX Runtime on the processor", "ONNX Runtime 1.22"),
    ]
}

/// All of them; the command buffer's submission is `vulkan` times that of a graph.
pub(crate) fn models(vulkan: f64) -> Vec<Invented> {
    use Method::*;
    let model = |accelerator, method, submission, device, once, spread| Invented {
        accelerator,
        method,
        submission,
        device,
        once,
        spread,
    };
    vec![
        model(0, Streams, (12e3, 1.9e3), (9e3, 2.2e3), (40e3, 0.0), 0.06),
        model(0, Graph, (9e3, 60.0), (11e3, 1.5e3), (90e3, 2.1e3), 0.05),
        model(0, DynamicParallelism, (7e3, 0.5), (30e3, 2.9e3), (35e6, 0.0), 0.09),
        model(0, DeviceGraph, (8e3, 2.0), (16e3, 1.6e3), (160e3, 2.6e3), 0.07),
        model(0, ConditionalGraph, (8.5e3, 1.0), (15e3, 1.9e3), (150e3, 1.0), 0.05),
        model(0, PersistentKernel, (0.35e3, 0.0), (6e3, 2.6e3), (31e6, 0.0), 0.02),
        model(1, CommandBuffer, (9e3 * vulkan, 0.4), (13e3, 1.0e3), (900e3, 0.8e3), 0.03),
        model(2, Streams, (4e3, 0.7e3), (20e3, 16e3), (70e3, 0.0), 0.2),
        model(3, Model, (45e3, 21e3), (300.0, 0.0), (4e6, 90e3), 0.3),
    ]
}

/// Results of the models at these sizes.
pub(crate) fn study(models: &[Invented], k: &[usize], l: &[usize], repetitions: u32) -> Study {
    let protocol =
        Protocol { warm_up: 10, repetitions, limit_ns: 60_000_000_000, wait: Wait::Poll };
    let seat = Seat { core: Some(3), priority: Some(90), ..Seat::default() };
    let plan = Plan { k: k.into(), l: l.into(), methods: Vec::new(), protocol, seat };
    let mut cases = Vec::new();
    let mut random = 1;
    for &k in k {
        for &l in l {
            for model in models {
                cases.push(case(model, Shape { k, l }, &plan.protocol, &mut random));
            }
        }
    }
    let missing = vec![Missing {
        accelerator: 0,
        method: Method::CommandBuffer,
        shape: Some(Shape { k: 8, l: 2000 }),
        why: "the driver said no, for a reason that takes a whole sentence & <signs> to tell"
            .into(),
    }];
    Study { plan, accelerators: accelerators(), cases, missing }
}

fn case(model: &Invented, shape: Shape, protocol: &Protocol, random: &mut u64) -> Case {
    let kernels = shape.kernels() as f64;
    let wide = (shape.k * shape.k) as f64 / 4.0;
    let submission = model.submission.0 + kernels * model.submission.1;
    let device = model.device.0 + kernels * model.device.1 * (1.0 + wide);
    let sample = |repetition: u32| {
        let mut noise = || {
            let tail = unit(random).powi(12) * 8.0;
            1.0 + model.spread * (unit(random) + tail)
        };
        let cold = 1.0 + 14.0 * (-f64::from(repetition) / 1.5).exp();
        let submission_ns = (submission * noise() * cold) as u64;
        let rest = (device * noise() * cold) as u64;
        Sample {
            warm_up: repetition < protocol.warm_up,
            submission_ns,
            completion_ns: submission_ns + rest,
        }
    };
    let steps = [("allocate", 0.3), ("record", 0.5), ("upload", 0.2)];
    let once = model.once.0 + kernels * model.once.1;
    Case {
        accelerator: model.accelerator,
        method: model.method,
        shape,
        steps: steps.map(|(name, share)| Step { name, ns: (once * share) as u64 }).into(),
        samples: (0..protocol.warm_up + protocol.repetitions).map(sample).collect(),
        difference: 1e-6,
        tolerance: 1e-5,
    }
}

/// At least 0, below 1.
fn unit(state: &mut u64) -> f64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 11) as f64 / (1u64 << 53) as f64
}

//! Model of a file for the analysis: indices for names, every bucket spelled out, nothing lost.

use analysis::{Callback, Segment, Span, Wait};
use system::{System, SystemText};

const FILE: &str = "
time_unit: ms
kappa: 1
epsilon: 2
sigma: 3
hop: 4
accelerators:
  - {id: npu0, buckets: 2, concurrent_lowest: true}
  - {id: gpu0, buckets: 4}
executors:
  - {id: front, core: 1, priority: 90}
  - {id: rear, core: 2, priority: 0}
chains:
  - id: map
    priority: 1
    period: 500
    best_effort: true
    callbacks: [{id: build, executor: rear, cpu: 20, segments: [{accel: gpu0, exec: 40}]}]
  - id: brake
    priority: 7
    period: 120
    deadline: 100
    jitter: 5
    wait: spin
    bucket: {gpu0: 3}
    callbacks:
      - id: see
        executor: front
        cpu: 9
        cpu_min: 6
        segments:
          - {accel: npu0, exec: 10, exec_min: 8, cpu_before: 2}
          - {accel: gpu0, exec: 11, cpu_before: 3}
      - {id: act, executor: rear, cpu: 1}
";

const MS: u64 = 1_000_000;

#[test]
fn every_value_reaches_the_model_under_the_index_of_the_file() {
    let model = System::parse(FILE, "robot.yaml").unwrap().model();
    assert_eq!(model.check(), Ok(()));
    let costs = [model.kappa_ns, model.epsilon_ns, model.sigma_ns, model.hop_ns];
    assert_eq!(costs, [MS, 2 * MS, 3 * MS, 4 * MS]);
    let accelerators: Vec<_> =
        model.accelerators.iter().map(|a| (a.buckets, a.concurrent_lowest)).collect();
    assert_eq!(accelerators, [(2, true), (4, false)]);
    let executors: Vec<_> = model.executors.iter().map(|e| (e.core, e.priority)).collect();
    assert_eq!(executors, [(1, 90), (2, 0)]);

    let brake = &model.chains[1];
    assert_eq!((brake.priority, brake.wait, brake.best_effort), (7, Wait::Spin, false));
    let times = (brake.period_ns, brake.deadline_ns, brake.jitter_ns);
    assert_eq!(times, (120 * MS, 100 * MS, 5 * MS));
    let segment = |accelerator, min_ms, max_ms, before_ms| Segment {
        accelerator,
        exec: Span { min_ns: min_ms * MS, max_ns: max_ms * MS },
        cpu_before_ns: before_ms * MS,
    };
    let see = Callback {
        executor: 0,
        cpu: Span { min_ns: 6 * MS, max_ns: 9 * MS },
        segments: vec![segment(0, 8, 10, 2), segment(1, 0, 11, 3)],
    };
    let act = Callback { executor: 1, cpu: Span::up_to(MS), segments: Vec::new() };
    assert_eq!(brake.callbacks, [see, act]);

    let map = &model.chains[0];
    assert_eq!((map.wait, map.best_effort, map.jitter_ns), (Wait::Suspend, true, 0));
    assert_eq!(map.deadline_ns, map.period_ns);
}

#[test]
fn buckets_are_spelled_out_for_every_accelerator() {
    let model = System::parse(FILE, "robot.yaml").unwrap().model();
    // brake is explicit on gpu0 and alone on npu0; map is the lower half of gpu0, and its entry
    // for npu0, which it does not use, means nothing.
    assert_eq!(model.chains[1].buckets, [1, 3]);
    assert_eq!(model.chains[0].buckets, [0, 1]);
}

#[test]
fn a_callback_takes_at_least_what_it_spends_before_its_requests() {
    let text = FILE.replace("        cpu_min: 6\n", "");
    let model = System::parse(&text, "robot.yaml").unwrap().model();
    assert_eq!(model.chains[1].callbacks[0].cpu, Span { min_ns: 5 * MS, max_ns: 9 * MS });
}

#[test]
fn the_largest_times_of_a_file_make_a_model() {
    let largest = format!("{} ns", analysis::MAX_TIME_NS);
    let text = format!(
        "kappa: {largest}\nepsilon: {largest}\nsigma: {largest}\nhop: {largest}\n\
         accelerators: [{{id: a, buckets: 1}}]\nexecutors: [{{id: e, core: 0, priority: 1}}]\n\
         chains: [{{id: c, priority: 1, period: {largest}, jitter: {largest}, callbacks: \
         [{{id: x, executor: e, cpu: {largest}, segments: [{{accel: a, exec: {largest}}}]}}]}}]\n"
    );
    let model = System::parse(&text, "large.yaml").unwrap().model();
    assert_eq!(model.check(), Ok(()));
    assert_eq!(model.chains[0].callbacks[0].cpu.max_ns, analysis::MAX_TIME_NS);
}

#[test]
fn an_assignment_survives_its_file() {
    let source = SystemText::parse(FILE.to_owned(), "robot.yaml").unwrap();
    let mut model = source.system.model();
    (model.chains[0].priority, model.chains[1].priority) = (7, 1);
    (model.executors[0].priority, model.executors[1].priority) = (80, 90);
    (model.chains[0].buckets, model.chains[1].buckets) = (vec![0, 3], vec![0, 2]);
    model.chains[1].callbacks[0].segments[0].accelerator = 1;
    let text = source.assigned(&model).unwrap();
    let again = System::parse(&text, "robot.yaml").unwrap();
    assert_eq!(again.model(), model);
    assert_eq!(again.chains[1].bucket["gpu0"], 2);
    assert_eq!(again.chains[1].callbacks[0].segments[0].service, None);
}

#[test]
fn a_file_whose_times_cannot_be_summed_is_refused_where_the_chains_begin() {
    let callback = "{id: x, executor: e, cpu: 100 s, segments: [{accel: a, exec: 1 us}]}";
    let text = format!(
        "kappa: 9007199 s\naccelerators: [{{id: a, buckets: 1}}]\n\
         executors: [{{id: e, core: 0, priority: 1}}]\nchains:\n{}",
        (0..64)
            .map(|i| format!(
                "- {{id: c{i}, priority: {i}, period: 1 us, callbacks: [{callback}]}}\n"
            ))
            .collect::<String>()
    );
    let error = System::parse(&text, "large.yaml").unwrap_err().to_string();
    assert_eq!(
        error,
        "large.yaml:5:3: chains: found execution times and overheads of 1152927872000064000 ns in \
         all, expected at most 1152921504606846976 ns (36 years)"
    );
    let fits = text.replace("9007199 s", "9000000 s");
    assert_eq!(System::parse(&fits, "large.yaml").unwrap().model().check(), Ok(()));
}

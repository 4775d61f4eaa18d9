//! Files that are right: every example of the documents, and what they mean.

use std::collections::BTreeMap;
use std::path::PathBuf;
use system::{
    AccessRule, Admission, ArbitrationPolicy, Bound, Declare, DeviceKind, Overrun, Source, System,
    TimeUnit, Wait, Who,
};

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The code blocks of one language in a Markdown page.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    page.split(&fence)
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn every_example_of_the_reference_page_parses() {
    let page = std::fs::read_to_string(repository().join("docs/system-file.md")).unwrap();
    let yaml = blocks(&page, "yaml");
    let json = blocks(&page, "json");
    assert_eq!((yaml.len(), json.len()), (4, 1));
    for (i, text) in yaml.iter().chain(&json).enumerate() {
        if let Err(error) = System::parse(text, &format!("block {i}")) {
            panic!("{error}");
        }
    }
}

/// A bound that leaves out what preemption and a request cost is exceeded by the first job.
#[test]
fn examples_that_promise_deadlines_declare_their_overheads() {
    let folder = std::fs::read_dir(repository().join("examples")).unwrap();
    let mut checked = 0;
    for path in folder.map(|entry| entry.unwrap().path()) {
        if path.extension().is_none_or(|kind| kind != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let system = System::read(&path).unwrap();
        let uses_accelerators = !system.accelerators.is_empty() && system.graph.is_none();
        if uses_accelerators && (!system.chains.is_empty() || text.contains("admission: enforce")) {
            let overheads = (system.kappa_ns, system.epsilon_ns);
            assert!(overheads.0 > 0 && overheads.1 > 0, "{}: {overheads:?}", path.display());
            checked += 1;
        }
    }
    assert_eq!(checked, 3);
}

#[test]
fn the_error_of_the_reference_page_is_what_the_parser_says() {
    let page = std::fs::read_to_string(repository().join("docs/system-file.md")).unwrap();
    let text = "accelerators: []\nexecutors:\n  - {id: e, core: 0, priority: 0}\nchains:\n  - id: brake\n    priority: 1\n    deadline: 150 ms\n    period: 120 ms\n    callbacks: [{id: c, executor: e, cpu: 1 ms}]\n";
    let error = System::parse(text, "robot.yaml").unwrap_err();
    assert_eq!(blocks(&page, "text example"), [format!("{error}\n")]);
}

#[test]
fn the_case_study_has_its_published_numbers() {
    let system = System::read(repository().join("examples/paam-case-study-1.yaml")).unwrap();
    system.require_accelerators().unwrap();
    system.require_chains().unwrap();
    assert_eq!((system.kappa_ns, system.epsilon_ns), (129_000, 391_000));
    assert_eq!((system.sigma_ns, system.hop_ns), (0, 0));
    assert_eq!(system.time_unit, Some(TimeUnit::Millisecond));
    assert_eq!(system.server.cores, [0]);
    assert!(system.accelerators[0].concurrent_lowest);
    let published = [
        ("chain1", 120, 2, vec![2, 6], 5),
        ("chain2", 120, 3, vec![2, 8, 9], 5),
        ("chain3", 220, 4, vec![6, 8, 4, 8], 4),
        ("chain4", 260, 5, vec![5, 7, 2], 3),
        ("chain5", 360, 6, vec![2, 1, 7], 2),
        ("chain6", 400, 7, vec![2, 7], 1),
        ("be1", 120, 6, vec![2, 6], 0),
        ("be2", 220, 7, vec![6, 8, 4, 8], 0),
    ];
    let buckets = system.bucket_map("gpu0");
    for (chain, (id, period_ms, core, cpu_ms, bucket)) in
        system.chains_by_priority().iter().zip(published)
    {
        assert_eq!(chain.id, id);
        assert_eq!((chain.period_ns, chain.deadline_ns), (period_ms * 1_000_000, chain.period_ns));
        assert_eq!(chain.best_effort, id.starts_with("be"));
        let found: Vec<u64> = chain.callbacks.iter().map(|c| c.cpu_ns / 1_000_000).collect();
        assert_eq!(found, cpu_ms, "{id}");
        assert!(chain.segments().all(|segment| segment.exec_ns == 10_000_000));
        assert_eq!(chain.segments().count(), chain.callbacks.len());
        assert_eq!(chain.parts().len(), 1);
        assert_eq!(system.executor(chain.parts()[0].executor).unwrap().core, core, "{id}");
        assert_eq!(buckets[id], bucket);
    }
}

#[test]
fn a_file_without_content_has_the_defaults() {
    for text in ["", "\n", "# nothing\n", "---\n", "{}", "null", "\u{feff}"] {
        let system = System::parse(text, "empty.yaml").unwrap();
        assert_eq!(system.server, system::Server::default());
        assert_eq!(system.time_unit, None);
        let chains = system.require_chains().unwrap_err().to_string();
        assert_eq!(chains, "empty.yaml: chains: found none, expected at least one chain");
        let error = system.require_accelerators().unwrap_err().to_string();
        assert_eq!(
            error,
            "empty.yaml: accelerators: found none, expected at least one accelerator"
        );
    }
}

#[test]
fn every_key_reaches_its_field() {
    let text = "
time_unit: ms
kappa: 1
epsilon: 2 us
sigma: 3 ns
hop: \"0.5 ms\"
accelerators:
  - {id: a, buckets: 3, device: cuda:1, cores: [4, 5], concurrent_lowest: true, blocks_per_slice: 528, slices_at_once: 4, kernels: [{name: k, code: k.cu, function: f, blocks_per_slice: 9, in_place: true}]}
  - {id: b, buckets: 1, device: vulkan:0}
  - {id: c, buckets: 1, device: onnx}
executors: [{id: e, core: 7, priority: 0}, {id: f, core: 7, priority: 0}]
services: [{name: s, accelerator: a, kernel: busy, arguments: [1, 18446744073709551615], exec: 4, bandwidth_lock: true}]
chains:
  - id: x
    priority: 9
    period: 10
    deadline: 9
    jitter: 8
    wait: spin
    best_effort: true
    bucket: {a: 2, b: 0}
    callbacks:
      - {id: p, executor: e, cpu: 3, cpu_min: 1, segments: [{accel: a, exec: 4, exec_min: 2, cpu_before: 1, service: s}]}
      - {id: q, executor: f, segments: [{accel: b, exec: 1}]}
server:
  socket: /tmp/s
  mode: 0600
  group: wheel
  policy: timeslice
  slice: 5
  priority: 42
  cores: [1]
  awake: true
  overrun: demote
  admission: report
  analysis: sound
  calibration: times.json
  bandwidth_socket: /run/b.sock
  limits: {sessions: 1, registrations: 2, memory: 4 KiB, total_memory: 1 MiB, user_memory: 8 KiB, connects_per_second: 3, control_percent: 7}
  access: [{user: 1000, priority: [1, 2], declare: false}, {user: \"1000\", priority: [0, 0], sessions: 1, memory: 8 KiB, declare: {a: 25, b: 0}}, {group: g, priority: [3, 4294967295], declare: true}, {group: 5, priority: [0, 1]}]
";
    let system = System::parse(text, "all.yaml").unwrap();
    let times = (system.kappa_ns, system.epsilon_ns, system.sigma_ns, system.hop_ns);
    assert_eq!(times, (1_000_000, 2_000, 3, 500_000));
    let devices: Vec<_> = system.accelerators.iter().map(|a| a.device).collect();
    assert_eq!(devices, [DeviceKind::Cuda(1), DeviceKind::Vulkan(0), DeviceKind::Onnx]);
    assert_eq!(system.accelerators[0].cores, [4, 5]);
    assert_eq!(system.accelerators[0].blocks_per_slice, 528);
    assert_eq!(system.accelerators[0].slices_at_once, 4);
    let source = &system.accelerators[0].kernels[0].source;
    let Source::Code { blocks_per_slice, in_place, .. } = source else { panic!("{source:?}") };
    assert_eq!((*blocks_per_slice, *in_place), (9, true));
    let service = system.service("s").unwrap();
    assert_eq!(service.arguments, [1, u64::MAX]);
    assert_eq!((service.exec_ns, service.bandwidth_lock), (Some(4_000_000), true));
    let chain = system.chain("x").unwrap();
    assert_eq!((chain.wait, chain.best_effort), (Wait::Spin, true));
    let times = (chain.period_ns, chain.deadline_ns, chain.jitter_ns);
    assert_eq!(times, (10_000_000, 9_000_000, 8_000_000));
    assert_eq!(chain.bucket, BTreeMap::from([("a".to_owned(), 2), ("b".to_owned(), 0)]));
    assert_eq!(chain.callbacks[0].cpu_min_ns, Some(1_000_000));
    assert_eq!(chain.callbacks[0].segments[0].exec_min_ns, Some(2_000_000));
    assert_eq!(chain.callbacks[0].segments[0].cpu_before_ns, 1_000_000);
    assert_eq!(chain.callbacks[0].segments[0].service.as_deref(), Some("s"));
    assert_eq!(chain.parts().len(), 2);
    let server = &system.server;
    assert_eq!((server.mode, server.slice_ns, server.priority), (0o600, 5_000_000, 42));
    assert_eq!((server.policy, server.overrun), (ArbitrationPolicy::Timeslice, Overrun::Demote));
    assert!(server.awake);
    assert_eq!((server.admission, server.analysis), (Admission::Report, Bound::Sound));
    assert_eq!(server.calibration, Some(PathBuf::from("times.json")));
    assert_eq!(server.bandwidth_socket, Some(PathBuf::from("/run/b.sock")));
    assert_eq!((server.limits.sessions, server.limits.memory_bytes), (1, 4096));
    let subjects = server.access.iter().map(|rule| (rule.user.clone(), rule.group.clone()));
    let expected = [
        (Some(Who::Id(1000)), None),
        (Some(Who::Name("1000".to_owned())), None),
        (None, Some(Who::Name("g".to_owned()))),
        (None, Some(Who::Id(5))),
    ];
    assert_eq!(subjects.collect::<Vec<_>>(), expected);
    let percents = BTreeMap::from([("a".to_owned(), 25), ("b".to_owned(), 0)]);
    let rule = AccessRule {
        user: Some(Who::Name("1000".to_owned())),
        group: None,
        priority: [0, 0],
        sessions: Some(1),
        memory_bytes: Some(8192),
        declare: Some(Declare::Percents(percents.clone())),
    };
    assert_eq!(server.access[1], rule);
    let limits: Vec<_> = server.access.iter().map(AccessRule::percents).collect();
    assert_eq!(limits, [Some(BTreeMap::new()), Some(percents), None, None]);
    let limits = server.limits;
    assert_eq!(
        (limits.total_memory_bytes, limits.user_memory_bytes, limits.control_percent),
        (Some(1 << 20), Some(8192), 7)
    );
}

#[test]
fn json_says_the_same_as_yaml() {
    let yaml = "{accelerators: [{id: gpu0, buckets: 2}], kappa: 3 us}";
    let pretty = "{\n\t\"accelerators\": [\n\t\t{\"id\": \"gpu0\", \"buckets\": 2}\n\t],\n\t\"kappa\": \"3 us\"\n}\n";
    let compact = r#"{"accelerators":[{"id":"gp\u00750","buckets":2}],"kappa":"3 us"}"#;
    let expected = System::parse(yaml, "s").unwrap();
    assert_eq!(System::parse(pretty, "s").unwrap(), expected);
    assert_eq!(System::parse(compact, "s").unwrap(), expected);
}

#[test]
fn an_alias_repeats_its_anchor() {
    let text = "
accelerators: [{id: a, buckets: 1, cores: &cores [1, 2]}]
server: {cores: *cores}
";
    assert_eq!(System::parse(text, "alias.yaml").unwrap().server.cores, [1, 2]);
}

#[test]
fn a_system_serialises_as_its_file() {
    let system =
        System::parse("kappa: 3 us\naccelerators: [{id: a, buckets: 1, device: onnx}]", "s.yaml")
            .unwrap();
    let json = serde_json::to_value(&system).unwrap();
    assert_eq!(System::parse(&json.to_string(), "s.yaml").unwrap(), system);
    assert_eq!(json["kappa"], "3 us");
    assert_eq!(json["accelerators"][0]["device"], "onnx");
    assert_eq!(json["server"]["policy"], "priority");
    assert_eq!(json["server"]["admission"], "enforce");
    assert_eq!(json["server"]["analysis"], "tight");
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let error = System::read("/nowhere/robot.yaml").unwrap_err().to_string();
    assert!(error.starts_with("/nowhere/robot.yaml: cannot be read: "), "{error}");
}

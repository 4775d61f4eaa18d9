//! A system that is written and read again is the same system.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use std::path::{Path, PathBuf};
use system::{
    Accelerator, AccessRule, Admission, ArbitrationPolicy, Bound, Callback, Chain, DeviceKind,
    Executor, Groups, Kernel, Limits, MAX_BUCKETS, MAX_CORES, Overrun, Segment, Server, Service,
    Source, System, TimeUnit, Wait, Who,
};

/// Names that a careless writer would change.
const TRICKY: [&str; 32] = [
    "yes",
    "No",
    "null",
    "~",
    "true",
    "1",
    "007",
    "1e3",
    "0x1F",
    ".nan",
    "a: b",
    "a:b",
    "- x",
    "-",
    "a #b",
    "#",
    "'",
    "\"",
    "\\",
    "{",
    "a, b",
    "[x]",
    "&a",
    "*a",
    "!t",
    "|",
    ">",
    "%d",
    "@",
    "`",
    "---",
    "前方 🚗",
];

fn name() -> impl Strategy<Value = String> {
    let fits = |text: &String| ::name::check(text).is_ok();
    prop_oneof![
        select(&TRICKY[..]).prop_map(str::to_owned),
        "[a-z][a-z0-9_-]{0,8}",
        "\\PC{1,12}".prop_filter("a name", fits),
    ]
}

/// Makes names unique by what follows them.
fn own(name: &str, place: usize) -> String {
    if place == 0 { name.to_owned() } else { format!("{name} {place}") }
}

fn time_ns() -> impl Strategy<Value = u64> {
    let units = select(&[1u64, 1_000, 1_000_000, 1_000_000_000][..]);
    (1..=9_000u64, units).prop_map(|(count, unit)| count * unit)
}

fn server() -> impl Strategy<Value = Server> {
    let path = || option::of("/[a-z \"\\\\:\n🚗]{1,20}".prop_map(PathBuf::from));
    let policy = select(
        &[ArbitrationPolicy::Priority, ArbitrationPolicy::Fifo, ArbitrationPolicy::Timeslice][..],
    );
    let overrun = select(&[Overrun::Count, Overrun::Demote][..]);
    let admission = select(&[Admission::Enforce, Admission::Report, Admission::Off][..]);
    let analysis = select(&[Bound::Tight, Bound::Sound][..]);
    let cores = vec(0..MAX_CORES, 0..4).prop_map(distinct);
    (
        (path(), 0..=0o777u32, option::of(name()), policy, time_ns(), 0..=99u32, cores, overrun),
        (any::<bool>(), admission, analysis, path(), limits(), vec(access(), 0..3), path()),
    )
        .prop_map(|(first, second)| {
            let (awake, admission, analysis, calibration, limits, access, bandwidth_socket) =
                second;
            let (socket, mode, group, policy, slice_ns, priority, cores, overrun) = first;
            Server {
                socket,
                mode,
                group,
                policy,
                slice_ns,
                priority,
                cores,
                awake,
                overrun,
                admission,
                analysis,
                calibration,
                bandwidth_socket,
                limits,
                access,
            }
        })
}

fn limits() -> impl Strategy<Value = Limits> {
    let numbers = (1..=65_536u32, 1..=65_536u32, 4_096..=1u64 << 40, 1..=65_536u32, 1..=100u32);
    let memory = || option::of((1..=4u64 << 20).prop_map(|pages| pages * 4_096));
    let random = (numbers, memory(), memory()).prop_map(
        |(numbers, total_memory_bytes, user_memory_bytes)| {
            let (sessions, registrations, memory_bytes, connects_per_second, control_percent) =
                numbers;
            Limits {
                sessions,
                registrations,
                memory_bytes,
                total_memory_bytes,
                user_memory_bytes,
                connects_per_second,
                control_percent,
            }
        },
    );
    prop_oneof![Just(Limits::default()), random]
}

fn access() -> impl Strategy<Value = AccessRule> {
    let who = prop_oneof![name().prop_map(Who::Name), any::<u32>().prop_map(Who::Id)];
    let sessions = option::of(1..=65_536u32);
    let memory = option::of((1..=4u64 << 20).prop_map(|pages| pages * 4_096));
    (any::<bool>(), who, any::<u32>(), any::<u32>(), sessions, memory).prop_map(
        |(is_user, who, a, b, sessions, memory_bytes)| {
            let (user, group) = if is_user { (Some(who), None) } else { (None, Some(who)) };
            let priority = [a.min(b), a.max(b)];
            AccessRule { user, group, priority, sessions, memory_bytes, declare: None }
        },
    )
}

fn distinct(mut cores: Vec<u32>) -> Vec<u32> {
    cores.sort_unstable();
    cores.dedup();
    cores
}

fn accelerator() -> impl Strategy<Value = Accelerator> {
    let device = prop_oneof![
        Just(DeviceKind::Cpu),
        (0..=999u32).prop_map(DeviceKind::Cuda),
        (0..=999u32).prop_map(DeviceKind::Vulkan),
        Just(DeviceKind::Onnx),
    ];
    let cores = vec(0..MAX_CORES, 0..3).prop_map(distinct);
    let cuda = prop_oneof![code(), library()];
    let kernels = vec((name(), model(), cuda, shader()), 0..3);
    (
        name(),
        1..=MAX_BUCKETS,
        device,
        cores,
        (any::<[bool; 2]>(), option::of(1..1000u32)),
        (any::<u32>(), option::of(0..1000u32)),
        kernels,
    )
        .prop_map(
            |(
                id,
                buckets,
                device,
                cores,
                ([concurrent_lowest, spin], apart),
                (blocks, provider),
                mut kernels,
            )| {
                kernels.sort_by(|a, b| a.0.cmp(&b.0));
                kernels.dedup_by(|a, b| a.0 == b.0);
                let kernel = |(name, model, cuda, shader)| match device {
                    DeviceKind::Onnx => Some(Kernel { name, source: model }),
                    DeviceKind::Cuda(_) => Some(Kernel { name, source: cuda }),
                    DeviceKind::Vulkan(_) => Some(Kernel { name, source: shader }),
                    DeviceKind::Cpu => None,
                };
                let is_gpu = matches!(device, DeviceKind::Cuda(_) | DeviceKind::Vulkan(_));
                let kernels = kernels.into_iter().filter_map(kernel).collect();
                let spin = spin && is_gpu;
                let is_cuda = matches!(device, DeviceKind::Cuda(_));
                let blocks_per_slice = if is_cuda { blocks } else { 0 };
                let slices_at_once = if is_cuda { 1 + blocks % 64 } else { 1 };
                let provider = provider.filter(|_| device == DeviceKind::Onnx);
                Accelerator {
                    id,
                    buckets,
                    bucket_from: apart.map_or_else(Vec::new, |apart| {
                        (0..buckets).map(|bucket| bucket * apart).collect()
                    }),
                    device,
                    cores,
                    concurrent_lowest,
                    spin,
                    blocks_per_slice,
                    slices_at_once,
                    provider,
                    kernels,
                }
            },
        )
}

fn model() -> impl Strategy<Value = Source> {
    (name(), 1..=256u32).prop_map(|(path, batch)| Source::Model { path: path.into(), batch })
}

fn library() -> impl Strategy<Value = Source> {
    let counts = [0..=1u64 << 40, 0..=1 << 40];
    (name(), ".{0,20}", counts.clone(), counts).prop_map(|(path, configuration, input, output)| {
        Source::Library { path: path.into(), configuration, input, output }
    })
}

fn shader() -> impl Strategy<Value = Source> {
    let fixed = [1..=65_535u32, 1..=65_535, 1..=65_535].prop_map(Groups::Fixed);
    let groups = prop_oneof![fixed, (1..=u32::MAX).prop_map(Groups::Items)];
    (name(), name(), groups).prop_map(|(path, entry, groups)| Source::Shader {
        path: path.into(),
        entry,
        groups,
    })
}

fn code() -> impl Strategy<Value = Source> {
    let counts = [0..=1u64 << 40, 0..=1 << 40];
    let sizes = (1..=1024u32, any::<u32>(), any::<u32>(), any::<bool>());
    (name(), name(), sizes, counts.clone(), counts).prop_map(
        |(
            path,
            function,
            (threads, items_per_block, blocks_per_slice, in_place),
            input,
            output,
        )| {
            let path = path.into();
            Source::Code {
                path,
                function,
                threads,
                items_per_block,
                blocks_per_slice,
                in_place,
                input,
                output,
            }
        },
    )
}

type LooseService = (String, Index, String, Vec<u64>, (Option<u64>, bool));

fn service() -> impl Strategy<Value = LooseService> {
    let terms = (option::of(time_ns()), any::<bool>());
    (name(), any::<Index>(), name(), vec(any::<u64>(), 0..=4), terms)
}

/// A segment whose accelerator and service are still places in lists that are not known yet.
type LooseSegment = (Index, u64, Option<u64>, u64, Option<Index>);
type LooseCallback = (String, Index, u64, Option<u64>, Vec<LooseSegment>);

fn callback() -> impl Strategy<Value = LooseCallback> {
    let any_time = prop_oneof![Just(0), time_ns()];
    let segment = (
        any::<Index>(),
        time_ns(),
        option::of(any_time.clone()),
        any_time.clone(),
        option::of(any::<Index>()),
    );
    (name(), any::<Index>(), time_ns(), option::of(any_time), vec(segment, 0..4))
}

type LooseChain = (
    (String, u64, u64, u64, bool, bool),
    std::collections::BTreeMap<usize, u32>,
    Vec<LooseCallback>,
);

fn chain() -> impl Strategy<Value = LooseChain> {
    let head = (name(), time_ns(), any::<u64>(), any::<u64>(), any::<bool>(), any::<bool>());
    (head, btree_map(0..3usize, 0..MAX_BUCKETS, 0..3), vec(callback(), 1..4))
}

fn system() -> impl Strategy<Value = System> {
    let units =
        [TimeUnit::Nanosecond, TimeUnit::Microsecond, TimeUnit::Millisecond, TimeUnit::Second];
    let unit = option::of(select(units.to_vec()));
    let costs = vec(prop_oneof![Just(0), time_ns()], 4);
    let executors = vec((name(), 0..MAX_CORES, any::<bool>()), 1..4);
    let server = prop_oneof![Just(Server::default()), server()];
    (
        unit,
        costs,
        vec(accelerator(), 1..4),
        executors,
        vec(service(), 0..3),
        vec(chain(), 0..5),
        server,
    )
        .prop_map(|(unit, costs, accelerators, executors, services, chains, server)| {
            let mut system = System {
                name: "random.yaml".to_owned(),
                time_unit: unit,
                kappa_ns: costs[0],
                epsilon_ns: costs[1],
                sigma_ns: costs[2],
                hop_ns: costs[3],
                accelerators,
                executors: Vec::new(),
                chains: Vec::new(),
                server,
                ros: None,
                services: Vec::new(),
                graph: None,
            };
            for (i, accelerator) in system.accelerators.iter_mut().enumerate() {
                accelerator.id = own(&accelerator.id, i);
            }
            for (i, (id, core, realtime)) in executors.into_iter().enumerate() {
                let priority = if realtime { 1 + i as u32 } else { 0 };
                system.executors.push(Executor { id: own(&id, i), core, priority });
            }
            for (i, (name, accelerator, kernel, arguments, (exec_ns, bandwidth_lock))) in
                services.into_iter().enumerate()
            {
                let accelerator = accelerator.get(&system.accelerators).id.clone();
                let name = own(&name, i);
                system.services.push(Service {
                    name,
                    accelerator,
                    kernel,
                    arguments,
                    exec_ns,
                    bandwidth_lock,
                });
            }
            for (i, loose) in chains.into_iter().enumerate() {
                let chain = settle(&system, i, loose);
                system.chains.push(chain);
            }
            system
        })
}

/// A chain that passes the checks: the highest priority comes last, so that the explicit buckets
/// may only rise from chain to chain.
fn settle(system: &System, place: usize, (head, buckets, callbacks): LooseChain) -> Chain {
    let (id, period_ns, deadline, jitter, spin, best_effort) = head;
    let mut bucket = std::collections::BTreeMap::new();
    for (accelerator, wish) in buckets {
        let Some(accelerator) = system.accelerators.get(accelerator) else { continue };
        let below = system.chains.iter().filter_map(|c| c.bucket.get(&accelerator.id)).max();
        let floor = below.copied().unwrap_or(0);
        let wish = (wish % accelerator.buckets).max(floor);
        let own = accelerator.bucket_of(10 * place as u32).unwrap_or(wish);
        bucket.insert(accelerator.id.clone(), own);
    }
    let callbacks = callbacks.into_iter().enumerate();
    Chain {
        id: own(&id, place),
        priority: 10 * place as u32,
        period_ns,
        deadline_ns: 1 + deadline % period_ns,
        jitter_ns: jitter % (period_ns + 1),
        wait: if spin { Wait::Spin } else { Wait::Suspend },
        best_effort,
        bucket,
        callbacks: callbacks.map(|(i, callback)| settle_callback(system, i, callback)).collect(),
    }
}

fn settle_callback(system: &System, place: usize, loose: LooseCallback) -> Callback {
    let (id, executor, cpu_ns, cpu_min, segments) = loose;
    let cpu_min_ns = cpu_min.map(|least_ns| least_ns.min(cpu_ns));
    let mut left_ns = cpu_min_ns.unwrap_or(cpu_ns);
    let segment = |(accel, exec_ns, exec_min, before, service): LooseSegment| {
        let accel = accel.get(&system.accelerators).id.clone();
        let offered: Vec<&Service> =
            system.services.iter().filter(|service| service.accelerator == accel).collect();
        let cpu_before_ns = before.min(left_ns);
        left_ns -= cpu_before_ns;
        Segment {
            service: service
                .filter(|_| !offered.is_empty())
                .map(|service| service.get(&offered).name.clone()),
            accel,
            exec_ns,
            exec_min_ns: exec_min.map(|least_ns| least_ns.min(exec_ns)),
            cpu_before_ns,
        }
    };
    Callback {
        id: own(&id, place),
        executor: executor.get(&system.executors).id.clone(),
        cpu_ns,
        cpu_min_ns,
        segments: segments.into_iter().map(segment).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn a_random_system_survives_its_own_file(system in system()) {
        let text = system.to_yaml();
        match System::parse(&text, &system.name) {
            Ok(again) => prop_assert_eq!(again, system, "{}", text),
            Err(error) => prop_assert!(false, "{}\n{}", error, text),
        }
    }
}

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples").join(name)
}

#[test]
fn the_examples_survive_their_own_file() {
    for name in ["paam-case-study-1.yaml", "server.yaml", "autoware-reference-system.yaml"] {
        let system = System::read(example(name)).unwrap();
        assert_eq!(System::parse(&system.to_yaml(), &system.name).unwrap(), system, "{name}");
    }
}

#[test]
fn a_file_reads_as_if_written_by_hand() {
    let text = "\
time_unit: ms
kappa: 129 us
epsilon: 391 us

accelerators:
  - {id: gpu0, buckets: 6, device: \"cuda:0\", cores: [0, 1], concurrent_lowest: true}

executors:
  - {id: front, core: 2, priority: 90}
  - {id: \"yes\", core: 3, priority: 0}

services:
  - {name: detector, accelerator: gpu0, kernel: matmul, exec: 4 ms, bandwidth_lock: true}

server:
  mode: \"0600\"
  cores: [0]
  bandwidth_socket: \"/run/robot/bandwidth.sock\"
  limits: {sessions: 16, memory: 128 MiB}
  access:
    - {user: \"1000\", priority: [50, 100]}
    - {group: 5, priority: [0, 49], sessions: 2, memory: 8 MiB, declare: {gpu0: 25}}
    - {group: 6, priority: [0, 0], declare: false}

chains:
  - id: brake
    priority: 2
    period: 120 ms
    deadline: 100 ms
    jitter: 500 us
    wait: spin
    bucket: {gpu0: 5}
    callbacks:
      - {id: see, executor: front, cpu: 2 ms, segments: [{accel: gpu0, exec: 10 ms}]}
      - id: decide
        executor: \"yes\"
        cpu: 1 s
        cpu_min: 0 ns
        segments:
          - {accel: gpu0, exec: 1500 us, exec_min: 1 ms, cpu_before: 0 ns, service: detector}
          - {accel: gpu0, exec: 1 ns}

  - id: map
    priority: 1
    period: 500 ms
    best_effort: true
    callbacks:
      - {id: build, executor: front, cpu: 20 ms}
";
    let system = System::parse(text, "robot.yaml").unwrap();
    assert_eq!(system.to_yaml(), text.replace(", cpu_before: 0 ns", ""));
}

#[test]
fn a_file_without_content_is_empty() {
    assert_eq!(System::parse("", "empty.yaml").unwrap().to_yaml(), "");
}

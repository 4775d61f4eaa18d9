//! Guests of other groups (COLA, section 4.3): let in when that delays nobody, and out at
//! once; what happens if the predictor is wrong.

mod stage;

use dataflow::trace::{Class, Denial, Point};
use dataflow::{
    Costs, Cx, Graph, Group, Load, Mechanism, Message, Module, Path, Settings, Stealing, Stop,
    Trigger, Virtual,
};
use stage::{Count, MS, Random, Run, Stage, runs};

fn stealing(mechanism: Mechanism) -> Settings {
    let stealing = Some(Stealing { mechanism, suspend_ns: 300 * MS });
    Settings { stealing, ..Settings::base() }
}

/// Hosts of any triggers on their own cores, and a crowded group whose modules may be guests there.
fn crowd(seed: u64, settings: Settings) -> Virtual {
    let mut random = Random(seed);
    let mut graph = Graph::new();
    let crowded = graph.group(Group::new("crowded", 1));
    let hosts = graph.group(Group::new("hosts", 1 + random.below(2) as usize));
    let sink = graph.topic("sink");
    let mut frames = Vec::new();
    for index in 0..random.between(2, 5) {
        let topic = graph.topic("in");
        let source = graph.source("sensor", &topic, Some(random.between(5, 100) * MS));
        let chunks = random.between(1, 4) as u32;
        if index == 0 {
            let timer = Trigger::Timer {
                period_ns: random.between(9, 50) * MS + random.below(MS),
                offset_ns: random.below(9 * MS),
            };
            graph.module("timer", hosts, Count::<()>::new(), (), &sink).trigger(timer);
        } else {
            graph.module("host", hosts, Stage::new(chunks), topic.fifo(3), &sink);
        }
        frames.push((source, random.between(20, 60) * MS));
    }
    for _ in 0..3 {
        let topic = graph.topic("guest in");
        let source = graph.source("guest", &topic, None);
        graph.module("guest", crowded, Stage::new(4), topic.latest(), &sink).guest();
        let key: &'static str = "ahead";
        graph.ahead_on(&topic, hosts, key, |number: &Message<u64>, cx| {
            cx.go_on()?;
            Ok(**number)
        });
        frames.push((source, random.between(10, 20) * MS));
    }
    let host_modules = frames.len() - 3;
    let cost = move |chunk: &dataflow::Chunk| {
        let Some(module) = chunk.module else { return 3_000_000 };
        let of = (module.index() as u64) << 40 ^ chunk.frame << 16 ^ u64::from(chunk.index);
        let noise = Random(seed ^ of).next() % 1_000_000;
        if module.index() < host_modules { 500_000 + noise } else { 1_500_000 + noise / 10 }
    };
    let mut clock = Virtual::new(graph, settings, Costs::Declared(Box::new(cost))).unwrap();
    for (source, period_ns) in &frames {
        let mut at_ns = random.below(*period_ns);
        for frame in 0..150 {
            clock.inject(source, at_ns, at_ns, frame).unwrap();
            at_ns += period_ns / 2 + random.below(*period_ns);
        }
    }
    clock.advance_to(2_000 * MS).unwrap();
    clock
}

/// The runs of all modules but the last three, which are the guests.
fn host_times(clock: &Virtual) -> Vec<(usize, u64, u64, stage::Parts)> {
    let hosts = clock.statistics().modules.len() - 3;
    let own = |run: &Run| run.module.is_some_and(|module| module < hosts);
    let mut times: Vec<_> = runs(clock)
        .into_iter()
        .filter(own)
        .map(|run| (run.module.unwrap(), run.start_ns, run.end_ns, run.published))
        .collect();
    times.sort();
    times
}

#[test]
fn twin_guests_and_work_ahead_never_move_a_host() {
    let (mut guests, mut ahead, mut overruns) = (0, 0, 0);
    for seed in 0..60 {
        let alone = crowd(seed, Settings::base());
        let all = Settings { proactive: true, ..stealing(Mechanism::Twin) };
        let shared = crowd(seed, all);
        stage::assert_one_at_a_time(&shared);
        assert!(host_times(&alone) == host_times(&shared), "seed {seed}");
        let hosts = &shared.statistics().groups[1];
        assert_eq!((hosts.violations, hosts.delayed_ns), (0, 0));
        guests += hosts.admitted;
        overruns += hosts.overruns;
        ahead += u64::from(hosts.ahead_ns > 0);
    }
    assert!(guests > 100 && ahead > 30 && overruns > 0, "{guests} {ahead} {overruns}");
}

#[test]
fn cooperative_guests_delay_hosts_by_what_is_counted_only() {
    let mut guests = 0;
    for seed in 0..60 {
        let alone = crowd(seed, Settings::base());
        let shared = crowd(seed, stealing(Mechanism::Cooperative));
        stage::assert_one_at_a_time(&shared);
        let hosts = &shared.statistics().groups[1];
        guests += hosts.admitted;
        if hosts.overruns == 0 {
            assert!(host_times(&alone) == host_times(&shared), "seed {seed}");
        }
        let late: Vec<u64> = shared
            .trace()
            .events()
            .filter_map(|event| match event.point {
                Point::Overrun { delay_ns, .. } => Some(delay_ns),
                _ => None,
            })
            .collect();
        assert_eq!(hosts.delayed_ns, late.iter().sum::<u64>());
        assert!(late.iter().all(|&delay_ns| delay_ns < 2 * MS), "a chunk is the most: {late:?}");
    }
    assert!(guests > 100, "{guests}");
}

/// Its load is its number, and so is its cost, in milliseconds.
struct Linear;

impl Module for Linear {
    type In = Message<u64>;
    type Out = u64;

    fn estimate(&self, number: &Self::In, _: Path) -> Load {
        Load::of(&[**number as f64])
    }

    fn run(&mut self, _: &mut Cx<u64>, number: &Self::In, _: Path) -> Result<u64, Stop> {
        Ok(**number)
    }
}

/// A crowded core with a blocker of 40 ms every 100 ms, and beside it a host of 1 ms every 100 ms.
/// The guest comes 1 ms after the blocker, its number as told by the frame; so does its cost.
fn trained(
    settings: Settings,
    frames: u64,
    number: impl Fn(u64) -> u64,
    cost_ms: impl Fn(u64) -> u64 + 'static,
) -> Virtual {
    trained_beside(Group::new("hosts", 1), settings, frames, number, cost_ms)
}

fn trained_beside(
    hosts: Group,
    settings: Settings,
    frames: u64,
    number: impl Fn(u64) -> u64,
    cost_ms: impl Fn(u64) -> u64 + 'static,
) -> Virtual {
    let mut graph = Graph::new();
    let crowded = graph.group(Group::new("crowded", 1));
    let hosts = graph.group(hosts);
    let (a, b, c) = (graph.topic("a"), graph.topic("b"), graph.topic("c"));
    let sink = graph.topic("sink");
    let blocker = graph.source("blocker", &a, Some(MS));
    let guest = graph.source("guest", &b, None);
    let host = graph.source("host", &c, Some(10 * MS));
    graph.module("blocker", crowded, Stage::new(1), a.latest(), &sink);
    graph.module("guest", crowded, Linear, b.latest(), &sink).guest();
    graph.module("host", hosts, Stage::new(1), c.latest(), &sink);
    let cost = move |chunk: &dataflow::Chunk| match chunk.module.unwrap().index() {
        0 => 40 * MS,
        1 => cost_ms(chunk.frame) * MS,
        _ => MS,
    };
    let mut clock = Virtual::new(graph, settings, Costs::Declared(Box::new(cost))).unwrap();
    for frame in 0..frames {
        let at_ns = frame * 100 * MS;
        clock.inject(&blocker, at_ns, at_ns, 0).unwrap();
        clock.inject(&guest, at_ns + MS, at_ns + MS, number(frame)).unwrap();
        clock.inject(&host, at_ns + 30 * MS, at_ns + 30 * MS, 0).unwrap();
    }
    clock.advance_to(frames * 100 * MS).unwrap();
    clock
}

fn denials(clock: &Virtual) -> Vec<Option<Denial>> {
    let asked = clock.trace().events().filter_map(|event| match event.point {
        Point::Steal { denied, .. } => Some(denied),
        _ => None,
    });
    asked.collect()
}

#[test]
fn guest_is_let_in_once_the_predictor_knows_it_and_answers_earlier() {
    let settings = stealing(Mechanism::Twin);
    let clock = trained(settings, 60, |frame| 5 + frame % 4, |frame| 5 + frame % 4);
    let guests: Vec<Run> = runs(&clock).into_iter().filter(|run| run.module == Some(1)).collect();
    let (at_home, away): (Vec<&Run>, Vec<&Run>) =
        guests.iter().partition(|run| run.class == Class::Host);
    assert!(at_home.iter().all(|run| run.start_ns % (100 * MS) == 40 * MS));
    assert!(away.iter().all(|run| run.start_ns % (100 * MS) == MS));
    assert_eq!((at_home.len(), away.len()), (32, 28), "known after 32 runs");
    assert_eq!(denials(&clock)[0], Some(Denial::Unknown));
    let hosts = &clock.statistics().groups[1];
    assert_eq!((hosts.admitted, hosts.overruns, hosts.violations), (28, 0, 0));
    assert!(hosts.guest_ns >= 28 * 5 * MS);
    // A guest pays for its way.
    assert_eq!(away[0].end_ns - away[0].start_ns, 5 * MS + 5_000);
}

#[test]
fn guest_with_more_than_was_seen_is_not_let_in() {
    let number = |frame| if frame < 40 { 5 } else { 6 };
    let clock = trained(stealing(Mechanism::Twin), 41, number, number);
    assert_eq!(denials(&clock).last(), Some(&Some(Denial::Unknown)));
    assert_eq!(clock.statistics().groups[1].admitted, 8);
}

#[test]
fn guest_that_does_not_fit_before_the_next_host_is_not_let_in() {
    // From 1 ms to the host's next run at 30 there are 29: 30 do not fit, 28 do.
    for (cost_ms, start_ms) in [(30, 31), (28, 1)] {
        let clock = trained(stealing(Mechanism::Twin), 40, |_| 5, move |_| cost_ms);
        let guests = runs(&clock).into_iter().filter(|run| run.class == Class::Guest);
        let starts: Vec<u64> = guests.map(|run| run.start_ns / MS % 100).collect();
        assert_eq!(starts, [start_ms; 8]);
        assert_eq!(denials(&clock).contains(&Some(Denial::Slack)), start_ms == 31);
    }
}

#[test]
fn violation_is_counted_and_suspends_guests() {
    for mechanism in [Mechanism::Cooperative, Mechanism::Twin] {
        // The 40th guest takes 35 ms instead of 5 and is there when the host comes: from 1 to 36.
        let cost = |frame| if frame == 39 { 35 } else { 5 };
        let clock = trained(stealing(mechanism), 60, |_| 5, cost);
        let hosts = &clock.statistics().groups[1];
        let late = if mechanism == Mechanism::Twin { 0 } else { 6 * MS + 5_000 };
        assert_eq!((hosts.overruns, hosts.delayed_ns), (1, late));
        assert_eq!(hosts.violations, u64::from(late > 0));
        let violated_ns = 3_930 * MS + late;
        let starts: Vec<u64> = runs(&clock)
            .iter()
            .filter(|run| run.class == Class::Guest)
            .map(|run| run.start_ns)
            .collect();
        assert!(starts.contains(&(3_901 * MS)));
        let during = |&&at_ns: &&u64| at_ns > violated_ns && at_ns < violated_ns + 300 * MS;
        assert_eq!(starts.iter().filter(during).count(), 0);
        assert!(denials(&clock).contains(&Some(Denial::Suspended)));
    }
}

#[test]
fn group_that_takes_no_guests_gets_none_and_base_has_none() {
    let closed = Group { takes_guests: false, ..Group::new("hosts", 1) };
    let closed = trained_beside(closed, stealing(Mechanism::Twin), 60, |_| 5, |_| 5);
    for clock in [closed, trained(Settings::base(), 60, |_| 5, |_| 5)] {
        assert!(denials(&clock).is_empty());
        assert!(runs(&clock).iter().all(|run| run.class == Class::Host));
    }
}

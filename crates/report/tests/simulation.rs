//! The report of a simulation, through its public door: numbers written down by hand, and the
//! picture of a real schedule.

mod whole;

use analysis::simulate::{Scenario, Simulator};
use analysis::{Accelerator, Callback, Chain, Executor, Segment, Span, System, Variant, Wait};
use report::analysis::Names;
use report::simulation::{Gantt, Simulated, Simulation, document, gantt, json};
use serde_json::json;

const MS: u64 = 1_000_000;

fn chain(priority: u32, period_ns: u64, executor: usize, cpu_ns: u64, exec_ns: u64) -> Chain {
    let exec = Span::exactly(exec_ns);
    let segments = vec![Segment { accelerator: 0, exec, cpu_before_ns: 0 }];
    Chain {
        priority,
        period_ns,
        deadline_ns: period_ns,
        jitter_ns: 0,
        wait: Wait::Suspend,
        best_effort: priority == 1,
        buckets: vec![priority],
        callbacks: vec![Callback { executor, cpu: Span::exactly(cpu_ns), segments }],
    }
}

/// brake and steer on their own cores and buckets, log best effort beside steer.
fn system() -> System {
    System {
        accelerators: vec![Accelerator { buckets: 4, concurrent_lowest: false }],
        executors: vec![
            Executor { core: 0, priority: 9 },
            Executor { core: 1, priority: 9 },
            Executor { core: 1, priority: 8 },
        ],
        chains: vec![
            chain(3, 20 * MS, 0, 2 * MS, 3 * MS),
            chain(2, 40 * MS, 1, MS, 10 * MS),
            chain(1, 80 * MS, 2, MS, 5 * MS),
        ],
        ..System::default()
    }
}

fn names() -> Names {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    Names {
        accelerators: names(&["gpu0"]),
        executors: names(&["front", "rear", "<back>"]),
        chains: names(&["brake", "steer", "log"]),
    }
}

fn simulation(responses: [&[u64]; 3]) -> Simulation {
    let system = system();
    let found = responses.iter().zip(&system.chains).map(|(responses, chain)| {
        let response_ns: Vec<u64> = responses.to_vec();
        let late = response_ns.iter().filter(|ns| **ns > chain.deadline_ns);
        Some(Simulated { misses: late.count() as u64, response_ns, ..Simulated::default() })
    });
    Simulation {
        file: "robot.yaml".to_owned(),
        names: names(),
        analysis: analysis::analyze(&system, Variant::Tight).unwrap(),
        what: "80ms simulated".to_owned(),
        command: "keeptime simulate robot.yaml".to_owned(),
        searched: false,
        marks: vec!["a mark".to_owned()],
        chains: found.collect(),
        system,
    }
}

fn text(simulation: &Simulation) -> String {
    document(simulation, None).unwrap().text(120, false)
}

fn conclusion(simulation: &Simulation) -> Vec<String> {
    document(simulation, None).unwrap().conclusion
}

#[test]
fn table_has_the_bound_beside_the_worst_response() {
    let found = simulation([&[4 * MS, 5 * MS, 4 * MS], &[9 * MS, 11 * MS], &[81 * MS]]);
    let text = text(&found);
    let bounds: Vec<u64> =
        found.analysis.chains.iter().map(|bound| bound.response_ns.unwrap() / MS).collect();
    let expected = format!(
        "\
robot.yaml
80ms simulated
! a mark

Response times
Times in ms; the bound is the tight one, in parentheses where it is no guarantee.
  chain  priority        jobs  median    worst   bound  worst/bound  deadline  misses
  brake               3     3   4.000    5.000   {}.000        {} %    20.000       0
  steer               2     2   9.000   11.000  {}.000         {} %    40.000       0
  log    1, best effort     1  81.000  !81.000  !{}.000        {} %    80.000      !1

THE BOUND IS WRONG for log: a schedule that the model allows takes longer. Please report this with the
system file and the command. No deadline that counts was missed in this schedule. log came closest to its
bound: 81 ms of {} ms ({} %).
",
        bounds[0],
        500 / bounds[0],
        bounds[1],
        1_100 / bounds[1],
        bounds[2],
        8_100 / bounds[2],
        bounds[2],
        8_100 / bounds[2]
    );
    // Widths follow the numbers; what counts is what stands in the columns.
    let columns = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(columns(&text), columns(&expected));
}

#[test]
fn response_beyond_a_guarantee_is_told_first_and_fails() {
    let kept = simulation([&[5 * MS], &[11 * MS], &[20 * MS]]);
    assert!(!kept.fails());
    assert_eq!(conclusion(&kept)[0], "No deadline that counts was missed in this schedule.");
    let broken = simulation([&[5 * MS], &[11 * MS], &[79 * MS]]);
    assert!(conclusion(&broken)[0].starts_with("THE BOUND IS WRONG for log:"));
    assert!(broken.fails());
    assert_eq!(json(&broken)["chains"]["log"]["exceeds_bound"], true);
}

#[test]
fn late_chain_fails_unless_it_is_best_effort() {
    let mut late = simulation([&[21 * MS], &[11 * MS], &[20 * MS]]);
    late.analysis.chains.iter_mut().for_each(|bound| bound.status = analysis::Status::Miss);
    assert!(late.fails());
    let expected = "Deadlines that count were missed in this schedule: brake.";
    assert_eq!(conclusion(&late), [expected]);
    assert!(text(&late).contains("     !1\n"));
    let mut best_effort = simulation([&[5 * MS], &[11 * MS], &[99 * MS]]);
    best_effort.analysis.chains[2].status = analysis::Status::Dependent;
    assert!(!best_effort.fails());
    assert!(text(&best_effort).contains("  ("), "a bound that is no guarantee");
}

#[test]
fn overloaded_chain_is_noted_and_fails() {
    let mut found = simulation([&[5 * MS], &[11 * MS], &[20 * MS]]);
    let steer = found.chains[1].as_mut().unwrap();
    (steer.overloaded, steer.unfinished) = (true, 2);
    assert!(found.fails());
    let text = text(&found);
    let (_, noted) = text.split_once("  steer ").unwrap();
    assert!(noted.contains("! overloaded: so many jobs waited"), "{text}");
    assert!(noted.contains("! 2 jobs did not end"), "{text}");
}

#[test]
fn json_has_times_in_nanoseconds() {
    let mut found = simulation([&[5 * MS, 4_000_500], &[], &[20 * MS]]);
    found.chains[2] = None;
    let json = json(&found);
    assert_eq!(json["chains"].as_object().unwrap().len(), 2);
    let brake = &json["chains"]["brake"];
    assert_eq!((&brake["worst_ns"], &brake["median_ns"]), (&json!(5_000_000), &json!(4_000_500)));
    assert_eq!((&brake["jobs"], &brake["bound_status"]), (&json!(2), &json!("ok")));
    assert_eq!(json["chains"]["steer"]["worst_ns"], json!(null));
}

#[test]
fn picture_of_a_real_schedule_places_everything_where_it_happened() {
    let system = system();
    let scenario = Scenario { horizon_ns: 80 * MS, ..Scenario::synchronous(&system) };
    let trace = Simulator::new(&system).unwrap().trace(&scenario, &mut |_| true);
    let names = names();
    let picture =
        Gantt { names: &names, system: &system, trace: &trace, from_ns: 0, to_ns: 80 * MS };
    let svg = gantt(&picture).unwrap();
    // 1064 units are 80 ms: the first request of brake runs from 2 to 5 ms in bucket 3.
    let title = "brake, job 1, callback 1, request 1: 2 ms to 5 ms";
    let (x, width) = ("x=\"184.6\"", "width=\"39.9\"");
    let blocks: Vec<&str> = svg.lines().filter(|line| line.contains(title)).collect();
    assert_eq!(blocks.len(), 2, "in the row of the chain and in that of the bucket: {blocks:?}");
    assert!(blocks.iter().all(|line| line.contains(x) && line.contains(width)), "{blocks:?}");
    assert!(blocks.iter().all(|line| line.contains("class=\"run c0\"")), "{blocks:?}");
    for (count, text) in [
        (4 + 1, "brake: deadline of job"),
        (1, ">steer waits in bucket 2<"),
        (1, ">core 1<"),
        (1, ">rear, &lt;back&gt;<"),
        (1, ">bucket 3<"),
    ] {
        assert!((count - 1..=count + 1).contains(&svg.matches(text).count()), "{text}");
    }
    assert!(!svg.contains("missed\" x="), "nothing is late");
    assert_eq!(svg.matches("<svg").count(), 1);
    let found = simulation([&[5 * MS], &[11 * MS], &[20 * MS]]);
    let page = document(&found, Some(&picture)).unwrap().html().unwrap();
    whole::check(&page);
    assert!(!page.contains("<script"));
    assert!(page.contains("brake, job 1: responds in 5 ms") && page.ends_with("</html>"));
}

#[test]
fn picture_that_nobody_could_read_is_refused_with_numbers() {
    let system = system();
    let scenario = Scenario { horizon_ns: 80_000 * MS, ..Scenario::synchronous(&system) };
    let trace = Simulator::new(&system).unwrap().trace(&scenario, &mut |_| true);
    let names = names();
    let whole =
        Gantt { names: &names, system: &system, trace: &trace, from_ns: 0, to_ns: 80_000 * MS };
    let error = gantt(&whole).unwrap_err().to_string();
    assert!(error.contains("things in 80 s, expected at most 20000"), "{error}");
    assert!(gantt(&Gantt { to_ns: 400 * MS, ..whole }).is_ok());
}

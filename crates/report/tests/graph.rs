//! The result of a graph: words, table, JSON and page of a run that is made up.

mod whole;

use report::document::WIDTH;
use report::graph::{
    self, CallbackResult, CycleInfo, CycleResult, GraphRun, MethodRun, PathInfo, PathResult,
    Reported, Times,
};

fn method(name: &str, latency_ms: &[f64], dropped: &[u32], period_ms: &[f64]) -> MethodRun {
    let ns = |ms: &[f64]| ms.iter().map(|ms| (ms * 1e6) as u64).collect();
    let times = Some(Times { p50: 1_000_000, p99: 2_000_000, max: 2_500_000 });
    MethodRun {
        method: name.into(),
        paths: vec![PathResult {
            id: "hot".into(),
            latency_ns: ns(latency_ms),
            dropped: dropped.into(),
        }],
        cycles: vec![CycleResult { id: "Planner".into(), period_ns: ns(period_ms) }],
        callbacks: vec![CallbackResult {
            id: "Planner < <b>Lidar</b>".into(),
            executor: "e1".into(),
            priority: 7,
            count: 3,
            dropped: 1,
            response_ns: times,
            execution_ns: times,
        }],
        ..MethodRun::default()
    }
}

fn run() -> GraphRun {
    let reported = Reported { method: "picas".into(), max_ns: 163_000_000 };
    GraphRun {
        system_name: "car.yaml".into(),
        duration_ns: 60_000_000_000,
        paths: vec![PathInfo {
            id: "hot".into(),
            roots: vec!["Lidar".into()],
            sink: "Estimator".into(),
            nodes: vec!["Lidar".into(), "Estimator".into()],
            period_ns: 100_000_000,
            releases: 600,
            reported: vec![reported],
            bound_ns: Some(40_000_000),
            no_bound: None,
        }],
        bounded: vec!["keeptime".into()],
        cycles: vec![CycleInfo { id: "Planner".into(), period_ns: 100_000_000 }],
        methods: vec![
            method("picas", &[40.0, 120.0], &[0, 3], &[100.0, 130.0, 70.0]),
            method("keeptime", &[20.0, 30.0, 40.0], &[0, 0, 0], &[100.0, 101.0]),
        ],
        ..GraphRun::default()
    }
}

fn text(run: &GraphRun) -> String {
    graph::document(run).text(WIDTH, false)
}

fn conclusion(run: &GraphRun) -> String {
    graph::document(run).conclusion.join(" ")
}

fn page(run: &GraphRun) -> String {
    let page = graph::document(run).html().unwrap();
    whole::check(&page);
    page
}

#[test]
fn conclusion_says_what_was_won_dropped_and_how_steady_the_period_was() {
    assert_eq!(
        conclusion(&run()),
        "path hot took at most 40.0 ms under keeptime; under picas 120 ms (3.0 times as long). \
         Messages missed on it: 3 under picas (2 instances, at most 3 in one), none under keeptime \
         (3 instances). The one path with a bound stayed within it under keeptime. Farthest that \
         Planner came from its 100 ms: 30.0 % under picas, 1.0 % under keeptime."
    );
}

#[test]
fn conclusion_does_not_claim_what_was_not_won() {
    let mut even = run();
    even.methods[0].paths[0].latency_ns = vec![41_000_000];
    even.marks.push("folded".into());
    let said = conclusion(&even);
    let start = "Not won against every method: path hot took at most 40.0 ms under keeptime; under \
                 picas 41.0 ms (about the same).";
    assert!(said.starts_with(start), "{said}");
    assert!(said.ends_with("The marks qualify these results."), "{said}");
    even.methods.remove(1);
    assert!(conclusion(&even).contains("keeptime was not run"));
    let mut nobody = run();
    nobody.methods[1].paths[0].latency_ns.clear();
    let said = conclusion(&nobody);
    assert!(
        said.starts_with("No instance of path hot reached Estimator under keeptime."),
        "{said}"
    );
}

#[test]
fn table_has_a_line_for_each_method_and_fits_its_columns() {
    let table = text(&run());
    let line = |start: &str| table.lines().find(|line| line.trim_start().starts_with(start));
    let picas: Vec<&str> = line("picas").unwrap().split_whitespace().collect();
    assert_eq!(
        picas,
        [
            "picas", "2", "of", "600", "40.00", "40.00", "120.00", "120.00", "-", "-", "!3", "3",
            "163.00"
        ]
    );
    assert!(table.contains("30.0 %") && table.contains("Period of Planner"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
}

#[test]
fn instance_beyond_its_bound_is_told_in_words_table_json_and_page() {
    let mut over = run();
    over.paths[0].bound_ns = Some(29_999_000);
    assert!(run().keeps_bounds() && !over.keeps_bounds());
    let said = conclusion(&over);
    let words = "Longer than the bound under keeptime: hot in 2 of 3 instances; what the file \
                 declares is too short for this machine.";
    assert!(said.contains(words), "{said}");
    over.methods[1].marks.push("stolen time".into());
    assert!(conclusion(&over).contains("the marks of that run"), "{said}");
    // Rounded up, and beside the bounded method only.
    let table = text(&over);
    assert!(table.contains("!40.00"), "{table:?}");
    assert_eq!(table.matches(" 30.00").count(), 2, "{table}");
    let json = graph::json(&over);
    let hot = |method: &str| json["methods"][method]["paths"]["hot"].clone();
    assert_eq!(
        (hot("keeptime")["over_bound"].as_u64(), hot("picas")["over_bound"].as_u64()),
        (Some(2), Some(0))
    );
    assert!(hot("picas")["bound_ns"].is_null() && hot("keeptime")["bound_ns"] == 29_999_000);
    let shown = page(&over);
    assert!(shown.contains("<td class=\"bad\">40.00</td><td>30.00</td><td>2</td>"), "{shown}");
}

#[test]
fn path_without_a_bound_says_why() {
    let mut none = run();
    (none.paths[0].bound_ns, none.paths[0].no_bound) = (None, Some("it is too slow".into()));
    assert!(none.keeps_bounds() && !conclusion(&none).contains("bound"));
    assert!(text(&none).contains("No bound: it is too slow."));
    assert!(page(&none).contains("No bound: it is too slow."));
    assert_eq!(
        graph::json(&none)["methods"]["keeptime"]["paths"]["hot"]["no_bound"],
        "it is too slow"
    );
}

#[test]
fn bounds_without_a_run_are_rounded_up_and_say_what_has_none() {
    use graph::bounds::{document, json};
    use graph_bounds::{CallbackBound, GraphBounds, PathBound};
    let path = PathBound { id: "hot".into(), bound_ns: Some(1_000_200), reason: None };
    let callback = CallbackBound {
        name: "Fuse".into(),
        executor: "e1".into(),
        priority: 7,
        period_ns: 100_000_000,
        bound_ns: None,
        reason: Some("it fuses".into()),
    };
    let mut bounds = GraphBounds { paths: vec![path], callbacks: vec![callback] };
    assert!(bounds.complete());
    let said = document("car.yaml", &bounds).text(WIDTH, false);
    assert!(
        said.starts_with("car.yaml: bounded\n") && said.contains("1.001  guaranteed"),
        "{said}"
    );
    assert!(said.contains("no bound: it fuses"), "{said}");
    bounds.paths[0].bound_ns = None;
    assert!(!bounds.complete());
    let said = json("car.yaml", &bounds);
    assert_eq!(
        (&said["bounded"], &said["callbacks"]["Fuse"]["reason"]),
        (&false.into(), &"it fuses".into())
    );
}

#[test]
fn json_has_null_where_there_is_no_number() {
    let mut run = run();
    run.methods[0].paths.clear();
    let json = graph::json(&run);
    let hot = |method: &str| json["methods"][method]["paths"]["hot"].clone();
    assert_eq!(
        (hot("keeptime")["max_ns"].as_u64(), hot("keeptime")["dropped"].as_u64()),
        (Some(40_000_000), Some(0))
    );
    assert!(hot("picas")["max_ns"].is_null() && hot("keeptime")["reported_max_ns"].is_null());
    assert_eq!(hot("picas")["reported_max_ns"], 163_000_000);
    assert_eq!(json["methods"]["picas"]["cycles"]["Planner"]["deviation"], 0.3);
}

#[test]
fn page_escapes_names_and_shows_what_others_reported() {
    let shown = page(&run());
    assert!(shown.contains("163.00") && shown.contains("<svg"));
    assert!(shown.contains("Planner &lt; &lt;b&gt;Lidar") && !shown.contains("<b>Lidar"));
}

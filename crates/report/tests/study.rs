//! The report of a study, through its public door.

mod whole;

use report::study::{self, Axis, Point, StudyOutcome, StudyRun};

fn outcome(sets: u64, accepted: u64) -> StudyOutcome {
    StudyOutcome {
        sets,
        accepted,
        chains: 4 * sets,
        chains_ok: 2 * sets + accepted,
        scales: vec![],
    }
}

/// Two groups of three points, three methods.
fn sample() -> StudyRun {
    let point = |group: u32, x: u32, accepted: [u64; 3]| Point {
        number: u64::from(1000 * x + group),
        x: f64::from(x),
        group: f64::from(group),
        outcomes: accepted.map(|accepted| outcome(200, accepted)).into(),
    };
    StudyRun {
        experiment: "fig14a".to_owned(),
        title: "Schedulable sets".to_owned(),
        about: "Some sets.".to_owned(),
        command: "keeptime-lab study fig14a".to_owned(),
        parameters: vec![("wait".to_owned(), "suspend".to_owned())],
        seed: 7,
        sets: 200,
        x: Axis { name: "chains".to_owned(), unit: String::new() },
        group: Axis { name: "utilisation per chain".to_owned(), unit: "%".to_owned() },
        methods: ["sound", "tight", "tight+dm"].map(str::to_owned).into(),
        points: vec![
            point(10, 2, [200, 200, 200]),
            point(10, 4, [100, 150, 199]),
            point(10, 6, [1, 0, 180]),
            point(20, 2, [20, 30, 40]),
            point(20, 4, [0, 0, 0]),
            point(20, 6, [0, 0, 0]),
        ],
        ..StudyRun::default()
    }
}

/// The same with scales.
fn scaled() -> StudyRun {
    let mut run = sample();
    run.scaled = Some("accelerator times".to_owned());
    for point in &mut run.points {
        for outcome in &mut point.outcomes {
            // A quarter of the sets has no scale at all.
            outcome.scales = (50..200).map(|set| f64::from(set) / 100.0 / point.x).collect();
        }
    }
    run
}

fn text(run: &StudyRun) -> String {
    study::document(run).text(100, false)
}

/// The cells of the lines that begin with a name.
fn lines<'a>(text: &'a str, name: &str) -> Vec<Vec<&'a str>> {
    let cells = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    cells.filter(|cells| cells.first() == Some(&name)).collect()
}

#[test]
fn text_has_a_table_for_each_group_and_a_line_for_each_method() {
    let text = text(&sample());
    assert!(text.contains("Experiment: fig14a") && text.contains("Seed: 7"), "{text}");
    assert!(text.contains("Sets: 200 at each of 6 points"), "{text}");
    assert!(text.contains("\nutilisation per chain 10 %\n"), "{text}");
    assert!(text.contains("\nutilisation per chain 20 %\n"), "{text}");
    assert_eq!(lines(&text, "chains"), [["chains", "2", "4", "6"]; 2]);
    let tight = lines(&text, "tight+dm");
    assert_eq!(tight[0], ["tight+dm", "51.6", "619", "1200", "62.9"]);
    assert_eq!(
        tight[1..],
        [["tight+dm", "100.0", "99.5", "90.0"], ["tight+dm", "20.0", "0.0", "0.0"]]
    );
    assert_eq!(
        lines(&text, "point"),
        [["point", "2010", "4010", "6010"], ["point", "2020", "4020", "6020"]]
    );
}

#[test]
fn text_of_scales_shows_the_median_with_the_sets_that_have_none() {
    let text = text(&scaled());
    assert!(text.contains("the largest factor on accelerator times at which"), "{text}");
    // 50 sets count as 0, so the 100th of 200 is the 50th of those that have one: 0.99 / 2.
    assert_eq!(lines(&text, "sound")[1], ["sound", "0.495", "0.247", "0.165"], "{text}");
}

#[test]
fn a_wide_table_is_broken_at_100_columns() {
    let mut run = sample();
    let first = run.points[0].clone();
    run.points = (1..=40).map(|x| Point { x: f64::from(x), ..first.clone() }).collect();
    let text = text(&run);
    assert!(text.lines().all(|line| line.len() <= 100), "{text}");
    assert!(lines(&text, "chains").len() > 1, "{text}");
}

#[test]
fn a_point_without_sets_has_no_number() {
    let mut run = sample();
    run.points[0].outcomes = vec![StudyOutcome::default(); 3];
    assert_eq!(lines(&text(&run), "sound")[1], ["sound", "-", "50.0", "0.5"]);
    assert_eq!(
        study::json(&run)["points"][0]["methods"]["sound"]["accepted_percent"],
        serde_json::Value::Null
    );
    assert!(study::document(&run).html().is_ok());
}

#[test]
fn json_has_every_outcome() {
    let json = study::json(&sample());
    assert_eq!(json["points"].as_array().map(Vec::len), Some(6));
    assert_eq!(json["points"][1]["point"], 4010);
    assert_eq!(json["points"][1]["methods"]["tight"]["accepted"], 150);
    assert_eq!(json["points"][1]["methods"]["tight"]["accepted_percent"], 75.0);
    assert_eq!(json["points"][1]["methods"]["tight"].get("scale_p50"), None);
    let scaled = study::json(&scaled());
    assert_eq!(scaled["points"][0]["methods"]["tight"]["scale_p10"], 0.0);
    assert_eq!(scaled["points"][0]["methods"]["tight"]["scale_p50"], 0.495);
}

#[test]
fn page_needs_nothing_else_and_escapes_what_comes_from_outside() {
    let mut run = sample();
    run.marks = vec!["<b>late</b>".to_owned()];
    run.methods[0] = "<script>".to_owned();
    run.group.name = "a < b & c".to_owned();
    let page = study::document(&run).html().unwrap();
    assert!(!page.contains("<script") && !page.contains("<b>late") && !page.contains("a < b & c"));
    assert!(page.contains("&lt;b&gt;late&lt;"));
    whole::check(&page);
    assert!(!page.replace("http://www.w3.org/2000/svg", "").contains("http"));
    assert_eq!(page.matches("<svg").count(), 2);
    assert!(page.contains("99.5"));
}

#[test]
fn page_takes_results_that_are_empty_or_absurd() {
    assert!(study::document(&StudyRun::default()).html().is_ok());
    let mut run = scaled();
    for point in &mut run.points {
        point.x = f64::NAN;
        for outcome in &mut point.outcomes {
            outcome.scales = vec![f64::INFINITY, 0.0, -1.0, 1e300];
        }
    }
    assert!(study::document(&run).html().is_ok());
    run.points.iter_mut().for_each(|point| point.outcomes.clear());
    assert!(study::document(&run).html().is_ok());
    let mut one = sample();
    one.points.truncate(1);
    assert!(study::document(&one).html().is_ok());
}

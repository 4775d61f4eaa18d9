//! Files of a study's results in a folder.

mod synthetic;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::RowAccessor;
use serde_json::Value;
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use submission::measure::{Protocol, Seat, Wait};
use submission::output::{self, Machine};
use submission::study::{Plan, Study, run};
use submission::summary::{Spread, Time};
use submission::{Method, Select};

fn machine() -> Machine {
    let command = "keeptime-lab bench submission --output <here>".into();
    Machine { host: "test".into(), command, ..Machine::this(&Seat::default()) }
}

fn small() -> Study {
    synthetic::study(&synthetic::models(0.1), &[1, 8], &[1, 10, 200], 40)
}

fn write(study: &Study) -> (tempfile::TempDir, Vec<PathBuf>) {
    let folder = tempfile::tempdir().unwrap();
    let written = output::write(study, &machine(), &folder.path().join("a/b")).unwrap();
    (folder, written)
}

fn text(folder: &Path, name: &str) -> String {
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The words of the paper, without line breaks; none where the tool is not there.
#[cfg(feature = "pdf")]
fn words_of_paper(path: &Path) -> Option<String> {
    let output =
        std::process::Command::new("pdftotext").arg("-raw").arg(path).arg("-").output().ok()?;
    let words = String::from_utf8(output.stdout).unwrap();
    Some(words.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn every_file_is_there_and_nothing_else() {
    let (folder, written) = write(&small());
    let mut names: Vec<String> =
        written.iter().map(|path| path.file_name().unwrap().to_str().unwrap().into()).collect();
    let mut found: Vec<String> = fs::read_dir(folder.path().join("a/b"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    found.sort();
    assert_eq!(names, found);
    let expected = [
        Some("cases.json"),
        Some("figure-completion.svg"),
        Some("figure-jitter.svg"),
        Some("figure-once.svg"),
        Some("figure-speed-up.svg"),
        Some("figure-submission.svg"),
        Some("figure-warm-up.svg"),
        Some("report.html"),
        output::PDF.then_some("report.pdf"),
        Some("samples.parquet"),
        Some("table.txt"),
    ];
    assert_eq!(names, expected.into_iter().flatten().collect::<Vec<_>>());
}

#[test]
fn parquet_holds_every_sample_in_order() {
    let study = small();
    let (folder, _) = write(&study);
    let file = fs::File::open(folder.path().join("a/b/samples.parquet")).unwrap();
    let reader = SerializedFileReader::new(file).unwrap();
    let mut rows = reader.get_row_iter(None).unwrap();
    for case in &study.cases {
        let about = &study.accelerators[case.accelerator];
        for (repetition, sample) in case.samples.iter().enumerate() {
            let row = rows.next().unwrap().unwrap();
            assert_eq!(row.get_string(0).unwrap(), &about.id);
            assert_eq!(row.get_string(1).unwrap(), &about.name);
            assert_eq!(row.get_string(2).unwrap(), case.method.name());
            let numbers = [3, 4, 5, 6].map(|column| row.get_int(column).unwrap() as usize);
            let shape = case.shape;
            assert_eq!(numbers, [shape.k, shape.l, 3 * shape.l, repetition]);
            assert_eq!(row.get_bool(7).unwrap(), sample.warm_up);
            assert_eq!(row.get_long(8).unwrap() as u64, sample.submission_ns);
            assert_eq!(row.get_long(9).unwrap() as u64, sample.completion_ns);
        }
    }
    assert!(rows.next().is_none());
}

#[test]
fn json_says_what_the_samples_say() {
    let mut study = small();
    study.cases[3].difference = 0.5;
    study.cases[4].difference = f32::INFINITY;
    let json: Value = output::json(&study, &machine());
    let cases = json["cases"].as_array().unwrap();
    assert_eq!(cases.len(), study.cases.len());
    for (case, shown) in study.cases.iter().zip(cases) {
        for time in Time::ALL {
            let spread = Spread::of(case, time).unwrap();
            let shown = &shown[format!("{}_ns", time.name())];
            assert_eq!(shown["median"], spread.median_ns);
            assert_eq!(shown["jitter"], spread.max_ns - spread.min_ns);
        }
        assert_eq!(shown["method"], case.method.name());
        assert_eq!(shown["repetitions"], 40);
        assert_eq!(shown["right"], case.is_right());
    }
    assert_eq!(cases[3]["right"], false);
    assert!(cases[4]["difference"].is_null());
    assert_eq!(json["missing"][0]["l"], 2000);
    assert_eq!(json["machine"]["host"], "test");
}

#[test]
fn table_fits_a_terminal_and_marks_what_is_wrong() {
    let mut study = small();
    let table = |study: &Study| output::document(study, &machine()).text(100, false);
    assert!(!table(&study).contains("!cuda:0"));
    study.cases[0].difference = 0.5;
    let table = table(&study);
    assert!(table.contains("!cuda:0 streams"), "{table}");
    assert!(table.contains("wrong result, 5.0e-1 off where rounding explains 1.0e-5"), "{table}");
    let widest = table.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(widest <= 100, "{widest} columns:\n{table}");
}

#[test]
fn figures_are_drawings_with_a_line_for_each_contender() {
    let study = small();
    let (folder, written) = write(&study);
    let drawings = written.iter().filter(|path| path.extension().is_some_and(|e| e == "svg"));
    for path in drawings {
        let svg = fs::read_to_string(path).unwrap();
        let drawing = roxmltree::Document::parse(&svg).unwrap();
        assert_eq!(drawing.root_element().tag_name().name(), "svg");
        let texts: Vec<String> = (drawing.descendants())
            .filter(|node| node.has_tag_name("text"))
            .filter_map(|node| node.text().map(|text| text.trim().to_owned()))
            .collect();
        assert!(texts.iter().any(|text| text == "vulkan:0 command-buffer"), "{}", path.display());
    }
    // Streams are what the others are compared with, and a processor is no GPU.
    let speed_up = text(&folder.path().join("a/b"), "figure-speed-up.svg");
    assert!(!speed_up.contains("streams") && !speed_up.contains("onnx"));
}

#[test]
fn page_needs_nothing_else() {
    let (folder, _) = write(&small());
    let page = text(&folder.path().join("a/b"), "report.html");
    for reference in ["src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(reference), "{reference}");
    }
    assert!(page.contains("&amp; &lt;signs&gt;") && !page.contains("& <signs>"));
    // Two widths; submission, completion, jitter and speed-up of both times, once; two of the warm-up.
    assert_eq!(page.matches("<svg").count(), 2 * (2 + 2 + 2 + 1) + 2);
}

#[test]
#[cfg(feature = "pdf")]
fn paper_has_pages_and_the_numbers_of_the_study() {
    let study = small();
    let (folder, _) = write(&study);
    let path = folder.path().join("a/b/report.pdf");
    let bytes = fs::read(&path).unwrap();
    assert!(bytes.starts_with(b"%PDF"));
    let text = String::from_utf8_lossy(&bytes);
    let (_, pages) = text.split_once("/Type/Pages/Count ").unwrap();
    let pages: usize = pages.split_once('/').unwrap().0.parse().unwrap();
    assert!(pages > 1, "{pages} pages");
    if let Some(words) = words_of_paper(&path) {
        let cases = study.cases.len();
        assert!(words.contains(&format!("The results of all {cases} cases agree")), "{words}");
        assert!(words.contains("Invented GPU 9000"));
    }
}

/// The verdicts on all claims, in order.
fn verdicts(study: &Study) -> Vec<String> {
    let (folder, _) = write(study);
    let page = text(&folder.path().join("a/b"), "report.html");
    let known = ["confirmed", "confirmed in part", "refuted", "not measured here"];
    let cells = page.split("<td").filter_map(|cell| cell.split(['>', '<']).nth(1));
    cells.filter(|cell| known.contains(cell)).map(str::to_owned).collect()
}

#[test]
fn claims_are_judged_by_the_samples() {
    let fast = verdicts(&small());
    assert_eq!(fast[0], "confirmed", "{fast:?}");
    assert_eq!(fast[2], "confirmed", "{fast:?}");
    let mut models = synthetic::models(200.0);
    models.iter_mut().for_each(|model| model.device = (1e6, 1e3));
    let slow = verdicts(&synthetic::study(&models, &[1], &[1, 10], 20));
    for claim in 0..4 {
        assert_eq!(slow[claim], "refuted", "claim {claim}: {slow:?}");
    }
    let processor: Vec<_> =
        models.into_iter().filter(|model| model.method == Method::Model).collect();
    let none = verdicts(&synthetic::study(&processor, &[1], &[1, 10], 20));
    assert!(none.iter().all(|verdict| verdict == "not measured here"), "{none:?}");
}

#[test]
fn folder_that_cannot_be_made_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let folder = file.path().join("below");
    let error = output::write(&small(), &machine(), &folder).unwrap_err();
    let path = folder.display().to_string();
    assert!(error.to_string().starts_with(&format!("cannot make the folder {path}: ")), "{error}");
}

#[test]
fn file_that_cannot_be_replaced_is_named_and_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("cases.json");
    fs::create_dir(&taken).unwrap();
    let error = output::write(&small(), &machine(), folder.path()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot write {}", taken.display())), "{error}");
    let left: Vec<String> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(left.iter().all(|name| !name.starts_with('.')), "{left:?}");
}

#[test]
fn study_of_nothing_is_written_too() {
    let nothing = synthetic::study(&[], &[1], &[1], 1);
    let (_folder, written) = write(&nothing);
    assert!(written.iter().any(|path| path.ends_with("report.html")));
    assert_eq!(written.iter().any(|path| path.ends_with("report.pdf")), output::PDF);
}

#[test]
fn software_accelerator_is_measured_and_written() {
    let plan = Plan {
        k: vec![1, 2],
        l: vec![1, 2, 5, 10],
        methods: Vec::new(),
        protocol: Protocol {
            warm_up: 5,
            repetitions: 30,
            limit_ns: 10_000_000_000,
            wait: Wait::Block,
        },
        seat: Seat::default(),
    };
    let mut accelerators = vec![submission::open(&Select::Software(Vec::new())).unwrap()];
    let study = run(&plan, &mut accelerators, |_, _| ControlFlow::Continue(())).unwrap();
    assert_eq!((study.cases.len(), study.is_right()), (8, true));
    let (folder, written) = write(&study);
    assert!(!written.iter().any(|path| path.ends_with("figure-speed-up.svg")));
    let page = text(&folder.path().join("a/b"), "report.html");
    assert!(page.contains("No other method was measured beside streams on the same device."));
}

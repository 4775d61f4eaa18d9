//! The result of a drive, through its public door: words, JSON and the page with its moving picture.

mod browser;
mod whole;

use report::drive::{
    Collision, Drive, DriveRun, Frame, Hazard, Lane, Part, PartKind, Path, Reaction, Span,
    document, html, json as as_json,
};
use serde_json::json;
use std::path::PathBuf;

fn path(id: u32, kind: &str, from: [f64; 3], speed: f64) -> Path {
    let pose = |step: u32| {
        let time = f64::from(step) * 0.1;
        [time, from[0] + speed * time, from[1], from[2]]
    };
    let poses = (0..100).map(pose).collect();
    Path { id, kind: kind.into(), length: 4.6, width: 1.9, poses }
}

fn run() -> DriveRun {
    let part = |kind, name: &str, ms: u64| Part { kind, name: name.into(), ns: ms * 1_000_000 };
    let span = |module: &str, start_s: f64, end_s: f64, critical: bool| Span {
        module: module.into(),
        frame: 31,
        start_s,
        end_s,
        critical,
        ..Span::default()
    };
    let drive = Drive {
        policy: "base".into(),
        duration_s: 9.9,
        bodies: vec![
            path(0, "car", [0.0, 0.0, 0.0], 10.0),
            path(1, "pedestrian <child>", [45.0, -4.0, 1.57], 0.0),
        ],
        collision: Some(Collision {
            at_s: 4.4,
            body: 1,
            side: "front".into(),
            speed: 8.0,
            other_speed: 1.4,
        }),
        reaction: Some(Reaction {
            visible_s: 3.02,
            acted_s: 3.26,
            parts: vec![
                part(PartKind::Sensor, "until the next scan", 80),
                part(PartKind::Bubble, "before prediction", 60),
                part(PartKind::Module, "prediction", 100),
            ],
        }),
        frames: vec![Frame { captured_s: 3.1, latency_ms: 160.0, fast: true }],
        spans: vec![span("prediction", 3.16, 3.26, true), span("planning", 3.0, 3.1, false)],
        violation_s: 0.4,
        violation_by: vec![("cut-in".into(), 0.3), ("follows".into(), 0.1)],
        violation_aggressive_s: 0.2,
        progress_m: 42.0,
    };
    DriveRun {
        scenario: "child from behind a car".into(),
        about: "A child steps out.".into(),
        hazard: Some(Hazard {
            about: "a child".into(),
            body: 1,
            began_s: 3.0,
            critical_s: Some(0.21),
        }),
        lanes: vec![Lane {
            left: vec![[-20.0, 1.75], [100.0, 1.75]],
            right: vec![[-20.0, -1.75], [100.0, -1.75]],
        }],
        drives: vec![drive.clone(), Drive { policy: "all".into(), ..Drive::default() }],
        ..DriveRun::default()
    }
}

#[test]
fn page_and_table_say_what_happened_and_why() {
    let run = run();
    let page = html(&run).unwrap();
    assert!(page.contains("at 4.40 s, on the front, at 29 km"), "{page}");
    assert!(page.contains("animateTransform") && page.contains("&lt;child&gt;"));
    whole::check(&page);
    assert!(!page.contains("<child>"));
    assert!(
        page.contains("data-from=\"1.50\"")
            && page.contains("data-at=\"1.50\" disabled>3.00 s: hazard begins")
    );
    assert!(page.contains("prediction, frame 31: 100.00 ms, the reaction went through it"));
    let said = document(&run).conclusion.join(" ");
    assert!(
        said.contains("base reacts in 240 ms (at most 210 ms avoid the crash): 80 ms sensor, 100 ms modules, 60 ms waiting."),
        "{said}"
    );
    assert!(said.contains("all did not react to the hazard."), "{said}");
    let table = document(&run).text(100, false);
    assert!(table.contains("at 4.40 s") && table.contains("240.0"), "{table}");
    assert_eq!(as_json(&run)["drives"][0]["reaction"]["sums_ns"]["waiting"], 60_000_000);
}

/// Uses the player as a person does, and notes its time.
const USE: &str = r#"
addEventListener('load', () => {
  const player = document.querySelector('.scene-player');
  const part = (name) => player.querySelector(`[data-part="${name}"]`);
  const seen = () => [part('play').textContent, part('clock').textContent];
  const key = (name) => part('picture').dispatchEvent(new KeyboardEvent('keydown', { key: name }));
  const results = { bar: part('bar').hidden, begun: part('play').textContent };
  part('play').click();
  results.paused = part('play').textContent;
  part('slider').value = '1';
  part('slider').dispatchEvent(new Event('input'));
  results.slid = seen();
  part('on').click();
  results.on = seen();
  part('back').click();
  part('back').click();
  results.back = seen();
  key('ArrowRight');
  results.right = seen();
  key('Home');
  results.home = seen();
  player.querySelector('[data-at]').click();
  results.moment = seen();
  results.spoken = part('slider').getAttribute('aria-valuetext');
  key(' ');
  results.played = part('play').textContent;
  results.errors = errors;
  const left = document.createElement('pre');
  left.id = 'results';
  left.textContent = JSON.stringify(results);
  document.body.append(left);
});
"#;

#[test]
fn picture_can_be_paused_stepped_and_sent_to_its_moments() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let page = folder.join("drive-player.html");
    std::fs::write(&page, browser::used(&html(&run()).unwrap(), USE)).unwrap();
    let Some(seen) = browser::browsed(&page, false) else { return };
    let expected = json!({
        "bar": false,
        "begun": "Pause",
        "paused": "Play",
        "slid": ["Play", "2.50 s"],
        "on": ["Play", "2.60 s"],
        "back": ["Play", "2.40 s"],
        "right": ["Play", "2.50 s"],
        "home": ["Play", "1.50 s"],
        "moment": ["Play", "3.00 s"],
        "spoken": "3.00 s",
        "played": "Pause",
        "errors": [],
    });
    assert_eq!(seen, expected);
}

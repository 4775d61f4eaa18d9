//! Made-up drives, whose numbers can be told by heart.

use super::*;
use crate::{Call, Factor, Frame, Group, Hit, Reaction, Scenarios, Shard, Times, WorkPart};
use driving::Policy;
use driving::stack::Stack;

fn study(experiment: Experiment, policies: &[Policy], scenarios: Scenarios) -> Study {
    Study::new(&[experiment], Some(scenarios), Some(policies), &[Stack::A], (Factor::Times(4.0), 1))
        .unwrap()
}

fn hit(side: &str, braked: f64) -> Option<Hit> {
    Some(Hit {
        at_s: 3.0,
        kind: "car".into(),
        hazard: true,
        side: side.into(),
        ego_speed: 5.0,
        other_speed: 0.0,
        braked,
    })
}

/// Judges a study each of whose drives goes as `of` says, which gets the place of its scenario.
fn found(study: &Study, of: impl Fn(usize, &str, &mut Row)) -> DriveStudyRun {
    let folder = tempfile::tempdir().unwrap();
    let mut folder = Folder::open(folder.path(), study, Shard::WHOLE, Vec::new(), false).unwrap();
    let units = folder.units().to_vec();
    for (place, unit) in units.iter().enumerate() {
        for (policy, key) in unit.keys() {
            let mut row = Row {
                critical_s: unit.suite.critical_s(unit.index),
                scenario: String::new(),
                driven_s: 25.0,
                collision: None,
                violation_s: 0.0,
                violations: 0,
                violation_by: BTreeMap::new(),
                violation_aggressive_s: 0.0,
                progress_m: 100.0,
                arrived_s: None,
                reaction: None,
                unanswered: 0,
                late: 0,
                late_fast: 0,
                late_perception: 0,
                busy_s: 10.0,
                cores: 7,
                guests: 0,
                host_violations: 0,
                host_delay_s: 0.0,
                late_frames: 0,
                chunks_observed: 0,
                chunks_missing: 0,
                times: BTreeMap::new(),
                took_s: 1.0,
                sends_s: 2.0,
                sends_busy_s: 4.0,
                frames: Vec::new(),
                groups: Vec::new(),
                calls: Vec::new(),
                key,
            };
            of(place, &policy.to_string(), &mut row);
            folder.append([row]).unwrap();
        }
    }
    judge(&folder, Origin::default())
}

/// The cells of a row.
fn texts(row: &report::document::Row) -> Vec<&str> {
    row.cells.iter().map(|cell| cell.text.as_str()).collect()
}

fn one<'a>(run: &'a DriveStudyRun, what: &str) -> &'a Demand {
    let found: Vec<&Demand> =
        run.demands.iter().filter(|demand| demand.what.contains(what)).collect();
    assert_eq!(found.len(), 1, "{what}: {found:?}");
    found[0]
}

fn number(demand: &Demand) -> f64 {
    demand.value.as_ref().unwrap().value
}

#[test]
fn avoidable_crashes_are_those_that_the_ideal_stack_avoids() {
    let policies = [Policy::Base, Policy::All, Policy::Brake, Policy::Oracle];
    let study = study(Experiment::Corner, &policies, Scenarios::First(82));
    let run = found(&study, |place, policy, row| {
        // Of every ten base crashes in eight, of which the ideal stack does not avoid two.
        row.critical_s = (place % 10 >= 2).then_some(0.15 + 0.15 * place as f64 / 81.0);
        let crashes = match (policy, place % 10) {
            // That the oracle, which may wait for timers, crashes does not make them unavoidable.
            ("base", 0..8) | ("oracle", 0..4) => true,
            ("all", at) => at < 2 || place == 5,
            ("brake", at) => at < 4,
            _ => false,
        };
        let from_behind = policy == "brake" && place == 2;
        row.collision = match (crashes, from_behind) {
            (false, _) => None,
            (true, true) => hit("rear", 6.0),
            (true, false) => hit("front", 6.0),
        };
    });
    let avoided = one(&run, "avoidable crashes avoided");
    let cases = study.parts[0].scenarios.len() as f64;
    let avoidable = (0..82).filter(|place| (2..8).contains(&(place % 10))).count() as f64;
    assert_eq!(cases, 82.0);
    assert!((number(avoided) - 100.0 * (avoidable - 1.0) / avoidable).abs() < 1e-9, "{avoided:?}");
    let (low, high) = avoided.value.as_ref().unwrap().interval.unwrap();
    assert!(low > 93.0 && high == 100.0, "{low} to {high}");
    assert_eq!(avoided.verdict, Verdict::Met);
    assert!(run.demands.iter().all(|demand| !demand.what.contains("Confirm")));
    // It avoids more than the brake, but at which penalty is not known.
    let rival = one(&run, "than brake");
    assert!(number(rival) > 15.0 && rival.verdict == Verdict::NotMeasured, "{rival:?}");
    let brake = &run.sections[0].tables[0].rows[2];
    assert_eq!((brake[0].as_str(), brake[3].as_str()), ("brake", "1"), "struck from behind");
}

#[test]
fn rivals_are_compared_at_a_commute_penalty_that_is_not_larger() {
    let policies = [Policy::Base, Policy::All, Policy::Brake, Policy::Oracle];
    let experiments = [Experiment::Confirm, Experiment::Commute];
    let study = Study::new(
        &experiments,
        Some(Scenarios::First(40)),
        Some(&policies),
        &[Stack::A],
        (Factor::Times(4.0), 1),
    );
    let study = study.unwrap();
    // Base crashes in all cases, the brake in so many; a commute takes all so much longer.
    let braking = |brake: usize, longer: f64| {
        let run = found(&study, |place, policy, row| {
            row.critical_s = Some(0.2);
            let commutes = row.key.suite == Suite::Commute;
            let slower =
                if policy == "all" { longer + 5.0 * (place % 3) as f64 - 5.0 } else { 0.0 };
            row.arrived_s = commutes.then_some(100.0 + slower);
            let crashes = policy == "base" || policy == "brake" && place < brake;
            row.collision = if crashes && !commutes { hit("front", 6.0) } else { None };
        });
        let demand = one(&run, "Confirm, 150 to 300 ms: fewer crashes than brake");
        (demand.verdict, demand.note.clone())
    };
    let (verdict, note) = braking(20, 0.0);
    assert_eq!(verdict, Verdict::Met, "{note}");
    assert_eq!(note, "Commutes take 0 % (-1.25 to 1.25) longer than with brake.");
    // Longer by a hair is longer.
    assert_eq!(braking(20, 0.1).0, Verdict::NotMeasured);
    assert_eq!(braking(0, 0.0).0, Verdict::Missed);
    // A policy that crashes as often is no better for being faster.
    assert_eq!(braking(0, -9.0).0, Verdict::Missed);
}

#[test]
fn cases_and_commutes_that_are_repeated_count_every_drive_and_are_drawn_as_one() {
    let policies = [Policy::Base, Policy::All, Policy::Brake];
    let experiments = [Experiment::Confirm, Experiment::Commute];
    let scenarios = Some(Scenarios::First(40));
    let with = (Factor::Times(4.0), 1);
    let study = Study::new(&experiments, scenarios, Some(&policies), &[Stack::A], with).unwrap();
    let run = |repeats: u32| {
        found(&study.clone().with_repeats(repeats).unwrap(), |_, policy, row| {
            row.critical_s = Some(0.2);
            let commutes = row.key.suite == Suite::Commute;
            // Later drives of a commute take all longer, and in later ones of a case the brake fails.
            let again = row.key.repeat > 0;
            let slower = if policy == "all" && again { 10.0 } else { 0.0 };
            row.arrived_s = commutes.then_some(100.0 + slower);
            let crashes = policy == "base" || policy == "brake" && again && row.key.index < 8;
            row.collision = if crashes && !commutes { hit("front", 6.0) } else { None };
        })
    };
    let value_of = |run: &DriveStudyRun, what: &str| {
        let value = one(run, what).value.clone().unwrap();
        (value.value, value.interval.unwrap())
    };
    let (rival, commute) = ("Confirm, 150 to 300 ms: fewer crashes than brake", "how much longer");
    let (once, twice) = (run(1), run(2));
    assert_eq!((value_of(&once, rival).0, value_of(&once, commute).0), (0.0, 0.0));
    assert_eq!(value_of(&twice, rival).0, 100.0 * 8.0 / 80.0);
    assert!((value_of(&twice, commute).0 - 5.0).abs() < 1e-9);
    // A case is drawn with its two drives, of which one or none ends in a crash.
    let (low, high) = value_of(&twice, rival).1;
    let drawn = 2.0 * 1.96 * 50.0 * (0.2f64 * 0.8 / 40.0).sqrt();
    assert!((high - low - drawn).abs() < 0.15 * drawn, "{low} to {high}, {drawn}");
    let table = &twice.sections[0].tables[0];
    assert!(
        table
            .title
            .ends_with("40 cases, 40 of them in the band of 150 to 300 ms; each driven 2 times")
    );
    assert_eq!((table.rows[0][1].as_str(), table.rows[2][1].as_str()), ("80", "8"));
}

#[test]
fn reactions_are_told_by_whether_they_were_later_than_the_critical_time() {
    let study = study(Experiment::Corner, &[Policy::Base, Policy::Oracle], Scenarios::First(20));
    let run = found(&study, |place, policy, row| {
        row.critical_s = (place < 18).then_some(0.2);
        // The last but one has no reaction, and the last two no critical time.
        let total_ms = if policy == "oracle" || place < 5 { 200 } else { 201 };
        row.reaction = (place != 17).then_some(Reaction {
            sensor_ns: 50_000_000,
            confirm_ns: 0,
            module_ns: (total_ms - 50) * 1_000_000,
            bubble_ns: 0,
        });
        row.collision = if policy == "base" && place >= 3 { hit("front", 6.0) } else { None };
    });
    let tables = &run.sections[0].tables;
    let table = tables.iter().find(|table| table.title.contains("critical time")).unwrap();
    // Of base's first five two crash; of the twelve that react later all do.
    assert_eq!(texts(&table.rows[0]), ["base", "12", "12", "5", "2", "3"]);
    assert_eq!(texts(&table.rows[1]), ["oracle", "0", "0", "17", "0", "3"]);
}

#[test]
fn collisions_that_base_does_not_have_are_counted_one_by_one() {
    let policies = [Policy::Base, Policy::All];
    let study = study(Experiment::Normal, &policies, Scenarios::First(40));
    let run_with = |worse: bool| {
        found(&study, |place, policy, row| {
            let crashes = match policy {
                "base" => place < 3,
                _ => worse && place == 30,
            };
            row.collision = if crashes { hit("front", 0.0) } else { None };
            row.violation_s = if policy == "base" { 2.0 } else { 0.5 };
            let (cut_in, follows) = if policy == "base" { (0.8, 1.2) } else { (0.38, 0.12) };
            row.violation_by.insert("cut-in".to_owned(), cut_in);
            row.violation_by.insert("follows".to_owned(), follows);
        })
    };
    let good = run_with(false);
    let collisions = one(&good, "collisions that base");
    assert_eq!((number(collisions), collisions.verdict), (0.0, Verdict::Met));
    assert!(collisions.note.contains("In 3 of ") && collisions.note.contains("7.2"));
    let less = one(&good, "less time nearer");
    assert!((number(less) - 75.0).abs() < 1e-9 && less.verdict == Verdict::Met, "{less:?}");
    // Of cut-ins there is half less, of what the ego makes nine tenths, and that is another demand.
    let own = one(&good, "caused by the ego");
    assert!((number(own) - 90.0).abs() < 1e-9 && own.verdict == Verdict::Met, "{own:?}");
    let bad = run_with(true);
    assert_eq!(one(&bad, "collisions that base").verdict, Verdict::Missed);
}

#[test]
fn time_too_near_is_shown_by_cause_and_by_other_assumptions() {
    let study = study(Experiment::Normal, &[Policy::Base, Policy::All], Scenarios::First(40));
    let run = found(&study, |_, policy, row| {
        let all = policy == "all";
        row.violation_s = 1.5;
        row.violation_by.insert("cut-in".to_owned(), if all { 1.0 } else { 1.25 });
        row.violation_by.insert("follows".to_owned(), if all { 0.5 } else { 0.25 });
        row.violation_aggressive_s = if all { 0.1 } else { 0.2 };
    });
    let tables: Vec<&report::document::Table> =
        run.sections.iter().flat_map(|section| &section.tables).collect();
    let cell = |row: usize, head: &str| {
        let table = tables.iter().find(|table| table.head.iter().any(|it| it == head)).unwrap();
        let column = table.head.iter().position(|it| it == head).unwrap();
        table.rows[row][column].clone()
    };
    let row = |row: usize| {
        ["by the aggressive assumptions, s", "cut-in, s", "follows, s", "oncoming, s"]
            .map(|head| cell(row, head))
    };
    assert_eq!(row(0), ["8.0", "50.0", "10.0", "0.0"]);
    assert_eq!(row(1), ["4.0", "40.0", "20.0", "0.0"]);
}

#[test]
fn latencies_are_compared_in_pairs_and_the_worse_end_decides() {
    let policies = [Policy::Base, Policy::All, Policy::Stealing];
    let study = study(Experiment::Latency, &policies, Scenarios::First(20));
    let run = found(&study, |place, policy, row| {
        let ms = |ms: u64| ms * 1_000_000;
        let mut times = Times::default();
        // Twice as fast in all but the last scenario.
        let better = policy == "all" && place < 19;
        for at in 0..100 {
            times.add(if better { ms(40 + at / 10) } else { ms(80 + at / 5) });
        }
        row.times.insert("frames".to_owned(), times.clone());
        row.times.insert("frames_fast".to_owned(), times.clone());
        row.times.insert("guest".to_owned(), times);
        (row.late, row.late_fast) = (1, usize::from(place == 0));
        row.late_perception = row.late_fast;
        // As much work in less time: nothing more over the whole drive.
        row.sends_s = if policy == "stealing" { 1.6 } else { 2.0 };
    });
    let mean = one(&run, "command, mean");
    assert!((1.8..2.0).contains(&number(mean)) && mean.verdict == Verdict::Met, "{mean:?}");
    // The longest is that of the scenario that is not better; some samples do not have it.
    let longest = one(&run, "command, longest");
    assert!((number(longest) - 1.0).abs() < 1e-9 && longest.verdict == Verdict::Missed);
    let missed = one(&run, "miss 125 ms");
    assert!(
        (number(missed) - 0.05).abs() < 1e-9 && missed.verdict == Verdict::Missed,
        "{missed:?}"
    );
    assert!(missed.note.contains("1 of them, 0.050 %"), "{}", missed.note);
    let utilisation = one(&run, "utilisation");
    assert!((number(utilisation) - 25.0).abs() < 1e-9 && utilisation.verdict == Verdict::Met);
    assert!(utilisation.note.contains("whole drive: 0 % (0 to 0)"), "{}", utilisation.note);
    let guest = one(&run, "guest's mean");
    assert!(number(guest).abs() < 1e-9 && guest.verdict == Verdict::Missed, "{guest:?}");
    assert_eq!(one(&run, "Proactive").verdict, Verdict::NotMeasured);
    // No guest was let in, so that none was waited for.
    assert_eq!(one(&run, "had to wait").verdict, Verdict::NotMeasured);
}

#[test]
fn commutes_that_were_given_up_count_and_crashes_do_not() {
    let policies = [Policy::Base, Policy::All];
    let study = study(Experiment::Commute, &policies, Scenarios::First(40));
    let run_with = |crashes: bool| {
        found(&study, |place, policy, row| {
            row.arrived_s = match (policy, place) {
                ("base", _) => Some(50.0),
                (_, 0) => None,
                _ => Some(52.0),
            };
            if row.arrived_s.is_none() {
                row.driven_s = 180.0;
                row.collision = if crashes { hit("front", 0.0) } else { None };
            }
        })
    };
    let given_up = run_with(false);
    let longer = one(&given_up, "how much longer");
    assert!((number(longer) - 10.4).abs() < 1e-9, "{longer:?}");
    assert_eq!(longer.verdict, Verdict::Missed);
    let crashed = run_with(true);
    let longer = one(&crashed, "how much longer");
    assert!((number(longer) - 4.0).abs() < 1e-9 && longer.verdict == Verdict::Met, "{longer:?}");
    let all = &crashed.sections[0].tables[0].rows[1];
    assert_eq!((all[1].as_str(), all[2].as_str()), ("39 of 40", "1"));
}

#[test]
fn clocks_are_compared_scenario_by_scenario_and_fifty_are_enough() {
    let run_with = |count: usize, longer: u64, folded: bool| {
        let mut study = study(Experiment::Clocks, &[Policy::Base], Scenarios::First(count));
        study.folded = folded;
        found(&study, |place, _, row| {
            let on_wall = row.key.clock == Clock::Wall;
            // Drives of its own are twice as fast.
            let share_ns = |percent: u64| 1_000_000 * (100 + place as u64) * percent / 100;
            if row.key.clock == Clock::Again {
                (row.chunks_observed, row.chunks_missing) = (3, 1);
            }
            // One scenario in which only the virtual one reacts.
            row.reaction = (place > 0 || !on_wall).then(|| Reaction {
                sensor_ns: 0,
                confirm_ns: 0,
                module_ns: share_ns(match row.key.clock {
                    Clock::Wall => 100 + longer,
                    Clock::Again => 100,
                    Clock::Virtual => 50,
                }),
                bubble_ns: 0,
            });
        })
    };
    let verdict = |count, longer, folded| {
        let run = run_with(count, longer, folded);
        let run_with = |costs: &str| {
            let demand = one(&run, &format!("virtual clock, {costs}: base, p99"));
            (number(demand).round(), demand.verdict)
        };
        assert_eq!(run_with("drives of their own").0, 100.0 + 2.0 * longer as f64);
        run_with("same drive")
    };
    assert_eq!(verdict(60, 8, false), (8.0, Verdict::Met));
    assert_eq!(verdict(60, 12, false), (12.0, Verdict::Missed));
    assert_eq!(verdict(50, 0, false), (0.0, Verdict::NotMeasured));
    assert_eq!(verdict(60, 0, true), (0.0, Verdict::NotMeasured));
    let run = run_with(60, 8, false);
    assert!(one(&run, "same drive: base, p50").note.contains("of 59 scenarios"));
    let rows = &run.sections[0].tables[0].rows;
    let reacted: Vec<[&str; 3]> =
        rows.iter().map(|row| [1, 5, 16].map(|column| row[column].as_str())).collect();
    let observed = ["virtual, as on the wall", "60", "75.0 %"];
    assert_eq!(reacted, [observed, ["virtual", "60", "-"], ["wall", "59", "-"]]);
    // Without the experiment the demand is there, and open.
    let other = self::study(Experiment::Table1, &[], Scenarios::First(1));
    let other = found(&other, |_, _, _| ());
    assert_eq!(one(&other, "Reaction time on the wall clock").verdict, Verdict::NotMeasured);
}

#[test]
fn reactions_of_drives_that_are_repeated_are_compared_together() {
    let run = |slow: u64| {
        let study = study(Experiment::Clocks, &[Policy::Base], Scenarios::First(60));
        found(&study.with_repeats(3).unwrap(), |place, _, row| {
            // One drive of three takes longer, another one on each clock.
            let is_slow = row.key.repeat == if row.key.clock == Clock::Wall { 2 } else { 0 };
            row.reaction = Some(Reaction {
                sensor_ns: 0,
                confirm_ns: 0,
                module_ns: 1_000_000 * (100 + place as u64 % 10 + if is_slow { slow } else { 0 }),
                bubble_ns: 0,
            });
        })
    };
    let run = run(100);
    for share in ["p50", "p99"] {
        let demand = one(&run, &format!("virtual clock, same drive: base, {share}"));
        assert_eq!((number(demand), demand.verdict), (0.0, Verdict::Met), "{demand:?}");
        assert!(demand.note.contains("of 180 reactions, virtual"), "{demand:?}");
    }
    let rows = run.sections[0].tables[0].rows.iter();
    let counts: Vec<Vec<&str>> =
        rows.map(|row| row.cells[2..6].iter().map(|cell| &*cell.text).collect()).collect();
    assert_eq!(counts, [["60", "60", "180", "180"]; 3]);
}

#[test]
fn latency_that_grows_with_traffic_has_its_slope_and_cores_their_use() {
    let study = study(Experiment::Characterise, &[], Scenarios::First(8));
    let run = found(&study, |place, policy, row| {
        assert_eq!(policy, "base");
        let frame = |number: u16| Frame {
            number: number.into(),
            vehicles: number % 4,
            objects: 10,
            latency_us: 20_000 + 5_000 * u32::from(number % 4) + 10 * place as u32,
            modules_us: [Some(1000); 4],
        };
        row.frames = (0..100).map(frame).collect();
        let used = (0..100).map(|at| if at < 50 { 0 } else { 80 }).collect();
        row.groups = vec![Group { name: "planning".into(), cores: 2, idle_s: 5.0, used }];
        let mut times = Times::default();
        [2_000_000, 50_000_000].into_iter().for_each(|ns| times.add(ns));
        row.times.insert("planning".into(), times.clone());
        row.times.insert("planning_waits".into(), times);
    });
    let [modules, density, usage] = &run.sections[0].tables[..] else { panic!("three tables") };
    let planning = &modules.rows[3];
    assert_eq!((planning[1].as_str(), planning[6].as_str()), ("16", "50.00"), "{planning:?}");
    assert!(planning[7].starts_with("24.") || planning[7].starts_with("25."), "{planning:?}");
    let named = |name: &str| density.rows.iter().find(|row| row[0] == name).unwrap();
    assert_eq!(named("2")[1], "200");
    assert!(named("2")[2].starts_with("30.0 ms (30.0 to 30."), "{density:?}");
    assert!(named("for each vehicle more")[2].starts_with("5.00 ms"), "{density:?}");
    assert!(named("correlation")[2].starts_with("1.00"), "{density:?}");
    assert_eq!(
        texts(&usage.rows[0]),
        ["planning", "2", "40.0 %", "80 %", "80 %", "80 %", "20.0 %"]
    );
}

#[test]
fn parts_beside_hogs_are_compared_with_themselves_alone() {
    let study = study(Experiment::Modules, &[Policy::All], Scenarios::First(6));
    let run = found(&study, |place, policy, row| {
        assert_eq!(policy, "oracle", "it has a policy of its own");
        let call = |part: WorkPart, setting: f64, swept: f64, took_us: f64| Call {
            part,
            input: 0,
            objects: 4 * place as u32,
            setting,
            swept,
            took_us,
        };
        let whole = 1000.0 + 100.0 * 4.0 * place as f64;
        for swept in [0.0, 0.125, 0.25, 0.5, 1.0, 2.0] {
            let took_us = whole * (1.0 + 0.2 * swept);
            row.calls.push(call(WorkPart::Planning, 80.0, swept, took_us));
        }
        row.calls.push(call(WorkPart::Planning, 30.0, 0.0, whole / 4.0));
    });
    let [parts, objects, ahead, beside] = &run.sections[0].tables[..] else {
        panic!("four tables")
    };
    assert_eq!(parts.rows.last().unwrap()[1], "6", "as far ahead as usual: {parts:?}");
    let grows = objects.rows.iter().find(|row| row[0] == "for each object more").unwrap();
    assert!(grows[4].starts_with("0.10 ms"), "{grows:?}");
    assert_eq!((ahead.rows[0][1].as_str(), ahead.rows[0][3].as_str()), ("30 m", "1.00"));
    assert_eq!((ahead.rows[1][1].as_str(), ahead.rows[1][3].as_str()), ("80 m", "4.00"));
    let planning = beside.rows.last().unwrap();
    assert!(planning[5].starts_with("20.0 %") && planning[6].starts_with("40.0 %"), "{planning:?}");
    assert!(planning[7].starts_with("20.0 %"), "{planning:?}");
    assert_eq!(beside.rows[0][2], "-", "the ground was not computed");
}

#[test]
fn table_of_four_encounters_says_what_is_not_reproduced_and_what_it_would_need() {
    let study = Study::new(&[Experiment::Table1], None, None, &[Stack::A], (Factor::Times(4.0), 1))
        .unwrap();
    let run = found(&study, |_, _, _| ());
    assert_eq!(one(&run, "35 km/h at 10 m").verdict, Verdict::Met);
    let rows = &run.sections[0].tables[0].rows;
    let kept: Vec<&str> = rows.iter().map(|row| row[4].as_str()).collect();
    assert_eq!(kept, ["yes", "no", "yes", "no"]);
    assert!(rows[1][5].contains("braking of 2.36") && rows[3][5].contains("4.17 m"), "{rows:?}");
}

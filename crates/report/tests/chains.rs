//! The report of a run of chains, through its public door.

mod sample;
mod whole;

use report::chains::{self, ChainInfo, ChainResult, ChainsRun, PolicyRun, Slowest};
use sample::sample;
use serde_json::json;

/// Two chains, few samples: small enough to write the expected text down.
fn small() -> ChainsRun {
    let chain = |id: &str, priority, best_effort, bound_ns| ChainInfo {
        id: id.to_owned(),
        priority,
        period_ns: 100_000_000,
        deadline_ns: 100_000_000,
        best_effort,
        bound_ns,
    };
    let result = |id: &str, misses, skipped, response_ns: &[u64]| ChainResult {
        id: id.to_owned(),
        jobs: response_ns.len() as u64,
        misses,
        skipped,
        unfinished: 0,
        response_ns: response_ns.to_vec(),
        slowest: None,
    };
    let slowest = Slowest {
        job: 1,
        response_ns: 25_000_000,
        waiting_ns: 1_000_000,
        computing_ns: 8_000_000,
        sending_ns: 0,
        queued_ns: 4_990_000,
        working_ns: 11_000_000,
        answering_ns: 10_000,
    };
    let slow = |result| ChainResult { slowest: Some(slowest), ..result };
    let policy = |policy: &str, chains| PolicyRun {
        policy: policy.to_owned(),
        chains,
        facts: vec![("accelerator busy".to_owned(), "40 %".to_owned())],
        ..PolicyRun::default()
    };
    ChainsRun {
        system_name: "robot.yaml".to_owned(),
        machine: "a machine".to_owned(),
        duration_ns: 2_500_000_000,
        marks: vec!["ran at normal priority".to_owned()],
        chains: vec![chain("brake", 2, false, Some(30_000_000)), chain("map", 1, true, None)],
        policies: vec![
            policy(
                "priority",
                vec![
                    slow(result("brake", 0, 0, &[20_000_000, 25_000_000, 22_000_000])),
                    result("map", 1, 2, &[150_000_000]),
                ],
            ),
            policy(
                "fifo",
                vec![result("brake", 1, 0, &[50_000_000, 125_000_000]), result("map", 0, 0, &[])],
            ),
        ],
        ..ChainsRun::default()
    }
}

fn text(run: &ChainsRun) -> String {
    chains::document(run).text(100, false)
}

fn conclusion(run: &ChainsRun) -> String {
    chains::document(run).conclusion.join(" ")
}

#[test]
fn text_has_every_number_and_says_what_is_wrong() {
    let expected = "\
robot.yaml
  Machine: a machine
  Each policy ran: 2.5 s
! ran at normal priority

Chains
Times in ms. Best effort: map.
  chain  policy    priority  period  jobs     p50     p99     max  misses  bound
";
    let text = text(&small());
    assert_eq!(text.split("  brake  ").next().unwrap(), expected, "{text}");
}

#[test]
fn colour_changes_nothing_but_the_colour() {
    let coloured = chains::document(&sample()).text(100, true);
    assert!(coloured.contains("\u{1b}[1m\u{1b}[31m!154"), "{coloured:?}");
    let mut plain = String::new();
    for (i, part) in coloured.split('\u{1b}').enumerate() {
        plain += if i == 0 { part } else { part.split_once('m').unwrap().1 };
    }
    assert_eq!(plain, text(&sample()));
}

#[test]
fn text_fits_into_a_hundred_columns() {
    let mut run = sample();
    let long = "a-name-of-the-greatest-length-that-a-system-file-may-give-to-chain";
    for policy in &mut run.policies {
        policy.chains[0].id = long.to_owned();
    }
    run.chains[0].id = long.to_owned();
    for line in text(&run).lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}

#[test]
fn a_response_over_its_bound_stands_out() {
    let mut run = small();
    run.policies[0].chains[0].response_ns.push(30_001_000);
    let text = text(&run);
    let line = text.lines().find(|line| line.contains("brake  priority")).unwrap();
    assert!(line.contains("!30.00") && line.trim_end().ends_with("!30.00"), "{line}");
    let said = conclusion(&run);
    let cause = match run.policies[0].marks.is_empty() {
        true => "what the file declares is too short for this machine",
        false => "the marks of that run name what the bounds leave out",
    };
    assert!(
        said.contains(&format!("Longer than the bound: brake in 1 of 4 jobs; {cause}.")),
        "{said}"
    );
    let page = chains::document(&run).html().unwrap();
    assert!(page.contains("<td class=\"bad\">30.00</td>"));
}

#[test]
fn json_has_the_numbers_of_every_chain() {
    let json = chains::json(&small());
    assert_eq!(
        json["policies"]["priority"]["chains"]["brake"],
        json!({
            "period_ns": 100_000_000, "deadline_ns": 100_000_000, "priority": 2, "best_effort": false,
            "jobs": 3, "skipped": 0, "unfinished": 0,
            "p50_ns": 22_000_000, "p99_ns": 25_000_000, "max_ns": 25_000_000, "misses": 0, "bound_ns": 30_000_000,
            "slowest": {
                "job": 1, "response_ns": 25_000_000, "waiting_ns": 1_000_000, "computing_ns": 8_000_000,
                "sending_ns": 0, "queued_ns": 4_990_000, "working_ns": 11_000_000, "answering_ns": 10_000,
            },
        })
    );
    let map = &json["policies"]["fifo"]["chains"]["map"];
    for key in ["p50_ns", "p99_ns", "max_ns", "bound_ns", "slowest"] {
        assert!(map[key].is_null() && map.get(key).is_some(), "{key}");
    }
    assert_eq!(json["marks"], json!(["ran at normal priority"]));
}

#[test]
fn judged_policies_are_named_with_the_chains_that_were_late() {
    let judged = |policies: &[&str], run: ChainsRun| {
        let judged = policies.iter().map(|policy| (*policy).to_owned()).collect();
        ChainsRun { judged, ..run }
    };
    let punctual = judged(&["priority"], small());
    // The best-effort chain missed a deadline, which does not count.
    assert_eq!(punctual.failures(), [""; 0]);
    let sentence = "Judged under priority: no critical chain was late.";
    assert!(conclusion(&punctual).contains(sentence), "{}", conclusion(&punctual));
    let mut late = judged(&["priority", "fifo"], small());
    late.chains[0].bound_ns = Some(24_000_000);
    late.policies[1].chains[0].misses = 2;
    let expected =
        ["brake exceeded its bound under priority", "brake missed 2 of 2 deadlines under fifo"];
    assert_eq!(late.failures(), expected);
    let sentence = format!("Judged under priority and fifo: {}.", expected.join("; "));
    assert!(conclusion(&late).contains(&sentence), "{}", conclusion(&late));
    // Nobody asked for the other one.
    let asked = ChainsRun { judged: vec!["timeslice".to_owned()], ..late };
    assert!(asked.failures().is_empty() && !conclusion(&asked).contains("Judged"));
}

#[test]
fn input_survives_its_own_json() {
    let text = serde_json::to_string(&small()).unwrap();
    assert_eq!(serde_json::from_str::<ChainsRun>(&text).unwrap(), small());
}

#[test]
fn conclusion_says_what_was_won() {
    assert_eq!(
        conclusion(&small()),
        "Under priority, brake (the most critical chain) took at most 25.0 ms; \
         under fifo 125 ms (5.0 times as long). \
         Deadlines missed by critical chains: none under priority (3 jobs), 1 under fifo (2 jobs). \
         The one chain with a bound stayed within it. The marks qualify these results."
    );
}

#[test]
fn conclusion_is_honest_when_nothing_was_won() {
    let mut run = small();
    run.marks.clear();
    run.policies.reverse();
    run.policies[0].policy = "priority".to_owned();
    run.policies[1].policy = "fifo".to_owned();
    assert_eq!(
        conclusion(&run),
        "Nothing was won for the most critical chain: under priority, brake took at most 125 ms; \
         under fifo 25.0 ms (shorter, 0.20 times as long). \
         Deadlines missed by critical chains: 1 under priority (2 jobs), none under fifo (3 jobs). \
         Longer than the bound: brake in 2 of 2 jobs; \
         what the file declares is too short for this machine."
    );
}

#[test]
fn conclusion_is_honest_when_something_is_absent() {
    let mut run = small();
    run.policies.truncate(1);
    let alone = "Under priority, brake (the most critical chain) took at most 25.0 ms; \
                 no other policy was run to compare with.";
    assert!(conclusion(&run).starts_with(alone));
    run.policies[0].chains[0].response_ns.clear();
    let no_job =
        "brake, the most critical chain, completed no job under priority, so nothing was won.";
    assert!(conclusion(&run).starts_with(no_job));
    run.policies[0].policy = "fifo".to_owned();
    let no_policy = "The policy priority was not run, so nothing was compared.";
    assert!(conclusion(&run).starts_with(no_policy));
    let nothing = conclusion(&ChainsRun::default());
    assert_eq!(nothing, "There is no chain, so nothing was compared.");
}

#[test]
fn names_from_outside_cannot_move_the_cursor() {
    let mut run = sample();
    run.chains[0].id = "a\n\u{1b}[2Jb".to_owned();
    let text = text(&run);
    assert!(text.contains("a\u{fffd}\u{fffd}[2Jb") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn page_needs_nothing_else() {
    let page = chains::document(&sample()).html().unwrap();
    whole::check(&page);
    assert!(!page.contains("<script"));
    let addresses = page.matches("://").count();
    assert_eq!(addresses, page.matches("http://www.w3.org/2000/svg").count());
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    assert_eq!(page.matches("<figure").count(), 9);
}

#[test]
fn page_escapes_everything_that_comes_from_outside() {
    let evil = "<script>alert('1')</script>&\"";
    let mut run = small();
    run.chains[0].id = evil.to_owned();
    for policy in &mut run.policies {
        policy.chains[0].id = evil.to_owned();
        policy.marks.push(evil.to_owned());
        policy.facts.push((evil.to_owned(), evil.to_owned()));
    }
    run.policies[1].policy = evil.to_owned();
    for text in [&mut run.system_name, &mut run.machine, &mut run.command, &mut run.date] {
        *text = evil.to_owned();
    }
    run.marks.push(evil.to_owned());
    let page = chains::document(&run).html().unwrap();
    assert!(!page.contains("<script"), "unescaped");
    assert!(!page.contains("alert('1')"), "unescaped quote");
    assert!(page.matches("&lt;script&gt;").count() > 15);
}

#[test]
fn page_takes_results_that_are_empty_or_absurd() {
    let mut absurd = small();
    absurd.chains[0].period_ns = 0;
    absurd.chains[0].bound_ns = Some(u64::MAX);
    absurd.chains[1].deadline_ns = u64::MAX;
    absurd.policies[0].chains[0].response_ns = vec![u64::MAX, 0, 1];
    absurd.policies[1].chains.clear();
    let mut without_policies = small();
    without_policies.policies.clear();
    for run in [ChainsRun::default(), without_policies, absurd] {
        assert!(chains::document(&run).html().unwrap().ends_with("</html>"));
        chains::json(&run);
        text(&run);
    }
}

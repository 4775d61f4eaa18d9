//! Drives the real `keeptime-lab bench regulate`: what it measures is there. The order of the shares
//! that BWLOCK++ reports depends on who else has the core, and is checked by `--check`.

mod program;

use program::laboratory;
use serde_json::Value;

#[test]
fn shares_under_each_rule_and_the_effect_of_the_lock_are_measured() {
    let cores = realtime::machine::online_cores();
    if !rustix::process::geteuid().is_root() || cores.len() < 2 {
        eprintln!("SKIP: regulating takes root and two cores");
        return;
    }
    let options = ["--rounds", "1", "--duration", "300ms", "--takings", "20", "--json"];
    let output = laboratory().args(["bench", "regulate"]).args(options).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let outcome: Value = testing::result::of(&output);
    let cases = outcome["cases"].as_array().unwrap();
    let effects = outcome["effects"].as_array().unwrap();
    assert!(!cases.is_empty() && !effects.is_empty(), "{outcome}");
    for run in cases.iter().flat_map(|case| case["runs"].as_array().unwrap()) {
        let had = [0, 1].map(|task| run["had_periods"][task].as_f64().unwrap());
        assert!(had[0] + had[1] > 0.0, "{outcome}");
    }
    assert!(effects.iter().all(|effect| effect["effect"]["count"].as_u64() > Some(0)), "{outcome}");
}

//! Results as `--json` prints them: read, and checked against the rules that docs/commands.md states
//! for all of them.

use std::process::Output;

use serde_json::{Map, Value};

/// Last words of keys with times in other units than nanoseconds.
const OTHER_UNITS: [&str; 8] = ["us", "ms", "s", "sec", "secs", "seconds", "millis", "micros"];

/// The result that a program has printed.
///
/// # Panics
/// As [`read`], with what the program wrote to standard error.
#[track_caller]
pub fn of(output: &Output) -> Value {
    parse(&output.stdout).unwrap_or_else(|fault| panic!("{fault}: {output:?}"))
}

/// Reads a result.
///
/// # Panics
/// If it is no JSON, or breaks a rule: the first keys are `schema` and `version`; times are in
/// nanoseconds, in keys that end in `_ns`, and whole except in benches, which measure calls of a few
/// nanoseconds.
#[track_caller]
pub fn read(text: impl AsRef<[u8]>) -> Value {
    let text = text.as_ref();
    parse(text).unwrap_or_else(|fault| panic!("{fault}: {}", String::from_utf8_lossy(text)))
}

fn parse(text: &[u8]) -> Result<Value, String> {
    let result: Value = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let faults = faults(&result);
    if faults.is_empty() { Ok(result) } else { Err(faults.join("; ")) }
}

/// Rules that a result breaks, with the place of each.
fn faults(result: &Value) -> Vec<String> {
    let Some(members) = result.as_object() else { return vec!["no object".to_owned()] };
    let mut faults = Vec::new();
    let first: Vec<&String> = members.keys().take(2).collect();
    if first != ["schema", "version"] {
        faults.push(format!("found {first:?}, expected schema and version as first keys"));
    }
    let schema = result["schema"].as_str().unwrap_or_default();
    if !schema.starts_with("keeptime.") || result["version"].as_u64().is_none_or(|it| it == 0) {
        faults.push(format!("schema {}, version {}", result["schema"], result["version"]));
    }
    let rules = Rules { whole: !schema.starts_with("keeptime.bench-") };
    rules.check_members(members, "", &mut faults);
    faults
}

/// Rules for the values of one result.
struct Rules {
    /// True if times have no fractions.
    whole: bool,
}

impl Rules {
    fn check_members(&self, members: &Map<String, Value>, place: &str, faults: &mut Vec<String>) {
        for (key, value) in members {
            let place = format!("{place}.{key}");
            let mut words = key.rsplit('_');
            let (last, before) = (words.next().unwrap_or_default(), words.next());
            if OTHER_UNITS.contains(&last) && before != Some("per") && has_number(value) {
                faults.push(format!("{place}: a time that is not in nanoseconds"));
            }
            if last != "ns" && key.contains("_ns_") {
                faults.push(format!("{place}: the unit is not the end of the key"));
            }
            if last == "ns" {
                self.check_times(value, &place, faults);
            }
            self.check(value, &place, faults);
        }
    }

    fn check(&self, value: &Value, place: &str, faults: &mut Vec<String>) {
        match value {
            Value::Object(members) => self.check_members(members, place, faults),
            Value::Array(values) => {
                values.iter().for_each(|value| self.check(value, &format!("{place}[]"), faults));
            }
            _ => {}
        }
    }

    /// Checks the numbers of a key that ends in `_ns`, which may be several, with names or without.
    fn check_times(&self, value: &Value, place: &str, faults: &mut Vec<String>) {
        match value {
            Value::Null => {}
            Value::Number(number) => {
                if self.whole && number.is_f64() {
                    faults.push(format!("{place}: {number} is not a whole number"));
                }
            }
            Value::Array(times) => {
                times.iter().for_each(|time| self.check_times(time, place, faults));
            }
            Value::Object(times) => {
                for (name, time) in times {
                    self.check_times(time, &format!("{place}.{name}"), faults);
                }
            }
            other => faults.push(format!("{place}: {other} is not a time")),
        }
    }
}

/// Returns true if a value is a number or has some.
fn has_number(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::Array(values) => values.iter().any(has_number),
        Value::Object(members) => members.values().any(has_number),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_without_a_fault_is_read() {
        let text = r#"{"schema": "keeptime.x", "version": 2, "partial": null, "p50_ns": 7, "jobs": 4,
            "parts_ns": {"sensor": 1, "waiting": null}, "mb_per_s": 1.5, "runs_ns": [[1, 2], []],
            "chains": {"a": {"bound_ns": null, "share": 0.5}}}"#;
        assert_eq!(read(text)["p50_ns"], 7);
        read(r#"{"schema": "keeptime.bench-locks", "version": 1, "mean_ns": 3.4}"#);
    }

    #[test]
    fn each_broken_rule_is_named_with_its_place() {
        let with = |more: &str| format!(r#"{{"schema": "keeptime.x", "version": 1, {more}}}"#);
        for (text, expected) in [
            ("[]".to_owned(), "no object"),
            (r#"{"version": 1, "schema": "keeptime.x"}"#.to_owned(), "as first keys"),
            (r#"{"schema": "x", "version": 1}"#.to_owned(), "schema \"x\", version 1"),
            (r#"{"schema": "keeptime.x", "version": 0}"#.to_owned(), "version 0"),
            (with(r#""drives": [{"latency_ms": {"p50": 1}}]"#), ".drives[].latency_ms: a time"),
            (with(r#""seconds": 2"#), ".seconds: a time"),
            (with(r#""chains": {"a": {"p50_us": 1}}"#), ".chains.a.p50_us: a time"),
            (with(r#""p50_ns_max": 1"#), ".p50_ns_max: the unit"),
            (with(r#""all_ns": {"p50": 1.0}"#), ".all_ns.p50: 1.0 is not a whole"),
            (with(r#""took_ns": "7 ms""#), ".took_ns: \"7 ms\" is not a time"),
        ] {
            let found = parse(text.as_bytes()).unwrap_err();
            assert!(found.contains(expected) && !found.contains(';'), "{text}: {found}");
        }
    }
}

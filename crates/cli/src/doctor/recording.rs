//! Tier at which `keeptime run` records here, found by recording a program that does nothing.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde_json::Value;

use super::{Check, State};

/// Records `true`, and reads what came of it.
pub(super) fn recording() -> Check {
    match record() {
        Ok(said) => judge(&said),
        Err(error) => missing(format!("{error:#}")),
    }
}

/// The object that `keeptime run --json` writes.
fn record() -> anyhow::Result<Value> {
    let folder = tempfile::tempdir()?;
    let program = std::env::current_exe().context("this program's own file")?;
    let output = Command::new(program)
        .args(["run", "--json", "--memory", "1MiB", "--record"])
        .arg(folder.path().join("doctor.kt"))
        .args(["--", "true"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let Some(start) = said.find('{') else {
        bail!("{}", said.trim().trim_start_matches("keeptime: "))
    };
    serde_json::from_str(&said[start..]).with_context(|| said.trim().to_owned())
}

fn judge(said: &Value) -> Check {
    if let Some(reason) = said["unloaded"].as_str() {
        return missing(reason.to_owned());
    }
    let tier = said["trace"]["tier"].as_str().unwrap_or("none");
    let reasons = said["trace"]["tier_reasons"].as_array().into_iter().flatten();
    let reasons: Vec<&str> = reasons.filter_map(Value::as_str).collect();
    let (state, means) = match tier {
        "scheduler" => (
            State::Ok,
            "keeptime run records the thread that ran instead of another, and the one \
             that woke it.",
        ),
        "switches" => (
            State::Limited,
            "keeptime run records when a thread was off its processor, but not what ran instead.",
        ),
        _ => (
            State::Limited,
            "keeptime run records calls and locks, and not when a thread was off its processor.",
        ),
    };
    Check {
        name: "recording",
        state,
        found: format!("tier {tier}"),
        means: means.into(),
        grant: (state != State::Ok).then(|| reasons.join("; ")),
    }
}

fn missing(found: String) -> Check {
    Check {
        name: "recording",
        state: State::Missing,
        found,
        means: "keeptime run cannot record a program.".into(),
        grant: Some(
            "install a release of keeptime, which has the preload library inside, or set \
             KEEPTIME_PRELOAD to the library"
                .into(),
        ),
    }
}

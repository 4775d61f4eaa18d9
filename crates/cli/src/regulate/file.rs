//! The settings of a regulator as a file: one mapping, whose keys are the options.
//!
//! ```yaml
//! cores: [1, 2, 3]
//! period: 1ms
//! count: time
//! budget: 12.5%
//! ```

use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use clap::ValueEnum;
use saphyr_parser::{Event, Parser};

use super::settings::{Amount, Count, Options, parse_amount, parse_attention, parse_managed};

const KEYS: [&str; 16] = [
    "cores",
    "period",
    "budget",
    "count",
    "event",
    "fair",
    "rho",
    "manage",
    "socket",
    "ceiling",
    "priority",
    "linger",
    "attention",
    "look",
    "user",
    "group",
];

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// A key with its values; one that is no list has one.
struct Entry {
    line: usize,
    key: String,
    values: Vec<String>,
}

/// Fills in what the options leave open.
pub fn fill(options: &mut Options, file: &Path) -> anyhow::Result<()> {
    let name = file.display();
    let text = system::file::text(file, MAX_BYTES).with_context(|| name.to_string())?;
    let mut seen = HashSet::new();
    for entry in parse(&text).with_context(|| name.to_string())? {
        let place = format!("{name}:{}: {}", entry.line, entry.key);
        if !seen.insert(entry.key.clone()) {
            bail!("{place}: found twice, expected once");
        }
        apply(options, &entry).map_err(|why| anyhow!("{place}: {why}"))?;
    }
    Ok(())
}

/// Returns the text of a file.
pub fn text(cores: &[usize], period: std::time::Duration, count: Count, amount: Amount) -> String {
    let count = count.to_possible_value().map_or_else(String::new, |value| value.get_name().into());
    let period = humantime::format_duration(period).to_string().replace(' ', "");
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = write!(text, "cores: {cores:?}\nperiod: {period}\ncount: {count}\nbudget: {amount}\n");
    text
}

fn apply(options: &mut Options, entry: &Entry) -> Result<(), String> {
    let one = || match &entry.values[..] {
        [value] => Ok(value.as_str()),
        values => Err(format!("found a list of {}, expected one value", values.len())),
    };
    fn number<T: std::str::FromStr>(value: &str) -> Result<T, String> {
        value.parse().map_err(|_| format!("found {value:?}, expected a number"))
    }
    let found = |value: &str, why: String| format!("found {value:?}, {why}");
    let time = || {
        let value = one()?;
        terminal::time(value).map_err(|why| found(value, why))
    };
    match entry.key.as_str() {
        "cores" => {
            let cores = entry.values.iter().map(|value| number(value)).collect::<Result<_, _>>()?;
            options.cores.get_or_insert(cores);
        }
        "period" => drop(options.period.get_or_insert(time()?)),
        "linger" => drop(options.linger.get_or_insert(time()?)),
        "look" => drop(options.look.get_or_insert(time()?)),
        "attention" => {
            let attention =
                parse_attention(one()?).map_err(|why| found(one().unwrap_or(""), why))?;
            options.attention.get_or_insert(attention);
        }
        "budget" => {
            let amount = parse_amount(one()?).map_err(|why| found(one().unwrap_or(""), why))?;
            options.budget.get_or_insert(amount);
        }
        "count" => {
            let count = Count::from_str(one()?, false).map_err(|_| {
                found(one().unwrap_or(""), "expected hardware, software, time or auto".into())
            })?;
            options.count.get_or_insert(count);
        }
        "event" => drop(options.event.get_or_insert(one()?.into())),
        "fair" => {
            let value = one()?;
            let fair = value.parse().map_err(|why: String| found(value, why))?;
            options.fair.get_or_insert(fair);
        }
        "rho" => drop(options.rho.get_or_insert(number(one()?)?)),
        "manage" if options.manage.is_empty() => {
            let managed = |value: &String| parse_managed(value).map_err(|why| found(value, why));
            options.manage = entry.values.iter().map(managed).collect::<Result<_, _>>()?;
        }
        "user" if options.user.is_empty() => options.user = entry.values.clone(),
        "group" if options.group.is_empty() => options.group = entry.values.clone(),
        "socket" => drop(options.socket.get_or_insert(one()?.into())),
        "ceiling" => drop(options.ceiling.get_or_insert(number(one()?)?)),
        "priority" => drop(options.priority.get_or_insert(number(one()?)?)),
        "manage" | "user" | "group" => {}
        _ => return Err(format!("unknown key, expected one of {}", KEYS.join(", "))),
    }
    Ok(())
}

/// The mapping, whose values are scalars or lists of scalars.
fn parse(text: &str) -> anyhow::Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let (mut depth, mut in_list, mut wants_key) = (0, false, true);
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| anyhow!("{error}"))?;
        let line = span.start.line();
        let shape = || anyhow!("line {line}: expected `key: value` or `key: [value, value]`");
        match event {
            Event::MappingStart(..) if depth == 0 => depth = 1,
            Event::SequenceStart(..) if depth == 1 && !in_list && !wants_key => in_list = true,
            Event::SequenceEnd if in_list => (in_list, wants_key) = (false, true),
            Event::Scalar(value, ..) if depth == 0 && value.is_empty() => {}
            Event::Scalar(value, ..) if depth == 1 && wants_key => {
                entries.push(Entry { line, key: value.into_owned(), values: Vec::new() });
                wants_key = false;
            }
            Event::Scalar(value, ..) if depth == 1 => {
                entries.last_mut().ok_or_else(shape)?.values.push(value.into_owned());
                wants_key = !in_list;
            }
            Event::MappingEnd => depth = 2,
            Event::StreamStart
            | Event::StreamEnd
            | Event::DocumentStart(..)
            | Event::DocumentEnd => {}
            _ => return Err(shape()),
        }
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(text: &str, options: Options) -> anyhow::Result<Options> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        let mut options = options;
        fill(&mut options, file.path())?;
        Ok(options)
    }

    #[test]
    fn file_that_was_written_reads_back_and_options_come_first() {
        let period = std::time::Duration::from_micros(500);
        let written = text(&[1, 3], period, Count::Time, Amount::Share(0.03125));
        let options = filled(&written, Options::default()).unwrap();
        assert_eq!(options.cores.as_deref(), Some(&[1, 3][..]));
        assert_eq!(options.period, Some(period));
        assert_eq!(
            (options.count, options.budget),
            (Some(Count::Time), Some(Amount::Share(0.03125)))
        );
        let given = Options { budget: Some(Amount::Events(7)), ..Options::default() };
        assert_eq!(filled(&written, given).unwrap().budget, Some(Amount::Events(7)));
    }

    #[test]
    fn errors_name_line_key_and_value() {
        for (text, expected) in [
            ("period: 1ms\nperiodic: 2\n", ":2: periodic: unknown key"),
            ("budget: 120%\n", ":1: budget: found \"120%\", expected a share"),
            ("cores: [1, x]\n", ":1: cores: found \"x\", expected a number"),
            ("count: hard\n", ":1: count: found \"hard\", expected hardware"),
            ("fair: scx\n", ":1: fair: found \"scx\", expected auto, bpf, user, none"),
            ("attention: ear\n", ":1: attention: found \"ear\", expected bell or look"),
            ("fair: [1, 2]\n", ":1: fair: found a list of 2"),
            ("fair: 1\nfair: 2\n", ":2: fair: found twice"),
            ("cores: {a: 1}\n", "line 1: expected `key: value`"),
            ("[1, 2]\n", "line 1: expected `key: value`"),
        ] {
            let error = filled(text, Options::default()).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(filled("", Options::default()).is_ok());
    }
}

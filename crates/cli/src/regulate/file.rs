//! The settings of a regulator as a file: one mapping, whose keys are the options.
//!
//! ```yaml
//! cores: [1, 2, 3]
//! period: 1ms
//! count: time
//! budget: 12.5%
//! ```

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use bandwidth::regulator::{Attention, Managed};
use clap::ValueEnum;
use serde::Deserializer;

use super::fair::Fair;
use super::settings::{Amount, Count, Options, parse_amount, parse_attention, parse_managed};

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 20;

/// Fills in what the options leave open.
pub(super) fn fill(options: &mut Options, file: &Path) -> anyhow::Result<()> {
    let file: Options = files::Tree::open(file, MAX_BYTES)?.read()?;
    let given = std::mem::take(options);
    *options = Options {
        cores: given.cores.or(file.cores),
        period: given.period.or(file.period),
        budget: given.budget.or(file.budget),
        count: given.count.or(file.count),
        event: given.event.or(file.event),
        fair: given.fair.or(file.fair),
        rho: given.rho.or(file.rho),
        manage: either(given.manage, file.manage),
        socket: given.socket.or(file.socket),
        ceiling: given.ceiling.or(file.ceiling),
        priority: given.priority.or(file.priority),
        linger: given.linger.or(file.linger),
        attention: given.attention.or(file.attention),
        look: given.look.or(file.look),
        user: either(given.user, file.user),
        group: either(given.group, file.group),
        config: given.config,
    };
    Ok(())
}

fn either<T>(given: Vec<T>, other: Vec<T>) -> Vec<T> {
    if given.is_empty() { other } else { given }
}

/// Returns the text of a file.
pub(super) fn text(cores: &[usize], period: Duration, count: Count, amount: Amount) -> String {
    let count = count.to_possible_value().map_or_else(String::new, |value| value.get_name().into());
    let period = humantime::format_duration(period).to_string().replace(' ', "");
    let mut text = String::new();
    // Writing into a string does not fail.
    let _ = write!(text, "cores: {cores:?}\nperiod: {period}\ncount: {count}\nbudget: {amount}\n");
    text
}

type Parse<T> = fn(&str) -> Result<T, String>;

/// Expectation of an option, as its message says it.
fn expected<T>(parse: Parse<T>) -> String {
    let refusal = parse("").err().unwrap_or_default();
    refusal.rsplit("expected ").next().unwrap_or_default().to_owned()
}

/// Reads a value as the option of the same name does.
fn option<'de, D: Deserializer<'de>, T>(from: D, parse: Parse<T>) -> Result<Option<T>, D::Error> {
    files::checked(from, expected(parse), |text| parse(text).ok().map(Some))
}

pub(super) fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    option(from, terminal::time)
}

pub(super) fn budget<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Amount>, D::Error> {
    option(from, parse_amount)
}

pub(super) fn fair<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Fair>, D::Error> {
    option(from, str::parse)
}

pub(super) fn attention<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Attention>, D::Error> {
    option(from, parse_attention)
}

pub(super) fn managed<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Managed>, D::Error> {
    files::checked_texts(from, &expected(parse_managed), |text| parse_managed(text).ok())
}

pub(super) fn cores<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Vec<usize>>, D::Error> {
    files::checked_texts(from, "the number of a core", |text| text.parse().ok()).map(Some)
}

pub(super) fn names<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    files::checked_texts(from, "a name", |text| Some(text.to_owned()))
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
            ("period: 1ms\nperiodic: 2\n", ":2:1: periodic: unknown key"),
            ("budget: 120%\n", ":1:9: budget: found \"120%\", expected a share"),
            ("cores: [1, x]\n", ":1:12: cores[1]: found \"x\", expected the number of a core"),
            ("count: hard\n", ":1:8: count: found \"hard\", expected hardware"),
            ("fair: scx\n", ":1:7: fair: found \"scx\", expected auto, bpf, user, none"),
            ("attention: ear\n", ":1:12: attention: found \"ear\", expected bell or look"),
            ("fair: [1, 2]\n", ":1:7: fair: found [\"1\", \"2\"], expected auto, bpf"),
            ("fair: 1\nfair: 2\n", ":2:1: duplicate key \"fair\"; first on line 1"),
            ("cores: {a: 1}\n", ":1:8: cores: found a mapping, expected a list"),
            (
                "[1, 2]\n",
                ":1:1: the file: found [\"1\", \"2\"], expected a mapping with the keys cores",
            ),
        ] {
            let error = filled(text, Options::default()).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.contains(expected), "{text}: {error}");
        }
        assert!(filled("", Options::default()).is_ok());
    }
}

//! Values that all chains share, or that some chains have for themselves: `random`, or
//! `brake=3ms,map=0ms`.

use anyhow::{Context, bail};
use system::System;

/// Reads a value for each chain. A text that begins with the name of a chain and `=` is a list, in
/// which the chains that are not named have `default`; everything else is one value for all.
///
/// Names may contain any character, also the ones that separate, so they are recognised as wholes.
pub(super) fn parse<T: Clone>(
    option: &str,
    text: &str,
    system: &System,
    default: &T,
    read: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> anyhow::Result<Vec<T>> {
    if let Some(value) = read(text) {
        return Ok(vec![value; system.chains.len()]);
    }
    let wrong = |found: &str| {
        let chains = crate::analyze::known_chains(system);
        format!("{option}: found {found:?}, expected {expected}, with CHAIN {chains}")
    };
    let mut values: Vec<Option<T>> = vec![None; system.chains.len()];
    let mut rest = text;
    loop {
        let (chain, after) = named(rest, system).with_context(|| wrong(rest))?;
        let (value, tail) = after.split_at(after.find(',').unwrap_or(after.len()));
        if values[chain].is_some() {
            let id = &system.chains[chain].id;
            bail!("{option}: found {id} twice, expected every chain once");
        }
        values[chain] = Some(read(value).with_context(|| wrong(value))?);
        match tail.strip_prefix(',') {
            Some(tail) => rest = tail,
            None => break,
        }
    }
    Ok(values.into_iter().map(|value| value.unwrap_or_else(|| default.clone())).collect())
}

/// The chain that the text begins with, the longest name that fits, and what follows its `=`.
fn named<'t>(text: &'t str, system: &System) -> Option<(usize, &'t str)> {
    let fits = |(index, chain): (usize, &system::Chain)| {
        let after = text.strip_prefix(chain.id.as_str())?.strip_prefix('=')?;
        Some((index, after))
    };
    system.chains.iter().enumerate().filter_map(fits).min_by_key(|(_, after)| after.len())
}

/// The value that all chains share, or a list of those that differ from `default`; none where
/// every chain has the default.
pub(super) fn write<T: PartialEq>(
    values: &[T],
    system: &System,
    default: &T,
    write: impl Fn(&T) -> String,
) -> Option<String> {
    let first = values.first()?;
    if values.iter().all(|value| value == first) {
        return (first != default).then(|| write(first));
    }
    let differing = values.iter().zip(&system.chains).filter(|(value, _)| *value != default);
    let list: Vec<String> =
        differing.map(|(value, chain)| format!("{}={}", chain.id, write(value))).collect();
    Some(list.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system(ids: &[&str]) -> System {
        let mut text = "executors: [{id: e, core: 0, priority: 1}]\nchains:\n".to_owned();
        for (priority, id) in ids.iter().enumerate() {
            text += &format!(
                "- {{id: '{id}', priority: {priority}, period: 9 us, callbacks: [{{id: a, executor: e, cpu: 1 us}}]}}\n"
            );
        }
        System::parse(&text, "test.yaml").unwrap()
    }

    fn numbers(text: &str, ids: &[&str]) -> Result<Vec<u32>, String> {
        let read = |text: &str| text.parse().ok();
        parse("--n", text, &system(ids), &7, read, "a number or CHAIN=NUMBER,...")
            .map_err(|error| error.to_string())
    }

    #[test]
    fn one_value_is_for_all_and_a_list_for_those_it_names() {
        assert_eq!(numbers("3", &["a", "b"]), Ok(vec![3, 3]));
        assert_eq!(numbers("b=3", &["a", "b"]), Ok(vec![7, 3]));
        assert_eq!(numbers("b=3,a=0", &["a", "b"]), Ok(vec![0, 3]));
    }

    #[test]
    fn names_may_contain_what_separates() {
        assert_eq!(numbers("a,b=1,a=2,a=b=3", &["a", "a,b", "a=b"]), Ok(vec![2, 1, 3]));
    }

    #[test]
    fn mistakes_are_quoted() {
        let ids = ["a", "b"];
        for (text, found) in
            [("x", "\"x\""), ("c=1", "\"c=1\""), ("a=x", "\"x\""), ("a=1,", "\"\"")]
        {
            let error = numbers(text, &ids).unwrap_err();
            assert!(
                error.starts_with(&format!("--n: found {found}, expected a number")),
                "{error}"
            );
        }
        assert_eq!(
            numbers("a=1,a=2", &ids).unwrap_err(),
            "--n: found a twice, expected every chain once"
        );
    }

    #[test]
    fn what_is_written_is_read_again() {
        let ids = ["a,b", "a", "c"];
        let system = system(&ids);
        for values in [vec![1, 2, 3], vec![7, 7, 5], vec![4, 4, 4]] {
            let text = write(&values, &system, &7, u32::to_string).unwrap();
            assert_eq!(numbers(&text, &ids), Ok(values), "{text}");
        }
        assert_eq!(write(&[7, 7, 7], &system, &7, u32::to_string), None);
    }
}

//! Part of a study that one run makes, so that several machines can make the whole.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The largest number of shards.
const MAX_SHARDS: u64 = 1_000_000;
/// Longest value that [`difference`] shows, in characters.
const SHOWN: usize = 120;
/// The most missing shards that an error names.
const NAMED: usize = 100;

/// Part of a study: unit k belongs to shard `index` if k mod `of` is `index` - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// 1 to `of`.
    pub index: u64,
    /// Number of shards.
    pub of: u64,
}

impl Shard {
    /// The only shard.
    pub const WHOLE: Shard = Shard { index: 1, of: 1 };

    /// Its unit with this place, counted from 0.
    pub fn unit(self, place: u64) -> u64 {
        self.index - 1 + place * self.of
    }

    /// Returns the number of units that belong to it.
    pub fn count(self, units: u64) -> u64 {
        (units + self.of - self.index) / self.of
    }

    /// Numbers of its units, ascending.
    pub fn units(self, units: u64) -> impl Iterator<Item = u64> {
        (0..self.count(units)).map(move |place| self.unit(place))
    }

    /// Its units of all.
    pub fn take<T>(self, all: Vec<T>) -> Vec<T> {
        let mut units = self.units(all.len() as u64).peekable();
        let all = (0..).zip(all);
        all.filter_map(|(place, unit)| units.next_if_eq(&place).map(|_| unit)).collect()
    }

    /// Returns true if the numbers are those of a shard; a manifest could say anything.
    pub fn is_possible(self) -> bool {
        (1..=self.of).contains(&self.index) && self.of <= MAX_SHARDS
    }
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let shard = text.split_once('/').and_then(|(index, of)| {
            Some(Shard { index: index.parse().ok()?, of: of.parse().ok()? })
        });
        let shard = shard.filter(|shard| shard.is_possible());
        shard.ok_or_else(|| "expected I/N with I from 1 to N, as in 2/8".into())
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

/// Returns the first key whose values differ in two studies, in words: what was found there, and
/// what was expected.
///
/// # Errors
/// They are no JSON.
pub fn difference<S: Serialize>(found: &S, expected: &S) -> serde_json::Result<Option<String>> {
    let (found, expected) = (serde_json::to_value(found)?, serde_json::to_value(expected)?);
    let shown = |value: &serde_json::Value| {
        let text = value.to_string();
        match text.char_indices().nth(SHOWN) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    };
    let mut keys = found.as_object().into_iter().flat_map(|object| object.keys());
    let key = keys.find(|key| found[*key] != expected[*key]);
    Ok(key.map(|key| {
        format!("{key}: found {}, expected {}", shown(&found[key]), shown(&expected[key]))
    }))
}

/// Checks that folders have the shards of one study, each once.
///
/// # Errors
/// The folder that does not fit, and why.
pub fn complete<'a, S: Serialize>(
    folders: &[(&'a Path, &S, Shard)],
) -> Result<(), (&'a Path, String)> {
    let Some(&(first, study, Shard { of, .. })) = folders.first() else { return Ok(()) };
    let mut found: BTreeMap<u64, &Path> = BTreeMap::new();
    for &(folder, other, shard) in folders {
        let wrong = |problem: String| Err((folder, problem));
        let difference = difference(other, study).map_err(|error| (folder, error.to_string()))?;
        if let Some(difference) = difference {
            let first = first.display();
            return wrong(format!("{difference} as in {first}: these are shards of two studies"));
        }
        if shard.of != of {
            let first = first.display();
            return wrong(format!("found shard {shard}, expected a shard of {of} as in {first}"));
        }
        if let Some(other) = found.insert(shard.index, folder) {
            let other = other.display();
            return wrong(format!(
                "found shard {shard}, expected each shard once: {other} has it too"
            ));
        }
    }
    let missing = (1..=of).filter(|index| !found.contains_key(index));
    let missing: Vec<String> = missing.map(|index| format!("{index}/{of}")).take(NAMED).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let (count, missing) = (found.len(), missing.join(", "));
    let expected = format!("expected every shard of the study: missing {missing}");
    Err((first, format!("found {count} of {of} shards, {expected}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_belongs_to_one_shard() {
        let mut units: Vec<u64> =
            (1..=3).flat_map(|index| Shard { index, of: 3 }.units(10)).collect();
        assert_eq!(units, [0, 3, 6, 9, 1, 4, 7, 2, 5, 8]);
        units.sort_unstable();
        assert_eq!(units, (0..10).collect::<Vec<u64>>());
        assert_eq!(Shard { index: 2, of: 3 }.take(vec!['a', 'b', 'c', 'd', 'e']), ['b', 'e']);
        assert_eq!(Shard::WHOLE.count(4), 4);
        assert_eq!([1, 2, 3, 4].map(|index| Shard { index, of: 4 }.count(2)), [1, 1, 0, 0]);
    }

    #[test]
    fn shards_out_of_range_are_refused() {
        assert_eq!("2/3".parse(), Ok(Shard { index: 2, of: 3 }));
        for wrong in ["0/3", "4/3", "1/0", "1", "a/b", "1/2/3", "1/18446744073709551615"] {
            assert!(wrong.parse::<Shard>().unwrap_err().contains("as in 2/8"), "{wrong}");
        }
    }

    #[test]
    fn difference_of_two_studies_names_the_key_and_cuts_long_values() {
        let study = |seed: u32, name: &str| {
            BTreeMap::from([("a", seed.to_string()), ("b", name.to_owned())])
        };
        assert_eq!(difference(&study(1, "x"), &study(1, "x")).unwrap(), None);
        let other = difference(&study(1, "x"), &study(2, "y")).unwrap();
        assert_eq!(other.as_deref(), Some("a: found \"1\", expected \"2\""));
        let long = difference(&study(1, &"x".repeat(200)), &study(1, "x")).unwrap().unwrap();
        assert!(long.len() < 160 && long.ends_with("..., expected \"x\""), "{long}");
    }

    #[test]
    fn shards_of_one_study_are_complete_when_each_is_there_once() {
        let [one, two] = ["one", "two"].map(|name| BTreeMap::from([("seed", name)]));
        let check = |shards: &[(&BTreeMap<&str, &str>, &'static str)]| {
            let shards = shards.iter().map(|&(study, shard)| {
                let folder = Path::new(shard);
                (folder, study, shard.parse().unwrap())
            });
            let why = complete(&shards.collect::<Vec<_>>());
            why.map_err(|(folder, why)| format!("{}: {why}", folder.display()))
        };
        assert_eq!(check(&[(&one, "2/2"), (&one, "1/2")]), Ok(()));
        for (shards, expected) in [
            (
                [(&one, "1/2"), (&two, "2/2")],
                "2/2: seed: found \"two\", expected \"one\" as in 1/2",
            ),
            (
                [(&one, "1/2"), (&one, "2/3")],
                "2/3: found shard 2/3, expected a shard of 2 as in 1/2",
            ),
            ([(&one, "1/2"), (&one, "1/2")], "1/2: found shard 1/2, expected each shard once"),
            ([(&one, "1/3"), (&one, "3/3")], "1/3: found 2 of 3 shards, expected every shard"),
        ] {
            let why = check(&shards).unwrap_err();
            assert!(why.starts_with(expected), "{why}");
        }
    }
}

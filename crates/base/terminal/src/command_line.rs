//! Commands as they would be typed, for results that say how to get them again.

use std::path::Path;

/// The command of this process, without the folder of its program.
pub fn this_command() -> String {
    let mut words = std::env::args();
    let program = words.next().unwrap_or_default();
    let name = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    quoted(name.into_iter().chain(words))
}

/// Words with quotes where a shell needs them.
pub fn quoted(words: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_alphanumeric() || "-_=.,:/+@%".contains(c);
    let quoted = words.map(|word| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    });
    quoted.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_cut_them() {
        let words = ["keeptime", "two words", "", "it's", "a=1,b.c:/+@%"].map(str::to_owned);
        assert_eq!(quoted(words.into_iter()), r"keeptime 'two words' '' 'it'\''s' a=1,b.c:/+@%");
    }
}

//! Values of options that are more than a number.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The largest number of a list.
const MAX_NUMBER: u32 = 1000;

/// A list of whole numbers, ascending, each once: `1-12`, `10-70/10` or `1,2,4-8/2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Numbers(pub Vec<u32>);

impl FromStr for Numbers {
    type Err = String;

    fn from_str(text: &str) -> Result<Numbers, String> {
        let mut numbers = BTreeSet::new();
        for piece in text.split(',') {
            let range = range(piece).ok_or_else(|| {
                format!("found {piece:?}, expected a list as in 1-12, 10-70/10 or 1,2,4")
            })?;
            if range.1 > MAX_NUMBER {
                return Err(format!("found {}, expected at most {MAX_NUMBER}", range.1));
            }
            numbers.extend((range.0..=range.1).step_by(range.2));
        }
        Ok(Numbers(numbers.into_iter().collect()))
    }
}

/// First, last and step of `5`, `1-12` or `10-70/10`.
fn range(text: &str) -> Option<(u32, u32, usize)> {
    let (ends, step) = text.split_once('/').unwrap_or((text, "1"));
    let (first, last) = ends.split_once('-').unwrap_or((ends, ends));
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let (first, last, step) = (number(first)?, number(last)?, number(step)?);
    (first <= last && step > 0).then_some((first, last, step as usize))
}

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let numbers: Vec<String> = self.0.iter().map(u32::to_string).collect();
        f.write_str(&numbers.join(","))
    }
}

/// Least and greatest of something: `2-5` or `3`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Range(pub usize, pub usize);

impl FromStr for Range {
    type Err = String;

    fn from_str(text: &str) -> Result<Range, String> {
        match range(text) {
            Some((first, last, 1)) => Ok(Range(first as usize, last as usize)),
            _ => Err("expected a range as in 2-5, or a number".into()),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_ascending_and_have_no_doubles() {
        let numbers = |text: &str| text.parse::<Numbers>().map(|numbers| numbers.0);
        assert_eq!(numbers("1-4"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(numbers("10-70/20"), Ok(vec![10, 30, 50, 70]));
        assert_eq!(numbers("5,1,2-6/2,5"), Ok(vec![1, 2, 4, 5, 6]));
        for wrong in ["", "1,", "4-1", "1-4/0", "-3", "a", "1.5"] {
            assert!(numbers(wrong).unwrap_err().contains("expected a list"), "{wrong}");
        }
        assert!(numbers("1-4000000000").unwrap_err().contains("at most 1000"));
        assert_eq!("1-3".parse::<Numbers>().unwrap().to_string(), "1,2,3");
        assert_eq!("2-5".parse(), Ok(Range(2, 5)));
        assert_eq!("3".parse(), Ok(Range(3, 3)));
        assert!("1-9/2".parse::<Range>().is_err());
    }
}

// Added for Keeptime: vendor/README.md says why.
use std::collections::BTreeMap;

use crate::structure::sequence_number::SequenceNumber;

/// A set of sequence numbers, kept as ranges. Its memory and the time of each
/// operation follow the number of ranges, not the numbers in them: a HEARTBEAT
/// or a GAP may span any number of sequence numbers, and says so in a few bytes.
///
/// Ranges do not overlap and do not touch: those that would are merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SequenceRanges {
  // First number of a range -> first number after it.
  ranges: BTreeMap<SequenceNumber, SequenceNumber>,
}

impl SequenceRanges {
  pub fn new() -> Self {
    Self::default()
  }

  pub fn is_empty(&self) -> bool {
    self.ranges.is_empty()
  }

  /// Number of ranges, which is what memory follows.
  pub fn range_count(&self) -> usize {
    self.ranges.len()
  }

  /// First range as (first number, first number after it).
  pub fn first_range(&self) -> Option<(SequenceNumber, SequenceNumber)> {
    self.ranges.first_key_value().map(|(b, e)| (*b, *e))
  }

  pub fn contains(&self, sn: SequenceNumber) -> bool {
    self.first_absent_from(sn) != sn
  }

  pub fn insert(&mut self, sn: SequenceNumber) {
    self.insert_range(sn, sn.plus_1());
  }

  /// Inserts all numbers from `begin` up to but not including `end`.
  pub fn insert_range(&mut self, mut begin: SequenceNumber, mut end: SequenceNumber) {
    if begin >= end {
      return;
    }
    // Take in each range that overlaps or touches. Each one that is removed here
    // was inserted once, so the total work stays linear in the calls.
    while let Some((&b, &e)) = self.ranges.range(..=end).next_back() {
      if e < begin {
        break;
      }
      begin = begin.min(b);
      end = end.max(e);
      self.ranges.remove(&b);
    }
    self.ranges.insert(begin, end);
  }

  pub fn remove_before(&mut self, before: SequenceNumber) {
    while let Some((b, e)) = self.first_range() {
      if b >= before {
        break;
      }
      self.ranges.remove(&b);
      if e > before {
        self.ranges.insert(before, e);
      }
    }
  }

  /// Removes and returns the first range.
  pub fn pop_first_range(&mut self) -> Option<(SequenceNumber, SequenceNumber)> {
    self.ranges.pop_first()
  }

  /// The least number that is not in the set and not less than `sn`.
  pub fn first_absent_from(&self, sn: SequenceNumber) -> SequenceNumber {
    match self.ranges.range(..=sn).next_back() {
      Some((_, &e)) if e > sn => e,
      _ => sn,
    }
  }

  /// Numbers of the set from `first` up to but not including `before`, which the
  /// caller keeps close together.
  pub fn iter_within(
    &self,
    first: SequenceNumber,
    before: SequenceNumber,
  ) -> impl Iterator<Item = SequenceNumber> + '_ {
    let from = self
      .ranges
      .range(..=first)
      .next_back()
      .map_or(first, |(b, _)| *b);
    self
      .ranges
      .range(from..)
      .take_while(move |(b, _)| **b < before)
      .flat_map(move |(b, e)| {
        let (begin, end) = ((*b).max(first), (*e).min(before));
        std::iter::successors(Some(begin), |sn| Some(sn.plus_1())).take_while(move |sn| *sn < end)
      })
  }
}

#[cfg(test)]
mod tests {
  use std::collections::BTreeSet;

  use super::*;

  fn sn(n: i64) -> SequenceNumber {
    SequenceNumber::new(n)
  }

  #[test]
  fn range_of_2_to_the_40_is_one_range() {
    let mut r = SequenceRanges::new();
    r.insert_range(sn(5), sn(1 << 40));
    assert_eq!(r.range_count(), 1);
    assert_eq!(r.first_absent_from(sn(5)), sn(1 << 40));
    assert_eq!(r.first_absent_from(sn(4)), sn(4));
    r.remove_before(sn(1 << 39));
    assert_eq!(r.first_range(), Some((sn(1 << 39), sn(1 << 40))));
  }

  // Compares with a plain set, over all pairs of operations of a small generator.
  #[test]
  fn ranges_are_the_set_of_their_numbers() {
    let mut seed = 1u64;
    let mut next = |limit: u64| {
      seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
      ((seed >> 33) % limit) as i64
    };
    let mut ranges = SequenceRanges::new();
    let mut plain = BTreeSet::new();
    for step in 0..5_000 {
      let (a, len) = (next(200) + 1, next(12));
      match step % 5 {
        0 => {
          ranges.remove_before(sn(a / 4));
          plain = plain.split_off(&sn(a / 4));
        }
        1 => {
          ranges.insert(sn(a));
          plain.insert(sn(a));
        }
        _ => {
          ranges.insert_range(sn(a), sn(a + len));
          plain.extend((a..a + len).map(sn));
        }
      }
      assert_eq!(ranges.iter_within(sn(0), sn(300)).collect::<BTreeSet<_>>(), plain);
      let within = ranges.iter_within(sn(a), sn(a + 20)).collect::<Vec<_>>();
      assert_eq!(within, plain.range(sn(a)..sn(a + 20)).copied().collect::<Vec<_>>());
      assert_eq!(ranges.contains(sn(a)), plain.contains(&sn(a)));
      let mut absent = a;
      while plain.contains(&sn(absent)) {
        absent += 1;
      }
      assert_eq!(ranges.first_absent_from(sn(a)), sn(absent));
    }
  }
}

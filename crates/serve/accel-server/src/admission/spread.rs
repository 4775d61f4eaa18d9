//! Spreads: the bucket of each chain priority.
//!
//! A *spread* maps the chain priorities in use on one accelerator to buckets, and never falls as
//! the priority rises. There are two ways to make one:
//!
//! - *even*: all priorities anew, evenly over the buckets, as the system file describes.
//! - *kept*: every chain stays where it is; a newcomer goes between its neighbours.
//!
//! The even one is preferred. It moves chains together and apart when others come and go, and
//! that can cost a chain its promise: also when a client leaves, which cannot be refused. In a
//! kept spread a chain that leaves takes its load with it and changes nothing else.

use std::collections::BTreeMap;

/// Chain priority to bucket, on one accelerator.
pub(crate) type Spread = BTreeMap<u32, u32>;

/// The priorities on one accelerator, with the buckets that the configuration gives them.
pub(super) type Members = BTreeMap<u32, Option<u32>>;

/// All priorities evenly over the buckets.
pub(super) fn even(members: &Members, buckets: u32) -> Spread {
    let explicit: Vec<Option<u32>> = members.values().rev().copied().collect();
    let spread = system::spread_buckets(&explicit, buckets);
    members.keys().rev().copied().zip(spread).collect()
}

/// Every chain where it is, newcomers between their neighbours; None where the configuration wants
/// a newcomer elsewhere.
pub(super) fn kept(current: &Spread, members: &Members, buckets: u32) -> Option<Spread> {
    let mut spread: Spread = current.clone();
    spread.retain(|priority, _| members.contains_key(priority));
    for (&priority, &explicit) in members {
        if spread.contains_key(&priority) {
            continue;
        }
        let below = spread.range(..priority).next_back().map(|(_, &bucket)| bucket);
        let above = spread.range(priority..).next().map(|(_, &bucket)| bucket);
        let bucket = explicit.unwrap_or_else(|| between(below, above, buckets));
        let fits = below.is_none_or(|below| below <= bucket)
            && above.is_none_or(|above| bucket <= above)
            && bucket < buckets;
        if !fits {
            return None;
        }
        spread.insert(priority, bucket);
    }
    Some(spread)
}

/// A bucket of its own where there is one, else that of the neighbour below, else above.
fn between(below: Option<u32>, above: Option<u32>, buckets: u32) -> u32 {
    // Counted from 1, so that 0 is below all buckets.
    let low = below.map_or(0, |bucket| bucket + 1);
    let high = above.map_or(buckets + 1, |bucket| bucket + 1);
    if high > low + 1 {
        return low.midpoint(high) - 1;
    }
    below.or(above).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members(priorities: &[u32]) -> Members {
        priorities.iter().map(|&priority| (priority, None)).collect()
    }

    fn buckets(spread: &Spread) -> Vec<u32> {
        spread.values().rev().copied().collect()
    }

    #[test]
    fn even_spread_is_that_of_the_system_file() {
        assert_eq!(buckets(&even(&members(&[9, 5, 1]), 6)), [5, 3, 1]);
        let mut some = members(&[9, 5, 1]);
        some.insert(5, Some(0));
        assert_eq!(buckets(&even(&some, 6)), [5, 0, 0]);
        assert!(even(&members(&[]), 6).is_empty());
    }

    #[test]
    fn even_spread_can_bring_two_together_when_a_third_leaves() {
        let before = even(&members(&[4, 3, 2, 1]), 2);
        let after = even(&members(&[4, 2, 1]), 2);
        assert_eq!((before[&4], before[&2]), (1, 0));
        assert_eq!((after[&4], after[&2]), (1, 1));
        let kept = kept(&before, &members(&[4, 2, 1]), 2).unwrap();
        assert_eq!((kept[&4], kept[&2]), (1, 0));
    }

    #[test]
    fn newcomer_in_a_kept_spread_goes_between_its_neighbours() {
        let current = Spread::from([(9, 5), (5, 3)]);
        let insert = |priority: u32| {
            let spread = kept(&current, &members(&[9, 5, priority]), 6).unwrap();
            assert_eq!((spread[&9], spread[&5]), (5, 3), "somebody moved");
            spread[&priority]
        };
        assert_eq!(insert(7), 4, "a bucket of its own");
        assert_eq!(insert(1), 1, "below all others, half-way");
        assert_eq!(insert(10), 5, "no bucket above: that of the neighbour below");
        let crowded = Spread::from([(9, 1), (5, 0)]);
        assert_eq!(kept(&crowded, &members(&[9, 5, 7]), 2).unwrap()[&7], 0);
        assert_eq!(kept(&crowded, &members(&[9, 5, 1]), 2).unwrap()[&1], 0);
        assert_eq!(buckets(&kept(&Spread::new(), &members(&[7]), 4).unwrap()), [1]);
        let mut wants = members(&[9, 5]);
        wants.insert(1, Some(4));
        assert_eq!(kept(&current, &wants, 6), None, "above its neighbour");
    }
}

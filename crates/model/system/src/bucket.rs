//! Bucket of each chain's requests.
//!
//! Explicit buckets win: a chain's own, or the one that its priority has on an accelerator which
//! says from which on each bucket is. The other chains are spread evenly over the buckets by their
//! rank among the chains that use the accelerator, then held between their explicit neighbours, so
//! that the map never falls as priority rises.

use crate::{Accelerator, Chain, System};
use std::collections::BTreeMap;

/// The buckets of `chains` chains in descending priority: rank `i` (0 is the most critical) of
/// `n` chains in `B` buckets gets `B - 1 - floor(i * B / n)`. The larger bucket is served first.
pub fn rank_even_buckets(chains: usize, buckets: u32) -> Vec<u32> {
    let spread = |rank: usize| {
        let below = rank as u128 * u128::from(buckets) / chains as u128;
        buckets.saturating_sub(1).saturating_sub(u32::try_from(below).unwrap_or(u32::MAX))
    };
    (0..chains).map(spread).collect()
}

/// The buckets of chains in descending priority, some of which have an explicit one: explicit
/// buckets win, the others are [`rank_even_buckets`], held between their explicit neighbours.
pub fn spread_buckets(explicit: &[Option<u32>], buckets: u32) -> Vec<u32> {
    let mut ceiling = buckets.saturating_sub(1);
    let even = rank_even_buckets(explicit.len(), buckets);
    let mut spread = Vec::with_capacity(even.len());
    for (rank, even) in even.into_iter().enumerate() {
        let floor = explicit[rank..].iter().flatten().max().copied().unwrap_or(0);
        spread.push(explicit[rank].unwrap_or_else(|| even.min(ceiling).max(floor)));
        ceiling = explicit[rank].unwrap_or(ceiling);
    }
    spread
}

impl Accelerator {
    /// The bucket that chains of this priority have, if the accelerator says so.
    pub fn bucket_of(&self, priority: u32) -> Option<u32> {
        let below = self.bucket_from.partition_point(|from| *from <= priority);
        u32::try_from(below.checked_sub(1)?).ok()
    }

    /// The bucket that a chain of the file has here, if the file says it.
    pub fn explicit_bucket(&self, chain: &Chain) -> Option<u32> {
        chain.bucket.get(&self.id).copied().or_else(|| self.bucket_of(chain.priority))
    }
}

impl System {
    /// The bucket of every chain that uses `accelerator`; empty where there is no such
    /// accelerator.
    pub fn bucket_map(&self, accelerator: &str) -> BTreeMap<String, u32> {
        let Some(accelerator) = self.accelerator(accelerator) else {
            return BTreeMap::new();
        };
        let mut chains = self.chains_by_priority();
        chains.retain(|chain| chain.uses(&accelerator.id));
        let explicit: Vec<Option<u32>> =
            chains.iter().map(|chain| accelerator.explicit_bucket(chain)).collect();
        let spread = spread_buckets(&explicit, accelerator.buckets);
        chains.iter().zip(spread).map(|(chain, bucket)| (chain.id.clone(), bucket)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_spread_evenly_over_the_buckets() {
        assert_eq!(rank_even_buckets(6, 6), [5, 4, 3, 2, 1, 0]);
        assert_eq!(rank_even_buckets(8, 6), [5, 5, 4, 3, 2, 2, 1, 0]);
        assert_eq!(rank_even_buckets(2, 6), [5, 2]);
        assert_eq!(rank_even_buckets(3, 1), [0, 0, 0]);
        assert_eq!(rank_even_buckets(0, 6), Vec::<u32>::new());
    }

    fn buckets(explicit: &[Option<u32>]) -> Vec<u32> {
        let mut text = String::from(
            "accelerators: [{id: gpu0, buckets: 6}]\nexecutors: [{id: e, core: 0, priority: 1}]\nchains:\n",
        );
        for (rank, bucket) in explicit.iter().enumerate() {
            let bucket =
                bucket.map_or(String::new(), |bucket| format!("bucket: {{gpu0: {bucket}}}, "));
            let priority = explicit.len() - rank;
            text += &format!(
                "- {{id: c{rank}, priority: {priority}, period: 1 s, {bucket}callbacks: [{{id: a, executor: e, segments: [{{accel: gpu0, exec: 1 us}}]}}]}}\n"
            );
        }
        let system = System::parse(&text, "buckets.yaml").unwrap();
        let map = system.bucket_map("gpu0");
        (0..explicit.len()).map(|rank| map[&format!("c{rank}")]).collect()
    }

    #[test]
    fn priorities_say_the_bucket_where_the_accelerator_says_from_which_on_each_is() {
        let text = "
accelerators: [{id: gpu0, buckets: 3, bucket_from: [0, 10, 50]}]
executors: [{id: e, core: 0, priority: 1}]
chains:
- {id: low, priority: 9, period: 1 s, callbacks: [{id: a, executor: e, segments: [{accel: gpu0, exec: 1 us}]}]}
- {id: middle, priority: 10, period: 1 s, callbacks: [{id: a, executor: e, segments: [{accel: gpu0, exec: 1 us}]}]}
- {id: high, priority: 50, period: 1 s, callbacks: [{id: a, executor: e, segments: [{accel: gpu0, exec: 1 us}]}]}
- {id: higher, priority: 60, period: 1 s, callbacks: [{id: a, executor: e, segments: [{accel: gpu0, exec: 1 us}]}]}
";
        let map = System::parse(text, "buckets.yaml").unwrap().bucket_map("gpu0");
        let buckets = ["low", "middle", "high", "higher"].map(|chain| map[chain]);
        assert_eq!(buckets, [0, 1, 2, 2]);
    }

    #[test]
    fn explicit_buckets_win_and_hold_their_neighbours() {
        assert_eq!(buckets(&[None, None, None]), [5, 3, 1]);
        assert_eq!(buckets(&[Some(2), None, None]), [2, 2, 1]);
        assert_eq!(buckets(&[None, None, Some(4)]), [5, 4, 4]);
        assert_eq!(buckets(&[None, Some(5), None]), [5, 5, 1]);
        assert_eq!(buckets(&[Some(0), None, Some(0)]), [0, 0, 0]);
    }

    #[test]
    fn an_unknown_accelerator_has_no_buckets() {
        let system = System::parse("", "empty.yaml").unwrap();
        assert!(system.bucket_map("gpu0").is_empty());
    }
}

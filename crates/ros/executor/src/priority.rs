//! Priorities of callbacks from the criticality of their chains.
//!
//! Criticality as priority (PiCAS, taken over by PAAM in section II-B): any callback of a more
//! critical chain is above any of a less critical one, and inside a chain a later callback is
//! above an earlier one.

/// The priorities of the callbacks of some chains, from 1. A chain is given by its criticality
/// (larger is more critical) and its number of callbacks; of two chains of equal criticality the
/// one that stands first is the more critical one.
///
/// ```
/// assert_eq!(executor::priorities(&[(1, 2), (7, 3)]), [vec![1, 2], vec![3, 4, 5]]);
/// ```
pub fn priorities(chains: &[(u32, usize)]) -> Vec<Vec<u32>> {
    let mut order: Vec<usize> = (0..chains.len()).collect();
    order.sort_by_key(|&chain| (chains[chain].0, std::cmp::Reverse(chain)));
    let mut priorities = vec![Vec::new(); chains.len()];
    let mut next = 1..;
    for chain in order {
        priorities[chain] = next.by_ref().take(chains[chain].1).collect();
    }
    priorities
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_of_the_picas_case_study_get_its_priorities() {
        // Chains 3 to 12 of the case study that was published with PiCAS, in descending order of
        // criticality, and the priorities of their callbacks there.
        let published: [&[u32]; 10] = [
            &[22, 23, 24, 25],
            &[19, 20, 21],
            &[15, 16, 17, 18],
            &[13, 14],
            &[11, 12],
            &[9, 10],
            &[7, 8],
            &[5, 6],
            &[3, 4],
            &[1, 2],
        ];
        let by_criticality: Vec<(u32, usize)> =
            (0..).zip(published).map(|(rank, callbacks)| (12 - rank, callbacks.len())).collect();
        assert_eq!(priorities(&by_criticality), published);
        let equal: Vec<(u32, usize)> =
            by_criticality.iter().map(|(_, count)| (5, *count)).collect();
        assert_eq!(priorities(&equal), published);
    }
}

//! The buckets of a log-linear histogram.

/// Division of all 64-bit numbers into buckets: each power of two has `2^BITS` of them, so that a
/// number is less than `2^-BITS` of itself below the upper edge of its bucket. Numbers below
/// `2^(BITS + 1)` have a bucket each.
#[derive(Clone, Copy, Debug)]
pub struct Layout<const BITS: u32>;

impl<const BITS: u32> Layout<BITS> {
    /// Buckets of one power of two.
    pub const PER_POWER: usize = 1 << BITS;
    /// All buckets.
    pub const BUCKETS: usize = (65 - BITS as usize) * Self::PER_POWER;

    /// The bucket of a number.
    #[inline(always)]
    pub const fn bucket(value: u64) -> usize {
        if value < Self::PER_POWER as u64 {
            return value as usize;
        }
        let power = value.ilog2();
        let within = (value >> (power - BITS)) as usize & (Self::PER_POWER - 1);
        (power - BITS + 1) as usize * Self::PER_POWER + within
    }

    /// The greatest number of a bucket.
    pub const fn upper(bucket: usize) -> u64 {
        if bucket < 2 * Self::PER_POWER {
            return bucket as u64;
        }
        let shift = bucket / Self::PER_POWER - 1;
        let next = (Self::PER_POWER + bucket % Self::PER_POWER + 1) as u128;
        // The last bucket ends with the greatest number there is.
        ((next << shift) - 1) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn each_number_is_in_the_bucket_whose_edges_hold_it<const BITS: u32>() {
        let numbers = (0..300).chain((6..64).flat_map(|power| {
            let one = 1u64 << power;
            [one - 1, one, one + 1, one + one / 3]
        }));
        for number in numbers.chain([u64::MAX]) {
            let at = Layout::<BITS>::bucket(number);
            let upper = Layout::<BITS>::upper(at);
            assert!(number <= upper && upper - number <= number >> BITS, "{number}: {upper}");
            assert!(at == 0 || number > Layout::<BITS>::upper(at - 1), "{number}");
        }
        assert_eq!(Layout::<BITS>::bucket(u64::MAX), Layout::<BITS>::BUCKETS - 1);
        assert_eq!(Layout::<BITS>::upper(Layout::<BITS>::BUCKETS - 1), u64::MAX);
    }

    #[test]
    fn edges_hold_the_numbers_of_their_bucket() {
        each_number_is_in_the_bucket_whose_edges_hold_it::<3>();
        each_number_is_in_the_bucket_whose_edges_hold_it::<4>();
        each_number_is_in_the_bucket_whose_edges_hold_it::<5>();
        each_number_is_in_the_bucket_whose_edges_hold_it::<6>();
    }
}

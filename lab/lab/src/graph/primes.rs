//! The work of the nodes of the Autoware reference system: prime numbers by trial division.

/// Counts the prime numbers up to `limit`, dividing each number by all up to its square root.
pub(super) fn primes(limit: u64) -> u64 {
    let prime = |number: u64| {
        let mut divisors = (2..).take_while(|divisor| divisor * divisor <= number);
        divisors.all(|divisor| !number.is_multiple_of(divisor))
    };
    // Whatever becomes of the count, the compiler must not know.
    std::hint::black_box((2..=std::hint::black_box(limit)).filter(|number| prime(*number)).count())
        as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prime_numbers_are_as_many_as_there_are() {
        assert_eq!([1, 2, 3, 4, 10, 100, 65_536].map(primes), [0, 1, 2, 2, 4, 25, 6542]);
    }
}

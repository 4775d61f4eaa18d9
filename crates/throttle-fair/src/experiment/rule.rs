//! What throttle-fair scheduling does to two tasks of equal weight, by its own arithmetic.
//!
//! Of a period T, the memory-bound task runs f T and is stopped for the rest; the compute-bound one
//! runs all of it. Equation 2 adds to their virtual run times f T + rho (1 - f) T and T. Both grow
//! equally in the long run, so the periods are shared in inverse proportion. (Without the rule, rho
//! is 0: the memory-bound task has 1 / (1 + f) of the periods.)

/// The share of the periods that the memory-bound task gets.
pub fn memory_share(fraction: f64, rho: f64) -> f64 {
    1.0 / (1.0 + fraction + rho * (1.0 - fraction))
}

/// By how much of itself the stopped time shrinks against the default scheduler.
pub fn reduction(fraction: f64, rho: f64) -> f64 {
    1.0 - memory_share(fraction, rho) / memory_share(fraction, 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-9
    }

    #[test]
    fn third_of_a_period_gives_the_shares_of_document_001() {
        assert!(near(memory_share(1.0 / 3.0, 0.0), 0.75));
        assert!(near(memory_share(1.0 / 3.0, 1.0), 0.5));
        assert!(near(memory_share(1.0 / 3.0, 3.0), 0.3));
    }

    #[test]
    fn reductions_of_document_001_take_a_stop_before_a_quarter_of_the_period() {
        assert!(near(reduction(1.0 / 3.0, 1.0), 1.0 / 3.0));
        assert!(near(reduction(1.0 / 3.0, 3.0), 0.6));
        assert!(reduction(0.22, 1.0) >= 0.39 && reduction(0.22, 3.0) >= 0.62);
        assert!(reduction(0.23, 1.0) < 0.39);
    }

    #[test]
    fn task_that_is_never_stopped_is_not_punished() {
        assert!(near(memory_share(1.0, 3.0), 0.5) && near(reduction(1.0, 3.0), 0.0));
    }
}

//! Quantiles of the recent past: the newest values, exactly.

use std::collections::VecDeque;

/// Number of values that are kept.
const VALUES: usize = 256;

/// The newest values, with when they were seen. One that is older than the window's memory no longer
/// counts: a module whose normal path was not taken for long is not judged by what it once took.
pub(crate) struct Window {
    forget_ns: u64,
    newest: VecDeque<(u64, i64)>,
    sorted: Vec<i64>,
    /// The last answer that was not `None`.
    last: Option<i64>,
}

impl Window {
    pub(crate) fn new(forget_ns: u64) -> Self {
        Window { forget_ns, newest: VecDeque::new(), sorted: Vec::new(), last: None }
    }

    pub(crate) fn add(&mut self, now_ns: u64, value: i64) {
        if self.newest.len() == VALUES {
            self.drop_oldest();
        }
        self.newest.push_back((now_ns, value));
        let place = self.sorted.partition_point(|&other| other < value);
        self.sorted.insert(place, value);
    }

    /// The smallest value that a share of `quantile` of all does not exceed; `None` without values.
    pub(crate) fn quantile(&mut self, now_ns: u64, quantile: f64) -> Option<i64> {
        let forget_ns = self.forget_ns;
        let is_old = |&(seen_ns, _): &(u64, _)| seen_ns.saturating_add(forget_ns) < now_ns;
        while self.newest.front().is_some_and(is_old) {
            self.drop_oldest();
        }
        let rank = (quantile * self.sorted.len() as f64).ceil().max(1.0) as usize;
        let value = self.sorted.get(rank - 1).copied();
        self.last = value.or(self.last);
        value
    }

    /// The same; once all values are forgotten, what it was last.
    pub(crate) fn quantile_or_last(&mut self, now_ns: u64, quantile: f64) -> Option<i64> {
        self.quantile(now_ns, quantile).or(self.last)
    }

    fn drop_oldest(&mut self) {
        if let Some((_, value)) = self.newest.pop_front() {
            let place = self.sorted.partition_point(|&other| other < value);
            self.sorted.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut window = Window::new(u64::MAX);
        assert_eq!(window.quantile(0, 0.99), None);
        for value in (1..=200).rev() {
            window.add(0, value);
        }
        assert_eq!(window.quantile(0, 0.99), Some(198));
        assert_eq!(window.quantile(0, 0.5), Some(100));
        assert_eq!(window.quantile(0, 0.0), Some(1));
        assert_eq!(window.quantile(0, 1.0), Some(200));
    }

    #[test]
    fn oldest_values_make_room_and_are_forgotten_with_time() {
        let mut window = Window::new(10);
        window.add(0, 1_000);
        for value in 0..VALUES as i64 {
            window.add(5, value);
        }
        assert_eq!(window.quantile(5, 1.0), Some(VALUES as i64 - 1));
        window.add(14, 7);
        assert_eq!(window.quantile(15, 1.0), Some(VALUES as i64 - 1));
        assert_eq!(window.quantile(16, 1.0), Some(7));
        assert_eq!(window.quantile(25, 1.0), None);
        assert_eq!(window.quantile_or_last(25, 1.0), Some(7));
    }
}

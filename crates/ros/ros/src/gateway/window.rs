//! Execution at most once: the numbers that have been seen, and their answers.
//!
//! A request has a number that its client counts up. The window keeps the largest numbers that it
//! has seen, with their answers, and once it is full nothing below them is executed any more:
//!
//! ```text
//!   too old      kept                       new
//! -----------|[5]--[6]--[8]--[9]------------------------>  number
//!              the same answer again        7, 10, 11 ...
//! ```
//!
//! A number is executed only when it is not kept, and above the smallest kept one if there is no
//! more room. From then on it is kept; when room is needed, the smallest one goes. A window that was
//! full stays full, so that what went is below the smallest for ever. Whatever is repeated, late or
//! out of order, no number is executed twice, and memory is bounded.

use std::collections::BTreeMap;

/// Next step for a request, by its number.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<'a, A> {
    /// Execute it, then [`Window::keep`] its answer.
    New,
    /// The request is being executed.
    Pending,
    /// Answer this again.
    Kept(&'a A),
    /// Refuse it.
    TooOld,
}

/// The numbers of one client, or of one registration.
#[derive(Debug)]
pub struct Window<A> {
    capacity: usize,
    seen: BTreeMap<u64, Option<A>>,
}

impl<A> Window<A> {
    /// A window of `capacity` numbers, at least one. The first number is 1.
    pub fn new(capacity: usize) -> Window<A> {
        Window { capacity: capacity.max(1), seen: BTreeMap::new() }
    }

    /// Decides about a number. From the first [`Verdict::New`] on it counts as seen.
    pub fn ask(&mut self, number: u64) -> Verdict<'_, A> {
        if number == 0 {
            return Verdict::TooOld;
        }
        if !self.seen.contains_key(&number) {
            if self.seen.len() == self.capacity {
                let smallest = self.seen.first_key_value().map_or(0, |(&smallest, _)| smallest);
                if number < smallest {
                    return Verdict::TooOld;
                }
                self.seen.pop_first();
            }
            self.seen.insert(number, None);
            return Verdict::New;
        }
        match &self.seen[&number] {
            Some(answer) => Verdict::Kept(answer),
            None => Verdict::Pending,
        }
    }

    /// Keeps the answer of a number, as long as there is room.
    pub fn keep(&mut self, number: u64, answer: A) {
        if let Some(kept) = self.seen.get_mut(&number) {
            *kept = Some(answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_numbers_get_the_first_answer() {
        let mut window = Window::new(4);
        assert_eq!(window.ask(1), Verdict::New);
        assert_eq!(window.ask(1), Verdict::Pending);
        window.keep(1, "one");
        assert_eq!(window.ask(1), Verdict::Kept(&"one"));
        assert_eq!(window.ask(0), Verdict::TooOld);
    }

    #[test]
    fn numbers_may_come_out_of_order_within_the_window() {
        let mut window = Window::new(3);
        for number in [5, 3, 4] {
            assert_eq!(window.ask(number), Verdict::New);
            window.keep(number, number);
        }
        assert_eq!(window.ask(2), Verdict::TooOld, "it would be executed and forgotten at once");
        assert_eq!(window.ask(9), Verdict::New);
        assert_eq!(window.ask(3), Verdict::TooOld);
        assert_eq!(window.ask(4), Verdict::Kept(&4));
    }

    /// Every order of arrival, with repetitions: nothing is executed twice, and no answer is that
    /// of another number.
    #[test]
    fn no_number_is_ever_executed_twice() {
        let mut state = 1u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for capacity in 1..6 {
            let mut executed = BTreeMap::new();
            let mut window = Window::new(capacity);
            for step in 0..20_000u64 {
                let number = 1 + step / 20 + random(8);
                match window.ask(number) {
                    Verdict::New => {
                        *executed.entry(number).or_insert(0) += 1;
                        if random(4) > 0 {
                            window.keep(number, number);
                        }
                    }
                    Verdict::Kept(&answer) => assert_eq!(answer, number),
                    Verdict::Pending | Verdict::TooOld => {}
                }
                assert!(window.seen.len() <= capacity);
            }
            assert!(executed.len() > 500);
            assert!(executed.values().all(|&times| times == 1));
        }
    }
}

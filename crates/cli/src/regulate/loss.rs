//! Losses, in which cores were not regulated although the lock was held: logged when they happen,
//! and at the end.

use ::log::Level;
use bandwidth::regulator::{Loss, Statistics};

use crate::log::Lines;

/// Losses that have been reported so far.
#[derive(Default)]
pub(super) struct Losses {
    said: Vec<(&'static str, u64)>,
}

impl Losses {
    /// Says what is new.
    pub(super) fn tell(&mut self, statistics: &Statistics, log: &Lines) {
        let losses = statistics.losses();
        let now: Vec<_> = losses.iter().map(event).collect();
        for (loss, event) in losses.iter().zip(&now) {
            if !self.said.contains(event) {
                log.say(Level::Warn, &loss.to_string());
            }
        }
        self.said = now;
    }
}

/// Returns the part of a loss that is news: not that it goes on.
fn event(loss: &Loss) -> (&'static str, u64) {
    match loss {
        Loss::Priority { core, demotions, is_ordinary, .. } => {
            ("priority", (*core as u64) << 40 | demotions << 1 | u64::from(*is_ordinary))
        }
        Loss::Count { core, .. } => ("count", *core as u64),
        Loss::Suspension { suspensions, .. } => ("suspension", *suspensions),
    }
}

/// Losses and hindrances for the totals.
pub(super) fn text(statistics: &Statistics) -> String {
    let lost = statistics.losses().into_iter().map(|loss| format!("not regulated: {loss}\n"));
    let hindered = statistics.hindrances().into_iter().map(|hindrance| hindrance + "\n");
    lost.chain(hindered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loss_that_goes_on_is_no_news_and_another_one_is() {
        let loss = |missed, demotions, is_ordinary| {
            event(&Loss::Priority { core: 1, demotions, missed, is_ordinary })
        };
        assert_eq!(loss(10, 1, true), loss(20, 1, true));
        assert_ne!(loss(20, 1, true), loss(20, 1, false));
        assert_ne!(loss(20, 1, true), loss(20, 2, true));
        let other = Loss::Priority { core: 2, demotions: 1, missed: 10, is_ordinary: true };
        assert_ne!(loss(10, 1, true), event(&other));
    }
}

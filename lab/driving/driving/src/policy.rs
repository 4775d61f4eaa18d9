//! Policies: ways to run the same stack, by name. The mechanisms of COLA and those that are added
//! to them, each on its own and together; rivals that spend their time by something else; and a
//! stack that takes no time.

use crate::stack::{Deadlines, Features, Held, Order};
use dataflow::Costs;
use std::fmt;
use std::str::FromStr;

/// Way in which a stack is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// No mechanism of COLA.
    Base,
    /// COLA's fast path alone (section 4.1).
    Fast,
    /// COLA's proactive processing alone (section 4.2).
    Proactive,
    /// COLA's work stealing alone (section 4.3).
    Stealing,
    /// Only a brake that is pressed once a reaction is due, until there is a plan for the
    /// frame: the fast path's last step, which is not COLA's.
    Reflex,
    /// COLA's three mechanisms and no more: each object has a deadline, each frame 125 ms.
    Cola,
    /// All four mechanisms.
    All,
    /// [`Policy::All`] with another deadline for each frame, ms; none: the objects' alone.
    Within(Option<u32>),
    /// [`Policy::All`] with a deadline of 125 ms for each frame, whatever is in it.
    StaticDeadline,
    /// [`Policy::All`] with a deadline of a frame that depends on the ego's speed alone: 400 ms,
    /// less 10 ms for each m/s above 10 (Pylot).
    SpeedDeadline,
    /// Prediction and planning refine a short result until a fixed budget is spent (the anytime
    /// tasks of Copper).
    Anytime,
    /// [`Policy::Base`] and an emergency brake that does not wait for planning.
    Brake,
    /// [`Policy::Base`] on cores that take no time: what no policy can be better than.
    Oracle,
}

impl Policy {
    /// Policies with a name of their own; beside them there is `all-MS` and `all-none`.
    pub const NAMED: [(Policy, &'static str); 12] = [
        (Policy::Base, "base"),
        (Policy::Fast, "fast"),
        (Policy::Proactive, "proactive"),
        (Policy::Stealing, "stealing"),
        (Policy::Reflex, "reflex"),
        (Policy::Cola, "cola"),
        (Policy::All, "all"),
        (Policy::StaticDeadline, "static-deadline"),
        (Policy::SpeedDeadline, "speed-deadline"),
        (Policy::Anytime, "anytime"),
        (Policy::Brake, "brake"),
        (Policy::Oracle, "oracle"),
    ];

    /// The rivals of [`Policy::All`].
    pub const RIVALS: [Policy; 4] =
        [Policy::StaticDeadline, Policy::SpeedDeadline, Policy::Anytime, Policy::Brake];

    /// Features of a stack that are switched on.
    pub fn features(self) -> Features {
        let (base, all) = (Features::base, Features::all);
        match self {
            Policy::Base | Policy::Oracle => base(),
            Policy::Fast => Features { fast_path: true, ..base() },
            Policy::Proactive => Features { proactive: true, ..base() },
            Policy::Stealing => Features { stealing: true, ..base() },
            Policy::Reflex => Features { emergency_brake: Some(Held::UntilPlanned), ..base() },
            Policy::Cola => Features { emergency_brake: None, ..all() },
            Policy::All => all(),
            Policy::Within(ms) => Features { deadline: ms.map(|ms| f64::from(ms) / 1e3), ..all() },
            // The order of the objects does not depend on their deadlines.
            Policy::StaticDeadline => {
                let object_deadlines = Deadlines::None;
                let (order, emergency_brake) = (Order::Distance, None);
                Features { object_deadlines, order, emergency_brake, ..all() }
            }
            Policy::SpeedDeadline => Features {
                deadline: None,
                object_deadlines: Deadlines::EgoSpeed,
                order: Order::Distance,
                emergency_brake: None,
                ..all()
            },
            Policy::Anytime => Features { budget: Some(BUDGET), ..base() },
            Policy::Brake => Features { emergency_brake: Some(Held::UntilSafe), ..base() },
        }
    }

    /// Costs of its modules on cores that are `factor` times slower than this machine's.
    pub fn costs(self, factor: f64) -> Costs {
        match self {
            Policy::Oracle => Costs::fixed(Vec::new()),
            _ => Costs::Measured { factor },
        }
    }
}

/// The budget of an anytime task, s: what of 125 ms is left after perception, for each of two.
const BUDGET: f64 = 0.040;

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Policy::Within(Some(ms)) => write!(f, "all-{ms}"),
            Policy::Within(None) => f.write_str("all-none"),
            named => {
                let entry = Policy::NAMED.iter().find(|(policy, _)| policy == named);
                f.write_str(entry.map_or("", |(_, name)| name))
            }
        }
    }
}

impl FromStr for Policy {
    type Err = String;

    fn from_str(text: &str) -> Result<Policy, String> {
        if let Some((policy, _)) = Policy::NAMED.iter().find(|(_, name)| *name == text) {
            return Ok(*policy);
        }
        let ms = text.strip_prefix("all-").and_then(|ms| match ms {
            "none" => Some(None),
            ms => ms.parse().ok().filter(|ms| (1..=10_000).contains(ms)).map(Some),
        });
        ms.map(Policy::Within).ok_or_else(|| {
            let names = Policy::NAMED.map(|(_, name)| name).join(", ");
            format!("expected {names}, all-MS (MS from 1 to 10000) or all-none")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_its_name_and_differs_from_all_others() {
        let own = Policy::NAMED.map(|(policy, _)| policy);
        let within = [Policy::Within(Some(75)), Policy::Within(None)];
        for policy in own.into_iter().chain(within) {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        let features = own.map(Policy::features);
        for (index, one) in features.iter().enumerate() {
            let same = features.iter().filter(|other| *other == one).count();
            let twice = matches!(own[index], Policy::Base | Policy::Oracle);
            assert_eq!(same, 1 + usize::from(twice), "{}", own[index]);
        }
        for wrong in ["", "all-", "all-0", "all-x", "al"] {
            assert!(wrong.parse::<Policy>().unwrap_err().contains("all-none"), "{wrong}");
        }
    }
}

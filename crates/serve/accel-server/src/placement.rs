//! Placement of a registration whose client leaves the choice to the server.
//!
//! The server chooses among the accelerators of the same kind as the first one that offers the
//! service: one that has the chain already, since the requests of a chain come one after the other
//! and gain nothing from being spread; else the one with the least declared share of its time; else
//! the one with the fewest registrations. It stays there: data and graphs on a GPU do not move.

use std::mem::discriminant;
use system::DeviceKind;

/// Registrations on one accelerator, as one chain sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Crowd {
    /// The declared share of its time, in millionths.
    pub share_ppm: u64,
    /// Registrations in force.
    pub registrations: usize,
    /// True if some of them belong to the chain.
    pub of_the_chain: bool,
}

/// The accelerator to choose among those that offer the service, by their numbers in the file.
pub(crate) fn choose(offering: &[usize], kinds: &[DeviceKind], crowds: &[Crowd]) -> Option<usize> {
    let first = kinds.get(*offering.first()?)?;
    let alike = |index: &&usize| {
        kinds.get(**index).is_some_and(|kind| discriminant(kind) == discriminant(first))
    };
    offering.iter().filter(alike).copied().min_by_key(|index| {
        let crowd = crowds.get(*index).copied().unwrap_or_default();
        (!crowd.of_the_chain, crowd.share_ppm, crowd.registrations)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use DeviceKind::{Cpu, Cuda};

    const KINDS: [DeviceKind; 4] = [Cuda(0), Cpu, Cuda(1), Cuda(2)];

    fn crowd(share_ppm: u64, registrations: usize, of_the_chain: bool) -> Crowd {
        Crowd { share_ppm, registrations, of_the_chain }
    }

    #[test]
    fn chain_stays_together_and_others_go_where_there_is_most_room() {
        let idle = Crowd::default();
        let all = [0, 1, 2, 3];
        let chosen = |crowds: [Crowd; 4]| choose(&all, &KINDS, &crowds);
        assert_eq!(chosen([idle; 4]), Some(0));
        assert_eq!(chosen([crowd(1, 1, false), idle, idle, idle]), Some(2));
        assert_eq!(
            chosen([crowd(0, 2, false), idle, crowd(0, 1, false), crowd(5, 1, false)]),
            Some(2)
        );
        assert_eq!(chosen([idle, idle, idle, crowd(900_000, 9, true)]), Some(3));
        assert_eq!(choose(&[2], &KINDS, &[idle; 4]), Some(2));
        assert_eq!(choose(&[], &KINDS, &[idle; 4]), None);
    }

    #[test]
    fn another_kind_of_device_is_not_chosen_because_it_is_idle() {
        let busy = crowd(999_999, 50, false);
        assert_eq!(choose(&[0, 1], &KINDS, &[busy, Crowd::default(), busy, busy]), Some(0));
    }
}

//! Files whose priorities are still to be found: what is missing is filled in before the file is
//! checked, so that everything else is checked as always.
//!
//! Chains without a priority get one in the order of the file, the first the highest; executors
//! likewise. The reader of a draft replaces them.

use crate::{Error, System};
use files::{Step, Tree};
use std::collections::HashSet;

/// Process priorities that are filled in are at most this; the server's threads are above.
const HIGHEST_PROCESS_PRIORITY: usize = 90;

/// Fills in the priorities that chains and executors of a draft lack, and refuses any other file
/// that lacks one.
pub(crate) fn complete(system: &mut System, tree: &Tree, is_draft: bool) -> Result<(), Error> {
    let executors = system.executors.iter_mut().map(|executor| &mut executor.priority);
    let highest = |_| if is_draft { HIGHEST_PROCESS_PRIORITY } else { 0 };
    fill(tree, "executors", executors.collect(), highest)?;
    let count = system.chains.len();
    let chains = system.chains.iter_mut().map(|chain| &mut chain.priority);
    fill(tree, "chains", chains.collect(), |taken| if is_draft { count + taken } else { 0 })
}

/// Fills in what a section lacks, from the highest priority downwards, which depends on how many
/// are taken.
fn fill(
    tree: &Tree,
    section: &str,
    priorities: Vec<&mut u32>,
    highest: impl Fn(usize) -> usize,
) -> Result<(), Error> {
    let given = |i: usize| tree.required_key(&[Step::Key(section), Step::Index(i)], "priority");
    let taken = priorities.iter().enumerate().filter(|(i, _)| given(*i).is_ok());
    let taken: HashSet<u32> = taken.map(|(_, priority)| **priority).collect();
    let highest = u32::try_from(highest(taken.len())).unwrap_or(u32::MAX);
    let mut free = (1..=highest).rev().filter(|value| !taken.contains(value));
    for (i, priority) in priorities.into_iter().enumerate() {
        if let Err(missing) = given(i) {
            *priority = free.next().ok_or(missing)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::{System, SystemText};

    const DRAFT: &str = "
accelerators: [{id: gpu0, buckets: 2}]
executors: [{id: e1, core: 1}, {id: e2, core: 1, priority: 90}, {id: e3, core: 2}]
chains:
- {id: a, period: 10 ms, callbacks: [{id: c, executor: e1, cpu: 1 ms}]}
- {id: b, priority: 4, period: 10 ms, callbacks: [{id: c, executor: e2, cpu: 1 ms}]}
- {id: c, priority:, period: 10 ms, callbacks: [{id: c, executor: e3, cpu: 1 ms}]}
";

    #[test]
    fn missing_priorities_are_filled_in_the_order_of_the_file() {
        assert!(System::parse(DRAFT, "draft.yaml").is_err());
        let system = SystemText::parse(DRAFT.to_owned(), "draft.yaml").unwrap().system;
        let chains: Vec<u32> = system.chains.iter().map(|chain| chain.priority).collect();
        let executors: Vec<u32> = system.executors.iter().map(|e| e.priority).collect();
        assert_eq!(chains, [3, 4, 2], "4 is taken");
        assert_eq!(executors, [89, 90, 88]);
    }

    #[test]
    fn mistakes_of_a_draft_are_refused_as_always() {
        let wrong = DRAFT.replace("priority: 4", "priority: high");
        let error = SystemText::parse(wrong, "draft.yaml").unwrap_err().to_string();
        assert!(
            error.starts_with("draft.yaml:6:") && error.contains("chains[1].priority"),
            "{error}"
        );
        assert!(SystemText::parse("chains: 3".to_owned(), "draft.yaml").is_err());
        assert!(SystemText::parse("chains: [3]".to_owned(), "draft.yaml").is_err());
    }
}

//! Files whose priorities are still to be found: what is missing is filled in before the file is
//! read, so that everything else is checked as always.
//!
//! Chains without a priority get one in the order of the file, the first the highest; executors
//! likewise. Whoever reads a draft replaces them.

use crate::tree::{Entry, Node, Value};
use std::collections::HashSet;

/// Process priorities that are filled in are at most this; the server's threads are above.
const HIGHEST_PROCESS_PRIORITY: u32 = 90;

/// Fills in the priorities that chains and executors lack. What is not the list of mappings that
/// it should be is left for the reader to refuse.
pub(crate) fn complete(tree: &mut Node) {
    let Value::Map(sections) = &mut tree.value else { return };
    for section in sections {
        let Value::List(items) = &mut section.node.value else { continue };
        let taken = items.iter().filter_map(priority).collect::<HashSet<u32>>();
        let highest = match section.key.as_str() {
            "chains" => u32::try_from(items.len() + taken.len()).unwrap_or(u32::MAX),
            "executors" => HIGHEST_PROCESS_PRIORITY,
            _ => continue,
        };
        let mut free = (1..=highest).rev().filter(|value| !taken.contains(value));
        for item in items {
            let mark = item.mark;
            let Value::Map(entries) = &mut item.value else { continue };
            if entries.iter().any(|entry| entry.key == "priority" && !entry.node.is_null()) {
                continue;
            }
            // If none is left, the reader says that one is required.
            let Some(value) = free.next() else { return };
            entries.retain(|entry| entry.key != "priority");
            let value = Value::Scalar { text: value.to_string(), plain: true };
            let node = Node { mark, value };
            entries.push(Entry { key: "priority".to_owned(), key_mark: mark, node });
        }
    }
}

/// The priority that a chain or an executor has.
fn priority(item: &Node) -> Option<u32> {
    let Value::Map(entries) = &item.value else { return None };
    let entry = entries.iter().find(|entry| entry.key == "priority")?;
    match &entry.node.value {
        Value::Scalar { text, .. } => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::System;

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
        let system = System::parse_draft(DRAFT, "draft.yaml").unwrap();
        let chains: Vec<u32> = system.chains.iter().map(|chain| chain.priority).collect();
        let executors: Vec<u32> = system.executors.iter().map(|e| e.priority).collect();
        assert_eq!(chains, [3, 4, 2], "4 is taken");
        assert_eq!(executors, [89, 90, 88]);
    }

    #[test]
    fn mistakes_of_a_draft_are_refused_as_always() {
        let wrong = DRAFT.replace("priority: 4", "priority: high");
        let error = System::parse_draft(&wrong, "draft.yaml").unwrap_err().to_string();
        assert!(
            error.starts_with("draft.yaml:6:") && error.contains("chains[1].priority"),
            "{error}"
        );
        assert!(System::parse_draft("chains: 3", "draft.yaml").is_err());
        assert!(System::parse_draft("chains: [3]", "draft.yaml").is_err());
    }
}

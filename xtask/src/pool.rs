//! Work on many things by a few threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Returns the results of `work` on the items, in their order; `threads` items are worked on at
/// once.
pub(crate) fn map<Item: Sync, Made: Send>(
    items: &[Item],
    threads: usize,
    work: impl Fn(usize, &Item) -> Made + Sync,
) -> Vec<Made> {
    let next = AtomicUsize::new(0);
    let made = Mutex::new(Vec::with_capacity(items.len()));
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                // Relaxed: only the number is shared; the items were there before the threads.
                while let Some((index, item)) = pair(items, next.fetch_add(1, Ordering::Relaxed)) {
                    let one = work(index, item);
                    made.lock().expect("no thread panics while it adds").push((index, one));
                }
            });
        }
    });
    let mut made = made.into_inner().expect("no thread panics while it adds");
    made.sort_by_key(|(index, _)| *index);
    made.into_iter().map(|(_, one)| one).collect()
}

fn pair<Item>(items: &[Item], index: usize) -> Option<(usize, &Item)> {
    items.get(index).map(|item| (index, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_item_is_worked_on_once_and_stays_in_its_place() {
        let items: Vec<usize> = (0..1000).collect();
        let made = map(&items, 7, |index, item| (index, item * 2));
        assert_eq!(made, items.iter().map(|item| (*item, item * 2)).collect::<Vec<_>>());
        assert!(map(&[] as &[usize], 3, |index, _| index).is_empty());
    }
}

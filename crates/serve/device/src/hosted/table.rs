//! Slots with keys that are never used again.
//!
//! A key is a slot number and, above it, a serial number that grows with every insertion. So a
//! key finds its slot without a search, and the key of something that is gone finds nothing.

const SLOT_BITS: u32 = 20;
const SLOTS: usize = 1 << SLOT_BITS;

pub(super) struct Table<T> {
    slots: Vec<Option<(u64, T)>>,
    free: Vec<u32>,
    serial: u64,
}

impl<T> Table<T> {
    /// The most that fit in.
    pub(super) const LIMIT: u64 = SLOTS as u64;

    pub(super) fn new() -> Table<T> {
        Table { slots: Vec::new(), free: Vec::new(), serial: 0 }
    }

    /// Puts a value in and returns its key; None if the table is full.
    pub(super) fn insert(&mut self, value: T) -> Option<u64> {
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None if self.slots.len() < SLOTS => {
                self.slots.push(None);
                self.slots.len() as u32 - 1
            }
            None => return None,
        };
        self.serial += 1;
        let key = self.serial << SLOT_BITS | u64::from(slot);
        self.slots[slot as usize] = Some((key, value));
        Some(key)
    }

    /// The slot of a key.
    pub(super) fn slot(key: u64) -> usize {
        key as usize & (SLOTS - 1)
    }

    pub(super) fn get_mut(&mut self, key: u64) -> Option<&mut T> {
        match self.slots.get_mut(Self::slot(key)) {
            Some(Some((found, value))) if *found == key => Some(value),
            _ => None,
        }
    }

    pub(super) fn remove(&mut self, key: u64) {
        if self.get_mut(key).is_some() {
            self.slots[Self::slot(key)] = None;
            self.free.push(Self::slot(key) as u32);
        }
    }

    /// All keys and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &T)> {
        self.slots.iter().flatten().map(|(key, value)| (*key, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_a_removed_value_finds_nothing_even_when_the_slot_is_used_again() {
        let mut table = Table::new();
        let first = table.insert('a').unwrap();
        table.remove(first);
        let second = table.insert('b').unwrap();
        assert_eq!(Table::<char>::slot(first), Table::<char>::slot(second));
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.get_mut(second), Some(&mut 'b'));
        table.remove(first);
        assert_eq!(table.iter().collect::<Vec<_>>(), [(second, &'b')]);
        assert_eq!(table.get_mut(u64::MAX), None);
    }
}

//! The array that a hog walks through, and how it touches a line of it.

use super::Error;
use rustix::mm::{Advice, madvise};
use serde::{Deserialize, Serialize};

/// Bytes of a cache line.
pub const LINE_BYTES: usize = 64;
/// Bytes that one page fault brings, of [`Access::Fresh`].
pub const PAGE_BYTES: usize = 4096;

/// Access of a hog to a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Access {
    /// Loads a word of it.
    Read,
    /// Stores a word of it.
    Write,
    /// Loads a word, and stores another value in its place.
    ReadWrite,
    /// Stores a word of it, in memory that the kernel gives anew each time around: traffic that any
    /// machine can count, as page faults, one for each [`PAGE_BYTES`].
    Fresh,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([u64; LINE_BYTES / 8]);

const _: () = assert!(size_of::<Line>() == LINE_BYTES);

/// Lines of memory of its own, and the place of the next one.
pub(super) struct Array {
    lines: Vec<Line>,
    at: usize,
    /// Sum of the words that were read, so that the reads have a use, and value that is written.
    word: u64,
}

impl Array {
    /// Memory of this number of bytes, all of it there.
    pub(super) fn new(bytes: usize, access: Access) -> Result<Array, Error> {
        let count = bytes / LINE_BYTES;
        let mut lines: Vec<Line> = Vec::new();
        if count == 0 || lines.try_reserve_exact(count).is_err() {
            return Err(Error::Room { bytes, least: LINE_BYTES });
        }
        let pages = match access {
            // A fault for each small page.
            Access::Fresh => Advice::LinuxNoHugepage,
            _ => Advice::LinuxHugepage,
        };
        advise(lines.spare_capacity_mut(), pages);
        lines.resize(count, Line([1; LINE_BYTES / 8]));
        Ok(Array { lines, at: 0, word: 0 })
    }

    /// Touches `count` lines from its position, in order, and from the start again after the
    /// last one.
    pub(super) fn touch(&mut self, access: Access, mut count: usize) {
        while count > 0 {
            if access == Access::Fresh && self.at == 0 {
                // Zeros come in its place, which are a line's words like any others.
                advise(&mut self.lines, Advice::LinuxDontNeed);
            }
            let end = self.lines.len().min(self.at + count);
            let lines = &mut self.lines[self.at..end];
            count -= lines.len();
            match access {
                Access::Read => self.word = read(lines, self.word),
                Access::Write | Access::Fresh => {
                    self.word = self.word.wrapping_add(1);
                    write(lines, self.word);
                }
                Access::ReadWrite => read_write(lines),
            }
            self.at = if end == self.lines.len() { 0 } else { end };
        }
    }
}

/// Gives the kernel an advice about all pages that lie completely inside of some memory.
fn advise<T>(memory: &mut [T], advice: Advice) {
    let start = memory.as_mut_ptr().addr();
    let end = start + size_of_val(memory);
    let (from, to) = (start.next_multiple_of(PAGE_BYTES), end / PAGE_BYTES * PAGE_BYTES);
    if from < to {
        let from = memory.as_mut_ptr().with_addr(from).cast();
        // SAFETY: whole pages of memory that is exclusively ours, which is not initialised yet or
        // made of lines, for which zeros are fine. Advice that the kernel does not take leaves it
        // as it was.
        let _ = unsafe { madvise(from, to - from.addr(), advice) };
    }
}

fn read(lines: &[Line], sum: u64) -> u64 {
    let word = |line: &Line| {
        // SAFETY: a reference; volatile only so that no load is left out.
        unsafe { std::ptr::from_ref(&line.0[0]).read_volatile() }
    };
    lines.iter().map(word).fold(sum, u64::wrapping_add)
}

fn write(lines: &mut [Line], value: u64) {
    for line in lines {
        // SAFETY: an exclusive reference; volatile only so that no store is left out or joined.
        unsafe { std::ptr::from_mut(&mut line.0[0]).write_volatile(value) };
    }
}

fn read_write(lines: &mut [Line]) {
    for line in lines {
        let word = std::ptr::from_mut(&mut line.0[0]);
        // SAFETY: as in `write`.
        unsafe { word.write_volatile(word.read_volatile().wrapping_add(1)) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(array: &Array) -> Vec<u64> {
        array.lines.iter().map(|line| line.0[0]).collect()
    }

    #[test]
    fn lines_are_touched_in_order_and_from_the_start_again() {
        let mut array = Array::new(3 * LINE_BYTES, Access::ReadWrite).unwrap();
        array.touch(Access::ReadWrite, 2);
        assert_eq!(words(&array), [2, 2, 1]);
        array.touch(Access::ReadWrite, 5);
        assert_eq!((words(&array), array.at), (vec![4, 3, 3], 1));
    }

    #[test]
    fn writes_are_written_and_reads_are_read() {
        let mut array = Array::new(4 * LINE_BYTES + 63, Access::Write).unwrap();
        array.touch(Access::Read, 6);
        assert_eq!((array.word, words(&array)), (6, vec![1; 4]));
        array.touch(Access::Write, 4);
        assert_eq!(words(&array), [8, 8, 7, 7]);
        assert!(array.lines.iter().all(|line| line.0[1..] == [1; 7]), "one word of a line");
    }

    #[test]
    fn fresh_memory_is_a_fault_a_page_each_time_around() {
        let faults = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            // Behind the name, which may hold blanks: the eighth field.
            let fields = stat.rsplit_once(')').unwrap().1;
            fields.split_whitespace().nth(7).unwrap().parse::<i64>().unwrap()
        };
        let pages = 64;
        let mut array = Array::new(pages * PAGE_BYTES, Access::Fresh).unwrap();
        let lines = array.lines.len();
        array.touch(Access::Fresh, lines);
        assert!(words(&array).iter().all(|word| *word == array.word));
        let before = faults();
        array.touch(Access::Fresh, 10 * lines);
        // The first and the last page may be others' too.
        assert!(faults() - before >= 10 * (pages as i64 - 2), "{}", faults() - before);
    }

    #[test]
    fn array_without_a_line_and_one_without_room_are_refused() {
        for bytes in [0, 63, usize::MAX] {
            assert!(matches!(Array::new(bytes, Access::Read), Err(Error::Room { .. })), "{bytes}");
        }
    }
}

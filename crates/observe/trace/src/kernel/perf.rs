//! Records of `perf_event_open`, as they lie in the ring that the kernel shares.
//!
//! ```text
//!   +------+------+------+----------------- ... ----------------+
//!   | type | misc | size | body           | pid tid time cpu 0 |   little endian
//!   | u32  | u16  | u16  |                | u32 u32 u64 u32 u32|
//!   +------+------+------+----------------- ... ----------------+
//!   size counts everything; the last 24 bytes are the thread that ran, and when and where
//! ```
//!
//! Pure: it believes none of the bytes. Called by `ring` and by a fuzz target.

use perf_event_open_sys::bindings as abi;

const HEADER_BYTES: usize = 8;
const TRAILER_BYTES: usize = 24;
const KIND_LOST: u32 = abi::PERF_RECORD_LOST;
const KIND_NAME: u32 = abi::PERF_RECORD_COMM;
const KIND_EXIT: u32 = abi::PERF_RECORD_EXIT;
const KIND_FORK: u32 = abi::PERF_RECORD_FORK;
const KIND_SWITCH: u32 = abi::PERF_RECORD_SWITCH;

/// A thread and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    /// Process id.
    pub process: u32,
    /// Thread id.
    pub thread: u32,
}

/// Content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// The thread came to the processor.
    On,
    /// The thread left the processor.
    Off {
        /// True if the thread could have run on.
        preempted: bool,
    },
    /// This number of records is missing before this one.
    Lost(u64),
    /// A thread has a new name.
    Named(Id, &'a [u8]),
    /// A thread was made by another one.
    Forked {
        /// The new thread.
        child: Id,
        /// The thread that made it.
        parent: Id,
    },
    /// A thread ends.
    Exited(Id),
    /// Nothing that is used.
    Other,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PerfRecord<'a> {
    /// The thread that ran.
    pub thread: Id,
    /// Nanoseconds of the event's clock.
    pub time_ns: u64,
    /// Content of the record.
    pub what: What<'a>,
}

/// The first record of some bytes and how many bytes it has; `None` when they hold no whole one.
pub fn parse_record(bytes: &[u8]) -> Option<(PerfRecord<'_>, usize)> {
    let kind = u32_at(bytes, 0)?;
    let misc = u32::from(u16_at(bytes, 4)?);
    let size = usize::from(u16_at(bytes, 6)?);
    let record = bytes.get(..size)?;
    let end = size.checked_sub(TRAILER_BYTES).filter(|end| *end >= HEADER_BYTES)?;
    let (body, trailer) = (&record[HEADER_BYTES..end], &record[end..]);
    let thread = id(trailer, 0, 4)?;
    let time_ns = u64_at(trailer, 8)?;
    let what = match kind {
        KIND_SWITCH if misc & abi::PERF_RECORD_MISC_SWITCH_OUT == 0 => What::On,
        KIND_SWITCH => {
            What::Off { preempted: misc & abi::PERF_RECORD_MISC_SWITCH_OUT_PREEMPT != 0 }
        }
        KIND_LOST => What::Lost(u64_at(body, 8)?),
        KIND_NAME => What::Named(id(body, 0, 4)?, body.get(8..)?.split(|byte| *byte == 0).next()?),
        KIND_FORK => What::Forked { child: id(body, 0, 8)?, parent: id(body, 4, 12)? },
        KIND_EXIT => What::Exited(id(body, 0, 8)?),
        _ => What::Other,
    };
    Some((PerfRecord { thread, time_ns, what }, size))
}

fn id(bytes: &[u8], process: usize, thread: usize) -> Option<Id> {
    Some(Id { process: u32_at(bytes, process)?, thread: u32_at(bytes, thread)? })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, misc: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend((misc as u16).to_le_bytes());
        bytes.extend(((8 + body.len() + 24) as u16).to_le_bytes());
        bytes.extend(body);
        [7_u32, 8].iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.extend(1234_u64.to_le_bytes());
        bytes.extend(3_u64.to_le_bytes());
        bytes
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn each_kind_is_taken_apart() {
        let what = |bytes: &[u8]| parse_record(bytes).map(|(record, _)| record.what == What::Other);
        assert_eq!(what(&record(99, 0, &[])), Some(true));
        let check = |kind, misc, body: &[u8], expected| {
            let bytes = record(kind, misc, body);
            let thread = Id { process: 7, thread: 8 };
            let whole = PerfRecord { thread, time_ns: 1234, what: expected };
            assert_eq!(parse_record(&bytes), Some((whole, bytes.len())));
        };
        check(KIND_SWITCH, 0, &[], What::On);
        check(KIND_SWITCH, 1 << 13, &[], What::Off { preempted: false });
        check(KIND_SWITCH, 3 << 13, &[], What::Off { preempted: true });
        check(KIND_LOST, 0, &words(&[1, 0, 55, 0]), What::Lost(55));
        let (child, parent) = (Id { process: 1, thread: 3 }, Id { process: 2, thread: 4 });
        let fork = words(&[1, 2, 3, 4, 0, 0]);
        check(KIND_FORK, 0, &fork, What::Forked { child, parent });
        check(KIND_EXIT, 0, &fork, What::Exited(child));
        let name = [words(&[5, 6]), b"abc\0\0\0\0\0".to_vec()].concat();
        check(KIND_NAME, 0, &name, What::Named(Id { process: 5, thread: 6 }, b"abc"));
    }

    #[test]
    fn records_that_are_not_whole_are_refused() {
        let bytes = record(KIND_SWITCH, 0, &[]);
        (0..bytes.len()).for_each(|cut| assert_eq!(parse_record(&bytes[..cut]), None));
        let mut short = bytes.clone();
        short[6] = 31;
        assert_eq!(parse_record(&short), None);
        assert_eq!(parse_record(&record(KIND_LOST, 0, &[0; 8])), None);
    }
}

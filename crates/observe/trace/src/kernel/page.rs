//! Decoder of one page of the kernel's trace buffer.
//!
//! ```text
//!   +-----------+--------+---------------------------------------------+
//!   | timestamp | commit | event, event, ...          | missed | free |
//!   +-----------+--------+---------------------------------------------+
//!   commit   bytes of events in its low bits; bit 31: events were lost before this page;
//!            bit 30: how many stands after the last event
//!   event    u32: length or type in the low 5 bits, ticks since the last event in the others
//!              1..=28   that many words of data follow
//!              0        a word with the length follows, which counts itself
//!              29       padding, of the length in the next word; without ticks: to the end
//!              30       the next word holds higher bits of the ticks
//!              31       the next word holds higher bits of an absolute time
//! ```
//!
//! The places of the header come from the kernel's own description. Pure: it reads bytes of a
//! file, believes none of them, and never looks outside the page. Little-endian machines only.
//! Called by `scheduler` and by a fuzz target.

use super::format::{FormatError, LARGEST, Section};

const LENGTH_BITS: u32 = 5;
const DELTA_BITS: u32 = 27;
const COMMIT_MASK: u64 = (1 << 27) - 1;
const MISSED_EVENTS: u64 = 1 << 31;
const MISSED_STORED: u64 = 1 << 30;
/// An absolute time has 59 bits; the page's time stamp knows the others.
const ABSOLUTE_BITS: u32 = 59;

/// Positions of the fields and of the events in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    time: super::format::Field,
    commit: super::format::Field,
    data: usize,
    /// Size of a page.
    pub bytes: usize,
}

impl Layout {
    /// Creates the layout from the kernel's description of a page's header.
    ///
    /// # Errors
    /// Fails if a field is missing, or if a page would be larger than any kernel's.
    pub fn new(header: &Section) -> Result<Layout, FormatError> {
        let data = header.field("data")?;
        let bytes = data.offset + data.size;
        if bytes > LARGEST {
            let what = format!("a page of {bytes} bytes, at most {LARGEST} are read");
            return Err(FormatError { event: "page header".into(), what });
        }
        let (time, commit) = (header.number("timestamp")?, header.number("commit")?);
        Ok(Layout { time, commit, data: data.offset, bytes })
    }
}

/// Events that were lost before a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// None.
    Nothing,
    /// This number of events.
    Counted(u64),
    /// One event or more: the page had no room for the number.
    Uncounted,
}

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Ticks at its beginning.
    pub time: u64,
    /// Events that are missing before the page.
    pub missed: Missed,
}

/// A page that contradicts itself. What came before the place was handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageError {
    /// A page without a complete header.
    #[error("page of {bytes} bytes, expected at least the {header} bytes of its header")]
    Short {
        /// Bytes there are.
        bytes: usize,
        /// Bytes there should be at least.
        header: usize,
    },
    /// More events than fit.
    #[error("{commit} bytes of events in a page with room for {room}")]
    Commit {
        /// Bytes of events that the header announces.
        commit: usize,
        /// Bytes there are.
        room: usize,
    },
    /// An event beyond the end.
    #[error("an event of {length} bytes at offset {offset} of events that end at {end}")]
    Event {
        /// Offset of the event from the first event of the page.
        offset: usize,
        /// Length of the event according to its header, in bytes.
        length: usize,
        /// Offset at which the events end.
        end: usize,
    },
}

/// Calls `visit` with the time and the data of each event of a page, in order.
///
/// # Errors
/// Fails if the page contradicts itself; the events before that place were visited.
pub fn parse_page(
    page: &[u8],
    layout: &Layout,
    visit: &mut dyn FnMut(u64, &[u8]),
) -> Result<Head, PageError> {
    let head = parse_head(page, layout)?;
    let data = &page[layout.data..];
    let end = committed(page, layout);
    if end > data.len() {
        return Err(PageError::Commit { commit: end, room: data.len() });
    }
    let data = &data[..end];
    let (mut offset, mut time) = (0, head.time);
    while offset < end {
        let Some(entry) = Entry::at(data, offset, head.time) else {
            let length = if end - offset < 4 { 4 } else { 8 };
            return Err(PageError::Event { offset, length, end });
        };
        if end - offset < entry.length {
            return Err(PageError::Event { offset, length: entry.length, end });
        }
        time = match entry.clock {
            Clock::Later(ticks) => time.wrapping_add(ticks),
            Clock::At(ticks) => ticks,
        };
        if let Some(skip) = entry.data {
            visit(time, &data[offset + skip..offset + entry.length]);
        }
        offset += entry.length;
    }
    Ok(head)
}

/// Reads what a page says besides its events, which may be broken.
///
/// # Errors
/// Fails if the page is shorter than its header.
pub fn parse_head(page: &[u8], layout: &Layout) -> Result<Head, PageError> {
    let fields = (layout.time.number(page), layout.commit.number(page));
    let (Some(time), Some(commit), true) = (fields.0, fields.1, page.len() >= layout.data) else {
        return Err(PageError::Short { bytes: page.len(), header: layout.data });
    };
    let missed = if commit & MISSED_EVENTS == 0 {
        Missed::Nothing
    } else if commit & MISSED_STORED == 0 {
        Missed::Uncounted
    } else {
        let after = layout.data + (commit & COMMIT_MASK) as usize;
        let stored = page.get(after..after + 8).and_then(|bytes| bytes.try_into().ok());
        stored.map_or(Missed::Uncounted, |bytes| Missed::Counted(u64::from_le_bytes(bytes)))
    };
    Ok(Head { time, missed })
}

fn committed(page: &[u8], layout: &Layout) -> usize {
    (layout.commit.number(page).unwrap_or(0) & COMMIT_MASK) as usize
}

enum Clock {
    Later(u64),
    At(u64),
}

/// One entry of a page: an event, or something between events.
struct Entry {
    /// Length with the header; at least 4, so that a walk always ends.
    length: usize,
    clock: Clock,
    /// Bytes before the data of an event; `None` for what is not an event.
    data: Option<usize>,
}

impl Entry {
    /// The entry at `offset`; `None` if its words are not all there.
    fn at(data: &[u8], offset: usize, page_time: u64) -> Option<Entry> {
        let word = |at: usize| {
            let bytes = data.get(offset + at..offset + at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let head = word(0)?;
        let delta = u64::from(head >> LENGTH_BITS);
        let entry = match head & ((1 << LENGTH_BITS) - 1) {
            0 => {
                let length = (word(4)? as usize).max(4) + 4;
                Entry { length, clock: Clock::Later(delta), data: Some(8) }
            }
            29 if delta == 0 => {
                Entry { length: data.len() - offset, clock: Clock::Later(0), data: None }
            }
            29 => {
                // A discarded event. The next one counts from its time; the kernel writes 1 tick
                // where the event had none, because 0 would mean the end of the page.
                let ticks = if delta == 1 { 0 } else { delta };
                let length = (word(4)? as usize).max(4) + 4;
                Entry { length, clock: Clock::Later(ticks), data: None }
            }
            30 => {
                let ticks = u64::from(word(4)?) << DELTA_BITS | delta;
                Entry { length: 8, clock: Clock::Later(ticks), data: None }
            }
            31 => {
                let low = u64::from(word(4)?) << DELTA_BITS | delta;
                let high = page_time >> ABSOLUTE_BITS << ABSOLUTE_BITS;
                Entry { length: 8, clock: Clock::At(high | low), data: None }
            }
            words => {
                let length = 4 + 4 * words as usize;
                Entry { length, clock: Clock::Later(delta), data: Some(4) }
            }
        };
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::sections;
    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:112;\tsigned:0;\n";

    fn layout() -> Layout {
        Layout::new(&sections(HEADER).unwrap()[0]).unwrap()
    }

    fn page(time: u64, flags: u64, words: &[u32]) -> Vec<u8> {
        let mut bytes = time.to_le_bytes().to_vec();
        bytes.extend((flags | (4 * words.len() as u64)).to_le_bytes());
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.resize(128, 0);
        bytes
    }

    type Events = Vec<(u64, Vec<u8>)>;

    fn events(page: &[u8]) -> (Result<Head, PageError>, Events) {
        let mut events = Vec::new();
        let answer =
            parse_page(page, &layout(), &mut |time, data| events.push((time, data.to_vec())));
        (answer, events)
    }

    #[test]
    fn events_of_all_lengths_get_the_time_since_the_one_before() {
        let words = [5 << 5 | 1, 0x04030201, 7 << 5, 8, 0x0b0a0909, 3 << 5 | 2, 1, 2];
        let (head, events) = events(&page(1000, 0, &words));
        assert_eq!(head, Ok(Head { time: 1000, missed: Missed::Nothing }));
        let data = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let expected: Vec<(u64, Vec<u8>)> =
            vec![(1005, data(&[0x04030201])), (1012, data(&[0x0b0a0909])), (1015, data(&[1, 2]))];
        assert_eq!(events, expected);
    }

    #[test]
    fn extended_and_absolute_times_move_the_clock_without_an_event() {
        let page_time = 3 << 59 | 50;
        let extend = [4 << 5 | 30, 2, 1 << 5 | 1, 0];
        let (_, later) = events(&page(page_time, 0, &extend));
        assert_eq!(later[0].0, page_time + (2 << 27 | 4) + 1);
        let absolute = [4 << 5 | 31, 2, 1 << 5 | 1, 0];
        let (_, at) = events(&page(page_time, 0, &absolute));
        assert_eq!(at[0].0, 3 << 59 | 2 << 27 | 5);
    }

    #[test]
    fn discarded_events_keep_their_time_and_a_null_event_ends_the_page() {
        let words = [9 << 5 | 29, 8, 77, 1 << 5 | 29, 4, 2 << 5 | 1, 0, 29, 5 << 5 | 1, 0];
        let (head, events) = events(&page(100, 0, &words));
        assert!(head.is_ok());
        assert_eq!(events.iter().map(|event| event.0).collect::<Vec<_>>(), [111]);
    }

    #[test]
    fn lost_events_are_counted_where_the_kernel_had_room_to() {
        let mut bytes = page(1, MISSED_EVENTS | MISSED_STORED, &[1 << 5 | 1, 0]);
        bytes[24..32].copy_from_slice(&321_u64.to_le_bytes());
        assert_eq!(events(&bytes).0.unwrap().missed, Missed::Counted(321));
        let bytes = page(1, MISSED_EVENTS, &[1 << 5 | 1, 0]);
        assert_eq!(events(&bytes).0.unwrap().missed, Missed::Uncounted);
    }

    #[test]
    fn pages_that_contradict_themselves_are_refused_after_what_is_whole() {
        let (answer, whole) = events(&page(1, 0, &[1 << 5 | 1, 0, 28]));
        assert_eq!(answer, Err(PageError::Event { offset: 8, length: 116, end: 12 }));
        assert_eq!(whole.len(), 1);
        let answer = events(&page(1, 200, &[])).0;
        assert_eq!(answer, Err(PageError::Commit { commit: 200, room: 112 }));
        assert_eq!(events(&[0; 15]).0, Err(PageError::Short { bytes: 15, header: 16 }));
        let (answer, _) = events(&page(1, 0, &[0, u32::MAX]));
        assert!(matches!(answer, Err(PageError::Event { offset: 0, .. })), "{answer:?}");
        let mut bytes = page(1, 0, &[2 << 5 | 1, 0]);
        bytes[8] = 6;
        assert_eq!(events(&bytes).0, Err(PageError::Event { offset: 0, length: 8, end: 6 }));
    }
}

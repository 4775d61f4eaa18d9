//! Memory that a server and the process of its GPU share: a mailbox for each unit.
//!
//! The unit's thread in the server writes an order and its number, and sleeps on the answer's
//! number; its twin in the other process does the converse. Each word is written by one side. The
//! server takes what the other side writes for what it is, an allegation.

use device::FailureCode;
use shm::{Mapping, futex};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Words of a mailbox: orders and answers do not share a cache line.
const WORDS: usize = 64;
/// Place of the answer in a mailbox, in words.
const ANSWER: usize = 48;
/// The unit has done what it was told.
const DONE: u32 = 0;
/// Word in place of a kernel and a level: no more orders.
const END: u64 = u64::MAX;
/// Answer of a process that ends, since its context is broken.
const BROKEN: u32 = u32::MAX;

/// Bytes of a board for this number of units.
pub(crate) fn bytes(units: usize) -> usize {
    4 * WORDS * units
}

/// A part of the clients' memory, by the number under which it was passed on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Part {
    /// 0 for none.
    pub memory: u64,
    pub offset: u64,
    pub bytes: u64,
}

/// Order to a unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    /// The first block.
    pub first: u32,
    /// Number of blocks; 0: what follows the blocks.
    pub count: u32,
    pub kernel: u32,
    pub level: u8,
    pub arguments: [u64; 4],
    pub input: Part,
    pub output: Part,
    /// The launch, if its blocks share something on the GPU; 0 if not.
    pub launch: u64,
}

impl Order {
    /// The blocks; none: what follows them.
    pub(crate) fn blocks(&self) -> Option<Range<u32>> {
        (self.count > 0).then(|| self.first..self.first.saturating_add(self.count))
    }
}

/// Answer of a unit to an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Ended(Result<(), FailureCode>),
    Broken,
}

/// One side's view of a unit's mailbox.
pub(crate) struct Mailbox {
    board: Arc<Mapping>,
    first: usize,
}

impl Mailbox {
    /// Mailbox of a unit on a board that is large enough for it.
    ///
    /// # Errors
    /// It is not.
    pub(crate) fn new(board: &Arc<Mapping>, unit: usize) -> Result<Mailbox, shm::Error> {
        board.word(WORDS * (unit + 1) - 1)?;
        Ok(Mailbox { board: board.clone(), first: WORDS * unit })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        let Ok(word) = self.board.word(self.first + at) else { unreachable!("checked in `new`") };
        word
    }

    fn put(&self, at: usize, value: u64) {
        self.word(at).store(value as u32, Ordering::Relaxed);
        self.word(at + 1).store((value >> 32) as u32, Ordering::Relaxed);
    }

    fn get(&self, at: usize) -> u64 {
        let half = |at: usize| u64::from(self.word(at).load(Ordering::Relaxed));
        half(at) | half(at + 1) << 32
    }

    /// Gives an order, the next after this number, and returns its own.
    pub(crate) fn order(&self, order: &Order, last: u32) -> u32 {
        let number = last.wrapping_add(1);
        let blocks = u64::from(order.first) | u64::from(order.count) << 32;
        let [a, b, c, d] = order.arguments;
        let Order { input, output, .. } = order;
        let head = u64::from(order.kernel) | u64::from(order.level) << 32;
        let words = [blocks, head, a, b, c, d, input.memory, input.offset, input.bytes];
        let more = [output.memory, output.offset, output.bytes, order.launch];
        for (index, value) in words.into_iter().chain(more).enumerate() {
            self.put(2 + 2 * index, value);
        }
        self.word(0).store(number, Ordering::Release);
        futex::wake(self.word(0));
        number
    }

    /// Tells the unit that there is nothing more to do.
    pub(crate) fn end(&self) {
        self.put(2 + 2, END);
        self.word(0).fetch_add(1, Ordering::AcqRel);
        futex::wake(self.word(0));
    }

    /// Waits for the order after this number, with its own. None if there is nothing more to do.
    pub(crate) fn await_order(&self, last: u32) -> Option<(Order, u32)> {
        let number = loop {
            let number = self.word(0).load(Ordering::Acquire);
            if number != last {
                break number;
            }
            futex::wait(self.word(0), last, None);
        };
        let get = |index: usize| self.get(2 + 2 * index);
        if get(1) == END {
            return None;
        }
        let part = |at| Part { memory: get(at), offset: get(at + 1), bytes: get(at + 2) };
        let order = Order {
            first: get(0) as u32,
            count: (get(0) >> 32) as u32,
            kernel: get(1) as u32,
            level: (get(1) >> 32) as u8,
            arguments: [get(2), get(3), get(4), get(5)],
            input: part(6),
            output: part(9),
            launch: get(12),
        };
        Some((order, number))
    }

    /// Answers the order of this number.
    pub(crate) fn answer(&self, answer: Answer, number: u32) {
        let code = match answer {
            Answer::Ended(Ok(())) => DONE,
            Answer::Ended(Err(code)) => code as u32,
            Answer::Broken => BROKEN,
        };
        self.word(ANSWER + 1).store(code, Ordering::Relaxed);
        self.word(ANSWER).store(number, Ordering::Release);
        futex::wake(self.word(ANSWER));
    }

    /// The answer to the order of this number, if it comes within this time. May return early.
    pub(crate) fn await_answer(&self, number: u32, timeout: Duration) -> Option<Answer> {
        let seen = self.word(ANSWER).load(Ordering::Acquire);
        if seen != number {
            futex::wait(self.word(ANSWER), seen, Some(timeout));
            if self.word(ANSWER).load(Ordering::Acquire) != number {
                return None;
            }
        }
        Some(match self.word(ANSWER + 1).load(Ordering::Relaxed) {
            DONE => Answer::Ended(Ok(())),
            code if code == FailureCode::Memory as u32 => Answer::Ended(Err(FailureCode::Memory)),
            code if code == FailureCode::Kernel as u32 => Answer::Ended(Err(FailureCode::Kernel)),
            // Whatever else it says, it is not to be trusted with more.
            _ => Answer::Broken,
        })
    }

    /// Wakes the thread that waits for an answer, to check for itself.
    pub(crate) fn rouse(&self) {
        futex::wake(self.word(ANSWER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order() -> Order {
        let part = |n| Part { memory: n, offset: n << 33, bytes: u64::MAX - n };
        Order {
            first: u32::MAX,
            count: 3,
            kernel: 7,
            level: 5,
            arguments: [1, u64::MAX, 3, 1 << 63],
            input: part(1),
            output: part(2),
            launch: 1 << 40,
        }
    }

    #[test]
    fn orders_and_answers_arrive_as_they_were_given() {
        let board = Mapping::anonymous(bytes(3)).unwrap();
        let board = &board;
        assert!(Mailbox::new(board, 1 << 20).is_err());
        let [server, host] = [(); 2].map(|()| Mailbox::new(board, 2).unwrap());
        let twin = std::thread::spawn(move || {
            let mut last = 0;
            let answers = [
                Answer::Ended(Ok(())),
                Answer::Ended(Err(FailureCode::Memory)),
                Answer::Ended(Err(FailureCode::Kernel)),
                Answer::Broken,
            ];
            answers.map(|answer| {
                let (order, number) = host.await_order(last).unwrap();
                last = number;
                host.answer(answer, number);
                (order, answer)
            })
        });
        let mut number = 0;
        let mut told = Vec::new();
        for (first, count) in [(u32::MAX, 1), (0, 0), (0, u32::MAX), (1, 2)] {
            let order = Order { first, count, ..order() };
            number = server.order(&order, number);
            let answer = loop {
                if let Some(answer) = server.await_answer(number, Duration::from_secs(1)) {
                    break answer;
                }
            };
            told.push((order, answer));
        }
        assert_eq!(told, twin.join().unwrap());
        server.end();
        assert_eq!(Mailbox::new(board, 2).unwrap().await_order(number), None);
    }

    #[test]
    fn nonsense_is_the_end_of_a_host() {
        let board = Mapping::anonymous(bytes(1)).unwrap();
        let server = Mailbox::new(&board, 0).unwrap();
        let number = server.order(&order(), 0);
        assert_eq!(server.await_answer(number, Duration::ZERO), None);
        for nonsense in [FailureCode::Lost as u32, FailureCode::Endless as u32, 77, BROKEN] {
            board.word(ANSWER + 1).unwrap().store(nonsense, Ordering::Relaxed);
            board.word(ANSWER).unwrap().store(number, Ordering::Release);
            assert_eq!(server.await_answer(number, Duration::ZERO), Some(Answer::Broken));
        }
    }
}

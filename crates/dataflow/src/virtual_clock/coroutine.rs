//! A run as a coroutine: module code that the executor leaves at a checkpoint, and enters again when
//! the simulated core is there for it. All of it happens on the caller's thread.

use std::any::Any;

use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};

use crate::cx::{Host, Piece, Run, Work};
use crate::engine::{Body, Ended, run_module};
use crate::middleware::Sent;
use crate::virtual_clock::core::Given;
use crate::{Checkpoint, Part, WorkCx};

/// Size of the stack of a module's code. Pages that it does not touch cost nothing.
const STACK_BYTES: usize = 4 << 20;

/// Request of the code to the executor.
pub(super) enum Ask {
    /// The chunk ends.
    Checkpoint,
    /// The chunk ends with a part of the result.
    Publish {
        sent: Sent,
        part: Part,
        run: Run,
    },
    /// The chunk ends, in which a message was deserialised.
    Deserialised {
        message: u64,
        bytes: u32,
    },
    Ahead {
        key: &'static str,
        version: u64,
        work: Work,
    },
    Take {
        key: &'static str,
        version: u64,
    },
    Drop {
        key: &'static str,
    },
    /// The chunk has waited for this much of an accelerator's time.
    Accelerated {
        ns: u64,
    },
    /// The chunk ends, and the run is divided.
    Divide(Vec<Piece>),
}

/// Answer of the executor.
pub(super) enum Answer {
    /// A chunk begins.
    Go {
        now_ns: u64,
        checkpoint: Checkpoint,
    },
    Taken(Option<Box<dyn Any + Send>>),
    /// A chunk begins, with what the pieces gave.
    Given {
        now_ns: u64,
        given: Given,
    },
}

/// Last action of the code.
pub(super) enum Did {
    Asked(Ask),
    Ended(Ended),
}

/// A run that was begun.
pub(super) struct Execution {
    coroutine: Coroutine<Answer, Ask, Ended, DefaultStack>,
}

/// Stacks of runs that have ended, for the next ones.
#[derive(Default)]
pub(super) struct Stacks(Vec<DefaultStack>);

impl Execution {
    /// Code that begins with the first [`Execution::resume`].
    ///
    /// # Panics
    /// If the system has no memory for a stack.
    pub(super) fn new(body: Body, stacks: &mut Stacks) -> Execution {
        let new = || DefaultStack::new(STACK_BYTES).expect("memory for the stack of a module");
        let stack = stacks.0.pop().unwrap_or_else(new);
        let coroutine = Coroutine::with_stack(stack, move |yielder, answer| {
            let now_ns = match answer {
                Answer::Go { now_ns, .. } => now_ns,
                Answer::Taken(_) | Answer::Given { .. } => {
                    unreachable!("a run begins with a chunk")
                }
            };
            let mut host = YieldingHost { yielder, now_ns };
            match body {
                Body::Module { module, input, path, run, mail } => {
                    run_module(&mut host, (module, input), run, path, mail)
                }
                Body::Work(work) => Ended::Work(work(&mut WorkCx { host: &mut host })),
            }
        });
        Execution { coroutine }
    }

    /// Runs the code on, to what it does next.
    pub(super) fn resume(&mut self, answer: Answer) -> Did {
        match self.coroutine.resume(answer) {
            CoroutineResult::Yield(ask) => Did::Asked(ask),
            CoroutineResult::Return(ended) => Did::Ended(ended),
        }
    }

    /// Keeps the stack of code that has ended.
    pub(super) fn recycle(self, stacks: &mut Stacks) {
        stacks.0.push(self.coroutine.into_stack());
    }
}

struct YieldingHost<'a> {
    yielder: &'a Yielder<Answer, Ask>,
    now_ns: u64,
}

impl YieldingHost<'_> {
    fn next_chunk(&mut self, ask: Ask) -> Checkpoint {
        match self.yielder.suspend(ask) {
            Answer::Go { now_ns, checkpoint } => {
                self.now_ns = now_ns;
                checkpoint
            }
            Answer::Taken(_) | Answer::Given { .. } => unreachable!("nothing was taken"),
        }
    }
}

impl Host for YieldingHost<'_> {
    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn checkpoint(&mut self) -> Checkpoint {
        self.next_chunk(Ask::Checkpoint)
    }

    fn publish(&mut self, sent: Sent, part: Part, run: &Run) {
        self.next_chunk(Ask::Publish { sent, part, run: run.clone() });
    }

    fn code_ends(&mut self) {
        self.next_chunk(Ask::Checkpoint);
    }

    fn deserialised(&mut self, message: u64, bytes: u32, _: u64) {
        self.next_chunk(Ask::Deserialised { message, bytes });
    }

    fn ahead(&mut self, key: &'static str, version: u64, work: Work) {
        self.yielder.suspend(Ask::Ahead { key, version, work });
    }

    fn accelerated(&mut self, ns: u64) {
        self.yielder.suspend(Ask::Accelerated { ns });
    }

    fn take(&mut self, key: &'static str, version: u64) -> Option<Box<dyn Any + Send>> {
        match self.yielder.suspend(Ask::Take { key, version }) {
            Answer::Taken(value) => value,
            Answer::Go { .. } | Answer::Given { .. } => unreachable!("a take is no checkpoint"),
        }
    }

    fn drop_ahead(&mut self, key: &'static str) {
        self.yielder.suspend(Ask::Drop { key });
    }

    fn divide(&mut self, pieces: Vec<Piece>) -> Given {
        match self.yielder.suspend(Ask::Divide(pieces)) {
            Answer::Given { now_ns, given } => {
                self.now_ns = now_ns;
                given
            }
            _ => unreachable!("pieces were given away"),
        }
    }
}

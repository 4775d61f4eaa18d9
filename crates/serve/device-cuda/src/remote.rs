//! A GPU that another process has.
//!
//! A kernel that goes wrong costs its process everything that it has on any GPU: the driver
//! refuses all calls from then on, in every context, and takes no new one. And a kernel that never
//! ends ends with its process alone; a thread that would reset its context waits for it. So a
//! server, which has other things to do, leaves a GPU to a process that can be ended and started
//! anew ([`crate::host`]). Each unit here has a twin there, which runs its slices; the two hand
//! them over through a mailbox ([`board`]). Clients' memory is passed on as files, and never
//! copied.

pub(crate) mod board;
mod memory;
mod process;

use crate::catalog::Catalog;
use crate::host::{Hello, Setup};
use crate::patience::{Began, Patience};
use crate::{Config, service::Service};
use board::{Answer, Order};
use device::hosted::{Backend, Plan, Task};
use device::{Error, FailureCode, KernelInfo, Launch};
use process::Process;
use realtime::thread;
use shm::Mapping;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Bits of a launch's number that count launches; the others tell the life of the process.
const LIFE_SHIFT: u32 = 44;

/// The program that has a GPU for another one: it calls [`crate::host::serve`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HostProgram {
    /// The program.
    pub path: PathBuf,
    /// Arguments that make it call [`crate::host::serve`].
    pub arguments: Vec<String>,
}

/// A slice that never ends.
pub(crate) struct Endless;

/// A GPU that another process has.
pub struct Remote {
    name: String,
    catalog: Catalog,
    burst: u32,
    program: HostProgram,
    setup: Setup,
    process: RwLock<Arc<Process>>,
    /// Held by the one that starts it anew.
    starting: Mutex<()>,
    launches: AtomicU64,
    /// Lives that ended because something broke.
    resets: AtomicU64,
    /// Reason why it could not be started anew: nothing works any more.
    lost: OnceLock<String>,
}

/// State of a unit's thread.
pub struct Seat {
    unit: usize,
    /// Number of the life that the other fields are of.
    life: u64,
    /// The number of its last order.
    last: u32,
    began: Began,
}

impl Remote {
    /// Starts the process, which opens the GPU and loads the kernels.
    ///
    /// # Errors
    /// A text that names the missing or wrong item, and its place.
    pub fn open(
        config: &Config,
        program: &HostProgram,
        cores: Vec<Option<usize>>,
    ) -> Result<Remote, String> {
        let services: Vec<Service> = config.services.clone();
        let setup = Setup {
            ordinal: config.ordinal,
            levels: config.levels,
            spins: config.spins,
            blocks_per_slice: config.blocks_per_slice,
            slices_at_once: config.slices_at_once,
            lowest: config.lowest,
            in_place: config.in_place,
            whole: config.whole,
            services,
            policy: config.policy,
            cores,
            home: thread::cores(),
        };
        let (process, hello) = Process::start(program, &setup, 1)?;
        let (name, fill, burst) = match hello {
            Hello::Ready { name, fill, burst } => (name, fill, burst),
            Hello::Failed(why) => return Err(why),
        };
        Ok(Remote {
            name,
            catalog: Catalog::new(config, fill)?,
            // Whatever the process says of itself.
            burst: burst.clamp(1, config.slices_at_once.max(1)),
            program: program.clone(),
            setup,
            process: RwLock::new(Arc::new(process)),
            starting: Mutex::default(),
            launches: AtomicU64::new(0),
            resets: AtomicU64::new(0),
            lost: OnceLock::new(),
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    fn process(&self) -> Arc<Process> {
        self.process.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The process, which is there; started anew if it had gone.
    fn sound(&self) -> Result<Arc<Process>, FailureCode> {
        loop {
            if self.lost.get().is_some() {
                return Err(FailureCode::Lost);
            }
            let process = self.process();
            if !process.is_gone() {
                return Ok(process);
            }
            drop(process);
            self.restart();
        }
    }

    /// Starts the process anew if it has gone; if that fails, the GPU is lost.
    fn restart(&self) {
        // The second thread finds what the first one has made of it.
        let _turn = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        let old = self.process();
        if self.lost.get().is_some() || !old.is_gone() {
            return;
        }
        let started = old
            .buried()
            .and_then(|()| Process::start(&self.program, &self.setup, old.life + 1))
            .and_then(|(process, hello)| match hello {
                Hello::Ready { .. } => Ok(process),
                Hello::Failed(why) => Err(why),
            });
        match started {
            Ok(process) => {
                *self.process.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(process);
                self.resets.fetch_add(1, Ordering::Relaxed);
            }
            // No other thread writes it: this is the only turn.
            Err(why) => drop(self.lost.set(why)),
        }
    }

    fn run(&self, seat: &mut Seat, task: &Task<'_>, blocks: Range<u32>) -> Result<(), FailureCode> {
        let process = self.sound()?;
        if seat.life != process.life {
            *seat = Seat {
                unit: seat.unit,
                life: process.life,
                last: 0,
                began: process.running.join(),
            };
        }
        let launch = match task.workspace.first() {
            Some(word) => self.number(word, process.life).ok_or(FailureCode::Lost)?,
            None => 0,
        };
        let [input, output] = [&task.input, &task.output].map(|memory| process.part(memory));
        let lost = |()| FailureCode::Lost;
        let order = Order {
            first: blocks.start,
            count: blocks.end - blocks.start,
            kernel: task.kernel.0,
            level: task.level.0,
            arguments: task.arguments,
            input: input.map_err(lost)?,
            output: output.map_err(lost)?,
            launch,
        };
        seat.began.begin();
        let mut patience = Patience::new(&process.running, &seat.began, task.budget_ns);
        let answer = process.ask(seat.unit, &mut seat.last, &order, &mut patience);
        seat.began.end();
        match answer {
            Ok(Answer::Ended(ended)) => ended,
            Ok(Answer::Broken) => Err(FailureCode::Lost),
            Err(Endless) => Err(FailureCode::Endless),
        }
    }

    /// The number of a launch, kept in a word of its workspace. None if it had one in another life:
    /// what its first slices computed has gone.
    fn number(&self, word: &AtomicU64, life: u64) -> Option<u64> {
        let next = self.launches.fetch_add(1, Ordering::Relaxed) & ((1 << LIFE_SHIFT) - 1);
        let number = life << LIFE_SHIFT | next;
        let set = word.compare_exchange(0, number, Ordering::Relaxed, Ordering::Relaxed);
        let number = set.map_or_else(|known| known, |_| number);
        (number >> LIFE_SHIFT == life).then_some(number)
    }
}

impl Backend for Remote {
    type Worker = Seat;

    fn kernels(&self) -> Vec<KernelInfo> {
        self.catalog.infos()
    }

    fn plan(&self, launch: &Launch) -> Result<Plan, Error> {
        self.catalog.plan(launch)
    }

    fn worker(&self, unit: usize) -> Result<Seat, String> {
        Ok(Seat { unit, life: 0, last: 0, began: Began::default() })
    }

    fn context_gone(&self) {
        self.process().sweep();
    }

    fn let_go(&self, memory: &Arc<Mapping>) {
        self.process().let_go(memory);
    }

    fn resets(&self) -> u64 {
        self.resets.load(Ordering::Relaxed)
    }

    fn fault(&self) -> Option<String> {
        self.lost.get().cloned()
    }

    fn block(&self, seat: &mut Seat, task: &Task<'_>, block: u32) -> Result<(), FailureCode> {
        self.run(seat, task, block..block + 1)
    }

    fn burst(&self) -> u32 {
        self.burst
    }

    fn blocks(
        &self,
        seat: &mut Seat,
        task: &Task<'_>,
        blocks: Range<u32>,
    ) -> Result<(), FailureCode> {
        self.run(seat, task, blocks)
    }

    fn finish(&self, seat: &mut Seat, task: &Task<'_>) -> Result<(), FailureCode> {
        // No blocks: what follows them.
        self.run(seat, task, 0..0)
    }

    fn over(&self, workspace: &[AtomicU64]) {
        let number = workspace.first().map_or(0, |word| word.load(Ordering::Relaxed));
        let process = self.process();
        if number >> LIFE_SHIFT == process.life && number != 0 {
            process.over(number);
        }
    }
}

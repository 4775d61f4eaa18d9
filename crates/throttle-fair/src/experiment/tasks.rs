//! The two tasks: programs of their own, so that neither waits for the other's memory to be unmapped.

use std::hint::black_box;
use std::io::{self, Read, Write};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Signal, set_parent_process_death_signal};

/// Half of the smallest first-level data cache that is common (32 KiB), in 8-byte words.
const COMPUTE_WORDS: usize = 16 * 1024 / 8;
/// What the memory-bound task maps and writes at a time.
const MAPPED_PAGES: usize = 64;

/// A task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Task {
    /// Takes fresh memory from the kernel, writes it and gives it back: a fault and a zeroed page
    /// for each 4 KiB.
    Memory,
    /// Adds up an array that stays in the cache.
    Compute,
}

/// A task that runs until this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
}

impl Running {
    /// Starts this program's own file with `task NAME CORE`, which has to call [`run`].
    ///
    /// # Errors
    /// If it cannot be started.
    pub fn start(task: Task, core: usize) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("where is this program?")?;
        let name = match task {
            Task::Memory => "memory",
            Task::Compute => "compute",
        };
        let mut command = Command::new(program);
        command.args(["task", name, &core.to_string()]).stdout(Stdio::piped());
        let failed = || format!("cannot start the {name} task");
        let mut running = Self { child: command.spawn().with_context(failed)? };
        // It says a word when it is on its core; the first periods are not to be without it.
        let said = running.child.stdout.take().map_or(Ok(0), |mut out| out.read(&mut [0; 64]));
        if said.with_context(failed)? == 0 {
            bail!("the {name} task ended when it should have begun");
        }
        Ok(running)
    }

    /// Its process, which is its only thread too.
    pub fn id(&self) -> i32 {
        self.child.id() as i32
    }

    /// Stops it, until it is killed.
    ///
    /// # Errors
    /// If it has ended.
    pub fn stand(&self) -> io::Result<()> {
        let process = rustix::process::Pid::from_child(&self.child);
        Ok(rustix::process::kill_process(process, Signal::STOP)?)
    }

    /// Processor time that it has used, nanoseconds.
    ///
    /// # Errors
    /// If it has ended.
    pub fn run_ns(&self) -> io::Result<u64> {
        // The kernel's number for the scheduler's clock of a process, as clock_getcpuclockid has it.
        let clock = (!self.id() << 3) | 2;
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the kernel writes one timespec into a place that holds one.
        if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It is this process's child and is waited for below, so the number is its own.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Is the task, on a core, until it is killed or its parent ends.
///
/// # Errors
/// If the core may not be used, or memory runs out.
pub fn run(task: Task, core: usize) -> anyhow::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    realtime::thread::pin(&[core])?;
    writeln!(io::stdout(), "begins")?;
    match task {
        Task::Memory => memory(),
        Task::Compute => compute(),
    }
}

fn memory() -> anyhow::Result<()> {
    let page_bytes = rustix::param::page_size();
    let bytes = MAPPED_PAGES * page_bytes;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    loop {
        // SAFETY: a new mapping at an address of the kernel's choice; the writes are inside of it,
        // and nothing else knows of it when it goes.
        unsafe {
            let map = mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)?;
            // A kernel without huge pages has none to leave out.
            let _ = madvise(map, bytes, Advice::LinuxNoHugepage);
            for page in 0..MAPPED_PAGES {
                map.cast::<u8>().add(page * page_bytes).write_volatile(1);
            }
            munmap(map, bytes)?;
        }
    }
}

fn compute() -> anyhow::Result<()> {
    let mut words: Vec<u64> = (0..COMPUTE_WORDS as u64).collect();
    loop {
        let mut sum = 0_u64;
        for word in black_box(&mut words) {
            sum = sum.wrapping_mul(31).wrapping_add(*word);
            *word = sum;
        }
        black_box(sum);
    }
}

//! Loads to try a regulator with: programs of their own, so that none waits for another's memory to
//! be unmapped, that run until they are killed or their parent ends.

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use rustix::process::{Signal, set_parent_process_death_signal};
use std::hint::black_box;
use std::io;

/// Half of the smallest first-level data cache that is common (32 KiB), in 8-byte words.
const COMPUTE_WORDS: usize = 16 * 1024 / 8;
/// Number of pages that [`Load::Fresh`] maps and writes at a time.
const FRESH_PAGES: usize = 64;
/// Number of words that [`Load::Write`] writes: more than the caches that are common.
const WRITE_WORDS: usize = (128 << 20) / 8;

/// Load that a program makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// Takes fresh memory from the kernel, writes it and gives it back: a fault and a zeroed page
    /// for each 4 KiB.
    Fresh,
    /// Writes one large array from end to end, again and again.
    Write,
    /// Adds up an array of half the first-level cache.
    Compute,
}

impl Load {
    /// All that there are.
    pub const ALL: [Load; 3] = [Load::Fresh, Load::Write, Load::Compute];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Load::Fresh => "fresh",
            Load::Write => "write",
            Load::Compute => "compute",
        }
    }

    /// Is the load, on a core. `begun` is called when it is there.
    ///
    /// # Errors
    /// If the core may not be used, or memory runs out.
    pub fn run(self, core: usize, begun: impl FnOnce()) -> Result<(), super::Error> {
        set_parent_process_death_signal(Some(Signal::KILL)).map_err(thread)?;
        realtime::thread::pin(&[core])?;
        begun();
        match self {
            Load::Fresh => fresh().map_err(thread),
            Load::Write => write(),
            Load::Compute => compute(),
        }
    }
}

fn thread(errno: rustix::io::Errno) -> super::Error {
    super::Error::Thread(io::Error::from(errno))
}

fn fresh() -> rustix::io::Result<()> {
    let page_bytes = rustix::param::page_size();
    let bytes = FRESH_PAGES * page_bytes;
    let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    loop {
        // SAFETY: a new mapping at an address of the kernel's choice; the writes are inside of it,
        // and nothing else knows of it when it goes.
        unsafe {
            let map = mmap_anonymous(std::ptr::null_mut(), bytes, protection, flags)?;
            // A kernel without huge pages has none to leave out.
            let _ = madvise(map, bytes, Advice::LinuxNoHugepage);
            for page in 0..FRESH_PAGES {
                map.cast::<u8>().add(page * page_bytes).write_volatile(1);
            }
            munmap(map, bytes)?;
        }
    }
}

fn write() -> ! {
    let mut words = vec![0_u64; WRITE_WORDS];
    let mut value = 0;
    loop {
        value += 1;
        black_box(&mut words).fill(value);
    }
}

fn compute() -> ! {
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

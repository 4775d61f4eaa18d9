//! The side area of a recording: what is recorded, and the names that the records refer to.
//!
//! ```text
//!   byte 4096     settings: magic, version, flags, libraries       written before processes attach
//!        5152     counters: processes, troubles, bytes of names
//!        5288     the guard: flags, bound, libraries, counters
//!        6480     the bandwidth lock: period, socket, counters
//!        8192     names, one after the other, to the end of the area
//!
//!   name          | length | kind | process | a | b | bytes, padded to 8 |
//!                 0        4      8         12(16)  24  32
//! ```
//!
//! A name is added by taking room with one addition, filling it, and storing the length last; a
//! name without its length (its writer was killed) ends what can be read after it, so the length
//! of the room is stored first, in the upper half of the same word. Everything here is wait-free
//! and makes no system call. What a process of the recorded program wrote is an allegation: the
//! reader checks each length.

use crate::bandwidth::{BANDWIDTH_COUNTS, Bandwidth, SOCKET_BYTES};
use crate::guard::{GUARD_COUNTS, Guard, GuardFlags};
use shm::log::{AREA_CHUNKS, CHUNK_BYTES, SIDE_OFFSET};
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"KTRECORD");
/// Version of the recording's memory, which only processes of one installation share: 2 since chunks
/// have segments of several threads.
const VERSION: u32 = 2;
const NAMES_OFFSET: usize = 8192;
const NAMES_BYTES: usize = AREA_CHUNKS as usize * CHUNK_BYTES - NAMES_OFFSET;
/// Longest list of libraries, in bytes.
pub const LIBRARIES_BYTES: usize = 1024;
const NAME_HEAD: usize = 32;

/// Settings of a recording.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Settings {
    /// Only locks that had to be waited for.
    pub contended_only: bool,
    /// Locks taken from anywhere, not only from `libraries`.
    pub all_locks: bool,
    /// Also the start and the end of work on the GPU, through CUPTI.
    pub gpu: bool,
    /// True if the oldest records go when the memory is full.
    pub keep_last: bool,
    /// Beginnings of the file names of libraries whose locks are recorded.
    pub libraries: Vec<String>,
    /// Nothing: the program is only guarded.
    pub nothing: bool,
    /// Settings of the guard of its locks, if they are guarded.
    pub guard: Option<Guard>,
    /// Settings for the bandwidth lock, if it holds that.
    pub bandwidth: Option<Bandwidth>,
}

/// Something that went wrong while recording, and was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Trouble {
    /// `cuGetProcAddress` or `dlsym` gave out a function of the driver that is not in the table.
    UncoveredFunction,
    /// A process could not attach to the recording.
    NotAttached,
    /// There was no room for a name.
    NameLost,
    /// A function of the C library that is wrapped was not found.
    FunctionMissing,
    /// A call of the driver went deeper than the record of nested calls.
    NestedTooDeep,
    /// CUPTI was asked for and could not be used, or gave records that were not understood.
    Cupti,
    /// A process ran under Valgrind, where nothing is recorded.
    Valgrind,
}

/// Number of kinds of trouble.
pub const TROUBLES: usize = 7;

#[repr(C)]
struct Shared {
    magic: AtomicU64,
    version: AtomicU32,
    flags: AtomicU32,
    size: AtomicU64,
    libraries_bytes: AtomicU32,
    reserved: AtomicU32,
    libraries: [AtomicU8; LIBRARIES_BYTES],
    processes: AtomicU32,
    names_used: AtomicU32,
    troubles: [AtomicU64; 16],
    guard_flags: AtomicU32,
    guard_libraries_bytes: AtomicU32,
    guard_bound_ns: AtomicU64,
    guard_libraries: [AtomicU8; LIBRARIES_BYTES],
    guard_counters: [AtomicU64; GUARD_COUNTS],
    bandwidth: BandwidthSettings,
}

/// Settings for taking the bandwidth lock; without a socket it is not taken.
#[repr(C)]
pub(crate) struct BandwidthSettings {
    pub period_ns: AtomicU64,
    pub socket_bytes: AtomicU32,
    pub socket: [AtomicU8; SOCKET_BYTES],
    pub counters: [AtomicU64; BANDWIDTH_COUNTS],
}

const _: () = assert!(size_of::<Shared>() + SIDE_OFFSET <= NAMES_OFFSET);

const CONTENDED_ONLY: u32 = 1;
const ALL_LOCKS: u32 = 2;
const GPU: u32 = 4;
const KEEP_LAST: u32 = 8;
const NOTHING: u32 = 16;

/// The side area at its place in a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    base: *const u8,
}

// SAFETY: an address; everything behind it is atomics.
unsafe impl Send for Side {}
// SAFETY: as for `Send`.
unsafe impl Sync for Side {}

/// Kind of object that a name names. `a` and `b` of [`Name`] are given in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum NameKind {
    /// A process image: time of its start, process id * 2^32 + parent's process id; its program.
    Process = 1,
    /// A loaded library or program: first address, end address; its file.
    Module = 2,
    /// A kernel: its function handle, 0; its name.
    Kernel = 3,
    /// A string that records refer to by number: number, 0.
    Text = 4,
}

impl NameKind {
    fn from_code(code: u16) -> Option<NameKind> {
        [NameKind::Process, NameKind::Module, NameKind::Kernel, NameKind::Text]
            .into_iter()
            .find(|kind| *kind as u16 == code)
    }
}

/// A name read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Kind of object that it names.
    pub kind: NameKind,
    /// Number of the process image that added it.
    pub process: u32,
    /// See [`NameKind`].
    pub a: u64,
    /// See [`NameKind`].
    pub b: u64,
    /// The text, with anything that is not UTF-8 replaced.
    pub text: String,
}

impl Side {
    /// The side area of the mapping at `base`.
    ///
    /// # Safety
    /// The mapping must have at least [`AREA_CHUNKS`] chunks and stay as long as it is used.
    pub const unsafe fn over(base: *const u8) -> Side {
        Side { base }
    }

    fn shared(&self) -> &Shared {
        // SAFETY: `over` was promised that the mapping is large enough; atomics only, aligned
        // because mappings begin at a page.
        unsafe { &*self.base.add(SIDE_OFFSET).cast::<Shared>() }
    }

    /// Writes the settings of a recording of `size` bytes. False when the libraries are too many.
    /// The path of the socket must fit.
    pub fn begin(&self, settings: &Settings, size: usize) -> bool {
        let shared = self.shared();
        if let Some(bandwidth) = &settings.bandwidth {
            let (socket, to) = (bandwidth.socket.as_os_str().as_bytes(), &shared.bandwidth);
            for (at, byte) in to.socket.iter().zip(socket) {
                at.store(*byte, Ordering::Relaxed);
            }
            to.period_ns.store(bandwidth.period_ns, Ordering::Relaxed);
            to.socket_bytes.store(socket.len() as u32, Ordering::Relaxed);
        }
        let guard = settings.guard.clone().unwrap_or_default();
        let fit = write_list(&settings.libraries, &shared.libraries, &shared.libraries_bytes)
            && write_list(&guard.libraries, &shared.guard_libraries, &shared.guard_libraries_bytes);
        if !fit {
            return false;
        }
        let flag = |on: bool, flag: u32| if on { flag } else { 0 };
        let flags = flag(settings.contended_only, CONTENDED_ONLY)
            | flag(settings.all_locks, ALL_LOCKS)
            | flag(settings.gpu, GPU)
            | flag(settings.keep_last, KEEP_LAST)
            | flag(settings.nothing, NOTHING);
        shared.flags.store(flags, Ordering::Relaxed);
        shared.guard_flags.store(GuardFlags::of(&guard).bits(), Ordering::Relaxed);
        shared.guard_bound_ns.store(guard.bound_ns, Ordering::Relaxed);
        shared.size.store(size as u64, Ordering::Relaxed);
        shared.version.store(VERSION, Ordering::Relaxed);
        // Release: pairs with the acquire of `flags`; the settings are whole after it.
        shared.magic.store(MAGIC, Ordering::Release);
        true
    }

    /// Returns the settings of the guard, and the bound in nanoseconds. For those who have the
    /// flags.
    pub fn guard(&self) -> (GuardFlags, u64) {
        let shared = self.shared();
        let flags = GuardFlags::from_bits(shared.guard_flags.load(Ordering::Relaxed));
        (flags, shared.guard_bound_ns.load(Ordering::Relaxed))
    }

    pub(crate) fn bandwidth_settings(&self) -> &BandwidthSettings {
        &self.shared().bandwidth
    }

    pub(crate) fn guard_counters(&self) -> &[AtomicU64; GUARD_COUNTS] {
        &self.shared().guard_counters
    }

    /// The settings as flags, for a process that attaches with a mapping of `size` bytes; `None`
    /// when this is no recording of this version and size.
    pub fn flags(&self, size: usize) -> Option<Flags> {
        let shared = self.shared();
        // Acquire: pairs with the release of `begin`.
        let fits = shared.magic.load(Ordering::Acquire) == MAGIC
            && shared.version.load(Ordering::Relaxed) == VERSION
            && shared.size.load(Ordering::Relaxed) == size as u64;
        fits.then(|| Flags(shared.flags.load(Ordering::Relaxed)))
    }

    /// Returns true if a file of this name is one of the libraries whose locks are recorded.
    pub fn names_library(&self, file_name: &[u8]) -> bool {
        let shared = self.shared();
        names(&shared.libraries, &shared.libraries_bytes, file_name)
    }

    /// Returns true if a file of this name is one of the libraries whose locks are guarded.
    pub fn names_guarded_library(&self, file_name: &[u8]) -> bool {
        let shared = self.shared();
        names(&shared.guard_libraries, &shared.guard_libraries_bytes, file_name)
    }

    /// A number for a process image, unique in the recording; counts from 1.
    pub fn enter_process(&self) -> u32 {
        self.shared().processes.fetch_add(1, Ordering::Relaxed).wrapping_add(1)
    }

    /// Counts a trouble.
    pub fn count(&self, trouble: Trouble) {
        self.shared().troubles[trouble as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of times that each trouble was counted, in the order of [`Trouble`].
    pub fn troubles(&self) -> [u64; TROUBLES] {
        std::array::from_fn(|at| self.shared().troubles[at].load(Ordering::Relaxed))
    }

    /// Adds a name; false when there is no room, which is counted.
    pub fn add(&self, kind: NameKind, process: u32, a: u64, b: u64, text: &[u8]) -> bool {
        let text = &text[..text.len().min(4096)];
        let room = (NAME_HEAD + text.len()).next_multiple_of(8);
        let used = &self.shared().names_used;
        let at = used.fetch_add(room as u32, Ordering::Relaxed) as usize;
        if at + room > NAMES_BYTES {
            // Kept from running over when very many come.
            used.store(NAMES_BYTES as u32, Ordering::Relaxed);
            self.count(Trouble::NameLost);
            return false;
        }
        let word = |index: usize| -> &AtomicU64 {
            // SAFETY: inside the names' bytes (checked), aligned to 8 since all rooms are.
            unsafe { &*self.base.add(NAMES_OFFSET + at + index * 8).cast::<AtomicU64>() }
        };
        word(0).store((room as u64) << 32, Ordering::Relaxed);
        word(1).store(u64::from(process) << 32 | u64::from(kind as u16), Ordering::Relaxed);
        word(2).store(a, Ordering::Relaxed);
        word(3).store(b, Ordering::Relaxed);
        for (index, bytes) in text.chunks(8).enumerate() {
            let mut padded = [0; 8];
            padded[..bytes.len()].copy_from_slice(bytes);
            word(4 + index).store(u64::from_le_bytes(padded), Ordering::Relaxed);
        }
        // Release: pairs with the acquire of `names`; the name is whole after it.
        word(0).store((room as u64) << 32 | text.len() as u64 | 1 << 31, Ordering::Release);
        true
    }

    /// All names that are whole, in the order in which they were added.
    pub fn names(&self) -> Vec<Name> {
        let used = (self.shared().names_used.load(Ordering::Relaxed) as usize).min(NAMES_BYTES);
        let word = |offset: usize| -> u64 {
            // SAFETY: callers stay below `used`, which is inside the names' bytes; 8-aligned.
            unsafe { &*self.base.add(NAMES_OFFSET + offset).cast::<AtomicU64>() }
                .load(Ordering::Acquire)
        };
        let mut names = Vec::new();
        let mut at = 0;
        while at + NAME_HEAD <= used {
            let head = word(at);
            let room = (head >> 32) as usize;
            if room < NAME_HEAD || room % 8 != 0 || at + room > used {
                break;
            }
            let length = head as u32 as usize & 0x7fff_ffff;
            if head >> 31 & 1 == 1 && NAME_HEAD + length <= room {
                names.extend(read_name(length, |index| word(at + index * 8)));
            }
            at += room;
        }
        names
    }
}

/// Writes a list, its parts divided by zeros; false when it is too long.
fn write_list(parts: &[String], to: &[AtomicU8; LIBRARIES_BYTES], length: &AtomicU32) -> bool {
    let list = parts.join("\0");
    if list.len() > LIBRARIES_BYTES {
        return false;
    }
    for (at, byte) in to.iter().zip(list.bytes()) {
        at.store(byte, Ordering::Relaxed);
    }
    length.store(list.len() as u32, Ordering::Relaxed);
    true
}

/// Returns true if a name begins with one of a list's parts.
fn names(list: &[AtomicU8; LIBRARIES_BYTES], length: &AtomicU32, name: &[u8]) -> bool {
    let length = (length.load(Ordering::Relaxed) as usize).min(LIBRARIES_BYTES);
    let mut start = 0;
    for end in 0..=length {
        if end < length && list[end].load(Ordering::Relaxed) != 0 {
            continue;
        }
        let prefix = &list[start..end];
        let fits = prefix.len() <= name.len()
            && prefix.iter().zip(name).all(|(at, byte)| at.load(Ordering::Relaxed) == *byte);
        if fits && !prefix.is_empty() {
            return true;
        }
        start = end + 1;
    }
    false
}

fn read_name(length: usize, word: impl Fn(usize) -> u64) -> Option<Name> {
    let kind = NameKind::from_code(word(1) as u16)?;
    let mut bytes: Vec<u8> =
        (0..length.div_ceil(8)).flat_map(|index| word(4 + index).to_le_bytes()).collect();
    bytes.truncate(length);
    Some(Name {
        kind,
        process: (word(1) >> 32) as u32,
        a: word(2),
        b: word(3),
        text: String::from_utf8_lossy(&bytes).into_owned(),
    })
}

/// Settings as a process that records needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    /// Only locks that had to be waited for.
    pub fn contended_only(self) -> bool {
        self.0 & CONTENDED_ONLY != 0
    }

    /// Locks taken from anywhere.
    pub fn all_locks(self) -> bool {
        self.0 & ALL_LOCKS != 0
    }

    /// Work on the GPU too.
    pub fn gpu(self) -> bool {
        self.0 & GPU != 0
    }

    /// Nothing is recorded: the program is only guarded.
    pub fn nothing(self) -> bool {
        self.0 & NOTHING != 0
    }

    /// Returns the part of the records that a full log keeps: the first or the last ones.
    pub fn keep(self) -> shm::log::Keep {
        if self.0 & KEEP_LAST != 0 { shm::log::Keep::Last } else { shm::log::Keep::First }
    }
}

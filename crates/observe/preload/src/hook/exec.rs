//! Programs that are started where this library is not: under another root, in another mount
//! namespace, by a user who may not read it.
//!
//! Their dynamic linker would look for it in vain, and say so on the standard error stream. So the
//! functions that start programs look first whether it can be opened, as the linker will, and leave
//! it out of the new program's environment if it cannot. That program, and those that it starts,
//! run unrecorded.
//!
//! This may run in a child of `vfork`, in its parent's memory: nothing is stored here but pages of
//! its own, which only a failed call gives back.

use super::Object;
use crate::{attachment, object, real};
use record::Trouble;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, Ordering};

/// This library's path, as the dynamic linker knows it; null before that is known.
static PATH: AtomicPtr<c_char> = AtomicPtr::new(null_mut());
const VARIABLE: &[u8] = b"LD_PRELOAD=";
const FILE_NAME: &[u8] = b"/libkeeptime_preload.so";

/// A list of C strings that ends with a null pointer.
type Strings = *const *const c_char;

/// Finds the library's path out. Only for the constructor.
pub(crate) fn prepare() {
    let found = object::Object::at(prepare as *const () as usize);
    let path = found.map_or(null(), |object| object.path);
    // Relaxed: the path was written when the library was loaded, before this code ran.
    PATH.store(path.cast_mut(), Ordering::Relaxed);
}

/// `int execve(const char *path, char *const argv[], char *const envp[])`
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn execve(path: Object, argv: Object, envp: Object) -> c_int {
    // SAFETY: the program's own arguments, with an environment that is as good.
    unsafe { with_environment(envp, |envp| real::execve()(path, argv, envp)) }
}

/// `int execvpe(const char *file, char *const argv[], char *const envp[])`
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn execvpe(file: Object, argv: Object, envp: Object) -> c_int {
    // SAFETY: as in `execve`.
    unsafe { with_environment(envp, |envp| real::execvpe()(file, argv, envp)) }
}

/// `int fexecve(int fd, char *const argv[], char *const envp[])`
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn fexecve(fd: c_int, argv: Object, envp: Object) -> c_int {
    // SAFETY: as in `execve`.
    unsafe { with_environment(envp, |envp| real::fexecve()(fd, argv, envp)) }
}

/// `int execv(const char *path, char *const argv[])`
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn execv(path: Object, argv: Object) -> c_int {
    // SAFETY: as in `execve`; without an environment of its own the call takes the program's.
    unsafe {
        match Environment::without_library(environ().cast()) {
            None => real::execv()(path, argv),
            Some(other) => other.start(|envp| real::execve()(path, argv, envp)),
        }
    }
}

/// `int execvp(const char *file, char *const argv[])`
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn execvp(file: Object, argv: Object) -> c_int {
    // SAFETY: as in `execv`.
    unsafe {
        match Environment::without_library(environ().cast()) {
            None => real::execvp()(file, argv),
            Some(other) => other.start(|envp| real::execvpe()(file, argv, envp)),
        }
    }
}

/// `int posix_spawn(pid_t *pid, const char *path, ..., char *const argv[], char *const envp[])`
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn posix_spawn(
    pid: Object,
    path: Object,
    actions: Object,
    attributes: Object,
    argv: Object,
    envp: Object,
) -> c_int {
    let spawn = real::posix_spawn();
    // SAFETY: as in `execve`.
    unsafe { with_environment(envp, |envp| spawn(pid, path, actions, attributes, argv, envp)) }
}

/// `int posix_spawnp(pid_t *pid, const char *file, ..., char *const argv[], char *const envp[])`
///
/// # Safety
/// As the C library's.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn posix_spawnp(
    pid: Object,
    file: Object,
    actions: Object,
    attributes: Object,
    argv: Object,
    envp: Object,
) -> c_int {
    let spawn = real::posix_spawnp();
    // SAFETY: as in `execve`.
    unsafe { with_environment(envp, |envp| spawn(pid, file, actions, attributes, argv, envp)) }
}

/// The program's environment.
fn environ() -> Object {
    unsafe extern "C" {
        static environ: Object;
    }
    // SAFETY: the C library's variable; who changes it in another thread meanwhile makes its own
    // call as unsafe.
    unsafe { environ }
}

/// Calls a function that starts a program with an environment that is right for it.
///
/// # Safety
/// `envp` must be null or a list of C strings.
unsafe fn with_environment(envp: Object, start: impl FnOnce(Object) -> c_int) -> c_int {
    // SAFETY: the caller's promise.
    match unsafe { Environment::without_library(envp.cast()) } {
        None => start(envp),
        Some(other) => other.start(start),
    }
}

/// An environment in pages of its own: the pointers, then the text of `LD_PRELOAD`.
struct Environment {
    base: Object,
    size: usize,
}

impl Environment {
    /// `None` where the environment is right as it is, or there is no memory for another.
    ///
    /// # Safety
    /// `envp` must be null or a list of C strings.
    unsafe fn without_library(envp: Strings) -> Option<Environment> {
        // SAFETY: the caller's promise.
        let (place, count) = unsafe { find(envp)? };
        // SAFETY: as above.
        let value = unsafe { CStr::from_ptr(*envp.add(place)) }.to_bytes().get(VARIABLE.len()..)?;
        if !value.split(is_separator).any(is_library) || can_be_opened() {
            return None;
        }
        let pointers = (count + 1) * size_of::<*const c_char>();
        let size = pointers + VARIABLE.len() + value.len() + 1;
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing.
        let base = unsafe { rustix::mm::mmap_anonymous(null_mut(), size, access, flags).ok()? };
        // SAFETY: the mapping has room for so many bytes of text behind the pointers.
        let has_others = unsafe { write_others(base.cast::<u8>().add(pointers), value) };
        let entries = base.cast::<*const c_char>();
        let mut written = 0;
        for entry in 0..count {
            // SAFETY: both lists have `count` entries, and the new one a null pointer more, which
            // is there already; the text behind it ends with a zero.
            unsafe {
                let is_variable = entry == place;
                if is_variable && !has_others {
                    continue;
                }
                let text = base.cast::<c_char>().add(pointers).cast_const();
                let text = if is_variable { text } else { *envp.add(entry) };
                entries.add(written).write(text);
            }
            written += 1;
        }
        Some(Environment { base, size })
    }

    /// Calls a function that starts a program with this environment.
    fn start(self, start: impl FnOnce(Object) -> c_int) -> c_int {
        if let Some(side) = attachment::side() {
            side.count(Trouble::NotAttached);
        }
        let result = start(self.base);
        // SAFETY: the mapping is this function's, and the call is over.
        let _ = unsafe { rustix::mm::munmap(self.base, self.size) };
        result
    }
}

/// The place of `LD_PRELOAD`, and how many variables there are.
///
/// # Safety
/// `envp` must be null or a list of C strings.
unsafe fn find(envp: Strings) -> Option<(usize, usize)> {
    if envp.is_null() {
        return None;
    }
    let (mut place, mut count) = (None, 0);
    // SAFETY: the list ends with a null pointer, and each entry with a zero.
    unsafe {
        while !(*envp.add(count)).is_null() {
            if CStr::from_ptr(*envp.add(count)).to_bytes().starts_with(VARIABLE) {
                place.get_or_insert(count);
            }
            count += 1;
        }
    }
    place.map(|place| (place, count))
}

/// Writes the variable with all libraries but this one; false if there is no other.
///
/// # Safety
/// `into` must have room for the variable's name, its value and a zero.
unsafe fn write_others(into: *mut u8, value: &[u8]) -> bool {
    let mut length = 0;
    let mut put = |bytes: &[u8]| {
        // SAFETY: all that is put is a part of the variable as it was.
        unsafe { into.add(length).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        length += bytes.len();
    };
    put(VARIABLE);
    let mut has_others = false;
    for other in value.split(is_separator).filter(|one| !one.is_empty() && !is_library(one)) {
        if has_others {
            put(b":");
        }
        put(other);
        has_others = true;
    }
    has_others
}

fn is_separator(byte: &u8) -> bool {
    matches!(byte, b':' | b' ')
}

fn is_library(path: &[u8]) -> bool {
    path.ends_with(FILE_NAME)
}

/// Returns true if the dynamic linker of another program can open this library. Once the program
/// has restricted its system calls, nothing is tried.
fn can_be_opened() -> bool {
    let path = PATH.load(Ordering::Relaxed);
    if path.is_null() || attachment::is_suspended() {
        return true;
    }
    // SAFETY: the dynamic linker's own string, which stays as this library does.
    let path = unsafe { CStr::from_ptr(path) };
    let opened = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    !matches!(opened, Err(Errno::NOENT | Errno::ACCESS | Errno::NOTDIR | Errno::PERM))
}

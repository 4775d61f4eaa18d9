//! The functions behind the hooks: those that the program would have called without this library.
//!
//! They are found all at once, by this library's constructor or when the first hook is called,
//! which may be before any constructor has run. Threads that find them at the same time store the
//! same addresses.
//!
//! To find out whether a lock is free, a hook may attempt to take it before it calls the function
//! that the program called ([`attempt`]). That is not what the program called, so it is done only
//! where no other library sees it: where all functions that take such a lock are the C library's
//! own. Another library that has put itself before them may wrap only some, and would find locks
//! let go that it never saw taken.

use crate::elf::{self, Found};
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Object = *mut c_void;

macro_rules! functions {
    ($($name:ident ( $($argument:ty),* ) -> $result:ty;)*) => {
        #[allow(non_camel_case_types, clippy::enum_variant_names)]
        #[derive(Clone, Copy)]
        #[repr(usize)]
        pub(crate) enum Index { $($name,)* Count }

        const NAMES: [&CStr; Index::Count as usize] =
            [$(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("no name has a zero inside"),
            },)*];

        $(
            /// The function of this name behind the hook.
            #[allow(dead_code)] // Some are only jumped to.
            #[inline(always)]
            pub(crate) fn $name() -> unsafe extern "C-unwind" fn($($argument),*) -> $result {
                // SAFETY: the address is that of the C library's function of this name, or of
                // `missing`, which can be called with any arguments.
                unsafe { transmute::<usize, _>(address(Index::$name as usize)) }
            }
        )*
    };
}

functions! {
    pthread_mutex_init(Object, Object) -> c_int;
    pthread_mutex_destroy(Object) -> c_int;
    pthread_mutex_lock(Object) -> c_int;
    pthread_mutex_trylock(Object) -> c_int;
    pthread_mutex_timedlock(Object, Object) -> c_int;
    pthread_mutex_clocklock(Object, c_int, Object) -> c_int;
    pthread_mutex_unlock(Object) -> c_int;
    pthread_rwlock_init(Object, Object) -> c_int;
    pthread_rwlock_destroy(Object) -> c_int;
    pthread_rwlock_rdlock(Object) -> c_int;
    pthread_rwlock_tryrdlock(Object) -> c_int;
    pthread_rwlock_timedrdlock(Object, Object) -> c_int;
    pthread_rwlock_clockrdlock(Object, c_int, Object) -> c_int;
    pthread_rwlock_wrlock(Object) -> c_int;
    pthread_rwlock_trywrlock(Object) -> c_int;
    pthread_rwlock_timedwrlock(Object, Object) -> c_int;
    pthread_rwlock_clockwrlock(Object, c_int, Object) -> c_int;
    pthread_rwlock_unlock(Object) -> c_int;
    pthread_cond_init(Object, Object) -> c_int;
    pthread_cond_destroy(Object) -> c_int;
    pthread_cond_wait(Object, Object) -> c_int;
    pthread_cond_timedwait(Object, Object, Object) -> c_int;
    pthread_cond_clockwait(Object, Object, c_int, Object) -> c_int;
    pthread_cond_signal(Object) -> c_int;
    pthread_cond_broadcast(Object) -> c_int;
    pthread_spin_init(Object, c_int) -> c_int;
    pthread_spin_destroy(Object) -> c_int;
    pthread_spin_lock(Object) -> c_int;
    pthread_spin_trylock(Object) -> c_int;
    pthread_spin_unlock(Object) -> c_int;
    sem_init(Object, c_int, u32) -> c_int;
    sem_destroy(Object) -> c_int;
    sem_wait(Object) -> c_int;
    sem_trywait(Object) -> c_int;
    sem_timedwait(Object, Object) -> c_int;
    sem_clockwait(Object, c_int, Object) -> c_int;
    sem_post(Object) -> c_int;
    pthread_barrier_init(Object, Object, u32) -> c_int;
    pthread_barrier_destroy(Object) -> c_int;
    pthread_barrier_wait(Object) -> c_int;
    pthread_once(Object, Object) -> c_int;
    mtx_init(Object, c_int) -> c_int;
    mtx_destroy(Object) -> ();
    mtx_lock(Object) -> c_int;
    mtx_trylock(Object) -> c_int;
    mtx_timedlock(Object, Object) -> c_int;
    mtx_unlock(Object) -> c_int;
    cnd_wait(Object, Object) -> c_int;
    cnd_timedwait(Object, Object, Object) -> c_int;
    cnd_signal(Object) -> c_int;
    cnd_broadcast(Object) -> c_int;
    call_once(Object, Object) -> ();
    pthread_testcancel() -> ();
    dlsym(Object, Object) -> Object;
    dlvsym(Object, Object, Object) -> Object;
    dlclose(Object) -> c_int;
    mlockall(c_int) -> c_int;
    prctl(c_int, usize, usize, usize, usize) -> c_int;
    syscall(i64, usize, usize, usize, usize, usize, usize) -> i64;
    execve(Object, Object, Object) -> c_int;
    execvpe(Object, Object, Object) -> c_int;
    fexecve(c_int, Object, Object) -> c_int;
    execv(Object, Object) -> c_int;
    execvp(Object, Object) -> c_int;
    posix_spawn(Object, Object, Object, Object, Object, Object) -> c_int;
    posix_spawnp(Object, Object, Object, Object, Object, Object) -> c_int;
    _dl_find_object(Object, Object) -> c_int;
}

const COUNT: usize = Index::Count as usize;
/// Addresses by [`Index`]; 0 before they are known.
pub(crate) static ADDRESSES: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
static SOME_MISSING: AtomicBool = AtomicBool::new(false);

/// An attempt to take a lock that the program did not ask for.
#[derive(Clone, Copy)]
#[repr(usize)]
#[allow(missing_docs)] // The table says it.
pub(crate) enum Attempt {
    Mutex,
    Read,
    Write,
    Spin,
    Semaphore,
    C11,
}

const ATTEMPT_COUNT: usize = 6;

/// Result of an attempt that was not made, since another library could see it. No function returns
/// it.
pub(crate) const NOT_TRIED: c_int = c_int::MIN;

/// The function that attempts, and those that the program may call instead, in the order of
/// [`Attempt`].
const TAKERS: [(Index, &[Index]); ATTEMPT_COUNT] = [
    (Index::pthread_mutex_trylock, MUTEX_TAKERS),
    (Index::pthread_rwlock_tryrdlock, RWLOCK_TAKERS),
    (Index::pthread_rwlock_trywrlock, RWLOCK_TAKERS),
    (Index::pthread_spin_trylock, &[Index::pthread_spin_lock]),
    (Index::sem_trywait, &[Index::sem_wait, Index::sem_timedwait, Index::sem_clockwait]),
    (Index::mtx_trylock, &[Index::mtx_lock, Index::mtx_timedlock]),
];
const MUTEX_TAKERS: &[Index] = &[
    Index::pthread_mutex_lock,
    Index::pthread_mutex_timedlock,
    Index::pthread_mutex_clocklock,
    Index::pthread_mutex_trylock,
];
const RWLOCK_TAKERS: &[Index] = &[
    Index::pthread_rwlock_rdlock,
    Index::pthread_rwlock_timedrdlock,
    Index::pthread_rwlock_clockrdlock,
    Index::pthread_rwlock_tryrdlock,
    Index::pthread_rwlock_wrlock,
    Index::pthread_rwlock_timedwrlock,
    Index::pthread_rwlock_clockwrlock,
    Index::pthread_rwlock_trywrlock,
];
/// Other functions that the guard of mutexes replaces, or relies on.
const MUTEX_OTHERS: &[Index] = &[
    Index::pthread_mutex_unlock,
    Index::pthread_cond_wait,
    Index::pthread_cond_timedwait,
    Index::pthread_cond_clockwait,
];
const RWLOCK_OTHERS: &[Index] = &[Index::pthread_rwlock_unlock];

/// Addresses by [`Attempt`]: of the C library's function, or of [`not_tried`].
pub(crate) static ATTEMPTS: [AtomicUsize; ATTEMPT_COUNT] =
    [const { AtomicUsize::new(0) }; ATTEMPT_COUNT];
static WRAPPED_MUTEXES: AtomicBool = AtomicBool::new(false);
static WRAPPED_RWLOCKS: AtomicBool = AtomicBool::new(false);

/// The function that attempts to take a lock, if no other library sees it; otherwise one that
/// returns [`NOT_TRIED`].
#[inline(always)]
pub(crate) fn attempt(which: Attempt) -> unsafe extern "C-unwind" fn(Object) -> c_int {
    // Relaxed: as in `address`.
    let mut address = ATTEMPTS[which as usize].load(Ordering::Relaxed);
    if address == 0 {
        find(0);
        address = ATTEMPTS[which as usize].load(Ordering::Relaxed);
    }
    // SAFETY: one of the two functions above, which have this signature.
    unsafe { transmute::<usize, _>(address) }
}

/// Returns true if attempts of this kind are made.
#[inline(always)]
pub(crate) fn is_attempted(which: Attempt) -> bool {
    attempt(which) as usize != not_tried as *const () as usize
}

/// Returns true if another library has put functions of mutexes in place of the C library's.
pub(crate) fn wraps_mutexes() -> bool {
    WRAPPED_MUTEXES.load(Ordering::Relaxed)
}

/// Returns true if another library has put functions of read-write locks in place of the C
/// library's.
pub(crate) fn wraps_rwlocks() -> bool {
    WRAPPED_RWLOCKS.load(Ordering::Relaxed)
}

unsafe extern "C-unwind" fn not_tried(_: Object) -> c_int {
    NOT_TRIED
}

#[inline(always)]
fn address(index: usize) -> usize {
    // Relaxed: an address of code that was loaded before this library.
    let address = ADDRESSES[index].load(Ordering::Relaxed);
    if address != 0 { address } else { find(index) }
}

/// Finds the functions; returns the address of one of them.
#[cold]
#[inline(never)]
pub(crate) extern "C" fn find(index: usize) -> usize {
    let mut found = [Found::default(); COUNT];
    elf::find_at_start(&NAMES, &mut found);
    for (at, (address, found)) in ADDRESSES.iter().zip(&found).enumerate() {
        let known = if found.address == 0 { missing as *const () as usize } else { found.address };
        address.store(known, Ordering::Relaxed);
        // Without that one there is another way.
        if found.address == 0 && at != Index::_dl_find_object as usize {
            SOME_MISSING.store(true, Ordering::Relaxed);
        }
    }
    let wraps =
        |functions: &[Index]| functions.iter().any(|index| found[*index as usize].is_wrapped);
    for (address, (attempt, takers)) in ATTEMPTS.iter().zip(TAKERS) {
        let is_seen = wraps(&[attempt]) || wraps(takers);
        let not_tried = not_tried as *const () as usize;
        let own = ADDRESSES[attempt as usize].load(Ordering::Relaxed);
        address.store(if is_seen { not_tried } else { own }, Ordering::Relaxed);
    }
    let mutexes = wraps(MUTEX_TAKERS) || wraps(MUTEX_OTHERS);
    WRAPPED_MUTEXES.store(mutexes, Ordering::Relaxed);
    WRAPPED_RWLOCKS.store(wraps(RWLOCK_TAKERS) || wraps(RWLOCK_OTHERS), Ordering::Relaxed);
    ADDRESSES[index].load(Ordering::Relaxed)
}

/// Finds the functions now, so that no thread does while it holds locks.
pub(crate) fn prepare() {
    address(0);
}

/// Returns true if a function was not found: an old C library lacks some of the newest.
pub(crate) fn some_missing() -> bool {
    SOME_MISSING.load(Ordering::Relaxed)
}

/// Stands for a function that the C library does not have. A program that calls it could not
/// have been linked without this library.
extern "C-unwind" fn missing() -> c_int {
    libc::ENOSYS
}

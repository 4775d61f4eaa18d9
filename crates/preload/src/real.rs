//! The functions behind the hooks: those that the program would have called without this library.
//!
//! They are found all at once, by this library's constructor or when the first hook is called,
//! which may be before any constructor has run. Threads that find them at the same time store the
//! same addresses.

use crate::elf;
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

type Object = *mut c_void;

macro_rules! functions {
    ($($name:ident ( $($argument:ty),* ) -> $result:ty;)*) => {
        #[allow(non_camel_case_types, clippy::enum_variant_names)]
        #[derive(Clone, Copy)]
        #[repr(usize)]
        pub enum Index { $($name,)* Count }

        const NAMES: [&CStr; Index::Count as usize] =
            [$(match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("no name has a zero inside"),
            },)*];

        $(
            /// The function of this name behind the hook.
            #[allow(dead_code)] // Some are only jumped to.
            #[inline(always)]
            pub fn $name() -> unsafe extern "C-unwind" fn($($argument),*) -> $result {
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
    prctl(c_int, usize, usize, usize, usize) -> c_int;
    syscall(i64, usize, usize, usize, usize, usize, usize) -> i64;
    _dl_find_object(Object, Object) -> c_int;
}

const COUNT: usize = Index::Count as usize;
/// Addresses by [`Index`]; 0 before they are known.
pub static ADDRESSES: [AtomicUsize; COUNT] = [const { AtomicUsize::new(0) }; COUNT];
static SOME_MISSING: AtomicBool = AtomicBool::new(false);

#[inline(always)]
fn address(index: usize) -> usize {
    // Relaxed: an address of code that was loaded before this library.
    let address = ADDRESSES[index].load(Ordering::Relaxed);
    if address != 0 { address } else { find(index) }
}

/// Finds the functions; returns the address of one of them.
#[cold]
#[inline(never)]
pub extern "C" fn find(index: usize) -> usize {
    let mut found = [0; COUNT];
    elf::find_at_start(&NAMES, &mut found);
    for (at, (address, found)) in ADDRESSES.iter().zip(found).enumerate() {
        let known = if found == 0 { missing as *const () as usize } else { found };
        address.store(known, Ordering::Relaxed);
        // Without that one there is another way.
        if found == 0 && at != Index::_dl_find_object as usize {
            SOME_MISSING.store(true, Ordering::Relaxed);
        }
    }
    ADDRESSES[index].load(Ordering::Relaxed)
}

/// Finds the functions now, so that no thread does while it holds locks.
pub fn prepare() {
    address(0);
}

/// Whether a function was not found: an old C library lacks some of the newest.
pub fn some_missing() -> bool {
    SOME_MISSING.load(Ordering::Relaxed)
}

/// Stands for a function that the C library does not have. A program that calls it could not
/// have been linked without this library.
extern "C-unwind" fn missing() -> c_int {
    libc::ENOSYS
}

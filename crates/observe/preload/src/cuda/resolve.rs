//! Hands out hooks where a program looks the driver's functions up.
//!
//! The real function answers first. Then the address that it gave is looked for among those of
//! the driver's exported functions: if it is one of them, the program gets its hook, which has
//! the same arguments; if it is not, the program gets the driver's address, and it is counted.
//!
//! A search through all libraries ends at the hook that this library exports, whether there is a
//! driver or not. The program gets it only if it had found something without this library.

use super::call::hook;
use super::{Arguments, driver};
use crate::elf;
use crate::object::Object;
use crate::{attachment, bandwidth, real};
use record::Trouble;
use record::cuda::FUNCTIONS;
use std::ffi::{CStr, c_char, c_void};

const DEFAULT: *mut c_void = libc::RTLD_DEFAULT;
const NEXT: *mut c_void = libc::RTLD_NEXT;

/// Result of a search for a symbol.
#[repr(C)]
pub(crate) struct Answer {
    found: *mut c_void,
    /// 0: nothing; the real function is to be jumped to.
    is_known: usize,
}

impl From<Option<*mut c_void>> for Answer {
    fn from(found: Option<*mut c_void>) -> Answer {
        Answer {
            found: found.unwrap_or(std::ptr::null_mut()),
            is_known: usize::from(found.is_some()),
        }
    }
}

/// `dlsym` of a name that begins with `cu`, called from `caller`.
///
/// # Safety
/// As `dlsym`.
pub(crate) unsafe extern "C-unwind" fn look_up(
    library: *mut c_void,
    name: *const c_char,
    caller: usize,
) -> Answer {
    // SAFETY: the program's own argument.
    let symbol = unsafe { CStr::from_ptr(name) };
    if library == NEXT {
        return after(caller, symbol).into();
    }
    if library == DEFAULT && exported(symbol).is_none() {
        return None.into();
    }
    // SAFETY: the program's own arguments. A search through all libraries finds the same from
    // here: it ends at the hook at the latest.
    let found = unsafe { real::dlsym()(library, name.cast_mut().cast()) };
    let caller = (library == DEFAULT).then_some(caller);
    Some(settle(found, symbol, caller)).into()
}

/// `dlvsym` of a name that begins with `cu`. The hooks have no versions, so that a search through
/// all libraries does not end at them.
///
/// # Safety
/// As `dlvsym`.
pub(crate) unsafe extern "C-unwind" fn look_up_version(
    library: *mut c_void,
    name: *const c_char,
    version: *mut c_void,
) -> Answer {
    if library == DEFAULT || library == NEXT {
        return None.into();
    }
    // SAFETY: the program's own arguments.
    let found = unsafe { real::dlvsym()(library, name.cast_mut().cast(), version) };
    // SAFETY: the real function has just read the C string.
    Some(settle(found, unsafe { CStr::from_ptr(name) }, None)).into()
}

/// The hook that is exported under this name.
fn exported(symbol: &CStr) -> Option<*mut c_void> {
    let number = FUNCTIONS.iter().position(|known| known.symbol.as_bytes() == symbol.to_bytes());
    number.map(|number| hook(number) as *mut c_void)
}

/// Returns the address that the program gets for the one that was found; `caller` if the search
/// goes through the caller's own libraries too.
fn settle(found: *mut c_void, symbol: &CStr, caller: Option<usize>) -> *mut c_void {
    if found.is_null() {
        found
    } else if exported(symbol) == Some(found) {
        found_without(symbol, found, caller)
    } else {
        substitute(found, symbol)
    }
}

/// The hook, if the search had found something without it; else nothing.
fn found_without(symbol: &CStr, hook: *mut c_void, caller: Option<usize>) -> *mut c_void {
    // SAFETY: valid arguments. When it finds nothing it leaves the reason for `dlerror`.
    let next = unsafe { real::dlsym()(NEXT, symbol.as_ptr().cast_mut().cast()) };
    // A library that was opened for itself sees others that were opened for it. Which these are
    // cannot be told: all are taken for its own.
    let is_library = |caller| Object::at(caller).is_some_and(|object| !object.is_program());
    if !next.is_null() || (caller.is_some_and(is_library) && is_defined(symbol)) {
        hook
    } else {
        next
    }
}

/// Returns true if any library but this one defines it.
fn is_defined(symbol: &CStr) -> bool {
    let mut is_defined = false;
    elf::each_next(&mut |library| is_defined |= library.find(symbol).is_some());
    is_defined
}

/// Returns the result of a search after the caller's library, if this library comes after that.
fn after(caller: usize, symbol: &CStr) -> Option<*mut c_void> {
    let own = exported(symbol)?;
    let start = Object::at(caller)?.start;
    let (mut is_after, mut found) = (false, None);
    elf::each_library(&mut |library, _| {
        let is_own = library.base() == elf::own_base();
        if is_after {
            let defined = library.find(symbol).map(|address| address as *mut c_void);
            found = if is_own { Some(own) } else { defined };
        }
        is_after |= Object::at(library.address()).is_some_and(|object| object.start == start);
        is_own || found.is_some()
    });
    Some(settle(found?, symbol, Some(caller)))
}

/// The hook for what was found, if it is a function of the driver.
fn substitute(found: *mut c_void, symbol: &CStr) -> *mut c_void {
    if !attachment::is_on() && !bandwidth::is_on() {
        return found;
    }
    let number = || driver::number(found as usize, symbol.to_bytes());
    match number().or_else(|| driver::refresh().then(number)?) {
        Some(number) if !FUNCTIONS[number].only_asks() => hook(number) as *mut c_void,
        _ => found,
    }
}

/// Replaces the address that `cuGetProcAddress` and its variants have stored with that of the hook.
///
/// # Safety
/// The call of function `number` with these arguments must have succeeded.
pub(super) unsafe fn replace(number: usize, arguments: &Arguments) {
    let [name, out, ..] = *arguments;
    if FUNCTIONS[number].base != "cuGetProcAddress" || name == 0 || out == 0 {
        return;
    }
    // SAFETY: the driver has just read the C string and stored an address.
    unsafe {
        let name = CStr::from_ptr(name as *const c_char);
        let out = out as *mut usize;
        let found = out.read_unaligned();
        match driver::number(found, name.to_bytes()) {
            // The program calls what only asks directly: it is not recorded.
            Some(known) if FUNCTIONS[known].only_asks() => {}
            Some(known) => out.write_unaligned(hook(known) as *const () as usize),
            // A driver whose own references go through its tables gives hooks out itself.
            None if found == 0 || is_hook(found) => {}
            None => count_uncovered(name),
        }
    }
}

fn is_hook(address: usize) -> bool {
    (0..FUNCTIONS.len()).any(|number| hook(number) as usize == address)
}

/// Counts a function that the table should have and whose address is not known.
fn count_uncovered(name: &CStr) {
    let in_table = FUNCTIONS.iter().any(|function| function.base.as_bytes() == name.to_bytes());
    if let (true, Some(side)) = (in_table, attachment::side()) {
        side.count(Trouble::UncoveredFunction);
    }
}

//! Hands out hooks where a program looks the driver's functions up.
//!
//! The real function answers first. Then the address that it gave is looked for among those of
//! the driver's exported functions: if it is one of them, the program gets its hook, which has
//! the same arguments; if it is not, the program gets the driver's address, and it is counted.

use super::call::hook;
use super::{Arguments, driver};
use crate::{attachment, real};
use record::Trouble;
use record::cuda::FUNCTIONS;
use std::ffi::{CStr, c_char, c_void};

/// `dlsym` of a name that begins with `cu`, in a library.
///
/// # Safety
/// As `dlsym`.
pub unsafe extern "C-unwind" fn look_up(library: *mut c_void, name: *mut c_void) -> *mut c_void {
    // SAFETY: the program's own arguments.
    let found = unsafe { real::dlsym()(library, name) };
    // SAFETY: the real function has just read the C string.
    unsafe { substitute(found, CStr::from_ptr(name.cast())) }
}

/// `dlvsym` of a name that begins with `cu`, in a library.
///
/// # Safety
/// As `dlvsym`.
pub unsafe extern "C-unwind" fn look_up_version(
    library: *mut c_void,
    name: *mut c_void,
    version: *mut c_void,
) -> *mut c_void {
    // SAFETY: the program's own arguments.
    let found = unsafe { real::dlvsym()(library, name, version) };
    // SAFETY: the real function has just read the C string.
    unsafe { substitute(found, CStr::from_ptr(name.cast())) }
}

/// The hook for what was found, if it is a function of the driver.
fn substitute(found: *mut c_void, name: &CStr) -> *mut c_void {
    if found.is_null() || !attachment::is_on() {
        return found;
    }
    match driver::number(found as usize, name.to_bytes()) {
        Some(number) => hook(number) as *mut c_void,
        None => found,
    }
}

/// After `cuGetProcAddress` and its variants have succeeded: puts the hook in the place of the
/// address that they stored.
///
/// # Safety
/// The call of function `number` with these arguments must have succeeded.
pub unsafe fn replace(number: usize, arguments: &Arguments) {
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
            Some(known) => out.write_unaligned(hook(known) as *const () as usize),
            None if found != 0 => count_uncovered(name),
            None => {}
        }
    }
}

/// Counts a function that the table should have and whose address is not known.
fn count_uncovered(name: &CStr) {
    let in_table = FUNCTIONS.iter().any(|function| function.base.as_bytes() == name.to_bytes());
    if let (true, Some(side)) = (in_table, attachment::side()) {
        side.count(Trouble::UncoveredFunction);
    }
}

//! Names of kernels: once for each function handle, when it is found or first launched.

use super::{Arguments, driver};
use crate::attachment;
use crate::thread::Thread;
use record::NameKind;
use record::cuda::FUNCTIONS;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU64, Ordering};

const SLOTS: usize = 8192;
/// Handles that have been named; open addressing, never emptied.
static SEEN: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];

/// Returns true if this handle is met for the first time, and the table is not full.
fn is_new(handle: u64) -> bool {
    // Handles are addresses, whose lower bits differ little: the upper bits of the product do.
    let start = (handle.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize;
    for step in 0..32 {
        let slot = &SEEN[start.wrapping_add(step) % SLOTS];
        match slot.load(Ordering::Relaxed) {
            known if known == handle => return false,
            0 => {
                return slot
                    .compare_exchange(0, handle, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            }
            _ => {}
        }
    }
    false
}

fn add(handle: u64, name: &CStr) {
    if let (Some(side), Some(process)) = (attachment::side(), attachment::enter()) {
        side.add(NameKind::Kernel, process, handle, 0, name.to_bytes());
    }
}

/// Names the function that is about to be launched, if the driver can tell its name.
pub(super) fn name(thread: &Thread, handle: u64) {
    if handle == 0 || !is_new(handle) {
        return;
    }
    type GetName = unsafe extern "C-unwind" fn(*mut *const c_char, u64) -> u32;
    for other in [driver::Other::FuncGetName, driver::Other::KernelGetName] {
        let Some(address) = driver::other(other) else { continue };
        // SAFETY: both functions have this signature.
        let get_name = unsafe { std::mem::transmute::<usize, GetName>(address) };
        let mut name = std::ptr::null();
        // SAFETY: the program is about to launch this handle, so it is a function or a kernel;
        // the driver tells which, and stores a name that lives as long as it.
        let result = thread.quietly(|| unsafe { get_name(&raw mut name, handle) });
        if result == super::SUCCESS && !name.is_null() {
            // SAFETY: the driver's names are C strings.
            add(handle, unsafe { CStr::from_ptr(name) });
            return;
        }
    }
}

/// Names a function that the program has just found by its name.
///
/// # Safety
/// The call of function `number` with these arguments must have succeeded.
pub(super) unsafe fn found(number: usize, arguments: &Arguments) {
    let [out, _, name, ..] = *arguments;
    if !matches!(FUNCTIONS[number].base, "cuModuleGetFunction" | "cuLibraryGetKernel")
        || out == 0
        || name == 0
    {
        return;
    }
    // SAFETY: the driver has just stored a handle there, and read a C string here.
    unsafe {
        let handle = (out as *const u64).read_unaligned();
        if is_new(handle) {
            add(handle, CStr::from_ptr(name as *const c_char));
        }
    }
}

//! Search for the loaded library that an address lies in.
//!
//! The C library has a function for that since 2.35, made for unwinding: it takes no lock, makes
//! no system call, and may be called in a signal handler. With an older one the list of libraries
//! is gone through, under the dynamic linker's lock.

use crate::elf::{self, LinkMap};
use crate::real;
use libc::{c_int, c_void, dl_phdr_info, size_t};
use std::ffi::{CStr, c_char};

/// A loaded library or the program.
#[derive(Clone, Copy)]
pub(crate) struct Object {
    /// First address.
    pub start: usize,
    /// The address after the last.
    pub end: usize,
    /// Its path; empty for the program itself. Lives as long as the library is loaded.
    pub path: *const c_char,
}

/// Data that the C library tells; newer ones may tell more.
#[repr(C)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    map: *const LinkMap,
    reserved: [u64; 28],
}

impl Object {
    /// The one that the address lies in; `None` for code that no library brought.
    pub(crate) fn at(address: usize) -> Option<Object> {
        let mut found =
            Found { flags: 0, start: 0, end: 0, map: std::ptr::null(), reserved: [0; 28] };
        let into = std::ptr::from_mut(&mut found).cast();
        // SAFETY: the real function fills a structure that is no larger than this one.
        match unsafe { real::_dl_find_object()(address as *mut c_void, into) } {
            0 if found.map.is_null() => None,
            0 => {
                // SAFETY: the description of a library that is loaded, as long as code in it runs.
                let path = unsafe { (*found.map).path };
                Some(Object { start: found.start, end: found.end, path })
            }
            libc::ENOSYS => Object::listed(address),
            _ => None,
        }
    }

    /// The same, from the list of libraries.
    #[cold]
    fn listed(address: usize) -> Option<Object> {
        struct Search {
            address: usize,
            answer: Option<Object>,
        }
        unsafe extern "C" fn step(info: *mut dl_phdr_info, _: size_t, data: *mut c_void) -> c_int {
            // SAFETY: the dynamic linker passes a valid description, and `data` is the search.
            let (info, search) = unsafe { (&*info, &mut *data.cast::<Search>()) };
            // SAFETY: there are that many program headers.
            let headers =
                unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
            let base = info.dlpi_addr as usize;
            let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
            let ranges = loaded.map(|header| {
                let start = base + header.p_vaddr as usize;
                (start & !4095, start + header.p_memsz as usize)
            });
            let range = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            let Some((start, end)) =
                range.filter(|(start, end)| (*start..*end).contains(&search.address))
            else {
                return 0;
            };
            search.answer = Some(Object { start, end, path: info.dlpi_name });
            1
        }
        let mut search = Search { address, answer: None };
        // SAFETY: `step` has the demanded signature, and the search outlives the call.
        unsafe { libc::dl_iterate_phdr(Some(step), std::ptr::from_mut(&mut search).cast()) };
        search.answer
    }

    /// Returns true if it is the program itself.
    pub(crate) fn is_program(&self) -> bool {
        // SAFETY: a C string that lives as long as the library, whose code is running.
        self.path.is_null() || unsafe { *self.path } == 0
    }

    /// Its path.
    pub(crate) fn path(&self) -> &[u8] {
        if self.is_program() {
            return crate::program::path();
        }
        // SAFETY: as in `is_program`.
        unsafe { CStr::from_ptr(self.path) }.to_bytes()
    }

    /// The last part of its path.
    pub(crate) fn file_name(&self) -> &[u8] {
        elf::file_name(self.path())
    }
}

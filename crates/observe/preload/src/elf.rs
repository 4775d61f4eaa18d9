//! Finds functions in loaded libraries by reading their symbol tables in memory.
//!
//! `dlsym` cannot be used for this: it is hooked here, it looks at who calls it, and it may
//! allocate. The tables are those that the dynamic linker itself uses; the search is that of
//! `RTLD_NEXT` after this library, or of one named library. Of several versions of a symbol the
//! default one is taken, as a newly linked program would.
//!
//! The list of libraries is read under a lock of the dynamic linker's. So it is read when the
//! program calls the dynamic linker itself, or the driver for the first time, but not when it
//! takes a lock. While the process image starts the list is read in the way of a debugger, since
//! the function for it may be another preloaded library's, which has not been set up yet.

use libc::{Elf64_Ehdr, Elf64_Phdr, Elf64_Sym, c_int, c_void, dl_phdr_info, size_t};
use std::ffi::{CStr, c_char};

const DT_NULL: i64 = 0;
const DT_HASH: i64 = 4;
const DT_STRTAB: i64 = 5;
const DT_SYMTAB: i64 = 6;
const DT_GNU_HASH: i64 = 0x6fff_fef5;
const DT_VERSYM: i64 = 0x6fff_fff0;
const HIDDEN_VERSION: u16 = 0x8000;
const STT_GNU_IFUNC: u8 = 10;

/// One loaded library, as its symbol table needs it.
#[derive(Clone, Copy)]
pub(crate) struct Library {
    base: usize,
    symbols: *const Elf64_Sym,
    strings: *const u8,
    versions: *const u16,
    hash: Hash,
}

/// The table that leads from a name to its symbol.
#[derive(Clone, Copy)]
enum Hash {
    /// Today's.
    Gnu(*const u32),
    /// Hash table of libraries linked with `--hash-style=sysv`.
    Plain(*const u32),
}

#[repr(C)]
pub(crate) struct Dynamic {
    tag: i64,
    value: usize,
}

/// The beginning of the dynamic linker's description of a library, as `link.h` shows it.
#[repr(C)]
pub(crate) struct LinkMap {
    base: usize,
    /// Empty for the program itself.
    pub path: *const c_char,
    dynamic: *const Dynamic,
    next: *const LinkMap,
}

impl Library {
    /// # Safety
    /// `info` must describe a library that is loaded and stays so.
    unsafe fn of(info: &dl_phdr_info) -> Option<Library> {
        let base = info.dlpi_addr as usize;
        // SAFETY: the dynamic linker's description has that many program headers.
        let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
        // SAFETY: the caller's promise.
        unsafe { Library::at(base, headers) }
    }

    /// The kernel's own object (vDSO), if it gave this process one: Valgrind's processes have none.
    pub(crate) fn of_kernel() -> Option<Library> {
        // SAFETY: plain calls. That there is none is said by `errno` too, which is the program's.
        let header = unsafe {
            let errno = libc::__errno_location();
            let before = *errno;
            let header = libc::getauxval(libc::AT_SYSINFO_EHDR) as *const Elf64_Ehdr;
            *errno = before;
            header
        };
        // SAFETY: the kernel's promise: a whole object, mapped as it is in a file, which stays.
        unsafe {
            let (first, count) = (header.as_ref()?.e_phoff, (*header).e_phnum);
            let headers = header.byte_add(first as usize).cast::<Elf64_Phdr>();
            let headers = std::slice::from_raw_parts(headers, count.into());
            let loaded = headers.iter().find(|header| header.p_type == libc::PT_LOAD)?;
            Library::at((header as usize).wrapping_sub(loaded.p_vaddr as usize), headers)
        }
    }

    /// # Safety
    /// As for `with`; `headers` must be the library's own.
    unsafe fn at(base: usize, headers: &[Elf64_Phdr]) -> Option<Library> {
        let dynamic =
            headers.iter().find(|header: &&Elf64_Phdr| header.p_type == libc::PT_DYNAMIC)?;
        // SAFETY: the caller's promise.
        unsafe { Library::with(base, (base + dynamic.p_vaddr as usize) as *const Dynamic) }
    }

    /// Reads where the tables are. `None` for what has no such tables.
    ///
    /// # Safety
    /// `dynamic` must be the dynamic section of a library that is loaded to `base` and stays so.
    unsafe fn with(base: usize, dynamic: *const Dynamic) -> Option<Library> {
        let mut entry = dynamic;
        let (mut symbols, mut strings, mut versions, mut gnu, mut plain) = (0, 0, 0, 0, 0);
        // SAFETY: the dynamic section is mapped and ends with a null entry.
        unsafe {
            while (*entry).tag != DT_NULL {
                match (*entry).tag {
                    DT_STRTAB => strings = (*entry).value,
                    DT_SYMTAB => symbols = (*entry).value,
                    DT_VERSYM => versions = (*entry).value,
                    DT_GNU_HASH => gnu = (*entry).value,
                    DT_HASH => plain = (*entry).value,
                    _ => {}
                }
                entry = entry.add(1);
            }
        }
        if symbols == 0 || strings == 0 || (gnu == 0 && plain == 0) {
            return None;
        }
        // The dynamic linker has added the base to these; the kernel's own object is not touched.
        let place = |value: usize| if value >= base { value } else { base + value };
        let hash = if gnu != 0 {
            Hash::Gnu(place(gnu) as *const u32)
        } else {
            Hash::Plain(place(plain) as *const u32)
        };
        Some(Library {
            base,
            symbols: place(symbols) as *const Elf64_Sym,
            strings: place(strings) as *const u8,
            versions: if versions == 0 { 0 } else { place(versions) } as *const u16,
            hash,
        })
    }

    /// Returns the address to which the library was loaded.
    pub(crate) fn base(&self) -> usize {
        self.base
    }

    /// An address in it.
    pub(crate) fn address(&self) -> usize {
        self.symbols as usize
    }

    /// The address of a function that the library defines.
    pub(crate) fn find(&self, name: &CStr) -> Option<usize> {
        // SAFETY: `of` found the tables in a library that stays loaded.
        unsafe {
            match self.hash {
                Hash::Gnu(table) => self.find_by_gnu_hash(table, name),
                Hash::Plain(table) => self.find_in_all(table, name),
            }
        }
    }

    /// Looks at every symbol: such libraries are rare, and each is searched once or twice.
    ///
    /// # Safety
    /// `table` must be the library's hash section: the numbers of buckets and of symbols, ...
    unsafe fn find_in_all(&self, table: *const u32, name: &CStr) -> Option<usize> {
        // SAFETY: the caller's promise; there are that many symbols.
        unsafe {
            let symbols = *table.add(1) as usize;
            let index = (1..symbols).find(|index| self.is(*index, name))?;
            self.value(index)
        }
    }

    /// # Safety
    /// `table` must be the library's GNU hash section: four words, the bloom filter, the buckets,
    /// the chains.
    unsafe fn find_by_gnu_hash(&self, table: *const u32, name: &CStr) -> Option<usize> {
        let wanted = gnu_hash(name.to_bytes());
        // SAFETY: the caller's promise.
        unsafe {
            let [buckets, first, bloom, shift] = [0, 1, 2, 3].map(|at| *table.add(at) as usize);
            if buckets == 0 || bloom == 0 {
                return None;
            }
            let filter = *table.add(4).cast::<u64>().add(wanted as usize / 64 % bloom);
            if filter >> (wanted % 64) & filter >> (wanted >> shift & 63) & 1 == 0 {
                return None;
            }
            let bucket = table.add(4 + bloom * 2);
            let chain = bucket.add(buckets);
            let mut index = *bucket.add(wanted as usize % buckets) as usize;
            if index < first {
                return None;
            }
            loop {
                let hash = *chain.add(index - first);
                if hash | 1 == wanted | 1 && self.is(index, name) {
                    return self.value(index);
                }
                if hash & 1 == 1 {
                    return None;
                }
                index += 1;
            }
        }
    }

    /// Returns true if symbol `index` is the default version of `name`, defined here.
    ///
    /// # Safety
    /// `index` must come from the hash table.
    unsafe fn is(&self, index: usize, name: &CStr) -> bool {
        // SAFETY: the hash table names symbols of the symbol table, and those strings.
        unsafe {
            let symbol = &*self.symbols.add(index);
            let hidden =
                !self.versions.is_null() && *self.versions.add(index) & HIDDEN_VERSION != 0;
            symbol.st_shndx != 0
                && symbol.st_value != 0
                && !hidden
                && CStr::from_ptr(self.strings.add(symbol.st_name as usize).cast()) == name
        }
    }

    /// # Safety
    /// `index` must come from the hash table.
    unsafe fn value(&self, index: usize) -> Option<usize> {
        // SAFETY: as for `is`.
        let symbol = unsafe { &*self.symbols.add(index) };
        let address = self.base + symbol.st_value as usize;
        if symbol.st_info & 0xf == STT_GNU_IFUNC {
            // SAFETY: an indirect function's value is a function without arguments that returns
            // the address of the implementation; the library is relocated by now.
            let choose: extern "C" fn() -> usize = unsafe { std::mem::transmute(address) };
            return Some(choose());
        }
        Some(address)
    }
}

fn gnu_hash(name: &[u8]) -> u32 {
    name.iter().fold(5381u32, |hash, byte| hash.wrapping_mul(33).wrapping_add(u32::from(*byte)))
}

/// Calls `visit` with each loaded library and its path, in the order of the search for symbols,
/// until it returns true.
pub(crate) fn each_library(visit: &mut dyn FnMut(&Library, &CStr) -> bool) {
    unsafe extern "C" fn step(info: *mut dl_phdr_info, _: size_t, data: *mut c_void) -> c_int {
        // SAFETY: `data` is the closure's reference, below, which lives through the call.
        let visit = unsafe { &mut *data.cast::<&mut dyn FnMut(&Library, &CStr) -> bool>() };
        // SAFETY: the dynamic linker passes a valid description.
        let info = unsafe { &*info };
        let path = if info.dlpi_name.is_null() {
            c""
        } else {
            // SAFETY: the name is a C string.
            unsafe { CStr::from_ptr(info.dlpi_name) }
        };
        // SAFETY: what the dynamic linker lists is loaded.
        let library = unsafe { Library::of(info) };
        library.is_some_and(|library| visit(&library, path)).into()
    }
    let mut visit: &mut dyn FnMut(&Library, &CStr) -> bool = visit;
    let data = std::ptr::from_mut(&mut visit).cast::<c_void>();
    // SAFETY: `step` has the demanded signature, and `data` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(step), data) };
}

/// A function that was looked for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Found {
    /// Its address; 0 if it was not found.
    pub address: usize,
    /// True if another library, or the program, has put its own in place of the C library's.
    pub is_wrapped: bool,
}

/// Finds several functions after this library, as `RTLD_NEXT` would: `found[i]` becomes what there
/// is of `names[i]`. For the start of the process image, when no library goes.
pub(crate) fn find_at_start(names: &[&CStr], found: &mut [Found]) {
    #[repr(C)]
    struct Debug {
        version: c_int,
        first: *const LinkMap,
    }
    unsafe extern "C" {
        static _r_debug: Debug;
    }
    let own = own_base();
    let mut passed = false;
    // SAFETY: the dynamic linker's list for debuggers, which is complete before any code but its
    // own runs.
    unsafe {
        let mut at = _r_debug.first;
        while let Some(map) = at.as_ref() {
            if let Some(library) = Library::with(map.base, map.dynamic).filter(|_| passed) {
                let is_wrapped = !is_the_c_librarys(map);
                for (name, found) in names.iter().zip(found.iter_mut()) {
                    if found.address == 0 {
                        let address = library.find(name).unwrap_or(0);
                        *found = Found { address, is_wrapped };
                    }
                }
            }
            passed |= map.base == own;
            at = map.next;
        }
    }
}

/// Returns true if this is the C library, or the part of it for threads that it had before 2.34.
///
/// # Safety
/// `map` must describe a library that is loaded.
unsafe fn is_the_c_librarys(map: &LinkMap) -> bool {
    // SAFETY: the caller's promise; a path is a C string.
    let path = unsafe { if map.path.is_null() { c"" } else { CStr::from_ptr(map.path) } };
    let name = file_name(path.to_bytes());
    name.starts_with(b"libc.so") || name.starts_with(b"libc-2") || name.starts_with(b"libpthread")
}

/// Calls `visit` with each library after this one.
pub(crate) fn each_next(visit: &mut dyn FnMut(&Library)) {
    let own = own_base();
    let mut passed = false;
    each_library(&mut |library, _| {
        if passed {
            visit(library);
        }
        passed |= library.base == own;
        false
    });
}

/// The loaded library whose file name begins with `prefix`, but not this one.
pub(crate) fn library(prefix: &[u8]) -> Option<Library> {
    let own = own_base();
    let mut answer = None;
    each_library(&mut |library, path| {
        if library.base != own && file_name(path.to_bytes()).starts_with(prefix) {
            answer = Some(*library);
        }
        answer.is_some()
    });
    answer
}

/// The last part of a path.
pub(crate) fn file_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// Returns the address to which this library was loaded.
pub(crate) fn own_base() -> usize {
    unsafe extern "C" {
        static __ehdr_start: Elf64_Ehdr;
    }
    std::ptr::addr_of!(__ehdr_start) as usize
}

//! The pages that are shared, as files.

use crate::Error;
use crate::page::PAGE_BYTES;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::ptr::NonNull;

/// Returns true if this is sealed memory of one page, which no process can cut short.
pub(crate) fn is_sealed_page(fd: &OwnedFd) -> bool {
    // Only memory files answer this.
    let seals = rustix::fs::fcntl_get_seals(fd).unwrap_or(SealFlags::empty());
    // The size is read after the seal was seen.
    seals.contains(SealFlags::SHRINK | SealFlags::GROW)
        && rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_size as u64 == PAGE_BYTES as u64)
}

/// A page that is mapped here for reading and writing.
#[derive(Debug)]
pub(crate) struct Page {
    file: OwnedFd,
    base: NonNull<u8>,
}

// SAFETY: the mapping is shared by the threads that have the page and goes with the last owner;
// what is laid over it is atomics only.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

/// Access that others have to a page that is passed to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Others {
    Read,
    Write,
}

impl Page {
    /// A zeroed page.
    pub(crate) fn new(name: &str, others: Others) -> Result<Page, Error> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(name, flags).map_err(Error::system("memfd_create"))?;
        // Only the owner may open it through /proc.
        rustix::fs::fchmod(&file, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .map_err(Error::system("fchmod"))?;
        rustix::fs::ftruncate(&file, PAGE_BYTES as u64).map_err(Error::system("ftruncate"))?;
        let (access, shared) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::POPULATE);
        let null = std::ptr::null_mut();
        // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing.
        let base = unsafe { rustix::mm::mmap(null, PAGE_BYTES, access, shared, &file, 0) }
            .map_err(Error::system("mmap"))?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or(Error::System { call: "mmap", errno: rustix::io::Errno::NOMEM })?;
        let page = Page { file, base };
        let mut seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        if others == Others::Read {
            // The mapping that is there stays writable; no other can become it.
            seals |= SealFlags::FUTURE_WRITE;
        }
        rustix::fs::fcntl_add_seals(&page.file, seals)
            .map_err(Error::system("fcntl(F_ADD_SEALS)"))?;
        Ok(page)
    }

    /// The first byte, at the beginning of a page, valid for [`PAGE_BYTES`] while the page lives.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }
}

impl AsFd for Page {
    fn as_fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: the mapping is this page's own, and no code has a reference into it any more.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), PAGE_BYTES) };
    }
}

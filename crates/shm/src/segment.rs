//! Memory segments that can be passed to another process, and their mappings.
//!
//! A segment is an anonymous memory file of fixed size. It is sealed against shrinking, growing
//! and further sealing before anybody else sees it, so that a mapping of it can never fault
//! because the other side cut the file short. A segment that comes from a peer is accepted only
//! when the seals are there and the file is as large as the peer said.

use crate::Error;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

/// A sealed memory file of fixed size.
#[derive(Debug)]
pub struct Segment {
    fd: OwnedFd,
    size: usize,
}

impl Segment {
    /// Creates a zeroed segment of `size` bytes. `name` shows up in `/proc/PID/maps`.
    ///
    /// # Errors
    /// [`Error::BadSize`] for zero or more than `isize::MAX` bytes, [`Error::System`] when the
    /// kernel refuses.
    pub fn create(name: &str, size: usize) -> Result<Segment, Error> {
        if size == 0 || isize::try_from(size).is_err() {
            return Err(Error::BadSize { size: size as u64 });
        }
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = rustix::fs::memfd_create(name, flags).map_err(Error::system("memfd_create"))?;
        // Nobody but the owner may open it through /proc.
        rustix::fs::fchmod(&fd, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .map_err(Error::system("fchmod"))?;
        rustix::fs::ftruncate(&fd, size as u64).map_err(Error::system("ftruncate"))?;
        let seals = SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
        rustix::fs::fcntl_add_seals(&fd, seals).map_err(Error::system("fcntl(F_ADD_SEALS)"))?;
        Ok(Segment { fd, size })
    }

    /// Accepts a segment that a peer passed and said to have `said` bytes.
    ///
    /// # Errors
    /// [`Error::NotSealed`] unless the file is sealed against shrinking,
    /// [`Error::SegmentTooSmall`] when it has fewer bytes than said, [`Error::BadSize`] when the
    /// peer said zero or an impossible number.
    pub fn accept(fd: OwnedFd, said: u64) -> Result<Segment, Error> {
        let size =
            usize::try_from(said).ok().filter(|size| (1..=isize::MAX as usize).contains(size));
        let size = size.ok_or(Error::BadSize { size: said })?;
        // Only memory files answer this; any other kind of file counts as unsealed.
        let seals = rustix::fs::fcntl_get_seals(&fd).unwrap_or(SealFlags::empty());
        if !seals.contains(SealFlags::SHRINK) {
            return Err(Error::NotSealed { seals: seals.bits() });
        }
        // The size is read after the seal was seen, so it can only have grown since.
        let actual = rustix::fs::fstat(&fd).map_err(Error::system("fstat"))?.st_size as u64;
        if actual < said {
            return Err(Error::SegmentTooSmall { actual, said });
        }
        Ok(Segment { fd, size })
    }

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Takes all of the segment's memory now, so that no later write can find it missing.
    ///
    /// # Errors
    /// [`Error::System`] when there is not that much.
    pub fn reserve(&self) -> Result<(), Error> {
        rustix::fs::fallocate(&self.fd, rustix::fs::FallocateFlags::empty(), 0, self.size as u64)
            .map_err(Error::system("fallocate"))
    }

    /// Maps the segment for reading and writing, with its pages present.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn map(&self) -> Result<Arc<Mapping>, Error> {
        Mapping::new(self).map(Arc::new)
    }
}

impl AsFd for Segment {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A mapping, unmapped when the last holder lets go.
#[derive(Debug)]
pub struct Mapping {
    base: NonNull<u8>,
    size: usize,
    fd: OwnedFd,
}

impl Mapping {
    /// Zeroed memory of `size` bytes that no other process sees unless it is given its file.
    ///
    /// # Errors
    /// [`Error::BadSize`] for none, [`Error::System`] when the kernel refuses.
    pub fn anonymous(size: usize) -> Result<Arc<Mapping>, Error> {
        Segment::create("keeptime-anonymous", size)?.map()
    }

    fn new(segment: &Segment) -> Result<Mapping, Error> {
        let fd = segment.fd.try_clone().map_err(|error| {
            let errno = rustix::io::Errno::from_io_error(&error);
            Error::System { call: "dup", errno: errno.unwrap_or(rustix::io::Errno::IO) }
        })?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut::<c_void>();
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing.
        let address = unsafe { rustix::mm::mmap(null, segment.size, access, flags, &fd, 0) };
        let address = address.map_err(Error::system("mmap"))?;
        let base = NonNull::new(address.cast::<u8>())
            .ok_or(Error::System { call: "mmap", errno: rustix::io::Errno::NOMEM })?;
        Ok(Mapping { base, size: segment.size, fd })
    }

    /// The file behind it, by which it can be passed on to another process.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.size
    }

    /// First byte. Valid for [`Mapping::size`] bytes while the mapping lives; a peer may write
    /// there at any time.
    pub fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// The 32-bit word number `index`, as an atomic that a peer may write too.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] when the mapping has no such word.
    #[cfg(not(loom))]
    pub fn word(&self, index: usize) -> Result<&std::sync::atomic::AtomicU32, Error> {
        let offset = index.saturating_mul(4);
        if offset.saturating_add(4) > self.size {
            return Err(Error::OutOfBounds { offset, length: 4, limit: self.size });
        }
        // SAFETY: the word lies inside the mapping (checked) and is aligned, since mappings begin
        // at a page; atomics are valid for any bits and allow for foreign writes.
        Ok(unsafe { self.base.add(offset).cast::<std::sync::atomic::AtomicU32>().as_ref() })
    }

    /// The mapping as a structure of atomics at its beginning.
    ///
    /// # Panics
    /// When the mapping is smaller than `T`: a bug of the caller, who chose both.
    ///
    /// # Safety
    /// `T` must consist of atomics only, be valid for every bit pattern, and need no more than
    /// page alignment.
    #[cfg(not(loom))]
    pub unsafe fn structure<T: Sync>(&self) -> &T {
        assert!(std::mem::size_of::<T>() <= self.size);
        // SAFETY: the mapping is as large as `T` (checked), page-aligned and alive as long as
        // `self`; the caller promises that `T` is made of atomics, so that a shared reference
        // allows for foreign writes.
        unsafe { self.base.cast::<T>().as_ref() }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: `base` and `size` are what mmap returned and was given; every slice of the
        // mapping holds it alive, so nothing refers to it now.
        let result = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.size) };
        debug_assert!(result.is_ok());
    }
}

// SAFETY: a mapping is an address and a size; the bytes behind it are accessed only through
// atomics, by whichever thread or process.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{fcntl_add_seals, ftruncate, memfd_create};

    fn unsealed(size: u64) -> OwnedFd {
        let fd = memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&fd, size).unwrap();
        fd
    }

    #[test]
    fn created_segment_can_neither_shrink_nor_grow() {
        let segment = Segment::create("t", 4096).unwrap();
        assert!(ftruncate(&segment, 1).is_err());
        assert!(ftruncate(&segment, 8192).is_err());
        assert_eq!(segment.map().unwrap().size(), 4096);
    }

    #[test]
    fn unsealed_segment_of_a_peer_is_refused() {
        let refused = Segment::accept(unsealed(4096), 4096);
        assert!(matches!(refused, Err(Error::NotSealed { .. })), "{refused:?}");
    }

    #[test]
    fn ordinary_file_is_refused() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        let refused = Segment::accept(file.into(), 4096);
        assert!(matches!(refused, Err(Error::NotSealed { seals: 0 })), "{refused:?}");
    }

    #[test]
    fn segment_smaller_than_said_is_refused() {
        let fd = unsealed(4096);
        fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        let refused = Segment::accept(fd, 4097);
        assert!(matches!(refused, Err(Error::SegmentTooSmall { actual: 4096, said: 4097 })));
    }

    #[test]
    fn impossible_sizes_are_refused() {
        for said in [0, u64::MAX, 1 << 63] {
            let refused = Segment::accept(unsealed(4096), said);
            assert!(matches!(refused, Err(Error::BadSize { .. })), "{said}");
        }
        assert!(matches!(Segment::create("t", 0), Err(Error::BadSize { size: 0 })));
    }
}

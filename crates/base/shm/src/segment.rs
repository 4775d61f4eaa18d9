//! Memory segments that can be passed to another process, and their mappings.
//!
//! A segment is an anonymous memory file of fixed size. It is sealed against shrinking, growing
//! and further sealing before any other process sees it, so that a mapping of it can never fault
//! because the other side cut the file short. A segment that comes from a peer is accepted only
//! when the seals are there, the file is as large as the peer said, and it lies in ordinary shared
//! memory: a file of huge pages can be sealed too, but a page of it that the peer takes away does
//! not come back, and it counts in pages of another size. A peer can take pages of ordinary shared
//! memory away too; the kernel fills the hole as long as it has memory. For the rest, map what a
//! peer owns by [`Segment::map_guarded`].

use crate::fault::Guard;
use crate::{Doorbell, Error};
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
        // Only the owner may open it through /proc.
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
    /// [`Error::NotSealed`] unless the file is sealed against shrinking, [`Error::OtherMemory`]
    /// unless it lies in shared memory of ordinary pages, [`Error::SegmentTooSmall`] when it has fewer bytes than said, [`Error::BadSize`] when the
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
        let system = rustix::fs::fstatfs(&fd).map_err(Error::system("fstatfs"))?;
        is_ordinary(system.f_type as u64, system.f_bsize as u64)?;
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

    /// Returns the most memory that the segment can cost: its size in whole blocks of the file.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel does not tell.
    pub fn cost_bytes(&self) -> Result<u64, Error> {
        // If shared memory may use larger pages by itself, this is their size.
        let stat = rustix::fs::fstat(&self.fd).map_err(Error::system("fstat"))?;
        let block = (stat.st_blksize as u64).max(page_bytes());
        Ok((self.size as u64).div_ceil(block).saturating_mul(block))
    }

    /// Maps the segment for reading and writing, with its pages present.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn map(&self) -> Result<Arc<Mapping>, Error> {
        Mapping::new(self, MapFlags::POPULATE).map(Arc::new)
    }

    /// Maps the segment for reading and writing, guarded against the loss of its pages: a page
    /// that is lost is replaced by zeroed memory when it is touched, the mapping is broken from
    /// then on ([`Mapping::is_broken`]), and the bell rings. Its pages come when they are touched,
    /// or by [`Mapping::populate`].
    ///
    /// The first call sets this process' handler of SIGBUS; see [`crate::fault`].
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses.
    pub fn map_guarded(&self, bell: &Arc<Doorbell>) -> Result<Mapping, Error> {
        let mut mapping = Mapping::new(self, MapFlags::empty())?;
        mapping.guard = Some(Guard::new(mapping.base, mapping.size, bell)?);
        Ok(mapping)
    }
}

/// The file system of ordinary shared memory.
const TMPFS_MAGIC: u64 = 0x0102_1994;

/// Refuses what is not shared memory of ordinary pages.
fn is_ordinary(magic: u64, page: u64) -> Result<(), Error> {
    match (magic, page) == (TMPFS_MAGIC, page_bytes()) {
        true => Ok(()),
        false => Err(Error::OtherMemory { magic, page_bytes: page }),
    }
}

fn page_bytes() -> u64 {
    // SAFETY: asks for a number.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
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
    /// 0 once it is unmapped.
    size: usize,
    fd: OwnedFd,
    /// [`Segment::cost_bytes`].
    cost_bytes: u64,
    /// Guard of memory that a peer owns.
    guard: Option<Guard>,
}

impl Mapping {
    /// Zeroed memory of `size` bytes that no other process sees unless it is given its file.
    ///
    /// # Errors
    /// [`Error::BadSize`] for none, [`Error::System`] when the kernel refuses.
    #[cfg(not(miri))]
    pub fn anonymous(size: usize) -> Result<Arc<Mapping>, Error> {
        Segment::create("keeptime-anonymous", size)?.map()
    }

    /// The same for Miri, which has no memory files.
    #[cfg(miri)]
    pub fn anonymous(size: usize) -> Result<Arc<Mapping>, Error> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut::<c_void>();
        // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing.
        let address = unsafe { rustix::mm::mmap_anonymous(null, size, access, MapFlags::PRIVATE) };
        let base = NonNull::new(address.map_err(Error::system("mmap"))?.cast::<u8>());
        let base = base.expect("a mapping is not at address 0");
        // Nothing reads this file.
        let fd = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty());
        let fd = fd.map_err(Error::system("eventfd"))?;
        Ok(Arc::new(Mapping { base, size, fd, cost_bytes: size as u64, guard: None }))
    }

    fn new(segment: &Segment, populate: MapFlags) -> Result<Mapping, Error> {
        let fd = segment.fd.try_clone().map_err(|error| {
            let errno = rustix::io::Errno::from_io_error(&error);
            Error::System { call: "dup", errno: errno.unwrap_or(rustix::io::Errno::IO) }
        })?;
        let cost_bytes = segment.cost_bytes()?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let null = std::ptr::null_mut::<c_void>();
        let flags = MapFlags::SHARED | populate;
        // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing.
        let address = unsafe { rustix::mm::mmap(null, segment.size, access, flags, &fd, 0) };
        let address = address.map_err(Error::system("mmap"))?;
        let base = NonNull::new(address.cast::<u8>())
            .ok_or(Error::System { call: "mmap", errno: rustix::io::Errno::NOMEM })?;
        Ok(Mapping { base, size: segment.size, fd, cost_bytes, guard: None })
    }

    /// Returns the most memory that it can cost: [`Segment::cost_bytes`].
    pub fn cost_bytes(&self) -> u64 {
        self.cost_bytes
    }

    /// Makes the pages of a part present, for writing. The part begins at a page.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless the part lies inside; [`Error::System`] when the kernel has no
    /// memory.
    pub fn populate(&self, offset: usize, length: usize) -> Result<(), Error> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.size);
        if !inside {
            return Err(Error::OutOfBounds { offset, length, limit: self.size });
        }
        // SAFETY: the part lies inside the mapping (checked); making pages present changes none.
        let populated = unsafe {
            let address = self.base.as_ptr().add(offset).cast();
            rustix::mm::madvise(address, length, rustix::mm::Advice::LinuxPopulateWrite)
        };
        match populated {
            // Before Linux 5.14 there is no such advice: pages come when they are touched.
            Err(rustix::io::Errno::INVAL) => Ok(()),
            populated => populated.map_err(Error::system("madvise")),
        }
    }

    /// Returns true if a page was lost, so that this is not the memory that the peer sees any more.
    /// Only for guarded mappings.
    pub fn is_broken(&self) -> bool {
        self.guard.as_ref().is_some_and(Guard::is_broken)
    }

    /// Unmaps it, as dropping does, and says whether that worked.
    ///
    /// # Errors
    /// [`Error::System`]; then the memory stays as long as the process.
    pub fn close(mut self) -> Result<(), Error> {
        self.unmap()
    }

    fn unmap(&mut self) -> Result<(), Error> {
        // First: the addresses may be another mapping's afterwards.
        self.guard = None;
        let size = std::mem::take(&mut self.size);
        if size == 0 {
            return Ok(());
        }
        // SAFETY: `base` and `size` are what mmap returned and was given; every slice of the
        // mapping holds it alive, so nothing refers to it now.
        unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), size) }
            .map_err(Error::system("munmap"))
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
    /// If the mapping is smaller than `T`: a bug of the caller, who chose both.
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
        // A caller that wants to know of a failure calls `close`.
        let _ = self.unmap();
    }
}

// SAFETY: a mapping is an address and a size; the bytes behind it are accessed only through
// atomics, by whichever thread or process.
unsafe impl Send for Mapping {}
// SAFETY: as for `Send`.
unsafe impl Sync for Mapping {}

// Miri has no memory files.
#[cfg(all(test, not(miri)))]
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
    fn other_memory_than_ordinary_pages_is_refused() {
        const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
        assert!(is_ordinary(TMPFS_MAGIC, page_bytes()).is_ok());
        let huge = is_ordinary(HUGETLBFS_MAGIC, 2 << 20).unwrap_err().to_string();
        assert!(huge.contains("file system 0x958458f6, pages of 2097152 bytes"), "{huge}");
        assert!(is_ordinary(TMPFS_MAGIC, 2 << 20).is_err());
    }

    /// Sealed, and refused all the same. It takes no page of a pool: only the file is made.
    #[test]
    fn file_of_huge_pages_is_refused() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
        let Ok(fd) = memfd_create("t", flags) else {
            println!("SKIP: this kernel makes no memory files of huge pages");
            return;
        };
        ftruncate(&fd, 2 << 20).unwrap();
        fcntl_add_seals(&fd, SealFlags::SHRINK).unwrap();
        let refused = Segment::accept(fd, 4096);
        assert!(matches!(refused, Err(Error::OtherMemory { .. })), "{refused:?}");
    }

    #[test]
    fn cost_is_in_whole_pages() {
        for (size, pages) in [(1, 1), (4096, 1), (4097, 2), (1 << 20, 256)] {
            let segment = Segment::create("t", size).unwrap();
            let block = rustix::fs::fstat(&segment).unwrap().st_blksize as u64;
            let expected = (pages * 4096u64).div_ceil(block) * block;
            assert_eq!(segment.cost_bytes().unwrap(), expected, "{size}");
        }
    }

    #[test]
    fn populated_pages_are_there() {
        let bell = Arc::new(Doorbell::new().unwrap());
        let segment = Segment::create("t", 1 << 20).unwrap();
        let mapping = segment.map_guarded(&bell).unwrap();
        let blocks = || rustix::fs::fstat(&segment).unwrap().st_blocks;
        assert_eq!(blocks(), 0);
        mapping.populate(4096, 8192).unwrap();
        assert!(blocks() >= 16, "{}", blocks());
        assert!(matches!(mapping.populate(1 << 20, 1), Err(Error::OutOfBounds { .. })));
    }

    #[test]
    fn failed_unmapping_is_said() {
        let mapping = Segment::create("t", 4096).unwrap().map().unwrap();
        let mut mapping = Arc::into_inner(mapping).unwrap();
        let base = mapping.base;
        // SAFETY: inside the page; nothing is accessed there.
        mapping.base = unsafe { base.add(1) };
        let failed = mapping.close().unwrap_err();
        assert!(failed.to_string().starts_with("munmap: "), "{failed}");
        // SAFETY: the page that `close` could not unmap.
        unsafe { rustix::mm::munmap(base.as_ptr().cast(), 4096) }.unwrap();
    }

    /// An ordinary file that is cut short stands in for memory that the kernel cannot give.
    fn losable(bytes: usize, bell: &Arc<Doorbell>) -> (std::fs::File, Mapping) {
        let name = format!("keeptime-losable-{}-{bytes}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let file = std::fs::File::create_new(&path)
            .and_then(|_| std::fs::OpenOptions::new().read(true).write(true).open(&path))
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        file.set_len(bytes as u64).unwrap();
        let segment = Segment { fd: file.try_clone().unwrap().into(), size: bytes };
        (file, segment.map_guarded(bell).unwrap())
    }

    #[test]
    fn lost_page_is_replaced_and_told() {
        let bell = Arc::new(Doorbell::new().unwrap());
        let (file, lost) = losable(5 << 20, &bell);
        let (_kept_file, kept) = losable(1 << 20, &bell);
        let (lost, kept) = (Arc::new(lost), Arc::new(kept));
        let bytes = crate::PeerSlice::whole(lost.clone());
        bytes.write(0, &[7; 64]).unwrap();
        bytes.write(3 << 20, &[7; 64]).unwrap();
        file.set_len(1 << 20).unwrap();
        let mut read = [1; 64];
        bytes.read(3 << 20, &mut read).unwrap();
        assert_eq!(read, [0; 64]);
        assert!(lost.is_broken() && !kept.is_broken());
        bytes.write((5 << 20) - 64, &[9; 64]).unwrap();
        bytes.read((5 << 20) - 64, &mut read).unwrap();
        assert_eq!(read, [9; 64]);
        bytes.read(0, &mut read).unwrap();
        assert_eq!(read, [7; 64], "a page that is there is lost");
        let mut rung = [0; 8];
        assert_eq!(rustix::io::read(&*bell, &mut rung), Ok(8));
        drop(bytes);
        Arc::into_inner(lost).unwrap().close().unwrap();
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

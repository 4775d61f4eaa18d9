//! Errors of shared memory, with the numbers needed to act on them.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A system call failed.
    #[error("{call}: {errno}")]
    System {
        /// The call that failed.
        call: &'static str,
        /// The operating system's reason.
        errno: rustix::io::Errno,
    },
    /// A range lies outside the memory it should lie in.
    #[error("bytes {offset}..+{length} lie outside a memory of {limit} bytes")]
    OutOfBounds {
        /// First byte of the range.
        offset: usize,
        /// Length of the range in bytes.
        length: usize,
        /// Size of the memory in bytes.
        limit: usize,
    },
    /// A peer's segment is smaller than the peer said.
    #[error("the segment has {actual} bytes, expected the announced {said} bytes")]
    SegmentTooSmall {
        /// Size found.
        actual: u64,
        /// Size announced.
        said: u64,
    },
    /// A peer's segment could shrink while it is in use.
    #[error("the segment is not sealed against shrinking (seals {seals:#x})")]
    NotSealed {
        /// The seals that were found; zero when the file cannot be sealed at all.
        seals: u32,
    },
    /// A peer's segment lies on a file system that does not guarantee what is relied on.
    #[error(
        "the segment is not ordinary shared memory (file system {magic:#x}, pages of {page_bytes} \
         bytes): expected a memory file without huge pages"
    )]
    OtherMemory {
        /// The file system's number.
        magic: u64,
        /// The size of its pages.
        page_bytes: u64,
    },
    /// A segment of no bytes or of an impossible size was asked for.
    #[error("segment size: found {size} bytes, expected 1 to 2^63 - 1")]
    BadSize {
        /// Size asked for.
        size: u64,
    },
    /// The peer moved its ring index further than the ring is long.
    #[error("the peer's ring index jumped by {jump}, the ring holds {capacity}")]
    RingCorrupt {
        /// Distance between the peer's index and ours.
        jump: u32,
        /// Messages the ring holds.
        capacity: u32,
    },
}

impl Error {
    pub(crate) fn system(call: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
        move |errno| Error::System { call, errno }
    }
}

//! Bytes that a peer may write at any time.
//!
//! **Rule:** no code forms a `&[u8]` or `&mut [u8]` to such bytes. [`PeerSlice`] copies in and
//! out, word by word through relaxed atomics, so that a peer that scribbles during the copy
//! costs a torn copy and nothing else. Every range is checked against the slice's own length,
//! and a slice holds its mapping alive.

use crate::{Error, Mapping};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// A range of memory that another process may write at any time.
#[derive(Clone, Debug)]
pub struct PeerSlice {
    /// None only for the empty slice.
    mapping: Option<Arc<Mapping>>,
    offset: usize,
    length: usize,
}

impl PeerSlice {
    /// All bytes of a mapping.
    pub fn whole(mapping: Arc<Mapping>) -> PeerSlice {
        let length = mapping.size();
        PeerSlice { mapping: Some(mapping), offset: 0, length }
    }

    /// Private zeroed memory, for work that needs no peer.
    ///
    /// # Errors
    /// [`Error::System`] when the kernel refuses; [`Error::BadSize`] for zero bytes.
    pub fn anonymous(length: usize) -> Result<PeerSlice, Error> {
        Mapping::anonymous(length).map(PeerSlice::whole)
    }

    /// A slice of no bytes.
    pub fn empty() -> PeerSlice {
        PeerSlice { mapping: None, offset: 0, length: 0 }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns true if the slice has no bytes.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Address of the first byte, for a binding that hands the memory to another language; null
    /// for the empty slice. Valid for [`PeerSlice::len`] bytes while the slice or a copy of it
    /// lives. No reference may be formed to what is behind it.
    pub fn as_ptr(&self) -> *mut u8 {
        self.address(0)
    }

    /// The mapping that this is a part of, and where in it; none for the empty slice. For devices
    /// that must know memory before they can reach it.
    pub fn mapping(&self) -> Option<(&Arc<Mapping>, usize)> {
        self.mapping.as_ref().map(|mapping| (mapping, self.offset))
    }

    /// The part of this slice that starts at `offset` and has `length` bytes.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless the part lies inside.
    pub fn slice(&self, offset: usize, length: usize) -> Result<PeerSlice, Error> {
        self.check(offset, length)?;
        if length == 0 {
            return Ok(PeerSlice::empty());
        }
        Ok(PeerSlice { mapping: self.mapping.clone(), offset: self.offset + offset, length })
    }

    /// Copies bytes from `offset` into `into`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless the range lies inside.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        self.check(offset, into.len())?;
        if !into.is_empty() {
            // SAFETY: the range was checked against the slice, which lies inside its mapping;
            // `into` is exclusively ours and has as many bytes.
            unsafe { load_bytes(self.address(offset), into.as_mut_ptr(), into.len()) };
        }
        Ok(())
    }

    /// Copies `from` to the bytes at `offset`.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless the range lies inside.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        self.check(offset, from.len())?;
        if !from.is_empty() {
            // SAFETY: as in `read`, with `from` readable for its length.
            unsafe { store_bytes(from.as_ptr(), self.address(offset), from.len()) };
        }
        Ok(())
    }

    /// Copies 32-bit floats from element `index` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless the elements lie inside.
    pub fn read_f32(&self, index: usize, into: &mut [f32]) -> Result<(), Error> {
        self.read(byte_offset::<f32>(index)?, bytes_of_mut(into))
    }

    /// Copies 32-bit floats to element `index` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless the elements lie inside.
    pub fn write_f32(&self, index: usize, from: &[f32]) -> Result<(), Error> {
        self.write(byte_offset::<f32>(index)?, bytes_of(from))
    }

    /// Copies 32-bit integers from element `index` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless the elements lie inside.
    pub fn read_u32(&self, index: usize, into: &mut [u32]) -> Result<(), Error> {
        self.read(byte_offset::<u32>(index)?, bytes_of_mut(into))
    }

    /// Copies 32-bit integers to element `index` on.
    ///
    /// # Errors
    /// [`Error::OutOfBounds`] unless the elements lie inside.
    pub fn write_u32(&self, index: usize, from: &[u32]) -> Result<(), Error> {
        self.write(byte_offset::<u32>(index)?, bytes_of(from))
    }

    fn check(&self, offset: usize, length: usize) -> Result<(), Error> {
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.length);
        if inside { Ok(()) } else { Err(Error::OutOfBounds { offset, length, limit: self.length }) }
    }

    /// Address of a byte that `check` has found inside.
    fn address(&self, offset: usize) -> *mut u8 {
        let base = self.mapping.as_ref().map_or(std::ptr::null_mut(), |m| m.base().as_ptr());
        base.wrapping_add(self.offset + offset)
    }
}

fn byte_offset<T>(index: usize) -> Result<usize, Error> {
    let size = std::mem::size_of::<T>();
    index.checked_mul(size).ok_or(Error::OutOfBounds { offset: index, length: size, limit: 0 })
}

trait Plain: Copy {}
impl Plain for f32 {}
impl Plain for u32 {}

fn bytes_of<T: Plain>(from: &[T]) -> &[u8] {
    // SAFETY: `Plain` types are numbers without padding; the length in bytes is that of the
    // borrowed slice.
    unsafe { std::slice::from_raw_parts(from.as_ptr().cast(), std::mem::size_of_val(from)) }
}

fn bytes_of_mut<T: Plain>(into: &mut [T]) -> &mut [u8] {
    // SAFETY: as for `bytes_of`, and every bit pattern is a valid number.
    unsafe { std::slice::from_raw_parts_mut(into.as_mut_ptr().cast(), std::mem::size_of_val(into)) }
}

const WORD: usize = std::mem::size_of::<u64>();

/// Copies `length` bytes out of peer memory.
///
/// # Safety
/// `from` must be valid for atomic reads and `into` for writes of `length` bytes.
unsafe fn load_bytes(from: *const u8, into: *mut u8, length: usize) {
    let head = from.align_offset(WORD).min(length);
    let words = (length - head) / WORD;
    // SAFETY: all offsets below stay within `length`; word loads are aligned after `head`. The
    // order is relaxed: who may read what when is decided by the request protocol, not here.
    unsafe {
        let byte =
            |i: usize| *into.add(i) = (*from.add(i).cast::<AtomicU8>()).load(Ordering::Relaxed);
        (0..head).for_each(byte);
        for i in 0..words {
            let at = head + i * WORD;
            let word = (*from.add(at).cast::<AtomicU64>()).load(Ordering::Relaxed);
            into.add(at).cast::<u64>().write_unaligned(word);
        }
        (head + words * WORD..length).for_each(byte);
    }
}

/// Copies `length` bytes into peer memory.
///
/// # Safety
/// `from` must be valid for reads and `into` for atomic writes of `length` bytes.
unsafe fn store_bytes(from: *const u8, into: *mut u8, length: usize) {
    let head = into.align_offset(WORD).min(length);
    let words = (length - head) / WORD;
    // SAFETY: as in `load_bytes`, with the roles exchanged.
    unsafe {
        let byte =
            |i: usize| (*into.add(i).cast::<AtomicU8>()).store(*from.add(i), Ordering::Relaxed);
        (0..head).for_each(byte);
        for i in 0..words {
            let at = head + i * WORD;
            let word = from.add(at).cast::<u64>().read_unaligned();
            (*into.add(at).cast::<AtomicU64>()).store(word, Ordering::Relaxed);
        }
        (head + words * WORD..length).for_each(byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_arrive_whole_at_every_alignment() {
        let memory = PeerSlice::anonymous(64).unwrap();
        for offset in 0..9 {
            for length in 0..24 {
                let sent: Vec<u8> = (0..length as u8).map(|i| i ^ 0x5a).collect();
                memory.write(offset, &sent).unwrap();
                let mut got = vec![0; length];
                memory.read(offset, &mut got).unwrap();
                assert_eq!(sent, got, "offset {offset}, length {length}");
            }
        }
    }

    #[test]
    fn writes_touch_no_byte_beyond_their_range() {
        let memory = PeerSlice::anonymous(32).unwrap();
        memory.write(0, &[0xff; 32]).unwrap();
        memory.write(3, &[0; 11]).unwrap();
        let mut all = [0; 32];
        memory.read(0, &mut all).unwrap();
        let zeros: Vec<usize> = (0..32).filter(|&i| all[i] == 0).collect();
        assert_eq!(zeros, (3..14).collect::<Vec<_>>());
    }

    #[test]
    fn ranges_outside_are_refused_also_when_they_overflow() {
        let memory = PeerSlice::anonymous(16).unwrap().slice(4, 8).unwrap();
        for (offset, length) in [(0, 9), (8, 1), (usize::MAX, 2), (1, usize::MAX)] {
            let refused = memory.slice(offset, length);
            assert!(matches!(refused, Err(Error::OutOfBounds { limit: 8, .. })));
        }
        assert!(memory.read_f32(usize::MAX / 2, &mut [0.0]).is_err());
        assert!(memory.read_u32(2, &mut [0]).is_err());
        assert!(memory.slice(8, 0).unwrap().is_empty());
    }

    #[test]
    fn floats_and_integers_keep_their_bits() {
        let memory = PeerSlice::anonymous(64).unwrap();
        memory.write_f32(1, &[1.5, -0.0, f32::NAN]).unwrap();
        let mut bits = [0; 3];
        memory.read_u32(1, &mut bits).unwrap();
        assert_eq!(bits, [1.5f32.to_bits(), (-0.0f32).to_bits(), f32::NAN.to_bits()]);
    }
}

// Changed for Keeptime: vendor/README.md says how.
use std::{
  cmp::min,
  collections::{btree_map::Entry, BTreeMap},
  fmt, iter,
};

use bit_vec::BitVec;
use enumflags2::BitFlags;
use bytes::BytesMut;
#[allow(unused_imports)]
use log::{debug, error, info, trace, warn};

use crate::{
  dds::ddsdata::DDSData,
  messages::submessages::{
    elements::serialized_payload::SerializedPayload,
    submessages::{DATAFRAG_Flags, DataFrag},
  },
  structure::{
    cache_change::ChangeKind,
    sequence_number::{FragmentNumber, SequenceNumber},
    time::Timestamp,
  },
};

// This is for the assembly of a single object. Its memory follows what was
// received, not what the first fragment says the size of the sample is: the
// buffer reaches as far as ALLOWANCE and twice the received bytes.
struct AssemblyBuffer {
  buffer_bytes: BytesMut,
  data_size: usize,
  fragment_size: u16,
  fragment_count: usize,
  received_bitmap: BitVec,
  received_count: usize,
  // All fragments before this one (numbered from 0) are received.
  first_missing: usize,

  modified_time: Timestamp,
}

// What is kept for a sample of which nothing was received yet.
const ALLOWANCE: usize = 1 << 20;

// Memory of an AssemblyBuffer beside its bytes and its bitmap.
const BUFFER_OVERHEAD: usize = 512;

// 64 MiB in fragments of 256 bytes, the least that is in use.
const MAX_FRAGMENTS_PER_SAMPLE: usize = 1 << 18;

impl AssemblyBuffer {
  pub fn new(datafrag: &DataFrag, max_sample_bytes: usize) -> Option<Self> {
    let data_size: usize = datafrag.data_size.try_into().ok()?;
    let fragment_size: u16 = datafrag.fragment_size;
    debug!("new AssemblyBuffer data_size={data_size} frag_size={fragment_size}");

    if fragment_size == 0 || fragment_size as usize > data_size || data_size > max_sample_bytes {
      error!(
        "Cannot create AssemblyBuffer: fragment_size={fragment_size} data_size={data_size}, \
         expected 1 <= fragment_size <= data_size <= {max_sample_bytes}"
      );
      return None;
    }

    let fragment_count = usize::from(datafrag.total_number_of_fragments());
    if fragment_count == 0 || fragment_count > MAX_FRAGMENTS_PER_SAMPLE {
      error!(
        "Cannot create AssemblyBuffer: {fragment_count} fragments, expected 1 to \
         {MAX_FRAGMENTS_PER_SAMPLE}"
      );
      return None;
    }

    Some(Self {
      buffer_bytes: BytesMut::new(),
      data_size,
      fragment_size,
      fragment_count,
      received_bitmap: BitVec::from_elem(fragment_count, false),
      received_count: 0,
      first_missing: 0,
      modified_time: Timestamp::now(),
    })
  }

  /// Memory that this takes.
  pub fn memory_bytes(&self) -> usize {
    self.buffer_bytes.capacity() + self.fragment_count / 8 + BUFFER_OVERHEAD
  }

  /// Returns `false` if the fragment run is invalid or out of bounds.
  pub fn insert_frags(&mut self, datafrag: &DataFrag) -> bool {
    // Writer must guarantee constant fragment size per SequenceNumber. RTPS spec
    // v2.5 Section 8.4.14.1.1 "How to select the fragment size" even says that
    // the frag size is fixed per-writer.
    if datafrag.fragment_size != self.fragment_size || datafrag.data_size as usize != self.data_size
    {
      error!(
        "insert_frags: fragment of size {} of a sample of {} bytes, expected {} and {}",
        datafrag.fragment_size, datafrag.data_size, self.fragment_size, self.data_size
      );
      return false;
    }

    let frag_size = usize::from(self.fragment_size);
    let frags_in_submessage = usize::from(datafrag.fragments_in_submessage);
    if frags_in_submessage == 0 {
      error!("insert_frags: fragments_in_submessage is zero");
      return false;
    }
    let fragment_starting_num: usize = match u32::from(datafrag.fragment_starting_num).try_into() {
      Ok(n) if n >= 1 => n,
      _ => {
        error!(
          "insert_frags: invalid fragment_starting_num {:?}",
          datafrag.fragment_starting_num
        );
        return false;
      }
    };
    let start_frag_from_0 = fragment_starting_num - 1;
    if start_frag_from_0 + frags_in_submessage > self.fragment_count {
      error!(
        "insert_frags: fragment span out of bounds: start={fragment_starting_num} \
         count={frags_in_submessage} total={}",
        self.fragment_count
      );
      return false;
    }

    debug!(
      "insert_frags: datafrag.writer_sn = {:?}, frag_size = {:?}, datafrag.fragment_size = {:?}, \
       datafrag.fragment_starting_num = {:?}, datafrag.fragments_in_submessage = {:?}, \
       datafrag.data_size = {:?}",
      datafrag.writer_sn,
      frag_size,
      datafrag.fragment_size,
      datafrag.fragment_starting_num,
      datafrag.fragments_in_submessage,
      datafrag.data_size
    );

    // unwrap: u32 should fit into usize
    let from_byte = start_frag_from_0 * frag_size;

    // Last fragment might be smaller than fragment size
    // Copy reported number of fragments, or as much data as there is, whichever
    // ends first.
    // And clamp to assembly buffer length to avoid buffer overrun.
    let to_before_byte = std::cmp::min(
      from_byte
        + std::cmp::min(
          frags_in_submessage * frag_size,
          datafrag.serialized_payload.len(),
        ),
      self.data_size,
    );
    if from_byte > to_before_byte {
      error!(
        "insert_frags: invalid byte range from_byte={from_byte} to_before_byte={to_before_byte}"
      );
      return false;
    }
    let payload_size = to_before_byte - from_byte;

    // sanity check data size
    // Last fragment may be smaller than fragment size, and is what remains.
    let span = min(frags_in_submessage * frag_size, self.data_size - from_byte);
    if payload_size < span {
      error!(
        "Received DATAFRAG too small. fragment_starting_num={} out of fragment_count={}, \
         frags_in_submessage={}, frag_size={} but payload length = {}. Original data_size={}",
        fragment_starting_num,
        self.fragment_count,
        frags_in_submessage,
        frag_size,
        datafrag.serialized_payload.len(),
        datafrag.data_size,
      );
      return false;
    }

    // What lies far ahead of all that was received is asked for again later.
    if to_before_byte > ALLOWANCE + 2 * self.received_count * frag_size {
      debug!("insert_frags: byte {to_before_byte} is too far ahead");
      return false;
    }

    debug!("insert_frags: from_byte = {from_byte:?}, to_before_byte = {to_before_byte:?}");

    debug!(
      "insert_frags: dataFrag.serializedPayload.len = {:?}",
      datafrag.serialized_payload.len()
    );

    if self.buffer_bytes.len() < to_before_byte {
      self.buffer_bytes.resize(to_before_byte, 0);
    }
    self.buffer_bytes.as_mut()[from_byte..to_before_byte]
      .copy_from_slice(&datafrag.serialized_payload[..payload_size]);

    for f in start_frag_from_0..start_frag_from_0 + frags_in_submessage {
      if self.received_bitmap.get(f) == Some(false) {
        self.received_bitmap.set(f, true);
        self.received_count += 1;
      }
    }
    while self.received_bitmap.get(self.first_missing) == Some(true) {
      self.first_missing += 1;
    }
    self.modified_time = Timestamp::now();
    true
  }

  pub fn is_complete(&self) -> bool {
    self.received_count == self.fragment_count
  }
}

// Upper bound on the number of concurrent (incomplete) reassembly buffers kept
// per writer. Fragments belonging to one sample normally arrive back-to-back,
// so only a handful of samples are ever mid-reassembly at once; this cap is far
// above that. Its purpose is to bound memory when samples never complete, e.g.
// under best-effort overload where fragments are dropped: without it, one
// incomplete `AssemblyBuffer` (a full sample-sized allocation) accrues per lost
// sample and is only reclaimed by a 10 s idle timeout, growing to gigabytes.
// When exceeded we evict the oldest (lowest sequence number) buffer, which
// under best effort is lost anyway and under reliable will be re-requested.
const MAX_ASSEMBLY_BUFFERS: usize = 128;

// Assembles fragments from a single (remote) Writer
// So there is only one sequence of SNs
pub(crate) struct FragmentAssembler {
  assembly_buffers: BTreeMap<SequenceNumber, AssemblyBuffer>,
  // Sum over assembly_buffers.
  memory_bytes: usize,
  // Whether the owning reader is Reliable. This decides which buffer to drop
  // when `MAX_ASSEMBLY_BUFFERS` is exceeded (see `new_datafrag`).
  reliable: bool,
}

impl fmt::Debug for FragmentAssembler {
  fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    f.debug_struct("FragmentAssembler - fields omitted")
      // insert field printing here, if you really need it.
      .finish()
  }
}

impl FragmentAssembler {
  pub fn new(reliable: bool) -> Self {
    debug!("new FragmentAssembler. reliable = {reliable}");
    Self {
      assembly_buffers: BTreeMap::new(),
      memory_bytes: 0,
      reliable,
    }
  }

  // Returns completed DDSData, when complete, and disposes the assembly buffer.
  pub fn new_datafrag(
    &mut self,
    datafrag: &DataFrag,
    flags: BitFlags<DATAFRAG_Flags>,
    max_sample_bytes: usize,
  ) -> Option<DDSData> {
    let completed = self.insert(datafrag, flags, max_sample_bytes);
    self.sum_memory();
    completed
  }

  fn insert(
    &mut self,
    datafrag: &DataFrag,
    flags: BitFlags<DATAFRAG_Flags>,
    max_sample_bytes: usize,
  ) -> Option<DDSData> {
    let writer_sn = datafrag.writer_sn;

    let sn = datafrag.writer_sn;
    match self.assembly_buffers.entry(sn) {
      Entry::Vacant(v) => {
        let Some(buf) = AssemblyBuffer::new(datafrag, max_sample_bytes) else {
          info!("new_datafrag: failed to create AssemblyBuffer for {sn:?}");
          return None;
        };
        v.insert(buf);
      }
      Entry::Occupied(_) => {}
    }

    let Some(assembly_buffer) = self.assembly_buffers.get_mut(&sn) else {
      error!("new_datafrag: AssemblyBuffer missing for {sn:?}");
      return None;
    };

    if !assembly_buffer.insert_frags(datafrag) {
      info!("new_datafrag: rejected DATAFRAG for {sn:?}");
      if assembly_buffer.received_count == 0 {
        self.assembly_buffers.remove(&sn);
      }
      return None;
    }

    if assembly_buffer.is_complete() {
      debug!("new_datafrag: COMPLETED FRAGMENT");
      if let Some(assembly_buffer) = self.assembly_buffers.remove(&writer_sn) {
        // Return what we have assembled.
        let serialized_data_or_key =
          SerializedPayload::from_bytes(&assembly_buffer.buffer_bytes.freeze()).map_or_else(
            |e| {
              error!("Deserializing SerializedPayload from DATAFRAG: {:?}", e);
              None
            },
            Some,
          )?;
        let dds_data = if flags.contains(DATAFRAG_Flags::Key) {
          DDSData::new_disposed_by_key(ChangeKind::NotAliveDisposed, serialized_data_or_key)
        } else {
          // it is data
          DDSData::new(serialized_data_or_key)
        };
        Some(dds_data) // completed data from fragments
      } else {
        error!("Assembly buffer mysteriously lost");
        None
      }
    } else {
      debug!("new_dataFrag: FRAGMENT NOT COMPLETED YET");
      // Bound memory: never keep more than MAX_ASSEMBLY_BUFFERS incomplete
      // reassemblies.
      //
      // Which one to evict depends on reliability:
      //  * Reliable: the reader delivers strictly in order, so it must complete the
      //    LOWEST sequence number first; that buffer is exactly the one blocking
      //    progress. Dropping it would livelock, because a writer that bursts many
      //    large samples ahead (e.g. Connext) would make the reader perpetually evict
      //    the very sample it is waiting for. So evict the HIGHEST (newest) sequence
      //    number instead; the writer keeps unacked samples in its history and
      //    re-sends them once we catch up.
      //  * Best effort: there is no retransmission, so a low incomplete buffer is
      //    lost anyway. Evict the OLDEST (lowest SN) to free room for newer samples
      //    that may still complete.
      while self.assembly_buffers.len() > MAX_ASSEMBLY_BUFFERS {
        self.evict_one();
      }
      None
    }
  }

  /// Gives up the incomplete sample that is worth least. Returns `false` if there
  /// is none.
  pub fn evict_one(&mut self) -> bool {
    let evicted = if self.reliable {
      self.assembly_buffers.pop_last()
    } else {
      self.assembly_buffers.pop_first()
    };
    self.sum_memory();
    evicted.is_some()
  }

  /// Memory of all incomplete samples.
  pub fn memory_bytes(&self) -> usize {
    self.memory_bytes
  }

  // At most MAX_ASSEMBLY_BUFFERS and one.
  fn sum_memory(&mut self) {
    let buffers = self.assembly_buffers.values();
    self.memory_bytes = buffers.map(AssemblyBuffer::memory_bytes).sum();
  }

  pub fn is_empty(&self) -> bool {
    self.assembly_buffers.is_empty()
  }

  pub fn garbage_collect_before(&mut self, expire_before: Timestamp) {
    self.assembly_buffers.retain(|sn, ab| {
      let retain = ab.modified_time >= expire_before;
      if !retain {
        info!("AssemblyBuffer dropping {sn:?}");
      }
      retain
    });
    self.sum_memory();
  }

  // pub fn partially_received_sequence_numbers_iterator(&self) -> Box<dyn
  // Iterator<Item=SequenceNumber>> {   // Since we should only know about SNs
  // via DATAFRAG messages   // and AssemblyBuffers are removed immediately on
  // completion,   // the list should be just the list of current
  // AssemblyBuffers   self.assembly_buffers.keys()
  // }

  pub fn is_partially_received(&self, sn: SequenceNumber) -> bool {
    self.assembly_buffers.contains_key(&sn)
    // assembly buffers map contains a key (SN) if and only if we have some
    // frags but not all
  }

  pub fn missing_frags_for(
    &self,
    seq: SequenceNumber,
  ) -> Box<dyn '_ + Iterator<Item = FragmentNumber>> {
    match self.assembly_buffers.get(&seq) {
      None => Box::new(iter::empty()),
      Some(ab) => {
        let iter = (ab.first_missing..ab.fragment_count)
          .filter(move |f| !ab.received_bitmap.get(*f).unwrap_or(true))
          .map(|f| FragmentNumber::new((f + 1).try_into().unwrap()));
        Box::new(iter)
      }
    }
  }
}

#[cfg(test)]
mod tests {
  use bytes::Bytes;

  use super::AssemblyBuffer;
  use crate::{
    messages::submessages::submessages::DataFrag, structure::sequence_number::FragmentNumber,
  };

  const MAX: usize = 1 << 30;

  // Build a DATAFRAG submessage carrying the contiguous run of `k` fragments
  // starting at 1-based `start`, with the given payload bytes.
  fn datafrag(start: u32, k: u16, frag_size: u16, data_size: u32, payload: Vec<u8>) -> DataFrag {
    DataFrag {
      fragment_starting_num: FragmentNumber::new(start),
      fragments_in_submessage: k,
      fragment_size: frag_size,
      data_size,
      serialized_payload: Bytes::from(payload),
      ..Default::default()
    }
  }

  // A DATAFRAG that packs K > 1 fragments in one submessage must reassemble the
  // same bytes as one-fragment-per-submessage would. This exercises the
  // adaptive-packing writer path against the (unchanged) receiver.
  #[test]
  fn reassemble_multi_fragment_datafrag() {
    let frag_size = 1024u16;
    let data_size = 2600u32; // 3 fragments: 1024, 1024, 552
    let whole: Vec<u8> = (0..data_size as usize).map(|i| (i % 251) as u8).collect();

    // First submessage packs fragments 1 and 2 (K = 2, 2048 payload bytes).
    let first = datafrag(1, 2, frag_size, data_size, whole[0..2048].to_vec());
    let mut ab = AssemblyBuffer::new(&first, MAX).expect("valid first fragment");
    assert!(!ab.is_complete());
    ab.insert_frags(&first);
    assert!(!ab.is_complete(), "still missing the tail fragment");

    // Trailing submessage carries the shorter final fragment 3 (552 bytes).
    let tail = datafrag(3, 1, frag_size, data_size, whole[2048..2600].to_vec());
    ab.insert_frags(&tail);
    assert!(ab.is_complete(), "all fragments received");
    assert_eq!(
      &ab.buffer_bytes[..],
      &whole[..],
      "reassembled bytes must match the original sample"
    );
  }

  // A single DATAFRAG carrying the whole sample in one multi-fragment run.
  #[test]
  fn reassemble_single_submessage_all_fragments() {
    let frag_size = 512u16;
    let data_size = 1500u32; // 3 fragments: 512, 512, 476
    let whole: Vec<u8> = (0..data_size as usize).map(|i| (i % 97) as u8).collect();

    let all = datafrag(1, 3, frag_size, data_size, whole.clone());
    let mut ab = AssemblyBuffer::new(&all, MAX).expect("valid fragment set");
    ab.insert_frags(&all);
    assert!(ab.is_complete());
    assert_eq!(&ab.buffer_bytes[..], &whole[..]);
  }

  // Malformed span (starting at last fragment but claiming multiple fragments)
  // must not panic and must not falsely complete reassembly.
  #[test]
  fn reject_fragment_span_beyond_total() {
    let frag_size = 256u16;
    let data_size = 512u32; // 2 fragments total
    let bad = datafrag(2, 2, frag_size, data_size, vec![0u8; 256]);
    let mut ab = AssemblyBuffer::new(&bad, MAX).expect("buffer for valid data_size");
    assert!(!ab.insert_frags(&bad));
    assert!(!ab.is_complete());
  }

  #[test]
  fn fragment_assembler_rejects_span_beyond_total() {
    use enumflags2::BitFlags;

    use super::FragmentAssembler;
    use crate::messages::submessages::submessages::DATAFRAG_Flags;

    let frag_size = 256u16;
    let data_size = 512u32;
    let bad = datafrag(2, 2, frag_size, data_size, vec![0u8; 256]);
    let mut fa = FragmentAssembler::new(true);
    assert!(fa
      .new_datafrag(&bad, BitFlags::<DATAFRAG_Flags>::empty(), MAX)
      .is_none());
  }

  // The first fragment of a sample of 4 GiB used to allocate 4 GiB, and its last
  // one to fill them.
  #[test]
  fn memory_follows_what_was_received() {
    let huge = datafrag(1, 1, 60_000, u32::MAX, vec![1; 60_000]);
    assert!(AssemblyBuffer::new(&huge, MAX).is_none(), "larger than allowed");
    let mut ab = AssemblyBuffer::new(&huge, u32::MAX as usize).expect("allowed");
    assert!(ab.insert_frags(&huge));
    let last = ab.fragment_count as u32;
    let far = datafrag(last - 1, 1, 60_000, u32::MAX, vec![1; 60_000]);
    assert!(!ab.insert_frags(&far), "far ahead of all that was received");
    assert!(ab.memory_bytes() < 4 << 20, "{}", ab.memory_bytes());
  }

  #[test]
  fn fragments_of_one_byte_are_refused() {
    let tiny = datafrag(1, 1, 1, 1 << 24, vec![1]);
    assert!(AssemblyBuffer::new(&tiny, MAX).is_none());
  }

  #[test]
  fn large_sample_in_order_with_losses_is_assembled() {
    let (frag_size, data_size) = (1024u16, 8u32 << 20);
    let count = data_size / 1024;
    let frag = |n| datafrag(n, 1, frag_size, data_size, vec![(n % 251) as u8; 1024]);
    let mut ab = AssemblyBuffer::new(&frag(1), MAX).expect("valid");
    for n in (1..=count).filter(|n| n % 7 != 0) {
      assert!(ab.insert_frags(&frag(n)), "fragment {n}");
    }
    assert!(!ab.is_complete());
    for n in (1..=count).filter(|n| n % 7 == 0) {
      assert_eq!(ab.first_missing as u32 + 1, n);
      assert!(ab.insert_frags(&frag(n)));
    }
    assert!(ab.is_complete());
    assert_eq!(ab.buffer_bytes.len(), data_size as usize);
  }

  #[test]
  fn fragments_of_another_size_are_refused() {
    let first = datafrag(1, 1, 256, 1024, vec![0; 256]);
    let mut ab = AssemblyBuffer::new(&first, MAX).expect("valid");
    assert!(!ab.insert_frags(&datafrag(1, 1, 512, 1024, vec![0; 512])));
    assert!(!ab.insert_frags(&datafrag(1, 1, 256, 2048, vec![0; 256])));
    assert!(ab.insert_frags(&first));
  }
}

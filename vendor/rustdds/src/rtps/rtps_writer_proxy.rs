// Changed for Keeptime: vendor/README.md says how.
use std::cmp::max;

#[allow(unused_imports)]
use log::{debug, error, info, trace, warn};

use crate::{
  discovery::sedp_messages::DiscoveredWriterData,
  rtps::constant::MAX_TRACKED_CHANGES_PER_WRITER,
  structure::{
    guid::{EntityId, GUID},
    locator::Locator,
    sequence_number::{SequenceNumber, MAX_NUMBERS_IN_SET},
    sequence_ranges::SequenceRanges,
    time::Timestamp,
  },
};

#[derive(Debug)] // these are not cloneable, because contained data may be large
pub(crate) struct RtpsWriterProxy {
  /// Identifies the remote matched Writer
  pub remote_writer_guid: GUID,

  /// List of unicast (address, port) combinations that can be used to send
  /// messages to the matched Writer or Writers. The list may be empty.
  pub unicast_locator_list: Vec<Locator>,

  /// List of multicast (address, port) combinations that can be used to send
  /// messages to the matched Writer or Writers. The list may be empty.
  pub multicast_locator_list: Vec<Locator>,

  /// Identifies the group to which the matched Reader belongs
  pub remote_group_entity_id: EntityId,

  // See RTPS Spec v2.5 Section 8.4.10.4 on how the WriterProxy is supposed to
  // operate.
  // And 8.4.10.5 on statuses of the (cache) changes received from a writer.
  // The changes are identified by sequence numbers.
  // Any sequence number is at any moment in one of the following states:
  // unknown, missing, received, not_available.
  //
  // Unknown means that we have no information of that change. This is the initial state for
  // everyone. Missing means that writer claims to have it and reader may request it with
  // ACKNACK. Received means that the reader has received the change via DATA (or DATAFRAGs).
  // Not_available means that writer has informed via GAP message that change is not available.

  // Unknown can transition to Missing (via HEARTBEAT), Received (DATA), or not_available (GAP).
  // Missing can transition to Received or Not_available.
  // Received cannot transition to anything.
  // Not_available cannot transition to anything.

  // We keep the set "changes" and the number "ack_base", to keep track of these:
  //
  // All changes below ack_base are either received or not_available.
  // So are those in "changes". Of the others, those up to the last number that a
  // HEARTBEAT named are missing, and those above it are unknown.
  changes: SequenceRanges,

  // The changes map is cleaned on heartbeat messages. The changes no longer available are dropped.
  pub received_heartbeat_count: i32,

  pub sent_ack_nack_count: i32,

  ack_base: SequenceNumber, // We can ACK everything before this number.
  // ack_base can be increased from N-1 to N, if we receive DATA with SequenceNumber N-1
  // heartbeat(first,last) => ack_base can be increased to first.
  // GAP is treated like receiving a message.

  // These are used for quick tracking of
  last_received_sequence_number: SequenceNumber,
  last_received_timestamp: Timestamp,
}

impl RtpsWriterProxy {
  pub fn new(
    remote_writer_guid: GUID,
    unicast_locator_list: Vec<Locator>,
    multicast_locator_list: Vec<Locator>,
    remote_group_entity_id: EntityId,
  ) -> Self {
    Self {
      remote_writer_guid,
      unicast_locator_list,
      multicast_locator_list,
      remote_group_entity_id,
      changes: SequenceRanges::new(),
      received_heartbeat_count: 0,
      sent_ack_nack_count: 0,
      // Sequence numbering must start at 1.
      // Therefore, we can ACK all sequence numbers below 1 even before receiving anything.
      ack_base: SequenceNumber::new(1),
      last_received_sequence_number: SequenceNumber::new(0),
      last_received_timestamp: Timestamp::INVALID,
    }
  }

  pub fn next_ack_nack_sequence_number(&mut self) -> i32 {
    let c = self.sent_ack_nack_count;
    self.sent_ack_nack_count += 1;
    c
  }

  // Returns a bound, below which everything can be acknowledged, i.e.
  // is received either as DATA or GAP
  pub fn all_ackable_before(&self) -> SequenceNumber {
    self.ack_base
  }

  pub fn update_contents(&mut self, other: Self) {
    self.unicast_locator_list = other.unicast_locator_list;
    self.multicast_locator_list = other.multicast_locator_list;
    self.remote_group_entity_id = other.remote_group_entity_id;
  }

  // This is used to check for DEADLINE policy
  pub fn last_change_timestamp(&self) -> Option<Timestamp> {
    if self.last_received_sequence_number > SequenceNumber::new(0) {
      Some(self.last_received_timestamp)
    } else {
      None
    }
  }

  // Check if we no samples in the received state.
  pub fn no_changes_received(&self) -> bool {
    self.ack_base == SequenceNumber::new(0) && self.changes.is_empty()
  }

  // Given an availability range from a HEARTBEAT, find out what we are missing:
  // the first missing number, and those less than MAX_NUMBERS_IN_SET above it,
  // which is what an ACKNACK can ask for.
  //
  // Note: Heartbeat gives bounds only. Some samples within that range may
  // have been received already, or not really available, i.e. there may be GAPs
  // in the range.
  pub fn missing_seqnums(
    &self,
    hb_first_sn: SequenceNumber,
    hb_last_sn: SequenceNumber,
  ) -> Vec<SequenceNumber> {
    // Ignore those that we already have.
    let first = self
      .changes
      .first_absent_from(max(hb_first_sn, self.ack_base));
    let end = max(first, hb_last_sn.plus_1()).min(first + SequenceNumber::from(MAX_NUMBERS_IN_SET));

    let mut missing_seqnums = Vec::new();
    let mut sn = first;
    while sn < end {
      missing_seqnums.push(sn);
      sn = self.changes.first_absent_from(sn.plus_1());
    }
    missing_seqnums
  }

  // Check if we have already received this sequence number
  // or it has been marked as not_available
  pub fn should_ignore_change(&self, seqnum: SequenceNumber) -> bool {
    seqnum < self.ack_base || self.changes.contains(seqnum)
  }

  // This is used to mark DATA as received.
  pub fn received_changes_add(&mut self, seq_num: SequenceNumber, receive_timestamp: Timestamp) {
    // Update deadline tracker
    if seq_num > self.last_received_sequence_number {
      self.last_received_sequence_number = seq_num;
      self.last_received_timestamp = receive_timestamp;
    }
    self.insert_known(seq_num, seq_num.plus_1());
  }

  // Used to add individual irrelevant changes from GAP message
  pub fn set_irrelevant_change(&mut self, seq_num: SequenceNumber) {
    self.insert_known(seq_num, seq_num.plus_1());
  }

  // Used to add range of irrelevant changes from GAP submessage or unavailable
  // changes from HEARTBEAT submessage
  pub fn irrelevant_changes_range(
    &mut self,
    remove_from: SequenceNumber,
    remove_until_before: SequenceNumber,
  ) {
    // check sanity
    if remove_from > remove_until_before {
      error!(
        "irrelevant_changes_range: negative range: remove_from={remove_from:?} \
         remove_until_before={remove_until_before:?}"
      );
      return;
    }
    self.insert_known(remove_from, remove_until_before);
    debug!(
      "ack_base is {:?} after irrelevant_changes_range {:?} to {:?}. writer={:?}",
      self.ack_base, remove_from, remove_until_before, self.remote_writer_guid
    );
  }

  // Used to mark messages irrelevant because of a HEARTBEAT message.
  //
  // smallest_seqnum is the lowest key to be retained
  pub fn irrelevant_changes_up_to(&mut self, smallest_seqnum: SequenceNumber) {
    self.irrelevant_changes_range(SequenceNumber::new(0), smallest_seqnum);
  }

  fn discovered_or_default(drd: &[Locator], default: &[Locator]) -> Vec<Locator> {
    if drd.is_empty() {
      default.to_vec()
    } else {
      drd.to_vec()
    }
  }

  pub fn from_discovered_writer_data(
    discovered_writer_data: &DiscoveredWriterData,
    default_unicast_locators: &[Locator],
    default_multicast_locators: &[Locator],
  ) -> RtpsWriterProxy {
    let unicast_locator_list = Self::discovered_or_default(
      &discovered_writer_data.writer_proxy.unicast_locator_list,
      default_unicast_locators,
    );
    let multicast_locator_list = Self::discovered_or_default(
      &discovered_writer_data.writer_proxy.multicast_locator_list,
      default_multicast_locators,
    );

    RtpsWriterProxy {
      remote_writer_guid: discovered_writer_data.writer_proxy.remote_writer_guid,
      remote_group_entity_id: EntityId::UNKNOWN,
      unicast_locator_list,
      multicast_locator_list,
      changes: SequenceRanges::new(),
      received_heartbeat_count: 0,
      sent_ack_nack_count: 0,
      ack_base: SequenceNumber::default(),
      last_received_sequence_number: SequenceNumber::new(0),
      last_received_timestamp: Timestamp::INVALID,
    }
  } // fn

  // Marks numbers as received or not_available, and moves ack_base as far as it
  // goes.
  fn insert_known(&mut self, from: SequenceNumber, before: SequenceNumber) {
    self.changes.insert_range(max(from, self.ack_base), before);

    // What is below ack_base is accounted for and never read again. ack_base
    // never lies inside a range: it moves to the end of the first one.
    //
    // Memory-safety backstop: under best-effort loss ack_base can stall at a
    // permanently missing sample, and a peer can leave as many gaps as it likes.
    // Above the cap, the oldest gap is given up as lost.
    while let Some((begin, end)) = self.changes.first_range() {
      if begin > self.ack_base && self.changes.range_count() <= MAX_TRACKED_CHANGES_PER_WRITER {
        break;
      }
      self.changes.pop_first_range();
      self.ack_base = end;
    }
  }

  /// Memory of what is known of the Writer's changes, in bytes, about.
  pub fn held_bytes(&self) -> usize {
    32 * self.changes.range_count()
  }

  #[cfg(test)]
  pub fn tracked_changes_count(&self) -> usize {
    self.changes.range_count()
  }
} // impl

#[cfg(test)]
mod bounded_map_tests {
  use super::*;
  use crate::structure::guid::GuidPrefix;

  fn test_proxy() -> RtpsWriterProxy {
    RtpsWriterProxy::new(
      GUID::new(GuidPrefix::UNKNOWN, EntityId::UNKNOWN),
      vec![],
      vec![],
      EntityId::UNKNOWN,
    )
  }

  // Regression: a best-effort writer sends no HEARTBEAT/GAP, so the changes map
  // used to accumulate one entry per received sample forever. With eager pruning
  // below ack_base, contiguous delivery must keep the map ~empty.
  #[test]
  fn changes_map_does_not_grow_on_contiguous_delivery() {
    let mut wp = test_proxy();
    let n: i64 = 50_000;
    for i in 1..=n {
      wp.received_changes_add(SequenceNumber::new(i), Timestamp::INVALID);
    }
    // Everything received in order: ack_base advanced past the last sample.
    assert_eq!(wp.all_ackable_before(), SequenceNumber::new(n + 1));
    assert!(
      wp.tracked_changes_count() <= 1,
      "changes map grew unbounded on contiguous delivery: {} entries",
      wp.tracked_changes_count()
    );
  }

  // Regression: with a permanently missing sample (best-effort loss) ack_base
  // stalls, so pruning below it is not enough. The hard cap must still bound the
  // map by giving up on the stalled gap.
  #[test]
  fn changes_map_bounded_with_permanent_gap() {
    let mut wp = test_proxy();
    // Sample 1 is never delivered, nor every second one above it.
    let n: i64 = MAX_TRACKED_CHANGES_PER_WRITER as i64 * 4;
    for i in 1..=n {
      wp.received_changes_add(SequenceNumber::new(i * 2), Timestamp::INVALID);
    }
    assert!(
      wp.tracked_changes_count() <= MAX_TRACKED_CHANGES_PER_WRITER,
      "changes map exceeded cap {} under a permanent gap: {} entries",
      MAX_TRACKED_CHANGES_PER_WRITER,
      wp.tracked_changes_count()
    );
  }

  fn sn(n: i64) -> SequenceNumber {
    SequenceNumber::new(n)
  }

  // One HEARTBEAT of 52 bytes named 2^40 numbers, and each of them was collected.
  #[test]
  fn heartbeat_of_2_to_the_40_numbers_costs_an_acknacks_worth() {
    let mut wp = test_proxy();
    wp.irrelevant_changes_up_to(sn(1));
    let missing = wp.missing_seqnums(sn(1), sn(1 << 40));
    assert_eq!(missing, (1..=256).map(sn).collect::<Vec<_>>());
    assert!(missing.capacity() <= 1024);
    assert_eq!(wp.tracked_changes_count(), 0);
  }

  #[test]
  fn gap_of_2_to_the_40_numbers_is_one_range() {
    let mut wp = test_proxy();
    wp.irrelevant_changes_range(sn(5), sn(1 << 40));
    assert_eq!(wp.tracked_changes_count(), 1);
    assert_eq!(wp.all_ackable_before(), sn(1));
    // 2^40 itself is missing too, but too far above for the same ACKNACK.
    assert_eq!(wp.missing_seqnums(sn(1), sn(1 << 40)), (1..5).map(sn).collect::<Vec<_>>());
    for i in 1..=4 {
      wp.received_changes_add(sn(i), Timestamp::INVALID);
    }
    assert_eq!(wp.all_ackable_before(), sn(1 << 40));
    assert_eq!(wp.tracked_changes_count(), 0);
  }

  // A late joiner meets a writer whose first number is far ahead.
  #[test]
  fn late_joiner_starts_at_the_first_number_that_is_there() {
    let mut wp = test_proxy();
    let first = 5_000_000_000;
    wp.irrelevant_changes_up_to(sn(first));
    assert_eq!(wp.missing_seqnums(sn(first), sn(first + 2)), [sn(first), sn(first + 1), sn(first + 2)]);
    wp.received_changes_add(sn(first + 1), Timestamp::INVALID);
    assert_eq!(wp.missing_seqnums(sn(first), sn(first + 2)), [sn(first), sn(first + 2)]);
    wp.received_changes_add(sn(first), Timestamp::INVALID);
    assert_eq!(wp.all_ackable_before(), sn(first + 2));
  }

  #[test]
  fn gap_lists_do_not_grow_the_set_without_bound() {
    let mut wp = test_proxy();
    for i in 1..=(MAX_TRACKED_CHANGES_PER_WRITER as i64 * 3) {
      wp.set_irrelevant_change(sn(i * 2));
    }
    assert!(wp.tracked_changes_count() <= MAX_TRACKED_CHANGES_PER_WRITER);
  }
}

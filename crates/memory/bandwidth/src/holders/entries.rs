//! Owners of the slots.

use super::table::Table;
use crate::Error;
use crate::handshake::Refusal;
use crate::memory::{Others, Page};
use crate::page::Said;
use rustix::fd::OwnedFd;
use shm::peer::Peer;

/// A holder, as people see it. What it says of itself is an allegation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HolderStatus {
    /// Its process.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Number of acquisitions that it has open; it holds the lock if there is one.
    pub holds: u32,
    /// Number of times that it took the lock when it did not hold it.
    pub acquisitions: u64,
    /// Time of the last of these, on `CLOCK_MONOTONIC`; 0 if there was none.
    pub acquired_ns: u64,
}

/// Holders by their slots.
#[derive(Debug)]
pub(super) struct Entries {
    slots: Vec<Option<Entry>>,
    next_id: u64,
}

#[derive(Debug)]
struct Entry {
    /// Never given twice.
    id: u64,
    pid: u32,
    uid: u32,
    /// None of a hold of the regulator's own process.
    remote: Option<Remote>,
}

#[derive(Debug)]
struct Remote {
    image: u64,
    /// Watched while it is here: closing it ends that.
    _process: OwnedFd,
    /// Hangs up when the entry goes, and when the regulator does: so its holder may learn of it.
    connection: Option<OwnedFd>,
}

/// A program that asks.
pub(super) struct Guest {
    pub peer: Peer,
    pub image: u64,
    pub process: OwnedFd,
    /// The id that its entry gets, from [`Entries::next_id`].
    pub id: u64,
}

impl Entries {
    pub(super) fn new(holders: usize) -> Entries {
        Entries { slots: (0..holders).map(|_| None).collect(), next_id: 1 }
    }

    /// A number for an entry or a connection.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// Gives a holder its page, and says where in it its cell is.
    pub(super) fn add(
        &mut self,
        table: &Table,
        guest: Option<Guest>,
    ) -> Result<(Page, u32), Error> {
        self.collect_closed(table);
        let slot = self.slots.iter().position(Option::is_none);
        let slot = slot.ok_or(Error::Refused(Refusal::Full))?;
        let page = Page::new("keeptime-bandwidth-hold", Others::Write)?;
        table.put(slot, &page)?;
        self.slots[slot] = Some(match guest {
            Some(Guest { peer, image, process, id }) => Entry {
                id,
                pid: peer.number() as u32,
                uid: peer.uid,
                remote: Some(Remote { image, _process: process, connection: None }),
            },
            None => Entry {
                id: self.next_id(),
                pid: std::process::id(),
                uid: rustix::process::geteuid().as_raw(),
                remote: None,
            },
        });
        Ok((page, Table::offset(slot)))
    }

    /// Keeps a holder's connection open for as long as its slot is.
    pub(super) fn keep_open(&mut self, id: u64, connection: OwnedFd) {
        let entry = self.slots.iter_mut().flatten().find(|entry| entry.id == id);
        if let Some(remote) = entry.and_then(|entry| entry.remote.as_mut()) {
            remote.connection = Some(connection);
        }
    }

    /// Frees the slots of a process' earlier program images: it has executed another one, and its
    /// pages are gone.
    pub(super) fn collect_images(&mut self, table: &Table, pid: u32, image: u64) {
        self.free_where(table, |entry, _| {
            entry.pid == pid && entry.remote.as_ref().is_some_and(|remote| remote.image != image)
        });
    }

    /// Returns the number of holders of this user in other processes.
    pub(super) fn count_of(&mut self, table: &Table, uid: u32) -> usize {
        self.collect_closed(table);
        let remote = self.slots.iter().flatten().filter(|entry| entry.remote.is_some());
        remote.filter(|entry| entry.uid == uid).count()
    }

    /// Frees the slot of a holder whose process has ended; says whether it held the lock. None if
    /// it is gone already.
    pub(super) fn bury(&mut self, table: &Table, id: u64) -> Option<bool> {
        let is = |entry: &Option<Entry>| entry.as_ref().is_some_and(|entry| entry.id == id);
        let slot = self.slots.iter().position(is)?;
        let held = matches!(table.cell(slot).said(), Said::Holds(1..));
        self.free(table, slot);
        Some(held)
    }

    /// Frees these slots if there is still nonsense in them; returns how many.
    pub(super) fn drop_nonsense(&mut self, table: &Table, slots: &[usize]) -> u64 {
        let mut dropped = 0;
        for &slot in slots {
            if table.cell(slot).said() == Said::Nonsense && self.slots[slot].is_some() {
                self.free(table, slot);
                dropped += 1;
            }
        }
        dropped
    }

    pub(super) fn status(&mut self, table: &Table) -> Vec<HolderStatus> {
        self.collect_closed(table);
        let entries = self.slots.iter().enumerate();
        let status = entries.filter_map(|(slot, entry)| {
            let (entry, cell) = (entry.as_ref()?, table.cell(slot));
            let Said::Holds(holds) = cell.said() else { return None };
            let (acquisitions, acquired_ns) = (cell.acquisitions(), cell.acquired_ns());
            Some(HolderStatus { pid: entry.pid, uid: entry.uid, holds, acquisitions, acquired_ns })
        });
        status.collect()
    }

    /// Frees the slots that their holders have closed. Done when a thread looks, since a closed
    /// slot costs nothing until it is needed.
    fn collect_closed(&mut self, table: &Table) {
        self.free_where(table, |_, said| said == Said::Closed);
    }

    fn free_where(&mut self, table: &Table, goes: impl Fn(&Entry, Said) -> bool) {
        for slot in 0..self.slots.len() {
            let said = table.cell(slot).said();
            if self.slots[slot].as_ref().is_some_and(|entry| goes(entry, said)) {
                self.free(table, slot);
            }
        }
    }

    fn free(&mut self, table: &Table, slot: usize) {
        table.take(slot);
        self.slots[slot] = None;
    }
}

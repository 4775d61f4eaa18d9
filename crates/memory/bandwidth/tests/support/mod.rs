//! Code that the tests share.
#![allow(dead_code, reason = "no test uses all of it")]

use bandwidth::Holders;
use bandwidth::handshake::{Hello, Welcome, image};
use bandwidth::holders::Config;
use bandwidth::page::{PAGE_BYTES, VERSION};
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketAddrUnix,
    SocketFlags, SocketType,
};
use std::mem::MaybeUninit;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Holders at a socket of their own.
pub(crate) fn regulator(change: impl FnOnce(&mut Config)) -> (Holders, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("keeptime-bandwidth-{}-{number}.sock", std::process::id());
    let socket = std::env::temp_dir().join(name);
    // Fast enough for a test that connects in a loop.
    let config =
        Config { socket: socket.clone(), connects_per_second: 10_000, ..Config::default() };
    let mut config = config;
    change(&mut config);
    (Holders::start(config).unwrap(), socket)
}

/// A connection of somebody who does not use [`bandwidth::Hold`].
pub(crate) struct Stranger(OwnedFd);

impl Stranger {
    pub(crate) fn connect(socket: &Path) -> Stranger {
        let (kind, flags) = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
        let own = rustix::net::socket_with(AddressFamily::UNIX, kind, flags, None).unwrap();
        rustix::net::connect(&own, &SocketAddrUnix::new(socket).unwrap()).unwrap();
        Stranger(own)
    }

    /// Sends a packet; the regulator may have closed already.
    pub(crate) fn send(&self, packet: &[u8]) {
        let sent = rustix::net::send(&self.0, packet, SendFlags::NOSIGNAL);
        assert!(matches!(sent, Ok(_) | Err(Errno::PIPE | Errno::CONNRESET)), "{sent:?}");
    }

    /// Returns the regulator's answer and the pages that come with it; None if it has closed.
    pub(crate) fn answer(&self) -> Option<(Welcome, Vec<OwnedFd>)> {
        match self.receive() {
            // Said once, ahead of the last words.
            Err(Errno::CONNRESET) => self.receive().ok().flatten(),
            answer => answer.unwrap(),
        }
    }

    fn receive(&self) -> Result<Option<(Welcome, Vec<OwnedFd>)>, Errno> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(3))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut packet = [0; 64];
        let mut parts = [std::io::IoSliceMut::new(&mut packet)];
        let flags = RecvFlags::CMSG_CLOEXEC;
        let length = rustix::net::recvmsg(&self.0, &mut parts, &mut control, flags)?.bytes;
        if length == 0 {
            return Ok(None);
        }
        let mut pages = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                pages.extend(received);
            }
        }
        Ok(Some((Welcome::parse(&packet[..length]).expect("an answer"), pages)))
    }

    /// Becomes a holder, whose cell can be written at will.
    pub(crate) fn attach(socket: &Path) -> (RawCell, Vec<OwnedFd>) {
        let stranger = Stranger::connect(socket);
        stranger.send(&Hello { version: VERSION, image: image() }.packet());
        let (welcome, pages) = stranger.answer().expect("an answer");
        let Welcome::Offset(offset) = welcome else { panic!("{welcome:?}") };
        (RawCell { base: map(&pages[0], true).unwrap(), offset: offset as usize }, pages)
    }
}

/// Maps a page that the regulator gave.
pub(crate) fn map(page: &OwnedFd, writable: bool) -> Result<usize, Errno> {
    let access = if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
    let null = std::ptr::null_mut();
    // SAFETY: a fresh mapping at an address of the kernel's choosing overlaps nothing; it stays.
    let base = unsafe { rustix::mm::mmap(null, PAGE_BYTES, access, MapFlags::SHARED, page, 0) }?;
    Ok(base.addr())
}

/// A holder's cell, by the layout that `page.rs` draws.
pub(crate) struct RawCell {
    base: usize,
    offset: usize,
}

impl RawCell {
    pub(crate) fn version(&self) -> &AtomicU32 {
        self.word(0)
    }

    pub(crate) fn holds(&self) -> &AtomicU32 {
        self.word(4)
    }

    pub(crate) fn acquired_ns(&self) -> &AtomicU64 {
        // SAFETY: as in `word`.
        unsafe { &*((self.base + self.offset + 8) as *const AtomicU64) }
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: inside a page that stays mapped.
        unsafe { &*((self.base + self.offset + at) as *const AtomicU32) }
    }
}

//! Messages between processes of one machine, by named pipes.
//!
//! A pipe has one receiver and any number of senders. Each opens it by its path, at any time and in
//! any order: who is first makes it, and what is sent before the receiver is there waits for it as long
//! as its sender is. A message is plain data that the kernel writes whole or not at all, so that those of several
//! senders do not mix.
//!
//! Sending never waits: a receiver's core may be kept by others, and two executors that waited for
//! each other would never end. The receiving thread moves messages on into a queue whenever the
//! executor's thread sleeps, and between two callbacks.

use crate::Error;
use crate::executor::{Helper, Stop};
use crate::input::Queue;
use rustix::fs::{CWD, Mode, OFlags, mkfifoat};
use rustix::io::Errno;
use rustix::pipe::{PIPE_BUF, fcntl_setpipe_size};
use std::fs::File;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::path::Path;
use std::sync::Arc;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Bytes that a pipe can hold: what the kernel gives to every process.
const PIPE_BYTES: usize = 1 << 20;

/// Sends messages to the mailbox of an executor in another process.
pub struct Sender<M> {
    pipe: File,
    message: PhantomData<fn(M)>,
}

impl<M: IntoBytes + Immutable> Sender<M> {
    /// Opens the pipe of a mailbox, whether its receiver is there yet or not.
    ///
    /// # Errors
    /// [`Error::Mailbox`].
    pub fn open(path: &Path) -> Result<Sender<M>, Error> {
        Ok(Sender { pipe: open_pipe(path, OFlags::NONBLOCK)?, message: PhantomData })
    }

    /// Sends a message. Any thread; never waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`]: the receiver has not taken a megabyte of messages.
    pub fn send(&self, message: &M) -> io::Result<()> {
        const { assert!(size_of::<M>() <= PIPE_BUF, "a message that a pipe takes in one piece") };
        (&self.pipe).write_all(message.as_bytes())
    }
}

/// Opens the mailbox of an executor, with the thread that fills its queue.
pub(crate) fn open<M>(path: &Path) -> Result<(Arc<Queue<M>>, Helper), Error>
where
    M: FromBytes + IntoBytes + Immutable + Send + 'static,
{
    let mut pipe = open_pipe(path, OFlags::empty())?;
    let messages = Queue::new(usize::MAX);
    let queue = messages.clone();
    let work = move |stop: &Stop| {
        let mut message = M::new_zeroed();
        while pipe.read_exact(message.as_mut_bytes()).is_ok() && !stop.is_set() {
            queue.push(std::mem::replace(&mut message, M::new_zeroed()));
        }
    };
    let sender = Sender::open(path)?;
    // A message to itself; a pipe that is full wakes its receiver as well.
    let wake = move || _ = sender.send(&M::new_zeroed());
    Ok((messages, Helper { work: Box::new(work), wake: Box::new(wake) }))
}

/// Opens a pipe for both directions, which does not wait and never finds the other end closed.
fn open_pipe(path: &Path, flags: OFlags) -> Result<File, Error> {
    let failed = |error: Errno| Error::Mailbox { path: path.into(), source: error.into() };
    match mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(error) => return Err(failed(error)),
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC | flags;
    let pipe = rustix::fs::open(path, flags, Mode::empty()).map_err(failed)?;
    match fcntl_setpipe_size(&pipe, PIPE_BYTES) {
        // Who has many pipes gets smaller ones.
        Ok(_) | Err(Errno::PERM | Errno::BUSY) => Ok(pipe.into()),
        Err(error) => Err(failed(error)),
    }
}

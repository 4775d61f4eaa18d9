//! Preload library for programs that cannot be changed.
//!
//! A call of the program arrives in one of the hooks, is recorded, and goes on to the function
//! that it was meant for:
//!
//! ```text
//!   pthread_mutex_lock ... -> hook/     -> thread (this thread's log) -> shm::log
//!   cuLaunchKernel ...     -> cuda/call -> thread
//!   dlsym, cuGetProcAddress -> cuda/resolve: hands out the hooks for what the driver returned
//! ```
//!
//! - [`elf`] finds the functions behind the hooks, without calling the C library's own search.
//! - [`attachment`] gets at the recording's memory, once for each process image; a forked child
//!   notices that it is one by a page that the kernel wipes.
//! - [`origin`] decides by the caller's address whether a lock is recorded, and whether it is
//!   guarded; [`object`] knows which library an address lies in.
//! - [`guarding`] is between the hooks of locks and the crate `guard`, when locks are guarded.
//! - [`bandwidth`] takes the bandwidth lock around the driver's work, when that is asked for.
//!
//! **Whatever happens here, the program goes on as if it did not.** No hook allocates, takes a
//! lock, prints, panics or changes `errno`; on trouble it passes the call through and counts it.
//! Hooks are `extern "C-unwind"` without destructors, so that a cancelled thread unwinds through
//! them. They open no file: descriptors are the program's. The few system calls that are made (who
//! am I, when a thread records for the first time; memory, when its chunk is full) end when the
//! program restricts its own (`hook::sandbox`).

#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod attachment;
mod bandwidth;
mod cuda;
mod elf;
mod guarding;
mod hook;
mod object;
mod origin;
mod program;
mod real;
mod thread;

//! Reasons for which the scheduler could not be loaded, or a thread not be managed.

/// An error of `ThrottleFair`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scheduler is not part of this build.
    #[error(
        "this keeptime was built without the scheduler in BPF: build it with `--features sched-ext`, \
         which needs clang and the header files of libelf and zlib (Debian: clang, libelf-dev, \
         zlib1g-dev)"
    )]
    NotBuilt,
    /// The running kernel cannot have schedulers in BPF.
    #[error(
        "Linux {release} has no sched_ext (/sys/kernel/sched_ext does not exist): needs Linux \
         6.12 or later, built with CONFIG_SCHED_CLASS_EXT, CONFIG_BPF_JIT and \
         CONFIG_DEBUG_INFO_BTF"
    )]
    NoSchedExt {
        /// Its release.
        release: String,
    },
    /// Another scheduler has the place; a kernel has one at a time.
    #[error(
        "the sched_ext scheduler `{name}` is loaded; a kernel takes one at a time, so end it first"
    )]
    Occupied {
        /// Its name.
        name: String,
    },
    /// The process may not load it.
    #[error(
        "loading a scheduler was refused: run as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_ADMIN"
    )]
    Privilege,
    /// The kernel did not take it.
    #[error("the scheduler could not be loaded: {step}: {message}")]
    Refused {
        /// Step that failed.
        step: &'static str,
        /// The loader's words, and the kernel's.
        message: String,
    },
    /// The factor is not one.
    #[error("rho is {rho}; expected 0 to {most}")]
    Factor {
        /// Factor that was asked for.
        rho: f64,
        /// The largest.
        most: f64,
    },
    /// The thread is not there.
    #[error("there is no thread {tid}")]
    NoThread {
        /// Its number.
        tid: i32,
    },
    /// The thread has a policy that is left alone.
    #[error(
        "thread {tid} has the scheduling policy {policy}; only ordinary ones (SCHED_OTHER, \
         SCHED_BATCH, SCHED_IDLE) can be managed"
    )]
    Policy {
        /// Its number.
        tid: i32,
        /// The kernel's number of the policy.
        policy: u32,
    },
    /// There is no room for more.
    #[error("{most} threads are managed, which is the limit")]
    Full {
        /// Largest number of threads that there can be.
        most: usize,
    },
    /// The kernel refused something for a thread.
    #[error("thread {tid}: {call} failed: {source}")]
    Os {
        /// The thread.
        tid: i32,
        /// The system call.
        call: &'static str,
        /// Its error.
        source: std::io::Error,
    },
}

//! System calls that older kernels refuse, for `programs/refuse.c`.

/// System call that a kernel before this version refuses, and the error.
pub struct Refusal {
    before: &'static str,
    /// Number of the system call.
    pub number: i64,
    error: i32,
    /// Only where this argument has this value behind this mask.
    argument: Option<(u32, u32, u32)>,
}

const fn call(before: &'static str, number: i64) -> Refusal {
    Refusal { before, number, error: libc::ENOSYS, argument: None }
}

const fn argument(
    before: &'static str,
    number: i64,
    error: i32,
    at: u32,
    value: u32,
    mask: u32,
) -> Refusal {
    Refusal { before, number, error, argument: Some((at, value, mask)) }
}

/// Newer calls, and newer values of arguments, of those that this library makes, that its
/// dependencies and the C library make where they can, or that a program's recorder makes.
pub const REFUSALS: [Refusal; 17] = [
    argument("6.4", libc::SYS_prctl, libc::EINVAL, 0, 0x4155_5856, u32::MAX), // PR_GET_AUXV
    argument("6.3", libc::SYS_memfd_create, libc::EINVAL, 1, 8, 8),           // MFD_NOEXEC_SEAL
    argument("6.3", libc::SYS_memfd_create, libc::EINVAL, 1, 16, 16),         // MFD_EXEC
    call("5.16", 449),                                                        // futex_waitv
    argument("5.14", libc::SYS_futex, libc::ENOSYS, 1, 13, 0x7f),             // FUTEX_LOCK_PI2
    argument("5.14", libc::SYS_madvise, libc::EINVAL, 2, 23, u32::MAX),       // MADV_POPULATE_WRITE
    call("5.11", libc::SYS_epoll_pwait2),
    call("5.9", libc::SYS_close_range),
    call("5.8", libc::SYS_faccessat2),
    call("5.6", libc::SYS_openat2),
    call("5.6", libc::SYS_pidfd_getfd),
    call("5.3", libc::SYS_pidfd_open),
    call("5.3", libc::SYS_clone3),
    call("4.18", libc::SYS_rseq),
    call("4.11", libc::SYS_statx),
    call("4.3", libc::SYS_membarrier),
    call("3.17", libc::SYS_getrandom),
];

impl Refusal {
    /// Returns the rule in the form that `refuse.c` reads.
    pub fn rule(&self) -> String {
        let (number, error) = (self.number, self.error);
        match self.argument {
            None => format!("{number},{error}"),
            Some((at, value, mask)) => format!("{number},{error},{at},{value},{mask}"),
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "before Linux {}: {}", self.before, self.rule())
    }
}

//! Memory that stays mapped, so that what allocates does not wait for pages again and again.

/// Has the C library's allocator keep what is freed: nothing goes back to the kernel, and nothing
/// large is mapped and unmapped each time. For the whole process, for good. False if the allocator
/// refuses, which then goes on as before.
pub fn keep() -> bool {
    // As much as there is, as an option of the allocator: one that is -1 means never.
    const NEVER: i32 = -1;
    // SAFETY: mallopt may be called at any time, from any thread; it changes how later allocations are
    // served, not what was allocated.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, NEVER) == 1 && libc::mallopt(libc::M_MMAP_MAX, 0) == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pages that this process has been given so far.
    fn faults() -> i64 {
        // SAFETY: rusage is numbers, for which zeros are values.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: usage is a valid place for the answer.
        let answer = unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) };
        assert_eq!(answer, 0);
        usage.ru_minflt
    }

    #[test]
    fn what_was_freed_is_given_again_without_new_pages() {
        assert!(keep());
        let fill = || std::hint::black_box(vec![1_u8; 8 << 20]).len();
        fill();
        let before = faults();
        (0..20).for_each(|_| assert_eq!(fill(), 8 << 20));
        // Each would be 2048 pages of 4 KiB.
        assert!(faults() - before < 2048, "{}", faults() - before);
    }
}

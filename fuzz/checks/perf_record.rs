//! Records of `perf_event_open` in a ring.

use trace::kernel::perf::{What, parse_record};

/// Panics when the parser does, when it takes more than there is, or when it never ends.
pub fn check(bytes: &[u8]) {
    let mut rest = bytes;
    while let Some((record, size)) = parse_record(rest) {
        assert!((32..=rest.len()).contains(&size), "a record of {size} bytes");
        if let What::Named(_, name) = record.what {
            assert!(name.len() <= size - 40 && !name.contains(&0));
        }
        rest = &rest[size..];
    }
}

//! Names in packets.

use super::NAME_BYTES;
use crate::Error;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A name in a packet: UTF-8, padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Name([u8; NAME_BYTES]);

impl Name {
    /// The empty name.
    pub const EMPTY: Name = Name([0; NAME_BYTES]);

    /// Packs a name.
    ///
    /// # Errors
    /// [`Error::BadName`] when it is empty, too long or not visible.
    pub fn new(what: &'static str, name: &str) -> Result<Name, Error> {
        let mut bytes = [0; NAME_BYTES];
        if !is_good(name) {
            return Err(Error::BadName { what, name: name.into(), limit: NAME_BYTES });
        }
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Ok(Name(bytes))
    }

    /// Packs as much of a name as fits, without what names may not contain.
    pub fn cut(name: &str) -> Name {
        let visible: String = name.chars().filter(|c| ::name::is_visible(*c)).collect();
        let mut cut = Name(super::pack_text(visible.trim_start_matches(' ')));
        let last = cut.0.iter().rposition(|byte| !matches!(byte, 0 | b' '));
        cut.0[last.map_or(0, |last| last + 1)..].fill(0);
        cut
    }

    /// Unpacks the name; None when a peer sent something that [`Name::new`] refuses. The empty
    /// name is unpacked as the empty string.
    pub fn get(&self) -> Option<&str> {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap_or(NAME_BYTES);
        let padded = self.0[length..].iter().all(|&byte| byte == 0);
        let name = std::str::from_utf8(&self.0[..length]).ok()?;
        (padded && (name.is_empty() || is_good(name))).then_some(name)
    }
}

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.get())
    }
}

fn is_good(name: &str) -> bool {
    name.len() <= NAME_BYTES && ::name::check(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_peer_are_checked() {
        assert!(Name::new("chain", "").is_err());
        assert!(Name::new("chain", &"x".repeat(NAME_BYTES + 1)).is_err());
        for name in ["a\nb", " a", " ", "a\u{202e}b", "\u{200b}"] {
            assert!(Name::new("chain", name).is_err());
            assert_eq!(Name(super::super::pack_text(name)).get(), None, "{name:?}");
        }
        assert_eq!(Name([0xff; NAME_BYTES]).get(), None, "not UTF-8");
        let mut hidden = [0; NAME_BYTES];
        (hidden[0], hidden[2]) = (b'a', b'b');
        assert_eq!(Name(hidden).get(), None, "bytes after the end");
        assert_eq!(Name([b'a'; NAME_BYTES]).get().map(str::len), Some(NAME_BYTES));
    }

    #[test]
    fn names_that_do_not_fit_are_cut_at_characters() {
        assert_eq!(Name::cut("gpu\n0").get(), Some("gpu0"));
        assert_eq!(
            Name::cut(&format!(" {}{}b", "a".repeat(40), " ".repeat(8))).get().map(str::len),
            Some(40)
        );
        assert_eq!(Name::cut(" "), Name::EMPTY);
        assert_eq!(Name::cut(&"ä".repeat(30)).get(), Some("ä".repeat(24).as_str()));
        assert_eq!(Name::cut(""), Name::EMPTY);
    }
}

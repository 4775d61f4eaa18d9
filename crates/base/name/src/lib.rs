//! Names and texts that come from a file or from another process.
//!
//! A name is what people read in a table, compare with another one, and type again. So each of its
//! characters has to be seen where it stands: [`check`] refuses names with characters that move
//! the cursor, turn the direction of writing, or show nothing, and [`clean`] makes any text fit to
//! be shown in a terminal.
//!
//! ```
//! assert!(name::check("perception").is_ok());
//! assert!(name::check("per\u{202e}ception").is_err());
//! assert_eq!(name::clean("a\x1b[2Jb"), "a\u{fffd}[2Jb");
//! ```

#![forbid(unsafe_code)]

use std::borrow::Cow;
use unicode_properties::{GeneralCategory, UnicodeGeneralCategory};

/// Reason for which a name is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is nothing.
    #[error("it is empty")]
    Empty,
    /// A space that cannot be seen.
    #[error("it begins or ends with a space")]
    OuterSpace,
    /// A character that cannot be seen.
    #[error("invisible character U+{:04X} at byte {at}", *.found as u32)]
    Invisible {
        /// The character.
        found: char,
        /// The byte at which it stands.
        at: usize,
    },
}

/// Checks that this can be the name of a chain, a service or anything else that people tell apart
/// by it. Its length is the caller's business.
///
/// # Errors
/// The first fault.
pub fn check(name: &str) -> Result<(), Fault> {
    if name.is_empty() {
        return Err(Fault::Empty);
    }
    if let Some((at, found)) = name.char_indices().find(|(_, found)| !is_visible(*found)) {
        return Err(Fault::Invisible { found, at });
    }
    if name.starts_with(' ') || name.ends_with(' ') {
        return Err(Fault::OuterSpace);
    }
    Ok(())
}

/// The text with U+FFFD in the place of each character that [`check`] refuses: nothing moves the
/// cursor, ends the line, or turns the direction of what follows.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_visible) {
        return text.into();
    }
    text.replace(|c| !is_visible(c), "\u{fffd}").into()
}

/// Returns true if a character can be seen where it stands, or is the plain space.
pub fn is_visible(c: char) -> bool {
    if c.is_ascii() {
        return matches!(c, ' '..='~');
    }
    let hidden = matches!(
        c.general_category(),
        GeneralCategory::Control
            | GeneralCategory::Format
            | GeneralCategory::LineSeparator
            | GeneralCategory::ParagraphSeparator
            | GeneralCategory::SpaceSeparator
            | GeneralCategory::Surrogate
            | GeneralCategory::PrivateUse
            | GeneralCategory::Unassigned
    );
    !hidden && !is_blank(c)
}

/// Letters, marks and symbols that show nothing: the rest of Unicode's default ignorable code
/// points, and the blank pattern of braille.
fn is_blank(c: char) -> bool {
    matches!(
        c,
        '\u{034f}'
            | '\u{115f}'..='\u{1160}'
            | '\u{17b4}'..='\u{17b5}'
            | '\u{180b}'..='\u{180f}'
            | '\u{2800}'
            | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}'
            | '\u{ffa0}'
            | '\u{e0100}'..='\u{e01ef}'
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_all_languages_are_taken() {
        for name in ["a", "perception", "lane 2", "größe", "感知", "μ-chain", "سلسلة", "📷", "é"]
        {
            assert_eq!(check(name), Ok(()), "{name}");
            assert_eq!(clean(name), name);
        }
    }

    #[test]
    fn names_that_cannot_be_seen_or_told_apart_are_refused() {
        assert_eq!(check(""), Err(Fault::Empty));
        assert_eq!(check(" "), Err(Fault::OuterSpace));
        assert_eq!(check("a "), Err(Fault::OuterSpace));
        let hidden = [
            '\0',
            '\t',
            '\n',
            '\r',
            '\u{1b}',
            '\u{7f}',
            '\u{85}',
            '\u{9b}',
            '\u{a0}',
            '\u{ad}',
            '\u{34f}',
            '\u{61c}',
            '\u{115f}',
            '\u{180e}',
            '\u{2003}',
            '\u{200b}',
            '\u{200d}',
            '\u{200e}',
            '\u{2028}',
            '\u{202e}',
            '\u{2060}',
            '\u{2066}',
            '\u{2069}',
            '\u{2800}',
            '\u{3000}',
            '\u{3164}',
            '\u{e000}',
            '\u{fe0f}',
            '\u{feff}',
            '\u{fff9}',
            '\u{ffa0}',
            '\u{e0001}',
            '\u{e0041}',
            '\u{e0100}',
            '\u{10ffff}',
        ];
        for found in hidden {
            let name = format!("a{found}b");
            assert_eq!(check(&name), Err(Fault::Invisible { found, at: 1 }), "{found:?}");
            assert_eq!(clean(&name), "a\u{fffd}b");
        }
        let fault = check("a\u{202e}").unwrap_err().to_string();
        assert_eq!(fault, "invisible character U+202E at byte 1");
    }
}

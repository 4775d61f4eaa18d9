//! Text for the columns of a table in a terminal.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Text from outside, without characters that would move the cursor.
pub fn clean(text: &str) -> String {
    name::clean(text).into_owned()
}

/// Fills or cuts a text to a width in columns.
pub fn pad(text: &str, width: usize) -> String {
    let have = text.width();
    if have <= width {
        return format!("{text}{}", " ".repeat(width - have));
    }
    let mut cut = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = used + c.width().unwrap_or(0);
        if next + 1 > width {
            break;
        }
        cut.push(c);
        used = next;
    }
    match width {
        0 => cut,
        _ => format!("{cut}…{}", " ".repeat(width - 1 - used)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_fill_their_columns_exactly() {
        for text in ["", "ab", "abc", "abcd", "日本", "a日本語"] {
            for width in 0..6 {
                assert_eq!(pad(text, width).width(), width, "{text:?} in {width}");
            }
        }
        assert_eq!(pad("abcd", 3), "ab…");
    }

    #[test]
    fn cursor_is_not_moved() {
        assert_eq!(clean("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
